//! Functions for scenarios only: they report the progress, and stop a run when nothing gets done.

use scheduler::{
    engine::interface::{Answer, Effect, Event, Query},
    explain::Reason,
    ids::JobId,
};

use super::{
    Asker, BEGIN, World,
    patience::{Cause, HowFar, LASTS_AT_MOST, Stopped, WaitingJob},
};

/// The number of events between two reports of the progress: thousands of reports a second.
const TOLD_EVERY: u64 = 256;
/// The number of waiting jobs that are explained.
const N_EXPLAINED_MAX: usize = 3;

impl World<'_> {
    pub(super) fn tell_how_far(&mut self, n_happened: u64) {
        let how_far = self.how_far();
        if let Some(told) = self.told.as_mut().filter(|_| n_happened.is_multiple_of(TOLD_EVERY)) {
            told(how_far);
        }
    }

    /// Returns the reason to stop a scenario now, if there is one.
    pub(super) fn cause_to_give_up(&mut self) -> Option<Cause> {
        let (now, n_ended) = (self.now, self.how_far().n_ended);
        let last_moment = BEGIN + LASTS_AT_MOST;
        let too_long = (now > last_moment).then_some((last_moment, Cause::TooLong(LASTS_AT_MOST)));
        let in_vain = self.scene.as_mut()?.patience.run_out(now, n_ended);
        let (at, cause) = too_long.into_iter().chain(in_vain).min_by_key(|(at, _)| *at)?;
        // The next event may come much later.
        self.now = at;
        Some(cause)
    }

    fn how_far(&self) -> HowFar {
        let (n_ended, n_tasks) = self.scene.as_ref().map_or((0, 0), |scene| scene.ledger.n_ended());
        HowFar { at: self.now.since(BEGIN), n_ended, n_tasks }
    }

    /// Ends a scenario as it is, with the waiting jobs and their reasons.
    pub(super) fn give_up(&mut self, cause: Cause) {
        let how_far = self.how_far();
        let jobs = self.scene.as_ref().map(|scene| scene.ledger.open_jobs(N_EXPLAINED_MAX));
        let waiting = jobs.unwrap_or_default().into_iter().filter_map(|job| self.waiting_job(job)).collect();
        let names: Vec<String> =
            self.sites.iter().take(N_EXPLAINED_MAX).map(|site| site.plan.spec.name.clone()).collect();
        let explain = |name: String| (name.clone(), self.explained(Query::ExplainPlatform(name)));
        let platforms = names.into_iter().map(explain).filter(|(_, reasons)| !reasons.is_empty()).collect();
        if let Some(scene) = &mut self.scene {
            scene.ledger.closed(self.now);
        }
        self.stopped = Some(Stopped { cause, how_far, waiting, platforms });
    }

    fn waiting_job(&mut self, (id, n_open): (JobId, u64)) -> Option<WaitingJob> {
        let reasons = self.explained(Query::ExplainJob(id));
        let job = self.manager.engine.as_ref()?.durable().jobs().get(&id)?;
        let (user, application) = (job.request.user.clone(), job.request.application.clone());
        Some(WaitingJob { user, application, n_open, reasons })
    }

    fn explained(&mut self, query: Query) -> Vec<Reason> {
        let request = self.request(Asker::Nobody);
        let now = self.now;
        let Some(engine) = &mut self.manager.engine else { return Vec::new() };
        let step = engine.handle(now, Event::Asked { request, query });
        let answer = step.effects.into_iter().find_map(|effect| match effect {
            Effect::Answer { answer: Answer::Reasons(reasons), .. } => Some(reasons),
            _ => None,
        });
        answer.unwrap_or_default()
    }
}
