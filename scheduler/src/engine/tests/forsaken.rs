//! Allocations whose platform has another backend or host than at their request, and stores that are only
//! read.

use super::*;
use crate::{
    engine::interface::views::AllocationView,
    ids::{AllocationId, PlatformId},
    pull::LeaveReason,
};

/// Returns a batch system at that host.
fn slurm_at(host: &str) -> PlatformSpec {
    PlatformSpec {
        adapter: "slurm".into(),
        site: Some(host.to_owned()),
        submits_late: true,
        poll_interval: Span::from_secs(2),
        idle_timeout: Span::from_secs(3600),
        ..platform(2, 1)
    }
}

/// Returns two allocations that wait in the batch system of host `one`, by tag.
fn two_wait() -> (Scene, Vec<String>) {
    let mut scene = Scene::new();
    scene.attach(slurm_at("one"));
    scene.submit(job(2));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 2);
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    let tags: Vec<String> = asked.into_iter().map(|(_, tag)| tag).collect();
    listed(&mut scene, &tags);
    (scene, tags)
}

fn listed(scene: &mut Scene, tags: &[String]) {
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    scene.wait_awake(2);
    scene.listed(&tags);
}

/// Continues with another manager and this platform, and accepts its requests. Returns the ids cancelled
/// meanwhile.
fn goes_on_with(scene: &mut Scene, spec: PlatformSpec) -> Vec<String> {
    scene.restart();
    scene.attach(spec);
    let mut cancelled = Vec::new();
    for _ in 0..150 {
        cancelled.extend(cancelled_within(scene, 4));
        let allocations = scene.engine.durable().allocations().iter();
        let new = allocations.filter(|(id, held)| id.0 > 2 && held.is_live());
        let new: Vec<(AllocationId, String)> = new.map(|(id, held)| (*id, held.tag.clone())).collect();
        for (allocation, _) in &new {
            if scene.engine.durable().allocations()[allocation].batch_id.is_none() {
                scene.answered(*allocation);
            }
        }
        scene.listed(&new.iter().map(|(_, tag)| tag.as_str()).collect::<Vec<_>>());
        cancelled.extend(scene.cancelled());
    }
    cancelled
}

/// Returns the ids that are cancelled while time passes.
fn cancelled_within(scene: &mut Scene, seconds: u64) -> Vec<String> {
    let (end, mut cancelled) = (scene.now + Span::from_secs(seconds), Vec::new());
    while let Some(due) = scene.engine.next_wakeup().filter(|due| *due <= end) {
        scene.now = scene.now.max(due);
        scene.say(|_| Event::TimerFired);
        cancelled.extend(scene.cancelled());
    }
    scene.now = end;
    cancelled
}

fn view(scene: &mut Scene, id: u64) -> AllocationView {
    let query = Query::Allocation(AllocationId(id));
    match scene.say(|request| Event::Asked { request, query }) {
        Some(Answer::Allocation(view)) => *view,
        other => panic!("{other:?}"),
    }
}

fn cancel(scene: &mut Scene, id: u64) -> Option<Answer> {
    let allocation = AllocationId(id);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false })
}

#[test]
fn allocations_of_another_adapter_or_host_are_neither_ended_nor_cancelled_by_the_new_one() {
    let local = PlatformSpec { adapter: "local".into(), site: Some(String::new()), ..slurm_at("") };
    for (other, said) in [(local, "local now"), (slurm_at("two"), "slurm at two now")] {
        let (mut scene, _) = two_wait();
        let cancelled = goes_on_with(&mut scene, other);
        assert_eq!(cancelled, Vec::<String>::new());
        for id in [1, 2] {
            let shown = view(&mut scene, id);
            let why = shown.why.unwrap_or_default();
            assert_eq!(shown.state, "queued", "{why}");
            assert!(why.contains("asked of slurm at one") && why.contains(said), "{why}");
        }
        // New requests have all places of the platform.
        assert_eq!(scene.engine.durable().allocations().len(), 4);
        assert_eq!(scene.engine.durable().allocation_counts(PlatformId(1)).n_there, 2);
        // The shutdown does not wait for the old allocations, and reports them.
        let answer = scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
        let Some(Answer::ShutDown(left)) = answer else { panic!("{answer:?}") };
        assert_eq!(scene.cancelled(), ["b3", "b4"]);
        assert_eq!((left.len(), left[0].batch_jobs.clone()), (1, vec!["b1".to_owned(), "b2".to_owned()]));
        let Some(Answer::Allocation(dropped)) = cancel(&mut scene, 1) else { panic!("it is dropped") };
        assert!(dropped.why.is_some_and(|why| why.contains("is another one now")));
        assert_eq!(scene.cancelled(), Vec::<String>::new());
    }
}

