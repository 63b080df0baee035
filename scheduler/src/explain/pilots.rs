//! The sentences about the state of pilots, and about nodes reserved for one job.

use std::fmt;

use super::{Reason, are, plural};
use crate::{
    ids::{JobId, PilotId},
    resources::Resources,
    time::Span,
};

fn write_suspended(f: &mut fmt::Formatter<'_>, since: Span, limit: Span) -> fmt::Result {
    write!(
        f,
        "its batch system has suspended it, which is known for {since}: it stands still until it is resumed; what it \
         holds goes to other pilots once it has been silent for {limit}"
    )
}

impl Reason {
    /// Writes the sentences about the state of pilots. The callers have handled all other reasons: a new one
    /// belongs here or there.
    pub(super) fn write_about_pilots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::PilotKeeps { pilot, job, needs, free } => write!(
                f,
                "pilot {pilot} begins nothing else until a task of job {job} fits: it needs {needs}; free so far: {free}",
            ),
            Reason::CoresKept { pilot, n_tasks } => write_cores_kept(f, *pilot, *n_tasks),
            Reason::PilotDrains { why } => write!(f, "it drains: {why}"),
            Reason::PilotEnded { why } => write!(f, "it is gone: {why}"),
            Reason::PilotUnsynced => write!(f, "it has not yet said what it holds since the manager started"),
            Reason::PilotWorks { n_running, n_queued, used, capacity } => {
                write_works(f, [*n_running, *n_queued], used, capacity)
            }
            Reason::PilotIdle { since, timeout } => write_idle(f, *since, *timeout),
            Reason::PilotTook { n_taken, n_given } => write_took(f, *n_taken, *n_given),
            Reason::KeptApart { n_tasks } => write_kept_apart(f, *n_tasks),
            Reason::PilotSuspended { since, limit } => write_suspended(f, *since, *limit),
            Reason::RunAlone { n_tasks } => write_run_alone(f, *n_tasks),
            Reason::RetriedElsewhere { n_tasks, left } => write_elsewhere(f, *n_tasks, *left),
            Reason::EndedWith { ends } => write_ends(f, ends),
            Reason::PilotDoubted { pilot, n_failures, next_in } => {
                write_doubted(f, *pilot, *n_failures, *next_in)
            }
            Reason::Profiling { platform, pilot, jobs } => write_profiling(f, platform, *pilot, jobs),
            Reason::JobPaused { .. }
            | Reason::OutputBudgetSpent { .. }
            | Reason::OutputQuotaSpent { .. }
            | Reason::OutputsCut { .. }
            | Reason::OutputCut { .. }
            | Reason::DiskFull { .. }
            | Reason::JobWaitsForFile { .. }
            | Reason::JobOver { .. }
            | Reason::JobRuns { .. }
            | Reason::JobBacksOff { .. }
            | Reason::JobRate { .. }
            | Reason::TaskDone
            | Reason::TaskFailed { .. }
            | Reason::TaskCancelled { .. }
            | Reason::FirstFailed { .. }
            | Reason::TaskRuns { .. }
            | Reason::TaskQueued { .. }
            | Reason::TaskWaitsForFile { .. }
            | Reason::FileLeftOut { .. }
            | Reason::TaskBacksOff { .. }
            | Reason::TaskBehind { .. }
            | Reason::InGrace { .. }
            | Reason::NoPlatform
            | Reason::FitsNowhere { .. }
            | Reason::NoPilot { .. }
            | Reason::PlatformFails { .. }
            | Reason::PlatformFull { .. }
            | Reason::PilotsTooShort { .. }
            | Reason::WalltimesTooShort { .. }
            | Reason::PilotsAway { .. }
            | Reason::SoonServed { .. }
            | Reason::PilotsBusy { .. }
            | Reason::BehindJob { .. }
            | Reason::PilotNext { .. }
            | Reason::ShuttingDown
            | Reason::PlatformHas { .. }
            | Reason::AllocationUnknown { .. }
            | Reason::QueueSays { .. }
            | Reason::PlatformUnlisted { .. }
            | Reason::PersonAwaited { .. }
            | Reason::PlatformRests { .. }
            | Reason::QueueFull { .. }
            | Reason::AskedOften { .. }
            | Reason::BudgetSpent { .. }
            | Reason::MoneySpent { .. }
            | Reason::UserBudgetSpent { .. }
            | Reason::NoWeights { .. }
            | Reason::Weights { .. }
            | Reason::WeightOf { .. }
            | Reason::WeightMoved { .. }
            | Reason::DeclaredOff { .. }
            | Reason::LeftToOthers { .. }
            | Reason::FailsThere { .. }
            | Reason::ShareOf { .. }
            | Reason::PlacedWith { .. }
            | Reason::AskedFor { .. }
            | Reason::NodeMeantFor { .. }
            | Reason::VcpusOfCore { .. }
            | Reason::NotScaled { .. }
            | Reason::JobBlocked { .. }
            | Reason::TaskBlocked { .. }
            | Reason::TaskForsaken { .. }
            | Reason::JobForsaken { .. }
            | Reason::Allocated { .. } => Ok(()),
        }
    }
}

