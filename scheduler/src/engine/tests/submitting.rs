//! Submissions whose answers were lost, or that may be under way when they are no longer wanted; and accepted
//! allocations without a pilot.

use super::*;
use crate::{engine::interface::KnownAllocation, ids::AllocationId};

fn cancel(scene: &mut Scene, allocation: AllocationId) {
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
}

/// Returns whether the allocation counts toward the platform's limits.
fn may_be_there(scene: &Scene, allocation: AllocationId) -> bool {
    scene.engine.durable().allocations()[&allocation].may_be_there()
}

#[test]
fn what_is_cancelled_counts_until_its_submission_must_be_over() {
    for (is_restarted, is_unknown) in [(true, false), (true, true), (false, true), (false, false)] {
        let mut scene = Scene::new();
        let spec = PlatformSpec { submits_late: true, ..platform(1, 1) };
        scene.attach(spec.clone());
        scene.submit(job(1));
        let (allocation, _) = scene.submissions().remove(0);
        if is_unknown {
            let outcome = SubmitOutcome::Unknown("connection closed".into());
            scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        }
        if is_restarted {
            scene.now = scene.now + Span::from_secs(1);
            scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
            scene.attach(spec);
        }
        let limit = Settings::default().submit_limit;
        let (began, lag) = (scene.now, Span::from_secs(5));
        cancel(&mut scene, allocation);
        scene.now = began + limit + Span(lag.0 - SECOND);
        scene.listed(&[]);
        assert!(may_be_there(&scene, allocation), "restarted {is_restarted}, unknown {is_unknown}");
        scene.now = began + limit + Span(lag.0 + SECOND);
        scene.listed(&[]);
        assert!(!may_be_there(&scene, allocation), "restarted {is_restarted}, unknown {is_unknown}");
    }
}

#[test]
fn what_was_given_up_late_may_be_on_its_way_for_as_long_as_what_was_given_up_at_once() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    scene.wait(50);
    let given_up = scene.now;
    let outcome = SubmitOutcome::Unknown("no answer in time".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    let limit = Settings::default().submit_limit;
    for (seconds, expected) in [(4, true), (6, false)] {
        scene.now = given_up + limit + Span::from_secs(seconds);
        scene.listed(&[]);
        assert_eq!(may_be_there(&scene, allocation), expected, "{seconds}");
    }
}

#[test]
fn an_allocation_that_runs_and_brings_no_pilot_is_taken_away() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 2));
    scene.submit(job(2));
    scene.answered(AllocationId(1));
    let tag = scene.engine.durable().allocations()[&AllocationId(1)].tag.clone();
    for is_running in [false, true] {
        // A queued allocation may wait; the join limit counts from when it is first seen running.
        scene.listed_as(&[&tag], is_running);
        scene.wait_awake(1700);
        scene.listed_as(&[&tag], is_running);
        assert!(scene.engine.durable().allocations()[&AllocationId(1)].is_live());
    }
    scene.wait_awake(200);
    scene.effects.clear();
    scene.listed_as(&[&tag], true);
    let cancelled =
        |effect: &Effect| matches!(effect, Effect::Cancel { batch_ids, .. } if batch_ids[..] == ["b1"]);
    assert!(scene.effects.iter().any(cancelled), "{:?}", scene.effects);
    assert!(!scene.engine.durable().allocations()[&AllocationId(1)].is_live());
    assert!(scene.why().contains("no pilot came"), "{}", scene.why());
}

/// Returns the number of listings that the engine requested in its last step.
fn n_lists(scene: &Scene) -> usize {
    scene.effects.iter().filter(|effect| matches!(effect, Effect::List { .. })).count()
}

/// Returns the ids that the engine wants to be cancelled.
fn cancelled(scene: &Scene) -> Vec<String> {
    let ids = scene.effects.iter().filter_map(|effect| match effect {
        Effect::Cancel { batch_ids, .. } => Some(batch_ids.clone()),
        _ => None,
    });
    ids.flatten().collect()
}