#[test]
fn allocations_are_the_platforms_own_again_when_it_is_what_it_was() {
    let (mut scene, tags) = two_wait();
    goes_on_with(&mut scene, slurm_at("two"));
    scene.restart();
    scene.attach(slurm_at("one"));
    assert_eq!(view(&mut scene, 1).why, None);
    listed(&mut scene, &tags[1..]);
    listed(&mut scene, &tags[1..]);
    assert_eq!((view(&mut scene, 1).state.as_str(), view(&mut scene, 2).state.as_str()), ("ended", "queued"));
}

#[test]
fn a_host_that_shows_an_allocation_by_its_tag_has_it() {
    let (mut scene, tags) = two_wait();
    cancel(&mut scene, 2);
    scene.restart();
    scene.attach(slurm_at("login-2-of-the-same"));
    assert!(view(&mut scene, 1).why.is_some(), "it is not known to be the same");
    listed(&mut scene, &tags);
    assert_eq!(scene.cancelled(), [format!("b{}", tags[1])]);
    assert_eq!(view(&mut scene, 1).why, None);
    let pilot = scene.register(&tags[0], NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() });
    let reason = LeaveReason::Told;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    for _ in 0..40 {
        listed(&mut scene, &[]);
    }
    assert_eq!((view(&mut scene, 1).state.as_str(), view(&mut scene, 2).state.as_str()), ("ended", "ended"));
}

#[test]
fn a_pilot_of_an_allocation_that_was_left_behind_works_and_is_not_cancelled_when_it_is_lost() {
    let (mut scene, tags) = two_wait();
    scene.restart();
    scene.attach(slurm_at("two"));
    // Until then, tasks are withheld for pilots from before the restart.
    scene.wait_awake(70);
    let pilot = scene.register(&tags[0], NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() });
    assert_eq!(scene.take(pilot).len(), 1);
    assert_eq!(cancelled_within(&mut scene, 80), Vec::<String>::new(), "b1 may be another job at two");
    assert!(!scene.engine.durable().pilots()[&pilot].is_live(), "it is silent");
    assert_eq!(view(&mut scene, 1).state, "leaving");
}

#[test]
fn what_was_left_behind_is_told_once_in_a_managers_life() {
    let (mut scene, _) = two_wait();
    let told = |scene: &Scene| {
        let notices = scene.effects.iter().filter_map(|effect| match effect {
            Effect::Notify(Notice::LeftBehind { batch_jobs, asked_of, .. }) => {
                Some((asked_of.clone(), batch_jobs.clone()))
            }
            _ => None,
        });
        notices.collect::<Vec<_>>()
    };
    scene.restart();
    scene.attach(slurm_at("two"));
    assert_eq!(told(&scene), [("slurm at one".to_owned(), vec!["b1".to_owned(), "b2".to_owned()])]);
    scene.attach(PlatformSpec { n_pilots_max: 3, ..slurm_at("two") });
    assert_eq!(told(&scene), []);
}

#[test]
fn records_of_before_sites_were_kept_are_those_of_the_site_that_is_configured_first() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { site: None, ..slurm_at("") });
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    scene.answered(allocation);
    for (host, is_own) in [("one", true), ("two", false), ("one", true)] {
        scene.restart();
        scene.attach(slurm_at(host));
        assert_eq!(view(&mut scene, 1).why.is_none(), is_own, "{host}");
    }
}

#[test]
fn a_store_that_is_only_read_says_nothing_of_the_configuration() {
    let (mut scene, _) = two_wait();
    let settings = Settings { only_reads: true, ..Settings::default() };
    scene.engine = Engine::restore(settings, 1, scene.now, scene.records.clone());
    let why = view(&mut scene, 1).why.unwrap_or_default();
    assert_eq!(why, "no manager runs, so nobody looks whether it is there");
}
