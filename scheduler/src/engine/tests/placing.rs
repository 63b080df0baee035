//! The layer `placement`: the platforms that get requests for allocations.

use std::collections::BTreeMap;

use super::*;
use crate::{
    engine::interface::declared_profile::Declared,
    ids::PlatformId,
    policy::{Policies, placement::pilots::PilotPlacement},
    pull::LeaveReason,
};

/// The names of platforms, each with the queue wait in seconds of the one allocation that was there.
const PLATFORMS: [(&str, u64); 2] = [("quick", 10), ("queue", 600)];

/// Returns [`PLATFORMS`] with room for `n_rooms` pilots of one core; a task takes ten seconds.
fn placing(placement: Option<PilotPlacement>, n_rooms: [u32; 2]) -> Scene {
    let mut scene = Scene::new();
    scene.engine.settings.policies.distribution = None;
    for ((name, wait_s), n) in PLATFORMS.into_iter().zip(n_rooms) {
        let spec = PlatformSpec { name: name.into(), ..platform(n, 1) };
        scene.attach(PlatformSpec { n_pilots_min: 1, ..spec.clone() });
        let tag = accept_all(&mut scene).remove(0);
        scene.now = scene.now + Span::from_secs(wait_s);
        let node = NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
        let pilot = scene.register(&tag, node);
        scene.attach(spec);
        let reason = LeaveReason::Signalled;
        scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    }
    scene.now = scene.now + Span::from_secs(60);
    let asked_at = scene.now;
    for platform in [PlatformId(1), PlatformId(2)] {
        scene.say(|_| Event::PlatformListed { platform, asked_at, result: Ok(vec![]) });
    }
    let times = PLATFORMS.iter().map(|(name, _)| ((*name).to_owned(), Span::from_secs(10)));
    let declared = Some(Box::new(Declared { times: times.collect(), ..Declared::default() }));
    scene.say(|request| Event::DeclareAsked { request, application: "test".into(), declared });
    scene.engine.settings.policies = Policies { placement, distribution: None, ..Policies::default() };
    scene
}

