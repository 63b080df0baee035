//! The waiting line of jobs with ready tasks. Jobs of one kind of which no task has been leased differ only
//! in age, so the oldest of each kind go first, and a pull need not compare thousands of jobs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    engine::state::job::Job,
    ids::JobId,
    resources::Resources,
    time::{Span, Time},
};

/// All properties of a newcomer that matching, bundling and limits use, except its age.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind {
    rank: i32,
    priority: i32,
    resources: Resources,
    time_limit: Option<Span>,
    user: String,
    application: String,
}

/// A job's place in the line while no task of it has been leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    kind: Arc<Kind>,
    submitted_at: Time,
}

/// The jobs with ready tasks; each is in one of the two fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingLine {
    pub(in crate::engine) newcomers: BTreeMap<Arc<Kind>, BTreeSet<(Time, JobId)>>,
    pub(in crate::engine) others: BTreeSet<JobId>,
}

impl Newcomer {
    /// Returns the place of a job that was just submitted, or was there before a restart; `None`: attempts of
    /// it have ended.
    pub fn of(job: &Job) -> Option<Newcomer> {
        let request = &job.request;
        let is_new = job.first_result_at.is_none() && job.troubled.is_empty() && job.totals.n == 0;
        is_new.then(|| Newcomer {
            kind: Arc::new(Kind {
                rank: request.rank(),
                priority: request.priority,
                resources: request.needs.resources.clone(),
                time_limit: request.needs.time_limit,
                user: request.user.clone(),
                application: request.application.clone(),
            }),
            submitted_at: job.submitted_at,
        })
    }
}

impl WaitingLine {
    pub(in crate::engine) fn insert(&mut self, id: JobId, newcomer: Option<&Newcomer>) {
        match newcomer {
            Some(Newcomer { kind, submitted_at }) => match self.newcomers.get_mut(kind) {
                Some(line) => _ = line.insert((*submitted_at, id)),
                None => _ = self.newcomers.insert(kind.clone(), [(*submitted_at, id)].into()),
            },
            None => _ = self.others.insert(id),
        }
    }

    pub(in crate::engine) fn remove(&mut self, id: JobId, newcomer: Option<&Newcomer>) {
        self.others.remove(&id);
        let Some(Newcomer { kind, submitted_at }) = newcomer else { return };
        let Some(line) = self.newcomers.get_mut(kind) else { return };
        line.remove(&(*submitted_at, id));
        if line.is_empty() {
            self.newcomers.remove(kind);
        }
    }
}
