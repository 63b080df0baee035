//! Profiling runs: a node for chosen jobs alone.

use super::{
    sharing::{of_user, took},
    *,
};
use crate::engine::record::co_runners::CoRunners;
use crate::policy::{Policies, bundling::Bundling};

/// Returns `n_pilots` pilots with four cores on `here`.
fn scene(n_pilots: usize) -> (Scene, Vec<PilotId>) {
    let mut scene = Scene::new();
    scene.engine.settings.policies = Policies { bundling: Bundling::Single, ..Policies::default() };
    let pilots = (0..n_pilots).map(|_| scene.pilot(4)).collect();
    (scene, pilots)
}

fn ask(scene: &mut Scene, job: JobRequest, n_slots: u64) -> Option<Answer> {
    let platform = "here".to_owned();
    scene.say(|request| Event::ProfilingAsked { request, job: Box::new(job), platform, n_slots })
}

fn profile(scene: &mut Scene, application: &str, n_tasks: u64, n_slots: u64) -> JobId {
    match ask(scene, of_user("ada", application, n_tasks), n_slots) {
        Some(Answer::Submitted { job, .. }) => job,
        other => panic!("it was answered by {other:?}"),
    }
}

/// Lets the pilot pull until it gets nothing, and returns the number of tasks of each job that it holds.
fn held(scene: &mut Scene, pilot: PilotId) -> Vec<(JobId, u64)> {
    while !scene.take(pilot).is_empty() {}
    let leases = &scene.engine.live.pilots[&pilot].leases;
    leases.iter().map(|(job, tasks)| (*job, tasks.len())).collect()
}

/// Returns the pilot whose node the only run uses.
fn node_of(scene: &Scene) -> Option<PilotId> {
    scene.engine.live.profiling.values().next()?.pilot()
}

/// Ends the first task of a job that the pilot holds.
fn one_ends(scene: &mut Scene, pilot: PilotId, job: JobId, wall_s: u64) {
    let first = scene.engine.live.pilots[&pilot].leases[&job].first().expect("it holds one");
    took(scene, pilot, job, &first.to_string(), wall_s);
}

#[test]
fn a_run_has_a_node_for_itself_once_what_was_there_has_ended() {
    let (mut scene, pilots) = scene(2);
    let others = scene.submit(of_user("bob", "search", 100));
    for pilot in &pilots {
        assert_eq!(held(&mut scene, *pilot), [(others, 4)]);
    }
    scene.change(others, JobChange::Pause);
    let run = profile(&mut scene, "docking", 3, 1);
    let other_caller = Caller { user: "bob".into(), is_operator: false };
    scene.say(|request| Event::JobChangeAsked {
        request,
        caller: other_caller,
        job: others,
        change: JobChange::Resume,
    });
    // Both pilots hold the same number of tasks and are expected to be free at the same time.
    let [node, rest] = pilots[..] else { panic!("{pilots:?}") };
    assert_eq!(node_of(&scene), Some(node));
    while let Some((_, n)) = held(&mut scene, node).first().copied().filter(|(job, _)| *job == others) {
        assert_eq!(held(&mut scene, node).len(), 1, "nothing of the run beside {n} of another");
        one_ends(&mut scene, node, others, 5);
    }
    assert_eq!(held(&mut scene, node), [(run, 1)]);
    assert_eq!(held(&mut scene, rest), [(others, 4)], "the rest is others' as before");
    for _ in 0..3 {
        one_ends(&mut scene, node, run, 5);
    }
    assert_eq!(held(&mut scene, node), [], "the next of the run may come");
    scene.wait_awake(10);
    assert_eq!(held(&mut scene, node), [(others, 4)]);
}

#[test]
fn what_tasks_take_alone_and_beside_others_is_known_as_they_end() {
    let (mut scene, pilots) = scene(1);
    let node = pilots[0];
    let known = |scene: &Scene, application: &str| {
        let platform = *scene.engine.durable().platforms().keys().next().unwrap();
        let known = scene.engine.durable().neighbours().of(platform, application);
        let all = known.into_iter().flatten();
        all.map(|(company, known)| (company.clone(), known.n, known.mean_s())).collect::<Vec<_>>()
    };
    let alone = profile(&mut scene, "docking", 100, 1);
    for _ in 0..4 {
        assert_eq!(held(&mut scene, node), [(alone, 1)]);
        scene.wait_awake(10);
        one_ends(&mut scene, node, alone, 10);
    }
    scene.wait_awake(1);
    // For two tasks it is not known yet whether their co-runners stay until they end.
    assert_eq!(known(&scene, "docking"), [(CoRunners::Nobody, 3, 10.0)]);
    scene.change(alone, JobChange::Cancel(None));
    let docking = profile(&mut scene, "docking", 100, 2);
    let search = profile(&mut scene, "search", 100, 2);
    for _ in 0..3 {
        assert_eq!(held(&mut scene, node), [(docking, 2), (search, 2)]);
        scene.wait_awake(20);
        for job in [docking, docking, search, search] {
            one_ends(&mut scene, node, job, 20);
        }
    }
    scene.wait_awake(1);
    let beside = |other: &str| CoRunners::Full(vec![other.to_owned()]);
    assert_eq!(known(&scene, "docking"), [(CoRunners::Nobody, 3, 10.0), (beside("search"), 5, 20.0)]);
    assert_eq!(known(&scene, "search").len(), 1);
}

