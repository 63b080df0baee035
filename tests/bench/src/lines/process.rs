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

/// The floor and the tasks take turns, so that neighbours come and go for both alike.
const N_ROUNDS: usize = 5;
const N_TASKS: u64 = 1_500;
const N_FLOOR: u64 = 600;
/// So often the manager is asked whether it is done.
const PAUSE: Duration = Duration::from_millis(100);

/// Tasks and bare processes a second.
struct Round {
    rate: f64,
    floor: f64,
}

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::real()?;
    let mut api = place.api()?;
    warm_up(&mut api).await?;
    let agents = place.agents();
    let cpu = || agents.iter().map(|pid| measure::cpu(*pid)).sum::<Duration>();
    let children = || agents.iter().map(|pid| measure::children_cpu(*pid)).sum::<Duration>();
    let (store, agent, manager, tasks) = (place.store_bytes()?, cpu(), measure::cpu(place.pid()), children());
    let (mut rounds, mut floor_cpu) = (Vec::new(), Duration::ZERO);
    for _ in 0..N_ROUNDS {
        let before = measure::own_and_children_cpu();
        let floor = floor::spawns_a_second(N_FLOOR)?;
        floor_cpu += measure::own_and_children_cpu() - before;
        let job = api.submit(&api::sweep(&["/bin/true"], N_TASKS)).await?;
        let view = api.wait(job, PAUSE).await?;
        // By the manager's own clock: no question of when it was asked.
        let took = view.ended_at.map_or(0, |ended| ended.0 - view.submitted_at.0) as f64 / 1e6;
        rounds.push(Round { rate: N_TASKS as f64 / took, floor });
    }
    let n_tasks = N_ROUNDS as f64 * N_TASKS as f64;
    let us = |cpu: Duration, n: f64| cpu.as_secs_f64() * 1e6 / n;
    let agent = us(cpu() - agent, n_tasks);
    let manager = us(measure::cpu(place.pid()) - manager, n_tasks);
    let tasks = us(children() - tasks, n_tasks);
    let floor_cpu = us(floor_cpu, N_ROUNDS as f64 * N_FLOOR as f64);
    let store = (place.store_bytes()? - store) as f64 / n_tasks;
    let memory = agents.iter().map(|pid| measure::resident_bytes(*pid)).max().unwrap_or(0);
    drop(place);
    let middle = |value: fn(&Round) -> f64| measure::percentiles(rounds.iter().map(value).collect()).0;
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    let share = middle(|round| round.rate / round.floor);
    let share = figure("/bin/true tasks / posix_spawn floor", share, "", Goal::AtLeast(0.88));
    let floor = middle(|round| round.floor);
    let peers = [
        ("HyperQueue", peer::processes_a_second(n_tasks as u64)),
        ("xargs", peer::xargs_a_second(N_FLOOR * 5)),
        ("Python pool", peer::python_a_second(N_FLOOR * 5, true)),
    ];
    let peers = peers.iter().filter_map(|(name, rate)| Some(format!("{name} {:.2}", (*rate)? / floor)));
    let peers: Vec<String> = peers.collect();
    let by_cpu = floor_cpu / (agent + manager + tasks);
    Ok(vec![
        match peers.is_empty() {
            false => share.measured(peers.join(", ")),
            true => share.recorded("HyperQueue 0.52, Python pool 0.64"),
        },
        figure("the same by CPU time, whoever else is on the machine", by_cpu, "", Goal::None),
        figure("/bin/true tasks", middle(|round| round.rate), "/s", Goal::None),
        figure("posix_spawn floor of this run", floor, "/s", Goal::None),
        figure("agent CPU a task beside the child's", agent, "µs", Goal::AtMost(80.0))
            .recorded("HyperQueue 333"),
        figure("agent CPU / child's CPU", agent / tasks, "", Goal::AtMost(0.1)),
        figure("child's CPU a task", tasks, "µs", Goal::None),
        figure("floor: child and parent CPU a process", floor_cpu, "µs", Goal::None),
        figure("manager CPU a process task", manager, "µs", Goal::None).recorded("HyperQueue 22 .. 38"),
        figure("store a process task", store, "bytes", Goal::AtMost(8.0)).recorded("HyperQueue 33"),
        figure(
            "agent memory, the larger of guard and worker",
            memory as f64 / 1_048_576.0,
            "MiB",
            Goal::None,
        ),
    ])
}

/// Lets the agent come and learn how long such tasks take.
pub async fn warm_up(api: &mut Api) -> Result<(), Trouble> {
    let job = api.submit(&api::sweep(&["/bin/true"], 100)).await?;
    api.wait(job, PAUSE).await?;
    Ok(())
}
