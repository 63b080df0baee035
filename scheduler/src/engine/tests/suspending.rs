//! Suspended allocations, and allocations of platforms that are not attached.

use super::*;
use crate::{
    engine::interface::ListedAllocation,
    ids::{AllocationId, PlatformId},
    pull::{Held, Holdings},
};

/// Returns a job of four tasks; a pilot of one core on the first allocation runs task 0.
fn at_work() -> (Scene, JobId, PilotId, String) {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { n_pilots_max: 1, submits_late: true, ..platform(1, 1) });
    let id = scene.submit(JobRequest { crash_limit: 1, ..job(4) });
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    let node = NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
    let pilot = scene.register(&tag, node);
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    scene.pull(pilot, Pull { running: vec![(id, set("0"))], ..hungry() });
    (scene, id, pilot, tag)
}

/// Sends listings for this many seconds that show the allocation as suspended or as running.
fn listed_for(scene: &mut Scene, seconds: u64, tag: &str, is_suspended: bool) {
    for _ in 0..seconds / 5 {
        scene.wait_awake(5);
        let entry = ListedAllocation {
            tag: tag.to_owned(),
            batch_id: "b1".into(),
            is_running: !is_suspended,
            is_suspended,
            ..ListedAllocation::default()
        };
        let (asked_at, result) = (scene.now, Ok(vec![entry]));
        scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
    }
}

fn state(scene: &mut Scene) -> String {
    let query = Query::Allocation(AllocationId(1));
    match scene.say(|request| Event::Asked { request, query }) {
        Some(Answer::Allocation(view)) => view.state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_suspended_pilot_is_shown_as_that_and_is_no_tasks_fault_and_comes_back() {
    let (mut scene, id, pilot, tag) = at_work();
    listed_for(&mut scene, 20, &tag, true);
    assert_eq!(state(&mut scene), "suspended");
    let reasons = scene.explain(Query::ExplainPilot(pilot));
    assert!(matches!(reasons[0], Reason::PilotSuspended { .. }), "{reasons:?}");
    let words = scene.explain(Query::ExplainAllocation(AllocationId(1)))[0].to_string();
    assert!(words.contains("suspended it"), "{words}");
    listed_for(&mut scene, 200, &tag, true);
    assert!(!scene.engine.durable().pilots()[&pilot].is_live(), "its tasks go elsewhere");
    assert_eq!(scene.counts(id), "active w4 p0 d0 f0 c0", "with a crash limit of one, too");
    assert!(scene.engine.durable().jobs()[&id].troubled.is_empty());
    assert_eq!(state(&mut scene), "suspended", "it is not cancelled");
    assert_eq!(scene.cancelled(), [""; 0]);
    assert_eq!(scene.engine.durable().allocation_counts(PlatformId(1)).n_there, 1, "it counts toward limits");
    // The allocation is resumed, and its pilot comes back with the task.
    listed_for(&mut scene, 20, &tag, false);
    let asked = scene.pull(pilot, hungry()).and_then(|answer| answer.resync).expect("it is asked");
    let held = Held { job: id, running: set("0"), queued: TaskSet::new(), unreported: TaskSet::new() };
    let holds = Some(Holdings { asked, tasks: vec![held], templates: vec![] });
    scene.pull(pilot, Pull { holds, is_hungry: false, ..hungry() });
    listed_for(&mut scene, 50, &tag, false);
    assert_eq!(state(&mut scene), "running");
    assert_eq!(bundles(&scene.done(pilot, id, "0")), [(1, "1".into())]);
}

#[test]
fn an_allocation_that_is_resumed_and_whose_pilot_does_not_speak_is_cancelled() {
    let (mut scene, _, pilot, tag) = at_work();
    listed_for(&mut scene, 200, &tag, true);
    assert!(!scene.engine.durable().pilots()[&pilot].is_live());
    let mut cancelled = Vec::new();
    for _ in 0..40 {
        listed_for(&mut scene, 5, &tag, false);
        cancelled.extend(scene.cancelled());
    }
    assert!(cancelled.contains(&"b1".to_owned()), "{cancelled:?}");
    assert_eq!(state(&mut scene), "leaving");
}

#[test]
fn a_suspended_allocation_that_ends_is_gone() {
    let (mut scene, _, _, tag) = at_work();
    listed_for(&mut scene, 200, &tag, true);
    for _ in 0..4 {
        scene.wait_awake(5);
        scene.listed(&[]);
    }
    assert_eq!(state(&mut scene), "ended");
    assert!(scene.engine.live.suspended.is_empty());
}

#[test]
fn an_allocation_of_a_platform_that_is_configured_no_more_is_said_to_be_that_and_can_be_dropped() {
    let (mut scene, _, pilot, _) = at_work();
    let reason = crate::pull::LeaveReason::Told;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    assert_eq!(state(&mut scene), "leaving");
    let cancel = |scene: &mut Scene| {
        let allocation = AllocationId(1);
        scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false })
    };
    assert!(matches!(cancel(&mut scene), Some(Answer::Refused(_))), "its platform is asked for it");
    // Another manager's configuration no longer has the platform.
    scene.restart();
    scene.wait_awake(600);
    assert_eq!(state(&mut scene), "leaving");
    let words = scene.explain(Query::ExplainAllocation(AllocationId(1)))[0].to_string();
    assert!(words.contains("not in the manager's configuration"), "{words}");
    let Some(Answer::Allocation(view)) = cancel(&mut scene) else { panic!("it is dropped") };
    assert_eq!(view.state, "ended");
    assert!(view.why.is_some_and(|why| why.contains("its batch job may be there still")));
    assert_eq!(scene.engine.durable().allocation_counts(PlatformId(1)).n_there, 0);
    assert!(!scene.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. })));
}
