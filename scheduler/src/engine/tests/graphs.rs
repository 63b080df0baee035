//! Dependencies: when dependent tasks start, and their fate when tasks fail.

use proptest::prelude::*;

use super::*;
use crate::{
    edges::{Edges, Listed, OnFailedDependency},
    rng::Rng,
};

fn stage(n_tasks: u64, after: Vec<(On, Edges)>) -> Stage {
    Stage { job: job(n_tasks), after }
}

fn listed(lists: &[&[u64]]) -> Edges {
    Edges::Listed(Listed::new(lists.iter().map(|list| list.iter().copied())).expect("few edges"))
}

impl Scene {
    fn submit_all(&mut self, stages: Vec<Stage>) -> Vec<JobId> {
        match self.say(|request| Event::WorkflowSubmitted { request, stages }) {
            Some(Answer::WorkflowSubmitted { jobs, .. }) => jobs,
            other => panic!("a workflow was answered by {other:?}"),
        }
    }

    pub(super) fn restart(&mut self) {
        self.engine = Engine::restore(Settings::default(), 1, self.now, self.records.clone());
        self.engine.check_invariants();
    }

    fn all_counts(&mut self, jobs: &[JobId]) -> Vec<String> {
        jobs.iter().map(|job| self.counts(*job)).collect()
    }
}

#[test]
fn a_diamond_runs_in_its_order() {
    let mut scene = Scene::new();
    let two = vec![(On::Stage(1), Edges::All), (On::Stage(2), Edges::All)];
    let jobs = scene.submit_all(vec![
        stage(1, vec![]),
        stage(2, vec![(On::Stage(0), Edges::All)]),
        stage(1, vec![(On::Stage(0), Edges::All)]),
        stage(1, two),
    ]);
    let pilot = scene.pilot(8);
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    let next = bundles(&scene.done(pilot, jobs[0], "0"));
    assert_eq!(next, [(2, "0-1".into()), (3, "0".into())], "in the answer to the report itself");
    assert_eq!(bundles(&scene.done(pilot, jobs[1], "0-1")), []);
    assert_eq!(bundles(&scene.done(pilot, jobs[2], "0")), [(4, "0".into())]);
    scene.done(pilot, jobs[3], "0");
    assert_eq!(scene.counts(jobs[3]), "done w0 p0 d1 f0 c0");
}

#[test]
fn a_pipeline_goes_on_task_by_task_and_groups_as_they_are_full() {
    let mut scene = Scene::new();
    let jobs = scene.submit_all(vec![
        stage(4, vec![]),
        stage(4, vec![(On::Stage(0), Edges::Same)]),
        stage(2, vec![(On::Stage(1), Edges::Groups(2))]),
        stage(4, vec![(On::Stage(2), Edges::Spread(2))]),
    ]);
    let pilot = scene.pilot(8);
    assert_eq!(scene.take(pilot), [(1, "0-3".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "1-2")), [(2, "1-2".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[1], "1-2")), []);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "3")), [(2, "3".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[1], "3")), [(3, "1".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[2], "1")), [(4, "2-3".into())]);
}

#[test]
fn a_job_goes_on_task_by_task_with_one_of_before() {
    let mut scene = Scene::new();
    let before = scene.submit(job(3));
    let pilot = scene.pilot(8);
    assert_eq!(scene.take(pilot), [(1, "0-2".into())]);
    scene.done(pilot, before, "1");
    let after = |n_tasks| vec![stage(n_tasks, vec![(On::Job(before), Edges::Same)])];
    let bad = after(2);
    let refused = scene.say(|request| Event::WorkflowSubmitted { request, stages: bad });
    assert!(matches!(refused, Some(Answer::Refused(Refusal::Unfit(_)))), "{refused:?}");
    let jobs = scene.submit_all(after(3));
    assert_eq!(scene.take(pilot), [(2, "1".into())], "what it waited for had ended before it came");
    assert_eq!(bundles(&scene.done(pilot, before, "2")), [(2, "2".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "1-2")), []);
    assert_eq!(bundles(&scene.done(pilot, before, "0")), [(2, "0".into())]);
    scene.done(pilot, jobs[0], "0");
    assert_eq!(scene.all_counts(&[before, jobs[0]]), ["done w0 p0 d3 f0 c0"; 2]);
}

