//! Failing platforms are asked for one allocation at a time, until one of these shows that they work again;
//! and withdrawn requests that were not sent yet.

use super::{limits::limited, *};
use crate::{
    engine::interface::PlatformLimits,
    ids::{AllocationId, PlatformId},
    policy::placement::pilots::PilotPlacement,
    pull::LeaveReason,
};

/// Returns a platform with room and work for ten pilots, and the ten requests.
pub(super) fn asked_for_ten() -> (Scene, Vec<(AllocationId, String)>) {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { poll_interval: Span::from_secs(1), ..limited(PlatformLimits::default()) });
    scene.submit(job(100));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 10);
    (scene, asked)
}

/// Returns the next requests, and the seconds until then.
fn next_asked(scene: &mut Scene) -> (Vec<(AllocationId, String)>, u64) {
    let (start, end) = (scene.now, scene.now + Span::from_secs(1000));
    while scene.n_asked() == 0 {
        let due = scene.engine.next_wakeup().filter(|due| *due <= end);
        scene.now = due.unwrap_or_else(|| panic!("not asked again: {}", scene.why())).max(scene.now);
        scene.say(|_| Event::TimerFired);
    }
    (scene.submissions(), scene.now.since(start).0 / SECOND)
}

/// Returns the number of requests while time passes.
fn n_asked_within(scene: &mut Scene, seconds: u64) -> usize {
    let end = scene.now + Span::from_secs(seconds);
    let mut n = scene.n_asked();
    while let Some(due) = scene.engine.next_wakeup().filter(|due| *due <= end) {
        scene.now = scene.now.max(due);
        scene.say(|_| Event::TimerFired);
        n += scene.n_asked();
    }
    scene.now = end;
    n
}

fn refused(scene: &mut Scene, allocation: AllocationId) {
    let outcome = SubmitOutcome::Refused("no".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
}

fn two_cores() -> NodeFacts {
    NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() }
}

#[test]
fn while_accepted_jobs_end_at_once_one_is_asked_for_after_the_other() {
    let (mut scene, asked) = asked_for_ten();
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    let mut waits = Vec::new();
    for _ in 0..5 {
        scene.wait_awake(3);
        scene.listed(&[]);
        let (asked, waited) = next_asked(&mut scene);
        assert_eq!(asked.len(), 1, "{}", scene.why());
        waits.push(waited);
        scene.answered(asked[0].0);
        // Acceptance is no proof: all earlier ones were accepted, too.
        let tag = asked[0].1.clone();
        assert_eq!(n_asked_within(&mut scene, 20), 0);
        scene.listed(&[&tag]);
        assert_eq!(n_asked_within(&mut scene, 5), 0, "it may begin at any moment");
    }
    assert_eq!(waits, [1, 2, 4, 8, 16]);
    let (_, waiting) = scene.engine.durable().allocations().last_key_value().expect("one");
    let tag = waiting.tag.clone();
    scene.register(&tag, two_cores());
    assert_eq!(n_asked_within(&mut scene, 1), 9, "a pilot came: {}", scene.why());
}

#[test]
fn beside_a_job_that_waits_in_a_long_queue_others_are_asked_for() {
    for placement in [None, Some(PilotPlacement::FastestFirst)] {
        let (mut scene, asked) = asked_for_ten();
        scene.engine.settings.policies.placement = placement;
        asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
        scene.wait_awake(3);
        scene.listed(&[]);
        let (asked, _) = next_asked(&mut scene);
        scene.answered(asked[0].0);
        assert_eq!(n_asked_within(&mut scene, 40), 0, "{placement:?}");
        scene.listed(&[&asked[0].1]);
        assert_eq!(n_asked_within(&mut scene, 0), 9, "{placement:?}: {}", scene.why());
    }
}

#[test]
fn a_pilot_that_comes_after_a_failure_lets_others_be_asked_for() {
    let (mut scene, asked) = asked_for_ten();
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    scene.wait_awake(3);
    // Somebody has cancelled all but one.
    scene.listed(&[&asked[0].1]);
    let (probe, _) = next_asked(&mut scene);
    scene.answered(probe[0].0);
    assert_eq!(n_asked_within(&mut scene, 30), 0);
    scene.register(&asked[0].1, two_cores());
    assert!(n_asked_within(&mut scene, 1) > 0, "jobs begin there: {}", scene.why());
}

#[test]
fn a_platform_that_refused_is_asked_for_more_once_it_shows_what_it_has_accepted() {
    let (mut scene, asked) = asked_for_ten();
    asked.iter().for_each(|(allocation, _)| refused(&mut scene, *allocation));
    for waited in [1, 2, 4] {
        let (asked, after) = next_asked(&mut scene);
        assert_eq!((asked.len(), after), (1, waited));
        refused(&mut scene, asked[0].0);
    }
    let (asked, _) = next_asked(&mut scene);
    scene.answered(asked[0].0);
    assert_eq!(n_asked_within(&mut scene, 30), 0, "it may end at once");
    scene.listed(&[&asked[0].1]);
    assert_eq!(n_asked_within(&mut scene, 1), 9, "{}", scene.why());
}

