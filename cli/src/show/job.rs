//! One job in full, and the table at the end of a run.

use protocol::job::limits::RESULT_LIMIT_BYTES_MAX;
use scheduler::{
    engine::interface::views::{Counts, CutOutputs, JobView},
    pull::MovedBytes,
    time::Span,
};

use crate::show::{
    Screen,
    facts::Facts,
    format::{age, bytes, clock, count, counted, mean_and_deviation, rate, span},
};

/// Everything that is known of a job.
pub fn facts(job: &JobView) -> Facts {
    let mut facts = Facts::default();
    facts.add("job", format!("{} ({})", job.id, job.name));
    // Of a job that goes on, it is the cause of a few tasks' end.
    let cause = job
        .cancel_cause
        .as_ref()
        .filter(|_| job.state == "cancelled")
        // `cancelled by root`
        .map(|cause| if cause.starts_with("by ") { format!(" {cause}") } else { format!(": {cause}") })
        .unwrap_or_default();
    facts.add("state", format!("{}{cause}", job.state));
    facts.add("tasks", counts_line(job));
    // Tasks may wait for others of their own job.
    let after: Vec<String> =
        job.after.iter().filter(|id| **id != job.id).map(|id| format!("job {id}")).collect();
    if !after.is_empty() {
        facts.add("after", after.join(", "));
    }
    facts.add("each task", job.needs.to_string());
    facts.add("application", job.application.clone());
    facts.add("user", job.user.clone());
    if job.priority != 0 {
        let among = if job.priority_over_all { " among the jobs of all users" } else { "" };
        facts.add("priority", format!("{}{among}", job.priority));
    }
    let since = |at| format!("{} ({} ago)", clock(at, job.now), age(job.now, at));
    facts.add("submitted", since(job.submitted_at));
    facts.add_some("ended", job.ended_at.map(since));
    facts.add_some("per task", mean_and_deviation(job.wall_mean, job.wall_deviation));
    // Both are sums over successes: without one they say nothing.
    if job.counts.done > 0 {
        facts.add("wall time", of_successes(job.wall_total));
        facts.add("CPU time", of_successes(job.cpu_total));
    }
    if job.memory_bytes_max > 0 {
        facts.add("memory", most_of_successes(job.memory_bytes_max));
    }
    if job.n_failed_attempts > 0 {
        facts.add("failed", counted(job.n_failed_attempts, "attempt"));
    }
    let MovedBytes { cached, from_manager, from_peers, from_urls, to_manager, to_shared, to_stores } =
        job.moved;
    let came = [
        (from_manager, "from the manager"),
        (from_peers, "from other nodes"),
        (from_urls, "from the network"),
        (cached, "from caches of nodes"),
    ];
    facts.add_some("brought", moved_text(&came));
    facts.add_some(
        "delivered",
        moved_text(&[
            (to_manager, "to the manager"),
            (to_shared, "where nodes see it"),
            (to_stores, "to stores"),
        ]),
    );
    for what in spent_on_output(job) {
        facts.add("output", format!("{what} is used up: output since then is not kept"));
    }
    facts.add_some("extracted", cut_outputs(job));
    facts
}

/// `2 tasks of job 3 wrote more than results.limit (1.0 MiB): …`: how many, what it means and what to do.
fn cut_outputs(job: &JobView) -> Option<String> {
    let CutOutputs { n_tasks, limit_bytes } = job.cut_outputs?;
    let (most, from) = (RESULT_LIMIT_BYTES_MAX, if n_tasks == 1 { "it" } else { "them" });
    let what_to_do = match limit_bytes < most {
        true => format!("raise `results: {{limit: {}MiB}}` and run the job again", most >> 20),
        false => "have the program write first what is extracted".to_owned(),
    };
    Some(format!(
        "{} of job {} wrote more than results.limit ({}): values of results.extract may be missing from {from}; {what_to_do}",
        counted(n_tasks, "task"),
        job.id,
        bytes(limit_bytes)
    ))
}

/// `the output budget of job 3 (8KiB, results.budget)` and the like: what is used up, so that output is not kept.
fn spent_on_output(job: &JobView) -> Vec<String> {
    let of_job = |n| format!("the output budget of job {} ({}, results.budget)", job.id, bytes(n));
    let of_user = |n| format!("the output quota of {} ({}, quotas.output)", job.user, bytes(n));
    let spent = [job.output_budget_spent.map(of_job), job.output_quota_spent.map(of_user)];
    spent.into_iter().flatten().collect()
}

/// Warns of output that was not kept, and of values that may be missing for that.
pub fn warn_of_lost_output(job: &JobView) {
    for what in spent_on_output(job) {
        super::say(&format!(
            "warning: {what} is used up: output since then is not kept, and values extracted from it are missing"
        ));
    }
    if let Some(what) = cut_outputs(job) {
        super::say(&format!("warning: {what}"));
    }
}

/// `5MiB from the manager, 1GiB from caches of nodes`
fn moved_text(ways: &[(u64, &str)]) -> Option<String> {
    let parts: Vec<String> =
        ways.iter().filter(|(n, _)| *n > 0).map(|(n, way)| format!("{} {way}", bytes(*n))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn of_successes(total: Span) -> String {
    format!("{} of the successful attempts", span(total))
}

/// Failed attempts may have used more: `pilotfish tasks` shows them.
fn most_of_successes(n: u64) -> String {
    format!("{} at most in the successful attempts", bytes(n))
}

/// How a job ended: `job 3 is done (9: 9 done)`.
pub fn end_line(job: &JobView) -> String {
    let how = match job.state.as_str() {
        "failed" => "has failed tasks",
        "cancelled" => "was cancelled",
        "done" => "is done",
        _ => "is not over",
    };
    format!("job {} {how} ({})", job.id, counts_line(job))
}

/// `1,000: 12 waiting, 3 running, 985 done`
pub fn counts_line(job: &JobView) -> String {
    format!("{}: {}", count(job.counts.total), counts_text(&job.counts))
}

/// `12 waiting, 3 running, 985 done`
pub fn counts_text(counts: &Counts) -> String {
    let parts: Vec<String> = [
        (counts.waiting.saturating_sub(counts.blocked), "waiting"),
        (counts.blocked, "waiting for others"),
        (counts.queued, "queued"),
        (counts.running, "running"),
        (counts.done, "done"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, word)| format!("{} {word}", count(n)))
    .collect();
    parts.join(", ")
}

/// The table at the end of a run that took so long and ran so many tasks itself.
pub fn summary(job: &JobView, elapsed: Span, n_run: u64, screen: &Screen) -> String {
    let mut facts = Facts::default();
    facts.add("job", format!("{} ({})", job.id, job.name));
    facts.add("tasks", counts_line(job));
    facts.add_some("cancelled", job.cancel_cause.clone().filter(|_| job.counts.cancelled > 0));
    facts.add("wall time", span(elapsed));
    if job.counts.done > 0 {
        facts.add("CPU time", of_successes(job.cpu_total));
    }
    facts.add_some("per task", mean_and_deviation(job.wall_mean, job.wall_deviation));
    if job.memory_bytes_max > 0 {
        facts.add("memory", most_of_successes(job.memory_bytes_max));
    }
    // One task has no throughput, only a time.
    if n_run > 1 && elapsed.0 > 0 {
        facts.add("throughput", format!("{} tasks/s", rate(n_run as f64 / elapsed.as_secs_f64())));
    }
    facts.render(screen)
}
