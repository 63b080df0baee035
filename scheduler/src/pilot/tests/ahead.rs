//! Tests of short tasks that are sent on before there is a slot for them.

use super::{super::ahead::STUCK, *};

const NONE: [u64; 0] = [];
const NO_PAIR: [(u64, u64); 0] = [];

/// Returns the `Start` actions of tasks that wait for a slot, with the task that they wait for.
fn handed_on(actions: &[PilotAction]) -> Vec<(u64, u64)> {
    let handed_on = actions.iter().filter_map(|action| match action {
        PilotAction::Start { task, after: Some(after), .. } => Some((task.index, after.index)),
        _ => None,
    });
    handed_on.collect()
}

fn withdrawn(actions: &[PilotAction]) -> Vec<u64> {
    let withdrawn = actions.iter().filter_map(|action| match action {
        PilotAction::Withdraw { task } => Some(task.index),
        _ => None,
    });
    withdrawn.collect()
}

fn took(index: u64, wall_us: u64) -> PilotEvent {
    let PilotEvent::Ended { task, ending, output, .. } = ended(index, Ending::Exited(0)) else {
        unreachable!("`ended` makes an `Ended`")
    };
    PilotEvent::Ended { task, ending, usage: Usage { wall_us, ..Usage::default() }, output }
}

/// A pilot of one core that has ended task 0 of 0..40 in 2.5 ms: task 1 runs, and 2..6 wait for its slot.
fn pilot_with_some_waiting(walltime_end: Option<Time>) -> PilotCore {
    let mut core = pilot(1, walltime_end);
    assert_eq!(handed_on(&core.handle(Time(1), answered(vec![part(1, 0..40)]))), NO_PAIR);
    let actions = core.handle(Time(2_501), took(0, 2_500));
    assert_eq!(started(&actions), [1, 2, 3, 4, 5]);
    assert_eq!(handed_on(&actions), [(2, 1), (3, 1), (4, 1), (5, 1)], "10 ms of work");
    core
}

fn running(core: &mut PilotCore) -> String {
    let tasks = sets(core.running.keys());
    tasks.get(&JobId(1)).map_or_else(String::new, ToString::to_string)
}

#[test]
fn a_task_that_waits_runs_when_the_one_before_it_has_ended() {
    let mut core = pilot_with_some_waiting(None);
    assert_eq!(running(&mut core), "1");
    assert_eq!(started(&core.handle(Time(5_000), took(1, 2_500))), NONE, "more come when half are gone");
    assert_eq!(running(&mut core), "2");
    let actions = core.handle(Time(7_500), took(2, 2_500));
    assert_eq!((running(&mut core), handed_on(&actions)), ("3".into(), vec![(6, 3), (7, 3)]));
}

#[test]
fn no_task_waits_behind_long_ones_nor_is_the_last_half_given_away() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![part(1, 0..40)]));
    assert_eq!(handed_on(&core.handle(Time(2), took(0, 20_000))), NO_PAIR);
    let mut core = pilot(2, None);
    core.handle(Time(1), answered(vec![part(1, 0..11)]));
    let actions = core.handle(Time(2), took(0, 100));
    assert_eq!(handed_on(&actions), [(3, 1), (4, 1), (5, 2), (6, 2)], "eight are left for two slots");
}

#[test]
fn behind_a_task_that_has_taken_long_already_none_waits() {
    let mut core = pilot(2, None);
    core.handle(Time(1), answered(vec![part(1, 0..2)]));
    core.handle(Time(2_501), took(0, 2_500));
    let now = Time(1) + STUCK;
    let actions = core.handle(now, answered(vec![part(2, 2..42)]));
    assert_eq!(handed_on(&actions), [(3, 2), (4, 2), (5, 2), (6, 2)], "none behind task 1");
    assert_eq!(core.next_wakeup(), Some(now + STUCK));
}

#[test]
fn who_waits_behind_a_task_that_takes_long_begins_wherever_there_is_room() {
    let mut core = pilot_with_some_waiting(None);
    let due = core.next_wakeup().expect("the time to look again");
    assert_eq!(due, Time(2_501) + STUCK);
    assert_eq!(withdrawn(&core.handle(Time(due.0 - 1), PilotEvent::TimerFired)), NONE);
    assert_eq!(withdrawn(&core.handle(due, PilotEvent::TimerFired)), [2, 3, 4, 5]);
    assert_eq!(core.next_wakeup(), None);
    for index in 2..=5 {
        assert_eq!(started(&core.handle(due, ended(index, Ending::Killed))), NONE);
    }
    let actions = core.handle(due + Span(1), took(1, 200_000));
    assert_eq!((started(&actions), handed_on(&actions)), (vec![2], vec![]));
}