/// Registers a pilot that takes tasks and works for `seconds`; then its batch job is ended, and the platform
/// reports it.
fn works_and_is_ended(scene: &mut Scene, tag: &str, seconds: u64, words: &str) {
    let pilot = scene.register(tag, two_cores());
    let taken = scene.take(pilot);
    assert!(!taken.is_empty(), "it has work");
    let end = scene.now + Span::from_secs(seconds);
    while scene.now < end {
        assert_eq!(n_asked_within(scene, 10), 0, "one at a time, however long it lives");
        scene.pull(pilot, Pull { is_hungry: false, ..hungry() });
    }
    for (job, tasks) in taken {
        set(&tasks).indices().for_each(|index| {
            scene.fail(pilot, JobId(job), index, FailureKind::Preempted);
        });
    }
    let reason = LeaveReason::Signalled;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    scene.wait_awake(20);
    let (tag, batch_id, reason) = (tag.to_owned(), "b".to_owned(), Some(words.to_owned()));
    let entry = ListedAllocation { tag, batch_id, is_ended: true, reason, ..ListedAllocation::default() };
    let (asked_at, result) = (scene.now, Ok(vec![entry]));
    scene.now = scene.now + Span::from_millis(10);
    scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
}

/// Returns a platform for one pilot with unknown walltime, and a job with tasks that take longer than its
/// queue allows.
fn without_walltime() -> (Scene, JobId) {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { idle_timeout: Span::from_secs(3600), ..platform(1, 2) });
    let job = scene.submit(JobRequest { crash_limit: 3, ..job(4) });
    (scene, job)
}

#[test]
fn jobs_whose_time_is_over_before_a_task_is_done_make_their_platform_fail() {
    let (mut scene, job) = without_walltime();
    let mut pauses = Vec::new();
    for n in 0..6 {
        let (asked, waited) = next_asked(&mut scene);
        pauses.push(waited);
        assert_eq!(asked.len(), 1);
        scene.answered(asked[0].0);
        works_and_is_ended(&mut scene, &asked[0].1, 200, "TIMEOUT (Exit_status = -29)");
        let state = scene.engine.live.platforms.values().next().expect("one");
        let told = state.last_failure.clone().unwrap_or_default();
        assert_eq!(told.contains("end of their time before a task is done"), n > 0, "{told}");
    }
    assert_eq!(pauses, [0, 0, 1, 2, 4, 8], "ever later");
    assert!(scene.counts(job).contains("f0"), "no task is blamed for it");
    let (asked, _) = next_asked(&mut scene);
    scene.answered(asked[0].0);
    let pilot = scene.register(&asked[0].1, two_cores());
    assert!(scene.why().contains("in a row"), "its coming is no proof: {}", scene.why());
    let taken = scene.take(pilot);
    scene.done(pilot, job, &taken[0].1);
    let state = scene.engine.live.platforms.values().next().expect("one");
    assert_eq!((state.n_failures, state.last_failure.as_deref()), (0, None));
}

#[test]
fn jobs_that_their_platform_preempts_as_soon_as_they_begin_make_it_fail_and_later_ones_do_not() {
    for (seconds, is_failure) in [(20, true), (200, false)] {
        let (mut scene, _) = without_walltime();
        for _ in 0..3 {
            let (asked, _) = next_asked(&mut scene);
            scene.answered(asked[0].0);
            works_and_is_ended(&mut scene, &asked[0].1, seconds, "PREEMPTED");
        }
        let state = scene.engine.live.platforms.values().next().expect("one");
        assert_eq!(state.n_failures > 0, is_failure, "after {seconds} s: {:?}", state.last_failure);
    }
}

fn withdrawn(scene: &Scene) -> Vec<AllocationId> {
    let withdrawn = scene.effects.iter().filter_map(|effect| match effect {
        Effect::Withdraw { allocations, .. } => Some(allocations.clone()),
        _ => None,
    });
    withdrawn.flatten().collect()
}

#[test]
fn what_was_not_asked_for_yet_is_taken_back_by_a_drain_a_stop_and_a_cancellation() {
    type Wish = fn(&mut Scene, AllocationId);
    let drain: Wish = |scene, _| scene.set_mode(PlatformMode::Draining);
    let stop: Wish = |scene, _| {
        scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
    };
    let cancel: Wish = |scene, allocation| {
        scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    };
    for (wish, n) in [(drain, 9), (stop, 9), (cancel, 1)] {
        let (mut scene, asked) = asked_for_ten();
        scene.answered(asked[0].0);
        wish(&mut scene, asked[1].0);
        let open = withdrawn(&scene);
        assert_eq!(open, asked[1..=n].iter().map(|(id, _)| *id).collect::<Vec<_>>());
        for allocation in open {
            scene.say(|_| Event::AllocationAnswered { allocation, outcome: SubmitOutcome::Withdrawn });
            assert!(!scene.engine.durable().allocations()[&allocation].may_be_there());
        }
        let state = scene.engine.live.platforms.values().next().expect("one");
        assert_eq!(state.n_failures, 0, "that is no failure of the platform");
    }
}

#[test]
fn a_manager_that_stops_has_ended_once_what_it_had_not_asked_for_is_taken_back() {
    let (mut scene, asked) = asked_for_ten();
    scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
    for (n, (allocation, _)) in asked.iter().enumerate() {
        let (allocation, outcome) = (*allocation, SubmitOutcome::Withdrawn);
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        let is_over = scene.effects.iter().any(|effect| {
            matches!(effect, Effect::Answer { answer: Answer::ShutDown(left), .. } if left.is_empty())
        });
        assert_eq!(is_over, n + 1 == asked.len());
    }
}
