//! Tests of the pilot, one behaviour a test.

mod ahead;
mod giving;
mod hunting;
mod staging;

use super::*;

use crate::{
    ids::JobId,
    pull::{Holdings, Pull, TaskNeeds, Template},
};

fn pilot(cores: u32, walltime_end: Option<Time>) -> PilotCore {
    let mut core = PilotCore::new(PilotLimits {
        capacity: Resources::cores(cores),
        walltime_end,
        walltime_margin: Span::from_secs(10),
        poll_wait: Span::from_secs(20),
    });
    core.handle(Time(0), PilotEvent::Registered { acknowledged: 0 });
    core
}

fn template(job: u64, time_limit: Option<Span>) -> Template {
    let needs = TaskNeeds {
        resources: Resources::cores(1),
        time_limit,
        success_codes: vec![0],
        ..TaskNeeds::default()
    };
    Template { job: JobId(job), needs, spec: "{}".into() }
}

fn part(number: u64, tasks: std::ops::Range<u64>) -> Part {
    let bundles = vec![Bundle { job: JobId(1), tasks: tasks.into(), tried: vec![], is_given: false }];
    let templates = if number == 1 { vec![template(1, None)] } else { vec![] };
    Part { number, templates, bundles, commands: vec![] }
}

fn answered(parts: Vec<Part>) -> PilotEvent {
    let answer = Box::new(PullAnswer { epoch: 1, parts, ..PullAnswer::default() });
    PilotEvent::Answered { lane: Lane::Listen, answer }
}

fn ended(index: u64, ending: Ending) -> PilotEvent {
    let task = TaskId { job: JobId(1), index };
    PilotEvent::Ended { task, ending, usage: Usage::default(), output: None }
}

fn started(actions: &[PilotAction]) -> Vec<u64> {
    let started = actions.iter().filter_map(|action| match action {
        PilotAction::Start { task, .. } => Some(task.index),
        _ => None,
    });
    started.collect()
}

fn report(actions: &[PilotAction]) -> Option<Report> {
    actions.iter().find_map(|action| match action {
        PilotAction::Keep(report) => Some(report.clone()),
        _ => None,
    })
}

fn pull(actions: &[PilotAction]) -> Option<(Lane, Pull)> {
    actions.iter().find_map(|action| match action {
        PilotAction::Pull { lane, pull, .. } => Some((*lane, (**pull).clone())),
        _ => None,
    })
}

#[test]
fn as_many_tasks_begin_as_there_are_cores_and_the_next_when_one_ends() {
    let mut core = pilot(2, None);
    assert_eq!(started(&core.handle(Time(1), answered(vec![part(1, 0..5)]))), [0, 1]);
    assert_eq!(started(&core.handle(Time(2), ended(1, Ending::Exited(0)))), [2]);
}

#[test]
fn a_slot_is_free_before_it_is_known_what_came_of_its_task() {
    let mut core = pilot(1, None);
    assert_eq!(started(&core.handle(Time(1), answered(vec![part(1, 0..3)]))), [0]);
    let task = TaskId { job: JobId(1), index: 0 };
    let actions = core.handle(Time(2), PilotEvent::Over { task });
    assert_eq!(started(&actions), [1], "the next one has its slot");
    assert_eq!(report(&actions), None, "nothing is told of it yet");
    let (_, told) = pull(&actions).expect("the manager is told who runs");
    let running: TaskSet = [0, 1].into_iter().collect();
    assert_eq!(told.running, [(JobId(1), running)], "if the pilot is killed now, it was lost with both");
    core.handle(Time(3), PilotEvent::Signalled);
    core.handle(Time(4), ended(1, Ending::Exited(0)));
    assert!(!core.is_about_to_leave(), "it is to tell of the first one, too");
    core.handle(Time(5), ended(0, Ending::Failed(FailureKind::Preempted)));
    assert!(core.is_about_to_leave());
    let told: Vec<u64> = core.holds().iter().flat_map(|held| held.unreported.indices()).collect();
    assert_eq!(told, [0, 1, 2], "with what was given back");
    core.handle(Time(6), ended(0, Ending::Exited(0)));
    assert_eq!(core.holds().len(), 1, "an end is taken once");
}

