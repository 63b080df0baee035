//! Reasons: why something waits, runs, failed or was chosen, as data with the numbers that led to
//! it. `Display` is the only place that makes sentences of them.

mod graphs;
mod pilots;
mod policies;

use std::fmt;

pub use pilots::UNSAID;
use serde::{Deserialize, Serialize};

use crate::{
    engine::{
        interface::platform::{
            platform_spec::PlatformMode,
            price::Money,
            queue_load::QueueLoad,
            scaling::{Ratio, ScalingChange, ScalingWay},
        },
        record::provision_reason::ProvisionReason,
    },
    ids::{JobId, PilotId, TaskId},
    policy::matching::Precedence,
    resources::Resources,
    results::FailureKind,
    size::Size,
    time::Span,
};

/// One reason. The order in an answer is from decisive to informative.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
#[allow(missing_docs)] // Each variant's sentence below says what it is.
pub enum Reason {
    JobPaused {
        job: JobId,
    },
    OutputBudgetSpent {
        n_bytes: u64,
    },
    OutputQuotaSpent {
        user: String,
        n_bytes: u64,
    },
    /// Tasks of a job wrote more than is kept, and values are extracted from that.
    OutputsCut {
        n_tasks: u64,
        limit_bytes: u64,
    },
    /// A task did.
    OutputCut {
        limit_bytes: u64,
    },
    /// So much of the manager's disk is free.
    DiskFull {
        free_bytes: u64,
    },
    /// Tasks of a job wait for this file at a pilot.
    JobWaitsForFile {
        pilot: PilotId,
        n_tasks: u64,
        what: String,
    },
    JobOver {
        job: JobId,
        state: String,
        n_done: u64,
        n_failed: u64,
        n_cancelled: u64,
    },
    JobRuns {
        job: JobId,
        n_running: u64,
        n_queued: u64,
        n_ready: u64,
    },
    JobBacksOff {
        n_tasks: u64,
        left: Span,
    },
    JobRate {
        mean: Span,
        deviation: Span,
        n: u64,
    },
    JobBlocked {
        n_tasks: u64,
        open: Vec<(JobId, u64)>,
    },
    TaskBlocked {
        job: JobId,
        n: u64,
        first: TaskId,
        pilot: Option<(PilotId, bool)>,
    },
    TaskForsaken {
        before: TaskId,
        has_failed: bool,
    },
    /// Tasks of a job that waited in vain: the first of them, and the task with which that began.
    JobForsaken {
        n_tasks: u64,
        first: TaskId,
        before: TaskId,
        has_failed: bool,
    },
    TaskDone,
    TaskFailed {
        kind: FailureKind,
        n_attempts: u32,
    },
    TaskCancelled {
        cause: String,
    },
    /// The first of a job's tasks that has failed for good.
    FirstFailed {
        task: TaskId,
        kind: FailureKind,
    },
    TaskRuns {
        pilot: PilotId,
    },
    TaskQueued {
        pilot: PilotId,
        n_ahead: u64,
    },
    /// A file has been on its way for some seconds.
    TaskWaitsForFile {
        pilot: PilotId,
        /// Which file, and how far it is.
        what: String,
    },
    /// The task has succeeded without this file.
    FileLeftOut {
        /// Where it would have gone.
        file: String,
        why: String,
    },
    TaskBacksOff {
        left: Span,
        n_attempts: u32,
        kind: FailureKind,
    },
    TaskBehind {
        n_ahead: u64,
    },
    /// Ready tasks that no pilot gets for what it holds.
    KeptApart {
        n_tasks: u64,
    },
    /// A pilot's batch system says that it stands still, since then.
    PilotSuspended {
        since: Span,
        limit: Span,
    },
    /// Ready tasks that get a pilot for themselves: pilots were lost with them, and each time with others, too.
    RunAlone {
        n_tasks: u64,
    },
    /// Ready tasks that no pilot gets, as they failed there and another can run them.
    RetriedElsewhere {
        n_tasks: u64,
        left: Span,
    },
    /// The last pilots that were lost, or whose batch jobs were ended, while a task ran: the batch job of each, and how it
    /// ended.
    EndedWith {
        ends: Vec<(PilotId, Option<String>, String)>,
    },
    InGrace {
        left: Span,
        n_pilots: u64,
    },
    NoPlatform,
    FitsNowhere {
        needs: Resources,
        largest: Resources,
    },
    NoPilot {
        n_allocations: u64,
    },
    PlatformFails {
        platform: String,
        n_failures: u32,
        retry_in: Span,
        what: String,
    },
    PlatformFull {
        platform: String,
        retry_in: Span,
        what: String,
    },
    PilotsTooShort {
        needed: Span,
        n_pilots: u64,
    },
    /// No platform that the tasks would fit has pilots that live long enough; the one whose pilots live longest.
    WalltimesTooShort {
        needed: Span,
        platform: String,
        walltime: Span,
    },
    PilotsAway {
        n_pilots: u64,
    },
    SoonServed {
        n_pilots: u64,
    },
    PilotsBusy {
        n_pilots: u64,
        free: Resources,
        needs: Resources,
        /// The pilot that has that free.
        freest: Option<PilotId>,
    },
    /// Tasks that a pilot has cores for wait there for files, as the pilot says.
    CoresKept {
        pilot: PilotId,
        n_tasks: u64,
    },
    BehindJob {
        job: JobId,
        user: String,
        pilot: PilotId,
        policy: String,
        because: Precedence,
    },
    PilotNext {
        job: JobId,
        user: String,
        policy: String,
        before: Option<(JobId, Precedence)>,
    },
    ShuttingDown,
    PilotKeeps {
        pilot: PilotId,
        job: JobId,
        needs: Resources,
        free: Resources,
    },
    PilotDrains {
        why: String,
    },
    PilotEnded {
        why: String,
    },
    PilotUnsynced,
    PilotWorks {
        n_running: u64,
        n_queued: u64,
        used: Resources,
        capacity: Resources,
    },
    PilotDoubted {
        pilot: PilotId,
        n_failures: u32,
        next_in: Span,
    },
    PilotIdle {
        since: Span,
        timeout: Span,
    },
    PilotTook {
        n_taken: u64,
        n_given: u64,
    },
    PlatformHas {
        n_live: u64,
        n_waiting: u64,
        n_max: u32,
        n_wanted: u64,
    },
    VcpusOfCore {
        platform: String,
        policy: String,
        by: ScalingWay,
        ratio: Ratio,
        most: Ratio,
        last: Option<ScalingChange>,
        ago: Span,
    },
    NotScaled {
        platform: String,
        what: String,
    },
    QueueSays {
        platform: String,
        n_allocations: u64,
        words: String,
        #[serde(default)]
        advice: Option<String>,
        since: Span,
    },
    AllocationUnknown {
        tag: String,
        what: String,
    },
    PlatformUnlisted {
        platform: String,
        what: String,
    },
    PersonAwaited {
        platform: String,
        why: String,
    },
    PlatformRests {
        platform: String,
        mode: PlatformMode,
    },
    QueueFull {
        platform: String,
        n_queued: u64,
        n_max: u32,
    },
    AskedOften {
        platform: String,
        n_max: u32,
        left: Span,
    },
    BudgetSpent {
        platform: String,
        spent: Span,
        committed: Span,
        most: Span,
        each: Span,
    },
    MoneySpent {
        platform: String,
        spent: Money,
        committed: Money,
        most: Money,
        each: Money,
        currency: String,
    },
    UserBudgetSpent {
        platform: String,
        user: String,
        used: Span,
        held: Span,
        most: Span,
    },
    NoWeights {
        policy: String,
    },
    Weights {
        application: String,
        policy: String,
        weights: Vec<(String, f64, u64)>,
    },
    WeightOf {
        platform: String,
        weight: f64,
        n_slots: u64,
        mean: Option<Span>,
        #[serde(default)]
        is_declared: bool,
        #[serde(default)]
        guess: Option<Span>,
        error_rate: f64,
    },
    DeclaredOff {
        platform: String,
        declared: Span,
        measured: Span,
        times: f64,
        n_measured: u64,
    },
    WeightMoved {
        ago: Span,
        platform: String,
        before: f64,
        weight: f64,
    },
    LeftToOthers {
        platform: String,
        takes: Span,
        others_begin: Span,
        others_take: Span,
    },
    FailsThere {
        platform: String,
        error_rate: f64,
        tried: Option<Span>,
    },
    ShareOf {
        platform: String,
        user: String,
        policy: String,
        cores: u64,
        held: u64,
    },
    PlacedWith {
        policy: String,
        platform: String,
        wait: Span,
        n_waits: u64,
        #[serde(default)]
        load: Option<QueueLoad>,
        mean_end: Option<Span>,
        mean_end_without: Option<Span>,
    },
    AskedFor {
        ago: Span,
        because: ProvisionReason,
    },
    Profiling {
        platform: String,
        pilot: Option<PilotId>,
        jobs: Vec<(JobId, u64)>,
    },
    NodeMeantFor {
        policy: String,
        parts: Vec<(String, u64, Option<Span>)>,
    },
    Allocated {
        state: String,
        platform: String,
        since: Span,
        cores: u64,
        n_nodes: u32,
        why: Option<String>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::OutputBudgetSpent { n_bytes } => {
                let size = Size(*n_bytes);
                write!(
                    f,
                    "its budget for output ({size}) is used up; output since then is not kept (results.budget)"
                )
            }
            Reason::OutputQuotaSpent { user, n_bytes } => {
                let size = Size(*n_bytes);
                write!(
                    f,
                    "the output quota of {user} ({size}) is used up; what tasks write is kept no more (quotas.output)"
                )
            }
            Reason::OutputsCut { n_tasks, limit_bytes } => write_cut(f, Some(*n_tasks), *limit_bytes),
            Reason::OutputCut { limit_bytes } => write_cut(f, None, *limit_bytes),
            Reason::DiskFull { free_bytes } => {
                let free = Size(*free_bytes);
                write!(
                    f,
                    "the manager's disk is nearly full ({free} free): no job and no output is taken until there is room"
                )
            }
            Reason::JobWaitsForFile { pilot, n_tasks, what } => {
                let (s, wait) = if *n_tasks == 1 { ("", "waits") } else { ("s", "wait") };
                write!(f, "at pilot {pilot}, {n_tasks} task{s} of it {wait} for {what}")
            }
            Reason::JobPaused { job } => {
                write!(f, "job {job} is paused; `pilotfish resume {job}` lets it go on")
            }
            Reason::JobOver { job, state, n_done, n_failed, n_cancelled } => {
                write!(f, "job {job} is {state}: {n_done} done, {n_failed} failed, {n_cancelled} cancelled")
            }
            Reason::JobRuns { job, n_running, n_queued, n_ready } => write!(
                f,
                "job {job}: {n_running} task{} running, {n_queued} sent ahead to pilots, {n_ready} waiting",
                plural(*n_running)
            ),
            Reason::JobBacksOff { n_tasks, left } => {
                let (s, wait) = if *n_tasks == 1 { ("", "waits") } else { ("s", "wait") };
                write!(
                    f,
                    "{n_tasks} task{s} failed and {wait} for the next attempt; the first is due in {left}"
                )
            }
            Reason::JobRate { mean, deviation, n } => {
                write!(f, "a task takes {mean} ± {deviation} (measured on {n})")
            }
            Reason::TaskDone => write!(f, "it has succeeded"),
            Reason::TaskFailed { kind, n_attempts } => write_failed(f, kind, *n_attempts),
            Reason::TaskCancelled { cause } if cause.is_empty() => write!(f, "it was cancelled"),
            Reason::TaskCancelled { cause } if cause.starts_with("by ") => {
                write!(f, "it was cancelled {cause}")
            }
            Reason::TaskCancelled { cause } => write!(f, "it was cancelled: {cause}"),
            Reason::FirstFailed { task, kind } => write!(f, "task {task} has failed for good: {kind}"),
            Reason::TaskRuns { pilot } => write!(f, "it runs on pilot {pilot}"),
            Reason::TaskQueued { pilot, n_ahead: 0 } => write!(f, "it was sent ahead to pilot {pilot}"),
            Reason::TaskQueued { pilot, n_ahead } => {
                let (s, are) = are(*n_ahead);
                write!(
                    f,
                    "it was sent ahead to pilot {pilot}, where {n_ahead} task{s} of its job {are} before it"
                )
            }
            Reason::TaskWaitsForFile { pilot, what } => write!(f, "pilot {pilot} waits for {what}"),
            Reason::FileLeftOut { file, why } => write!(f, "{file} was left out: {why}"),
            Reason::TaskBacksOff { left, n_attempts, kind: kind @ FailureKind::Preempted } => write!(
                f,
                "attempt {n_attempts} failed ({kind}); the next begins when the platform has said why it ended, in \
                 {left} at the latest"
            ),
            Reason::TaskBacksOff { left, n_attempts, kind } => {
                write!(f, "attempt {n_attempts} failed ({kind}); the next begins in {left} at the earliest")
            }
            Reason::TaskBehind { n_ahead: 0 } => write!(f, "it is the next of its job's ready tasks"),
            Reason::TaskBehind { n_ahead } => {
                let (s, are) = are(*n_ahead);
                write!(f, "{n_ahead} ready task{s} of its job {are} before it")
            }
            Reason::InGrace { left, n_pilots } => write!(
                f,
                "the manager has restarted: tasks are withheld for {left} more, until {n_pilots} pilot{} of before have said what they hold",
                plural(*n_pilots)
            ),
            other => other.write_about_graphs(f),
        }
    }
}

