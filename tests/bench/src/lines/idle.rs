//! Pilots with nothing to do: what each costs the manager, how soon a thousand are there, and whether
//! a task costs more among them.

use std::time::{Duration, Instant};

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    measure,
    pilots::Fleet,
    place::{Expected, Place},
};

pub const LINE: &str = "idle";

/// How long the idle ones are watched: what they cost is that their pulls are answered and come again, every 25
/// seconds. Twice, and ten seconds more, after which what they took for that has been given back.
const WATCHED: Duration = Duration::from_secs(60);
const CORES: u32 = 2;
/// More than the idle ones have.
const CORES_NEEDED: u32 = 8;
const N_TASKS: u64 = 100_000;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = run(1_000, 2.0).await?;
    figures.extend(run(10_000, 20.0).await?);
    Ok(figures)
}

async fn run(n_pilots: u32, share_max: f64) -> Result<Vec<Figure>, Trouble> {
    let place = Place::simulated(Expected { has_grace: false, ..Expected::new(n_pilots + 2, CORES) })?;
    // What is needed once, as code that was not read in yet, is no pilot's.
    let first = Fleet::join(&place, n_pilots + 2, n_pilots + 3, CORES).await?;
    let memory = || [measure::own_bytes(place.pid()), measure::resident_bytes(place.pid())];
    let before = memory();
    let joined = measure::cpu(place.pid());
    let idle = Fleet::join(&place, 1, n_pilots + 1, CORES).await?;
    // The last ones send their first pull.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cpu = measure::cpu(place.pid());
    let joined = cpu.saturating_sub(joined).as_secs_f64() * 1e6 / f64::from(n_pilots);
    let began = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let share =
        100.0 * measure::cpu(place.pid()).saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    // What it took while all came at once has been given back by now.
    let kib = |of: usize| memory()[of].saturating_sub(before[of]) as f64 / 1024.0 / f64::from(n_pilots);
    let (own, all) = (kib(0), kib(1));

    // Only this one has room for the tasks, so the others stay idle.
    let working = Fleet::join(&place, n_pilots + 1, n_pilots + 2, CORES_NEEDED).await?;
    let mut spec = api::sweep(&["/bin/true"], N_TASKS);
    spec.cores = CORES_NEEDED;
    let cpu = measure::cpu(place.pid());
    place.api()?.submit(&spec).await?;
    let took = working.until(N_TASKS).await?;
    let cpu = measure::cpu(place.pid()).saturating_sub(cpu).as_secs_f64() * 1e6 / N_TASKS as f64;

    drop(first);
    let words = if n_pilots == 1_000 { "1,000" } else { "10,000" };
    let figure = |what: &str, value, unit, goal| {
        Figure::new(LINE, format!("{words} pilots: {what}"), value, unit, goal)
    };
    let goal = if n_pilots == 1_000 { Goal::AtMost(1.0) } else { Goal::None };
    let rate = N_TASKS as f64 / took.as_secs_f64();
    Ok(vec![
        figure("all registered in", idle.registered_in.as_secs_f64(), "s", goal),
        figure("manager CPU a registration and first pull", joined, "µs", Goal::None),
        figure("manager memory for each", own, "KiB", Goal::AtMost(8.0)).recorded("HyperQueue 95"),
        figure("… with code that was read in meanwhile", all, "KiB", Goal::None),
        figure("idle: share of a core", share, "%", Goal::AtMost(share_max)).recorded("HyperQueue 0.5"),
        figure("no-process tasks by one among them", rate, "/s", Goal::None).recorded("HyperQueue 656"),
        figure("pulls a 1,000 tasks", working.n_pulls() as f64 * 1e3 / N_TASKS as f64, "", Goal::None),
        figure("manager CPU a task then", cpu, "µs", Goal::AtMost(1.0)).recorded("HyperQueue 75"),
    ])
}
