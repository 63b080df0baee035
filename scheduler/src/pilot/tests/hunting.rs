//! Tests of the tasks that idle pilots steal, and of the queues in which tasks with inputs wait.

use super::*;

const THIEF: PilotId = PilotId(7);

/// A pilot of one core that steals by this policy and listens.
fn thief(policy: PilotStealing) -> PilotCore {
    let mut core = pilot(1, None);
    let commands = vec![PilotCommand::Steal { policy }];
    let part = Part { number: 1, commands, ..Part::default() };
    let actions = core.handle(Time(1), answered(vec![part]));
    assert_eq!(actions[1..2], [PilotAction::Meet { is_wanted: policy != PilotStealing::None }]);
    core
}

fn hunts(actions: &[PilotAction]) -> bool {
    actions.contains(&PilotAction::Hunt)
}

#[test]
fn an_idle_pilot_asks_after_a_millisecond_and_ever_more_rarely() {
    let mut core = thief(PilotStealing::Mlb);
    let mut now = core.next_wakeup().expect("it wants to try");
    assert_eq!(now, Time(1_001));
    for pause in [2_000, 4_000, 8_000] {
        assert!(!hunts(&core.handle(Time(now.0 - 1), PilotEvent::TimerFired)));
        assert!(hunts(&core.handle(now, PilotEvent::TimerFired)));
        assert_eq!(core.next_wakeup(), None, "one try at a time");
        core.handle(now, PilotEvent::Hunted(Hunted::InVain));
        assert_eq!(core.next_wakeup(), Some(now + Span(pause)));
        now = now + Span(pause);
    }
}

#[test]
fn what_was_promised_is_waited_for_and_what_comes_ends_the_search() {
    let mut core = thief(PilotStealing::Mlb);
    core.handle(Time(1_001), PilotEvent::TimerFired);
    core.handle(Time(2_000), PilotEvent::Hunted(Hunted::Promised));
    assert_eq!(core.next_wakeup(), Some(Time(1_002_000)));
    let mut given = Part { number: 2, ..part(1, 0..1) };
    given.bundles[0].is_given = true;
    assert_eq!(started(&core.handle(Time(3_000), answered(vec![given]))), [0]);
    assert_eq!(core.next_wakeup(), None);
}

#[test]
fn nobody_who_has_work_or_is_not_told_to_asks_others() {
    for (policy, tasks) in [(PilotStealing::None, 0..0), (PilotStealing::Lend, 0..3)] {
        let mut core = pilot(1, None);
        let commands = vec![PilotCommand::Steal { policy }];
        core.handle(Time(1), answered(vec![Part { commands, ..part(1, tasks) }]));
        assert_eq!(core.next_wakeup(), None, "{policy:?}");
        assert!(!hunts(&core.handle(Time(9_000_000), PilotEvent::TimerFired)));
    }
}

#[test]
fn what_is_begun_within_the_margin_is_not_given_away() {
    let mut core = thief(PilotStealing::Mlb);
    core.handle(Time(2), answered(vec![Part { number: 2, ..part(1, 0..41) }]));
    assert_eq!(core.n_to_take(Time(2)), 40, "nothing is known of how long they take");
    // A task takes a millisecond: the next one stays for the slot, and ten more.
    let usage = Usage { wall_us: 1_000, ..Usage::default() };
    let task = TaskId { job: JobId(1), index: 0 };
    core.handle(Time(3), PilotEvent::Ended { task, ending: Ending::Exited(0), usage, output: None });
    let n_queued: u64 = core.jobs.values().map(|queue| queue.queued.len()).sum();
    assert_eq!(core.n_to_take(Time(3)), n_queued - 11);
    let n_expected = core.n_to_take(Time(4)).div_ceil(2);
    let actions = core.handle(Time(4), PilotEvent::AskedFor { thief: THIEF });
    assert!(actions.contains(&PilotAction::Gave { thief: THIEF, n_tasks: n_expected }), "{actions:?}");
}

