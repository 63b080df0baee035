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

/// How long the idle ones are watched.
const WATCHED: Duration = Duration::from_secs(10);
const CORES: u32 = 2;
const N_TASKS: u64 = 200_000;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = run(1_000, 2.0).await?;
    figures.extend(run(10_000, 20.0).await?);
    Ok(figures)
}

async fn run(n_pilots: u32, share_max: f64) -> Result<Vec<Figure>, Trouble> {
    let place = Place::simulated(Expected { n_pilots, cores: CORES })?;
    let before = measure::resident_bytes(place.pid());
    let fleet = Fleet::join(&place, 1, n_pilots + 1, CORES).await?;
    // The last ones send their first pull.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let cpu = measure::cpu(place.pid());
    let began = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let share = 100.0 * (measure::cpu(place.pid()) - cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    let memory = measure::resident_bytes(place.pid()).saturating_sub(before) as f64 / f64::from(n_pilots);

    let mut api = place.api()?;
    let (cpu, begun) = (measure::cpu(place.pid()), Instant::now());
    let job = api.submit(&api::sweep(&["/bin/true"], N_TASKS)).await?;
    fleet.until(N_TASKS).await?;
    let took = begun.elapsed();
    let cpu = (measure::cpu(place.pid()) - cpu).as_secs_f64() * 1e6 / N_TASKS as f64;
    api.wait(job, Duration::from_millis(5)).await?;

    let words = if n_pilots == 1_000 { "1,000" } else { "10,000" };
    let figure =
        |what: &str, value, unit, goal| Figure::new(LINE, format!("{words} pilots: {what}"), value, unit, goal);
    let goal = if n_pilots == 1_000 { Goal::AtMost(1.0) } else { Goal::None };
    let rate = N_TASKS as f64 / took.as_secs_f64();
    Ok(vec![
        figure("all registered in", fleet.registered_in.as_secs_f64(), "s", goal),
        figure("manager memory for each", memory / 1024.0, "KiB", Goal::AtMost(8.0))
            .recorded("HyperQueue 95"),
        figure("idle: share of a core", share, "%", Goal::AtMost(share_max)).recorded("HyperQueue 0.5"),
        figure("no-process tasks by all of them", rate, "/s", Goal::None).recorded("HyperQueue 656"),
        figure("manager CPU a task then", cpu, "µs", Goal::None).recorded("HyperQueue 75"),
    ])
}
