//! Ready jobs, in line. Jobs of which nothing has been given out yet and that are alike differ in their age only, so the
//! oldest of each kind go before the others, and a pull need not weigh thousands of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    engine::{
        live::volatile::{Keep, Volatile},
        state::{durable::Durable, job::Job},
    },
    ids::{JobId, PilotId},
    resources::Resources,
    time::{Span, Time},
};

/// Where fewer jobs are ready, all of them are weighed.
const N_READY_MIN: usize = 64;

/// All that matching, bundling and limits ask of a job of which nothing has been given out, but for its age.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind {
    rank: i32,
    priority: i32,
    resources: Resources,
    time_limit: Option<Span>,
    user: String,
    application: String,
}

/// A job's place in line for as long as nothing of it has been given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    kind: Arc<Kind>,
    submitted_at: Time,
}

/// Jobs with ready tasks: each is in one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineup {
    newcomers: BTreeMap<Arc<Kind>, BTreeSet<(Time, JobId)>>,
    others: BTreeSet<JobId>,
}

impl Newcomer {
    /// The place of a job that is there since a moment ago, or since before a restart of the manager.
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

impl Lineup {
    fn insert(&mut self, id: JobId, newcomer: Option<&Newcomer>) {
        match newcomer {
            Some(Newcomer { kind, submitted_at }) => match self.newcomers.get_mut(kind) {
                Some(line) => _ = line.insert((*submitted_at, id)),
                None => _ = self.newcomers.insert(kind.clone(), [(*submitted_at, id)].into()),
            },
            None => _ = self.others.insert(id),
        }
    }

    fn remove(&mut self, id: JobId, newcomer: Option<&Newcomer>) {
        self.others.remove(&id);
        let Some(Newcomer { kind, submitted_at }) = newcomer else { return };
        let Some(line) = self.newcomers.get_mut(kind) else { return };
        line.remove(&(*submitted_at, id));
        if line.is_empty() {
            self.newcomers.remove(kind);
        }
    }
}

impl Volatile {
    /// Some of the job's tasks are ready.
    pub(in crate::engine) fn line_up(&mut self, id: JobId) {
        if self.ready.insert(id) {
            self.lineup.insert(id, self.jobs.get(&id).and_then(|leases| leases.newcomer.as_ref()));
        }
    }

    /// None of the job's tasks is ready any more; says whether some were.
    pub(in crate::engine) fn leave_line(&mut self, id: JobId) -> bool {
        self.lineup.remove(id, self.jobs.get(&id).and_then(|leases| leases.newcomer.as_ref()));
        self.ready.remove(&id)
    }

    /// Something of the job was given out: it is like no other any more.
    pub(in crate::engine) fn is_new_no_more(&mut self, id: JobId) {
        let Some(newcomer) = self.jobs.get_mut(&id).and_then(|leases| leases.newcomer.take()) else { return };
        self.lineup.remove(id, Some(&newcomer));
        if self.ready.contains(&id) {
            self.lineup.insert(id, None);
        }
    }

    /// The line as a full scan finds it.
    pub(in crate::engine) fn lineup_anew(&self) -> Lineup {
        let mut lineup = Lineup::default();
        for id in &self.ready {
            lineup.insert(*id, self.jobs.get(id).and_then(|leases| leases.newcomer.as_ref()));
        }
        lineup
    }
}

/// Ready jobs among which those are that a pilot is served `n` times in a row: the first `n` and one more of each kind of
/// newcomers, and all others. `None`: there are so few that all are to be weighed. Cost: O(kinds × n + others).
pub(in crate::engine) fn first_in_line(
    durable: &Durable,
    volatile: &Volatile,
    (pilot, kept): (PilotId, Option<Keep>),
    n: usize,
) -> Option<BTreeSet<JobId>> {
    if volatile.ready.len() < N_READY_MIN {
        return None;
    }
    let revoked = volatile.pilots.get(&pilot).map(|state| &state.revoked);
    // One that is not may not be for this pilot, so it stands for no other.
    let is_alike = |id: &JobId| {
        let is_running = durable.jobs().get(id).is_some_and(|job| !job.is_paused);
        let is_kept = volatile.kept_for.contains(id);
        is_running && !is_kept && !revoked.is_some_and(|revoked| revoked.contains_key(id))
    };
    let mut first = volatile.lineup.others.clone();
    for line in volatile.lineup.newcomers.values() {
        let mut n_alike = 0;
        for (_, id) in line {
            n_alike += usize::from(is_alike(id));
            first.insert(*id);
            if n_alike > n {
                break;
            }
        }
    }
    // Cores that are kept for a job change its turn.
    first.extend(volatile.kept_for.intersection(&volatile.ready));
    first.extend(kept.map(|kept| kept.job).filter(|job| volatile.ready.contains(job)));
    Some(first)
}