#[test]
fn behind_a_task_that_runs_on_nothing_is_kept_for_the_margin() {
    let mut core = thief(PilotStealing::Mlb);
    core.handle(Time(2), answered(vec![Part { number: 2, ..part(1, 0..8) }]));
    let usage = Usage { wall_us: 5_000, ..Usage::default() };
    let task = TaskId { job: JobId(1), index: 0 };
    core.handle(Time(3), PilotEvent::Ended { task, ending: Ending::Exited(0), usage, output: None });
    let n_queued: u64 = core.jobs.values().map(|queue| queue.queued.len()).sum();
    // Task 1 is expected to end at 5,003; then the next one begins, and two more within ten milliseconds.
    assert_eq!(core.n_to_take(Time(14_000)), n_queued - 3);
    assert_eq!(core.next_wakeup(), Some(Time(15_003)), "others are told when it has not");
    assert_eq!(core.n_to_take(Time(15_003)), n_queued);
    core.handle(Time(15_003), PilotEvent::TimerFired);
    assert!(core.next_wakeup() > Some(Time(15_003)), "once is enough");
}

#[test]
fn the_next_task_stays_with_a_core_that_comes_free_soon() {
    let mut core = thief(PilotStealing::Mlb);
    core.note_wall(JobId(1), 1_000_000);
    core.handle(Time(2), answered(vec![Part { number: 2, ..part(1, 0..3) }]));
    // The task ends after a second, give or take the margin.
    let n_to_take = [500_000, 995_000, 1_005_000, 1_020_000].map(|at| core.n_to_take(Time(at)));
    assert_eq!(n_to_take, [2, 1, 1, 2]);
}

#[test]
fn a_search_in_vain_goes_on_at_long_intervals() {
    let mut core = thief(PilotStealing::Mlb);
    let mut now = Time(0);
    for _ in 0..30 {
        now = core.next_wakeup().expect("it tries again");
        assert!(hunts(&core.handle(now, PilotEvent::TimerFired)));
        core.handle(now, PilotEvent::Hunted(Hunted::InVain));
    }
    assert_eq!(core.next_wakeup(), Some(now + Span::from_secs(8)));
    core.handle(now + Span::from_secs(8), PilotEvent::TimerFired);
    let now = now + Span::from_secs(9);
    core.handle(now, PilotEvent::Hunted(Hunted::PassedOn));
    let given = Part { number: 2, ..part(1, 0..1) };
    core.handle(now, answered(vec![given]));
    core.handle(now, ended(0, Ending::Exited(0)));
    // Tasks have come: the pilot asks sooner again, but not before the asked pilot could have answered.
    assert_eq!(core.next_wakeup(), Some(now + Span::from_millis(100)));
}

#[test]
fn what_was_taken_back_is_in_nobodys_way() {
    let mut core = with_files(PilotStealing::Mlb);
    core.note_wall(JobId(9), 500_000);
    core.handle(Time(3), seen((0..8).map(|index| (index, vec![file(None, 5_000_000)])).collect()));
    // These tasks would be given first.
    let commands = vec![PilotCommand::Return { job: JobId(1), tasks: (4..8).into() }];
    core.handle(Time(4), answered(vec![Part { number: 3, commands, ..Part::default() }]));
    let queued = |core: &PilotCore| core.holds().iter().map(|held| held.queued.len()).sum::<u64>();
    let n_before = queued(&core);
    core.handle(Time(5), PilotEvent::AskedFor { thief: THIEF });
    assert!(queued(&core) < n_before, "{n_before} tasks wait, and none was given");
}

