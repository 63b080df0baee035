//! Ending programs before their time, with all that they have started.
//!
//! The end of a program that we end is told only when its family is gone as well, for its slot is
//! given away then. Whose own process ended by itself is not looked after here.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{
    Exit,
    capture::PipeSlot,
    family::{Family, Look},
    processes::{Child, Processes},
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

/// Why we end a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    TimeLimit,
    MemoryLimit,
    Killed,
    BadAnswer,
}

/// The family of a program that we have ended and that is there no more itself.
pub(super) struct Lingering {
    family: Family,
    since: Instant,
    pub(super) look_at: Instant,
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

impl Child {
    /// Ends the process for a reason, soon; the first reason counts.
    pub(super) fn end(&mut self, ending: Ending, grace: Duration) {
        self.ending = self.ending.or(Some(ending));
        self.due = Some(grace);
        self.deadline = Some(Instant::now());
    }
}

impl Processes {
    /// Signals those that are to be ended. While orders wait (`is_busy`) there may be more of them.
    pub(super) fn end_due(&mut self, now: Instant, is_busy: bool) {
        let is_due = |child: &Child| {
            let late = |at: Instant| now.saturating_duration_since(at) >= DELAY_MAX;
            child.due.is_some() && (!is_busy || child.deadline.is_none_or(late))
        };
        if !self.children.values().any(is_due) {
            return;
        }
        let look = Look::now();
        for (pid, child) in &mut self.children {
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

    /// Kills who is left of the family of an ended process, and then goes on.
    pub(super) fn linger(&mut self, child: &mut Child, then: Then) {
        let family = child.family.take().unwrap_or_else(|| Family::new(&child.environment));
        let now = Instant::now();
        let lingering = Lingering { family, since: now, look_at: now, pause: PAUSE_MIN, n_unsure: 0, then };
        self.lingering.push(lingering);
    }

    /// Looks who is left of families, and goes on where nobody is.
    pub(super) fn look_after(&mut self, now: Instant) {
        if self.lingering.iter().all(|lingering| lingering.look_at > now) {
            return;
        }
        let look = Look::now();
        for mut lingering in mem::take(&mut self.lingering) {
            if lingering.look_at > now {
                self.lingering.push(lingering);
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
                self.go_on(lingering.then);
            } else {
                lingering.look_at = Instant::now() + lingering.pause;
                lingering.pause = (lingering.pause * 2).min(PAUSE_MAX);
                self.lingering.push(lingering);
            }
        }
    }

    fn go_on(&mut self, then: Then) {
        match then {
            Then::Tell { exit, stdout, stderr, was_last_of_group } => {
                self.tell(*exit, stdout, stderr, was_last_of_group);
            }
            Then::Restart { resident } => self.restart_resident(resident),
        }
    }
}
