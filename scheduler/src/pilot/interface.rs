//! What a pilot's core hears and says.

use crate::{
    ids::{JobId, PilotId, TaskId},
    pull::{LeaveReason, Pull, PullAnswer, Template},
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, OutputFile, Report, TaskOutput, Usage},
    time::{Span, Time},
};

/// What a pilot is and may do.
#[derive(Clone, Debug)]
pub struct PilotLimits {
    /// What tasks may use.
    pub capacity: Resources,
    /// When the pilot ends, if that is known.
    pub walltime_end: Option<Time>,
    /// What ends before the walltime by less than this is not begun, and what still runs then is killed.
    pub walltime_margin: Span,
    /// How long a pull may be parked at the manager.
    pub poll_wait: Span,
}

/// The two pulls that may be on their way: one that reports, one that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Carries results; answered at once.
    Report,
    /// Parked at the manager until there is news.
    Listen,
}

/// How a task's process ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// Otherwise; the shell knows why.
    Failed(FailureKind),
    /// Because [`PilotAction::Kill`] said so.
    Killed,
}

/// What came of asking other pilots for tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hunted {
    /// Some are on their way here.
    Promised,
    /// The manager has asked one of them, which may give some.
    PassedOn,
    /// Nobody has any, as far as is known.
    InVain,
}

/// What happened to the pilot.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields say it.
pub enum PilotEvent {
    /// The pilot is registered; reports up to this number are durable.
    Registered { acknowledged: u64 },
    /// A pull was answered.
    Answered { lane: Lane, answer: Box<PullAnswer> },
    /// A pull was not answered, and the shell has waited as long as it wants to before the next.
    PullFailed { lane: Lane },
    /// A task's process has ended and what it had is free; what came of it is told later, by `Ended`.
    Over { task: TaskId },
    /// A task's process has ended.
    Ended { task: TaskId, ending: Ending, usage: Usage, output: Option<TaskOutput> },
    /// The files of a task that was to be staged are in its folder, or cannot be had.
    Staged { task: TaskId, result: Result<(), FailureKind> },
    /// The files that a task left have arrived where they go, or will not.
    Delivered { task: TaskId, result: Result<Vec<OutputFile>, FailureKind> },
    /// The platform or a person wants the pilot to go: drain.
    Signalled,
    /// … now: kill what runs.
    StopAsked,
    /// Another pilot of the platform has nothing to do and wants some of what waits here.
    AskedFor { thief: PilotId },
    /// Other pilots were asked for tasks.
    Hunted(Hunted),
    /// What [`PilotAction::Look`] asked for. `read`: of tasks that read something, by index. `bytes_per_s`: what is
    /// fetched in a second from others.
    Seen { job: JobId, tasks: TaskSet, read: Vec<(u64, Vec<ReadBy>)>, bytes_per_s: u64 },
    /// A time asked for by [`PilotCore::next_wakeup`] has come.
    TimerFired,
}

/// What the shell must do, in order.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // The fields say it.
pub enum PilotAction {
    /// Remember how to run a job's tasks.
    Learn(Template),
    /// Start a task's process. With `after`: in the place of that running task, once it and those that
    /// wait there already have ended.
    Start { task: TaskId, attempt: u32, after: Option<TaskId> },
    /// Start a task no more that waits for its place: `Ended` with `Killed` follows. Nothing, if it has begun.
    Withdraw { task: TaskId },
    /// End a task's process; `Ended` with `Killed` follows.
    Kill { task: TaskId },
    /// Bring the files that a task needs; `Staged` follows, unless `Unstage` comes before.
    Stage { task: TaskId },
    /// The task will not begin here, or what it left is not wanted: bring and deliver nothing more for it.
    /// Nothing is heard of that any more, not even if the task comes again.
    Unstage { task: TaskId },
    /// Deliver the files that a task left; `Delivered` follows, unless `Unstage` comes before.
    Deliver { task: TaskId },
    /// Keep a sealed report until it is acknowledged.
    Keep(Report),
    /// Reports up to this number are durable at the manager.
    Drop { acknowledged: u64 },
    /// Send a pull. With `report`: put the kept report of that number into it.
    Pull { lane: Lane, pull: Box<Pull>, report: Option<u64> },
    /// So many tasks are on their way to a pilot that has asked for some.
    Gave { thief: PilotId, n_tasks: u64 },
    /// Whether others may ask for tasks here, and this one them, and look where files are.
    Meet { is_wanted: bool },
    /// Find out who has what these queued tasks read; `Seen` follows.
    Look { job: JobId, tasks: TaskSet },
    /// Ask other pilots for tasks; `Hunted` follows.
    Hunt,
    /// A job is over: end its resident processes, forget its template.
    Forget { job: JobId },
    /// Tell what running tasks write, for as long as the manager wants to hear it.
    Show,
    /// All is reported: say good-bye and end.
    Leave { reason: LeaveReason },
}

/// A file that a task reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadBy {
    /// Another pilot that has it; `None`: this one does, or nobody.
    pub at: Option<PilotId>,
    /// How large it is.
    pub bytes: u64,
}
