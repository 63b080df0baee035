//! Tasks that wait for each other: a chain, one task before many before one, and a million edges. As processes by a real agent of two
//! slots against the floor of the same run, and without processes.

use std::time::{Duration, Instant};

use protocol::job::{AfterSpec, OnSpec, StageSpec, WorkflowSpec};
use scheduler::{
    edges::{Edges, Listed, OnFailedDependency},
    ids::JobId,
};

use crate::{
    Trouble,
    api::{self, Api},
    figure::{Figure, Goal},
    floor, measure,
    pilots::Fleet,
    place::{Expected, Place},
};

use super::process::warm_up;

pub const LINE: &str = "graphs";

const N_CHAIN: u64 = 10_000;
const N_FAN: u64 = 100_000;
/// Layers of so many tasks, of which each waits for so many of the layer before.
const N_LAYER: u64 = 1_000;
const N_EACH: u64 = 10;
const N_EDGES: u64 = 1_000_000;
const N_FLOOR: u64 = 2_000;
const PAUSE: Duration = Duration::from_millis(20);
/// Agents and their cores, where tasks are no processes.
const N_AGENTS: u32 = 4;
const CORES: u32 = 2;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let (chain, fan) = (chain(N_CHAIN)?, fan(N_FAN));
    let figure = |name: &str, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    let us = |took: Duration, n: u64| took.as_secs_f64() * 1e6 / n as f64;
    let mut figures = Vec::new();

    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let link_ms = us(run(&mut api, &chain).await?, N_CHAIN) / 1e3;
    figures.push(
        figure("chain of 10,000 /bin/true: a task", link_ms, "ms", Goal::AtMost(1.5))
            .recorded("HyperQueue 48"),
    );
    let before = floor::spawns_a_second(N_FLOOR)?;
    let rate = N_FAN as f64 / run(&mut api, &fan).await?.as_secs_f64();
    let floor = f64::midpoint(before, floor::spawns_a_second(N_FLOOR)?);
    let share =
        figure("1, 100,000 and 1 /bin/true / posix_spawn floor", rate / floor, "", Goal::AtLeast(0.8));
    figures.push(share.recorded("HyperQueue 0.26"));
    figures.push(figure("1, 100,000 and 1 /bin/true", rate, "/s", Goal::None));
    drop(place);

    let place = Place::simulated(Expected::new(N_AGENTS, CORES))?;
    let _fleet = Fleet::join(&place, 1, N_AGENTS + 1, CORES).await?;
    let mut api = place.api()?;
    for (name, workflow, n) in
        [("chain of 10,000, no processes", &chain, N_CHAIN), ("1, 100,000 and 1, no processes", &fan, N_FAN)]
    {
        let before = measure::cpu(place.pid());
        let took = run(&mut api, workflow).await?;
        let cpu = us(measure::cpu(place.pid()) - before, n);
        figures.push(figure(&format!("{name}: a task"), us(took, n), "µs", Goal::None));
        figures.push(figure(&format!("{name}: manager CPU a task"), cpu, "µs", Goal::None));
    }
    let (layers, n_tasks) = (layers()?, N_LAYER + N_EDGES / N_EACH);
    let body = serde_json::to_vec(&layers)?.len();
    let (memory, begun) = (measure::resident_bytes(place.pid()), Instant::now());
    let jobs = api.submit_workflow(&layers).await?;
    let accepted = begun.elapsed();
    let more = measure::resident_bytes(place.pid()).saturating_sub(memory);
    let took = over(&mut api, &jobs).await?;
    figures.extend([
        figure("a million edges: as they are sent", body as f64 / N_EDGES as f64, "bytes each", Goal::None),
        figure("a million edges: accepted in", accepted.as_secs_f64() * 1e3, "ms", Goal::None),
        figure(
            "a million edges: memory of the manager",
            more as f64 / N_EDGES as f64,
            "bytes each",
            Goal::None,
        ),
        figure("a million edges, no processes: a task", us(took, n_tasks), "µs", Goal::None),
    ]);
    Ok(figures)
}

/// From the acceptance of a workflow to the end of its last stage, by the manager's own clock.
async fn run(api: &mut Api, workflow: &WorkflowSpec) -> Result<Duration, Trouble> {
    let jobs = api.submit_workflow(workflow).await?;
    over(api, &jobs).await
}

/// As above, of jobs that have been accepted.
async fn over(api: &mut Api, jobs: &[JobId]) -> Result<Duration, Trouble> {
    let (Some(first), Some(last)) = (jobs.first(), jobs.last()) else { return Err("no stages".into()) };
    let ended = api.wait(*last, PAUSE).await?.ended_at.map_or(0, |ended| ended.0);
    Ok(Duration::from_micros(ended - api.job(*first).await?.submitted_at.0))
}

/// Each task after the one before it.
fn chain(n_tasks: u64) -> Result<WorkflowSpec, Trouble> {
    let listed = Listed::new((0..n_tasks).map(|task| task.checked_sub(1)))?;
    let links = AfterSpec { on: OnSpec::Stage(0), edges: Edges::Listed(listed) };
    Ok(workflow(vec![stage("links", n_tasks, vec![links])]))
}

/// Each task after ten of the layer before it, spread over that.
fn layers() -> Result<WorkflowSpec, Trouble> {
    let before = |task: u64| {
        let n = if task < N_LAYER { 0 } else { N_EACH };
        let layer = task - task % N_LAYER;
        (0..n).map(move |k| layer - N_LAYER + (task + k * N_LAYER / N_EACH) % N_LAYER)
    };
    let n_tasks = N_LAYER + N_EDGES / N_EACH;
    let listed = Listed::new((0..n_tasks).map(before))?;
    let after = AfterSpec { on: OnSpec::Stage(0), edges: Edges::Listed(listed) };
    Ok(workflow(vec![stage("layers", n_tasks, vec![after])]))
}

/// One task, then many, then one.
fn fan(n_tasks: u64) -> WorkflowSpec {
    let all = |on| vec![AfterSpec { on: OnSpec::Stage(on), edges: Edges::All }];
    workflow(vec![stage("first", 1, vec![]), stage("many", n_tasks, all(0)), stage("last", 1, all(1))])
}

fn stage(name: &str, n_tasks: u64, after: Vec<AfterSpec>) -> StageSpec {
    let job = api::sweep(&["/bin/true"], n_tasks);
    StageSpec { name: name.to_owned(), job, after, on_failed_dependency: OnFailedDependency::default() }
}

fn workflow(stages: Vec<StageSpec>) -> WorkflowSpec {
    WorkflowSpec { name: LINE.to_owned(), stages }
}