/// Accepts all requests and returns their tags.
fn accept_all(scene: &mut Scene) -> Vec<String> {
    let asked = scene.submissions();
    for (allocation, tag) in &asked {
        let outcome = SubmitOutcome::Accepted(tag.clone());
        let allocation = *allocation;
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    asked.into_iter().map(|(_, tag)| tag).collect()
}

/// Returns the number of allocations without a pilot, by platform.
fn asked(scene: &Scene) -> [usize; 2] {
    [PlatformId(1), PlatformId(2)].map(|id| scene.engine.durable().allocation_counts(id).n_waiting)
}

#[test]
fn what_one_platform_will_do_is_not_asked_of_another_as_well() {
    for (placement, expected) in [
        (None, [4, 6]),
        (Some(PilotPlacement::FastestFirst), [4, 2]),
        (Some(PilotPlacement::BestFit), [4, 2]),
    ] {
        let mut scene = placing(placement, [4, 8]);
        scene.submit(job(6));
        assert_eq!(asked(&scene), expected, "{placement:?}");
    }
}

#[test]
fn what_would_come_too_late_is_not_asked_for() {
    let mut scene = placing(Some(PilotPlacement::Tla), [2, 2]);
    scene.submit(job(6));
    assert_eq!(asked(&scene), [2, 0], "after 40 s all is done");
    let mut scene = placing(Some(PilotPlacement::Tla), [2, 2]);
    scene.submit(job(1000));
    assert_eq!(asked(&scene), [2, 2], "the queue is over long before 5,000 s");
}

#[test]
fn who_is_the_only_one_for_some_is_asked_whatever_others_will_do() {
    for placement in [PilotPlacement::FastestFirst, PilotPlacement::BestFit, PilotPlacement::Tla] {
        let mut scene = placing(Some(placement), [2, 2]);
        let wide = PlatformSpec { name: "wide".into(), ..platform(2, 4) };
        scene.attach(wide);
        scene.submit(job(6));
        let busy = accept_all(&mut scene);
        assert!(!busy.is_empty(), "{placement:?}");
        let needs = TaskNeeds { resources: Resources::cores(3), ..job(1).needs };
        let n_before = scene.engine.durable().allocation_counts(PlatformId(3)).n_waiting;
        scene.submit(JobRequest { needs, ..job(2) });
        let n_wide = scene.engine.durable().allocation_counts(PlatformId(3)).n_waiting;
        assert_eq!(n_wide, 2, "{placement:?}: {n_before} were there for anything");
    }
}

#[test]
fn tasks_that_took_no_time_are_placed_too() {
    for placement in [PilotPlacement::FastestFirst, PilotPlacement::BestFit, PilotPlacement::Tla] {
        let mut scene = placing(Some(placement), [2, 2]);
        let times = PLATFORMS.iter().map(|(name, _)| ((*name).to_owned(), Span::ZERO));
        let declared = Some(Box::new(Declared { times: times.collect(), ..Declared::default() }));
        scene.say(|request| Event::DeclareAsked { request, application: "test".into(), declared });
        scene.submit(job(1));
        assert_eq!(asked(&scene), [1, 0], "{placement:?}");
    }
}

#[test]
fn a_queue_that_does_not_move_is_left_for_another() {
    // The platform has room for some of the tasks, or for all.
    for n_room in [2, 6] {
        let mut scene = placing(Some(PilotPlacement::Tla), [n_room, 2]);
        scene.submit(job(6));
        accept_all(&mut scene);
        scene.wait_awake(500);
        assert_eq!(asked(&scene), [n_room as usize, 0]);
        // An allocation that has waited this long is expected to wait as long again.
        scene.wait_awake(300);
        assert_eq!(asked(&scene), [n_room as usize, 2]);
    }
    let mut scene = placing(Some(PilotPlacement::FastestFirst), [6, 2]);
    scene.submit(job(6));
    accept_all(&mut scene);
    scene.wait_awake(50);
    assert_eq!(asked(&scene), [6, 0]);
    scene.wait_awake(50);
    assert_eq!(asked(&scene), [6, 2]);
}

#[test]
fn what_nobody_knows_to_exist_is_not_counted_on() {
    for placement in [PilotPlacement::FastestFirst, PilotPlacement::Tla] {
        let mut scene = placing(Some(placement), [6, 2]);
        scene.submit(job(6));
        for (allocation, _) in scene.submissions() {
            let outcome = SubmitOutcome::Unknown("connection closed".into());
            scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        }
        scene.wait_awake(700);
        assert_eq!(asked(&scene), [6, 2], "{placement:?}");
    }
}

#[test]
fn pilots_that_never_come_free_are_not_waited_for() {
    let mut scene = placing(Some(PilotPlacement::Tla), [1, 2]);
    scene.submit(job(1));
    let tag = accept_all(&mut scene).remove(0);
    let node = NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
    let pilot = scene.register(&tag, node);
    // The task takes for ever, although ten seconds are expected.
    assert_eq!(scene.take(pilot).len(), 1);
    scene.submit(job(2));
    assert_eq!(asked(&scene), [0, 0], "in thirty seconds all is done, in ten minutes others come");
    for _ in 0..80 {
        scene.wait_awake(10);
        scene.take(pilot);
    }
    assert_eq!(asked(&scene), [0, 2]);
}

#[test]
fn what_is_asked_of_a_platform_is_known_before_it_is_attached_again() {
    let mut scene = placing(Some(PilotPlacement::FastestFirst), [4, 4]);
    scene.submit(job(6));
    accept_all(&mut scene);
    assert_eq!(asked(&scene), [4, 2]);
    let settings = scene.engine.settings;
    scene.engine = Engine::restore(settings, 2, scene.now, scene.records.clone());
    for name in ["queue", "quick"] {
        scene.attach(PlatformSpec { name: name.into(), ..platform(4, 1) });
    }
    assert_eq!(asked(&scene), [4, 2]);
}

#[test]
fn what_was_asked_of_a_platform_that_is_configured_no_more_is_asked_of_others() {
    let mut scene = placing(Some(PilotPlacement::FastestFirst), [4, 4]);
    scene.submit(job(6));
    accept_all(&mut scene);
    assert_eq!(asked(&scene), [4, 2]);
    // Another manager's configuration has only the first platform.
    let settings = Settings { grace: Span::from_secs(5), ..scene.engine.settings };
    scene.engine = Engine::restore(settings, 2, scene.now, scene.records.clone());
    scene.attach(PlatformSpec { name: "quick".into(), ..platform(9, 1) });
    assert_eq!(asked(&scene), [4, 2], "the other may be attached in a moment");
    scene.wait_awake(6);
    assert_eq!(asked(&scene), [6, 2]);
}

#[test]
fn other_policies_look_at_all_platforms() {
    let mut scene = placing(Some(PilotPlacement::Tla), [2, 2]);
    scene.submit(job(6));
    assert_eq!(asked(&scene), [2, 0]);
    let before = scene.engine.settings.policies;
    let policies = Policies { placement: None, ..before };
    scene.say(|request| Event::PoliciesAsked { request, by: "olga".into(), before, policies });
    assert_eq!(asked(&scene), [2, 2]);
}

#[test]
fn all_platforms_are_told_with_what_they_would_be_good_for() {
    let mut scene = placing(Some(PilotPlacement::Tla), [2, 2]);
    scene.submit(job(6));
    let told: BTreeMap<String, (Span, u64, Option<Span>)> = scene
        .explain(Query::ExplainPlatform("queue".into()))
        .into_iter()
        .filter_map(|reason| match reason {
            Reason::PlacedWith { platform, wait, n_waits, mean_end, .. } => {
                Some((platform, (wait, n_waits, mean_end)))
            }
            _ => None,
        })
        .collect();
    let about = |platform: &str| (told[platform].0.0 / SECOND, told[platform].1);
    assert_eq!((about("quick"), about("queue")), ((9, 1), (599, 1)), "{told:?}");
    // A third pilot helps on the first platform; on the second it changes nothing.
    assert!(told["quick"].2 < told["queue"].2, "{told:?}");
}

#[test]
fn nobody_is_asked_for_what_idle_pilots_take() {
    // No pilot is idle for three of the tasks. Without a policy: two on each platform; fastest first: one
    // more than the first has room for; TLA: that one would come too late.
    for (placement, expected) in
        [(None, 4), (Some(PilotPlacement::FastestFirst), 3), (Some(PilotPlacement::Tla), 2)]
    {
        let mut scene = placing(None, [4, 4]);
        scene.submit(job(2));
        let tags = accept_all(&mut scene);
        let node = NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
        let pilots: Vec<PilotId> = tags.iter().map(|tag| scene.register(tag, node.clone())).collect();
        for pilot in &pilots {
            for (job, tasks) in scene.take(*pilot) {
                scene.done(*pilot, JobId(job), &tasks);
            }
        }
        let n_before = scene.engine.durable().allocations().len();
        scene.engine.settings.policies.placement = placement;
        for pilot in pilots {
            assert!(scene.pull(pilot, Pull { wait: Span::from_secs(100), ..hungry() }).is_none());
        }
        scene.submit(job(3));
        assert_eq!(scene.engine.durable().allocations().len(), n_before, "{placement:?}");
        scene.submit(job(3));
        let n_asked = scene.engine.durable().allocations().len() - n_before;
        assert_eq!(n_asked, expected, "{placement:?}");
    }
}

#[test]
fn how_long_allocations_wait_is_forgotten_with_their_shape() {
    let mut scene = placing(None, [2, 2]);
    let mean_s = |scene: &Scene, id: u64| scene.engine.durable().waits(PlatformId(id)).mean_s();
    assert_eq!(mean_s(&scene, 2).map(f64::round), Some(600.0));
    scene.attach(PlatformSpec {
        name: "queue".into(),
        walltime: Some(Span::from_secs(7200)),
        ..platform(2, 1)
    });
    assert_eq!((mean_s(&scene, 1).map(f64::round), mean_s(&scene, 2)), (Some(10.0), None));
}

impl Scene {
    /// Reports the platform's queue load, as if requested.
    fn loaded(&mut self, platform: u64, load: QueueLoad) {
        self.say(|_| Event::PlatformLoaded { platform: PlatformId(platform), load });
    }
}

#[test]
fn allocations_go_where_cores_are_free_whatever_was_waited_for_before() {
    // Earlier queue waits favour `quick`, but by the reported loads `queue` is free and `quick` is full.
    let free = QueueLoad { free_cores: 10, cores: 10, n_waiting: 0, waiting_cores: 0 };
    let full = QueueLoad { free_cores: 0, cores: 10, n_waiting: 40, waiting_cores: 400 };
    for (loads, expected) in [(None, [2, 0]), (Some([full, free]), [0, 2]), (Some([free, full]), [2, 0])] {
        let mut scene = placing(Some(PilotPlacement::Tla), [2, 2]);
        for name in ["quick", "queue"] {
            let walltime = Some(Span::from_secs(3600));
            scene.attach(PlatformSpec { name: name.into(), walltime, ..platform(2, 1) });
        }
        for (platform, load) in [1, 2].into_iter().zip(loads.into_iter().flatten()) {
            scene.loaded(platform, load);
        }
        let id = scene.submit(job(2));
        // Both have a new shape without measurements: if they report no load, they are equal.
        assert_eq!(asked(&scene), expected, "{loads:?}");
        let wanted = if expected[0] > 0 { PlatformId(1) } else { PlatformId(2) };
        let all = scene.engine.durable().allocations();
        let (asked_for, held) = all.iter().rfind(|(_, held)| held.platform == wanted).expect("one");
        let because = held.because.as_deref().expect("it is written down");
        assert_eq!((because.load.is_some(), because.n_wanted), (loads.is_some(), 2));
        let with = &because.compared.as_ref().expect("a policy compared").with;
        assert_eq!(with.len(), 2, "{with:?}");
        let told = scene.explain(Query::ExplainAllocation(*asked_for));
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        let says = |words: &str| told.iter().any(|line| line.contains(words));
        assert!(says("2 more were wanted there") && says("by placement (tla)"), "{told:#?}");
        assert_eq!(says("10 of its 10 cores are free, 0 jobs wait for 0"), loads.is_some(), "{told:#?}");
        scene.change(id, JobChange::Cancel(None));
    }
}

#[test]
fn how_long_allocations_wait_is_learned_by_their_shape() {
    let mut scene = placing(Some(PilotPlacement::Tla), [2, 2]);
    let n_known = |scene: &Scene| scene.engine.durable().waits(PlatformId(1)).n;
    let spec = |n_cores| PlatformSpec { name: "quick".into(), ..platform(2, n_cores) };
    assert_eq!(n_known(&scene), 1);
    scene.attach(spec(4));
    assert_eq!(n_known(&scene), 0, "of such nothing is known");
    scene.attach(spec(1));
    assert_eq!(n_known(&scene), 1, "of those of before it still is");
}

#[test]
fn platforms_are_asked_how_busy_they_are_where_that_decides_something() {
    let n_asked = |scene: &Scene| scene.effects.iter().filter(|e| matches!(e, Effect::Load { .. })).count();
    for (placement, expected) in [(None, 0), (Some(PilotPlacement::Tla), 2)] {
        let mut scene = placing(placement, [2, 2]);
        scene.submit(job(2));
        assert_eq!(n_asked(&scene), expected, "{placement:?}");
    }
}
