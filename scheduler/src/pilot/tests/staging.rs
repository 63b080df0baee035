//! Tests of staging: files come before a task begins and go after it has ended, and no slot waits for them.

use proptest::prelude::*;

use super::*;

use crate::{
    pull::Staging,
    results::{OutputFile, TaskFiles},
};

const WITH_INPUTS: Staging = Staging { inputs: true, outputs: false };
const WITH_OUTPUTS: Staging = Staging { inputs: false, outputs: true };

fn task(index: u64) -> TaskId {
    TaskId { job: JobId(1), index }
}

/// The first part: a job with files, and these tasks of it.
fn given(staging: Staging, tasks: std::ops::Range<u64>) -> PilotEvent {
    let mut part = part(1, tasks);
    part.templates[0].needs.staging = staging;
    answered(vec![part])
}

fn staged(index: u64) -> PilotEvent {
    PilotEvent::Staged { task: task(index), result: Ok(()) }
}

fn delivered(index: u64) -> PilotEvent {
    let files = vec![OutputFile { to: format!("out-{index}"), bytes: 3, ..OutputFile::default() }];
    PilotEvent::Delivered { task: task(index), result: Ok(files) }
}

fn transfer_failed() -> FailureKind {
    FailureKind::Transfer { what: "data/a: no answer".into() }
}

fn to_stage(actions: &[PilotAction]) -> Vec<u64> {
    let staged = actions.iter().filter_map(|action| match action {
        PilotAction::Stage { task } => Some(task.index),
        _ => None,
    });
    staged.collect()
}

#[test]
fn a_task_begins_when_its_files_are_here_and_those_of_two_a_slot_are_brought() {
    let mut core = pilot(2, None);
    let first = core.handle(Time(1), given(WITH_INPUTS, 0..9));
    assert_eq!((to_stage(&first), started(&first)), (vec![0, 1, 2, 3], vec![]));
    let second = core.handle(Time(2), staged(2));
    assert_eq!((to_stage(&second), started(&second)), (vec![4], vec![2]));
    // Tasks begin in the order of the `Stage` actions, whichever files were there first.
    core.handle(Time(3), staged(3));
    core.handle(Time(3), staged(0));
    assert_eq!(started(&core.handle(Time(4), ended(3, Ending::Exited(0)))), [0]);
    assert!(core.has_queued());
}

#[test]
fn while_files_are_brought_the_tasks_of_other_jobs_run() {
    let mut core = pilot(1, None);
    core.handle(Time(1), given(WITH_INPUTS, 0..9));
    let bundles = vec![Bundle { job: JobId(2), tasks: (0..1).into(), tried: vec![], is_given: false }];
    let other = Part { number: 2, templates: vec![template(2, None)], bundles, commands: vec![] };
    let actions = core.handle(Time(2), answered(vec![other]));
    assert!(actions.contains(&PilotAction::Start {
        task: TaskId { job: JobId(2), index: 0 },
        attempt: 1,
        after: None
    }));
}

#[test]
fn a_task_whose_files_cannot_be_had_has_failed_and_holds_nothing() {
    let mut core = pilot(1, None);
    core.handle(Time(1), given(WITH_INPUTS, 0..1));
    let result = Err(transfer_failed());
    let report = report(&core.handle(Time(2), PilotEvent::Staged { task: task(0), result }));
    assert_eq!(report.map(|report| report.jobs[0].failures[0].kind.clone()), Some(transfer_failed()));
    assert!(!core.has_queued());
}

#[test]
fn what_is_given_back_is_unstaged_and_what_is_heard_of_it_later_begins_nothing() {
    let mut core = pilot(1, None);
    core.handle(Time(1), given(WITH_INPUTS, 0..3));
    let actions = core.handle(Time(2), PilotEvent::Signalled);
    for index in [0, 1] {
        assert!(actions.contains(&PilotAction::Unstage { task: task(index) }));
    }
    assert_eq!(report(&actions).map(|report| report.jobs[0].returned.to_string()), Some("0-2".into()));
    assert!(started(&core.handle(Time(3), staged(0))).is_empty());
}

#[test]
fn a_task_that_comes_twice_while_its_files_are_brought_is_one() {
    let mut core = pilot(2, None);
    core.handle(Time(1), given(WITH_INPUTS, 0..1));
    assert!(to_stage(&core.handle(Time(2), answered(vec![part(2, 0..1)]))).is_empty());
    core.handle(Time(3), staged(0));
    assert_eq!(core.n_running(), 1);
    assert!(!core.has_queued());
}

