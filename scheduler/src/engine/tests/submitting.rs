//! Submissions whose answer was never heard, and may still be on their way when nobody wants them any more; and what
//! was accepted and brings no pilot.

use super::*;
use crate::ids::AllocationId;

fn cancel(scene: &mut Scene, allocation: AllocationId) {
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
}

/// Whether the allocation counts against the platform's limits.
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
        // What waits may wait; what runs is waited for from when that was seen.
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
