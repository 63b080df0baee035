//! The failures and listings of a platform since the manager started.

use crate::{
    engine::{
        interface::platform::queue_load::QueueLoad,
        live::platform::{short_lived::ShortLived, vcpu_watch::Watch},
    },
    time::Time,
};

/// A series of failed listings of a platform.
#[derive(Clone, Debug)]
pub struct Unlisted {
    /// The reason why the last of them failed.
    pub what: String,
    /// Number of failed listings.
    pub n: u32,
    /// The time at which the first of them failed.
    pub since: Time,
}

/// The live state of a platform.
#[derive(Clone, Debug, Default)]
pub struct PlatformState {
    /// Whether the operator has attached it since this start; nothing is requested from it before.
    pub is_attached: bool,
    /// Number of failures in a row.
    pub n_failures: u32,
    /// The time before which nothing is requested from it.
    pub blocked_until: Time,
    /// The time of its last failure.
    pub failed_at: Time,
    /// Whether accepted batch jobs have failed since then, too, and not only submissions.
    pub ends_jobs: bool,
    /// The time at which a pilot last came of one of its allocations.
    pub came_at: Option<Time>,
    /// The time of the last listing with a batch job that has waited long: the platform takes jobs, and
    /// starts them later.
    pub queued_at: Option<Time>,
    /// The last failure, in the platform's words.
    pub last_failure: Option<String>,
    /// The limit in its words, if it accepted no more jobs when it was last asked.
    pub full: Option<String>,
    /// Its last listings, if they failed; `None`: the last one did not.
    pub unlisted: Option<Unlisted>,
    /// The reason why its connection waits for a person; `None`: it does not.
    pub waits_for_person: Option<String>,
    /// The time at which its timer is due.
    pub timer_at: Option<Time>,
    /// The time of the last search for the pilot at which most tasks wait.
    pub hunted_at: Option<Time>,
    /// The time at which its listing was last requested.
    pub listed_at: Option<Time>,
    /// Its queue load, as it reports it, and the time of that report.
    pub load: Option<(QueueLoad, Time)>,
    /// The time at which the queue load was last requested.
    pub load_asked_at: Option<Time>,
    /// The time since when more of its allocations wait than there is work for.
    pub unneeded_since: Option<Time>,
    /// The measurements for its vCPU ratio.
    pub watch: Watch,
    /// Its pilots that ended before they had done anything.
    pub short_lived: ShortLived,
}
