//! Retries run elsewhere; pilots that fail tasks which others can run get few; tasks that end their batch
//! jobs.

use super::{ends::listed_as_ended, limits::HOUR, *};
use crate::{engine::record::DrainCause, ids::PlatformId, pull::LeaveReason};

/// Returns a pilot with one core on the platform of that name; platform ids count from 1.
pub(super) fn pilot_of(scene: &mut Scene, name: &str, hostname: &str) -> PilotId {
    let known = scene.engine.durable().platforms().values().find(|spec| spec.name == name);
    let n = known.map_or(0, |spec| spec.n_pilots_min) + 1;
    let spec = PlatformSpec {
        name: name.into(),
        n_pilots_min: n,
        idle_timeout: Span::from_secs(100 * HOUR),
        ..platform(n, 1)
    };
    scene.attach(spec);
    let (allocation, tag) = scene.submissions().pop().expect("a pilot is asked for");
    scene.answered(allocation);
    let hostname = hostname.to_owned();
    scene.register(&tag, NodeFacts { hostname, capacity: Resources::cores(1), ..NodeFacts::default() })
}

fn failed() -> FailureKind {
    FailureKind::Exit { code: 127 }
}

#[test]
fn a_retry_goes_to_another_platform_that_is_free() {
    let mut scene = Scene::new();
    let (bad, good) = (pilot_of(&mut scene, "bad", "a"), pilot_of(&mut scene, "good", "a"));
    let job = scene.submit(JobRequest { retries: 5, ..job(1) });
    assert_eq!(scene.take(bad), [(1, "0".into())]);
    assert_eq!(bundles(&scene.fail(bad, job, 0, failed())), [], "it does not come back at once");
    assert_eq!(scene.take(bad), []);
    let why = scene.explain(Query::ExplainTask(TaskId { job, index: 0 }));
    assert!(!matches!(why[0], Reason::RetriedElsewhere { .. }), "the other is free: {why:?}");
    assert_eq!(scene.take(good), [(1, "0".into())]);
    scene.done(good, job, "0");
    assert_eq!(scene.counts(job), "done w0 p0 d1 f0 c0");
}

#[test]
fn a_retry_goes_to_another_node_then_to_another_pilot_and_comes_back_when_there_is_none() {
    let mut scene = Scene::new();
    let first = pilot_of(&mut scene, "here", "a");
    let mate = pilot_of(&mut scene, "here", "a");
    let other = pilot_of(&mut scene, "here", "b");
    let job = scene.submit(JobRequest { retries: 5, ..job(1) });
    assert_eq!(scene.take(first), [(1, "0".into())]);
    scene.fail(first, job, 0, failed());
    assert_eq!((scene.take(first), scene.take(mate)), (vec![], vec![]), "another node can run it");
    assert_eq!(scene.take(other), [(1, "0".into())]);
    scene.fail(other, job, 0, failed());
    assert_eq!((scene.take(other), scene.take(first)), (vec![], vec![]), "another pilot can run it");
    assert_eq!(scene.take(mate), [(1, "0".into())]);
    let answer = scene.fail(mate, job, 0, failed());
    assert_eq!(bundles(&answer), [(1, "0".into())], "it has failed at all of them");
}

#[test]
fn a_retry_is_offered_to_the_pilot_that_failed_it_when_the_others_are_gone() {
    let mut scene = Scene::new();
    let (bad, good) = (pilot_of(&mut scene, "here", "a"), pilot_of(&mut scene, "here", "b"));
    let job = scene.submit(JobRequest { retries: 5, ..job(1) });
    scene.take(bad);
    scene.fail(bad, job, 0, failed());
    let waiting = RequestId(scene.n_requests + 1);
    assert_eq!(scene.pull(bad, parked()), None);
    let reason = LeaveReason::Signalled;
    let left = |request| Event::PilotLeft { request, pilot: good, session_nonce: None, report: None, reason };
    scene.say(left);
    let Some(Answer::Pull(answer)) = scene.answer_to(waiting) else { panic!("{:?}", scene.effects) };
    assert_eq!(bundles(&answer), [(1, "0".into())]);
}

