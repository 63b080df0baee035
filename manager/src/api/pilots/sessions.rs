//! What a pilot's session is good for beside its pulls: files of the tasks that the pilot was leased, and nothing else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{extract::FromRequestParts, http::request::Parts};
use protocol::job::Objects;
use scheduler::{
    digest::Digest,
    engine::interface::{
        Answer, Query,
        views::{SessionJob, SessionView},
    },
    ids::{JobId, PilotId, PlatformId},
    ranges::TaskSet,
};
use serde::Deserialize;

use crate::api::{
    Context, Shared, blocking,
    http::{error::ApiError, extract::bearer},
};
use crate::security::tokens::Bearer;

/// Digests of jobs' inputs that are kept at most: 64 MiB.
const N_NAMED_MAX: usize = 2 << 20;
/// Digests that are remembered at most of what pilots were told to take of what tasks have left.
const N_GRANTED_MAX: usize = 1 << 20;

/// A live pilot, and what it was leased when it asked.
pub(in crate::api) struct Session {
    pub(in crate::api) pilot: PilotId,
    view: SessionView,
}

/// The pilot whose session asks. Handlers name it before the path, the query and the body, so that these are read only
/// for a pilot that is there.
impl FromRequestParts<Shared> for Session {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, context: &Shared) -> Result<Session, ApiError> {
        match bearer(&parts.headers, &parts.extensions, context)? {
            Bearer::Session { pilot, nonce } => Session::of(context, pilot, nonce).await,
            Bearer::Join { .. } | Bearer::User(_) => {
                Err(ApiError::unauthorized("found another token where a pilot's session is needed"))
            }
        }
    }
}

impl Session {
    /// The session of a pilot's registration; an error if it has ended.
    pub(in crate::api) async fn of(
        context: &Context,
        pilot: PilotId,
        nonce: u64,
    ) -> Result<Session, ApiError> {
        match context.query(Query::Session(pilot, nonce)).await? {
            Answer::Session(view) => Ok(Session { pilot, view: *view }),
            other => Err(ApiError::unexpected(&other)),
        }
    }

    pub(in crate::api) fn platform(&self) -> PlatformId {
        self.view.platform
    }

    /// Whether the pilot has the task. Of one that has not said what it holds nobody knows.
    pub(in crate::api) fn holds(&self, job: JobId, index: u64) -> bool {
        self.view.tasks(job).is_some_and(|tasks| tasks.contains(index))
    }

    /// The tasks of a job that the pilot has.
    pub(in crate::api) fn tasks(&self, job: JobId) -> Result<&TaskSet, ApiError> {
        self.is_in_step()?;
        self.view.tasks(job).ok_or_else(|| ApiError::not_leased(&format!("no task of job {job}")))
    }

    /// After a restart of the manager, leases are not known until the pilot's next pull: it asks again then.
    fn is_in_step(&self) -> Result<(), ApiError> {
        if self.view.is_in_step { Ok(()) } else { Err(ApiError::not_in_step()) }
    }

    /// Whether it may bring files: some of its tasks, of this job if one is named, leave some.
    pub(in crate::api) fn may_deliver(&self, job: Option<JobId>) -> Result<(), ApiError> {
        self.is_in_step()?;
        match (self.delivers_for(job).next(), job) {
            (Some(_), _) => Ok(()),
            (None, None) => Err(ApiError::not_leased("no task that leaves files")),
            (None, Some(job)) => {
                Err(ApiError::not_leased(&format!("no task of job {job} that leaves files")))
            }
        }
    }

    /// The users whose tasks there, of this job if one is named, leave files.
    pub(in crate::api) fn delivers_for(&self, job: Option<JobId>) -> impl Iterator<Item = &str> {
        let leaves = move |held: &&SessionJob| held.staging.outputs && job.is_none_or(|job| held.job == job);
        self.view.jobs.iter().filter(leaves).map(|held| held.user.as_str())
    }

    /// Those of these objects that its tasks do not need.
    pub(in crate::api) async fn not_needed(
        &self,
        context: &Context,
        mut asked: BTreeSet<Digest>,
    ) -> Result<BTreeSet<Digest>, ApiError> {
        self.is_in_step()?;
        for held in self.view.jobs.iter().filter(|held| held.staging.inputs) {
            if asked.is_empty() {
                return Ok(asked);
            }
            let named = context.named_by(held.job).await?;
            asked.retain(|sha256| named.binary_search(sha256).is_err());
        }
        asked.retain(|sha256| !context.granted.has(self.pilot, sha256));
        // The manager was started anew since it told the pilot.
        let after: BTreeSet<JobId> =
            self.view.jobs.iter().flat_map(|held| held.after.iter().copied()).collect();
        for job in after {
            if asked.is_empty() {
                return Ok(asked);
            }
            let (reader, wanted) = (context.state.reader.clone(), asked.clone());
            let left = blocking(move || Ok(reader.left_by_none_of(job, wanted)?)).await?;
            context.granted.add(self.pilot, asked.difference(&left).copied());
            asked = left;
        }
        Ok(asked)
    }

