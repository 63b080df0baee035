//! A million environments that are all different, read from a CSV file: what it costs to check and
//! submit them, and what manager and agent keep of them.

use std::{
    fmt::Write,
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Trouble,
    figure::{Figure, Goal},
    measure,
    place::{Place, program},
};

use super::process::warm_up;

pub const LINE: &str = "environments";

const N_ROWS: u64 = 1_000_000;
/// So many of the tasks have run when the agent's memory is looked at.
const N_RUN: u64 = 200;

const JOB: &str = "\
name: environments
command: [/bin/true]
env: {SEED: '{seed}', LABEL: 'run-{label}'}
sweep: {csv: {file: rows.csv}}
";

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let mut rows = String::from("seed,label\n");
    for n in 0..N_ROWS {
        writeln!(rows, "{},{:08x}", 1_000_000 + n, n.wrapping_mul(2_654_435_761))?;
    }
    fs::write(place.folder.path().join("rows.csv"), &rows)?;
    fs::write(place.folder.path().join("job.yaml"), JOB)?;

    let folder = place.folder.path();
    let check = timed(folder, &["check", "job.yaml"])?;
    let before = (measure::resident_bytes(place.pid()), memory(&place));
    let submit = timed(folder, &["submit", "job.yaml", "--quiet", "--dir", &folder.to_string_lossy()])?;
    let job = scheduler::ids::JobId(2);
    let began = Instant::now();
    while api.job(job).await?.counts.done < N_RUN {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if began.elapsed() > Duration::from_secs(60) {
            return Err("the job does not begin".into());
        }
    }
    let first = began.elapsed();
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let after = (measure::resident_bytes(place.pid()), memory(&place));
    let figure = |name: &str, value, unit| Figure::new(LINE, name, value, unit, Goal::None);
    Ok(vec![
        figure("rows of text", mib(rows.len() as u64), "MiB"),
        figure("checked in (command line)", check, "s"),
        figure("submitted in (command line)", submit, "s"),
        figure("200 tasks of it done after", first.as_secs_f64(), "s"),
        figure("manager memory kept", mib(after.0.saturating_sub(before.0)), "MiB"),
        figure("manager memory at its peak", mib(measure::peak_bytes(place.pid())), "MiB"),
        figure("agent memory kept", mib(after.1.saturating_sub(before.1)), "MiB"),
    ])
}

fn timed(folder: &Path, words: &[&str]) -> Result<f64, Trouble> {
    let mut command = Command::new(program()?);
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let began = Instant::now();
    let status = command.status()?;
    match status.success() {
        true => Ok(began.elapsed().as_secs_f64()),
        false => Err(format!("pilotfish {words:?}: {status}").into()),
    }
}

/// The agent's memory: that of the larger of guard and worker.
fn memory(place: &Place) -> u64 {
    place.agents().iter().map(|pid| measure::resident_bytes(*pid)).max().unwrap_or(0)
}
