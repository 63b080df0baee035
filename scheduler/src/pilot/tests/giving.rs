//! What pilots give to others.

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

#[test]
fn what_another_pilot_gave_is_given_to_nobody_until_it_comes_from_elsewhere() {
    let mut core = pilot(1, None);
    let mut given = first(0..4);
    given.bundles[0].is_given = true;
    core.handle(Time(1), answered(vec![given]));
    assert_eq!(gave(&core.handle(Time(2), PilotEvent::AskedFor { thief: THIEF })), Some(0));
    let back = PilotCommand::Return { job: JobId(1), tasks: (1..4).into() };
    let mut second = part(2, 1..4);
    second.commands.push(back);
    core.handle(Time(3), answered(vec![second]));
    assert_eq!(gave(&core.handle(Time(4), PilotEvent::AskedFor { thief: THIEF })), Some(2));
}

#[test]
fn a_report_of_gifts_that_cannot_be_read_gives_them_back() {
    let mut core = pilot(1, None);
    core.handle(Time(1), answered(vec![first(0..2)]));
    core.handle(Time(2), PilotEvent::AskedFor { thief: THIEF });
    let returned = core.returning(1).expect("it is not acknowledged");
    assert_eq!((returned.jobs[0].returned.to_string(), returned.jobs[0].given.len()), ("1".into(), 0));
}