#[test]
fn who_is_told_to_give_gives_as_much_as_if_it_had_been_asked() {
    for (policy, expected) in [(PilotStealing::Mlb, 20), (PilotStealing::None, 0)] {
        let mut core = pilot(1, None);
        let steal = PilotCommand::Steal { policy };
        core.handle(Time(1), answered(vec![Part { commands: vec![steal], ..part(1, 0..41) }]));
        let commands = vec![PilotCommand::Give { to: THIEF }];
        let actions = core.handle(Time(2), answered(vec![Part { number: 2, commands, ..Part::default() }]));
        let given = actions.iter().filter_map(|action| match action {
            PilotAction::Keep(report) => report.jobs[0].given.first(),
            _ => None,
        });
        let given: u64 = given.map(|(to, tasks)| u64::from(*to == THIEF) * tasks.len()).sum();
        assert_eq!(given, expected, "{policy:?}");
    }
}

#[test]
fn what_waits_behind_a_long_task_goes_to_who_asks_where_the_policy_lets_it() {
    for (policy, expected) in [
        (PilotStealing::Mlb, [4, 2, 1, 0]),
        (PilotStealing::Lend, [4, 2, 1, 0]),
        (PilotStealing::Mdl, [0, 0, 0, 0]),
    ] {
        let mut core = with_files(policy);
        // Tasks of an earlier job took half a second; the runtime of this job's tasks is unknown.
        core.note_wall(JobId(9), 500_000);
        core.handle(Time(3), seen((0..8).map(|index| (index, vec![file(None, 5_000_000)])).collect()));
        let task = TaskId { job: JobId(1), index: 0 };
        core.handle(Time(4), PilotEvent::Staged { task, result: Ok(()) });
        // Task 0 runs, inputs of 1 and 2 are brought, and five wait: half of all seven goes, again and again.
        let gifts = expected.map(|_| core.handle(Time(5), PilotEvent::AskedFor { thief: THIEF }));
        for (actions, n_tasks) in gifts.iter().zip(expected) {
            assert!(
                actions.contains(&PilotAction::Gave { thief: THIEF, n_tasks }),
                "{policy:?}: {actions:?}"
            );
        }
        let unstaged = gifts.iter().flatten().filter_map(|action| match action {
            PilotAction::Unstage { task } => Some(task.index),
            _ => None,
        });
        let held: u64 = core.holds().iter().map(|held| held.queued.len()).sum();
        match policy {
            PilotStealing::Mdl => assert_eq!((unstaged.count(), held), (0, 7)),
            // The inputs of 3 were to be brought in the place of 2.
            _ => assert_eq!((unstaged.collect::<Vec<_>>(), held), (vec![2, 3, 1], 0)),
        }
    }
}

/// A pilot that has tasks 0 to 7 of a job with files, all of them queued.
fn with_files(policy: PilotStealing) -> PilotCore {
    let mut core = thief(policy);
    let mut template = template(1, None);
    template.needs.staging.inputs = true;
    let part = Part { number: 2, templates: vec![template], ..part(2, 0..8) };
    let actions = core.handle(Time(2), answered(vec![part]));
    assert!(actions.contains(&PilotAction::Look { job: JobId(1), tasks: (0..8).into() }), "{actions:?}");
    assert!(!staged(&actions).iter().any(|_| true), "nothing is brought before it is known where it is");
    core
}

fn staged(actions: &[PilotAction]) -> Vec<u64> {
    let staged = actions.iter().filter_map(|action| match action {
        PilotAction::Stage { task } => Some(task.index),
        _ => None,
    });
    staged.collect()
}

fn seen(read: Vec<(u64, Vec<ReadBy>)>) -> PilotEvent {
    PilotEvent::Seen { job: JobId(1), tasks: (0..8).into(), read, bytes_per_s: 125_000_000 }
}

/// Returns the pilots that got tasks, with their tasks.
fn given(actions: &[PilotAction]) -> Vec<(u64, String)> {
    let jobs = report(actions).map_or_else(Vec::new, |report| report.jobs);
    let gifts = jobs.iter().flat_map(|job| job.given.iter().map(|(to, tasks)| (to.0, tasks.to_string())));
    gifts.collect()
}

fn file(at: Option<u64>, bytes: u64) -> ReadBy {
    ReadBy { at: at.map(PilotId), bytes }
}