#[test]
fn a_retry_waits_for_a_busy_pilot_for_ten_minutes_at_most() {
    let mut scene = Scene::new();
    let (bad, good) = (pilot_of(&mut scene, "bad", "a"), pilot_of(&mut scene, "good", "b"));
    let long = scene.submit(job(1));
    assert_eq!(scene.take(good), [(long.0, "0".into())]);
    let job = scene.submit(JobRequest { retries: 1, ..job(1) });
    scene.wait_awake(2);
    assert_eq!(scene.take(bad), [(job.0, "0".into())]);
    scene.fail(bad, job, 0, failed());
    let mut taken_after = None;
    for seconds in 0..700 {
        scene.wait_awake(1);
        scene.pull(good, Pull { running: vec![(long, set("0"))], ..hungry() });
        if seconds == 300 {
            let why = scene.explain(Query::ExplainTask(TaskId { job, index: 0 }));
            assert!(matches!(why[0], Reason::RetriedElsewhere { n_tasks: 1, .. }), "{why:?}");
        }
        if !scene.take(bad).is_empty() {
            taken_after = Some(seconds);
            break;
        }
    }
    assert!(taken_after.is_some_and(|seconds| (595..=610).contains(&seconds)), "{taken_after:?}");
    scene.fail(bad, job, 0, failed());
    assert_eq!(scene.counts(job), "failed w0 p0 d0 f1 c0");
}

#[test]
fn of_many_tasks_that_wait_for_another_platform_one_at_a_time_shows_whether_the_first_is_mended() {
    let mut scene = Scene::new();
    scene.engine.settings.policies.distribution = None;
    let (bad, good) = (pilot_of(&mut scene, "bad", "a"), pilot_of(&mut scene, "good", "b"));
    let long = scene.submit(job(1));
    assert_eq!(scene.take(good), [(long.0, "0".into())]);
    let job = scene.submit(JobRequest { retries: 3, ..job(5) });
    assert_eq!(scene.take(bad), [(job.0, "0".into())]);
    (0..5).for_each(|index| _ = scene.fail(bad, job, index, failed()));
    assert_eq!(scene.counts(job), "active w5 p0 d0 f0 c0");
    let mut n_tried = Vec::new();
    for second in 0..90 {
        scene.wait_awake(1);
        scene.pull(good, Pull { running: vec![(long, set("0"))], ..hungry() });
        let mut given = scene.take(bad);
        while let Some((_, tasks)) = given.first() {
            n_tried.push(second);
            // The pilot's node works again.
            given = bundles(&scene.done(bad, job, tasks));
        }
    }
    assert!(n_tried.first().is_some_and(|second| *second >= 58), "{n_tried:?}");
    assert_eq!(scene.counts(job), "done w0 p0 d5 f0 c0", "{n_tried:?}");
}

#[test]
fn where_a_task_failed_is_known_after_a_restart() {
    let mut scene = Scene::new();
    let (bad, good) = (pilot_of(&mut scene, "here", "a"), pilot_of(&mut scene, "here", "b"));
    let id = scene.submit(JobRequest { retries: 5, ..job(1) });
    scene.take(bad);
    scene.fail(bad, id, 0, failed());
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    for pilot in [bad, good] {
        let pull = |pull| Pull { epoch: 2, ..pull };
        let asked = scene.pull(pilot, pull(hungry())).and_then(|answer| answer.resync).expect("it is asked");
        let holds = Some(crate::pull::Holdings { asked, tasks: vec![], templates: vec![] });
        scene.pull(pilot, pull(Pull { part_seen: 0, holds, is_hungry: false, ..hungry() }));
    }
    let take = |scene: &mut Scene, pilot| {
        bundles(&scene.pull(pilot, Pull { epoch: 2, ..hungry() }).unwrap_or_default())
    };
    scene.pull(good, Pull { epoch: 2, is_hungry: true, ..Pull::default() });
    let good_has = scene.engine.durable().pilots()[&good].n_done;
    assert_eq!(good_has, 0);
    assert_eq!(take(&mut scene, bad), []);
}

