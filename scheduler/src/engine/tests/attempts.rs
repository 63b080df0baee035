//! Attempts: results count once, each kind of failure has its own limit of retries, and crashes lead to
//! quarantine.

use super::*;
use crate::pull::{Held, Holdings};

#[test]
fn a_repeated_report_counts_once() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.done(pilot, job, "0");
    *scene.seqs.entry(pilot).or_default() -= 1;
    let answer = scene.done(pilot, job, "0-1");
    assert_eq!(answer.acknowledged, 1);
    assert_eq!(scene.engine.durable().jobs()[&job].n_done(), 1);
}

#[test]
fn the_first_result_wins_when_a_lost_pilot_comes_back() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1));
    let slow = scene.pilot(1);
    scene.take(slow);
    scene.wait_awake(200);
    let quick = scene.pilot(1);
    assert_eq!(scene.take(quick), [(1, "0".into())]);
    let asked = scene.pull(slow, hungry()).and_then(|answer| answer.resync);
    let holdings =
        crate::pull::Holdings { asked: asked.expect("it is asked"), tasks: vec![], templates: vec![] };
    scene.pull(slow, Pull { holds: Some(holdings), ..hungry() });
    scene.done(slow, job, "0");
    let told = scene.pull(quick, hungry()).unwrap_or_default();
    assert!(commands(&told).contains(&PilotCommand::Kill { job, tasks: set("0") }));
    scene.done(quick, job, "0");
    assert_eq!(scene.counts(job), "done w0 p0 d1 f0 c0");
    assert_eq!(scene.engine.durable().jobs()[&job].totals.n, 1, "the second result is not even kept");
}

#[test]
fn only_the_programs_own_failures_use_the_users_retries() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 1, ..job(1) });
    let pilot = scene.pilot(1);
    for kind in [FailureKind::Preempted, FailureKind::Walltime, FailureKind::Node { what: "full".into() }] {
        scene.take(pilot);
        scene.fail(pilot, job, 0, kind);
        scene.wait_awake(60);
    }
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 3 });
    assert!(scene.counts(job).starts_with("active"));
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::TimeLimit { limit: Span::from_secs(1) });
    assert_eq!(scene.counts(job), "failed w0 p0 d0 f1 c0");
    let attempts = scene.engine.durable().jobs()[&job].n_failed_attempts;
    assert_eq!(attempts, 5);
}

#[test]
fn a_retry_waits_twice_as_long_each_time() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 3, retry_delay: Span::from_secs(4), ..job(1) });
    let pilot = scene.pilot(1);
    for wait in [4, 8, 16] {
        assert_eq!(scene.take(pilot), [(1, "0".into())]);
        scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
        scene.wait_awake(wait - 1);
        assert_eq!(scene.take(pilot), [], "it came back before {wait} s");
        let left = Reason::JobBacksOff { n_tasks: 1, left: Span::from_secs(1) };
        assert_eq!(scene.explain(Query::ExplainJob(job))[0], left);
        scene.wait_awake(1);
    }
    let answer = scene.pull(pilot, hungry()).unwrap_or_default();
    assert_eq!(bundles(&answer), [(1, "0".into())]);
    let mut tried = answer.parts.iter().flat_map(|part| &part.bundles).map(|bundle| bundle.tried.clone());
    assert_eq!(tried.next_back(), Some(vec![(0, 4)]), "the pilot is told that it is the fourth attempt");
}

#[test]
fn what_backs_off_in_a_paused_job_is_said_to_be_paused_first() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 1, retry_delay: Span::from_secs(4), ..job(1) });
    let pilot = scene.pilot(1);
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
    scene.change(job, JobChange::Pause);
    for query in [Query::ExplainJob(job), Query::ExplainTask(TaskId { job, index: 0 })] {
        let reasons = scene.explain(query);
        assert_eq!(reasons[0], Reason::JobPaused { job });
        let backs_off =
            |reason: &Reason| matches!(reason, Reason::JobBacksOff { .. } | Reason::TaskBacksOff { .. });
        assert!(backs_off(&reasons[1]), "{reasons:?}");
    }
}

