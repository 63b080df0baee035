//! Ends programs before their time, with all processes that they have started.
//!
//! The end of a program is passed on only when its family is gone too, because its slot is given away then.
//! Programs that end by themselves are not handled here.

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

/// The longest delay of an end while orders arrive, so that one look at /proc serves many ends.
const DELAY_MAX: Duration = Duration::from_millis(20);
/// The first and the longest pause between looks at a family; the pause doubles. Killed processes need some
/// time to end.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// Looks at orphans without a readable environment. A process that is about to execute a program shows its
/// environment soon; a process that has erased its environment never does.
const N_UNSURE_MAX: u32 = 3;
/// How long killed processes keep a slot; for example, a hanging file server may keep them for longer.
const LINGER_MAX: Duration = Duration::from_secs(5);

/// The family of a program that was ended here and is gone itself.
struct Lingering {
    family: Family,
    since: Instant,
    look_at: Instant,
    pause: Duration,
    n_unsure: u32,
    then: Then,
}

/// The action that waits for the end of a family.
pub(super) enum Then {
    /// The end of a task is passed on.
    Tell { exit: Box<Exit>, stdout: Option<PipeSlot>, stderr: Option<PipeSlot>, was_last_of_group: bool },
    /// A resident program may be started again.
    Restart { resident: u64 },
}

/// Signals the processes that are to be ended. While orders wait (`is_busy`), more ends may follow, so it may
/// wait too.
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

/// The families that have not ended.
#[derive(Default)]
pub(super) struct Families(Vec<Lingering>);

impl Families {
    /// Returns the time of the next look at a family.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.0.iter().map(|lingering| lingering.look_at).min()
    }

    /// Kills the rest of the family of an ended process before `then` goes on.
    pub(super) fn add(&mut self, child: &mut Child, then: Then) {
        let family = child.family.take().unwrap_or_else(|| Family::new(&child.environment));
        let now = Instant::now();
        self.0.push(Lingering { family, since: now, look_at: now, pause: PAUSE_MIN, n_unsure: 0, then });
    }

    /// Kills the rest of families; returns the actions of families that have ended.
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