#[test]
fn a_pilot_whose_programs_fail_while_others_succeed_gets_one_task_at_a_time_and_is_drained_when_that_is_proved()
 {
    let mut scene = Scene::new();
    let (bad, good) = (pilot_of(&mut scene, "here", "a"), pilot_of(&mut scene, "here", "b"));
    let job = scene.submit(JobRequest { retries: 3, ..job(1000) });
    scene.take(good);
    let mut given = scene.take(bad);
    let mut n_failed = 0;
    while let Some(index) = given.first().and_then(|(_, tasks)| set(tasks).first()) {
        given = bundles(&scene.fail(bad, job, index, failed()));
        n_failed += 1;
    }
    assert_eq!(n_failed, 10, "then it pauses");
    let why = scene.explain(Query::ExplainPilot(bad));
    assert_eq!(why[0], Reason::PilotDoubted { pilot: bad, n_failures: 10, next_in: Span::from_secs(1) });
    let view = |scene: &mut Scene| match scene
        .say(|request| Event::Asked { request, query: Query::Pilots { with_ended: false } })
    {
        Some(Answer::Pilots(views)) => views[0].clone(),
        other => panic!("{other:?}"),
    };
    let shown = view(&mut scene);
    assert_eq!((shown.error_rate, shown.node_error_rate), (Some(1.0), Some(1.0)));
    scene.wait_awake(1);
    assert_eq!(scene.take(bad).len(), 1, "one task to show that it is mended");
    // Tasks that failed there succeed elsewhere.
    for index in 0..=3 {
        if scene.engine.durable().jobs()[&job].troubled.contains_key(&index) || index == 0 {
            scene.done(good, job, &index.to_string());
        }
    }
    let drained = scene.engine.durable().pilots()[&bad].drain.clone();
    assert_eq!(drained, Some(DrainCause::BlackHole { n_failures: 10 }));
    assert_eq!(scene.engine.durable().pilots()[&good].drain, None);
    let next = pilot_of(&mut scene, "here", "a");
    assert_eq!(scene.take(next).len(), 1);
    assert!(matches!(scene.explain(Query::ExplainPilot(next))[0], Reason::PilotDoubted { .. }));
}

#[test]
fn a_program_that_fails_everywhere_makes_no_pilot_a_black_hole() {
    let mut scene = Scene::new();
    let pilots = [pilot_of(&mut scene, "here", "a"), pilot_of(&mut scene, "here", "b")];
    let job = scene.submit(job(100));
    let mut given = pilots.map(|pilot| (pilot, scene.take(pilot)));
    for _ in 0..50 {
        for (pilot, given) in &mut given {
            let index = given.first().and_then(|(_, tasks)| set(tasks).first());
            let index = index.expect("it is still given tasks");
            *given = bundles(&scene.fail(*pilot, job, index, failed()));
        }
    }
    assert_eq!(scene.counts(job), "failed w0 p0 d0 f100 c0");
}

#[test]
fn a_pilot_that_is_doubted_is_trusted_again_after_one_success() {
    let mut scene = Scene::new();
    let (bad, good) = (pilot_of(&mut scene, "here", "a"), pilot_of(&mut scene, "here", "b"));
    let job = scene.submit(job(1000));
    scene.take(good);
    let mut given = scene.take(bad);
    while let Some(index) = given.first().and_then(|(_, tasks)| set(tasks).first()) {
        given = bundles(&scene.fail(bad, job, index, failed()));
    }
    scene.wait_awake(1);
    let given = scene.take(bad);
    let answer = scene.done(bad, job, &given[0].1);
    assert!(!bundles(&answer).is_empty(), "it goes on at once");
}

/// Ends the batch job of a pilot that runs the tasks: they end by the signal, the pilot leaves, and the
/// platform reports the end without a reason.
fn batch_job_ends(scene: &mut Scene, pilot: PilotId, job: JobId, tasks: &[u64]) {
    let failure =
        |index: &u64| Failure { index: *index, kind: FailureKind::Preempted, usage: Usage::default() };
    let failures = tasks.iter().map(failure).collect();
    scene.report(pilot, JobReport { failures, ..JobReport::new(job) });
    let reason = LeaveReason::Signalled;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    let allocation = scene.engine.durable().pilots()[&pilot].allocation;
    listed_as_ended(scene, allocation, None);
}

#[test]
fn a_task_that_has_each_batch_job_ended_is_set_aside_at_the_crash_limit() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 3, retries: 9, ..job(2) });
    for n in 1..=3 {
        let pilot = scene.pilot(1);
        assert_eq!(scene.take(pilot), [(1, "0".into())], "batch job {n}");
        batch_job_ends(&mut scene, pilot, job, &[0]);
    }
    assert_eq!(scene.counts(job), "active w1 p0 d0 f1 c0");
    let why = scene.explain(Query::ExplainTask(TaskId { job, index: 0 }));
    assert_eq!(why[0], Reason::TaskFailed { kind: FailureKind::Preempted, n_attempts: 3 });
    assert!(why[0].to_string().contains("`crash_limit`"), "{}", why[0]);
    let last = scene.engine.durable().pilots().last_key_value().expect("one").1.allocation;
    let batch_id = scene.engine.durable().allocations()[&last].batch_id.clone().expect("it was accepted");
    let ended = format!("pilot 3 in batch job {batch_id} (it got a signal)");
    assert!(why[1].to_string().contains(&ended), "{}", why[1]);
    let again = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(again.durable(), scene.engine.durable());
}

