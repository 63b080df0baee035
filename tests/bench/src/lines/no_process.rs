//! Tasks without processes through one manager with a durable store: what the manager itself can do.

use std::time::Duration;

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    measure,
    pilots::Fleet,
    place::{Expected, Place},
};

pub const LINE: &str = "no-process";

/// Agents, tasks, whether they take tasks from each other, the goal and the peer's figure for tasks a second.
const ROUNDS: [(u32, u64, bool, f64, &str); 5] = [
    (1, 2_000_000, false, 200_000.0, "HyperQueue 900"),
    (4, 2_000_000, false, 400_000.0, "HyperQueue 3,600"),
    (16, 2_000_000, false, 500_000.0, "HyperQueue 12,000"),
    (64, 2_000_000, false, 500_000.0, "HyperQueue 39,500"),
    (64, 2_000_000, true, 500_000.0, "HyperQueue 39,500"),
];
const CORES: u32 = 2;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    for (n_agents, n_tasks, steals, goal, peer) in ROUNDS {
        let round = run(n_agents, n_tasks, steals).await?;
        let a_task = |cpu: Duration| cpu.as_secs_f64() * 1e6 / n_tasks as f64;
        let agents = match (n_agents, steals) {
            (1, _) => "agent",
            (_, false) => "agents",
            (_, true) => "agents that steal",
        };
        let name = |what: &str| format!("{n_agents} {agents}: {what}");
        let rate = n_tasks as f64 / round.took.as_secs_f64();
        let figure = |what: &str, value, unit, goal| Figure::new(LINE, name(what), value, unit, goal);
        figures.extend([
            figure("no-process tasks", rate, "/s", Goal::AtLeast(goal)).recorded(peer),
            figure("manager CPU a task", a_task(round.manager_cpu), "µs", Goal::AtMost(1.0))
                .recorded("HyperQueue 5.1, journal off"),
            figure("simulated agents' CPU a task", a_task(round.agents_cpu), "µs", Goal::None),
            figure("store a task", round.store_bytes as f64 / n_tasks as f64, "bytes", Goal::AtMost(8.0))
                .recorded("HyperQueue 33"),
            figure("pulls a 1,000 tasks", round.n_pulls as f64 * 1e3 / n_tasks as f64, "", Goal::None),
        ]);
        figures
            .extend(steals.then(|| figure("tasks taken from others", round.n_taken as f64, "", Goal::None)));
    }
    Ok(figures)
}

struct Round {
    took: Duration,
    manager_cpu: Duration,
    agents_cpu: Duration,
    store_bytes: u64,
    n_pulls: u64,
    n_taken: u64,
}

async fn run(n_agents: u32, n_tasks: u64, steals: bool) -> Result<Round, Trouble> {
    let place = Place::simulated(Expected::new(n_agents, CORES))?;
    let fleet = Fleet::join(&place, 1, n_agents + 1, CORES).await?;
    let mut api = place.api()?;
    if steals {
        api.set_policy("stealing", "lend").await?;
    }
    let (store_before, pulls_before) = (place.store_bytes()?, fleet.n_pulls());
    let (manager_before, agents_before) = (measure::cpu(place.pid()), measure::own_cpu());
    let job = api.submit(&api::sweep(&["/bin/true"], n_tasks)).await?;
    let took = fleet.until(n_tasks).await?;
    let manager_cpu = measure::cpu(place.pid()) - manager_before;
    let agents_cpu = measure::own_cpu() - agents_before;
    api.wait(job, Duration::from_millis(5)).await?;
    let store_bytes = place.store_bytes()? - store_before;
    let n_pulls = fleet.n_pulls() - pulls_before;
    Ok(Round { took, manager_cpu, agents_cpu, store_bytes, n_pulls, n_taken: fleet.n_taken() })
}