#[test]
fn a_billion_tasks_after_a_billion_others_cost_nothing() {
    let mut scene = Scene::new();
    let n = 1_000_000_000;
    let jobs = scene.submit_all(vec![
        stage(n, vec![]),
        stage(n, vec![(On::Stage(0), Edges::Same)]),
        stage(1, vec![(On::Stage(1), Edges::All)]),
    ]);
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "0-1".into())]);
    scene.done(pilot, jobs[0], "0-1");
    scene.restart();
    assert_eq!(scene.counts(jobs[1]), "active w1000000000 p0 d0 f0 c0");
}

#[test]
fn listed_tasks_wait_for_all_that_are_listed() {
    let mut scene = Scene::new();
    let within = listed(&[&[], &[0], &[0], &[1, 2]]);
    let jobs = scene.submit_all(vec![stage(4, vec![(On::Stage(0), within)])]);
    let pilot = scene.pilot(8);
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "0")), [(1, "1-2".into())]);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "2")), []);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "1")), [(1, "3".into())]);
}

#[test]
fn a_job_of_which_tasks_waited_for_a_failure_has_failed() {
    let mut scene = Scene::new();
    let jobs = scene.submit_all(vec![stage(3, vec![(On::Stage(0), listed(&[&[], &[0], &[]]))])]);
    let pilot = scene.pilot(8);
    scene.take(pilot);
    scene.fail(pilot, jobs[0], 0, FailureKind::Exit { code: 3 });
    scene.done(pilot, jobs[0], "2");
    assert_eq!(scene.counts(jobs[0]), "failed w0 p0 d1 f1 c1");
    let said: Vec<String> =
        scene.explain(Query::ExplainJob(jobs[0])).iter().map(ToString::to_string).collect();
    assert_eq!(said[1], "task 1.0 has failed for good: exit code 3");
    assert_eq!(
        said[2..],
        [
            "task 1.1 was cancelled, as it waited for task 1.0, which failed for good; `pilotfish retry-failed 1.0` \
            opens it again, and what waited for it"
        ]
    );
}

#[test]
fn a_job_whose_tasks_were_given_up_names_the_task_that_failed() {
    let mut scene = Scene::new();
    let jobs = scene.submit_all(vec![
        stage(3, vec![]),
        stage(3, vec![(On::Stage(0), Edges::Same)]),
        stage(3, vec![(On::Stage(1), Edges::Same)]),
    ]);
    let pilot = scene.pilot(8);
    scene.take(pilot);
    scene.fail(pilot, jobs[0], 1, FailureKind::Exit { code: 3 });
    let mut said = |job: usize| -> Vec<String> {
        scene.explain(Query::ExplainJob(jobs[job])).iter().map(ToString::to_string).collect()
    };
    // The job goes on with its other tasks.
    let expected = "task 3.1 was cancelled, as it waited for task 1.1, which failed for good; \
        `pilotfish retry-failed 1.1` opens it again, and what waited for it";
    assert_eq!(said(2)[0], expected, "the task with which it began, not the one between");
    let of_task = scene.explain(Query::ExplainTask(TaskId { job: jobs[2], index: 1 }));
    let expected = "it waited in vain: task 1.1 failed for good; `pilotfish retry-failed 1.1` opens that one again, and what \
        waited for it";
    assert!(of_task.iter().any(|reason| reason.to_string() == expected), "{of_task:?}");
    scene.fail(pilot, jobs[0], 0, FailureKind::Exit { code: 3 });
    scene.fail(pilot, jobs[0], 2, FailureKind::Exit { code: 3 });
    let said: Vec<String> =
        scene.explain(Query::ExplainJob(jobs[2])).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "job 3 is cancelled: 0 done, 0 failed, 3 cancelled",
            "3 tasks were cancelled, as they waited for others in vain: the first, 3.0, for task 1.0, which failed for \
            good; `pilotfish retry-failed 1.0` opens it again, and what waited for it"
        ]
    );
}

