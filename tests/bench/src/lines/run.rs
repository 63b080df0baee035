//! `pilotfish run` of 1,000 processes, beside GNU parallel and `xargs` with as many slots: what somebody waits for who
//! types it.

use std::{
    process::{Command, Stdio},
    time::Instant,
};

use crate::{
    Trouble,
    figure::{Figure, Goal},
    measure, peer,
    place::{Folder, program},
};

pub const LINE: &str = "run";

const N_PROCESSES: u64 = 1_000;
const N_ROUNDS: usize = 3;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let n_slots = std::thread::available_parallelism()?.get();
    let (mut ours, mut parallel, mut xargs) = (Vec::new(), Vec::new(), Vec::new());
    // They take turns, so that neighbours come and go for all alike.
    for _ in 0..N_ROUNDS {
        ours.push(run()?);
        parallel.extend(peer::parallel_seconds(N_PROCESSES, n_slots));
        xargs.extend(peer::xargs_seconds(N_PROCESSES, n_slots));
    }
    let middle = |seconds: Vec<f64>| measure::percentiles(seconds).0;
    let ours = middle(ours);
    let mut figures = vec![Figure::new(LINE, "pilotfish run", ours, "s", Goal::None)];
    let others = [("GNU parallel", parallel, Goal::AtMost(1.0)), ("xargs", xargs, Goal::None)];
    for (name, seconds, goal) in others {
        if seconds.is_empty() {
            eprintln!("{LINE}: {name} is not installed, so nothing is compared with it");
            continue;
        }
        let theirs = middle(seconds);
        figures.push(Figure::new(LINE, name, theirs, "s", Goal::None));
        figures.push(Figure::new(LINE, format!("pilotfish run / {name}"), ours / theirs, "", goal));
    }
    Ok(figures)
}

/// Seconds of a run in a folder of its own.
fn run() -> Result<f64, Trouble> {
    let folder = Folder::new()?;
    let mut command = Command::new(program()?);
    command.args(["run", "--quiet", "--array", &format!("1-{N_PROCESSES}"), "--", "/bin/true"]);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let began = Instant::now();
    let status = command.status()?;
    let took = began.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err(format!("pilotfish run: {status}").into()) }
}