#[test]
fn a_task_begins_with_the_number_of_its_attempt() {
    let mut core = pilot(1, None);
    let mut first = part(1, 0..3);
    first.bundles[0].tried = vec![(1, 4)];
    let attempts = |actions: Vec<PilotAction>| {
        let attempts = actions.into_iter().filter_map(|action| match action {
            PilotAction::Start { task, attempt, .. } => Some((task.index, attempt)),
            _ => None,
        });
        attempts.collect::<Vec<_>>()
    };
    assert_eq!(attempts(core.handle(Time(1), answered(vec![first]))), [(0, 1)]);
    assert_eq!(attempts(core.handle(Time(2), ended(0, Ending::Exited(0)))), [(1, 4)]);
    assert_eq!(attempts(core.handle(Time(3), ended(1, Ending::Exited(1)))), [(2, 1)]);
}

#[test]
fn a_part_that_comes_twice_is_taken_once() {
    let mut core = pilot(8, None);
    assert_eq!(started(&core.handle(Time(1), answered(vec![part(1, 0..2)]))), [0, 1]);
    assert_eq!(started(&core.handle(Time(2), answered(vec![part(1, 0..2), part(2, 5..6)]))), [5]);
}

#[test]
fn an_answer_of_an_earlier_life_of_the_manager_is_void() {
    let mut core = pilot(8, None);
    let answer = Box::new(PullAnswer { epoch: 5, ..PullAnswer::default() });
    core.handle(Time(1), PilotEvent::Answered { lane: Lane::Listen, answer });
    assert!(started(&core.handle(Time(1), answered(vec![part(1, 0..2)]))).is_empty());
}

#[test]
fn results_that_come_while_a_report_is_on_its_way_travel_together() {
    let mut core = pilot(4, None);
    core.handle(Time(1), answered(vec![part(1, 0..4)]));
    let first = report(&core.handle(Time(2), ended(0, Ending::Exited(0)))).map(|report| report.seq);
    assert_eq!(first, Some(1));
    assert_eq!(report(&core.handle(Time(3), ended(1, Ending::Exited(0)))), None);
    assert_eq!(report(&core.handle(Time(3), ended(2, Ending::Exited(7)))), None);
    let answer = Box::new(PullAnswer { epoch: 1, acknowledged: 1, ..PullAnswer::default() });
    let second = report(&core.handle(Time(4), PilotEvent::Answered { lane: Lane::Report, answer }));
    let second = second.map(|report| {
        let job = &report.jobs[0];
        (report.seq, job.successes.tasks.to_string(), job.failures[0].kind.clone())
    });
    assert_eq!(second, Some((2, "1".into(), FailureKind::Exit { code: 7 })));
}

#[test]
fn a_report_that_was_not_answered_is_sent_again_under_its_number() {
    let mut core = pilot(4, None);
    core.handle(Time(1), answered(vec![part(1, 0..4)]));
    core.handle(Time(2), ended(0, Ending::Exited(0)));
    let again = core.handle(Time(3), PilotEvent::PullFailed { lane: Lane::Report });
    let number = again.iter().find_map(|action| match action {
        PilotAction::Pull { lane: Lane::Report, report, .. } => *report,
        _ => None,
    });
    assert_eq!(number, Some(1));
}

#[test]
fn a_signalled_pilot_gives_back_what_has_not_begun_and_leaves_after_the_rest() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..3)]));
    let given_back = report(&core.handle(Time(2), PilotEvent::Signalled));
    assert_eq!(given_back.map(|report| report.jobs[0].returned.to_string()), Some("1-2".into()));
    let answer = Box::new(PullAnswer { epoch: 1, acknowledged: 1, ..PullAnswer::default() });
    let actions = core.handle(Time(3), PilotEvent::Answered { lane: Lane::Report, answer });
    assert!(!actions.contains(&PilotAction::Leave { reason: LeaveReason::Signalled }));
    core.handle(Time(4), ended(0, Ending::Exited(0)));
    let answer = Box::new(PullAnswer { epoch: 1, acknowledged: 2, ..PullAnswer::default() });
    let actions = core.handle(Time(5), PilotEvent::Answered { lane: Lane::Report, answer });
    assert!(actions.contains(&PilotAction::Leave { reason: LeaveReason::Signalled }), "{actions:?}");
}

