//! Sweeps of which every task fails, beside the same sweeps of which every task succeeds: without processes by simulated
//! agents, and `/bin/false` beside `/bin/true` by one real agent with two slots.

use std::time::Duration;

use protocol::job::JobSpec;
use scheduler::engine::interface::views::JobView;

use crate::{
    Trouble,
    api::{self, Api},
    figure::{Figure, Goal},
    measure,
    pilots::Fleet,
    place::{Expected, Place},
};

use super::{process::warm_up, resident::FAILING};

pub const LINE: &str = "failing";

/// The measure: at least a quarter of the speed of successes.
const GOAL: Goal = Goal::AtLeast(0.25);
const N_TASKS: u64 = 400_000;
const AGENTS: [u32; 3] = [1, 4, 16];
const CORES: u32 = 2;
const N_PROCESSES: u64 = 4_000;
const N_ANSWERS: u64 = 200_000;
const PAUSE: Duration = Duration::from_millis(20);

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    for n_agents in AGENTS {
        figures.extend(without_processes(n_agents).await?);
    }
    figures.extend(with_processes().await?);
    Ok(figures)
}

async fn without_processes(n_agents: u32) -> Result<Vec<Figure>, Trouble> {
    let place = Place::simulated(Expected::new(n_agents, CORES))?;
    let fleet = Fleet::join(&place, 1, n_agents + 1, CORES).await?;
    let mut api = place.api()?;
    let spec = api::sweep(&["/bin/true"], N_TASKS);
    let done = api.submit(&spec).await?;
    let succeeded = N_TASKS as f64 / fleet.until(N_TASKS).await?.as_secs_f64();
    api.wait(done, PAUSE).await?;
    let (cpu, store) = (measure::cpu(place.pid()), place.store_bytes()?);
    fleet.set_failing(true);
    let job = api.submit(&spec).await?;
    let failed = N_TASKS as f64 / fleet.until(2 * N_TASKS).await?.as_secs_f64();
    all_failed(&api.until_over(job, PAUSE).await?)?;
    let cpu = (measure::cpu(place.pid()) - cpu).as_secs_f64() * 1e6 / N_TASKS as f64;
    let store = (place.store_bytes()? - store) as f64 / N_TASKS as f64;
    let name = |what: &str| format!("{n_agents} agents, no processes: {what}");
    let figure = |what: &str, value, unit, goal| Figure::new(LINE, name(what), value, unit, goal);
    Ok(vec![
        figure("failures / successes", failed / succeeded, "", GOAL),
        figure("successes", succeeded, "/s", Goal::None),
        figure("failures", failed, "/s", Goal::None),
        figure("manager CPU a failure", cpu, "µs", Goal::None),
        figure("store a failure", store, "bytes", Goal::None),
    ])
}

async fn with_processes() -> Result<Vec<Figure>, Trouble> {
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let succeeded = rate(&mut api, &api::sweep(&["/bin/true"], N_PROCESSES), false).await?;
    let failed = rate(&mut api, &api::sweep(&["/bin/false"], N_PROCESSES), true).await?;
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("this program's path is not UTF-8")?;
    let resident = |words: &[&str]| JobSpec { resident: true, ..api::sweep(words, N_ANSWERS) };
    let answered = rate(&mut api, &resident(&[program, "answer"]), false).await?;
    let refused = rate(&mut api, &resident(&[program, "answer", FAILING]), true).await?;
    let figure = |what: &str, value, unit, goal| Figure::new(LINE, what, value, unit, goal);
    Ok(vec![
        figure("/bin/false / /bin/true, one agent of two slots", failed / succeeded, "", GOAL),
        figure("/bin/true", succeeded, "/s", Goal::None),
        figure("/bin/false", failed, "/s", Goal::None),
        figure("tasks of a resident program: failures / successes", refused / answered, "", GOAL),
        figure("successes of it", answered, "/s", Goal::None),
        figure("failures of it", refused, "/s", Goal::None),
    ])
}

/// Tasks of a job a second, by the manager's clock.
async fn rate(api: &mut Api, spec: &JobSpec, fails: bool) -> Result<f64, Trouble> {
    let job = api.submit(spec).await?;
    let view = api.until_over(job, PAUSE).await?;
    if fails {
        all_failed(&view)?;
    }
    let took = view.ended_at.map_or(0, |ended| ended.0 - view.submitted_at.0) as f64 / 1e6;
    Ok(view.counts.total as f64 / took)
}

fn all_failed(view: &JobView) -> Result<(), Trouble> {
    match view.counts.failed == view.counts.total {
        true => Ok(()),
        false => Err(format!("not all tasks of job {} have failed: {:?}", view.id, view.counts).into()),
    }
}
