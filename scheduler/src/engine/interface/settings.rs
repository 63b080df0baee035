//! The engine's constants that an operator may change, with their defaults and reasons.

use serde::{Deserialize, Serialize};

use crate::{policy::Policies, time::Span};

/// Limits and intervals. Every field has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Questions to the policies of no more cells of tables than this are answered at once, each in some microseconds.
    pub cells_at_once: u64,
    /// Drawn once per store; part of each allocation's tag, so that two managers never touch each other's.
    pub store_id: u64,
    /// The last job that was given a number, although the records may not tell of it: they may have been put back.
    pub last_job: u64,
    /// The same of allocations.
    pub last_allocation: u64,
    /// Whether the store is only read: no platform is looked at.
    pub only_reads: bool,
    /// Which policy each layer uses.
    pub policies: Policies,
    /// A pilot silent for longer is given up. Pulls are renewed every `poll_wait_max`, so this is
    /// three of them: one lost message kills nobody.
    pub heartbeat_limit: Span,
    /// How long a pull may stay parked; below the 60 s after which proxies cut idle connections.
    pub poll_wait_max: Span,
    /// After a restart: how long tasks are withheld for pilots that may hold them.
    pub grace: Span,
    /// How much work is sent ahead to each slot of a pilot: hides the round trip and the commit.
    pub prefetch: Span,
    /// Never more tasks ahead than this, a slot.
    pub prefetch_tasks_max: u64,
    /// No bundle is cut into smaller ones than keep a pilot busy for so long: dividing them would gain
    /// less time than the messages cost.
    pub bundle_min: Span,
    /// No bundle of another job is added to an answer whose templates have so many bytes. One more job of
    /// the largest size still fits a message.
    pub template_bytes_max: usize,
    /// How often a node's failure is retried before the task fails.
    pub node_retries: u32,
    /// How often a program that cannot be started is tried elsewhere before the task fails.
    pub start_retries: u32,
    /// How often a task that had most of a pilot's walltime and did not end is tried again.
    pub walltime_retries: u32,
    /// How often a task whose files could not be brought or delivered is tried again, after the pilot's own
    /// tries: on another node, if there is one.
    pub transfer_retries: u32,
    /// The wait before a retry after a node's failure or a transfer's; doubles with each.
    pub node_retry_delay: Span,
    /// No retry waits longer.
    pub retry_delay_max: Span,
    /// Node failures in a row that make a pilot a black hole, if others can run the job.
    pub black_hole_limit: u32,
    /// A task that has failed waits for so long at most for another pilot, node or platform that can run it.
    pub retry_elsewhere: Span,
    /// The wait after a platform's first failure; doubles with each up to `platform_delay_max`.
    pub platform_delay: Span,
    /// No failing platform is left alone for longer: then one allocation tries it again.
    pub platform_delay_max: Span,
    /// The longest that a submission is under way: before that, not being listed proves nothing of an
    /// allocation whose fate is unknown.
    pub submit_limit: Span,
    /// How long an allocation may run before its first pilot comes: then it is taken away.
    pub join_limit: Span,
    /// How long a manager that was stopped waits until platforms have taken away what was there of it.
    pub leave_limit: Span,
    /// Kept free at the end of a pilot's walltime for reports.
    pub walltime_margin: Span,
}

impl Settings {
    /// How the tags of this store's allocations begin.
    pub fn tag_prefix(&self) -> String {
        format!("pf{:x}-", self.store_id & 0xff_ffff)
    }

    /// How many tasks of so long a slot should have, the running one included: as many as make up the
    /// prefetch time, one while nothing is known or when tasks are long.
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