#[test]
fn a_draining_pilot_hears_that_it_is_to_stop() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let told = |number, command| answered(vec![Part { number, commands: vec![command], ..Part::default() }]);
    let listens = pull(&core.handle(Time(2), told(2, PilotCommand::Drain)));
    assert!(matches!(listens, Some((Lane::Listen, Pull { is_hungry: false, .. }))), "{listens:?}");
    let actions = core.handle(Time(3), told(3, PilotCommand::Stop));
    assert!(actions.contains(&PilotAction::Kill { task: TaskId { job: JobId(1), index: 0 } }));
}

#[test]
fn where_fewer_slots_are_offered_what_runs_goes_on_and_nothing_begins_until_enough_has_ended() {
    let mut core = pilot(2, None);
    let told = |number, cores| {
        let commands = vec![PilotCommand::Offer { cores }];
        answered(vec![Part { number, commands, ..Part::default() }])
    };
    // Such a long runtime that no task waits behind it.
    let usage = Usage { wall_us: 60_000_000, ..Usage::default() };
    let ended_slowly = |index| {
        let (task, ending) = (TaskId { job: JobId(1), index }, Ending::Exited(0));
        PilotEvent::Ended { task, ending, usage, output: None }
    };
    assert_eq!(started(&core.handle(Time(1), answered(vec![part(1, 0..20)]))), [0, 1]);
    assert_eq!(started(&core.handle(Time(2), told(2, 5))), [2, 3, 4]);
    assert!(started(&core.handle(Time(3), told(3, 5))).is_empty(), "told twice");
    assert!(started(&core.handle(Time(4), told(4, 2))).is_empty());
    for (index, expected) in [(0, vec![]), (1, vec![]), (2, vec![]), (3, vec![5]), (4, vec![6])] {
        assert_eq!(started(&core.handle(Time(5 + index), ended_slowly(index))), expected, "{index}");
    }
    assert_eq!(started(&core.handle(Time(20), told(5, 4))), [7, 8]);
}

#[test]
fn what_runs_at_the_end_of_the_walltime_is_killed_without_blame() {
    let mut core = pilot(1, Some(Time(100_000_000)));
    core.handle(Time(1), answered(vec![part(1, 0..2)]));
    let due = core.next_wakeup().unwrap_or_default();
    assert_eq!(due, Time(90_000_000));
    let actions = core.handle(due, PilotEvent::TimerFired);
    assert!(actions.contains(&PilotAction::Kill { task: TaskId { job: JobId(1), index: 0 } }));
    let answer = Box::new(PullAnswer { epoch: 1, acknowledged: 1, ..PullAnswer::default() });
    core.handle(due, PilotEvent::Answered { lane: Lane::Report, answer });
    let last = report(&core.handle(due, ended(0, Ending::Killed)));
    assert_eq!(last.map(|report| report.jobs[0].failures[0].kind.clone()), Some(FailureKind::Walltime));
}

#[test]
fn a_task_that_cannot_end_before_the_walltime_is_given_back() {
    let mut core = pilot(1, Some(Time(100_000_000)));
    // It would end before the walltime, but not before the margin in which all is killed.
    let templates = vec![template(1, Some(Span::from_secs(45)))];
    let bundles = vec![Bundle { job: JobId(1), tasks: (0..2).into(), tried: vec![], is_given: false }];
    let part = Part { number: 1, templates, bundles, commands: vec![] };
    let actions = core.handle(Time(50_000_000), answered(vec![part]));
    assert!(started(&actions).is_empty());
    assert_eq!(report(&actions).map(|report| report.jobs[0].returned.to_string()), Some("0-1".into()));
}

#[test]
fn a_killed_task_is_given_back_and_not_reported_as_failed() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let commands = vec![PilotCommand::Kill { job: JobId(1), tasks: (0..1).into() }];
    let part = Part { number: 2, commands, ..Part::default() };
    let actions = core.handle(Time(2), answered(vec![part]));
    assert!(actions.contains(&PilotAction::Kill { task: TaskId { job: JobId(1), index: 0 } }));
    let last = report(&core.handle(Time(3), ended(0, Ending::Killed)));
    let last = last.map(|report| (report.jobs[0].returned.to_string(), report.jobs[0].failures.len()));
    assert_eq!(last, Some(("0".into(), 0)));
}