#[test]
fn files_that_a_task_left_are_delivered_before_it_is_reported_and_its_slot_is_free_meanwhile() {
    let mut core = pilot(1, None);
    core.handle(Time(1), given(WITH_OUTPUTS, 0..2));
    let after = core.handle(Time(2), ended(0, Ending::Exited(0)));
    assert!(after.contains(&PilotAction::Deliver { task: task(0) }));
    assert_eq!((started(&after), report(&after)), (vec![1], None));
    let held = &core.holds()[0];
    assert_eq!(format!("{} {} {}", held.queued, held.running, held.unreported), " 1 0");
    // The pilot reported at once that another task has begun.
    core.handle(Time(3), PilotEvent::Answered { lane: Lane::Report, answer: Box::default() });
    let report = report(&core.handle(Time(3), delivered(0))).expect("a report");
    let files = vec![OutputFile { to: "out-0".into(), bytes: 3, ..OutputFile::default() }];
    assert_eq!(report.jobs[0].files, [TaskFiles { index: 0, files }]);
    assert_eq!(report.jobs[0].successes.tasks.to_string(), "0");
}

#[test]
fn a_task_that_failed_leaves_nothing_and_one_whose_files_do_not_arrive_has_failed() {
    let mut core = pilot(2, None);
    core.handle(Time(1), given(WITH_OUTPUTS, 0..2));
    let actions = core.handle(Time(2), ended(0, Ending::Exited(1)));
    assert!(!actions.contains(&PilotAction::Deliver { task: task(0) }));
    assert_eq!(report(&actions).map(|report| report.jobs[0].failures.len()), Some(1));
    core.handle(Time(3), ended(1, Ending::Exited(0)));
    let answer = Box::new(PullAnswer { epoch: 1, acknowledged: 1, ..PullAnswer::default() });
    core.handle(Time(3), PilotEvent::Answered { lane: Lane::Report, answer });
    let result = Err(transfer_failed());
    let last = report(&core.handle(Time(4), PilotEvent::Delivered { task: task(1), result }));
    assert_eq!(last.map(|report| report.jobs[0].failures[0].kind.clone()), Some(transfer_failed()));
}

#[test]
fn a_pilot_leaves_after_what_its_tasks_left_unless_its_walltime_ends() {
    let mut core = pilot(1, Some(Time(100_000_000)));
    core.handle(Time(1), given(WITH_OUTPUTS, 0..1));
    core.handle(Time(2), PilotEvent::Signalled);
    core.handle(Time(3), ended(0, Ending::Exited(0)));
    assert!(!core.is_about_to_leave());
    let actions = core.handle(Time(90_000_000), PilotEvent::TimerFired);
    assert!(actions.contains(&PilotAction::Unstage { task: task(0) }));
    let kind = report(&actions).map(|report| report.jobs[0].failures[0].kind.clone());
    assert_eq!((kind, core.is_about_to_leave()), (Some(FailureKind::Walltime), true));
}

#[test]
fn what_a_cancelled_task_left_goes_nowhere() {
    let mut core = pilot(1, None);
    core.handle(Time(1), given(WITH_OUTPUTS, 0..1));
    core.handle(Time(2), ended(0, Ending::Exited(0)));
    let kill = PilotCommand::Kill { job: JobId(1), tasks: (0..1).into() };
    let commands = vec![kill, PilotCommand::Forget { job: JobId(1) }];
    let actions = core.handle(Time(3), answered(vec![Part { number: 2, commands, ..Part::default() }]));
    assert!(actions.contains(&PilotAction::Unstage { task: task(0) }));
    assert!(actions.contains(&PilotAction::Forget { job: JobId(1) }));
    assert_eq!(report(&actions).map(|report| report.jobs[0].returned.to_string()), Some("0".into()));
}

/// A shell that carries out the actions in an order that the test draws, and keeps books.
struct Shell {
    core: PilotCore,
    now: u64,
    n_parts: u64,
    given: TaskSet,
    on_the_way: Vec<PilotEvent>,
    brought: TaskSet,
    running: TaskSet,
    told: TaskSet,
    acknowledged: u64,
    has_left: bool,
}

impl Shell {
    fn new(staging: Staging) -> Shell {
        let (given, brought, running, told) =
            (TaskSet::new(), TaskSet::new(), TaskSet::new(), TaskSet::new());
        let core = pilot(3, None);
        let on_the_way = Vec::new();
        let (acknowledged, has_left) = (0, false);
        let mut shell = Shell {
            core,
            now: 1,
            n_parts: 1,
            given,
            on_the_way,
            brought,
            running,
            told,
            acknowledged,
            has_left,
        };
        shell.given.insert_all(&TaskSet::from(0..10));
        shell.hears(super::staging::given(staging, 0..10));
        shell
    }

    fn hears(&mut self, event: PilotEvent) {
        self.now += 1;
        for action in self.core.handle(Time(self.now), event) {
            self.does(action);
        }
        assert!(self.running.len() <= 3, "more tasks run than there are cores");
        if self.core.jobs.values().any(|queue| queue.needs.staging.inputs) {
            assert!(self.core.staged.len() <= 6, "files of too many tasks are brought");
        }
        let mut all = self.told.clone();
        for held in self.core.holds() {
            [held.queued, held.running, held.unreported].iter().for_each(|tasks| all.insert_all(tasks));
        }
        assert_eq!(all.to_string(), self.given.to_string(), "a task is lost, or was never given");
    }

