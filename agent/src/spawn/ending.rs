//! Ending programs before their time, with all that they have started.
//!
//! The end of a program that we end is told only when its family is gone as well, for its slot is
//! given away then. Whose own process ended by itself is not looked after here.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant},
};

use super::{
    Exit,
    capture::PipeSlot,
    child::Child,
    family::{Family, Look},
};

/// How long many orders may put off an end, so that one look serves all that come together.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// Between looks for who is left: the first; it doubles up to the last. Killed processes need a while.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Looks at orphans that show no environment: those that are about to execute a program soon do, those
/// that have wiped theirs never.
const N_UNSURE_MAX: u32 = 3;
/// Killed processes that are there for longer (a file server that hangs) do not hold a slot.
const LINGER_MAX: Duration = Duration::from_secs(5);

/// The family of a program that we have ended and that is there no more itself.
struct Lingering {
    family: Family,
    since: Instant,
    look_at: Instant,
    pause: Duration,
    n_unsure: u32,
    then: Then,
}

/// What its end is waited for.
pub(super) enum Then {
    /// The end of a task is told.
    Tell { exit: Box<Exit>, stdout: Option<PipeSlot>, stderr: Option<PipeSlot>, was_last_of_group: bool },
    /// A resident program may be started again.
    Restart { resident: u64 },
}

/// Signals those that are to be ended. While orders wait (`is_busy`) there may be more of them.
pub(super) fn end_due(children: &mut HashMap<libc::pid_t, Child>, now: Instant, is_busy: bool) {
    let is_due = |child: &Child| {
        let late = |at: Instant| now.saturating_duration_since(at) >= DELAY_MAX;
        child.due.is_some() && (!is_busy || child.deadline.is_none_or(late))
    };
    if !children.values().any(is_due) {
        return;
    }
    let look = Look::now();
    for (pid, child) in children {
        let Some(grace) = child.due.take() else { continue };
        let family = child.family.get_or_insert_with(|| Family::new(&child.environment));
        if grace.is_zero() {
            look.kill(family, Some(*pid));
            child.deadline = None;
        } else {
            look.ask_to_end(family, *pid);
            child.deadline = Instant::now().checked_add(grace);
        }
    }
}

/// The families that are waited for.
#[derive(Default)]
pub(super) struct Families(Vec<Lingering>);

impl Families {
    /// When it is looked next who is left of any of them.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.0.iter().map(|lingering| lingering.look_at).min()
    }

    /// Has who is left of the family of an ended process killed before it goes on.
    pub(super) fn add(&mut self, child: &mut Child, then: Then) {
        let family = child.family.take().unwrap_or_else(|| Family::new(&child.environment));
        let now = Instant::now();
        self.0.push(Lingering { family, since: now, look_at: now, pause: PAUSE_MIN, n_unsure: 0, then });
    }

    /// Kills who is left of families; returns what is waited for no more, as nobody is.
    pub(super) fn look_after(&mut self, now: Instant) -> Vec<Then> {
        let mut over = Vec::new();
        if self.0.iter().all(|lingering| lingering.look_at > now) {
            return over;
        }
        let look = Look::now();
        for mut lingering in mem::take(&mut self.0) {
            if lingering.look_at > now {
                self.0.push(lingering);
                continue;
            }
            let n_left = look.kill(&mut lingering.family, None);
            let is_over = now.saturating_duration_since(lingering.since) >= LINGER_MAX;
            if n_left == 0 && look.is_unsure() {
                lingering.n_unsure += 1;
            }
            let is_unsure = look.is_unsure() && lingering.n_unsure <= N_UNSURE_MAX;
            if (n_left == 0 && !is_unsure) || is_over {
                if n_left > 0 {
                    tracing::warn!(n_left, "killed processes of a task do not end");
                }
                over.push(lingering.then);
            } else {
                lingering.look_at = Instant::now() + lingering.pause;
                lingering.pause = (lingering.pause * 2).min(PAUSE_MAX);
                self.0.push(lingering);
            }
        }
        over
    }
}