#[test]
fn a_node_is_asked_for_and_one_that_is_lost_is_replaced() {
    let mut scene = Scene::new();
    scene.attach(platform(2, 4));
    assert!(scene.submissions().is_empty());
    let run = profile(&mut scene, "docking", 100, 2);
    let mut asked_for = scene.submissions();
    let reasons = scene.explain(Query::ExplainJob(run));
    assert!(reasons[0].to_string().contains("waits for a node of here"), "{reasons:?}");
    let mut nodes = Vec::new();
    for n in 0..2 {
        let [(allocation, tag)] = &asked_for[..] else { panic!("{asked_for:?}") };
        let (allocation, tag) = (*allocation, tag.clone());
        scene.say(|_| Event::AllocationAnswered {
            allocation,
            outcome: SubmitOutcome::Accepted(format!("b{n}")),
        });
        let node = NodeFacts { capacity: Resources::cores(4), ..NodeFacts::default() };
        let pilot = scene.register(&tag, node);
        assert_eq!(held(&mut scene, pilot), [(run, 2)]);
        let reasons = scene.explain(Query::ExplainPilot(pilot));
        let expected =
            format!("a profiling run has pilot {pilot} of here for itself: 2 tasks of job {run} at a time");
        assert!(reasons.iter().any(|reason| reason.to_string() == expected), "{reasons:?}");
        nodes.push(pilot);
        if n == 0 {
            let reason = crate::pull::LeaveReason::Told;
            scene.say(|request| Event::PilotLeft {
                request,
                pilot,
                session_nonce: None,
                report: None,
                reason,
            });
            asked_for = scene.submissions();
        }
    }
    assert_eq!(node_of(&scene), Some(nodes[1]));
}