impl Reason {
    /// The sentences about platforms and the manager; those about jobs and tasks are in `fmt`.
    fn write_about_platforms(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoPlatform => write!(f, "no platform is attached"),
            Reason::FitsNowhere { needs, largest } => {
                write!(f, "a task needs {needs}, and the largest pilot any platform offers has {largest}")
            }
            Reason::NoPilot { n_allocations } => {
                write!(
                    f,
                    "no pilot is there yet; {n_allocations} allocation{} asked for",
                    plural(*n_allocations)
                )
            }
            Reason::PlatformFails { platform, n_failures, retry_in, what } => {
                let when = match *retry_in {
                    Span::ZERO => "when it is needed".to_owned(),
                    time => format!("in {time}"),
                };
                write!(
                    f,
                    "platform {platform} has failed {n_failures} time{} in a row ({what}); it is tried again {when}",
                    plural(u64::from(*n_failures))
                )
            }
            Reason::PlatformFull { platform, retry_in, what } => {
                let when = match *retry_in {
                    Span::ZERO => "when a pilot is needed".to_owned(),
                    time => format!("in {time}"),
                };
                write!(
                    f,
                    "platform {platform} takes no more jobs of this account ({what}); it is asked again {when}"
                )
            }
            Reason::ShuttingDown => write!(f, "the manager is shutting down: nothing new begins"),
            Reason::PlatformHas { n_live, n_waiting, n_max, n_wanted } => write!(
                f,
                "{n_live} pilot{} there or asked for ({n_waiting} still to come) of at most {n_max} (pilots_max); {n_wanted} more are to be asked for",
                plural(*n_live)
            ),
            Reason::AllocationUnknown { tag, what } => {
                write!(f, "whether allocation {tag} exists is not known ({what}); the next listing will tell")
            }
            Reason::QueueSays { platform, n_allocations, words, advice, since } => {
                let (s, waits) = (plural(*n_allocations), if *n_allocations == 1 { "waits" } else { "wait" });
                write!(
                    f,
                    "{n_allocations} allocation{s} {waits} on {platform}; its reason for the last {since}: {words}"
                )?;
                advice.as_ref().map_or(Ok(()), |advice| write!(f, " ({advice})"))
            }
            Reason::PlatformUnlisted { platform, what } => {
                write!(
                    f,
                    "platform {platform} does not say what is there ({what}); it is asked again and again"
                )
            }
            Reason::PersonAwaited { platform, why } => write!(
                f,
                "platform {platform} waits for a person to log in: {why}; run `pilotfish platform login {platform}` in a \
                 terminal"
            ),
            Reason::PlatformRests { .. }
            | Reason::QueueFull { .. }
            | Reason::AskedOften { .. }
            | Reason::BudgetSpent { .. }
            | Reason::MoneySpent { .. }
            | Reason::UserBudgetSpent { .. } => self.write_about_limits(f),
            Reason::NoWeights { .. }
            | Reason::BehindJob { .. }
            | Reason::PilotNext { .. }
            | Reason::Weights { .. }
            | Reason::WeightOf { .. }
            | Reason::WeightMoved { .. }
            | Reason::DeclaredOff { .. }
            | Reason::LeftToOthers { .. }
            | Reason::FailsThere { .. }
            | Reason::PlacedWith { .. }
            | Reason::AskedFor { .. }
            | Reason::NodeMeantFor { .. }
            | Reason::VcpusOfCore { .. }
            | Reason::NotScaled { .. }
            | Reason::ShareOf { .. } => self.write_about_policies(f),
            Reason::Allocated { state, platform, since, cores, n_nodes, why } => {
                let nodes = if *n_nodes == 1 { String::new() } else { format!(" on {n_nodes} nodes") };
                let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                write!(f, "{cores} core{}{nodes} of {platform}, {state} since {since}{why}", plural(*cores))
            }
            other => other.write_about_waiting(f),
        }
    }

    /// The sentences about what operators allow.
    fn write_about_limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::PlatformRests { platform, mode } => {
                let is = match mode {
                    PlatformMode::Active => "is active",
                    PlatformMode::Paused => "is paused",
                    PlatformMode::Draining => "is being drained",
                    PlatformMode::Detached => {
                        return write!(
                            f,
                            "platform {platform} was detached; put it into the configuration again, and `pilotfish platform reload`"
                        );
                    }
                };
                write!(f, "platform {platform} {is}; `pilotfish platform resume {platform}` lets it go on")
            }
            Reason::QueueFull { platform, n_queued, n_max } => write!(
                f,
                "{n_queued} allocation{} on {platform} wait for their pilots, and no more than {n_max} may (queued_max)",
                plural(*n_queued)
            ),
            Reason::AskedOften { platform, n_max, left } => write!(
                f,
                "{platform} was asked for {n_max} allocation{} within a minute, and more may not be (submissions_per_minute); the next in {left}",
                plural(u64::from(*n_max))
            ),
            Reason::BudgetSpent { platform, spent, committed, most, each } => write!(
                f,
                "of {} on {platform}, {} are spent and {} are reserved for present allocations; one more takes {} (core_hours)",
                in_core_hours(*most),
                core_hours(*spent),
                core_hours(*committed),
                core_hours(*each)
            ),
            Reason::MoneySpent { platform, spent, committed, most, each, currency } => write!(
                f,
                "of {most} {currency} on {platform}, {spent} are spent and {committed} are reserved for present allocations; one more costs {each} (budget)"
            ),
            Reason::UserBudgetSpent { platform, user, used, held, most } => write!(
                f,
                "of {} that each user has on {platform}, tasks of {user} have taken {}, and those that are there may take {} more: no more of them begin (user_core_hours)",
                in_core_hours(*most),
                core_hours(*used),
                core_hours(*held)
            ),
            _ => Ok(()),
        }
    }

    /// The sentences about pilots that tasks wait for.
    fn write_about_waiting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::PilotsTooShort { needed, n_pilots: 0 } => {
                write!(f, "a task is expected to take {needed}, and no platform has pilots that live so long")
            }
            Reason::WalltimesTooShort { needed, platform, walltime } => write!(
                f,
                "a task is expected to take {needed}, and no pilot lives so long: the walltime of {platform} is {walltime}"
            ),
            Reason::PilotsTooShort { needed, n_pilots } => write!(
                f,
                "a task is expected to take {needed}, longer than the walltime left of the {n_pilots} pilot{} it would fit",
                plural(*n_pilots)
            ),
            Reason::PilotsAway { n_pilots } => write!(
                f,
                "no pilot is there: {n_pilots} of before {} not been heard of since the manager started",
                if *n_pilots == 1 { "has" } else { "have" }
            ),
            Reason::SoonServed { n_pilots } => write!(
                f,
                "there is room on the {n_pilots} pilot{} that would do: it begins with the next pull",
                plural(*n_pilots)
            ),
            Reason::PilotsBusy { n_pilots, free, needs, .. } => write!(
                f,
                "{} busy: a task needs {needs}, the freest has {free}",
                if *n_pilots == 1 {
                    "the only pilot is".to_owned()
                } else {
                    format!("all {n_pilots} pilots are")
                }
            ),
            other => other.write_about_pilots(f),
        }
    }
}