#[test]
fn a_task_that_takes_pilots_down_is_quarantined_at_the_crash_limit() {
    let mut scene = Scene::new();
    let job = scene.submit(job(3));
    for _ in 0..2 {
        let pilot = scene.pilot(1);
        assert_eq!(scene.take(pilot), [(1, "0".into())]);
        scene.pull(pilot, Pull { running: vec![(job, set("0"))], ..hungry() });
        scene.wait_awake(200);
    }
    assert_eq!(scene.counts(job), "active w2 p0 d0 f1 c0");
    let reasons = scene.explain(Query::ExplainTask(TaskId { job, index: 0 }));
    assert_eq!(reasons[0], Reason::TaskFailed { kind: FailureKind::PilotLost, n_attempts: 2 });
    assert!(matches!(&reasons[1..], [Reason::EndedWith { ends }] if ends.len() == 2), "{reasons:?}");
    assert!(reasons[0].to_string().contains("`crash_limit`"), "{}", reasons[0]);
}

#[test]
fn tasks_that_had_not_begun_are_not_blamed_for_a_lost_pilot() {
    let mut scene = Scene::new();
    let job = scene.submit(job(3));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.pull(pilot, Pull { running: vec![(job, set("1"))], ..hungry() });
    scene.wait_awake(200);
    let troubled: Vec<u64> = scene.engine.durable().jobs()[&job].troubled.keys().copied().collect();
    assert_eq!(troubled, [1]);
}

#[test]
fn a_pilot_that_was_only_cut_off_is_no_crash_of_what_it_still_runs() {
    let mut scene = Scene::new();
    let job = scene.submit(job(2));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    let none = TaskSet::new;
    let running = |tasks: &str| Held { job, queued: none(), running: set(tasks), unreported: none() };
    for n_cuts in 1..=3 {
        scene.pull(pilot, Pull { running: vec![(job, set("0-1"))], ..hungry() });
        scene.wait_awake(200);
        assert!(!scene.engine.durable().pilots()[&pilot].is_live());
        tell(&mut scene, pilot, running("0-1"));
        assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0", "after {n_cuts} cuts");
    }
    scene.pull(pilot, Pull { running: vec![(job, set("0-1"))], ..hungry() });
    scene.wait_awake(200);
    tell(&mut scene, pilot, running("1"));
    let troubled = &scene.engine.durable().jobs()[&job].troubled;
    let crashes: Vec<(u32, u32)> =
        troubled.values().map(|trouble| (trouble.n_crash(), trouble.n_attempts())).collect();
    assert_eq!(crashes, [(1, 4), (0, 4)], "of task 0 it says nothing any more");
    let again = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(again.durable().jobs()[&job].troubled, *troubled);
}

#[test]
fn a_black_hole_is_drained_and_its_tasks_run_elsewhere() {
    let mut scene = Scene::new();
    let job = scene.submit(job(100));
    let (good, bad) = (scene.pilot(1), scene.pilot(1));
    scene.take(good);
    scene.done(good, job, "0");
    let mut given = scene.take(bad);
    for _ in 0..10 {
        let index = given.first().and_then(|(_, tasks)| set(tasks).first()).expect("it is still given tasks");
        given = bundles(&scene.fail(bad, job, index, FailureKind::Node { what: "no disk".into() }));
    }
    assert_eq!(given, []);
    let drained = scene.engine.durable().pilots()[&bad].drain.clone();
    assert!(drained.is_some(), "ten node failures in a row, and another pilot can do it");
    assert_eq!(scene.engine.durable().jobs()[&job].failed.len(), 0);
}

#[test]
fn a_failed_attempt_is_recorded_with_its_verdict() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 1, ..job(1) });
    let pilot = scene.pilot(1);
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Signal { signal: 11 });
    let Some(Record::Reported { results, .. }) = scene.records.last() else {
        panic!("no report was recorded")
    };
    assert_eq!(results[0].failures[0].verdict, Verdict::Retry { at: scene.now });
    assert_eq!(results[0].failures[0].attempt, 1);
}

