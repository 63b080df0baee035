//! Handles the end of a task's process: frees its place and reports the end to the core.

use std::time::{Duration, Instant};

use scheduler::{
    ids::{JobId, TaskId},
    pilot::{Ending, PilotEvent},
    pull::Effort,
    resources::Resources,
    results::{FailureKind, TaskOutput, Usage},
    time::Span,
};

use super::{Driver, Running, suspects, time_of};
use crate::spawn::{Exit, Outcome};

impl Driver {
    /// Handles the end of a process; holds it back if the platform may have caused it.
    pub(super) fn on_news_of(&mut self, mut exit: Exit) {
        let had_company = self.core.n_running() > 1;
        let Some(running) = self.running.get_mut(&exit.token) else { return };
        running.had_company = had_company;
        let (task, job) = (running.task, running.task.job);
        let is_success = self.is_success(job, &exit.outcome);
        let is_suspect = !is_success && suspects::may_be_the_platforms(&exit.outcome);
        if is_suspect && suspects::is_killed(&exit.outcome) {
            exit.is_out_of_memory = self.memory_killer.has_struck();
        }
        let held_for = match is_success {
            true => suspects::success_held_for(Duration::from_micros(exit.wall_us)),
            false => suspects::held_for(&exit.outcome),
        };
        if self.signalled_at.is_some() {
            let is_host_going = is_suspect && self.ended_with_signal(&exit) && self.stop_at.is_none();
            self.on_exit(exit);
            if is_host_going && !self.core.is_about_to_leave() {
                self.expect_kill();
            }
        } else if let Some(held_for) = held_for {
            self.slot_comes_free(exit.token, task);
            self.suspects.hold(exit, Instant::now() + held_for);
        } else {
            self.on_exit(exit);
        }
    }

    /// Frees the place of a process whose end is held back, for other tasks.
    fn slot_comes_free(&mut self, token: u64, task: TaskId) {
        let n_running = self.core.n_running();
        if let Some(place) = self.running.get_mut(&token).and_then(|running| running.place.take()) {
            self.leave(place);
        }
        self.handle(PilotEvent::Over { task });
        if self.core.n_running() < n_running {
            self.release();
        }
    }

    /// Handles all held-back ends when the pilot is signalled. Returns whether a signal had ended any of the
    /// tasks.
    pub(super) fn judge_suspects(&mut self) -> bool {
        let are_any = self.suspects.is_any_by_signal();
        self.suspects.take_all().into_iter().for_each(|exit| self.on_exit(exit));
        are_any
    }

    /// Handles the ends that are due as the programs' own, because the pilot has lived on.
    pub(super) fn believe_suspects(&mut self, now: Instant) {
        self.suspects.take_due(now).into_iter().for_each(|exit| self.on_exit(exit));
    }

    fn is_success(&self, job: JobId, outcome: &Outcome) -> bool {
        let Outcome::Code(code) = outcome else { return false };
        self.jobs.get(&job).is_some_and(|job| job.is_success(*code))
    }

    /// Returns whether a process ended at most [`suspects::WINDOW`] after the pilot's signal, or before it.
    fn ended_with_signal(&self, exit: &Exit) -> bool {
        self.signalled_at.is_some_and(|signalled| ended_at(exit) <= signalled + suspects::WINDOW)
    }

    /// Returns whether the end of a process counts as preemption: by a signal of the platform, or after the
    /// pilot's signal by any failure or by a success that may have been cut short. A program may take all the
    /// time that the host allows to react to the signal. A program that failed by itself then runs once more
    /// elsewhere.
    fn is_the_platforms(&self, job: JobId, exit: &Exit) -> bool {
        let Some(signalled) = self.signalled_at else { return false };
        if self.is_success(job, &exit.outcome) {
            return suspects::is_cut_short(ended_at(exit), signalled, exit.was_signalled);
        }
        let is_failed = matches!(exit.outcome, Outcome::Code(_) | Outcome::BadAnswer { .. });
        suspects::may_be_the_platforms(&exit.outcome) || is_failed
    }

