//! Listings that lack an allocation: from a cache, after an error that is not reported, or correct ones.

use super::*;
use crate::ids::{AllocationId, PlatformId};

/// Returns a remote batch system that is asked every two seconds.
fn elsewhere(n_pilots_max: u32) -> PlatformSpec {
    PlatformSpec {
        submits_late: true,
        poll_interval: Span::from_secs(2),
        idle_timeout: Span::from_secs(3600),
        ..platform(n_pilots_max, 1)
    }
}

/// Returns a platform with one allocation, accepted for a task, and its tag.
fn accepted() -> (Scene, String) {
    let mut scene = Scene::new();
    scene.attach(elsewhere(1));
    scene.submit(job(1));
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    (scene, tag)
}

fn held(scene: &Scene) -> &crate::engine::state::allocation::Allocation {
    &scene.engine.durable().allocations()[&AllocationId(1)]
}

/// Sends listings of these tags, two seconds apart, for this many seconds.
fn listed_for(scene: &mut Scene, seconds: u64, tags: &[&str]) {
    for _ in 0..seconds / 2 {
        scene.wait_awake(2);
        scene.listed(tags);
    }
}

/// Sends a present listing that shows an allocation as ended.
fn listed_as_ended(scene: &mut Scene, tag: &str) {
    let (tag, batch_id) = (tag.to_owned(), "b1".to_owned());
    let entry = ListedAllocation { tag, batch_id, is_ended: true, ..ListedAllocation::default() };
    let (asked_at, result) = (scene.now, Ok(vec![entry]));
    scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
}

#[test]
fn an_accepted_allocation_that_no_listing_has_shown_counts_as_there_for_a_minute() {
    let (mut scene, tag) = accepted();
    listed_for(&mut scene, 58, &[]);
    assert!(held(&scene).is_live(), "listings may come from a cache");
    assert_eq!((scene.n_asked(), scene.cancelled().len()), (0, 0));
    let pilot = scene.register(&tag, NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() });
    assert_eq!(scene.take(pilot).len(), 1);
    assert_eq!(scene.engine.durable().allocations().len(), 1);
}

#[test]
fn an_accepted_allocation_that_is_never_shown_is_gone_after_a_minute_and_cancelled_once() {
    let (mut scene, _) = accepted();
    let mut cancelled = Vec::new();
    for _ in 0..60 {
        scene.wait_awake(2);
        scene.listed(&[]);
        cancelled.extend(scene.cancelled());
    }
    assert!(!held(&scene).may_be_there());
    assert_eq!(cancelled, ["b1"]);
    let ended_at = held(&scene).ended_at.expect("it has ended");
    let after = ended_at.since(held(&scene).submitted_at.expect("it was accepted"));
    assert!((60..70).contains(&(after.0 / SECOND)), "{after}");
}

#[test]
fn an_allocation_that_the_platform_shows_as_ended_is_gone_at_once_and_not_cancelled() {
    let (mut scene, tag) = accepted();
    scene.wait_awake(4);
    listed_as_ended(&mut scene, &tag);
    assert!(!held(&scene).may_be_there());
    assert_eq!(scene.cancelled().len(), 0);
    // Nor can its pilot register any more.
    let registration = Box::new(Registration {
        tag,
        nonce: 7,
        node: NodeFacts::default(),
        uptime: Span::ZERO,
        predecessor: None,
    });
    let answer = scene.say(|request| Event::PilotRegistered { request, registration });
    assert!(matches!(answer, Some(Answer::Refused(Refusal::NoAllocation(_)))), "{answer:?}");
}

#[test]
fn one_listing_that_lacks_what_waited_ends_nothing() {
    let (mut scene, tag) = accepted();
    listed_for(&mut scene, 200, &[&tag]);
    for _ in 0..20 {
        // Every second listing fails without an error.
        listed_for(&mut scene, 2, &[]);
        listed_for(&mut scene, 2, &[&tag]);
    }
    assert!(held(&scene).is_live());
    listed_for(&mut scene, 4, &[]);
    assert!(!held(&scene).may_be_there(), "two listings in a row lacked it");
    assert_eq!(scene.cancelled(), ["b1"]);
}

#[test]
fn on_this_host_one_listing_that_lacks_an_allocation_ends_it() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { submits_late: false, ..elsewhere(1) });
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    scene.answered(allocation);
    listed_for(&mut scene, 4, &[]);
    assert!(!held(&scene).may_be_there());
    assert_eq!(scene.cancelled().len(), 0, "its process number may be another one's");
}

#[test]
fn what_was_cancelled_before_a_listing_showed_it_counts_toward_limits_for_a_minute() {
    let (mut scene, _) = accepted();
    let allocation = AllocationId(1);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    listed_for(&mut scene, 58, &[]);
    assert!(held(&scene).may_be_there(), "the cancellation may have been lost");
    listed_for(&mut scene, 6, &[]);
    assert!(!held(&scene).may_be_there());
}

#[test]
fn a_pilot_of_an_allocation_that_listings_lacked_is_taken_and_one_too_many_is_withdrawn() {
    let (mut scene, tag) = accepted();
    listed_for(&mut scene, 90, &[]);
    assert!(!held(&scene).may_be_there());
    let another = scene.engine.durable().allocations().last_key_value().map(|(id, _)| *id).expect("one");
    assert_eq!(another, AllocationId(2), "another one is asked for");
    scene.answered(another);
    let pilot = scene.register(&tag, NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() });
    assert!(held(&scene).is_live() && held(&scene).ended_at.is_none());
    assert_eq!(held(&scene).batch_id.as_deref(), Some("b1"));
    assert_eq!(scene.cancelled(), ["b2"], "no more than may be there");
    assert_eq!(scene.take(pilot).len(), 1, "it has the task");
    // A manager that restarts on the same store has the same state.
    scene.restart();
    assert!(held(&scene).is_live());
}

#[test]
fn a_pilot_of_an_allocation_that_was_cancelled_is_not_taken() {
    let (mut scene, tag) = accepted();
    let allocation = AllocationId(1);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    listed_for(&mut scene, 90, &[]);
    assert!(!held(&scene).may_be_there());
    let (node, uptime) = (NodeFacts::default(), Span::ZERO);
    let registration = Box::new(Registration { tag, nonce: 7, node, uptime, predecessor: None });
    let answer = scene.say(|request| Event::PilotRegistered { request, registration });
    assert!(matches!(answer, Some(Answer::Refused(Refusal::NoAllocation(_)))), "{answer:?}");
}
