//! `/bin/true` through a real manager and one real agent with two slots, output captured, against the
//! floor of the same run.

use std::time::Duration;

use crate::{
    Trouble, api,
    api::Api,
    figure::{Figure, Goal},
    floor, measure, peer,
    place::Place,
};

pub const LINE: &str = "process";

const N_TASKS: u64 = 6_000;
const N_FLOOR: u64 = 3_000;
/// While it is waited for, the manager is asked this often: 20 times a second cost nothing that shows.
const PAUSE: Duration = Duration::from_millis(5);

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    // The floor before and after: neighbours come and go.
    let before = floor::spawns_a_second(N_FLOOR)?;
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let agents = place.agents();
    let cpu = |pids: &[u32]| pids.iter().map(|pid| measure::cpu(*pid)).sum::<Duration>();
    let (store, agent, manager) = (place.store_bytes()?, cpu(&agents), measure::cpu(place.pid()));
    let job = api.submit(&api::sweep(&["/bin/true"], N_TASKS)).await?;
    let view = api.wait(job, PAUSE).await?;
    let a_task = |cpu: Duration| cpu.as_secs_f64() * 1e6 / N_TASKS as f64;
    let agent = a_task(cpu(&agents) - agent);
    let manager = a_task(measure::cpu(place.pid()) - manager);
    let store = (place.store_bytes()? - store) as f64 / N_TASKS as f64;
    let memory = agents.iter().map(|pid| measure::resident_bytes(*pid)).max().unwrap_or(0);
    drop(place);
    let floor = f64::midpoint(before, floor::spawns_a_second(N_FLOOR)?);
    // By the manager's own clock: no question of when it was asked.
    let took = view.ended_at.map_or(0, |ended| ended.0 - view.submitted_at.0) as f64 / 1e6;
    let rate = N_TASKS as f64 / took;
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    let share = figure("/bin/true tasks / floor", rate / floor, "", Goal::AtLeast(0.88));
    Ok(vec![
        match peer::processes_a_second(N_TASKS) {
            Some(peer) => share.measured(format!("HyperQueue {:.2}", peer / floor)),
            None => share.recorded("HyperQueue 0.52, Python pool 0.64"),
        },
        figure("/bin/true tasks", rate, "/s", Goal::None),
        figure("posix_spawn floor of this run", floor, "/s", Goal::None),
        figure("agent CPU a task beside the child's", agent, "µs", Goal::AtMost(80.0))
            .recorded("HyperQueue 333"),
        figure("manager CPU a process task", manager, "µs", Goal::None).recorded("HyperQueue 22 .. 38"),
        figure("store a process task", store, "bytes", Goal::AtMost(8.0)).recorded("HyperQueue 33"),
        figure("agent memory, the larger of guard and worker", memory as f64 / 1048576.0, "MiB", Goal::None),
    ])
}

/// Lets the agent come and learn how long such tasks take.
pub async fn warm_up(api: &mut Api) -> Result<(), Trouble> {
    let job = api.submit(&api::sweep(&["/bin/true"], 100)).await?;
    api.wait(job, PAUSE).await?;
    Ok(())
}