/// Tasks 0 to 3 read files of another pilot, 4 and 5 files of this one, 6 and 7 none.
fn mixed() -> PilotEvent {
    let there = (0..4).map(|index| (index, vec![file(Some(9), 5_000_000), file(None, 1_000)]));
    let here = (4..6).map(|index| (index, vec![file(None, 5_000_000 + index)]));
    seen(there.chain(here).collect())
}

#[test]
fn tasks_go_to_who_has_their_files_where_the_policy_wants_it() {
    for (policy, expected) in [
        (PilotStealing::Mdl, vec![(9, "0-3".to_owned())]),
        (PilotStealing::Lend, vec![(9, "0-3".to_owned())]),
        (PilotStealing::Mlb, vec![]),
    ] {
        let mut core = with_files(policy);
        let actions = core.handle(Time(3), mixed());
        assert_eq!(given(&actions), expected, "{policy:?}");
    }
}

#[test]
fn what_is_fetched_in_half_the_running_time_is_anybodys_and_one_byte_more_stays_with_its_file() {
    for (mean_us, bytes_per_s, light) in
        [(500_000, 125_000_000, 31_250_000), (500_000, 1_000_000, 250_000), (2_000_000, 1_000_000, 1_000_000)]
    {
        for policy in [PilotStealing::Rlds, PilotStealing::Flds] {
            let mut core = with_files(policy);
            core.note_wall(JobId(9), mean_us);
            // Every other task reads one byte too many; the files of the first four are elsewhere.
            let file_of = |index: u64| file((index < 4).then_some(9), light + index % 2);
            let read = (0..8).map(|index| (index, vec![file_of(index)])).collect();
            let event = PilotEvent::Seen { job: JobId(1), tasks: (0..8).into(), read, bytes_per_s };
            let case = format!("{policy:?}, {light} bytes");
            assert_eq!(given(&core.handle(Time(3), event)), [(9, "1,3".to_owned())], "{case}");
            for n_tasks in [2, 1, 1, 0] {
                let actions = core.handle(Time(4), PilotEvent::AskedFor { thief: THIEF });
                assert!(
                    actions.contains(&PilotAction::Gave { thief: THIEF, n_tasks }),
                    "{case}: {actions:?}"
                );
            }
            assert_eq!(core.holds()[0].queued.to_string(), "5,7", "{case}");
        }
    }
}

/// A pilot that has tasks 0 to 7 of a job, all of which stay with their files. The files of 6 and 7 are
/// brought.
fn with_kept(policy: PilotStealing, mean_us: Option<u64>) -> PilotCore {
    let mut core = with_files(policy);
    mean_us.into_iter().for_each(|mean_us| core.note_wall(JobId(9), mean_us));
    let read = (0..8).map(|index| (index, vec![file(None, 500_000_000 + index)])).collect();
    assert_eq!(staged(&core.handle(Time(3), seen(read))), [7, 6]);
    core
}

/// Returns how many tasks can be stolen this long after that.
fn n_to_take_after(core: &mut PilotCore, span: Span) -> u64 {
    let now = Time(3) + span;
    core.handle(now, PilotEvent::TimerFired);
    core.n_to_take(now)
}

#[test]
fn of_tasks_that_stay_with_their_files_more_than_a_seconds_work_is_shared_where_the_policy_wants_it() {
    for (policy, mean_us, n_shared, expected) in [
        (PilotStealing::Flds, Some(500_000), 4, vec![(7, "0-1".to_owned())]),
        // Six tasks wait, and five are a second's work; then fewer.
        (PilotStealing::Flds, Some(200_000), 1, vec![(7, "0".to_owned())]),
        (PilotStealing::Flds, Some(199_999), 0, vec![]),
        // The runtime is unknown.
        (PilotStealing::Flds, None, 0, vec![]),
        (PilotStealing::Rlds, Some(500_000), 0, vec![]),
    ] {
        let (mut core, case) = (with_kept(policy, mean_us), format!("{policy:?}, {mean_us:?}"));
        assert_eq!(n_to_take_after(&mut core, Span(999_999)), 0, "{case}: it is looked once a second");
        assert_eq!(n_to_take_after(&mut core, Span(1_000_000)), n_shared, "{case}");
        let actions = core.handle(Time(1_000_004), PilotEvent::AskedFor { thief: THIEF });
        assert_eq!(given(&actions), expected, "{case}");
    }
}

