//! For which files tasks wait, as their pilots say, in memory: for people who ask why a task does not begin or end.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use protocol::{
    codec::MESSAGE_BYTES_MAX,
    files::objects::{FileWait, FileWaits, N_WAITS_MAX, WAIT_BYTES_MAX, WAITS_KEPT_S},
};
use scheduler::{
    explain::Reason,
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
};

use crate::api::{
    Shared,
    http::{
        error::{ApiError, json},
        extract::read_body,
    },
    pilots::sessions::Session,
};

/// What pilots have said, and when.
#[derive(Default)]
pub(in crate::api) struct Waits {
    pilots: Mutex<HashMap<PilotId, (Instant, Vec<FileWait>)>>,
}

impl Waits {
    fn take(&self, pilot: PilotId, waits: Vec<FileWait>, now: Instant) {
        let kept = Duration::from_secs(WAITS_KEPT_S);
        let mut pilots = self.pilots.lock().unwrap_or_else(PoisonError::into_inner);
        pilots.retain(|_, (heard_at, _)| now.duration_since(*heard_at) < kept);
        match waits.is_empty() {
            true => _ = pilots.remove(&pilot),
            false => _ = pilots.insert(pilot, (now, waits)),
        }
    }

    /// For what a task waits at this pilot.
    pub(in crate::api) fn of(&self, pilot: PilotId, task: TaskId, now: Instant) -> Option<String> {
        let pilots = self.pilots.lock().unwrap_or_else(PoisonError::into_inner);
        let (heard_at, waits) = pilots.get(&pilot)?;
        let is_meant = |wait: &&FileWait| wait.job == task.job && wait.tasks.contains(task.index);
        let is_new = now.duration_since(*heard_at) < Duration::from_secs(WAITS_KEPT_S);
        waits.iter().find(is_meant).filter(|_| is_new).map(|wait| wait.what.clone())
    }

    /// For what tasks of a job wait: at which pilot, how many, and what for; that of most tasks.
    pub(in crate::api) fn of_job(&self, job: JobId, now: Instant) -> Option<(PilotId, u64, String)> {
        let pilots = self.pilots.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Duration::from_secs(WAITS_KEPT_S);
        let new = pilots.iter().filter(|(_, (heard_at, _))| now.duration_since(*heard_at) < kept);
        let of_pilot = |(pilot, (_, waits)): (&PilotId, &(Instant, Vec<FileWait>))| {
            let of_job = waits.iter().filter(|wait| wait.job == job);
            of_job.map(|wait| (*pilot, wait.tasks.len(), wait.what.clone())).collect::<Vec<_>>()
        };
        new.flat_map(of_pilot).max_by_key(|(pilot, n_tasks, _)| (*n_tasks, std::cmp::Reverse(*pilot)))
    }

    /// How many tasks wait for files at this pilot.
    fn n_tasks_at(&self, pilot: PilotId, now: Instant) -> u64 {
        let pilots = self.pilots.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Duration::from_secs(WAITS_KEPT_S);
        let new = pilots.get(&pilot).filter(|(heard_at, _)| now.duration_since(*heard_at) < kept);
        // One may wait for several files.
        let mut tasks: HashMap<JobId, TaskSet> = HashMap::new();
        for wait in new.iter().flat_map(|(_, waits)| waits) {
            tasks.entry(wait.job).or_default().insert_all(&wait.tasks);
        }
        tasks.values().map(TaskSet::len).sum()
    }

    /// Adds to the reason that all pilots are busy how many tasks of the freest one wait for files. A pilot may look as if
    /// it did nothing.
    pub(in crate::api) fn tell_cores_kept(&self, reasons: &mut Vec<Reason>, now: Instant) {
        let busy = reasons.iter().enumerate().find_map(|(at, reason)| match reason {
            Reason::PilotsBusy { freest, .. } => Some((at, (*freest)?)),
            _ => None,
        });
        let Some((at, pilot)) = busy else { return };
        let n_tasks = self.n_tasks_at(pilot, now);
        if n_tasks > 0 {
            reasons.insert(at + 1, Reason::CoresKept { pilot, n_tasks });
        }
    }
}

