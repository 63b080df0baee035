//! Pilots that end before they have done anything: their platform gets new requests at growing intervals.

use super::{limits::limited, *};
use crate::{engine::interface::PlatformLimits, pull::LeaveReason};

/// Returns a platform with room for ten pilots, and work for all of them.
fn busy() -> (Scene, JobId) {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { poll_interval: Span::from_secs(1), ..limited(PlatformLimits::default()) });
    let job = scene.submit(job(100));
    assert_eq!(scene.n_asked(), 10);
    (scene, job)
}

/// Registers the pilots of all present requests.
fn come(scene: &mut Scene) -> Vec<PilotId> {
    let asked = scene.submissions();
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    asked.iter().map(|(_, tag)| scene.register(tag, node.clone())).collect()
}

/// Lets the pilots vanish after `seconds`; a listing then shows nothing. Returns the number of new requests,
/// or the seconds until the next one (`Err`).
fn vanish_after(scene: &mut Scene, seconds: u64) -> Result<usize, u64> {
    scene.wait_awake(seconds);
    scene.listed(&[]);
    asked_for(scene)
}

fn asked_for(scene: &mut Scene) -> Result<usize, u64> {
    let (start, n) = (scene.now, scene.n_asked());
    if n > 0 {
        return Ok(n);
    }
    until_asked(scene);
    assert_eq!(scene.n_asked(), 1, "one tells whether they last again");
    Err(scene.now.since(start).0 / SECOND)
}

fn until_asked(scene: &mut Scene) {
    let end = scene.now + Span::from_secs(600);
    while scene.n_asked() == 0 {
        let due = scene.engine.next_wakeup().filter(|due| *due <= end);
        scene.now = due.unwrap_or_else(|| panic!("not asked again: {}", scene.why())).max(scene.now);
        scene.say(|_| Event::TimerFired);
    }
}

#[test]
fn pilots_that_vanish_as_soon_as_they_come_are_replaced_one_at_a_time_and_ever_later() {
    let (mut scene, _) = busy();
    let mut waits = Vec::new();
    for _ in 0..12 {
        come(&mut scene);
        waits.push(vanish_after(&mut scene, 3));
        if waits.len() == 2 {
            let platform = scene.engine.live.platforms.values().next().expect("one");
            let why = platform.last_failure.clone().unwrap_or_default();
            assert!(why.contains("end before they have done anything"), "{why}");
        }
    }
    // The first pilots may have been killed by a person.
    let later = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(Err);
    assert_eq!(waits, [&[Ok(10)][..], &later].concat());
}

#[test]
fn pilots_that_are_signalled_as_soon_as_they_come_are_replaced_ever_later() {
    let (mut scene, _) = busy();
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let pilots = come(&mut scene);
        assert!(!pilots.is_empty());
        scene.wait_awake(3);
        for pilot in pilots {
            let reason = LeaveReason::Signalled;
            let left =
                |request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason };
            scene.say(left);
        }
        let platform = scene.engine.live.platforms.values().next().expect("one");
        pauses.push(platform.blocked_until.since(scene.now).0 / SECOND);
        scene.now = scene.now + Span::from_secs(9);
        scene.listed(&[]);
    }
    assert_eq!(pauses, [0, 1, 2, 4]);
}

#[test]
fn pilots_that_did_something_or_lasted_for_a_minute_are_replaced_at_once() {
    let (mut scene, job) = busy();
    for index in 0..5 {
        let pilots = come(&mut scene);
        scene.take(pilots[0]);
        scene.done(pilots[0], job, &index.to_string());
        let asked = vanish_after(&mut scene, 3);
        assert!(matches!(asked, Ok(2..)), "{asked:?}: {}", scene.why());
    }
    for _ in 0..5 {
        come(&mut scene);
        scene.wait_awake(58);
        let of_live = scene.engine.durable().pilots().iter().filter(|(_, pilot)| pilot.is_live());
        let live: Vec<PilotId> = of_live.map(|(id, _)| *id).collect();
        for pilot in live {
            scene.pull(pilot, Pull { is_hungry: false, ..hungry() });
        }
        let asked = vanish_after(&mut scene, 3);
        assert!(matches!(asked, Ok(2..)), "{asked:?}: {}", scene.why());
    }
}

#[test]
fn a_pilot_that_lasts_for_a_minute_lets_the_others_come() {
    let (mut scene, _) = busy();
    for _ in 0..4 {
        come(&mut scene);
        let _ = vanish_after(&mut scene, 3);
    }
    let pilot = come(&mut scene)[0];
    scene.take(pilot);
    assert_eq!(scene.n_asked(), 0, "it may end at once as well");
    let start = scene.now;
    // The pilot speaks every ten seconds.
    let mut speaks_at = start;
    while scene.n_asked() == 0 && scene.now.since(start) < Span::from_secs(90) {
        let due = scene.engine.next_wakeup().filter(|due| *due < speaks_at);
        scene.now = due.unwrap_or(speaks_at).max(scene.now);
        if due.is_some() {
            scene.say(|_| Event::TimerFired);
        } else {
            scene.pull(pilot, Pull { is_hungry: false, ..hungry() });
            speaks_at = scene.now + Span::from_secs(10);
        }
    }
    assert!(
        (60..65).contains(&(scene.now.since(start).0 / SECOND)),
        "{}: {}",
        scene.now.since(start),
        scene.why()
    );
    assert_eq!(scene.n_asked(), 9, "{}", scene.why());
}

#[test]
fn a_platform_that_ends_pilots_is_not_asked_for_the_rest_of_a_budget_beside_the_one_that_is_tried() {
    // Pilots of two cores that live an hour use two core-hours each; 1.5 are left for a shorter one.
    let limits =
        PlatformLimits { core_time_max: Some(Span::from_secs(7 * 3600 / 2)), ..PlatformLimits::default() };
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { poll_interval: Span::from_secs(1), ..limited(limits) });
    scene.submit(job(100));
    let mut asked = Vec::new();
    for _ in 0..4 {
        if scene.n_asked() == 0 {
            until_asked(&mut scene);
        }
        let mut tags = Vec::new();
        while let Some((allocation, tag)) = scene.submissions().pop() {
            tags.push(tag);
            scene.answered(allocation);
        }
        asked.push(tags.len());
        for tag in tags {
            scene.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
        }
        scene.wait_awake(3);
        scene.listed(&[]);
    }
    // The first pilots may have been killed by a person.
    assert_eq!(asked, [2, 2, 1, 1], "{}", scene.why());
}