#[test]
fn who_has_begun_before_it_was_withdrawn_runs_on() {
    let mut core = pilot_with_some_waiting(None);
    assert_eq!(withdrawn(&core.handle(Time(3_000), PilotEvent::Signalled)), [2, 3, 4, 5]);
    core.handle(Time(3_001), took(1, 2_500));
    assert_eq!(running(&mut core), "2");
    for index in 3..=5 {
        core.handle(Time(3_002), ended(index, Ending::Killed));
    }
    assert!(!core.is_about_to_leave());
    core.handle(Time(3_003), took(2, 2_500));
    assert!(core.is_about_to_leave());
    let returned = core.gathered[&JobId(1)].returned.to_string();
    assert_eq!(returned, "3-39");
}

#[test]
fn near_the_walltime_nothing_begins_unasked_and_at_its_end_all_is_killed() {
    let mut core = pilot_with_some_waiting(Some(Time(100_000_000)));
    let actions = core.handle(Time(90_000_000), PilotEvent::TimerFired);
    let killed = actions.iter().filter(|action| matches!(action, PilotAction::Kill { .. })).count();
    assert_eq!(killed, 5, "who waits may have begun");
    for index in 2..=5 {
        core.handle(Time(90_000_001), ended(index, Ending::Killed));
    }
    core.handle(Time(90_000_002), ended(1, Ending::Killed));
    let gathered = &core.gathered[&JobId(1)];
    assert_eq!(gathered.failures.len(), 1, "only who ran has failed");
    assert_eq!(gathered.returned.to_string(), "2-39");

    let mut core = pilot(1, Some(Time(71_000_000)));
    core.handle(Time(1), answered(vec![part(1, 0..40)]));
    assert_eq!(handed_on(&core.handle(Time(1_500_000), took(0, 100))), NO_PAIR);
}

#[test]
fn who_waits_counts_as_queued_and_can_be_asked_back() {
    let mut core = pilot_with_some_waiting(None);
    assert!(core.has_queued());
    assert_eq!(core.holds()[0].queued.to_string(), "2-39");
    let command = PilotCommand::Return { job: JobId(1), tasks: TaskSet::from(4..20) };
    let told = answered(vec![Part { number: 2, commands: vec![command], ..Part::default() }]);
    assert_eq!(withdrawn(&core.handle(Time(3_000), told)), [4, 5]);
    core.handle(Time(3_001), ended(4, Ending::Killed));
    assert!(core.gathered[&JobId(1)].returned.contains(4));
}

#[test]
fn who_is_withdrawn_for_another_slot_goes_back_when_asked_back() {
    let mut core = pilot_with_some_waiting(None);
    let due = Time(2_501) + STUCK;
    assert_eq!(withdrawn(&core.handle(due, PilotEvent::TimerFired)), [2, 3, 4, 5]);
    let commands = vec![PilotCommand::Return { job: JobId(1), tasks: TaskSet::from(2..4) }];
    core.handle(due, answered(vec![Part { number: 2, commands, ..Part::default() }]));
    for index in 2..=5 {
        core.handle(due, ended(index, Ending::Killed));
    }
    assert_eq!(core.gathered[&JobId(1)].returned.to_string(), "2-3");
    assert_eq!(core.jobs[&JobId(1)].queued.to_string(), "4-39");
}

#[test]
fn who_waits_is_killed_as_well_since_it_may_have_begun() {
    let mut core = pilot_with_some_waiting(None);
    let commands = vec![PilotCommand::Kill { job: JobId(1), tasks: TaskSet::from(1..4) }];
    let actions = core.handle(Time(3_000), answered(vec![Part { number: 2, commands, ..Part::default() }]));
    let killed = actions.iter().filter_map(|action| match action {
        PilotAction::Kill { task } => Some(task.index),
        _ => None,
    });
    assert_eq!(killed.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn who_waits_is_not_taken_a_second_time() {
    let mut core = pilot_with_some_waiting(None);
    core.handle(Time(3_000), answered(vec![part(2, 3..5)]));
    assert_eq!(core.jobs[&JobId(1)].queued.to_string(), "6-39");
    assert_eq!(core.gathered[&JobId(1)].returned.to_string(), "3-4");
}

#[test]
fn who_is_taken_back_keeps_the_number_of_its_attempt() {
    let mut core = pilot(1, None);
    let mut first = part(1, 0..40);
    first.bundles[0].tried = vec![(2, 4)];
    core.handle(Time(1), answered(vec![first]));
    core.handle(Time(2_501), took(0, 2_500));
    let due = Time(2_501) + STUCK;
    assert_eq!(withdrawn(&core.handle(due, PilotEvent::TimerFired)), [2, 3, 4, 5]);
    for index in 2..=5 {
        core.handle(due, ended(index, Ending::Killed));
    }
    let actions = core.handle(due + Span(1), took(1, 200_000));
    let task = TaskId { job: JobId(1), index: 2 };
    assert!(actions.contains(&PilotAction::Start { task, attempt: 4, after: None }), "{actions:?}");
}