fn write_cores_kept(f: &mut fmt::Formatter<'_>, pilot: PilotId, n_tasks: u64) -> fmt::Result {
    let plural = plural(n_tasks);
    write!(
        f,
        "pilot {pilot} keeps cores for {n_tasks} task{plural} whose files are being fetched or delivered"
    )
}

fn write_idle(f: &mut fmt::Formatter<'_>, since: Span, timeout: Span) -> fmt::Result {
    write!(f, "it has had nothing to do for {since}; after {timeout} it is sent away")
}

/// Writes the tasks that a pilot runs and holds, and its capacity.
fn write_works(
    f: &mut fmt::Formatter<'_>,
    [n_running, n_queued]: [u64; 2],
    used: &Resources,
    capacity: &Resources,
) -> fmt::Result {
    let s = plural(n_running);
    write!(f, "it runs {n_running} task{s} and holds {n_queued} more, which need {used}; it has {capacity}")
}

/// Writes about ready tasks that no pilot gets because of the tasks that it holds.
fn write_kept_apart(f: &mut fmt::Formatter<'_>, n_tasks: u64) -> fmt::Result {
    let (s, are) = are(n_tasks);
    write!(
        f,
        "{n_tasks} task{s} that may have taken a pilot down {are} kept apart: one that the next lost pilot "
    )?;
    write!(f, "sets aside (`crash_limit`) runs beside none that a lost pilot had")
}

/// Writes about ready tasks that wait for a pilot that holds nothing.
fn write_run_alone(f: &mut fmt::Formatter<'_>, n_tasks: u64) -> fmt::Result {
    let (s, are) = are(n_tasks);
    write!(
        f,
        "{n_tasks} task{s} {are} to run alone, one after the other, on a pilot that holds nothing else: "
    )?;
    write!(
        f,
        "as many pilots as `crash_limit` says were lost while other tasks ran there, too, so it may have been "
    )?;
    write!(f, "one of those, or all together")
}

/// Writes about ready tasks that failed at the pilots that are free.
fn write_elsewhere(f: &mut fmt::Formatter<'_>, n_tasks: u64, left: Span) -> fmt::Result {
    let (s, waits) = (plural(n_tasks), if n_tasks == 1 { "waits" } else { "wait" });
    write!(f, "{n_tasks} task{s} failed on the pilots, nodes or platforms that are free, and {waits} for ")?;
    write!(f, "another that can run it, for {left} at most (retry_elsewhere)")
}

/// The end of a batch job for which its batch system gives no cause.
pub const UNSAID: &str = "the batch system does not say who or what ended it";

/// Writes how the batch jobs ended in which a task ran.
fn write_ends(f: &mut fmt::Formatter<'_>, ends: &[(PilotId, Option<String>, String)]) -> fmt::Result {
    let end = |(pilot, batch_id, why): &(PilotId, Option<String>, String)| match batch_id {
        Some(batch_id) => format!("pilot {pilot} in batch job {batch_id} ({why})"),
        None => format!("pilot {pilot} ({why})"),
    };
    let is_any_unsaid = ends.iter().any(|(_, _, why)| why == UNSAID);
    let ends: Vec<String> = ends.iter().map(end).collect();
    write!(f, "these were ended or lost while it ran: {}; ", ends.join(", "))?;
    write!(
        f,
        "a task that needs more memory, cores or time than its pilot's job has makes the batch system do so"
    )?;
    match is_any_unsaid {
        true => {
            write!(f, "; if somebody ended them for another reason, `pilotfish retry-failed` counts anew")
        }
        false => Ok(()),
    }
}

/// Writes about a pilot that may be a black hole.
fn write_doubted(f: &mut fmt::Formatter<'_>, pilot: PilotId, n_failures: u32, next_in: Span) -> fmt::Result {
    let s = plural(n_failures.into());
    write!(
        f,
        "the last {n_failures} task{s} of pilot {pilot} failed, and other pilots may be able to run them: "
    )?;
    match next_in {
        Span::ZERO => write!(f, "it gets one at a time until one succeeds"),
        _ => write!(f, "it gets one at a time until one succeeds, the next in {next_in}"),
    }
}

/// Writes the numbers of stolen tasks.
fn write_took(f: &mut fmt::Formatter<'_>, n_taken: u64, n_given: u64) -> fmt::Result {
    let many = plural(n_taken);
    write!(f, "{n_taken} task{many} that waited at other pilots came to it since the manager started, ")?;
    write!(f, "and {n_given} went from it to others")
}

/// Writes the node of a profiling run, and the jobs that run there.
fn write_profiling(
    f: &mut fmt::Formatter<'_>,
    platform: &str,
    pilot: Option<PilotId>,
    jobs: &[(JobId, u64)],
) -> fmt::Result {
    let node = pilot.map_or_else(
        || format!("waits for a node of {platform}"),
        |pilot| format!("has pilot {pilot} of {platform} for itself"),
    );
    let jobs: Vec<String> =
        jobs.iter().map(|(job, n)| format!("{n} task{} of job {job}", plural(*n))).collect();
    match jobs.is_empty() {
        true => write!(f, "a profiling run {node}, for some seconds more"),
        false => write!(f, "a profiling run {node}: {} at a time", jobs.join(" and ")),
    }
}