#[test]
fn ends_that_we_asked_for_and_those_by_walltime_are_nobodys_fault() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 1, ..job(1) });
    let pilot = scene.pilot(1);
    scene.take(pilot);
    let allocation = scene.engine.durable().pilots()[&pilot].allocation;
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: true });
    batch_job_ends(&mut scene, pilot, job, &[0]);
    assert_eq!(scene.counts(job), "active w1 p0 d0 f0 c0");
    let node = NodeFacts {
        capacity: Resources::cores(1),
        walltime_left: Some(Span::from_secs(1000)),
        ..NodeFacts::default()
    };
    let pilot = scene.pilot_on(node);
    scene.take(pilot);
    for _ in 0..19 {
        scene.wait_awake(50);
        scene.pull(pilot, Pull { running: vec![(job, set("0"))], ..hungry() });
    }
    batch_job_ends(&mut scene, pilot, job, &[0]);
    assert_eq!(scene.counts(job), "active w1 p0 d0 f0 c0");
    let troubled = &scene.engine.durable().jobs()[&job].troubled[&0];
    assert_eq!((troubled.n_nobody, troubled.n_crash()), (2, 0));
}

#[test]
fn a_platform_that_ends_batch_jobs_whatever_runs_there_costs_no_task_its_limit_so_soon() {
    let mut scene = Scene::new();
    let limit = 2;
    let job = scene.submit(JobRequest { crash_limit: limit, ..job(40) });
    // Each end hits another task, which succeeds afterwards.
    for index in 0..8_u64 {
        let pilot = scene.pilot(1);
        assert_eq!(scene.take(pilot), [(1, index.to_string())]);
        batch_job_ends(&mut scene, pilot, job, &[index]);
        let pilot = scene.pilot(1);
        assert_eq!(scene.take(pilot), [(1, index.to_string())]);
        scene.done(pilot, job, &index.to_string());
        let reason = LeaveReason::Told;
        scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    }
    assert_eq!(scene.engine.durable().ends_for_one(PlatformId(1), scene.now), 8);
    for n in 1..=16 {
        assert!(scene.counts(job).contains("f0"), "after {n} ends");
        let pilot = scene.pilot(1);
        let given = scene.take(pilot);
        assert_eq!(given, [(1, "8".into())]);
        batch_job_ends(&mut scene, pilot, job, &[8]);
    }
    assert!(scene.counts(job).contains("f1"), "in the end it is the task");
}

#[test]
fn tasks_beside_the_one_that_has_batch_jobs_ended_are_not_set_aside_with_it() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 3, ..job(4) });
    let culprit = 2;
    for _ in 0..40 {
        let pilot = scene.pilot(4);
        let given: Vec<u64> = scene
            .take(pilot)
            .iter()
            .flat_map(|(_, tasks)| set(tasks).indices().collect::<Vec<_>>())
            .collect();
        if given.is_empty() {
            break;
        }
        let running = given.iter().copied().collect::<TaskSet>();
        scene.pull(pilot, Pull { running: vec![(job, running)], ..hungry() });
        match given.contains(&culprit) {
            true => batch_job_ends(&mut scene, pilot, job, &given),
            false => {
                given.iter().for_each(|index| _ = scene.done(pilot, job, &index.to_string()));
                let reason = LeaveReason::Told;
                let left =
                    |request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason };
                scene.say(left);
            }
        }
    }
    assert_eq!(scene.counts(job), "failed w0 p0 d3 f1 c0");
    assert!(scene.engine.durable().jobs()[&job].failed.contains(culprit));
}