    /// Refuses an object that its tasks do not need.
    pub(in crate::api) async fn may_fetch(&self, context: &Context, sha256: Digest) -> Result<(), ApiError> {
        match self.not_needed(context, BTreeSet::from([sha256])).await?.is_empty() {
            true => Ok(()),
            false => Err(ApiError::not_leased(&format!("no task that needs object {sha256}"))),
        }
    }
}

/// Files that pilots were told to take of what other tasks have left.
#[derive(Default)]
pub(in crate::api) struct Granted(Mutex<(usize, HashMap<PilotId, HashSet<Digest>>)>);

impl Granted {
    pub(in crate::api) fn add(&self, pilot: PilotId, files: impl Iterator<Item = Digest>) {
        let mut granted = lock(&self.0);
        // What is forgotten is looked up in the store.
        if granted.0 > N_GRANTED_MAX {
            *granted = Default::default();
        }
        let of_pilot = granted.1.entry(pilot).or_default();
        let n_new = files.filter(|sha256| of_pilot.insert(*sha256)).count();
        granted.0 += n_new;
    }

    fn has(&self, pilot: PilotId, sha256: &Digest) -> bool {
        lock(&self.0).1.get(&pilot).is_some_and(|files| files.contains(sha256))
    }

    pub(in crate::api) fn forget(&self, pilot: PilotId) {
        let mut granted = lock(&self.0);
        let n_files = granted.1.remove(&pilot).map_or(0, |files| files.len());
        granted.0 = granted.0.saturating_sub(n_files);
    }
}

/// What the inputs of jobs hold, in order, of the jobs asked for last.
#[derive(Default)]
pub(in crate::api) struct NamedObjects(Mutex<BTreeMap<JobId, Arc<[Digest]>>>);

/// The part of a job's spec that names objects.
#[derive(Deserialize)]
struct Naming {
    #[serde(default)]
    inputs: Vec<NamingInput>,
}

#[derive(Deserialize)]
struct NamingInput {
    #[serde(default)]
    objects: Objects,
}

impl NamedObjects {
    fn find(&self, job: JobId) -> Option<Arc<[Digest]>> {
        lock(&self.0).get(&job).cloned()
    }

    fn keep(&self, job: JobId, named: Arc<[Digest]>) -> Arc<[Digest]> {
        let mut kept = lock(&self.0);
        kept.insert(job, named.clone());
        let mut n_digests: usize = kept.values().map(|named| named.len()).sum();
        while n_digests > N_NAMED_MAX
            && let Some((oldest, _)) = kept.iter().find(|(other, _)| **other != job)
        {
            let oldest = *oldest;
            n_digests -= kept.remove(&oldest).map_or(0, |named| named.len());
        }
        named
    }
}

/// What the inputs of a job's spec hold, in order.
fn named_in(spec: &str) -> serde_json::Result<Arc<[Digest]>> {
    let naming: Naming = serde_json::from_str(spec)?;
    let mut named: Vec<Digest> = naming.inputs.into_iter().flat_map(|input| input.objects.sha256).collect();
    named.sort_unstable();
    named.dedup();
    Ok(named.into())
}

impl Context {
    /// What the inputs of a job hold, in order.
    async fn named_by(&self, job: JobId) -> Result<Arc<[Digest]>, ApiError> {
        if let Some(named) = self.named.find(job) {
            return Ok(named);
        }
        let spec = self.spec(job).await?;
        let named = blocking(move || named_in(&spec).map_err(|e| ApiError::damaged(job, &e.to_string())));
        Ok(self.named.keep(job, named.await?))
    }
}

/// What is behind it is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> Digest {
        Digest([n; 32])
    }

    #[test]
    fn objects_of_a_spec_are_found_in_order() {
        let spec = format!(
            r#"{{"command": ["cat"], "inputs": [{{"from": "a", "to": "a", "objects": {{"sha256": ["{}", "{}"], "bytes": [1, 2]}}}}, {{"from": "b", "to": "b"}}]}}"#,
            digest(9),
            digest(3)
        );
        let named = named_in(&spec).unwrap();
        assert_eq!(*named, [digest(3), digest(9)]);
        assert!(named_in("{}").unwrap().is_empty());
        let kept = NamedObjects::default();
        kept.keep(JobId(1), named);
        assert_eq!(kept.find(JobId(1)).map(|named| named.len()), Some(2));
        assert!(kept.find(JobId(3)).is_none());
    }

    #[test]
    fn what_one_pilot_was_told_is_not_granted_to_another() {
        let granted = Granted::default();
        granted.add(PilotId(1), [digest(1), digest(1), digest(2)].into_iter());
        assert!(granted.has(PilotId(1), &digest(2)) && !granted.has(PilotId(2), &digest(2)));
        granted.forget(PilotId(1));
        assert!(!granted.has(PilotId(1), &digest(2)));
        assert_eq!(lock(&granted.0).0, 0);
    }
}
