//! Limits on the core-hours of a user's tasks on a platform.

use super::{
    limits::{HOUR, is_served, limited},
    *,
};
use crate::ids::PlatformId;

#[test]
fn where_nobody_knows_what_a_task_takes_a_budget_lets_one_begin_at_a_time() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(4);
    let limits =
        PlatformLimits { user_core_time_max: Some(Span::from_secs(HOUR)), ..PlatformLimits::default() };
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 1, limits });
    let id = scene.submit(job(9));
    assert_eq!(scene.take(pilot), [(id.0, "0".into())], "four cores are free");
    assert!(scene.take(pilot).is_empty());
    let answer = scene.done(pilot, id, "0");
    assert!(bundles(&answer).iter().map(|(_, tasks)| set(tasks).len()).sum::<u64>() > 1, "now it is known");
}

#[test]
fn a_user_who_has_used_up_the_budget_of_users_begins_nothing_more_there() {
    let mut scene = Scene::new();
    let user_core_time_max = Some(Span::from_secs(2));
    let limits = PlatformLimits { user_core_time_max, ..PlatformLimits::default() };
    let pilot = scene.pilot(1);
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 1, limits });
    // Another platform without pilots does not hide the pilot here.
    scene.attach(PlatformSpec { name: "there".into(), ..platform(1, 1) });
    let change = PlatformChange::Mode(PlatformMode::Paused);
    scene.say(|request| Event::PlatformChangeAsked { request, platform: "there".into(), change });
    let first = scene.submit(job(100));
    let (mut n_done, mut given) = (0, scene.take(pilot));
    while let [(_, tasks)] = &given[..] {
        n_done += set(tasks).len();
        given = bundles(&scene.done(pilot, first, tasks));
    }
    assert_eq!(n_done, 2, "of a second each");
    assert_eq!(
        scene.explain(Query::ExplainJob(first))[0].to_string(),
        "of 0.00056 core-hours that each user has on here, tasks of ada have taken 0.00056, and those that are there may take 0 \
         more: no more of them begin (user_core_hours)"
    );
    let said: Vec<String> = scene.explain(Query::ExplainJob(first)).iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|line| line.contains("there is paused")), "{said:?}");
    assert!(!said.iter().any(|line| line.contains("no pilot is there")), "{said:?}");
    let other = scene.submit(JobRequest { user: "bob".into(), ..job(1) });
    assert_eq!(scene.take(pilot), [(other.0, "0".into())], "who has not");
    scene.done(pilot, other, "0");
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 1, limits: PlatformLimits::default() });
    assert!(!scene.take(pilot).is_empty(), "without a budget");
}

#[test]
fn what_is_held_counts_against_a_users_budget_with_what_it_may_take() {
    let mut scene = Scene::new();
    let limits =
        PlatformLimits { user_core_time_max: Some(Span::from_secs(5 * HOUR)), ..PlatformLimits::default() };
    let spec = PlatformSpec { capacity: Resources::cores(1), ..limited(limits) };
    scene.attach(spec.clone());
    let long = || TaskNeeds { time_limit: Some(Span::from_secs(2 * HOUR / 3)), ..job(1).needs };
    let first = scene.submit(JobRequest { needs: long(), ..job(100) });
    let asked = scene.submissions();
    assert_eq!(asked.len(), 7, "five hours for tasks of 40 minutes each");
    let node = || NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
    let pilots: Vec<PilotId> = asked.iter().map(|(_, tag)| scene.register(tag, node())).collect();
    let n_given: usize = pilots.iter().map(|pilot| scene.take(*pilot).len()).sum();
    assert_eq!(n_given, 7);
    scene.attach(PlatformSpec { n_pilots_min: 8, ..spec });
    let (_, tag) = scene.submissions().remove(0);
    let extra = scene.register(&tag, node());
    assert_eq!(scene.pull(extra, parked()), None, "an eighth may take too much");
    let waits = RequestId(scene.n_requests);
    scene.done(pilots[0], first, "0");
    assert!(is_served(&scene, waits), "now they are known to be brief");
}

