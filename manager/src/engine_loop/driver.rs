//! The engine's thread: one select over what arrives and the engine's own timer.

use std::sync::mpsc::SyncSender;

use scheduler::{
    engine::{Engine, Step, interface::Event},
    time::Span,
};
use tokio::sync::{mpsc, watch};

use crate::engine_loop::{clock::Clock, commit::Pending, handle::Asked};

/// Events handled before their records are handed on together.
const EVENTS_MAX: usize = 1024;
/// Woken when nothing is due: only so that a wait always has an end.
const IDLE: Span = Span::from_secs(3600);

/// Drives the engine until it is stopped, nobody can ask any more, or the commit thread has ended.
pub(crate) async fn run(
    mut engine: Engine,
    mut queue: mpsc::Receiver<Asked>,
    pending: SyncSender<Pending>,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) {
    let mut arrived = Vec::with_capacity(EVENTS_MAX);
    loop {
        let due = engine.next_wakeup().unwrap_or(clock.now() + IDLE);
        let step = tokio::select! {
            // Platform workers hold handles for as long as they live, so the queue never ends by itself.
            // An error means that the manager was dropped.
            _ = stop.wait_for(|is_over| *is_over) => return,
            n = queue.recv_many(&mut arrived, EVENTS_MAX) => {
                if n == 0 {
                    return;
                }
                handle_all(&mut engine, &mut arrived, clock)
            }
            () = tokio::time::sleep_until(clock.instant(due).into()) => Pending {
                step: engine.handle(clock.now(), Event::TimerFired),
                replies: Vec::new(),
            },
        };
        if pending.send(step).is_err() {
            return;
        }
    }
}

fn handle_all(engine: &mut Engine, arrived: &mut Vec<Asked>, clock: Clock) -> Pending {
    let mut all = Pending { step: Step::default(), replies: Vec::with_capacity(arrived.len()) };
    for Asked { event, reply } in arrived.drain(..) {
        tracing::trace!(?event, "event");
        let step = engine.handle(clock.now(), event);
        for record in &step.records {
            tracing::debug!(?record, "record");
        }
        all.step.records.extend(step.records);
        all.step.effects.extend(step.effects);
        all.replies.extend(reply);
    }
    all
}
