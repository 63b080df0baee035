//! What follows when a task's process has ended: its place is free, and the core hears how it was.

use scheduler::{
    pilot::{Ending, PilotEvent},
    pull::Effort,
    results::{FailureKind, TaskOutput, Usage},
    time::Span,
};

use super::{Driver, Running, suspects, time_of};
use crate::spawn::{Exit, Outcome};

impl Driver {
    pub(super) fn on_news_of(&mut self, exit: Exit) {
        // On a host without a batch system nobody signals tasks with their pilot.
        let is_certain = self.is_signalled || self.arrival.node.batch_id.is_none();
        let certain = if is_certain { Some(exit) } else { self.suspects.pass(exit) };
        if let Some(exit) = certain {
            self.on_exit(exit);
        }
    }

    /// Whether the pilot was signalled too is known now.
    pub(super) fn judge_suspects(&mut self) {
        for exit in self.suspects.take() {
            self.on_exit(exit);
        }
    }

    /// Of those that waited in the slot of another one nobody knows how long they took to begin: nothing is said.
    fn note_effort(&mut self, running: &Running, exit: &Exit) {
        let Some(begun_at) = running.begun_at else { return };
        let job = running.task.job;
        let effort = self.efforts.entry(job).or_insert(Effort { job, n: 0, io_bytes: 0, prepared_us: 0 });
        let prepared = exit.started.saturating_duration_since(begun_at);
        effort.n += 1;
        effort.io_bytes = effort.io_bytes.saturating_add(exit.read_bytes.saturating_add(exit.write_bytes));
        effort.prepared_us += u64::try_from(prepared.as_micros()).unwrap_or(u64::MAX);
    }

    fn on_exit(&mut self, exit: Exit) {
        let n_running = self.core.n_running();
        let Some(running) = self.running.remove(&exit.token) else { return };
        self.tokens.remove(&running.task);
        self.tails.forget(exit.token);
        self.outputs.forget(exit.token);
        self.note_effort(&running, &exit);
        self.leave(running.place);
        self.files.left(running.task, running.scratch, running.files);
        let usage = Usage {
            started_us: time_of(self.started, exit.started).0,
            wall_us: exit.wall_us,
            cpu_us: exit.cpu_us,
            memory_bytes: exit.peak_memory_bytes,
        };
        let task = running.task;
        let code = match exit.outcome {
            Outcome::Code(code) => Some(code),
            _ => None,
        };
        let kept = self.jobs.get(&task.job).map(|job| job.kept_output(code));
        let output = TaskOutput {
            index: task.index,
            stdout: if kept.is_none_or(|kept| kept.stdout) { exit.stdout } else { Vec::new() },
            stderr: if kept.is_none_or(|kept| kept.stderr) { exit.stderr } else { Vec::new() },
        };
        // What did not end by the signal to all of the batch job was killed before that job is.
        let is_killed_late = self.has_given_up && exit.outcome == Outcome::Killed;
        let is_the_platforms = self.is_signalled
            && self.arrival.node.batch_id.is_some()
            && (is_killed_late || suspects::may_be_the_platforms(&exit.outcome));
        let ending = match is_the_platforms {
            true => Ending::Failed(FailureKind::Preempted),
            false => ending(exit.outcome, running.time_limit, running.resources_bytes),
        };
        self.handle(PilotEvent::Ended { task, ending, usage, output: Some(output) });
        self.clean_left(task);
        if self.core.n_running() < n_running {
            // A slot is idle: the manager must know at once.
            self.release();
        }
    }
}

/// How a process's end looks to the core.
fn ending(outcome: Outcome, time_limit: Option<Span>, limit_bytes: u64) -> Ending {
    match outcome {
        Outcome::Code(code) => Ending::Exited(code),
        Outcome::Signal(signal) => Ending::Failed(FailureKind::Signal { signal }),
        Outcome::TimeLimit => {
            Ending::Failed(FailureKind::TimeLimit { limit: time_limit.unwrap_or(Span::ZERO) })
        }
        Outcome::MemoryLimit => Ending::Failed(FailureKind::MemoryLimit { limit_bytes }),
        Outcome::Killed => Ending::Killed,
        Outcome::BadAnswer { what } => Ending::Failed(FailureKind::BadAnswer { what }),
        Outcome::StartFailed { what, node: true } => Ending::Failed(FailureKind::Node { what }),
        Outcome::StartFailed { what, node: false } => Ending::Failed(FailureKind::Start { what }),
    }
}
