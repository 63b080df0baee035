//! Users: they submit, cancel, pause, retry, and ask again when nobody answers.

use scheduler::{
    engine::interface::{Answer, Caller, Event, JobChange},
    ids::JobId,
    time::Span,
};

use super::{
    plan::{Act, Plan},
    world::{Asker, Happening, Held, World},
};

pub(super) struct User {
    /// The numbers of their jobs, in the order of the plan.
    jobs: Vec<Option<JobId>>,
    /// Acts that are not settled.
    pub(super) n_open: usize,
    settled: Vec<bool>,
}

impl User {
    pub(super) fn new(plan: &Plan) -> User {
        let mut user = User { jobs: Vec::new(), n_open: 0, settled: vec![false; plan.acts.len()] };
        user.count_open(plan);
        user
    }

    fn job(&self, n: usize) -> Option<JobId> {
        self.jobs.get(n).copied().flatten()
    }

    fn count_open(&mut self, plan: &Plan) {
        let open = (0..plan.acts.len()).filter(|act| matters(plan, *act) && !self.settled[*act]);
        self.n_open = open.count();
    }
}

/// Submissions must succeed, and what lets jobs end.
fn matters(plan: &Plan, act: usize) -> bool {
    let (at, act) = &plan.acts[act];
    matches!(act, Act::Submit(_) | Act::Change(_, JobChange::Resume)) || *at > plan.faults_last
}

impl World<'_> {
    pub(super) fn user_acts(&mut self, act: usize) {
        // When nothing fails any more, nobody insists on what was not answered.
        let matters = matters(&self.plan, act);
        if self.user.settled[act] || (!matters && !self.is_faulty()) {
            return;
        }
        let caller = Caller { user: "operator".into(), is_operator: true };
        match self.plan.acts[act].1.clone() {
            Act::Submit(job) => {
                let asker = Asker::User { act };
                self.send(asker, |request| Event::JobSubmitted { request, job: job.clone() });
            }
            Act::Shutdown { is_urgent } => {
                self.send(Asker::User { act }, |request| Event::ShutdownAsked { request, is_urgent });
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

    fn settle(&mut self, act: usize) {
        self.user.settled[act] = true;
        self.user.count_open(&self.plan);
    }

    pub(super) fn user_hears(&mut self, act: usize, answer: Answer) -> Held {
        match (&self.plan.acts[act].1, answer) {
            (Act::Submit(request), Answer::Submitted { job, .. }) => {
                let key = request.submission_key.clone().unwrap_or_default();
                let n = self.plan.acts[..act].iter().filter(|(_, act)| matches!(act, Act::Submit(_))).count();
                if self.user.jobs.len() <= n {
                    self.user.jobs.resize(n + 1, None);
                }
                self.user.jobs[n] = Some(job);
                self.auditor.acknowledged(&key, job)?;
                self.settle(act);
            }
            (Act::Change(n, change), Answer::Changed { .. }) => {
                if let Some(job) = self.user.job(*n) {
                    self.auditor.changed(job, change)?;
                }
                self.settle(act);
            }
            // The manager is ending; it will be back.
            (Act::Submit(_), _) => self.after(Span::from_secs(1), Happening::UserActs { act }),
            _ => self.settle(act),
        }
        Ok(())
    }
}
