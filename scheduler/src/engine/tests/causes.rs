//! Several failures of a platform at the same time with one cause count as one.

use super::{platform_failures::asked_for_ten, *};
use crate::{
    engine::interface::ListedAllocation,
    ids::{AllocationId, PlatformId},
};

/// Returns a platform that was asked for ten pilots at once and has accepted all requests.
fn with_ten() -> (Scene, Vec<(AllocationId, String)>) {
    let (mut scene, asked) = asked_for_ten();
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    scene.wait_awake(3);
    (scene, asked)
}

fn listed(scene: &mut Scene, entries: Vec<ListedAllocation>) {
    let (asked_at, result) = (scene.now, Ok(entries));
    scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
}

fn entry(tag: &str, words: Option<&str>) -> ListedAllocation {
    ListedAllocation {
        tag: tag.to_owned(),
        batch_id: format!("b{tag}"),
        trouble: words.map(str::to_owned),
        lacks_room: words.is_some(),
        is_ended: words.is_some(),
        ..ListedAllocation::default()
    }
}

/// Returns the time until the next request to the platform, within ten minutes of empty listings.
fn asked_again_after(scene: &mut Scene) -> Option<Span> {
    let (start, end) = (scene.now, scene.now + Span::from_secs(600));
    if scene.n_asked() > 0 {
        return Some(Span::ZERO);
    }
    while let Some(due) = scene.engine.next_wakeup().filter(|due| *due <= end) {
        scene.now = scene.now.max(due);
        scene.say(|_| Event::TimerFired);
        if scene.n_asked() > 0 {
            return Some(scene.now.since(start));
        }
    }
    None
}

#[test]
fn ten_servers_without_room_in_one_listing_are_one_failure() {
    let (mut scene, asked) = with_ten();
    let ended = asked.iter().map(|(_, tag)| entry(tag, Some("No valid host was found."))).collect();
    listed(&mut scene, ended);
    assert_eq!(asked_again_after(&mut scene), Some(Span::from_secs(10)), "{}", scene.why());
}

#[test]
fn ten_servers_without_room_in_ten_listings_are_one_failure() {
    let (mut scene, asked) = with_ten();
    for n in 0..asked.len() {
        let words = |at: usize| (at == n).then_some("No valid host was found.");
        let left = asked.iter().enumerate().skip(n);
        listed(&mut scene, left.map(|(at, (_, tag))| entry(tag, words(at))).collect());
        if n + 1 < asked.len() {
            scene.wait_awake(2);
        }
    }
    assert_eq!(asked_again_after(&mut scene), Some(Span::from_secs(10)), "{}", scene.why());
}

#[test]
fn ten_batch_jobs_that_end_unseen_in_one_listing_are_one_failure() {
    let (mut scene, _) = with_ten();
    listed(&mut scene, Vec::new());
    assert_eq!(asked_again_after(&mut scene), Some(Span::from_secs(1)), "{}", scene.why());
}

#[test]
fn an_outage_that_ten_submissions_meet_is_one_failure() {
    let outcomes: [fn() -> SubmitOutcome; 2] = [
        || SubmitOutcome::Refused("the server is down".into()),
        || SubmitOutcome::Unknown("no answer".into()),
    ];
    for outcome in outcomes {
        let (mut scene, asked) = asked_for_ten();
        for (allocation, _) in &asked {
            let (allocation, outcome) = (*allocation, outcome());
            scene.wait(3);
            scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        }
        let platform = &scene.engine.live.platforms[&PlatformId(1)];
        let failures = (platform.n_failures, platform.blocked_until.since(scene.now));
        assert_eq!(failures, (1, Span::from_secs(1)), "{}", scene.why());
    }
}

#[test]
fn what_is_asked_for_after_a_failure_and_fails_counts_by_itself() {
    let (mut scene, _) = with_ten();
    listed(&mut scene, Vec::new());
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(asked_again_after(&mut scene).map_or(0, |wait| wait.0 / SECOND));
        let (allocation, _) = scene.submissions().remove(0);
        let outcome = SubmitOutcome::Refused("the server is down".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    assert_eq!(waits, [1, 2, 4, 8]);
}
