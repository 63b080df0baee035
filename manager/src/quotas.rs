//! What one user may take, so that none can stop the others.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::security::users::Holder;

/// What one user may take. `None`: as much as there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Jobs that have not ended.
    pub n_jobs: Option<u64>,
    /// Their tasks that have not ended.
    pub n_tasks: Option<u64>,
    /// Bytes of the descriptions of all jobs, which stay in memory when they have ended.
    pub value_bytes: Option<u64>,
    /// Bytes of output that are kept.
    pub output_bytes: Option<u64>,
    /// Bytes of files that the user has brought or the user's tasks have left.
    pub file_bytes: Option<u64>,
    /// Event streams at a time.
    pub n_streams: Option<u64>,
    /// Requests without an answer at a time.
    pub n_requests: Option<u64>,
    /// Connections at a time.
    pub n_connections: Option<u64>,
    /// Files on their way at a time.
    pub n_transfers: Option<u64>,
    /// Whether priorities of the user's jobs count among the jobs of all users, and not only among the user's own.
    pub is_priority_over_all: bool,
}

impl Quota {
    /// That of an operator: only priorities count among own jobs.
    pub const UNLIMITED: Quota = Quota {
        n_jobs: None,
        n_tasks: None,
        value_bytes: None,
        output_bytes: None,
        file_bytes: None,
        n_streams: None,
        n_requests: None,
        n_connections: None,
        n_transfers: None,
        is_priority_over_all: false,
    };
}

/// That of a user who is no operator, where nothing else is said: plenty for work, and a small part of what a manager has.
impl Default for Quota {
    fn default() -> Quota {
        Quota {
            n_jobs: Some(10_000),
            n_tasks: None,
            value_bytes: Some(1 << 30),
            output_bytes: Some(100 << 30),
            file_bytes: Some(1 << 40),
            n_streams: Some(128),
            n_requests: Some(64),
            n_connections: Some(1024),
            n_transfers: Some(16),
            is_priority_over_all: false,
        }
    }
}

/// The quotas of all users.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas {
    /// Of a user who is no operator, where nothing else is said.
    pub default: Quota,
    /// Of users who are no operators, where something else is said.
    pub users: BTreeMap<String, Quota>,
    /// Of operators where something is said.
    pub operators: BTreeMap<String, Quota>,
}

impl Quotas {
    /// The quota of a user.
    pub fn of(&self, name: &str, is_operator: bool) -> Quota {
        let (of_role, default) =
            if is_operator { (&self.operators, Quota::UNLIMITED) } else { (&self.users, self.default) };
        of_role.get(name).copied().unwrap_or(default)
    }
}

/// The quotas that hold now; they change when the configuration is read again.
#[derive(Clone, Debug, Default)]
pub struct CurrentQuotas(Arc<RwLock<Quotas>>);

impl CurrentQuotas {
    /// These hold from now on; says whether they are others than before.
    pub fn set(&self, quotas: &Quotas) -> bool {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let differs = *held != *quotas;
        held.clone_from(quotas);
        differs
    }

    /// The quota of a user.
    pub fn of(&self, user: &Holder) -> Quota {
        self.of_name(&user.name, user.is_operator)
    }

    /// The quota of the user of a name, or of the operator.
    pub fn of_name(&self, name: &str, is_operator: bool) -> Quota {
        self.0.read().unwrap_or_else(PoisonError::into_inner).of(name, is_operator)
    }
}

/// Each is counted by user while it is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// Requests that have no answer yet.
    Requests,
    /// Event streams.
    Streams,
    /// Connections on which the user was recognized.
    Connections,
    /// Jobs of submissions that are being checked.
    Jobs,
    /// Their tasks.
    Tasks,
    /// Bytes of their values.
    Values,
}

impl Kind {
    /// Its word in the configuration.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Requests => "requests",
            Kind::Streams => "streams",
            Kind::Connections => "connections",
            Kind::Jobs => "jobs",
            Kind::Tasks => "tasks",
            Kind::Values => "values",
        }
    }
}
