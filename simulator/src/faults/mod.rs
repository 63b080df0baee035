//! Faults drawn from a seed: the real engine and real pilots among lost, duplicated and late messages, dying
//! managers, pilots and commits, and batch systems that answer late, twice, never or nonsense. An auditor
//! with its own history reports violated rules. First anything may fail; then nothing does, and everything
//! must end.

mod graphs;
mod plan;

use std::{fmt, ops::Range, panic};

use crate::{
    grid,
    world::{World, plan::Plan},
};

pub use crate::{auditor::Violation, world::outcome::Outcome};

/// Runs one seed. `trace` gets a line for every event, the same for the same seed.
///
/// # Errors
/// The first violated rule, or the first violated invariant of the engine itself.
pub fn run(seed: u64, trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>) -> Result<Outcome, Violation> {
    run_plan(seed, Plan::draw(seed), trace)
}

/// Runs each seed on all cores. Calls `done` for each as it ends, in no particular order, from one thread at
/// a time.
pub fn run_many(seeds: Range<u64>, done: impl FnMut(u64, Result<Outcome, Violation>) + Send) {
    grid::each(seeds, |seed| run(seed, None), done);
}

fn run_plan(
    seed: u64,
    plan: Plan,
    trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>,
) -> Result<Outcome, Violation> {
    let world = panic::AssertUnwindSafe(|| {
        let mut world = World::new(seed, plan, None, trace);
        world.run().map(|()| world.outcome())
    });
    panic::catch_unwind(world).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let what = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
        Err(Violation(format!("an invariant does not hold: {what}")))
    })
}

#[cfg(test)]
mod tests;