/// A pilot says for which files its tasks wait.
pub(in crate::api) async fn take(
    State(context): State<Shared>,
    session: Session,
    request: Request,
) -> Result<Response, ApiError> {
    let limits = &context.state.limits;
    let body = read_body(request.into_body(), MESSAGE_BYTES_MAX, limits, &context.from_pilots).await?;
    let FileWaits { mut waits } = serde_json::from_slice(&body.bytes)
        .map_err(|error| ApiError::bad_request(format!("found no list of files: {error}")))?;
    if waits.len() > N_WAITS_MAX || waits.iter().any(|wait| wait.what.len() > WAIT_BYTES_MAX) {
        return Err(ApiError::bad_request(format!(
            "found {} files; {N_WAITS_MAX} are the most, with {WAIT_BYTES_MAX} bytes of words each",
            waits.len()
        )));
    }
    // Of tasks of others nothing is shown that it says.
    waits.retain(|wait| session.tasks(wait.job).is_ok_and(|held| !held.intersection(&wait.tasks).is_empty()));
    context.waits.take(session.pilot, waits, Instant::now());
    Ok(json(StatusCode::OK, &()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use protocol::files::objects::{FileWait, WAITS_KEPT_S};
    use scheduler::{
        explain::Reason,
        ids::{JobId, PilotId, TaskId},
        ranges::TaskSet,
        resources::Resources,
    };

    use super::Waits;

    #[test]
    fn what_a_pilot_said_last_counts_until_it_is_old() {
        let (waits, now) = (Waits::default(), Instant::now());
        let wait = |index, what: &str| FileWait {
            job: JobId(1),
            tasks: TaskSet::from_iter([index]),
            what: what.to_owned(),
        };
        let of = |index, at| waits.of(PilotId(1), TaskId { job: JobId(1), index }, at);
        waits.take(PilotId(1), vec![wait(3, "x"), wait(4, "y")], now);
        assert_eq!((of(4, now).as_deref(), of(5, now)), (Some("y"), None));
        let many = FileWait { tasks: TaskSet::from_iter([1, 2]), ..wait(1, "z") };
        waits.take(PilotId(3), vec![many], now);
        assert_eq!(waits.of_job(JobId(1), now), Some((PilotId(3), 2, "z".to_owned())));
        assert_eq!(waits.of_job(JobId(2), now), None);
        waits.take(PilotId(3), Vec::new(), now);
        assert_eq!(waits.of(PilotId(2), TaskId { job: JobId(1), index: 4 }, now), None);
        waits.take(PilotId(1), vec![wait(4, "z")], now);
        assert_eq!((of(4, now).as_deref(), of(3, now)), (Some("z"), None));
        let late = now + Duration::from_secs(WAITS_KEPT_S);
        assert_eq!(of(4, late), None);
        assert_eq!(waits.of_job(JobId(1), late), None);
        waits.take(PilotId(2), vec![wait(9, "x")], late);
        assert_eq!(waits.pilots.lock().unwrap().len(), 1, "what is old takes no room");
        waits.take(PilotId(2), Vec::new(), late);
        assert!(waits.pilots.lock().unwrap().is_empty());
    }

    #[test]
    fn a_busy_pilot_whose_tasks_wait_for_files_is_told_from_one_that_works() {
        let (waits, now) = (Waits::default(), Instant::now());
        let wait = |job, tasks: &[u64]| FileWait {
            job: JobId(job),
            tasks: TaskSet::from_iter(tasks.iter().copied()),
            what: "x".to_owned(),
        };
        waits.take(PilotId(3), vec![wait(1, &[0, 1]), wait(1, &[1]), wait(2, &[0])], now);
        let late = now + Duration::from_secs(WAITS_KEPT_S);
        for (freest, at, expected) in [
            (
                Some(PilotId(3)),
                now,
                "pilot 3 keeps cores for 3 tasks whose files are being fetched or delivered",
            ),
            (Some(PilotId(3)), late, ""),
            (Some(PilotId(4)), now, ""),
            (None, now, ""),
        ] {
            let (free, needs) = (Resources::default(), Resources::cores(1));
            let busy = Reason::PilotsBusy { n_pilots: 1, free, needs, freest };
            let mut reasons = vec![Reason::NoPlatform, busy, Reason::ShuttingDown];
            waits.tell_cores_kept(&mut reasons, at);
            let told = if reasons.len() == 4 { reasons[2].to_string() } else { String::new() };
            assert_eq!(told, expected, "{reasons:?}");
        }
        assert_eq!(waits.n_tasks_at(PilotId(3), now), 3, "one that waits for two files is one");
    }
}