#[test]
fn a_job_with_too_many_failures_is_ended() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { max_failures: Some(1), ..job(100) });
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
    assert!(scene.counts(job).starts_with("active"));
    scene.fail(pilot, job, 1, FailureKind::Exit { code: 1 });
    assert_eq!(scene.counts(job), "cancelled w0 p0 d0 f2 c98");
}

#[test]
fn a_task_longer_than_every_walltime_fails_in_the_end() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1));
    let node = NodeFacts {
        capacity: Resources::cores(1),
        walltime_left: Some(Span::from_secs(1000)),
        ..NodeFacts::default()
    };
    let mut cut_off = |seconds: u64| {
        let pilot = scene.pilot_on(node.clone());
        assert_eq!(scene.take(pilot), [(1, "0".into())]);
        let usage = Usage { wall_us: seconds * SECOND, ..Usage::default() };
        let failures = vec![Failure { index: 0, kind: FailureKind::Walltime, usage }];
        let report = Some(Report { seq: 1, jobs: vec![JobReport { failures, ..JobReport::new(job) }] });
        let reason = crate::pull::LeaveReason::Walltime;
        scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report, reason });
        scene.counts(job)
    };
    for seconds in [100, 100, 100, 100, 900, 100, 900] {
        assert!(cut_off(seconds).starts_with("active"), "a short attempt proves nothing");
    }
    assert_eq!(cut_off(900), "failed w0 p0 d0 f1 c0");
}

#[test]
fn failures_from_before_a_retry_do_not_count_against_the_limit() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { max_failures: Some(1), ..job(100) });
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
    scene.fail(pilot, job, 1, FailureKind::Exit { code: 1 });
    scene.change(job, JobChange::Retry(Some(set("2-99"))));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.fail(pilot, job, 2, FailureKind::Exit { code: 1 });
    assert!(scene.counts(job).starts_with("active"), "one failure since");
    scene.fail(pilot, job, 3, FailureKind::Exit { code: 1 });
    assert_eq!(scene.counts(job), "cancelled w0 p0 d0 f4 c96");
}

#[test]
fn a_result_of_before_does_not_count_for_a_new_lease() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1));
    let (pilot, other) = (scene.pilot(1), scene.pilot(1));
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    scene.change(job, JobChange::Cancel(None));
    scene.change(job, JobChange::Retry(Some(set("0"))));
    assert_eq!(scene.take(pilot), [], "it still has to answer for the task");
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
    assert_eq!(
        scene.counts(job),
        "active w0 p1 d0 f0 c0",
        "its failure was cancelled, and now it may try again"
    );
    assert_eq!(scene.take(other), []);
}

/// Tells the manager, when asked, that the pilot holds only results that are not yet reported.
fn tell_unreported(scene: &mut Scene, pilot: PilotId, job: JobId, tasks: &str) {
    let none = TaskSet::new;
    tell(scene, pilot, Held { job, queued: none(), running: none(), unreported: set(tasks) });
}

fn tell(scene: &mut Scene, pilot: PilotId, held: Held) {
    let asked = scene.pull(pilot, hungry()).and_then(|answer| answer.resync).expect("it is asked");
    let holds = Some(Holdings { asked, tasks: vec![held], templates: vec![] });
    scene.pull(pilot, Pull { holds, is_hungry: false, ..hungry() });
}

#[test]
fn a_failure_from_before_a_retry_does_not_count_when_its_pilot_comes_back() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    scene.wait_awake(200);
    scene.change(job, JobChange::Cancel(None));
    scene.change(job, JobChange::Retry(Some(set("0"))));
    tell_unreported(&mut scene, pilot, job, "0");
    assert_eq!(scene.take(pilot), [], "it still has to answer for the task");
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
    assert_eq!(scene.counts(job), "active w0 p1 d0 f0 c0");
}

