//! Pilots that are lost with several tasks: only tasks that alone cause the loss of a pilot are quarantined.

use std::collections::BTreeSet;

use super::*;
use crate::pull::LeaveReason;

/// The way in which the batch system ends the batch job of a pilot whose tasks use too much memory together.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Killer {
    /// A signal to all processes: the pilot has time to report the end of each task, in a report of its own.
    OneByOne,
    /// The same, with all tasks in one report.
    AtOnce,
    /// A kill of all processes at once, the pilot's included.
    Forced,
}

/// The course of a job whose tasks run on pilots with several cores.
struct Course {
    scene: Scene,
    job: JobId,
    n_ended: usize,
    n_pilots: usize,
}

/// Runs a job of `n_tasks` tasks on one pilot after the other until it has ended. A pilot's batch job is
/// ended when its running tasks need more than `memory` together.
fn run(n_tasks: u64, cores: u32, memory: u64, needs: impl Fn(u64) -> u64, killer: Killer) -> Course {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 5, ..job(n_tasks) });
    let (mut n_ended, mut n_pilots) = (0, 0);
    while !scene.engine.durable().jobs()[&job].open.is_empty() {
        n_pilots += 1;
        assert!(n_pilots < 400, "it never ends: {}", scene.counts(job));
        let capacity = Resources::cores(cores);
        let node = NodeFacts { hostname: format!("n{n_pilots}"), capacity, ..NodeFacts::default() };
        let pilot = scene.pilot_on(node);
        let mut held: BTreeSet<u64> = tasks_of(&scene.take(pilot));
        while let Some(first) = held.first().copied() {
            let running: TaskSet = held.iter().copied().take(cores as usize).collect();
            scene.pull(pilot, Pull { running: vec![(job, running.clone())], ..hungry() });
            if running.indices().map(&needs).sum::<u64>() > memory {
                end(&mut scene, pilot, (job, &running), killer);
                n_ended += 1;
                break;
            }
            let usage = Usage { started_us: 1, wall_us: 600 * SECOND, cpu_us: 1, memory_bytes: 1 };
            let successes = Successes::from_attempts(vec![(first, 0, usage)]);
            let answer = scene.report(pilot, JobReport { successes, ..JobReport::new(job) });
            held.remove(&first);
            held.extend(tasks_of(&bundles(&answer)));
        }
        if scene.engine.durable().pilots()[&pilot].is_live() {
            leave(&mut scene, pilot, LeaveReason::Told);
        }
    }
    Course { scene, job, n_ended, n_pilots }
}

fn tasks_of(bundles: &[(u64, String)]) -> BTreeSet<u64> {
    bundles.iter().flat_map(|(_, tasks)| set(tasks).indices().collect::<Vec<_>>()).collect()
}

fn leave(scene: &mut Scene, pilot: PilotId, reason: LeaveReason) {
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
}

fn end(scene: &mut Scene, pilot: PilotId, (job, running): (JobId, &TaskSet), killer: Killer) {
    let failed = |index| Failure { index, kind: FailureKind::Preempted, usage: Usage::default() };
    match killer {
        Killer::OneByOne => {
            for index in running.indices() {
                let seq = *scene.seqs.entry(pilot).and_modify(|seq| *seq += 1).or_insert(1);
                let failures = vec![failed(index)];
                let report = Some(Report { seq, jobs: vec![JobReport { failures, ..JobReport::new(job) }] });
                scene.pull(pilot, Pull { report, is_hungry: false, ..hungry() });
            }
            leave(scene, pilot, LeaveReason::Signalled);
        }
        Killer::AtOnce => {
            let seq = *scene.seqs.entry(pilot).and_modify(|seq| *seq += 1).or_insert(1);
            let failures = running.indices().map(failed).collect();
            let report = Some(Report { seq, jobs: vec![JobReport { failures, ..JobReport::new(job) }] });
            let (session_nonce, reason) = (None, LeaveReason::Signalled);
            scene.say(|request| Event::PilotLeft { request, pilot, session_nonce, report, reason });
        }
        Killer::Forced => {}
    }
    scene.wait_awake(200);
    assert!(!scene.engine.durable().pilots()[&pilot].is_live());
}

const KILLERS: [Killer; 3] = [Killer::OneByOne, Killer::AtOnce, Killer::Forced];

#[test]
fn tasks_that_need_too_much_memory_together_run_with_fewer_beside_them_and_none_fails() {
    for killer in KILLERS {
        // One task is far within the limit; two exceed it.
        let Course { mut scene, job, n_ended, .. } = run(6, 2, 100, |_| 60, killer);
        assert_eq!(scene.counts(job), "done w0 p0 d6 f0 c0", "{killer:?}");
        assert!(n_ended <= 6, "{n_ended} batch jobs were ended by {killer:?}: two for each pair are enough");
        // Five tasks exceed the limit, four do not.
        let Course { mut scene, job, n_ended, .. } = run(16, 8, 100, |_| 22, killer);
        assert_eq!(scene.counts(job), "done w0 p0 d16 f0 c0", "{killer:?}");
        assert!(n_ended <= 8, "{n_ended} batch jobs were ended by {killer:?}");
    }
}

#[test]
fn the_neighbours_of_a_memory_hog_are_never_set_aside() {
    for killer in KILLERS {
        for hog in [0, 3, 7, 11] {
            let needs = |index| if index == hog { 1000 } else { 10 };
            let Course { mut scene, job, n_ended, .. } = run(12, 4, 100, needs, killer);
            assert_eq!(scene.counts(job), "failed w0 p0 d11 f1 c0", "{killer:?}, task {hog}");
            assert_eq!(scene.engine.durable().jobs()[&job].failed, TaskSet::from(hog..hog + 1));
            assert!(n_ended <= 6, "{n_ended} batch jobs were ended by {killer:?} for task {hog}");
        }
    }
}

