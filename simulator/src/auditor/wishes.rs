//! Messages to the manager: requests of users and pulls of pilots. Records must agree with them.

use scheduler::{
    engine::{
        interface::{Event, JobChange, JobRequest},
        record::CancelCause,
    },
    ids::{JobId, PilotId},
    ranges::TaskSet,
    time::Time,
};

use super::{Auditor, Violation};

impl Auditor {
    /// Notes a job that a user sends.
    pub(crate) fn submits(&mut self, request: &JobRequest) {
        let key = request.submission_key.clone().unwrap_or_default();
        self.sent.insert(key, request.clone());
    }

    /// Notes a user's change of a job: it may be applied only at this very moment.
    fn asks(&mut self, job: JobId, change: &JobChange, now: Time) {
        let (at, cancels, retries) = self.asked.entry(job).or_default();
        if *at != now {
            (*at, *cancels, *retries) = (now, TaskSet::new(), TaskSet::new());
        }
        let all = || TaskSet::from(0..u64::MAX);
        match change {
            JobChange::Cancel(tasks) => cancels.insert_all(&tasks.clone().unwrap_or_else(all)),
            JobChange::Retry(tasks) => retries.insert_all(&tasks.clone().unwrap_or_else(all)),
            JobChange::Pause | JobChange::Resume | JobChange::Purge(_) => {}
        }
    }

    fn asked_at(&self, job: JobId, at: Time) -> Option<(&TaskSet, &TaskSet)> {
        let asked = self.asked.get(&job).filter(|(asked, ..)| *asked == at);
        asked.map(|(_, cancels, retries)| (cancels, retries))
    }

    /// Notes that the manager takes a pull of the pilot, or takes the pilot back.
    pub(crate) fn is_heard(&mut self, pilot: PilotId, now: Time) {
        let (last, before) = self.heard.entry(pilot).or_default();
        (*last, *before) = (now, if *last < now { *last } else { *before });
    }

    /// Notes a message to the manager.
    pub(crate) fn hears(&mut self, event: &Event, now: Time) {
        match event {
            Event::JobChangeAsked { job, change, .. } => self.asks(*job, change, now),
            Event::TailsWanted { .. } => self.is_followed = true,
            _ => {}
        }
    }

    /// Rule 1: the durable job equals the one that was sent.
    pub(super) fn is_as_sent(&self, job: JobId, request: &JobRequest) -> Result<(), Violation> {
        let key = request.submission_key.clone().unwrap_or_default();
        let sent = self.sent.get(&key);
        let alone = JobRequest { after: Vec::new(), workflow: None, ..request.clone() };
        ensure!(sent == Some(&alone), "kept was {request:?}; sent was {sent:?}");
        self.comes_after_as_sent(job, request)
    }

    /// Checks that tasks are cancelled only on request, or because more tasks failed than the job allows.
    pub(super) fn may_cancel(
        &self,
        job: JobId,
        tasks: &TaskSet,
        cause: &CancelCause,
        at: Time,
    ) -> Result<(), Violation> {
        let Some(book) = self.books.get(&job) else { return Ok(()) };
        match cause {
            CancelCause::User(_) => {
                let mut unasked = tasks.clone();
                self.asked_at(job, at).into_iter().for_each(|(cancels, _)| unasked.remove_all(cancels));
                ensure!(
                    unasked.is_empty(),
                    "tasks {unasked} of job {job} were cancelled; nobody asked for it"
                );
            }
            CancelCause::Dependency(root) => self.may_forsake(job, tasks, *root)?,
            CancelCause::MaxFailures { .. } => {
                let n = book.failed.len().saturating_sub(book.n_failed_before);
                let is_exceeded = book.max_failures.is_some_and(|limit| n > limit);
                ensure!(is_exceeded, "job {job} was cancelled after {n} failures of {:?}", book.max_failures);
            }
        }
        Ok(())
    }

    /// Checks that tasks are opened again only on request.
    pub(super) fn may_reopen(&self, job: JobId, tasks: &TaskSet, at: Time) -> Result<(), Violation> {
        let mut unasked = tasks.clone();
        self.asked_at(job, at).into_iter().for_each(|(_, retries)| unasked.remove_all(retries));
        let unasked = self.unforsaken(job, &unasked, tasks);
        ensure!(unasked.is_empty(), "tasks {unasked} of job {job} were opened again; nobody asked for it");
        Ok(())
    }
}