#[test]
fn when_asked_the_pilot_tells_everything_it_holds() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..4)]));
    core.handle(Time(2), ended(0, Ending::Exited(0)));
    let answer = Box::new(PullAnswer { epoch: 2, resync: Some(9), ..PullAnswer::default() });
    let actions = core.handle(Time(3), PilotEvent::Answered { lane: Lane::Report, answer });
    let Some((Lane::Report, Pull { holds: Some(Holdings { asked: 9, tasks, templates }), .. })) =
        pull(&actions)
    else {
        panic!("it does not tell: {actions:?}");
    };
    let told: Vec<String> =
        tasks.iter().map(|h| format!("{} {} {}", h.queued, h.running, h.unreported)).collect();
    assert_eq!(told, ["2-3 1 0"]);
    assert_eq!(templates, [JobId(1)]);
}

#[test]
fn what_goes_back_is_held_until_that_is_reported() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..4)]));
    core.handle(Time(2), ended(0, Ending::Exited(0)));
    // The first report is not acknowledged yet.
    let commands = vec![PilotCommand::Return { job: JobId(1), tasks: (3..4).into() }];
    core.handle(Time(3), answered(vec![Part { number: 2, commands, ..Part::default() }]));
    let held = &core.holds()[0];
    assert_eq!(format!("{} {} {}", held.queued, held.running, held.unreported), "2 1 0,3");
}

#[test]
fn a_job_that_will_be_forgotten_is_not_told_as_known() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let commands = vec![PilotCommand::Forget { job: JobId(1) }];
    core.handle(Time(2), answered(vec![Part { number: 2, commands, ..Part::default() }]));
    let answer = Box::new(PullAnswer { epoch: 2, resync: Some(9), ..PullAnswer::default() });
    let actions = core.handle(Time(3), PilotEvent::Answered { lane: Lane::Report, answer });
    let holds = pull(&actions).and_then(|(_, pull)| pull.holds).expect("it tells what it holds");
    assert_eq!((holds.tasks[0].running.to_string(), holds.templates), ("0".into(), vec![]));
}

