//! Failures and listings of a platform since the manager started.

use crate::{
    engine::{
        interface::platform::queue_load::QueueLoad,
        live::platform::{short_lived::ShortLived, vcpu_watch::Watch},
    },
    time::Time,
};

/// Listings of a platform that failed in a row.
#[derive(Clone, Debug)]
pub struct Unlisted {
    /// Why the last of them failed.
    pub what: String,
    /// How many.
    pub n: u32,
    /// When the first of them failed.
    pub since: Time,
}

/// A platform's fortunes.
#[derive(Clone, Debug, Default)]
pub struct PlatformState {
    /// Whether the operator has attached it since this start; nothing is asked of it before.
    pub is_attached: bool,
    /// Failures in a row.
    pub n_failures: u32,
    /// Nothing is asked of it before this time.
    pub blocked_until: Time,
    /// When it last failed.
    pub failed_at: Time,
    /// Whether since then jobs came to nothing that it had accepted, and not only submissions failed.
    pub ends_jobs: bool,
    /// When a pilot last came of a job of it.
    pub came_at: Option<Time>,
    /// When a listing last showed that a job of it has waited in its queue for long: it takes jobs, and begins them later.
    pub queued_at: Option<Time>,
    /// The last failure, in the platform's words.
    pub last_failure: Option<String>,
    /// The limit by which it took no more jobs when it was last asked, in its words.
    pub full: Option<String>,
    /// Its last listings that failed; `None`: the last one did not.
    pub unlisted: Option<Unlisted>,
    /// Why its connection waits for a person; `None`: it does not.
    pub waits_for_person: Option<String>,
    /// When its timer is due.
    pub timer_at: Option<Time>,
    /// When it was last looked at which of its pilots most tasks wait.
    pub hunted_at: Option<Time>,
    /// When its listing was last asked for.
    pub listed_at: Option<Time>,
    /// How busy it is, by its own word, and when it said so.
    pub load: Option<(QueueLoad, Time)>,
    /// When it was last asked that.
    pub load_asked_at: Option<Time>,
    /// Since when more of its allocations wait than there is work for.
    pub unneeded_since: Option<Time>,
    /// What its vCPUs have been like.
    pub watch: Watch,
    /// Its pilots that ended before they had done anything.
    pub short_lived: ShortLived,
}