#[test]
fn one_user_at_a_time_measures_on_a_platform_that_does_not_rest() {
    let (mut scene, pilots) = scene(1);
    let refused = |answer: Option<Answer>| match answer {
        Some(Answer::Refused(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    };
    let run = profile(&mut scene, "docking", 100, 2);
    assert_eq!(held(&mut scene, pilots[0]), [(run, 2)]);
    let answer = ask(&mut scene, of_user("bob", "search", 3), 1);
    assert!(refused(answer).contains("a profiling run of ada is under way on \"here\""));
    // A pilot that still holds tasks of the run completes them.
    let mode = PlatformChange::Mode(PlatformMode::Paused);
    scene.say(|request| Event::PlatformChangeAsked { request, platform: "here".into(), change: mode });
    assert_eq!(held(&mut scene, pilots[0]), [(run, 4)]);
    let answer = ask(&mut scene, of_user("ada", "docking", 3), 1);
    assert_eq!(
        refused(answer),
        "platform \"here\" is paused, drained or detached; `pilotfish platform resume here` lets it go on"
    );
    let wide = JobRequest { needs: TaskNeeds { resources: Resources::cores(5), ..job(1).needs }, ..job(1) };
    assert_eq!(
        refused(ask(&mut scene, wide, 1)),
        "a node of \"here\" has not the room or the time for a task"
    );
    let platform = "there".to_owned();
    let job = Box::new(job(1));
    let answer = scene.say(|request| Event::ProfilingAsked { request, job, platform, n_slots: 1 });
    assert_eq!(refused(answer), "there is no platform \"there\"");
}

#[test]
fn a_restart_ends_runs_and_loses_no_task() {
    let (mut scene, pilots) = scene(1);
    let run = profile(&mut scene, "docking", 2, 1);
    assert_eq!(held(&mut scene, pilots[0]), [(run, 1)]);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    let asked = scene.pull(pilots[0], Pull { epoch: 2, ..hungry() }).and_then(|answer| answer.resync);
    let held =
        crate::pull::Held { job: run, queued: TaskSet::new(), running: set("0"), unreported: TaskSet::new() };
    let holds = crate::pull::Holdings { asked: asked.unwrap_or(0), tasks: vec![held], templates: vec![] };
    scene.pull(pilots[0], Pull { epoch: 2, part_seen: 0, holds: Some(holds), ..hungry() });
    assert_eq!(scene.counts(run), "active w0 p2 d0 f0 c0");
}

#[test]
fn whoever_comes_after_a_run_has_its_node() {
    let (mut scene, pilots) = scene(1);
    let run = profile(&mut scene, "docking", 1, 1);
    assert_eq!(held(&mut scene, pilots[0]), [(run, 1)]);
    one_ends(&mut scene, pilots[0], run, 5);
    for _ in 0..2 {
        let answer = ask(&mut scene, of_user("bob", "search", 1), 1);
        assert!(matches!(answer, Some(Answer::Submitted { .. })), "{answer:?}");
    }
    let answer = ask(&mut scene, of_user("ada", "docking", 1), 1);
    assert!(matches!(answer, Some(Answer::Refused(Refusal::Profiles { .. }))), "{answer:?}");
}

#[test]
fn another_node_is_asked_for_where_none_has_time_enough() {
    let mut scene = Scene::new();
    let spec = PlatformSpec { walltime: Some(Span::from_secs(1000)), ..platform(2, 4) };
    scene.attach(spec);
    let long = |n_tasks| JobRequest {
        needs: TaskNeeds { time_limit: Some(Span::from_secs(800)), ..job(1).needs },
        ..of_user("ada", "docking", n_tasks)
    };
    let others = scene.submit(of_user("bob", "search", 1));
    let (allocation, tag) = scene.submissions().pop().expect("it is asked for");
    scene.say(|_| Event::AllocationAnswered { allocation, outcome: SubmitOutcome::Accepted("b".into()) });
    let left = Some(Span::from_secs(1000));
    let node = NodeFacts { capacity: Resources::cores(4), walltime_left: left, ..NodeFacts::default() };
    let pilot = scene.register(&tag, node);
    assert_eq!(held(&mut scene, pilot), [(others, 1)]);
    scene.now = scene.now + Span::from_secs(300);
    scene.pull(pilot, hungry());
    let answer = ask(&mut scene, long(4), 1);
    assert!(matches!(answer, Some(Answer::Submitted { .. })), "{answer:?}");
    assert_eq!(scene.submissions().len(), 1, "{:?}", scene.effects);
}

#[test]
fn a_run_takes_the_node_that_is_free_first_whatever_it_holds() {
    let (mut scene, pilots) = scene(2);
    let limited = |seconds| TaskNeeds { time_limit: Some(Span::from_secs(seconds)), ..job(1).needs };
    let long = scene.submit(JobRequest { needs: limited(36_000), ..of_user("bob", "search", 1) });
    assert_eq!(held(&mut scene, pilots[0]), [(long, 1)]);
    let short = scene.submit(JobRequest { needs: limited(60), ..of_user("bob", "sort", 4) });
    assert_eq!(held(&mut scene, pilots[1]), [(short, 4)]);
    profile(&mut scene, "docking", 3, 1);
    assert_eq!(node_of(&scene), Some(pilots[1]));
}

#[test]
fn a_run_uses_no_more_than_its_users_budget() {
    let (mut scene, pilots) = scene(1);
    let limits =
        PlatformLimits { user_core_time_max: Some(Span::from_secs(100)), ..PlatformLimits::default() };
    let change = PlatformChange::Limits { n_pilots_max: 1, limits };
    scene.say(|request| Event::PlatformChangeAsked { request, platform: "here".into(), change });
    let needs = TaskNeeds { time_limit: Some(Span::from_secs(60)), ..job(1).needs };
    ask(&mut scene, JobRequest { needs, ..of_user("ada", "docking", 100) }, 4);
    let n_held: u64 = held(&mut scene, pilots[0]).iter().map(|(_, n)| n).sum();
    assert_eq!(n_held, 1, "a second one might take what is left, and more");
}

#[test]
fn a_run_has_no_two_last_chances_at_a_time() {
    let (mut scene, pilots) = scene(1);
    let run = profile(&mut scene, "docking", 4, 4);
    assert_eq!(held(&mut scene, pilots[0]), [(run, 4)]);
    scene.pull(pilots[0], Pull { running: vec![(run, set("0-3"))], ..hungry() });
    scene.wait_awake(200);
    let pilot = scene.pilot(4);
    assert_eq!(scene.engine.live.last_chances[&run], set("0-3"));
    for _ in 0..4 {
        assert_eq!(held(&mut scene, pilot), [(run, 1)]);
        one_ends(&mut scene, pilot, run, 1);
    }
}
