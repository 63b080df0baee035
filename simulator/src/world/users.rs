//! Users: they submit, cancel, pause, retry, and ask again when there is no answer.

use std::collections::BTreeSet;

use scheduler::{
    engine::interface::{Answer, Caller, Event, JobChange, On, PlatformChange, PlatformMode, Refusal, Stage},
    ids::{AllocationId, JobId},
    ranges::TaskSet,
    time::Span,
};

use super::{
    Asker, Happening, Held, World,
    plan::{Act, Plan},
};

/// The time after which a user who waits for the numbers of other jobs looks again.
const AGAIN: Span = Span(10_000);

pub(super) struct User {
    /// The numbers of their jobs, in the order of the plan.
    jobs: Vec<Option<JobId>>,
    /// Number of submissions before each act of the plan.
    n_submitted_before: Vec<usize>,
    /// Number of acts that are not settled.
    pub(super) n_open: usize,
    settled: Vec<bool>,
}

impl User {
    pub(super) fn new(plan: &Plan) -> User {
        let (mut n_submitted_before, mut n) = (Vec::new(), 0);
        for (_, act) in &plan.acts {
            n_submitted_before.push(n);
            n += act.n_jobs();
        }
        let n_open = (0..plan.acts.len()).filter(|act| matters(plan, *act)).count();
        User { jobs: vec![None; n], n_submitted_before, n_open, settled: vec![false; plan.acts.len()] }
    }

    fn job(&self, n: usize) -> Option<JobId> {
        self.jobs.get(n).copied().flatten()
    }

    /// Inserts the manager's numbers of the jobs of earlier acts; `None` while one of them is unknown.
    fn numbered(&self, mut stages: Vec<Stage>) -> Option<Vec<Stage>> {
        for (on, _) in stages.iter_mut().flat_map(|stage| &mut stage.after) {
            if let On::Job(place) = on {
                *place = self.job(usize::try_from(place.0).ok()?)?;
            }
        }
        Some(stages)
    }
}

/// Returns whether an act must succeed: submissions, and acts that let jobs end.
fn matters(plan: &Plan, act: usize) -> bool {
    let (at, act) = &plan.acts[act];
    let goes_on =
        matches!(act, Act::Change(_, JobChange::Resume) | Act::ChangePlatform(_, PlatformMode::Active));
    act.n_jobs() > 0 || goes_on || *at > plan.faults_last
}

impl World<'_> {
    pub(super) fn user_acts(&mut self, act: usize) {
        // When nothing fails any more, unanswered requests that do not matter are dropped.
        let matters = matters(&self.plan, act);
        if self.user.settled[act] || (!matters && !self.is_faulty()) {
            return;
        }
        let caller = Caller { user: "operator".into(), is_operator: true };
        match self.plan.acts[act].1.clone() {
            Act::Submit(job) => {
                self.auditor.iter_mut().for_each(|auditor| auditor.submits(&job));
                let asker = Asker::User { act };
                let profiled = self.plan.profiled.get(&self.user.n_submitted_before[act]);
                match profiled.map(|(site, n_slots)| (self.plan.sites[*site].spec.name.clone(), *n_slots)) {
                    None => self.send(asker, |request| Event::JobSubmitted { request, job: job.clone() }),
                    Some((platform, n_slots)) => self.send(asker, |request| Event::ProfilingAsked {
                        request,
                        job: job.clone(),
                        platform: platform.clone(),
                        n_slots,
                    }),
                }
            }
            Act::SubmitAll(stages) => {
                let Some(stages) = self.user.numbered(stages) else {
                    return self.after(AGAIN, Happening::UserActs { act });
                };
                self.auditor.iter_mut().for_each(|auditor| auditor.submits_all(&stages));
                self.send(Asker::User { act }, |request| Event::WorkflowSubmitted {
                    request,
                    stages: stages.clone(),
                });
            }
            Act::Shutdown { is_urgent } => {
                self.send(Asker::User { act }, |request| Event::ShutdownAsked { request, is_urgent });
            }
            Act::ChangePlatform(site, mode) => {
                let (asker, platform) = (Asker::User { act }, self.plan.sites[site].spec.name.clone());
                self.send(asker, |request| Event::PlatformChangeAsked {
                    request,
                    platform: platform.clone(),
                    change: PlatformChange::Mode(mode),
                });
            }
            Act::CancelAllocation { number, is_urgent } => {
                let allocation = AllocationId(number);
                self.send(Asker::User { act }, |request| Event::AllocationCancelAsked {
                    request,
                    allocation,
                    is_urgent,
                });
            }
            Act::Follow(n, tasks) => {
                self.follow(n, tasks);
                self.settle(act);
            }
            Act::Change(n, change) => {
                let Some(job) = self.user.job(n) else {
                    return match matters && !self.is_faulty() {
                        true => self.after(Span::from_secs(1), Happening::UserActs { act }),
                        false => self.settle(act),
                    };
                };
                self.send(Asker::User { act }, |request| Event::JobChangeAsked {
                    request,
                    caller: caller.clone(),
                    job,
                    change: change.clone(),
                });
            }
        }
    }

    fn follow(&mut self, n: usize, tasks: Option<TaskSet>) {
        let Some(job) = self.user.job(n) else { return };
        let span = self.network_delay();
        let event = Box::new(Event::TailsWanted { job, tasks, except: BTreeSet::new() });
        self.after(span, Happening::Arrives { event, epoch: None });
    }

    fn settle(&mut self, act: usize) {
        let was_settled = std::mem::replace(&mut self.user.settled[act], true);
        self.user.n_open -= usize::from(!was_settled && matters(&self.plan, act));
    }

    pub(super) fn user_hears(&mut self, act: usize, answer: Answer) -> Held {
        match (&self.plan.acts[act].1, answer) {
            (Act::Submit(request), Answer::Submitted { job, .. }) => {
                let key = request.submission_key.clone().unwrap_or_default();
                let n = self.user.n_submitted_before[act];
                self.user.jobs[n] = Some(job);
                if let Some(auditor) = &mut self.auditor {
                    auditor.acknowledged(&key, job)?;
                }
                self.settle(act);
            }
            (Act::SubmitAll(stages), Answer::WorkflowSubmitted { jobs, .. }) => {
                let n = self.user.n_submitted_before[act];
                for (at, (stage, job)) in stages.iter().zip(jobs).enumerate() {
                    self.user.jobs[n + at] = Some(job);
                    let key = stage.job.submission_key.as_deref().unwrap_or_default();
                    if let Some(auditor) = &mut self.auditor {
                        auditor.acknowledged(key, job)?;
                    }
                }
                self.settle(act);
            }
            (Act::Change(n, change), Answer::Changed { .. }) => {
                if let Some((auditor, job)) = self.auditor.as_ref().zip(self.user.job(*n)) {
                    auditor.changed(job, change)?;
                }
                self.settle(act);
            }
            (Act::ChangePlatform(..), Answer::Refused(_)) if matters(&self.plan, act) => {
                self.after(Span::from_secs(1), Happening::UserActs { act });
            }
            // Without room there, it runs anywhere.
            (Act::Submit(_), Answer::Refused(Refusal::NoRoom(_))) => {
                self.plan.profiled.remove(&self.user.n_submitted_before[act]);
                self.after(Span::from_secs(1), Happening::UserActs { act });
            }
            // The manager is ending and will be back; or a profiling run occupies the platform.
            (Act::Submit(_) | Act::SubmitAll(_), _) => {
                self.after(Span::from_secs(1), Happening::UserActs { act })
            }
            _ => self.settle(act),
        }
        Ok(())
    }
}
