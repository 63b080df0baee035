//! Submission of a thousand, a million and a thousand million tasks: time and the manager's memory.

use std::time::Instant;

use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    floor::Floors,
    measure, peer,
    place::{Expected, Place},
};

pub const LINE: &str = "submit";

const SIZES: [(u64, &str); 3] = [(1_000, "10^3"), (1_000_000, "10^6"), (1_000_000_000, "10^9")];
/// Submissions of each size, of which the one in the middle counts.
const N_TIMES: usize = 11;
/// Of a round trip and a flush.
const RATIO: f64 = 5.0;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    let peer = peer::submit_seconds(1_000_000);
    let floors = Floors::measure()?;
    for (n_tasks, words) in SIZES {
        // Each size in a manager of its own: what one leaves behind is no room for the next.
        let place = Place::simulated(Expected::new(1, 1))?;
        let mut api = place.api()?;
        // The first request makes the connection, and what is made once.
        api.submit(&api::sweep(&["/bin/true"], 1)).await?;
        let before = measure::resident_bytes(place.pid());
        let mut seconds = Vec::new();
        for _ in 0..N_TIMES {
            let began = Instant::now();
            api.submit(&api::sweep(&["/bin/true"], n_tasks)).await?;
            seconds.push(began.elapsed().as_secs_f64());
        }
        let kept = measure::resident_bytes(place.pid()).saturating_sub(before) as f64 / N_TIMES as f64;
        let median = measure::percentiles(seconds).0;
        let goal = |goal: f64| if n_tasks > 1_000 { Goal::AtMost(goal) } else { Goal::None };
        let figure =
            |what: &str, value, unit, goal| Figure::new(LINE, format!("{words}: {what}"), value, unit, goal);
        let took = figure("submitted in", median * 1e3, "ms", goal(10.0));
        figures.push(match peer.filter(|_| n_tasks == 1_000_000) {
            Some(peer) => took.measured(format!("HyperQueue {:.0}", peer * 1e3)),
            None if n_tasks == 1_000_000 => took.recorded("HyperQueue 1,250"),
            None => took,
        });
        let ratio = median / (floors.round_trip + floors.fsync);
        figures.push(figure("the same / round trip + flush of this run", ratio, "", goal(RATIO)));
        figures.push(figure("manager memory kept", kept / 1024.0, "KiB", goal(64.0)));
    }
    Ok(figures)
}