#[test]
fn the_manager_hears_what_has_begun_even_while_a_pull_is_parked() {
    let mut core = pilot(2, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let answer = Box::new(PullAnswer { epoch: 1, parts: vec![part(2, 1..2)], ..PullAnswer::default() });
    let actions = core.handle(Time(2), PilotEvent::Answered { lane: Lane::Report, answer });
    let told = pull(&actions).map(|(lane, pull)| (lane, pull.running));
    assert_eq!(told, Some((Lane::Report, vec![(JobId(1), TaskSet::from(0..2))])));
}

#[test]
fn a_task_whose_process_is_still_dying_is_not_begun_again() {
    let mut core = pilot(2, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let actions = core.handle(Time(2), answered(vec![part(2, 0..2)]));
    assert_eq!(started(&actions), [1]);
    assert_eq!(report(&actions).map(|report| report.jobs[0].returned.to_string()), Some("0".into()));
}

#[test]
fn a_job_is_forgotten_when_its_last_process_has_ended() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let kill = PilotCommand::Kill { job: JobId(1), tasks: (0..1).into() };
    let commands = vec![kill, PilotCommand::Forget { job: JobId(1) }];
    let forget = PilotAction::Forget { job: JobId(1) };
    let actions = core.handle(Time(2), answered(vec![Part { number: 2, commands, ..Part::default() }]));
    assert!(!actions.contains(&forget));
    assert!(core.handle(Time(3), ended(0, Ending::Killed)).contains(&forget));
}

#[test]
fn what_was_sent_before_the_pilot_told_what_it_holds_is_void() {
    let mut core = pilot(2, None);
    let asked = Box::new(PullAnswer { epoch: 1, resync: Some(3), ..PullAnswer::default() });
    let told = core.handle(Time(1), PilotEvent::Answered { lane: Lane::Listen, answer: asked });
    assert_eq!(pull(&told).and_then(|(_, pull)| pull.holds).map(|holds| holds.asked), Some(3));
    assert!(started(&core.handle(Time(2), answered(vec![part(1, 0..1)]))).is_empty());
    let answer =
        Box::new(PullAnswer { epoch: 1, told: 3, parts: vec![part(1, 1..2)], ..PullAnswer::default() });
    assert_eq!(started(&core.handle(Time(3), PilotEvent::Answered { lane: Lane::Listen, answer })), [1]);
}

#[test]
fn jobs_take_turns_and_a_wide_one_is_not_passed_by() {
    let mut core = pilot(2, None);
    let mut wide = template(2, None);
    wide.needs.resources = Resources::cores(2);
    let narrow = part(1, 0..9);
    let bundle = Bundle { job: JobId(2), tasks: (0..1).into(), tried: vec![], is_given: false };
    let other = Part { number: 2, templates: vec![wide], bundles: vec![bundle], commands: vec![] };
    assert_eq!(started(&core.handle(Time(0), answered(vec![narrow, other]))), [0, 1]);
    assert!(started(&core.handle(Time(1), ended(0, Ending::Exited(0)))).is_empty());
    let next = core.handle(Time(2), ended(1, Ending::Exited(0)));
    let begins =
        |action: &PilotAction| matches!(action, PilotAction::Start { task, .. } if task.job == JobId(2));
    assert!(next.iter().any(begins), "{next:?}");
    assert_eq!(started(&next).len(), 1);
}

#[test]
fn a_job_whose_tasks_take_longer_gets_no_more_cores_for_it() {
    let mut core = pilot(2, None);
    let bundle = Bundle { job: JobId(2), tasks: (0..9).into(), tried: vec![], is_given: false };
    let long =
        Part { number: 2, templates: vec![template(2, None)], bundles: vec![bundle], commands: vec![] };
    core.handle(Time(0), answered(vec![part(1, 0..9)]));
    core.handle(Time(1), answered(vec![long]));
    core.handle(Time(2), ended(0, Ending::Exited(0)));
    let jobs = |core: &PilotCore| core.running.keys().map(|task| task.job.0).collect::<Vec<_>>();
    assert_eq!(jobs(&core), [1, 2], "one each");
    for index in 1..4 {
        core.handle(Time(2 + index), ended(index, Ending::Exited(0)));
        assert_eq!(jobs(&core), [1, 2], "who had the core keeps it");
    }
}

#[test]
fn a_wide_task_behind_a_straggler_does_not_keep_all_others_from_beginning() {
    let mut core = pilot(2, None);
    let mut wide = template(2, None);
    wide.needs.resources = Resources::cores(2);
    let bundle = Bundle { job: JobId(2), tasks: (0..1).into(), tried: vec![], is_given: false };
    let other = Part { number: 2, templates: vec![wide], bundles: vec![bundle], commands: vec![] };
    core.handle(Time(0), answered(vec![part(1, 0..9), other]));
    core.handle(Time(10_000), ended(0, Ending::Exited(0)));
    assert_eq!(core.next_wakeup(), Some(Time(1_000_000)));
    core.handle(Time(1_000_000), PilotEvent::TimerFired);
    let has_begun_or_gone = core.running.len() == 2 || !core.jobs[&JobId(1)].queued.contains(8);
    assert!(has_begun_or_gone, "a core is idle for an hour");
}

#[test]
fn what_a_killed_task_had_written_is_reported_too() {
    let mut core = pilot(2, None);
    core.handle(Time(1), answered(vec![part(1, 0..1)]));
    let tasks = TaskSet::from(0..1);
    let commands = vec![PilotCommand::Kill { job: JobId(1), tasks }, PilotCommand::Show];
    let actions = core.handle(Time(2), answered(vec![Part { number: 2, commands, ..Part::default() }]));
    assert!(actions.contains(&PilotAction::Show));
    let output = TaskOutput { index: 0, stdout: b"so far".to_vec(), stderr: Vec::new() };
    let (task, usage) = (TaskId { job: JobId(1), index: 0 }, Usage::default());
    let event = PilotEvent::Ended { task, ending: Ending::Killed, usage, output: Some(output.clone()) };
    let report = report(&core.handle(Time(3), event)).unwrap();
    assert_eq!((&report.jobs[0].returned.to_string(), &report.jobs[0].outputs), (&"0".into(), &vec![output]));
}