    /// Returns the failure of a task that was killed for lack of memory while it held less than its share of
    /// memory.
    fn neighbours_took_memory(&self, exit: &Exit, running: &Running) -> Option<Ending> {
        let Resources { cores, memory_bytes, .. } = self.arrival.capacity;
        let share = memory_bytes / u64::from(cores.max(1)) * u64::from(running.n_cores);
        let share = if running.resources_bytes > 0 { running.resources_bytes } else { share };
        let held = exit.peak_memory_bytes.max(exit.family_memory_bytes);
        if !exit.is_out_of_memory || !running.had_company || held >= share {
            return None;
        }
        let what = format!(
            "memory ran out and the kernel ended it, which held less than its {} MiB: others took more",
            share.div_ceil(1 << 20)
        );
        Some(Ending::Failed(FailureKind::Node { what }))
    }

    /// Adds the I/O and the start time of a task. Skips tasks that waited behind another one, whose start
    /// time is unknown.
    fn note_effort(&mut self, running: &Running, exit: &Exit) {
        let Some(begun_at) = running.begun_at else { return };
        let job = running.task.job;
        let effort = self.efforts.entry(job).or_insert(Effort { job, n: 0, io_bytes: 0, prepared_us: 0 });
        let prepared = exit.started.saturating_duration_since(begun_at);
        effort.n += 1;
        effort.io_bytes = effort.io_bytes.saturating_add(exit.read_bytes.saturating_add(exit.write_bytes));
        effort.prepared_us += u64::try_from(prepared.as_micros()).unwrap_or(u64::MAX);
    }

    fn note_starved(&mut self, running: &Running, exit: &Exit) {
        self.starvation.set_busy(!self.running.is_empty());
        if let Some(times_ns) = exit.scheduled_ns {
            self.starvation.note_ended(times_ns);
        }
        let core_us = exit.wall_us.saturating_mul(running.n_cores.into());
        let starved_us = self.starvation.of_task(exit.cpu_us, core_us);
        if starved_us > 0 {
            let sum = self.starved.entry(running.task.job).or_default();
            *sum = sum.saturating_add(starved_us);
        }
    }

    fn on_exit(&mut self, exit: Exit) {
        let n_running = self.core.n_running();
        let Some(mut running) = self.running.remove(&exit.token) else { return };
        self.tokens.remove(&running.task);
        self.tails.forget(exit.token);
        self.outputs.forget(exit.token);
        self.note_effort(&running, &exit);
        self.note_starved(&running, &exit);
        // A program that outlives the signal to its batch job is killed before the batch job is.
        let is_killed_late = self.has_given_up
            && self.signalled_at.is_some()
            && self.arrival.node.batch_id.is_some()
            && exit.outcome == Outcome::Killed;
        let is_the_platforms = is_killed_late || self.is_the_platforms(running.task.job, &exit);
        let by_neighbours = self.neighbours_took_memory(&exit, &running);
        if let Some(place) = running.place.take() {
            self.leave(place);
        }
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
        let ending = if is_the_platforms {
            Ending::Failed(FailureKind::Preempted)
        } else if exit.is_out_of_memory {
            // The task had no limit of its own; the node's memory ran out.
            by_neighbours.unwrap_or(Ending::Failed(FailureKind::MemoryLimit { limit_bytes: 0 }))
        } else {
            ending(exit.outcome, running.time_limit, running.resources_bytes)
        };
        self.handle(PilotEvent::Ended { task, ending, usage, output: Some(output) });
        self.clean_left(task);
        if self.core.n_running() < n_running {
            // A slot is idle: the manager must know at once.
            self.release();
        }
    }
}

fn ended_at(exit: &Exit) -> Instant {
    exit.started + Duration::from_micros(exit.wall_us)
}

/// Returns a process's end in the core's form.
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
