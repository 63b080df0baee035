//! Tests of the tasks that pilots give to others.

use super::*;

const THIEF: PilotId = PilotId(7);

/// A part with tasks for a pilot that steals.
fn first(tasks: std::ops::Range<u64>) -> Part {
    let commands = vec![PilotCommand::Steal { policy: PilotStealing::Mlb }];
    Part { commands, ..part(1, tasks) }
}

fn gave(actions: &[PilotAction]) -> Option<u64> {
    actions.iter().find_map(|action| match action {
        PilotAction::Gave { thief: THIEF, n_tasks } => Some(*n_tasks),
        _ => None,
    })
}

fn given(actions: &[PilotAction]) -> Vec<(u64, String)> {
    let jobs = report(actions).map_or_else(Vec::new, |report| report.jobs);
    let gifts = jobs.iter().flat_map(|job| job.given.iter().map(|(to, tasks)| (to.0, tasks.to_string())));
    gifts.collect()
}

#[test]
fn half_of_what_waits_goes_to_who_asks_and_is_begun_here_no_more() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![first(0..6)]));
    let actions = core.handle(Time(2), PilotEvent::AskedFor { thief: THIEF });
    assert_eq!((gave(&actions), given(&actions)), (Some(3), vec![(7, "3-5".to_owned())]));
    let held = core.holds();
    assert_eq!((held[0].queued.to_string(), held[0].unreported.to_string()), ("1-2".into(), "3-5".into()));
    let mut begun = vec![];
    for (at, index) in [0, 1, 2].into_iter().enumerate() {
        begun.extend(started(&core.handle(Time(3 + at as u64), ended(index, Ending::Exited(0)))));
    }
    assert_eq!(begun, [1, 2]);
}

#[test]
fn the_only_one_that_waits_goes_and_of_none_nothing() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![first(0..2)]));
    assert_eq!(gave(&core.handle(Time(2), PilotEvent::AskedFor { thief: THIEF })), Some(1));
    let actions = core.handle(Time(3), PilotEvent::AskedFor { thief: THIEF });
    assert_eq!((gave(&actions), given(&actions)), (Some(0), vec![]));
}

/// A pilot of three cores and a part of tasks for it that take two: one runs, and the remaining core is of no
/// use.
fn with_a_core_left(tasks: std::ops::Range<u64>, is_given: bool) -> (PilotCore, Part) {
    let mut part = first(tasks);
    part.templates[0].needs.resources = Resources::cores(2);
    part.bundles[0].is_given = is_given;
    (pilot(3, None), part)
}

#[test]
fn what_another_pilot_gave_is_given_on_but_for_one_where_cores_are_free() {
    let (wide, taken) = with_a_core_left(0..6, true);
    let mut full = first(0..6);
    full.bundles[0].is_given = true;
    for (mut core, taken, expected, left) in
        [(wide, taken, [2, 1, 1, 0], "1"), (pilot(1, None), full, [3, 1, 1, 0], "")]
    {
        core.handle(Time(1), answered(vec![taken]));
        // Task 0 runs, and five wait.
        let gifts =
            [2, 3, 4, 5].map(|at| gave(&core.handle(Time(at), PilotEvent::AskedFor { thief: THIEF })));
        assert_eq!(gifts, expected.map(Some));
        assert_eq!(core.holds()[0].queued.to_string(), left);
    }
}

#[test]
fn the_last_one_that_another_pilot_gave_goes_once_it_comes_from_elsewhere() {
    let (mut core, taken) = with_a_core_left(0..2, true);
    core.handle(Time(1), answered(vec![taken]));
    assert_eq!(gave(&core.handle(Time(2), PilotEvent::AskedFor { thief: THIEF })), Some(0));
    let mut second = part(2, 1..2);
    second.commands.push(PilotCommand::Return { job: JobId(1), tasks: (1..2).into() });
    core.handle(Time(3), answered(vec![second]));
    assert_eq!(gave(&core.handle(Time(4), PilotEvent::AskedFor { thief: THIEF })), Some(1));
}

#[test]
fn pilots_that_cannot_begin_what_they_take_do_not_pass_it_round_for_ever() {
    // Running tasks last for the whole test. An idle pilot steals from the one that has most.
    let begin = |at: u64| {
        let (mut core, own) = with_a_core_left(90 + at..91 + at, false);
        core.handle(Time(1), answered(vec![own]));
        (core, TaskSet::new())
    };
    let mut pilots: Vec<(PilotCore, TaskSet)> = (0..5).map(begin).collect();
    // There are fewer tasks than pilots: one pilot always has none.
    pilots[0].0.handle(Time(2), answered(vec![part(2, 0..3)]));
    pilots[0].1 = (0..3).into();
    for turn in 3..100 {
        let idle = pilots.iter().position(|(_, held)| held.is_empty()).expect("one of them");
        let most = (0..5).max_by_key(|at| pilots[*at].0.n_to_take(Time(turn))).unwrap_or(0);
        if pilots[most].0.n_to_take(Time(turn)) == 0 {
            let held: Vec<u64> = pilots.iter().map(|(_, held)| held.len()).collect();
            assert_eq!(held, [0, 1, 1, 1, 0]);
            return;
        }
        let (core, held) = &mut pilots[most];
        let n_given = gave(&core.handle(Time(turn), PilotEvent::AskedFor { thief: THIEF })).unwrap_or(0);
        let kept = held.take_first(held.len() - n_given);
        let mut taken = Part { number: turn, ..part(2, 0..0) };
        taken.bundles[0] = Bundle { job: JobId(1), tasks: held.clone(), tried: vec![], is_given: true };
        let taken_by = std::mem::replace(held, kept);
        pilots[idle].0.handle(Time(turn), answered(vec![taken]));
        pilots[idle].1 = taken_by;
    }
    panic!("still going round: {:?}", pilots.iter().map(|(_, held)| held.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_report_of_gifts_that_cannot_be_read_gives_them_back() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![first(0..2)]));
    core.handle(Time(2), PilotEvent::AskedFor { thief: THIEF });
    let returned = core.returning(1).expect("it is not acknowledged");
    assert_eq!((returned.jobs[0].returned.to_string(), returned.jobs[0].given.len()), ("1".into(), 0));
}
