//! Ends of batch jobs that count toward `crash_limit`, listings to be compared, and held batch jobs.

use super::{
    limits::{HOUR, limited},
    *,
};
use crate::{
    engine::interface::{ListedAllocation, PlatformLimits},
    ids::{AllocationId, PlatformId},
    pull::LeaveReason,
};

/// Returns a pilot with one core on the platform `here` that has a task, and its allocation.
fn pilot_with_work(scene: &mut Scene) -> (PilotId, AllocationId) {
    let n = scene.engine.durable().pilots().len();
    let capacity = Resources::cores(1);
    let pilot = scene.pilot_on(NodeFacts { hostname: format!("n{n}"), capacity, ..NodeFacts::default() });
    assert_eq!(scene.take(pilot).len(), 1, "it has a task");
    (pilot, scene.engine.durable().pilots()[&pilot].allocation)
}

fn tag_of(scene: &Scene, allocation: AllocationId) -> String {
    scene.engine.durable().allocations()[&allocation].tag.clone()
}

/// Sends a later listing that shows only the allocation, as ended, with these words if any.
pub(super) fn listed_as_ended(scene: &mut Scene, allocation: AllocationId, words: Option<&str>) {
    scene.wait_awake(20);
    let ended = ListedAllocation {
        tag: tag_of(scene, allocation),
        batch_id: "b".into(),
        is_ended: true,
        reason: words.map(str::to_owned),
        ..ListedAllocation::default()
    };
    let (asked_at, result) = (scene.now, Ok(vec![ended]));
    scene.now = scene.now + Span::from_millis(10);
    scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
}

/// Returns how often a task's batch job, killed with all processes, ends in these words until the task is
/// quarantined.
fn n_killed_until_set_aside(words: &str, n_max: usize) -> usize {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 5, ..job(1) });
    for n in 1..=n_max {
        let (pilot, allocation) = pilot_with_work(&mut scene);
        // If pilots end as soon as they come, the next ones are requested at growing intervals.
        for _ in 0..4 {
            scene.now = scene.now + Span::from_secs(20);
            scene.pull(pilot, Pull { running: vec![(job, set("0"))], ..hungry() });
        }
        listed_as_ended(&mut scene, allocation, Some(words));
        if scene.counts(job).contains("f1") {
            return n;
        }
    }
    n_max + 1
}

#[test]
fn batch_jobs_that_somebody_cancelled_set_a_task_aside_much_later() {
    assert_eq!(n_killed_until_set_aside("OUT_OF_MEMORY", 30), 5);
    assert_eq!(n_killed_until_set_aside("CANCELLED by 0", 30), 20, "a site's memory killer may do that");
    assert_eq!(n_killed_until_set_aside("PREEMPTED", 30), 31, "the platform wanted its nodes");
}

#[test]
fn why_a_batch_job_ended_is_told_by_its_pilot() {
    let mut scene = Scene::new();
    scene.submit(job(1));
    let (pilot, allocation) = pilot_with_work(&mut scene);
    listed_as_ended(&mut scene, allocation, Some("NODE_FAIL"));
    let (_, why) = scene.engine.durable().pilots()[&pilot].ended.clone().expect("it is gone");
    assert_eq!(why, "its platform says that it has ended: NODE_FAIL");
}

/// Ends the batch job of a pilot that runs a task: the task ends by the signal, and the pilot leaves.
fn is_ended(scene: &mut Scene, pilot: PilotId, job: JobId, index: u64) {
    scene.fail(pilot, job, index, FailureKind::Preempted);
    let reason = LeaveReason::Signalled;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
}