    fn does(&mut self, action: PilotAction) {
        let is_of = |event: &PilotEvent, task: TaskId| match event {
            PilotEvent::Staged { task: other, .. } | PilotEvent::Delivered { task: other, .. } => {
                *other == task
            }
            _ => false,
        };
        match action {
            PilotAction::Stage { task } => {
                assert!(!self.on_the_way.iter().any(|event| is_of(event, task)), "staged twice");
                self.on_the_way.push(staged(task.index));
            }
            PilotAction::Unstage { task } => {
                self.on_the_way.retain(|event| !is_of(event, task));
                self.brought.remove(task.index);
            }
            PilotAction::Start { task, .. } => {
                let needs_files = self.core.jobs[&task.job].needs.staging.inputs;
                assert!(!needs_files || self.brought.remove(task.index), "it begins without its files");
                assert!(self.running.insert(task.index), "it runs twice");
            }
            PilotAction::Kill { task } if self.running.contains(task.index) => {
                self.on_the_way.push(ended(task.index, Ending::Killed));
            }
            PilotAction::Deliver { task } => self.on_the_way.push(delivered(task.index)),
            PilotAction::Keep(report) => {
                for part in &report.jobs {
                    self.told.insert_all(&part.tasks());
                }
            }
            PilotAction::Pull { lane: Lane::Report, report, .. } => {
                self.acknowledged = report.unwrap_or(self.acknowledged);
                let acknowledged = self.acknowledged;
                let answer = Box::new(PullAnswer { epoch: 1, acknowledged, ..PullAnswer::default() });
                self.on_the_way.push(PilotEvent::Answered { lane: Lane::Report, answer });
            }
            PilotAction::Leave { .. } => self.has_left = true,
            _ => {}
        }
    }

    /// Finishes one of the open transfers or tasks, well or not.
    fn goes_on(&mut self, luck: usize) {
        if self.on_the_way.is_empty() {
            return;
        }
        let mut event = self.on_the_way.remove(luck % self.on_the_way.len());
        match &mut event {
            PilotEvent::Staged { result, .. } if luck.is_multiple_of(7) => *result = Err(transfer_failed()),
            PilotEvent::Staged { task, .. } => _ = self.brought.insert(task.index),
            PilotEvent::Delivered { result, .. } if luck.is_multiple_of(5) => {
                *result = Err(transfer_failed())
            }
            PilotEvent::Ended { task, .. } if !self.running.remove(task.index) => return,
            _ => {}
        }
        self.hears(event);
    }

    fn one_ends(&mut self, luck: usize) {
        let nth = luck as u64 % self.running.len().max(1);
        let index = self.running.indices().nth(nth as usize);
        if let Some(index) = index.filter(|index| self.running.remove(*index)) {
            self.hears(ended(index, Ending::Exited(i32::from(luck.is_multiple_of(4)))));
        }
    }

    fn is_told(&mut self, command: PilotCommand) {
        self.n_parts += 1;
        self.hears(answered(vec![Part { number: self.n_parts, commands: vec![command], ..Part::default() }]));
    }
}

proptest! {
    #[test]
    fn in_any_order_of_events_every_task_is_told_of_once_and_none_begins_without_its_files(
        staging in prop::sample::select(vec![WITH_INPUTS, WITH_OUTPUTS, Staging { inputs: true, outputs: true }]),
        events in proptest::collection::vec((0..12_u8, any::<usize>()), 0..60),
    ) {
        let mut shell = Shell::new(staging);
        for (what, luck) in events {
            match what {
                0..=6 => shell.goes_on(luck),
                7 | 8 => shell.one_ends(luck),
                9 => {
                    let from = luck as u64 % 10;
                    let tasks = TaskSet::from(from..from + 1);
                    shell.is_told(PilotCommand::Return { job: JobId(1), tasks });
                }
                10 => {
                    let from = luck as u64 % 10;
                    shell.is_told(PilotCommand::Kill { job: JobId(1), tasks: TaskSet::from(from..from + 1) });
                }
                _ if luck.is_multiple_of(8) => shell.hears(PilotEvent::StopAsked),
                _ => shell.is_told(PilotCommand::Offer { cores: luck as u32 % 3 + 1 }),
            }
        }
        shell.is_told(PilotCommand::Offer { cores: 3 });
        shell.is_told(PilotCommand::Drain);
        for luck in 1..400 {
            shell.goes_on(luck);
            shell.one_ends(luck);
        }
        prop_assert!(shell.has_left, "it never leaves: {:?}", shell.core.holds());
        prop_assert_eq!(shell.told.to_string(), shell.given.to_string());
    }
}