#[test]
fn after_a_move_twice_as_much_may_stay_and_as_much_as_before_once_nothing_had_to_move() {
    let mut core = with_kept(PilotStealing::Flds, Some(500_000));
    assert_eq!(core.next_wakeup(), Some(Time(1_000_003)));
    assert_eq!(n_to_take_after(&mut core, Span::from_secs(1)), 4);
    // One second's work has stayed, and as much again comes.
    core.handle(Time(1_000_004), answered(vec![Part { number: 3, ..part(2, 8..10) }]));
    let read = (8..10).map(|index| (index, vec![file(None, 500_000_000)])).collect();
    let tasks = (8..10).into();
    core.handle(Time(1_000_005), PilotEvent::Seen { job: JobId(1), tasks, read, bytes_per_s: 125_000_000 });
    assert_eq!([2, 3, 4].map(|n| n_to_take_after(&mut core, Span::from_secs(n))), [4, 6, 6]);
}

#[test]
fn own_tasks_come_before_shared_ones_and_those_with_most_data_first() {
    let mut core = with_files(PilotStealing::Mdl);
    assert_eq!(staged(&core.handle(Time(3), mixed())), [5, 4]);
    // Tasks that stay with their files cannot be stolen: one of the two others is.
    let actions = core.handle(Time(4), PilotEvent::AskedFor { thief: THIEF });
    assert!(actions.contains(&PilotAction::Gave { thief: THIEF, n_tasks: 1 }), "{actions:?}");
}

#[test]
fn what_another_pilot_gave_is_shared_or_stays_with_its_files_as_the_policy_wants_it() {
    for (policy, n_expected) in [(PilotStealing::Mlb, 3), (PilotStealing::Mdl, 0)] {
        let mut core = thief(policy);
        let mut template = template(1, None);
        template.needs.staging.inputs = true;
        let mut part = Part { number: 2, templates: vec![template], ..part(2, 0..8) };
        part.bundles[0].is_given = true;
        core.handle(Time(2), answered(vec![part]));
        // The inputs of two tasks are brought, and one of the others is the last to go.
        let read = (0..8).map(|index| (index, vec![file(None, 5_000_000)]));
        core.handle(Time(3), seen(read.collect()));
        let actions = core.handle(Time(4), PilotEvent::AskedFor { thief: THIEF });
        assert!(actions.contains(&PilotAction::Gave { thief: THIEF, n_tasks: n_expected }), "{actions:?}");
    }
}

#[test]
fn a_task_that_comes_back_is_not_sent_to_its_files_again() {
    let mut core = with_files(PilotStealing::Mdl);
    core.handle(Time(3), mixed());
    let again = Part { number: 3, templates: vec![], ..part(2, 0..4) };
    core.handle(Time(4), answered(vec![again]));
    let actions = core.handle(Time(5), mixed());
    assert!(report(&actions).is_none_or(|report| report.jobs.iter().all(|job| job.given.is_empty())));
    let n_held: u64 = core.holds().iter().map(|held| held.queued.len()).sum();
    assert_eq!(n_held, 8);
}

#[test]
fn a_pilot_that_is_asked_what_it_holds_takes_nothing_until_it_is_told_again() {
    let mut core = thief(PilotStealing::Mlb);
    let answer = Box::new(PullAnswer { epoch: 2, resync: Some(1), ..PullAnswer::default() });
    let actions = core.handle(Time(2), PilotEvent::Answered { lane: Lane::Listen, answer });
    assert!(actions.contains(&PilotAction::Meet { is_wanted: false }));
    assert_eq!((core.next_wakeup(), core.n_to_take(Time(9))), (None, 0));
}