#[test]
fn a_task_that_one_more_end_may_set_aside_waits_until_the_last_end_is_told() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 2, ..job(1) });
    for n in 1..=3 {
        let (pilot, allocation) = pilot_with_work(&mut scene);
        is_ended(&mut scene, pilot, job, 0);
        let why = scene.explain(Query::ExplainTask(TaskId { job, index: 0 }));
        assert!(why[0].to_string().contains("when the platform has said why it ended"), "{}", why[0]);
        listed_as_ended(&mut scene, allocation, Some("CANCELLED by 0"));
        assert!(scene.counts(job).contains("f0"), "end {n} of an innocent task");
    }
    let (pilot, _) = pilot_with_work(&mut scene);
    is_ended(&mut scene, pilot, job, 0);
    scene.wait_awake(61);
    assert!(scene.counts(job).contains("f0"));
    pilot_with_work(&mut scene);
}

#[test]
fn ends_that_hit_jobs_of_others_too_count_less() {
    let n_until_set_aside = |is_other_hit: bool| {
        let mut scene = Scene::new();
        let ours = scene.submit(JobRequest { crash_limit: 2, ..job(1) });
        let other = scene.submit(JobRequest { crash_limit: 100, ..job(1) });
        for n in 1..=20 {
            let pilots = [scene.pilot(1), scene.pilot(1)];
            let all_taken = pilots.map(|pilot| (pilot, scene.take(pilot)));
            for (pilot, taken) in all_taken {
                let of = |job: JobId| taken.iter().any(|(taken, _)| *taken == job.0);
                if of(other) && is_other_hit {
                    is_ended(&mut scene, pilot, other, 0);
                } else if of(other) {
                    let reason = LeaveReason::Told;
                    scene.say(|request| Event::PilotLeft {
                        request,
                        pilot,
                        session_nonce: None,
                        report: None,
                        reason,
                    });
                } else if of(ours) {
                    is_ended(&mut scene, pilot, ours, 0);
                }
            }
            if scene.counts(ours).contains("f1") {
                return n;
            }
            scene.wait_awake(200);
        }
        21
    };
    assert_eq!(n_until_set_aside(false), 2);
    let n = n_until_set_aside(true);
    assert!((3..=8).contains(&n), "the platform ends them whatever runs, but not for ever: {n}");
}

#[test]
fn a_listing_is_asked_with_the_ids_of_all_that_may_be_there() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { n_pilots_min: 2, ..limited(PlatformLimits::default()) });
    let asked = scene.submissions();
    let accepted = |scene: &mut Scene, n: usize, id: &str| {
        let (allocation, outcome) = (asked[n].0, SubmitOutcome::Accepted(id.to_owned()));
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    };
    accepted(&mut scene, 0, "1001;hpc2");
    accepted(&mut scene, 1, "1002;hpc2");
    let known = |scene: &mut Scene| {
        for _ in 0..20 {
            scene.wait(5);
            let asked = scene.effects.iter().find_map(|effect| match effect {
                Effect::List { known, .. } => {
                    Some(known.iter().map(|known| known.batch_id.clone()).collect::<Vec<String>>())
                }
                _ => None,
            });
            if let Some(known) = asked {
                return known;
            }
        }
        panic!("no listing is asked for");
    };
    assert_eq!(known(&mut scene), ["1001;hpc2", "1002;hpc2"]);
    // Another manager uses the same store.
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.attach(PlatformSpec { n_pilots_min: 2, ..limited(PlatformLimits::default()) });
    assert_eq!(known(&mut scene), ["1001;hpc2", "1002;hpc2"]);
}

/// Sends a listing that shows allocations with these tags and the reasons why they wait.
fn listed_in_words(scene: &mut Scene, waiting: &[(String, &str)]) {
    let entry = |(tag, words): &(String, &str)| ListedAllocation {
        tag: tag.clone(),
        batch_id: format!("b{tag}"),
        trouble: Some((*words).to_owned()),
        ..ListedAllocation::default()
    };
    let (asked_at, result) = (scene.now, Ok(waiting.iter().map(entry).collect()));
    scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
}

