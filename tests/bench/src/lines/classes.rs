//! Sixty-four jobs whose tasks all need something else, and sixty-four pilots.

use std::time::Duration;

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    measure,
    pilots::Fleet,
    place::{Expected, Place},
};

pub const LINE: &str = "classes";

const N: u32 = 64;
const N_TASKS: u64 = 5_000;
const CORES: u32 = 8;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::simulated(Expected::new(N, CORES))?;
    let mut api = place.api()?;
    let mut n_tasks = 0;
    for n in 0..N {
        let share = N_TASKS / u64::from(N) + u64::from(u64::from(n) < N_TASKS % u64::from(N));
        let mut spec = api::sweep(&["/bin/true"], share);
        spec.cores = 1 + n % CORES;
        spec.memory_bytes = u64::from(n + 1) << 20;
        api.submit(&spec).await?;
        n_tasks += share;
    }
    // All is there before the first pilot asks: what is measured is who gets what.
    let cpu = measure::cpu(place.pid());
    let fleet = Fleet::join(&place, 1, N + 1, CORES).await?;
    let took = fleet.until(n_tasks).await?;
    let cpu = measure::cpu(place.pid()) - cpu;
    let rate = n_tasks as f64 / took.as_secs_f64();
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    let repeated = fleet.n_begun() - n_tasks;
    let a_task = |cpu: Duration| cpu.as_secs_f64() * 1e6 / n_tasks as f64;
    let pulls = fleet.n_pulls() as f64 * 1e3 / n_tasks as f64;
    Ok(vec![
        figure("64 classes x 64 pilots, 5,000 tasks", rate, "/s", Goal::AtLeast(100_000.0))
            .recorded("HyperQueue 153"),
        figure("manager CPU a task, 64 registrations included", a_task(cpu), "µs", Goal::None)
            .recorded("HyperQueue 5,600"),
        figure("pulls a 1,000 tasks", pulls, "", Goal::None),
        figure("done again", repeated as f64, "tasks", Goal::Exactly(0.0)),
    ])
}
