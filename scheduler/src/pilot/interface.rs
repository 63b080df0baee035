//! The events that a pilot's core handles, and the actions that it returns.

use crate::{
    ids::{JobId, PilotId, TaskId},
    pull::{LeaveReason, Pull, PullAnswer, Template},
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, OutputFile, Report, TaskOutput, Usage},
    time::{Span, Time},
};

/// The resources and time limits of a pilot.
#[derive(Clone, Debug)]
pub struct PilotLimits {
    /// The resources that tasks may use.
    pub capacity: Resources,
    /// When the pilot ends, if known.
    pub walltime_end: Option<Time>,
    /// Tasks that would end later than this long before the walltime's end do not begin, and running ones are
    /// killed then.
    pub walltime_margin: Span,
    /// The longest time that a pull may be parked at the manager.
    pub poll_wait: Span,
}

/// The two pulls that may be open at a time: one reports, one listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Carries results; answered at once.
    Report,
    /// Parked at the manager until there is news.
    Listen,
}

/// The end of a task's process.
#[derive(Clone, PartialEq, Debug)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// It failed in another way, which the shell knows.
    Failed(FailureKind),
    /// It was killed because of [`PilotAction::Kill`], or withdrawn.
    Killed,
}

/// The outcome of a steal request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hunted {
    /// Another pilot has promised tasks.
    Promised,
    /// The manager has asked another pilot, which may give some.
    PassedOn,
    /// No pilot has any, as far as is known.
    InVain,
}

/// An event for the pilot.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The comments of the variants name the fields.
pub enum PilotEvent {
    /// The pilot is registered; reports up to this number are durable.
    Registered { acknowledged: u64 },
    /// A pull was answered.
    Answered { lane: Lane, answer: Box<PullAnswer> },
    /// A pull was not answered, and the shell has waited long enough before the next one.
    PullFailed { lane: Lane },
    /// A task's process has ended and its resources are free; `Ended` brings its result later.
    Over { task: TaskId },
    /// A task's process has ended.
    Ended { task: TaskId, ending: Ending, usage: Usage, output: Option<TaskOutput> },
    /// The inputs of a task are in its scratch directory, or could not be brought.
    Staged { task: TaskId, result: Result<(), FailureKind> },
    /// The output files of a task have arrived at their destination, or will not.
    Delivered { task: TaskId, result: Result<Vec<OutputFile>, FailureKind> },
    /// The platform or a person wants the pilot to drain.
    Signalled,
    /// The platform or a person wants the pilot to stop at once and kill the running tasks.
    StopAsked,
    /// An idle pilot of the platform asks for queued tasks.
    AskedFor { thief: PilotId },
    /// The outcome of a steal request.
    Hunted(Hunted),
    /// The answer to [`PilotAction::Look`]. `read`: the inputs of tasks that have any, by index.
    /// `bytes_per_s`: bytes per second fetched from other pilots.
    Seen { job: JobId, tasks: TaskSet, read: Vec<(u64, Vec<ReadBy>)>, bytes_per_s: u64 },
    /// A time that [`PilotCore::next_wakeup`] returned has come.
    TimerFired,
}

/// An action for the shell. Actions are done in order.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The comments of the variants name the fields.
pub enum PilotAction {
    /// Remember a job's template.
    Learn(Template),
    /// Start a task's process. With `after`: in the slot of that running task, once it and the tasks that
    /// wait there already have ended.
    Start { task: TaskId, attempt: u32, after: Option<TaskId> },
    /// Withdraw a task that waits for a slot: `Ended` with `Killed` follows. Does nothing if the task has
    /// begun.
    Withdraw { task: TaskId },
    /// End a task's process; `Ended` with `Killed` follows.
    Kill { task: TaskId },
    /// Bring the inputs of a task; `Staged` follows, unless `Unstage` comes before.
    Stage { task: TaskId },
    /// Stop bringing inputs and delivering output files of a task, which will not begin here or is not
    /// wanted. No event about these transfers follows, not even if the task comes again.
    Unstage { task: TaskId },
    /// Deliver the output files of a task; `Delivered` follows, unless `Unstage` comes before.
    Deliver { task: TaskId },
    /// Keep a sealed report until it is acknowledged.
    Keep(Report),
    /// Reports up to this number are durable at the manager.
    Drop { acknowledged: u64 },
    /// Send a pull. With `report`: put the kept report of that number into it.
    Pull { lane: Lane, pull: Box<Pull>, report: Option<u64> },
    /// Tell a pilot that asked for tasks that this many are on their way to it.
    Gave { thief: PilotId, n_tasks: u64 },
    /// Start or stop to answer and send steal requests and to tell where files are.
    Meet { is_wanted: bool },
    /// Find out which pilots have the inputs of these queued tasks; `Seen` follows.
    Look { job: JobId, tasks: TaskSet },
    /// Send a steal request to other pilots; `Hunted` follows.
    Hunt,
    /// End a job's resident processes and forget its template, because the job has ended.
    Forget { job: JobId },
    /// Send the output of running tasks, as long as the manager wants it.
    Show,
    /// End the session at the manager and exit: all results are reported.
    Leave { reason: LeaveReason },
}

/// An input of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadBy {
    /// Another pilot that has it; `None`: this one has it, or none.
    pub at: Option<PilotId>,
    /// Size in bytes.
    pub bytes: u64,
}