#[test]
fn an_allocation_that_is_held_for_long_is_replaced_once_and_counts_toward_limits() {
    let mut scene = Scene::new();
    let spec = PlatformSpec {
        n_pilots_max: 4,
        idle_timeout: Span::from_secs(HOUR),
        ..limited(PlatformLimits::default())
    };
    scene.attach(spec);
    scene.submit(job(2));
    let (first, tag) = scene.submissions().remove(0);
    assert_eq!(scene.n_asked(), 1, "one pilot has room for both");
    scene.answered(first);
    let mut waiting = vec![(tag, "JobHeldAdmin")];
    let mut asked = Vec::new();
    for minute in 0..40 {
        listed_in_words(&mut scene, &waiting);
        for (allocation, tag) in scene.submissions() {
            asked.push(minute);
            scene.answered(allocation);
            waiting.push((tag, "JobHeldAdmin"));
        }
        scene.wait(60);
        for (allocation, tag) in scene.submissions() {
            asked.push(minute);
            scene.answered(allocation);
            waiting.push((tag, "JobHeldAdmin"));
        }
    }
    assert_eq!(asked.len(), 1, "one in its place; as that is held too, no more are asked for: {asked:?}");
    assert!((9..=11).contains(&asked[0]), "{asked:?}");
    let allocation_counts = scene.engine.durable().allocation_counts(PlatformId(1));
    assert_eq!((allocation_counts.n_there, allocation_counts.n_queued), (2, 2), "both are there, and count");
    let view = |scene: &mut Scene| match scene
        .say(|request| Event::Asked { request, query: Query::Allocations { with_ended: false } })
    {
        Some(Answer::Allocations(views)) => views[0].queue_reason.clone().and_then(|reason| reason.advice),
        other => panic!("{other:?}"),
    };
    let advice = view(&mut scene).unwrap_or_default();
    assert!(advice.starts_with("it has been held for ten minutes and counts toward limits only"), "{advice}");
}

/// Ends twenty batch jobs early, one after the other, each with a task that succeeds in the next one, and
/// lets `pause` pass. Then another task has all its batch jobs ended: returns their number until it is
/// quarantined.
fn n_ends_until_set_aside_after_innocent_ones(pause: Span) -> usize {
    let mut scene = Scene::new();
    for _ in 0..20 {
        let innocent = scene.submit(JobRequest { crash_limit: 100, ..job(1) });
        let (pilot, _) = pilot_with_work(&mut scene);
        is_ended(&mut scene, pilot, innocent, 0);
        scene.wait_awake(200);
        let (pilot, _) = pilot_with_work(&mut scene);
        scene.done(pilot, innocent, "0");
        let reason = LeaveReason::Told;
        scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
        scene.wait_awake(200);
    }
    scene.now = scene.now + pause;
    scene.say(|_| Event::TimerFired);
    let guilty = scene.submit(JobRequest { crash_limit: 2, ..job(1) });
    for n in 1..=40 {
        let (pilot, _) = pilot_with_work(&mut scene);
        is_ended(&mut scene, pilot, guilty, 0);
        if scene.counts(guilty).contains("f1") {
            return n;
        }
        scene.wait_awake(200);
    }
    41
}

#[test]
fn ends_that_were_no_tasks_fault_make_others_count_less_for_a_day() {
    assert_eq!(n_ends_until_set_aside_after_innocent_ones(Span::ZERO), 16, "eight count as one");
    assert_eq!(n_ends_until_set_aside_after_innocent_ones(Span::from_secs(2 * 24 * HOUR)), 2);
}

#[test]
fn what_a_batch_system_does_not_say_of_an_end_is_explained_with_what_to_do() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 2, ..job(1) });
    for _ in 0..2 {
        let (pilot, _) = pilot_with_work(&mut scene);
        scene.pull(pilot, Pull { running: vec![(job, set("0"))], ..hungry() });
        scene.wait_awake(20);
        let (asked_at, result) = (scene.now, Ok(Vec::new()));
        scene.now = scene.now + Span::from_millis(10);
        scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
    }
    assert_eq!(scene.counts(job), "failed w0 p0 d0 f1 c0");
    let reasons = scene.explain(Query::ExplainTask(crate::ids::TaskId { job, index: 0 }));
    let text = reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(text.contains("does not say who or what ended it"), "{text}");
    assert!(text.contains("pilotfish retry-failed"), "{text}");
}
