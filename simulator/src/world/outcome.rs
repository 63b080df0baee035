//! The outcome of a run: its counts, and the delay of results.

use scheduler::time::{Span, Time};

/// The counts of a seed's run in which every rule held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of acknowledged jobs.
    pub n_jobs: u64,
    /// Number of their tasks.
    pub n_tasks: u64,
    /// Number of processes of tasks.
    pub n_executions: u64,
    /// Number of processes beyond the first of a task.
    pub n_repeated: u64,
    /// Number of tasks that pilots gave to others and that were sent there.
    pub n_given: u64,
    /// Number of commands of the manager to give tasks to a pilot that cannot ask by itself.
    pub n_passed_on: u64,
    /// Number of starts of the manager.
    pub n_starts: u64,
    /// Number of pilots' processes.
    pub n_pilots: u64,
    /// The longest time from a task's success to its durable record: the pilot or the manager was away.
    pub latest: Span,
    /// Number of events of the engine.
    pub n_events: u64,
    /// The end of the run, in simulated time.
    pub ended_at: Time,
    /// A hash of all decisions of the manager: equal for two builds that decide equally.
    pub decisions: u64,
}

impl Outcome {
    /// Returns the hash of the decisions and the numbers of events and executions, by which two builds are
    /// compared.
    pub fn fingerprint(&self) -> String {
        format!("{:016x} {} {}", self.decisions, self.n_events, self.n_executions)
    }
}