#[test]
fn who_waits_is_served_when_a_users_budget_is_raised() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    let limits = PlatformLimits { user_core_time_max: Some(Span::ZERO), ..PlatformLimits::default() };
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 1, limits });
    scene.submit(job(1));
    assert_eq!(scene.pull(pilot, parked()), None);
    let waits = RequestId(scene.n_requests);
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 1, limits: PlatformLimits::default() });
    assert!(is_served(&scene, waits));
}

#[test]
fn nobody_waits_behind_who_may_begin_nothing() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    let user_core_time_max = Some(Span::from_secs(1));
    let limits = PlatformLimits { user_core_time_max, ..PlatformLimits::default() };
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 1, limits });
    let spent = scene.submit(job(9));
    scene.take(pilot);
    scene.done(pilot, spent, "0");
    let bobs = scene.submit(JobRequest { user: "bob".into(), ..job(9) });
    scene.take(pilot);
    let why = scene.explain(Query::ExplainJob(bobs));
    assert!(!why.iter().any(|reason| matches!(reason, Reason::BehindJob { .. })), "{why:?}");
}

#[test]
fn a_budget_smaller_than_a_task_lets_the_first_begin() {
    let mut scene = Scene::new();
    let limits = PlatformLimits { user_core_time_max: Some(Span(1)), ..PlatformLimits::default() };
    scene.attach(limited(limits));
    scene.submit(job(100));
    assert_eq!(scene.n_asked(), 1);
}

#[test]
fn no_pilots_are_asked_for_on_behalf_of_who_may_begin_nothing() {
    let mut scene = Scene::new();
    let limits = PlatformLimits { user_core_time_max: Some(Span::ZERO), ..PlatformLimits::default() };
    scene.attach(limited(limits));
    scene.submit(job(100));
    assert_eq!(scene.n_asked(), 0);
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 2, limits: PlatformLimits::default() });
    assert_eq!(scene.n_asked(), 2);
}

#[test]
fn a_platform_that_was_taken_away_is_asked_for_nothing_until_it_is_attached_again() {
    let mut scene = Scene::new();
    scene.attach(platform(2, 1));
    scene.set_mode(PlatformMode::Detached);
    let resume = PlatformChange::Mode(PlatformMode::Active);
    assert_eq!(scene.change_platform(resume), Some(Answer::Refused(Refusal::Detached("here".into()))));
    let job_id = scene.submit(job(2));
    scene.wait(60);
    assert_eq!(scene.n_asked(), 0);
    assert_eq!(scene.explain(Query::ExplainJob(job_id))[0], Reason::NoPlatform);
    scene.attach(platform(2, 1));
    assert_eq!(scene.n_asked(), 2);
    let detach = PlatformChange::Mode(PlatformMode::Detached);
    let in_use = Refusal::InUse { platform: "here".into(), n_pilots: 2 };
    assert_eq!(scene.change_platform(detach), Some(Answer::Refused(in_use)));
}

#[test]
fn failures_count_against_the_budget_too_and_cores_are_multiplied() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(2);
    let wide = JobRequest {
        needs: TaskNeeds { resources: Resources::cores(2), ..job(1).needs },
        retries: 5,
        ..job(1)
    };
    let job_id = scene.submit(wide);
    scene.take(pilot);
    let usage = Usage { started_us: 1, wall_us: 3 * SECOND, cpu_us: 1, memory_bytes: 1 };
    let failures = vec![Failure { index: 0, kind: FailureKind::Exit { code: 1 }, usage }];
    scene.report(pilot, JobReport { failures, ..JobReport::new(job_id) });
    let used = scene.engine.durable().used(PlatformId(1)).cloned().unwrap_or_default();
    assert_eq!(used.into_iter().collect::<Vec<_>>(), [("ada".to_owned(), Span::from_secs(6))]);
}
