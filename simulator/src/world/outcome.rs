//! The outcome of a run: its counts, and how long results were on their way.

use scheduler::time::{Span, Time};

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