#[test]
fn what_waits_for_a_failure_is_cancelled_and_opened_again_with_it() {
    let mut scene = Scene::new();
    let jobs = scene.submit_all(vec![
        stage(3, vec![]),
        stage(3, vec![(On::Stage(0), Edges::Same)]),
        stage(1, vec![(On::Stage(1), Edges::All)]),
    ]);
    let pilot = scene.pilot(8);
    scene.take(pilot);
    scene.fail(pilot, jobs[0], 1, FailureKind::Exit { code: 1 });
    let expected = ["active w0 p2 d0 f1 c0", "active w2 p0 d0 f0 c1", "cancelled w0 p0 d0 f0 c1"];
    assert_eq!(scene.all_counts(&jobs), expected);
    scene.done(pilot, jobs[0], "0,2");
    scene.done(pilot, jobs[1], "0,2");
    scene.restart();
    assert_eq!(scene.all_counts(&jobs[1..]), ["cancelled w0 p0 d2 f0 c1", "cancelled w0 p0 d0 f0 c1"]);
    assert_eq!(
        scene.change(jobs[1], JobChange::Retry(Some(set("1")))),
        Some(Answer::Changed { n_tasks: 0, n_stale: 0 })
    );
    assert_eq!(
        scene.change(jobs[0], JobChange::Retry(None)),
        Some(Answer::Changed { n_tasks: 3, n_stale: 0 })
    );
    let expected = ["active w1 p0 d2 f0 c0", "active w1 p0 d2 f0 c0", "active w1 p0 d0 f0 c0"];
    assert_eq!(scene.all_counts(&jobs), expected);
}

#[test]
fn a_job_is_purged_after_those_that_take_from_it() {
    let mut scene = Scene::new();
    let jobs = scene.submit_all(vec![
        stage(1, vec![]),
        stage(2, vec![(On::Stage(0), Edges::All), (On::Stage(1), listed(&[&[], &[0]]))]),
    ]);
    let pilot = scene.pilot(8);
    scene.take(pilot);
    scene.done(pilot, jobs[0], "0");
    let needed = Some(Answer::Refused(Refusal::NeededBy { job: jobs[0], by: jobs[1] }));
    assert_eq!(scene.change(jobs[0], purge()), needed);
    scene.take(pilot);
    scene.done(pilot, jobs[1], "0");
    scene.take(pilot);
    scene.done(pilot, jobs[1], "1");
    assert_eq!(scene.change(jobs[0], purge()), needed, "it may be opened again");
    for job in [jobs[1], jobs[0]] {
        assert!(matches!(scene.change(job, purge()), Some(Answer::Changed { .. })), "{job}");
    }
    scene.restart();
}

#[test]
fn jobs_that_take_from_each_other_are_purged_together_and_a_part_of_a_workflow_is_not_submitted_again() {
    let mut scene = Scene::new();
    let keyed = |mut stage: Stage, key: &str| {
        stage.job.submission_key = Some(key.into());
        stage
    };
    // Tasks 0 of both, then tasks 1: a chain 0.0, 1.0, 0.1, 1.1.
    let stages = || {
        vec![
            keyed(stage(2, vec![(On::Stage(1), listed(&[&[], &[0]]))]), "a"),
            keyed(stage(2, vec![(On::Stage(0), listed(&[&[0], &[1]]))]), "b"),
            keyed(stage(1, vec![(On::Stage(1), Edges::All)]), "c"),
        ]
    };
    let jobs = scene.submit_all(stages());
    let pilot = scene.pilot(8);
    for (job, task) in [(0, "0"), (1, "0"), (0, "1"), (1, "1")] {
        scene.take(pilot);
        scene.done(pilot, jobs[job], task);
    }
    let both = || JobChange::Purge(jobs[..2].iter().copied().collect());
    let needed = Some(Answer::Refused(Refusal::NeededBy { job: jobs[0], by: jobs[2] }));
    assert_eq!(scene.change(jobs[0], both()), needed);
    scene.take(pilot);
    scene.done(pilot, jobs[2], "0");
    assert!(matches!(scene.change(jobs[2], purge()), Some(Answer::Changed { n_tasks: 1, .. })));
    let again = scene.say(|request| Event::WorkflowSubmitted { request, stages: stages() });
    assert_eq!(again, Some(Answer::Refused(Refusal::KnownInPart(jobs[0]))));
    let needed = Some(Answer::Refused(Refusal::NeededBy { job: jobs[1], by: jobs[0] }));
    assert_eq!(scene.change(jobs[1], purge()), needed, "nobody has asked for that");
    assert!(matches!(scene.change(jobs[1], both()), Some(Answer::Changed { n_tasks: 4, .. })));
    assert!(scene.engine.durable().jobs().is_empty());
    scene.restart();
    assert_eq!(scene.submit_all(stages())[0], JobId(jobs[2].0 + 1));
}