#[test]
fn a_platform_where_nothing_should_be_is_looked_at_once_in_a_life_and_rarely_after_that() {
    for submits_late in [true, false] {
        let mut scene = Scene::new();
        let spec = PlatformSpec { submits_late, ..platform(1, 1) };
        for life in 2..4 {
            scene.engine = Engine::restore(Settings::default(), life, scene.now, scene.records.clone());
            scene.attach(spec.clone());
            assert_eq!(n_lists(&scene), usize::from(submits_late), "in each life");
            // The allocation is unknown: its answer came after all those that were pending.
            let tag = format!("{}77", Settings::default().tag_prefix());
            scene.listed(&[&tag]);
            assert_eq!(cancelled(&scene).len(), 1, "nobody wants it");
            let end = scene.now + Span::from_secs(1830);
            let mut n_looks = 0;
            while let Some(due) = scene.engine.next_wakeup().filter(|due| *due < end) {
                scene.now = due;
                scene.say(|_| Event::TimerFired);
                n_looks += n_lists(&scene);
            }
            assert_eq!(n_looks, if submits_late { 3 } else { 0 }, "every ten minutes");
        }
    }
}

#[test]
fn a_platform_that_did_not_say_what_is_there_is_asked_again_sooner() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { submits_late: true, ..platform(1, 1) });
    let result = Err("it is away".to_owned());
    let asked_at = scene.now;
    scene.say(|_| Event::PlatformListed { platform: crate::ids::PlatformId(1), asked_at, result });
    scene.wait_awake(59);
    assert_eq!(n_lists(&scene), 0);
    scene.wait_awake(2);
    assert_eq!(n_lists(&scene), 1);
}

#[test]
fn where_a_join_token_serves_once_only_its_pilot_comes_again() {
    for joins_once in [true, false] {
        let mut scene = Scene::new();
        let spec = PlatformSpec { joins_once, ..platform(1, 1) };
        scene.attach(spec.clone());
        scene.submit(job(1));
        let tag = scene.submissions().remove(0).1;
        scene.answered(AllocationId(1));
        let pilot = scene.register(&tag, NodeFacts::default());
        for is_restarted in [false, true] {
            if is_restarted {
                scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
                scene.attach(spec.clone());
            }
            assert_eq!(scene.register(&tag, NodeFacts::default()), pilot, "its session was void");
        }
        let stranger = Registration {
            tag: tag.clone(),
            nonce: 99,
            node: NodeFacts::default(),
            uptime: Span::ZERO,
            predecessor: Some(1),
        };
        let said = scene.say(|request| Event::PilotRegistered { request, registration: Box::new(stranger) });
        match joins_once {
            true => assert_eq!(said, Some(Answer::Refused(Refusal::JoinedBefore(tag)))),
            false => assert!(matches!(said, Some(Answer::Registered(new)) if new.pilot != pilot)),
        }
        assert_eq!(scene.engine.durable().pilots()[&pilot].is_live(), joins_once);
    }
}

#[test]
fn a_listing_is_told_the_ids_and_tags_of_all_that_may_be_there() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    scene.submit(job(3));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 3);
    let known = |scene: &mut Scene| {
        scene.wait(5);
        let known = scene.effects.iter().find_map(|effect| match effect {
            Effect::List { known, .. } => Some(known.clone()),
            _ => None,
        });
        let known = known.expect("a listing is due");
        let is_past =
            |known: &KnownAllocation| known.asked_for_at <= known.known_at && known.known_at <= scene.now;
        assert!(known.iter().all(is_past), "{known:?}");
        known.into_iter().map(|known| (known.batch_id, known.tag)).collect::<Vec<_>>()
    };
    assert_eq!(known(&mut scene), [], "no answer has come");
    scene.answered(asked[2].0);
    scene.answered(asked[0].0);
    let of = |n: usize| (format!("b{}", asked[n].0), asked[n].1.clone());
    assert_eq!(known(&mut scene), [of(0), of(2)], "the newest is the last");
    // A cancelled allocation may still be there.
    cancel(&mut scene, asked[0].0);
    assert_eq!(known(&mut scene), [of(0), of(2)]);
    scene.wait(1);
    scene.listed(&[&asked[2].1]);
    assert_eq!(known(&mut scene), [of(2)], "what is gone is not looked for: its id may be another job's");
}
