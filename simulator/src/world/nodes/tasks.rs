//! The processes of tasks on a node: they begin in slots, wait for slots, end and are killed.

use std::collections::VecDeque;

use scheduler::{
    engine::interface::platform::scaling::Ratio,
    ids::{JobId, TaskId},
    pilot::{Ending, PilotEvent},
    results::{FailureKind, TaskOutput, Usage},
    rng::Rng,
    time::Span,
};

use super::{
    super::{Happening, Held, World, course::Course, plan::Nature, scene::Scene},
    GRACE, HOLD, MARGIN,
    pace::Pace,
};
use crate::auditor::{End, Violation};

impl World<'_> {
    /// Starts a task, or lets it wait for the slot of a task that has not ended.
    pub(super) fn task_is_due(
        &mut self,
        node: usize,
        life: u64,
        (task, attempt): (TaskId, u32),
        after: Option<TaskId>,
    ) -> Held {
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        process.attempts.insert(task, attempt);
        let slot = after.and_then(|after| process.slots.get(&after).copied());
        let slot = slot.unwrap_or_else(|| {
            process.n_slots += 1;
            process.n_slots
        });
        process.slots.insert(task, slot);
        if let Some(waiting) = process.waiting.get_mut(&slot) {
            waiting.push_back(task);
            return Ok(());
        }
        process.waiting.insert(slot, VecDeque::new());
        self.task_starts(node, life, task)
    }

    /// Stops a task's wait for a slot; returns whether it waited.
    pub(super) fn waits_no_more(&mut self, node: usize, task: TaskId) -> bool {
        let Some(process) = &mut self.nodes[node].process else { return false };
        let mut places = process.waiting.values_mut();
        places.any(|waiting| {
            let n_before = waiting.len();
            waiting.retain(|other| *other != task);
            waiting.len() < n_before
        })
    }

    /// Passes the end of a task to the core, in batches while other tasks wait.
    pub(super) fn task_is_told(&mut self, node: usize, life: u64, event: PilotEvent) {
        let delay = Span(self.luck.below(HOLD.0));
        let now = self.now;
        let Some(process) = &mut self.nodes[node].process else { return };
        let is_waited_for = process.waiting.values().any(|waiting| !waiting.is_empty());
        let at = if is_waited_for { now + delay } else { now };
        process.told_at = process.told_at.max(at);
        let span = process.told_at.since(now);
        self.after(span, Happening::Heard { node, life, event: Box::new(event) });
    }

    pub(super) fn task_starts(&mut self, node: usize, life: u64, task: TaskId) -> Held {
        let scaling = self.sites[self.nodes[node].batch_job.0].plan.spec.scaling;
        let held = &mut self.nodes[node];
        let now = self.now;
        let Some(process) = &mut held.process else { return Ok(()) };
        let given = process.given.get(&task).copied().unwrap_or(now);
        let execution = match &mut self.auditor {
            Some(auditor) => auditor.started(task, &held.place, given, now)?,
            None => n_executions(&self.scene),
        };
        process.running.insert(task, (execution, now));
        let nature = process.natures.get(&task.job).cloned();
        let (nature, needs) = nature
            .ok_or_else(|| Violation(format!("task {task} began before its job's template had come")))?;
        let cores: u32 = process.running.keys().map(|task| process.cores(task.job)).sum();
        let n_slots = scaling.map_or(Ratio::ONE, |spec| spec.ratio_max).of_cores(held.capacity.cores);
        if cores > n_slots || needs.resources.cores > held.capacity.cores {
            return Err(Violation(format!("{cores} cores of {} are in use", held.capacity)));
        }
        let limit = needs.time_limit;
        let ends_in_time = held.walltime_end.is_none_or(|end| now + limit.unwrap_or(Span::ZERO) <= end);
        if !ends_in_time {
            return Err(Violation(format!("task {task} began too late for its time limit")));
        }
        let attempt = process.attempts.get(&task).copied().unwrap_or(1);
        let site = held.batch_job.0;
        let Course { span, ending, kills_pilot } = match &mut self.scene {
            Some(scene) => {
                scene.ledger.task_began(site, task, needs.resources.cores);
                match scene.is_slowed_down(task.job) {
                    None => scene.course(site, task, attempt, limit),
                    Some(application) => {
                        let course = scene.course(site, task, attempt, None);
                        let on = (application, needs.resources.cores);
                        process.paces.insert(task, Pace::new(execution, on, &course, limit, now));
                        course
                    }
                }
            }
            None => self.natural_course(nature, task, execution, limit),
        };
        if kills_pilot {
            let happening = match self.plan.ends_by_signal {
                true => Happening::JobIsEnded { node, life },
                false => Happening::PilotDies { node, life },
            };
            self.after(Span(span.0 / 2), happening);
        }
        // With co-runners, the end depends on them.
        match self.nodes[node].process.as_ref().is_some_and(|process| process.paces.contains_key(&task)) {
            true => self.repace(node),
            false => self.after(span, Happening::TaskEnds { node, life, task, execution, ending }),
        }
        Ok(())
    }

    /// Ends the batch job by a signal to all of its processes: the tasks end, and the pilot gets the signal.
    pub(in super::super) fn job_is_ended(&mut self, node: usize, life: u64) -> Held {
        let held = &self.nodes[node];
        let Some(process) = held.process.as_ref().filter(|_| held.life == life) else { return Ok(()) };
        let running: Vec<(TaskId, usize)> =
            process.running.iter().map(|(task, (execution, _))| (*task, *execution)).collect();
        for task in running {
            self.task_ends(node, life, task, Ending::Failed(FailureKind::Preempted))?;
        }
        self.pilot_hears(node, life, PilotEvent::Signalled)
    }

    fn natural_course(&self, nature: Nature, task: TaskId, execution: usize, limit: Option<Span>) -> Course {
        let mut luck = Rng::of(self.seed, &[task.job.0, task.index, execution as u64]);
        let wall = Span(luck.between(nature.wall_us_max / 100, nature.wall_us_max));
        let (span, ending) = if luck.one_in(nature.node_fails) {
            (Span(500), Course::node_failure())
        } else if let Some(limit) = limit.filter(|limit| *limit < wall) {
            (limit, Ending::Failed(FailureKind::TimeLimit { limit }))
        } else if luck.one_in(nature.fails) {
            (wall, Ending::Exited(1))
        } else {
            (wall, Ending::Exited(0))
        };
        let is_poison = Rng::of(self.seed, &[task.job.0, task.index]).one_in(nature.is_poison);
        let kills_pilot = is_poison || (self.is_faulty() && luck.one_in(nature.kills_pilot));
        Course { span, ending, kills_pilot }
    }

    pub(super) fn task_is_killed(&mut self, node: usize, life: u64, task: TaskId) {
        let Some(process) = &self.nodes[node].process else { return };
        let Some(&(execution, _)) = process.running.get(&task) else { return };
        let span = Span(self.luck.below(GRACE.0));
        self.after(span, Happening::TaskEnds { node, life, task, execution, ending: Ending::Killed });
    }

    pub(in super::super) fn task_ends(
        &mut self,
        node: usize,
        life: u64,
        (task, execution): (TaskId, usize),
        ending: Ending,
    ) -> Held {
        let now = self.now;
        let again = ending.clone();
        // A stopped agent sees the end when it goes on, and then begins waiting tasks.
        if !self.awake(node, life, || Happening::TaskEnds { node, life, task, execution, ending: again }) {
            return Ok(());
        }
        let held = &mut self.nodes[node];
        let Some(process) = &mut held.process else { return Ok(()) };
        let Some(&(_, started)) = process.running.get(&task).filter(|(which, _)| *which == execution) else {
            return Ok(());
        };
        if ending != Ending::Killed && process.paces.get(&task).is_some_and(|pace| now < pace.ends_at) {
            // The task was slowed down after this event was scheduled.
            return Ok(());
        }
        process.running.remove(&task);
        let was_paced = process.paces.remove(&task).is_some();
        let slot = process.slots.get(&task).copied().unwrap_or_default();
        let next = process.waiting.get_mut(&slot).and_then(VecDeque::pop_front);
        if next.is_none() {
            process.waiting.remove(&slot);
        }
        let end = match &ending {
            Ending::Exited(0) => End::Success,
            Ending::Exited(code) => End::Failure(FailureKind::Exit { code: *code }),
            Ending::Failed(kind) => End::Failure(kind.clone()),
            Ending::Killed if held.walltime_end.is_some_and(|end| now + MARGIN >= end) => {
                End::Failure(FailureKind::Walltime)
            }
            Ending::Killed => End::Killed,
        };
        let leaves_files = process.natures.get(&task.job).is_some_and(|(_, needs)| needs.staging.outputs);
        if leaves_files && end == End::Success {
            process.files.are_left_by(task, execution);
        } else if let Some(auditor) = &mut self.auditor {
            auditor.ended(task, execution, end, now);
        }
        let wall_us = now.since(started).0;
        let mut usage = Usage { started_us: 1, wall_us, cpu_us: wall_us, memory_bytes: 4 };
        let mut output = Some(TaskOutput { index: task.index, stdout: b"x".to_vec(), stderr: Vec::new() });
        if let Some(scene) = &mut self.scene {
            scene.ledger.task_ended(held.batch_job.0, task, process.cores(task.job), (started, now));
            // Only the ledger reads it, in the report.
            usage.started_us = started.0;
            output = None;
        }
        self.task_is_told(node, life, PilotEvent::Ended { task, ending, usage, output });
        if was_paced {
            self.repace(node);
        }
        next.map_or(Ok(()), |next| self.task_starts(node, life, next))
    }

    /// Drops a template; checks that no process needs it any more.
    pub(super) fn job_is_forgotten(&mut self, node: usize, job: JobId) -> Held {
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        let in_hand = process.running.keys().chain(process.waiting.values().flatten());
        if let Some(task) = in_hand.copied().find(|task| task.job == job) {
            return Err(Violation(format!("job {job} was forgotten while task {task} was in hand")));
        }
        process.natures.remove(&job);
        Ok(())
    }
}

/// Returns the number of a process, if no auditor numbers them.
fn n_executions(scene: &Option<Scene>) -> usize {
    scene.as_ref().map_or(0, |scene| scene.ledger.n_executions() as usize)
}

/// Returns the event for a withdrawn task that waited.
pub(super) fn unbegun(task: TaskId) -> PilotEvent {
    PilotEvent::Ended { task, ending: Ending::Killed, usage: Usage::default(), output: None }
}
