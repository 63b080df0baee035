//! How the rest of the process speaks to the engine's thread: questions with answers, and news.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use scheduler::engine::interface::{Answer, Event, Notice, Query, RequestId, views::AllocationView};
use tokio::sync::{broadcast, mpsc, oneshot};

/// Events waiting for the engine at most; whoever asks beyond waits.
pub(crate) const QUEUE_MAX: usize = 65_536;
/// News kept for a slow watcher; one who falls behind further is told so and reads anew.
const NOTICES_MAX: usize = 4096;

/// The engine's thread has ended: after a shutdown, or because the store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the manager has ended")]
pub struct Ended;

/// One event on its way to the engine, and where its answer is wanted.
pub struct Asked {
    /// What happened.
    pub event: Event,
    /// Whose question it is, if it is one.
    pub reply: Option<(RequestId, oneshot::Sender<Answer>)>,
}

/// Speaks to the engine. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    asked: mpsc::Sender<Asked>,
    notices: broadcast::Sender<Notice>,
    next_request: Arc<AtomicU64>,
}

impl Handle {
    /// A way to speak to an engine, and the queue that whoever drives it takes from.
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> (Handle, mpsc::Receiver<Asked>) {
        let (asked, queue) = mpsc::channel(QUEUE_MAX);
        let (notices, _) = broadcast::channel(NOTICES_MAX);
        (Handle { asked, notices, next_request: Arc::new(AtomicU64::new(1)) }, queue)
    }

    /// Asks the engine and waits until its answer is durable. When the caller gives up waiting, the
    /// engine is told, so that it parks nobody who has hung up.
    pub async fn ask(&self, event: impl FnOnce(RequestId) -> Event) -> Result<Answer, Ended> {
        let request = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
        let (reply, answer) = oneshot::channel();
        // Not the event waits for a place in the queue: ten thousand wait for their answer in its memory.
        let place = self.asked.reserve().await.map_err(|_| Ended)?;
        place.send(Asked { event: event(request), reply: Some((request, reply)) });
        let mut hang_up = HangUp { handle: self, request, is_answered: false };
        let answer = answer.await.map_err(|_| Ended);
        hang_up.is_answered = true;
        answer
    }

    /// Asks for the allocations of all platforms that may be there still.
    pub(crate) async fn allocations_there(&self) -> Result<Vec<AllocationView>, Ended> {
        self.allocations(false).await
    }

    /// Asks for the allocations of all platforms, or those that may be there still.
    pub(crate) async fn allocations(&self, with_ended: bool) -> Result<Vec<AllocationView>, Ended> {
        let query = Query::Allocations { with_ended };
        match self.ask(|request| Event::Asked { request, query }).await? {
            Answer::Allocations(there) => Ok(there),
            // No other answers that.
            _ => Ok(Vec::new()),
        }
    }

    /// Tells the engine something that has no answer.
    pub async fn tell(&self, event: Event) -> Result<(), Ended> {
        self.asked.send(Asked { event, reply: None }).await.map_err(|_| Ended)
    }

    /// The same from a thread that may wait.
    pub(crate) fn tell_blocking(&self, event: Event) -> Result<(), Ended> {
        self.asked.blocking_send(Asked { event, reply: None }).map_err(|_| Ended)
    }

    /// News from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    pub(crate) fn notices(&self) -> &broadcast::Sender<Notice> {
        &self.notices
    }
}

struct HangUp<'a> {
    handle: &'a Handle,
    request: RequestId,
    is_answered: bool,
}

impl Drop for HangUp<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let event = Event::HungUp { request: self.request };
            // A full queue only means that a parked pull stays until its time is over.
            let _ = self.handle.asked.try_send(Asked { event, reply: None });
        }
    }
}