#[test]
fn what_runs_whatever_happened_waits_for_the_ends_alone() {
    let mut scene = Scene::new();
    let mut last = stage(1, vec![(On::Stage(0), Edges::All)]);
    last.job.on_failed_dependency = OnFailedDependency::Run;
    let jobs = scene.submit_all(vec![stage(2, vec![]), last]);
    let pilot = scene.pilot(8);
    scene.take(pilot);
    assert_eq!(bundles(&scene.fail(pilot, jobs[0], 0, FailureKind::Exit { code: 1 })), []);
    assert_eq!(bundles(&scene.done(pilot, jobs[0], "1")), [(2, "0".into())]);
    // A task runs again if a task on which it depends runs again.
    scene.change(jobs[0], JobChange::Retry(None));
    assert_eq!(scene.all_counts(&jobs), ["active w1 p0 d1 f0 c0", "active w1 p0 d0 f0 c0"]);
}

#[test]
fn tasks_that_ran_without_what_is_opened_again_are_counted_with_what_followed_from_them() {
    let mut scene = Scene::new();
    let mut sum = stage(1, vec![(On::Stage(0), Edges::All)]);
    sum.job.on_failed_dependency = OnFailedDependency::Run;
    let jobs = scene.submit_all(vec![stage(2, vec![]), sum, stage(3, vec![(On::Stage(1), Edges::All)])]);
    let pilot = scene.pilot(8);
    scene.take(pilot);
    scene.fail(pilot, jobs[0], 0, FailureKind::Exit { code: 1 });
    scene.done(pilot, jobs[0], "1");
    scene.done(pilot, jobs[1], "0");
    scene.done(pilot, jobs[2], "0,2");
    let opened = scene.change(jobs[0], JobChange::Retry(None));
    assert_eq!(opened, Some(Answer::Changed { n_tasks: 1, n_stale: 3 }));
    let expected = ["active w1 p0 d1 f0 c0", "done w0 p0 d1 f0 c0", "active w0 p1 d2 f0 c0"];
    assert_eq!(scene.all_counts(&jobs), expected);
}

#[test]
fn a_cancelled_job_takes_those_with_it_that_wait_for_it() {
    let mut scene = Scene::new();
    let before = scene.submit(job(2));
    let jobs = scene.submit_all(vec![
        stage(1, vec![(On::Job(before), Edges::All)]),
        stage(1, vec![(On::Stage(0), Edges::All)]),
    ]);
    scene.change(before, JobChange::Cancel(None));
    assert_eq!(scene.all_counts(&jobs), ["cancelled w0 p0 d0 f0 c1"; 2]);
    let cause = scene.records.iter().rev().find_map(|record| match record {
        Record::TasksCancelled { cause, .. } => Some(cause.clone()),
        _ => None,
    });
    let first = TaskId { job: before, index: 0 };
    assert_eq!(cause, Some(crate::engine::record::CancelCause::Dependency(first)));
    // A job submitted later has the same fate.
    let late = scene.submit_all(vec![stage(1, vec![(On::Job(before), Edges::All)])]);
    assert_eq!(scene.counts(late[0]), "cancelled w0 p0 d0 f0 c1");
}

#[test]
fn a_workflow_is_taken_whole_or_not_at_all_and_once() {
    let mut scene = Scene::new();
    let bad = vec![stage(2, vec![]), stage(3, vec![(On::Stage(0), Edges::Same)])];
    let refused = scene.say(|request| Event::WorkflowSubmitted { request, stages: bad });
    assert!(matches!(refused, Some(Answer::Refused(Refusal::Unfit(_)))), "{refused:?}");
    assert!(scene.engine.durable().jobs().is_empty());
    let mut stages = vec![stage(2, vec![]), stage(2, vec![(On::Stage(0), Edges::Same)])];
    for (n, stage) in stages.iter_mut().enumerate() {
        stage.job.submission_key = Some(format!("key {n}"));
    }
    let jobs = scene.submit_all(stages.clone());
    let again = scene.say(|request| Event::WorkflowSubmitted { request, stages });
    assert_eq!(again, Some(Answer::WorkflowSubmitted { jobs, is_repeat: true }));
}

