//! Users: they submit, cancel, pause, retry, and ask again when nobody answers.

use scheduler::{
    engine::interface::{Answer, Caller, Event, JobChange, JobRequest},
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

    fn count_open(&mut self, plan: &Plan) {
        let acts = plan.acts.iter().zip(&self.settled);
        self.n_open = acts.filter(|((_, act), settled)| matters(act) && !**settled).count();
    }
}

/// Submissions must succeed, and the last resumes.
fn matters(act: &Act) -> bool {
    matches!(act, Act::Submit(_) | Act::Resume(_))
}

impl World<'_> {
    pub(super) fn user_acts(&mut self, act: usize) {
        // When nothing fails any more, nobody insists on what was not answered.
        let matters = matters(&self.plan.acts[act].1);
        if self.user.settled[act] || (!matters && !self.is_faulty()) {
            return;
        }
        let caller = Caller { user: "operator".into(), is_operator: true };
        let question = match self.plan.acts[act].1.clone() {
            Act::Submit(job) => Question::Submit(job),
            Act::Shutdown { is_urgent } => Question::Shutdown(is_urgent),
            Act::Cancel(n, tasks) => Question::Change(n, JobChange::Cancel(tasks)),
            Act::Pause(n) => Question::Change(n, JobChange::Pause),
            Act::Resume(n) => Question::Change(n, JobChange::Resume),
            Act::Retry(n, tasks) => Question::Change(n, JobChange::Retry(tasks)),
        };
        match question {
            Question::Submit(job) => {
                let asker = Asker::User { act };
                self.send(asker, |request| Event::JobSubmitted { request, job: job.clone() });
            }
            Question::Shutdown(is_urgent) => {
                self.send(Asker::User { act }, |request| Event::ShutdownAsked { request, is_urgent });
            }
            Question::Change(n, change) => {
                let Some(job) = self.user.jobs.get(n).copied().flatten() else {
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
            // The manager is ending; it will be back.
            (Act::Submit(_), _) => self.after(Span::from_secs(1), Happening::UserActs { act }),
            _ => self.settle(act),
        }
        Ok(())
    }
}

enum Question {
    Submit(Box<JobRequest>),
    Shutdown(bool),
    Change(usize, JobChange),
}