#[test]
fn two_hogs_are_found_and_nobody_else() {
    for killer in KILLERS {
        let needs = |index| if index == 2 || index == 3 { 1000 } else { 10 };
        let Course { mut scene, job, n_pilots, .. } = run(12, 4, 100, needs, killer);
        assert_eq!(scene.counts(job), "failed w0 p0 d10 f2 c0", "{killer:?}");
        assert_eq!(scene.engine.durable().jobs()[&job].failed, set("2-3"), "{killer:?}");
        assert!(n_pilots < 20, "{n_pilots} pilots, {killer:?}");
    }
}

/// Returns a job of six tasks of which 0 and 1 must run alone: pilots were lost with both, then with each and
/// another.
fn with_two_to_run_alone() -> (Scene, JobId) {
    let mut scene = Scene::new();
    let id = scene.submit(JobRequest { crash_limit: 2, ..job(6) });
    for n_pilots in [1, 2] {
        let pilots: Vec<PilotId> = (0..n_pilots).map(|_| scene.pilot(2)).collect();
        for pilot in pilots {
            let taken = tasks_of(&scene.take(pilot));
            scene.pull(pilot, Pull { running: vec![(id, taken.into_iter().collect())], ..hungry() });
        }
        scene.wait_awake(200);
    }
    assert_eq!(scene.engine.durable().jobs()[&id].to_be_alone(), set("0-1"));
    (scene, id)
}

#[test]
fn a_task_that_runs_alone_has_its_pilot_for_itself_and_others_go_elsewhere() {
    let (mut scene, id) = with_two_to_run_alone();
    scene.restart();
    let other = scene.submit(job(4));
    let pilots = [scene.pilot(2), scene.pilot(2)];
    let first = scene.take(pilots[0]);
    assert_eq!(first.len(), 1, "one task of all jobs: {first:?}");
    assert_eq!(tasks_of(&first).len(), 1);
    assert_eq!(scene.take(pilots[0]), [], "nothing else comes to it");
    assert_eq!(scene.take(pilots[1]), [(id.0, "1".into())], "the second one has the other pilot");
    scene.pull(pilots[1], Pull { running: vec![(id, set("1"))], ..hungry() });
    let waits = scene.explain(Query::ExplainJob(other));
    assert!(!waits.iter().any(|reason| matches!(reason, Reason::RunAlone { .. })), "{waits:?}");
    let index = *tasks_of(&first).first().expect("a task");
    let answer = scene.done(pilots[0], id, &index.to_string());
    assert!(!bundles(&answer).is_empty(), "once it has ended the pilot is served as before");
    // The pilot is lost with this task alone: the task is the cause.
    scene.wait_awake(200);
    assert_eq!(scene.engine.durable().jobs()[&id].failed, set("1"));
}

#[test]
fn where_no_pilot_is_empty_one_is_emptied_for_a_task_that_runs_alone() {
    let (mut scene, id) = with_two_to_run_alone();
    // Each pilot has a long task of another job, which is older.
    let long = scene.submit(JobRequest { priority: 9, ..job(2) });
    scene.change(id, JobChange::Pause);
    let pilots = [scene.pilot(2), scene.pilot(2)];
    for pilot in pilots {
        scene.pull(pilot, Pull { is_hungry: true, ..hungry() });
    }
    let held = |scene: &Scene, pilot: PilotId| scene.engine.live.pilots[&pilot].leases.clone();
    assert_eq!(held(&scene, pilots[0]).keys().collect::<Vec<_>>(), [&long], "it has both");
    let busy = pilots[0];
    scene.change(id, JobChange::Cancel(Some(set("2-5"))));
    let more = scene.submit(job(8));
    scene.say(|request| Event::PilotLeft {
        request,
        pilot: pilots[1],
        session_nonce: None,
        report: None,
        reason: LeaveReason::Told,
    });
    scene.change(id, JobChange::Resume);
    let answer = scene.done(busy, long, "0");
    assert_eq!(bundles(&answer), [], "it is to be empty soon, whatever waits");
    let reasons = scene.explain(Query::ExplainTask(TaskId { job: id, index: 0 }));
    let alone = |reason: &Reason| matches!(reason, Reason::RunAlone { n_tasks: 1 });
    assert!(reasons.iter().any(alone), "{reasons:?}");
    let answer = scene.done(busy, long, "1");
    assert_eq!(bundles(&answer), [(id.0, "0".into())]);
    assert_eq!(bundles(&scene.done(busy, id, "0")), [(id.0, "1".into())]);
    let answer = scene.done(busy, id, "1");
    assert_eq!(bundles(&answer), [(more.0, "0-1".into())], "then the pilot is everybody's again");
    assert!(scene.engine.live.emptied.is_empty() && scene.engine.live.alone.is_empty());
}

#[test]
fn a_crash_limit_of_one_sets_aside_whatever_ran() {
    let mut scene = Scene::new();
    let id = scene.submit(JobRequest { crash_limit: 1, ..job(2) });
    let lost = scene.pilot(2);
    scene.take(lost);
    scene.pull(lost, Pull { running: vec![(id, set("0-1"))], ..hungry() });
    scene.wait_awake(200);
    assert_eq!(scene.engine.durable().jobs()[&id].failed, set("0-1"));
}