#[test]
fn no_pilot_is_asked_for_what_waits() {
    let mut scene = Scene::new();
    scene.attach(platform(5, 1));
    scene.submit_all(vec![stage(1, vec![]), stage(100, vec![(On::Stage(0), Edges::All)])]);
    assert_eq!(scene.submissions().len(), 1);
}

/// Draws a workflow of a few stages; a quarter of their dependencies are listed.
fn draw_stages(luck: &mut Rng) -> Vec<Stage> {
    let n_stages = luck.between(1, 5) as usize;
    let mut stages: Vec<Stage> = Vec::new();
    for at in 0..n_stages {
        let on = luck.below(at.max(1) as u64) as usize;
        let n_on = stages.get(on).map_or(0, |stage| stage.job.n_tasks);
        let (n, edges) = match luck.below(6) {
            _ if at == 0 => (luck.between(1, 6), None),
            0 => (n_on, Some(Edges::Same)),
            1 => (n_on * 2, Some(Edges::Spread(2))),
            2 if n_on.is_multiple_of(2) => (n_on / 2, Some(Edges::Groups(2))),
            3 => (luck.between(1, 4), Some(Edges::All)),
            4 => (luck.between(1, 4), None),
            _ => {
                let n = luck.between(1, 6);
                let lists = (0..n).map(|_| (0..n_on).filter(|_| luck.one_in(2)).collect::<Vec<_>>());
                (n, Some(Edges::Listed(Listed::new(lists.collect::<Vec<_>>()).expect("few"))))
            }
        };
        let mut after: Vec<(On, Edges)> = edges.into_iter().map(|edges| (On::Stage(on), edges)).collect();
        if luck.one_in(3) {
            let lists = (0..n).map(|task| (0..task).filter(|_| luck.one_in(3)).collect::<Vec<_>>());
            after.push((On::Stage(at), Edges::Listed(Listed::new(lists.collect::<Vec<_>>()).expect("few"))));
        }
        let mut stage = stage(n, after);
        if luck.one_in(3) {
            stage.job.on_failed_dependency = OnFailedDependency::Run;
        }
        stages.push(stage);
    }
    stages
}