#[test]
fn nor_does_that_of_a_task_which_still_ran_when_its_pilot_said_what_it_holds() {
    for is_running in [true, false] {
        let mut scene = Scene::new();
        let job = scene.submit(job(1));
        let pilot = scene.pilot(1);
        scene.take(pilot);
        scene.wait_awake(200);
        let other = scene.pilot(1);
        assert_eq!(scene.take(other), [(1, "0".into())]);
        scene.fail(other, job, 0, FailureKind::Exit { code: 1 });
        assert_eq!(scene.counts(job), "failed w0 p0 d0 f1 c0");
        scene.change(job, JobChange::Retry(Some(set("0"))));
        // This answer was on its way all the time: the task has ended since, before the retry.
        let (now, later) = if is_running { ("0", "") } else { ("", "0") };
        tell(
            &mut scene,
            pilot,
            Held { job, running: set(now), queued: set(later), unreported: TaskSet::new() },
        );
        scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
        assert!(scene.counts(job).starts_with("active"), "{}", scene.counts(job));
    }
}

#[test]
fn a_restarted_agent_is_blamed_for_what_ran_also_when_it_delivers_what_was_left() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 1, ..job(3) });
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.pull(pilot, Pull { running: vec![(job, set("1"))], ..hungry() });
    let allocation = scene.engine.durable().pilots()[&pilot].allocation;
    let tag = scene.engine.durable().allocations()[&allocation].tag.clone();
    let usage = Usage { wall_us: SECOND, ..Usage::default() };
    let successes = Successes::from_attempts(vec![(0, 0, usage)]);
    let report = Some(Report { seq: 1, jobs: vec![JobReport { successes, ..JobReport::new(job) }] });
    scene.pull(pilot, Pull { report, ..Pull::default() });
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    let registration = Registration { tag, nonce: 2, node, uptime: Span::ZERO, predecessor: Some(1) };
    let registration = Box::new(registration);
    scene.say(|request| Event::PilotRegistered { request, registration });
    assert_eq!(scene.counts(job), "active w1 p0 d1 f1 c0");
    let cancelled = scene.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. }));
    assert!(!cancelled, "its allocation goes on with the new pilot: {:?}", scene.effects);
}

#[test]
fn a_result_that_another_has_the_lease_for_is_answered_before_the_task_comes_again() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1));
    let lost = scene.pilot(1);
    scene.take(lost);
    scene.wait_awake(200);
    let other = scene.pilot(1);
    assert_eq!(scene.take(other), [(1, "0".into())]);
    tell_unreported(&mut scene, lost, job, "0");
    let reason = crate::pull::LeaveReason::Signalled;
    scene.say(|request| Event::PilotLeft {
        request,
        pilot: other,
        session_nonce: None,
        report: None,
        reason,
    });
    assert_eq!(scene.take(lost), [], "it still has to answer for the task");
    scene.fail(lost, job, 0, FailureKind::Exit { code: 1 });
    assert_eq!(scene.counts(job), "active w0 p1 d0 f0 c0");
}

#[test]
fn what_cancelled_tasks_had_written_is_kept_and_of_those_that_run_again_it_is_not() {
    let mut scene = Scene::new();
    let job = scene.submit(job(3));
    let pilot = scene.pilot(3);
    scene.take(pilot);
    scene.change(job, JobChange::Cancel(Some(set("0"))));
    let output = |index| TaskOutput { index, stdout: b"so far".to_vec(), stderr: Vec::new() };
    let outputs = vec![output(0), output(1), output(2)];
    scene.report(pilot, JobReport { returned: set("0-1"), outputs, ..JobReport::new(job) });
    let results = scene.records.iter().filter_map(|record| match record {
        Record::Reported { results, .. } => Some(results),
        _ => None,
    });
    let kept: Vec<u64> = results.flatten().flat_map(|r| r.outputs.iter().map(|o| o.index)).collect();
    assert_eq!(kept, [0]);
}
