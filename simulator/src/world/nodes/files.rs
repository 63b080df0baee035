//! Staging: transfers take a while, and now and then fail. The result of each transfer is drawn from a stream
//! of its own, so that plans without files are unaffected.

use std::collections::BTreeMap;

use scheduler::{ids::TaskId, pilot::PilotEvent, results::FailureKind, rng::Rng, time::Span};

use super::{
    super::{Happening, Held, World},
    MARGIN,
};
use crate::auditor::End;

/// The stream of random numbers for transfers.
const STREAM: u64 = 0xf11e;
/// The longest transfer.
const LONGEST: Span = Span(3_000_000);
/// One of this many transfers fails, after all tries of the agent.
const FAILS: u64 = 15;

/// The transfers of an agent.
#[derive(Default)]
pub(super) struct Files {
    n_ever: u64,
    /// Transfers in progress: each with its number, and the execution that left the files, if it is a
    /// stage-out.
    moving: BTreeMap<TaskId, (u64, Option<usize>)>,
    /// Executions that ended well and for which the core has not yet asked for a stage-out.
    left: BTreeMap<TaskId, usize>,
}

impl Files {
    /// Notes an execution that has ended well: whether it counts depends on its files.
    pub(super) fn are_left_by(&mut self, task: TaskId, execution: usize) {
        self.left.insert(task, execution);
    }

    /// Returns executions whose files have not arrived.
    pub(super) fn executions(&self) -> Vec<(TaskId, usize)> {
        let moving = self.moving.iter().filter_map(|(task, (_, execution))| Some((*task, (*execution)?)));
        moving.chain(self.left.iter().map(|(task, execution)| (*task, *execution))).collect()
    }
}

impl World<'_> {
    /// Starts the stage-out that the core wants for a task.
    pub(super) fn files_are_left(&mut self, node: usize, life: u64, task: TaskId) {
        let process = self.nodes[node].process.as_mut();
        let execution = process.and_then(|process| process.files.left.remove(&task));
        self.files_are_wanted(node, life, task, execution);
    }

    pub(super) fn files_are_wanted(
        &mut self,
        node: usize,
        life: u64,
        task: TaskId,
        execution: Option<usize>,
    ) {
        let Some(process) = &mut self.nodes[node].process else { return };
        process.files.n_ever += 1;
        let number = process.files.n_ever;
        process.files.moving.insert(task, (number, execution));
        let span = Span(self.luck_of_files(node, life, number).below(LONGEST.0));
        self.after(span, Happening::FilesMoved { node, life, task, number });
    }

    fn luck_of_files(&self, node: usize, life: u64, number: u64) -> Rng {
        Rng::of(self.seed, &[STREAM, node as u64, life, number])
    }

    pub(in super::super) fn files_are_moved(
        &mut self,
        node: usize,
        life: u64,
        task: TaskId,
        number: u64,
    ) -> Held {
        if !self.awake(node, life, || Happening::FilesMoved { node, life, task, number }) {
            return Ok(());
        }
        let (now, is_faulty) = (self.now, self.is_faulty());
        let mut luck = self.luck_of_files(node, life, number);
        let fails = luck.below(LONGEST.0) < LONGEST.0 && luck.one_in(FAILS) && is_faulty;
        let held = &mut self.nodes[node];
        let Some(process) = &mut held.process else { return Ok(()) };
        let Some((_, execution)) = process.files.moving.get(&task).copied().filter(|(n, _)| *n == number)
        else {
            return Ok(());
        };
        process.files.moving.remove(&task);
        let kind = FailureKind::Transfer { what: "no answer".into() };
        let end = if fails { End::Failure(kind.clone()) } else { End::Success };
        if let Some(auditor) = &mut self.auditor {
            let given = process.given.get(&task).copied().unwrap_or(now);
            // A task whose inputs do not come counts as tried.
            let execution = match execution {
                None if fails => Some(auditor.started(task, &held.place, given, now)?),
                execution => execution,
            };
            execution.into_iter().for_each(|execution| auditor.ended(task, execution, end.clone(), now));
        }
        let event = match execution {
            None => PilotEvent::Staged { task, result: if fails { Err(kind) } else { Ok(()) } },
            Some(_) => PilotEvent::Delivered { task, result: if fails { Err(kind) } else { Ok(Vec::new()) } },
        };
        self.pilot_hears(node, life, event)
    }

    /// Stops the transfers of a task.
    pub(super) fn files_are_dropped(&mut self, node: usize, task: TaskId) {
        let now = self.now;
        let held = &mut self.nodes[node];
        let Some(process) = &mut held.process else { return };
        let Some((_, Some(execution))) = process.files.moving.remove(&task) else { return };
        let end = match held.walltime_end.is_some_and(|end| now + MARGIN >= end) {
            true => End::Failure(FailureKind::Walltime),
            // Its process had ended by itself: it does not die with its pilot.
            false => End::Failure(FailureKind::Preempted),
        };
        if let Some(auditor) = &mut self.auditor {
            auditor.ended(task, execution, end, now);
        }
    }
}