/// Returns whether all tasks on which the task depends have ended, successfully unless that does not matter.
fn may_run(scene: &Scene, task: TaskId) -> bool {
    let jobs = scene.engine.durable().jobs();
    let job = &jobs[&task.job];
    job.request.after.iter().all(|dependence| {
        let on = &jobs[&dependence.on];
        let before =
            dependence.edges.predecessors(&TaskSet::from(task.index..task.index + 1), on.request.n_tasks);
        let is_lost = !before.intersection(&on.lost()).is_empty();
        before.intersection(&on.open).is_empty()
            && (!is_lost || job.request.on_failed_dependency == OnFailedDependency::Run)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_tasks_keep_their_order_and_all_end(seed: u64) {
        let mut luck = Rng::new(seed);
        let mut scene = Scene::new();
        let mut jobs = scene.submit_all(draw_stages(&mut luck));
        let mut pilot = scene.pilot(4);
        let mut held: Vec<TaskId> = Vec::new();
        for round in 0..120 {
            let is_calm = round > 60;
            let job = jobs[luck.below(jobs.len() as u64) as usize];
            match luck.below(if is_calm { 3 } else { 14 }) {
                4 if held.is_empty() => {
                    scene.restart();
                    pilot = scene.pilot(4);
                }
                5 => _ = scene.change(job, JobChange::Cancel(luck.one_in(2).then(|| set("0,2")))),
                6 | 7 => _ = scene.change(job, JobChange::Retry(luck.one_in(2).then(|| set("0-3")))),
                8 => jobs.extend(scene.submit_all(draw_stages(&mut luck))),
                12 | 13 => {
                    scene.change(job, JobChange::Purge(jobs.iter().copied().collect()));
                    jobs.retain(|job| scene.engine.durable().jobs().contains_key(job));
                    if jobs.is_empty() {
                        jobs.extend(scene.submit_all(draw_stages(&mut luck)));
                    }
                }
                9 | 10 if !held.is_empty() => {
                    let task = held.swap_remove(luck.below(held.len() as u64) as usize);
                    let answer = scene.fail(pilot, task.job, task.index, FailureKind::Exit { code: 1 });
                    held.extend(begun(&scene, &answer)?);
                }
                _ if held.is_empty() => {
                    let answer = scene.pull(pilot, hungry()).unwrap_or_default();
                    held.extend(begun(&scene, &answer)?);
                }
                _ => {
                    let task = held.swap_remove(luck.below(held.len() as u64) as usize);
                    let answer = scene.done(pilot, task.job, &task.index.to_string());
                    held.extend(begun(&scene, &answer)?);
                }
            }
            held.retain(|task| scene.engine.durable().jobs()[&task.job].open.contains(task.index));
            held.retain(|task| scene.engine.live.pilots[&pilot].holds(*task));
        }
        // Every open task at the end is held, ready, or depends on such a task.
        let jobs = scene.engine.durable().jobs();
        let n_open: u64 = jobs.values().map(|job| job.open.len()).sum();
        let is_any_at_hand = !held.is_empty() || !scene.engine.live.ready.is_empty();
        prop_assert!(n_open == 0 || is_any_at_hand, "{n_open} tasks wait for nothing");
    }
}

/// Returns the tasks of an answer's newest part.
fn begun(scene: &Scene, answer: &PullAnswer) -> Result<Vec<TaskId>, TestCaseError> {
    let Some(part) = answer.parts.last() else { return Ok(Vec::new()) };
    let mut tasks = Vec::new();
    for bundle in &part.bundles {
        for index in bundle.tasks.indices() {
            let task = TaskId { job: bundle.job, index };
            let is_open = scene.engine.durable().jobs()[&bundle.job].open.contains(index);
            prop_assert!(may_run(scene, task) || !is_open, "task {task} began too early");
            tasks.push(task);
        }
    }
    Ok(tasks)
}

#[test]
fn what_waits_and_what_was_given_up_say_for_which_task() {
    let mut scene = Scene::new();
    let jobs = scene.submit_all(vec![stage(3, vec![]), stage(1, vec![(On::Stage(0), Edges::All)])]);
    let pilot = scene.pilot(1);
    scene.take(pilot);
    let task = TaskId { job: jobs[1], index: 0 };
    let words = |reasons: Vec<Reason>| reasons.iter().map(ToString::to_string).collect::<Vec<_>>();
    let why = words(scene.explain(Query::ExplainTask(task)));
    assert_eq!(why, ["it waits for 3 tasks of job 1, the first is 1.0, sent ahead to pilot 1"]);
    let why = words(scene.explain(Query::ExplainJob(jobs[1])));
    assert_eq!(why[0], "1 task waits for others: job 1 has 3 open");
    scene.fail(pilot, jobs[0], 0, FailureKind::Exit { code: 1 });
    let why = words(scene.explain(Query::ExplainTask(task)));
    let expected = "it waited in vain: task 1.0 failed for good; `pilotfish retry-failed 1.0` opens that one again, and what waited for it";
    assert_eq!(why, [expected]);
}

#[test]
fn what_a_task_has_waited_for_is_told_by_each_entry_of_after() {
    let mut scene = Scene::new();
    let after = vec![
        (On::Stage(0), Edges::Groups(2)),
        (On::Stage(0), listed(&[&[], &[1, 3]])),
        (On::Stage(1), Edges::All),
    ];
    let jobs = scene.submit_all(vec![stage(5, vec![]), stage(2, vec![]), stage(3, after)]);
    let told = |scene: &mut Scene, index: u64| {
        let task = TaskId { job: jobs[2], index };
        match scene.say(|request| Event::Asked { request, query: Query::WaitedFor(task) }) {
            Some(Answer::WaitedFor(all)) => {
                all.iter().map(|(job, tasks)| format!("{job}: {tasks}")).collect::<Vec<_>>().join(", ")
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(told(&mut scene, 1), "1: 2-3, 1: 1,3, 2: 0-1");
    assert_eq!(told(&mut scene, 2), "1: 4, 1: , 2: 0-1");
    let none = scene
        .say(|request| Event::Asked { request, query: Query::WaitedFor(TaskId { job: jobs[2], index: 3 }) });
    assert!(matches!(none, Some(Answer::Refused(Refusal::NoTask(..)))), "{none:?}");
}
