//! Performs committed effects: answers, news, orders to platforms.

use std::{collections::HashMap, time::Instant};

use scheduler::engine::interface::{Answer, Effect, LeftThere, Notice, PlanRequest, RequestId};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::{
    engine_loop::{commit::Committed, failure_log::FailureLog},
    platforms::order::Order,
};

/// Fewer open replies are not worth a look.
const N_REPLIES_CHECKED_MIN: usize = 1024;

/// How the manager has ended, once it has: shut down, and what may be left on platforms beside what it cancelled.
pub(crate) type End = Option<Result<Vec<LeftThere>, String>>;

/// Where effects go.
pub(crate) struct Performer {
    replies: HashMap<RequestId, oneshot::Sender<Answer>>,
    orders: mpsc::UnboundedSender<Order>,
    questions: std::sync::mpsc::Sender<PlanRequest>,
    notices: broadcast::Sender<Notice>,
    end: watch::Sender<End>,
    /// When there are so many replies, those that nobody waits for are looked for.
    n_replies_checked: usize,
    failures: FailureLog,
}

impl Performer {
    pub(crate) fn new(
        orders: mpsc::UnboundedSender<Order>,
        questions: std::sync::mpsc::Sender<PlanRequest>,
        notices: broadcast::Sender<Notice>,
        end: watch::Sender<End>,
    ) -> Performer {
        let (n_replies_checked, failures) = (N_REPLIES_CHECKED_MIN, FailureLog::default());
        Performer { replies: HashMap::new(), orders, questions, notices, end, n_replies_checked, failures }
    }

    pub(crate) fn perform(
        &mut self,
        committed: Committed,
        replies: Vec<(RequestId, oneshot::Sender<Answer>)>,
    ) {
        self.replies.extend(replies);
        self.forget_hung_up();
        for (job, n) in self.failures.left_out(Instant::now()) {
            tracing::info!(%job, n, "more task attempts failed in the last minute");
        }
        for effect in committed.into_effects() {
            match effect {
                Effect::Answer { request, answer } => self.answer(request, answer),
                Effect::Submit { platform, allocation, tag, walltime } => {
                    self.order(Order::Submit { platform, allocation, tag, walltime });
                }
                Effect::Withdraw { platform, allocations } => {
                    self.order(Order::Withdraw { platform, allocations });
                }
                Effect::Cancel { platform, batch_ids } => self.order(Order::Cancel { platform, batch_ids }),
                Effect::List { platform, known } => self.order(Order::List { platform, known }),
                Effect::Load { platform } => self.order(Order::Load { platform }),
                Effect::Scale { platform, ratio, former } => {
                    self.order(Order::Scale { platform, ratio, former });
                }
                Effect::Plan(question) => {
                    if self.questions.send(question).is_err() {
                        self.end.send_replace(Some(Err("the policies' thread has ended".into())));
                    }
                }
                Effect::Notify(notice) => self.notify(notice),
            }
        }
    }

    /// Who hung up gets no answer, so nothing else would take the reply out.
    fn forget_hung_up(&mut self) {
        if self.replies.len() >= self.n_replies_checked {
            self.replies.retain(|_, reply| !reply.is_closed());
            self.n_replies_checked = (2 * self.replies.len()).max(N_REPLIES_CHECKED_MIN);
        }
    }

    fn answer(&mut self, request: RequestId, answer: Answer) {
        let left = match &answer {
            Answer::ShutDown(left) => Some(left.clone()),
            _ => None,
        };
        if let Some(reply) = self.replies.remove(&request) {
            // Whoever asked may have hung up; a pilot asks again and gets the same.
            let _ = reply.send(answer);
        }
        if let Some(left) = left {
            self.end.send_replace(Some(Ok(left)));
        }
    }

    fn order(&self, order: Order) {
        // The workers end only with the process.
        let _ = self.orders.send(order);
    }

    fn notify(&mut self, notice: Notice) {
        match &notice {
            Notice::JobChanged(_) | Notice::JobEnded(_) => {}
            Notice::TaskFailed { task, kind, is_final, pilot } => {
                if self.failures.has_line(task.job, Instant::now()) {
                    tracing::info!(%task, %kind, is_final, %pilot, "task attempt failed");
                }
            }
            Notice::ReportsForgotten { pilot, n } => tracing::warn!(
                %pilot, n,
                "the store has lost reports that it had acknowledged: it was put back from a backup, or its \
                 disk did not keep what it had promised; what they reported runs again"
            ),
            Notice::PilotDoubted { pilot, what } => {
                tracing::warn!(%pilot, %what, "a pilot says what cannot be");
            }
            Notice::JoinedTwice { pilot, tag } => tracing::warn!(
                %pilot, tag,
                "a second pilot comes with the join token of one that is there: it waits until that one is silent for \
                 its heartbeat limit. Its batch job was begun again elsewhere, or somebody else has the token"
            ),
            Notice::LeftBehind { platform, asked_of, now, batch_jobs } => tracing::warn!(
                platform,
                asked_of,
                now,
                ?batch_jobs,
                "the platform has another adapter or host in the configuration than these batch jobs were asked of: nobody \
                 looks after them; put the platform back, or drop them with `pilotfish allocation cancel`"
            ),
            Notice::PlatformFailed { platform, what } => tracing::warn!(platform, what, "platform failed"),
            Notice::AllocationWaits { platform, allocation, batch_id, reason, advice, is_endless: true } => {
                tracing::warn!(
                    platform, %allocation, batch_id, reason, advice,
                    "an allocation waits for what never comes by itself"
                );
            }
            Notice::AllocationWaits { platform, allocation, batch_id, reason, advice, is_endless: false } => {
                tracing::warn!(
                    platform, %allocation, batch_id, reason, advice,
                    "an allocation waits, and whether that ends is not known"
                );
            }
            Notice::PlatformScaled { platform, change } => tracing::info!(
                platform,
                by = ?change.by,
                before = %change.before,
                after = %change.after,
                why = change.told(),
                "vCPUs of a core have changed"
            ),
            Notice::ScalesItself { platform, why } => {
                tracing::warn!(
                    platform,
                    why,
                    "hosts keep the vCPUs that they have; pilots offer more slots instead"
                );
            }
        }
        // Nobody may be watching.
        let _ = self.notices.send(notice);
    }
}
