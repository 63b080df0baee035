//! Ten million tasks through one store: the manager's memory must not grow with them.

use std::time::Duration;

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    measure,
    pilots::Fleet,
    place::{Expected, Place},
};

pub const LINE: &str = "many-tasks";

const N_TASKS: u64 = 10_000_000;
const EXPECTED: Expected = Expected::new(8, 2);

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::simulated(EXPECTED)?;
    let fleet = Fleet::join(&place, 1, EXPECTED.n_pilots + 1, EXPECTED.cores).await?;
    let mut api = place.api()?;
    let start = measure::resident_bytes(place.pid());
    let (cpu, store) = (measure::cpu(place.pid()), place.store_bytes()?);
    let job = api.submit(&api::sweep(&["/bin/true"], N_TASKS)).await?;
    fleet.until(N_TASKS / 10).await?;
    let early = measure::resident_bytes(place.pid());
    fleet.until(N_TASKS).await?;
    let end = measure::resident_bytes(place.pid());
    let a_task = (measure::cpu(place.pid()) - cpu).as_secs_f64() * 1e6 / N_TASKS as f64;
    let store = (place.store_bytes()? - store) as f64 / N_TASKS as f64;
    let peak = measure::peak_bytes(place.pid());
    api.wait(job, Duration::from_millis(5)).await?;
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    Ok(vec![
        figure("manager memory at the start", mib(start), "MiB", Goal::None),
        figure("manager memory after 10^6 of 10^7 tasks", mib(early), "MiB", Goal::None),
        figure("manager memory after 10^7 tasks", mib(end), "MiB", Goal::None).recorded("HyperQueue 3,000"),
        figure("… at its peak", mib(peak), "MiB", Goal::None).recorded("HyperQueue 4,800"),
        // Reports of all pilots may be on their way at any time: noise of that size is no growth.
        figure("grown from 10^6 to 10^7 tasks", mib(end) - mib(early), "MiB", Goal::AtMost(8.0)),
        figure("manager CPU a task", a_task, "µs", Goal::AtMost(1.0)).recorded("HyperQueue 5.1"),
        figure("store a task", store, "bytes", Goal::AtMost(8.0)).recorded("HyperQueue 33"),
    ])
}
