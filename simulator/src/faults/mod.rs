//! Faults drawn from a seed: the live engine and live pilots among lost, doubled and late messages,
//! dying managers, pilots and commits, and batch systems that answer late, twice, never or nonsense.
//! An auditor that keeps its own history says what does not hold. First anything may fail; then
//! nothing does, and everything must end.

pub(crate) mod auditor;
mod decisions;
mod graphs;
mod manager;
pub(crate) mod nodes;
pub(crate) mod plan;
mod scenes;
mod sites;
mod users;
pub(crate) mod world;

use std::{fmt, ops::Range, panic};

use scheduler::time::{Span, Time};

use crate::grid;

/// What does not hold.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// What a seed came to, when all held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Acknowledged jobs.
    pub n_jobs: u64,
    /// Their tasks.
    pub n_tasks: u64,
    /// Processes of tasks.
    pub n_executions: u64,
    /// Processes beyond the first of a task.
    pub n_repeated: u64,
    /// Tasks that pilots have given to others, which were sent them.
    pub n_given: u64,
    /// How often the manager told a pilot to give to one that cannot reach it.
    pub n_passed_on: u64,
    /// Starts of the manager.
    pub n_starts: u64,
    /// Pilots' processes.
    pub n_pilots: u64,
    /// The longest time between a task's success and its being kept: pilot or manager were away.
    pub latest: Span,
    /// Events of the engine.
    pub n_events: u64,
    /// When all was over, simulated time.
    pub ended_at: Time,
    /// A hash of all that the manager decided: the same in two builds that decide the same.
    pub decisions: u64,
}

impl Outcome {
    /// The hash of the decisions, and how many events and executions there were: what two builds are compared by.
    pub fn fingerprint(&self) -> String {
        format!("{:016x} {} {}", self.decisions, self.n_events, self.n_executions)
    }
}

/// Runs one seed. `trace` is given a line for everything that happens, the same for the same seed.
///
/// # Errors
/// The first rule that did not hold, or the invariant of the engine's own that did not.
pub fn run(seed: u64, trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>) -> Result<Outcome, Violation> {
    run_plan(seed, plan::Plan::draw(seed), trace)
}

/// Runs each seed on all cores; tells `done` of each as it ends, in no particular order, from one thread at a
/// time.
pub fn run_many(seeds: Range<u64>, done: impl FnMut(u64, Result<Outcome, Violation>) + Send) {
    grid::each(seeds, |seed| run(seed, None), done);
}

fn run_plan(
    seed: u64,
    plan: plan::Plan,
    trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>,
) -> Result<Outcome, Violation> {
    let world = panic::AssertUnwindSafe(|| {
        let mut world = world::World::new(seed, plan, None, trace);
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