#[test]
fn a_pilot_that_speaks_is_there_whatever_the_listing_says() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { n_pilots_min: 4, ..limits::limited(PlatformLimits::default()) });
    scene.attach(PlatformSpec {
        n_pilots_max: 4,
        n_pilots_min: 4,
        ..limits::limited(PlatformLimits::default())
    });
    let job = scene.submit(job(100));
    let asked: Vec<_> =
        scene.engine.durable().allocations().iter().map(|(id, held)| (*id, held.tag.clone())).collect();
    assert_eq!(asked.len(), 4);
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    let pilots: Vec<PilotId> = asked.iter().map(|(_, tag)| scene.register(tag, node.clone())).collect();
    for _ in 0..5 {
        scene.wait_awake(10);
        let asked_at = scene.now;
        scene.now = scene.now + Span::from_millis(10);
        pilots.iter().for_each(|pilot| _ = scene.pull(*pilot, hungry()));
        scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result: Ok(vec![]) });
        assert_eq!(scene.n_asked(), 0, "four are there, and four may be");
    }
    assert_eq!(scene.engine.durable().allocation_counts(PlatformId(1)).n_there, 4);
    let answer =
        scene.say(|request| Event::Asked { request, query: Query::Allocations { with_ended: false } });
    let Some(Answer::Allocations(views)) = answer else { panic!("{answer:?}") };
    assert_eq!(views.len(), 4);
    assert!(views[0].why.as_ref().is_some_and(|why| why.contains("does not list it")), "{views:?}");
    assert!(scene.counts(job).contains("p8"), "{}", scene.counts(job));
    // Silent pilots are lost at once.
    scene.wait_awake(1);
    scene.listed(&[]);
    assert_eq!(scene.engine.durable().allocation_counts(PlatformId(1)).n_live, scene.n_asked());
}

#[test]
fn a_pilot_that_comes_back_after_its_batch_job_counted_as_ended_counts_toward_limits_again() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec {
        n_pilots_max: 1,
        n_pilots_min: 1,
        ..limits::limited(PlatformLimits::default())
    });
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    let pilot = scene.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    scene.wait_awake(20);
    scene.listed(&[]);
    let another = scene.submissions();
    assert_eq!(another.len(), 1, "nobody was heard of it");
    scene.answered(another[0].0);
    let before = scene.engine.durable().allocation_counts(PlatformId(1));
    scene.pull(pilot, hungry());
    let allocation_counts = scene.engine.durable().allocation_counts(PlatformId(1));
    assert_eq!((before.n_there, allocation_counts.n_there), (1, 2));
    assert_eq!(scene.cancelled(), [format!("b{}", another[0].0)], "no more than may be there");
    assert!(allocation_counts.committed_us > before.committed_us);
    let view = scene.engine.durable().allocations()[&allocation].clone();
    assert!(view.may_be_there() && view.ended_at.is_none());
}

#[test]
fn after_a_restart_a_pilot_whose_batch_job_is_not_listed_has_time_to_come_back() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec {
        n_pilots_max: 1,
        n_pilots_min: 1,
        submits_late: true,
        ..limits::limited(PlatformLimits::default())
    });
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    let pilot = scene.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    let job = scene.submit(job(2));
    assert_eq!(scene.take(pilot), [(1, "0-1".into())]);
    scene.wait_awake(20);
    let restart = |scene: &mut Scene, epoch| {
        scene.engine = Engine::restore(Settings::default(), epoch, scene.now, scene.records.clone());
        scene.wait_awake(5);
        scene.listed(&[]);
        assert_eq!(scene.n_asked(), 0, "one is there, and one may be");
        assert!(scene.engine.durable().pilots()[&pilot].is_live());
    };
    restart(&mut scene, 2);
    scene.wait_awake(10);
    let pull = Pull { epoch: 2, ..hungry() };
    let asked = scene.pull(pilot, pull.clone()).and_then(|answer| answer.resync).expect("it is asked");
    let (queued, unreported) = (TaskSet::new(), TaskSet::new());
    let held = crate::pull::Held { job, queued, running: set("0-1"), unreported };
    let holds = Some(crate::pull::Holdings { asked, tasks: vec![held], templates: vec![] });
    scene.pull(pilot, Pull { part_seen: 0, holds, ..pull });
    scene.listed(&[]);
    assert_eq!((scene.n_asked(), scene.counts(job).as_str()), (0, "active w0 p2 d0 f0 c0"), "it is back");
    restart(&mut scene, 3);
    scene.wait_awake(25);
    scene.listed(&[]);
    assert_eq!(scene.counts(job), "active w2 p0 d0 f0 c0", "it is not");
    assert!(!scene.engine.durable().pilots()[&pilot].is_live());
}

#[test]
fn a_pilot_between_two_pulls_is_there_although_its_batch_job_is_not_listed() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec {
        n_pilots_max: 1,
        n_pilots_min: 1,
        ..limits::limited(PlatformLimits::default())
    });
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    let pilot = scene.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    scene.wait_awake(20);
    let job = scene.submit(job(2));
    assert_eq!(scene.take(pilot), [(1, "0-1".into())], "it was answered");
    scene.now = scene.now + Span::from_millis(100);
    scene.listed(&[]);
    assert_eq!((scene.n_asked(), scene.counts(job).as_str()), (0, "active w0 p2 d0 f0 c0"));
}