fn in_core_hours(core_time: Span) -> String {
    let hours = core_hours(core_time);
    let unit = if hours == "1" { "core-hour" } else { "core-hours" };
    format!("{hours} {unit}")
}

/// Cores × time in the unit of budgets.
pub fn core_hours(core_time: Span) -> String {
    let hours = core_time.as_secs_f64() / 3600.0;
    // Small amounts keep two digits that count: 0.0005 is not 0.
    let n_decimals = match hours {
        10.0.. => 1,
        hours if hours < 0.1 && core_time > Span::ZERO => (1.0 - hours.log10().floor()).min(12.0) as usize,
        _ => 2,
    };
    let text = format!("{hours:.n_decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// The noun's ending and its verb.
fn are(n: u64) -> (&'static str, &'static str) {
    (plural(n), if n == 1 { "is" } else { "are" })
}

/// Of so many tasks of a job, or of a task itself.
fn write_cut(f: &mut fmt::Formatter<'_>, n_tasks: Option<u64>, limit_bytes: u64) -> fmt::Result {
    let limit = Size(limit_bytes);
    let (who, whose) = match n_tasks {
        Some(n) => (format!("{n} task{} of it", plural(n)), "results.extract may be missing from them"),
        None => ("it".to_owned(), "results.extract that are not certain without the rest are missing"),
    };
    write!(f, "{who} wrote more than is kept ({limit}, results.limit): values of {whose}")
}

fn write_failed(f: &mut fmt::Formatter<'_>, kind: &FailureKind, n_attempts: u32) -> fmt::Result {
    let s = plural(u64::from(n_attempts));
    write!(f, "it has failed for good after {n_attempts} attempt{s}: {kind}")?;
    match kind {
        FailureKind::PilotLost | FailureKind::Preempted => write!(
            f,
            "; after `crash_limit` of those a task is set aside, `pilotfish retry-failed` runs it again"
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Reason, core_hours};
    use crate::{ids::PilotId, time::Span};

    #[test]
    fn what_says_nothing_is_left_out_of_sentences() {
        let cancelled = |cause: &str| Reason::TaskCancelled { cause: cause.to_owned() };
        let backs_off = |n_tasks| Reason::JobBacksOff { n_tasks, left: Span::from_secs(2) };
        let waits = Reason::QueueSays {
            platform: "cluster".into(),
            n_allocations: 2,
            words: "Priority".into(),
            advice: None,
            since: Span::from_secs(8),
        };
        for (reason, text) in [
            (backs_off(1), "1 task failed and waits for the next attempt; the first is due in 2.0s"),
            (backs_off(2), "2 tasks failed and wait for the next attempt; the first is due in 2.0s"),
            (waits, "2 allocations wait on cluster; its reason for the last 8.0s: Priority"),
            (cancelled("by root"), "it was cancelled by root"),
            (cancelled("it waited for task 1.2"), "it was cancelled: it waited for task 1.2"),
            (cancelled(""), "it was cancelled"),
            (Reason::TaskBehind { n_ahead: 0 }, "it is the next of its job's ready tasks"),
            (Reason::TaskBehind { n_ahead: 2 }, "2 ready tasks of its job are before it"),
            (Reason::TaskQueued { pilot: PilotId(3), n_ahead: 0 }, "it was sent ahead to pilot 3"),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }

    #[test]
    fn small_amounts_of_core_hours_are_not_shown_as_nothing() {
        let shown = |hours: f64| core_hours(Span((hours * 3.6e9).round() as u64));
        for (hours, expected) in [
            (0.0, "0"),
            (0.0005, "0.0005"),
            (0.005_56, "0.0056"),
            (0.01, "0.01"),
            (0.0999, "0.1"),
            (0.126, "0.13"),
            (2.5, "2.5"),
            (12.34, "12.3"),
            (100.0, "100"),
        ] {
            assert_eq!(shown(hours), expected, "{hours}");
        }
    }
}
