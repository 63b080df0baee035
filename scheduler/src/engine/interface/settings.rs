//! The constants of the engine that an operator can set, with their defaults and reasons.

use serde::{Deserialize, Serialize};

use crate::{policy::Policies, time::Span};

/// Limits and intervals. Every field has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Number of table cells up to which a plan is computed at once, within microseconds per cell, instead of
    /// in the background.
    pub cells_at_once: u64,
    /// The store's id, drawn once. Part of each allocation's tag, so that two managers never touch each
    /// other's allocations.
    pub store_id: u64,
    /// The highest job id that was given, even if the records lack it because the store was restored from a
    /// backup.
    pub last_job: u64,
    /// The highest allocation id that was given, as for jobs.
    pub last_allocation: u64,
    /// Whether the store is only read: the manager contacts no platform.
    pub only_reads: bool,
    /// The policy of each layer.
    pub policies: Policies,
    /// The silence after which a pilot is lost. A pilot renews its pull every `poll_wait_max`; this is three
    /// times as long, so one lost message loses no pilot.
    pub heartbeat_limit: Span,
    /// The longest time for which a pull is parked; below the 60 s after which proxies cut idle connections.
    pub poll_wait_max: Span,
    /// The grace period: the time after a restart for which tasks are withheld for pilots that may hold them.
    pub grace: Span,
    /// The amount of work that is sent ahead to each slot of a pilot: hides the round trip and the commit.
    pub prefetch: Span,
    /// Number of tasks that are sent ahead to each slot at most.
    pub prefetch_tasks_max: u64,
    /// The time for which a bundle keeps a pilot busy at least: dividing a smaller one would gain less time
    /// than the messages cost.
    pub bundle_min: Span,
    /// The bytes of templates from which on an answer gets no bundle of another job. One more job of the
    /// largest size still fits in a message.
    pub template_bytes_max: usize,
    /// Number of retries after failures of the node, before the task fails.
    pub node_retries: u32,
    /// Number of retries on other pilots after a program could not be started, before the task fails.
    pub start_retries: u32,
    /// Number of retries of a task that had most of a pilot's walltime and did not end.
    pub walltime_retries: u32,
    /// Number of retries after a failed transfer of files, beside the pilot's own retries; on another node,
    /// if there is one.
    pub transfer_retries: u32,
    /// The wait before the first retry after a failure of the node or a transfer; it doubles with each retry.
    pub node_retry_delay: Span,
    /// The longest wait before a retry.
    pub retry_delay_max: Span,
    /// Number of node failures in a row that make a pilot a black hole, if others can run the job.
    pub black_hole_limit: u32,
    /// The longest time for which a failed task waits for another pilot, node or platform that can run it.
    pub retry_elsewhere: Span,
    /// The wait after a platform's first failure; it doubles with each failure up to `platform_delay_max`.
    pub platform_delay: Span,
    /// The longest time for which a failing platform is left alone: then one allocation tests it.
    pub platform_delay_max: Span,
    /// The longest duration of a submission. Before that, an allocation with an unknown outcome may exist
    /// although no listing shows it.
    pub submit_limit: Span,
    /// The time for which an allocation may run without a registered pilot before it is cancelled.
    pub join_limit: Span,
    /// The time for which a stopping manager waits for platforms to end its allocations.
    pub leave_limit: Span,
    /// The time that is kept free for reports at the end of a pilot's walltime.
    pub walltime_margin: Span,
}

impl Settings {
    /// Returns the prefix of the tags of this store's allocations.
    pub fn tag_prefix(&self) -> String {
        format!("pf{:x}-", self.store_id & 0xff_ffff)
    }

    /// Returns the number of tasks with this mean runtime that a slot should have, the running one included:
    /// as many as fill the prefetch time; one while the runtime is unknown or long.
    pub fn depth(&self, mean: Option<Span>) -> u64 {
        let ahead = mean.map_or(0, |mean| self.prefetch.0 / mean.0.max(1));
        ahead.saturating_add(1).min(self.prefetch_tasks_max.max(1))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cells_at_once: 250,
            store_id: 0,
            last_job: 0,
            last_allocation: 0,
            only_reads: false,
            policies: Policies::default(),
            heartbeat_limit: Span::from_secs(75),
            poll_wait_max: Span::from_secs(25),
            grace: Span::from_secs(60),
            prefetch: Span::from_millis(250),
            prefetch_tasks_max: 4096,
            bundle_min: Span::from_millis(5),
            template_bytes_max: 32 << 20,
            node_retries: 3,
            start_retries: 1,
            walltime_retries: 2,
            transfer_retries: 3,
            node_retry_delay: Span::from_secs(1),
            retry_delay_max: Span::from_secs(600),
            black_hole_limit: 10,
            retry_elsewhere: Span::from_secs(600),
            platform_delay: Span::from_secs(1),
            platform_delay_max: Span::from_secs(300),
            submit_limit: Span::from_secs(60),
            leave_limit: Span::from_secs(60),
            join_limit: Span::from_secs(1800),
            walltime_margin: Span::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Settings, Span};

    #[test]
    fn a_slot_has_one_task_at_least_whatever_the_limits() {
        let depth = |prefetch, prefetch_tasks_max| {
            let settings = Settings { prefetch: Span(prefetch), prefetch_tasks_max, ..Settings::default() };
            settings.depth(Some(Span(1)))
        };
        assert_eq!((depth(0, 0), depth(0, u64::MAX), depth(u64::MAX, 0)), (1, 1, 1));
        assert_eq!(depth(u64::MAX, u64::MAX), u64::MAX);
    }
}
