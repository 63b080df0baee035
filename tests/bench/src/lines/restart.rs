//! A manager killed with a million tasks half done: how soon the next one answers, and whether
//! anything that had been reported was forgotten or is done twice.

use std::time::{Duration, Instant};

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    pilots::Fleet,
    place::{Expected, Place},
};

pub const LINE: &str = "restart";

const N_TASKS: u64 = 1_000_000;
const EXPECTED: Expected = Expected::new(4, 2);

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let place = Place::simulated(EXPECTED)?;
    let fleet = Fleet::join(&place, 1, EXPECTED.n_pilots + 1, EXPECTED.cores).await?;
    let job = place.api()?.submit(&api::sweep(&["/bin/true"], N_TASKS)).await?;
    fleet.until(N_TASKS / 2).await?;
    let reported = fleet.n_acknowledged();
    let (place, took) = place.restarted(EXPECTED)?;
    let at_kill = fleet.n_acknowledged();
    // What pilots had been told before they met the new manager is what it must still know.
    let known = place.api()?.job(job).await?.counts.done;
    let forgotten = at_kill.saturating_sub(known);
    let back = Instant::now();
    fleet.until(at_kill + 1).await?;
    let back = back.elapsed();
    place.api()?.wait(job, Duration::from_millis(20)).await?;
    // Each task was given to a process that does not exist; more than one such for a task is a repetition.
    let repeated = fleet.n_begun().saturating_sub(N_TASKS);
    let figure = |name, value, unit, goal| Figure::new(LINE, name, value, unit, goal);
    Ok(vec![
        figure("10^6 tasks half done: answers after", took.as_secs_f64(), "s", Goal::AtMost(0.3))
            .recorded("HyperQueue 0.75"),
        figure("results reported when it was killed", reported as f64, "tasks", Goal::None),
        figure("first new result after", back.as_secs_f64(), "s", Goal::None)
            .recorded("HyperQueue: never, its workers are gone"),
        figure("reported and forgotten", forgotten as f64, "tasks", Goal::Exactly(0.0))
            .recorded("HyperQueue 31 .. 224"),
        figure("done again", repeated as f64, "tasks", Goal::Exactly(0.0)).recorded("HyperQueue 251"),
    ])
}
