//! One task at a time, back to back, with a waiting real agent: from its submission to its end.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Trouble, api,
    events::Events,
    figure::{Figure, Goal},
    floor::Floors,
    measure::percentiles,
    peer,
    place::{Place, program},
};

use super::process::warm_up;

pub const LINE: &str = "latency";

const N_TASKS: usize = 200;
const N_PEER: usize = 30;
/// Of a round trip, a flush and a process; by the command line of two of its starts, too.
const RATIO: f64 = 2.5;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let floors = Floors::measure()?;
    let place = Place::real()?;
    warm_up(&mut place.api()?).await?;
    let streamed = by_events(&place).await?;
    let polled = by_asking(&place).await?;
    let by_command = by_command(&place)?;
    let peer = peer::latencies(N_PEER).map(|all| percentiles(all).0 * 1e3);
    let figure = |name: &str, value: f64, goal| Figure::new(LINE, name, value, "ms", goal);
    let mut figures = Vec::new();
    let ways = [
        ("API, event stream", streamed, Some((1.5, 5.0)), floors.of_task()),
        ("API, asking again and again", polled, None, floors.of_task()),
        ("command line, submit --wait", by_command, Some((3.0, 8.0)), floors.of_task() + 2.0 * floors.start),
    ];
    for (way, seconds, goals, floor) in ways {
        let (median, high) = percentiles(seconds);
        let goal = |goal: Option<f64>| goal.map_or(Goal::None, Goal::AtMost);
        let p50 = figure(&format!("{way}: p50"), median * 1e3, goal(goals.map(|goals| goals.0)));
        figures.push(match (way.starts_with("API"), peer) {
            (true, _) => p50.recorded("Work Queue 2.3"),
            (false, Some(peer)) => p50.measured(format!("HyperQueue {peer:.1}")),
            (false, None) => p50.recorded("HyperQueue 64"),
        });
        figures.push(figure(&format!("{way}: p99"), high * 1e3, goal(goals.map(|goals| goals.1))));
        let ratio = goals.map_or(Goal::None, |_| Goal::AtMost(RATIO));
        let name = format!("{way}: p50 / floor of this run, {:.2} ms", floor * 1e3);
        figures.push(Figure::new(LINE, name, median / floor, "", ratio));
    }
    Ok(figures)
}

async fn by_events(place: &Place) -> Result<Vec<f64>, Trouble> {
    let (mut api, mut events) = (place.api()?, Events::open(&place.access).await?);
    let mut seconds = Vec::new();
    for _ in 0..N_TASKS {
        let began = Instant::now();
        let job = api.submit(&api::sweep(&["/bin/true"], 1)).await?;
        events.until_over(job).await?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

async fn by_asking(place: &Place) -> Result<Vec<f64>, Trouble> {
    let mut api = place.api()?;
    let mut seconds = Vec::new();
    for _ in 0..N_TASKS {
        let began = Instant::now();
        let job = api.submit(&api::sweep(&["/bin/true"], 1)).await?;
        api.wait(job, Duration::ZERO).await?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

fn by_command(place: &Place) -> Result<Vec<f64>, Trouble> {
    let mut seconds = Vec::new();
    for _ in 0..N_TASKS / 2 {
        let mut command = Command::new(program()?);
        command.args(["submit", "--wait", "--quiet", "--dir"]).arg(place.folder.path());
        command.args(["--", "/bin/true"]).stdin(Stdio::null()).stdout(Stdio::null());
        let began = Instant::now();
        let status = command.status()?;
        seconds.push(began.elapsed().as_secs_f64());
        if !status.success() {
            return Err(format!("pilotfish submit --wait: {status}").into());
        }
    }
    Ok(seconds)
}
