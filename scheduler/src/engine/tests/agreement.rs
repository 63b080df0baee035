//! Pilots whose state differs from the manager's, and impostors that use their sessions.

use super::*;
use crate::{
    engine::interface::notice::Doubt,
    pull::{Held, Holdings, Tally},
};

/// Returns a pilot with two cores that registered some time after the manager's start and was sent two of the
/// tasks.
fn scene_of(n_tasks: u64) -> (Scene, JobId, PilotId) {
    let mut scene = Scene::new();
    scene.wait(1);
    let job = scene.submit(job(n_tasks));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    (scene, job, pilot)
}

fn successes(job: JobId, tasks: &str) -> JobReport {
    let attempts = set(tasks).indices().map(|index| (index, 0, Usage::default())).collect();
    JobReport { successes: Successes::from_attempts(attempts), ..JobReport::new(job) }
}

fn report(seq: u64, jobs: Vec<JobReport>) -> Pull {
    Pull { report: Some(Report { seq, jobs }), part_seen: 1, ..hungry() }
}

fn tally(number: u64, acknowledged: u64, n_held: u64) -> Option<Tally> {
    Some(Tally { number, acknowledged, n_held })
}

fn telling(asked: Option<u64>, job: JobId, running: &str, unreported: &str) -> Pull {
    let set = |text: &str| if text.is_empty() { TaskSet::new() } else { set(text) };
    let held = Held { job, queued: TaskSet::new(), running: set(running), unreported: set(unreported) };
    let holds = Holdings { asked: asked.expect("it is asked"), tasks: vec![held], templates: vec![job] };
    Pull { holds: Some(holds), part_seen: 1, ..hungry() }
}

fn doubts(scene: &Scene) -> Vec<Doubt> {
    let doubt = |effect: &Effect| match effect {
        Effect::Notify(Notice::PilotDoubted { what, .. }) => Some(*what),
        _ => None,
    };
    scene.effects.iter().filter_map(doubt).collect()
}

#[test]
fn a_report_whose_number_jumps_is_refused_and_answered_with_the_right_one() {
    let (mut scene, job, pilot) = scene_of(2);
    let answer = scene.pull(pilot, report(1001, vec![successes(job, "0-1")])).unwrap();
    assert_eq!((answer.acknowledged, answer.resync.is_some()), (0, true));
    assert_eq!(doubts(&scene), [Doubt::Number { found: 1001, expected: 1 }]);
    assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0", "nothing of it is taken, and nothing is lost");
    let again = scene.pull(pilot, report(1001, vec![successes(job, "0-1")])).unwrap();
    assert_eq!((again.acknowledged, doubts(&scene)), (0, vec![]), "that is told once");
    scene.pull(pilot, telling(again.resync, job, "1", "0"));
    let jump = scene.pull(pilot, report(3, vec![successes(job, "0")])).unwrap();
    assert_eq!(jump.acknowledged, 0, "what it says that it holds lets it skip none");
    scene.pull(pilot, telling(jump.resync, job, "1", "0"));
    let right = scene.pull(pilot, report(1, vec![successes(job, "0")])).unwrap();
    assert_eq!((right.acknowledged, right.resync), (1, None));
    assert_eq!(scene.counts(job), "active w0 p1 d1 f0 c0");
}

#[test]
fn reports_of_a_pilot_of_before_go_on_after_what_the_store_forgot_and_only_there() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(4);
    scene.take(pilot);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    let of_2 = |pull| Pull { epoch: 2, ..pull };
    let asked = scene.pull(pilot, of_2(hungry())).and_then(|answer| answer.resync);
    // The manager before the restart had acknowledged eight reports.
    scene.pull(pilot, Pull { epoch: 2, tally: tally(1, 8, 4), ..telling(asked, job, "1-3", "0") });
    let wrong = scene.pull(pilot, of_2(report(7, vec![successes(job, "0")]))).unwrap();
    assert_eq!(wrong.acknowledged, 0, "one that came late");
    scene.pull(pilot, Pull { epoch: 2, tally: tally(2, 8, 4), ..telling(wrong.resync, job, "1-3", "0") });
    let right = scene.pull(pilot, of_2(report(9, vec![successes(job, "0")]))).unwrap();
    assert_eq!((right.acknowledged, right.resync), (9, None));
    let wrong = scene.pull(pilot, of_2(report(11, vec![successes(job, "1")]))).unwrap();
    assert_eq!(wrong.acknowledged, 9, "there is no second gap");
}

#[test]
fn what_a_pilot_does_not_hold_runs_elsewhere() {
    let (mut scene, job, pilot) = scene_of(2);
    let other = scene.pilot(2);
    assert_eq!(scene.take(other), []);
    // An impostor has reported with the pilot's session, or has taken its tasks from the manager.
    let answer = scene.pull(pilot, Pull { part_seen: 1, tally: tally(1, 0, 0), ..hungry() }).unwrap();
    assert!(answer.resync.is_some());
    assert_eq!((doubts(&scene), scene.take(other)), (vec![Doubt::Step], vec![]), "not before it has said so");
    let none = Pull { is_hungry: false, ..telling(answer.resync, job, "", "") };
    assert_eq!(scene.pull(pilot, none).unwrap().resync, None);
    assert_eq!(scene.take(other), [(1, "0-1".into())]);
}

#[test]
fn parts_that_somebody_else_confirmed_do_not_leave_a_pilot_waiting() {
    let (mut scene, job, pilot) = scene_of(2);
    scene.pull(pilot, Pull { part_seen: 1, ..hungry() });
    let answer = scene.pull(pilot, Pull { part_seen: 0, tally: tally(1, 0, 0), ..hungry() }).unwrap();
    let again = Pull { part_seen: 0, tally: tally(2, 0, 0), ..telling(answer.resync, job, "", "") };
    assert_eq!(bundles(&scene.pull(pilot, again).unwrap()), [(1, "0-1".into())], "it gets them anew");
    let seen_more = Pull { part_seen: 9, tally: tally(3, 0, 2), ..hungry() };
    assert!(scene.pull(pilot, seen_more).unwrap().resync.is_some(), "it was sent no nine parts");
}

#[test]
fn what_runs_without_a_lease_is_killed() {
    let (mut scene, job, pilot) = scene_of(4);
    let running = vec![(job, set("1-2"))];
    let asks = Pull { part_seen: 1, running, tally: tally(1, 0, 2), ..hungry() };
    let answer = scene.pull(pilot, asks).unwrap();
    let tells = telling(answer.resync, job, "1-2", "");
    let told = scene.pull(pilot, Pull { is_hungry: false, ..tells }).unwrap();
    assert!(commands(&told).contains(&PilotCommand::Kill { job, tasks: set("2") }), "{told:?}");
    assert_eq!(scene.counts(job), "active w3 p1 d0 f0 c0", "and what it did not name is ready again");
}

#[test]
fn pulls_that_were_overtaken_put_nobody_out_of_step() {
    let (mut scene, job, pilot) = scene_of(2);
    scene.pull(pilot, Pull { tally: tally(2, 0, 2), ..report(1, vec![successes(job, "0")]) });
    let running = vec![(job, set("0-1"))];
    for (part_seen, number, n_held) in [(0, 1, 0), (1, 1, 2), (1, 3, 2), (1, 4, 9)] {
        let pull = Pull { part_seen, running: running.clone(), tally: tally(number, 0, n_held), ..hungry() };
        assert_eq!(scene.pull(pilot, pull).unwrap().resync, None, "pull {number}");
    }
    let agrees = Pull { part_seen: 1, running: vec![(job, set("1"))], tally: tally(5, 1, 1), ..hungry() };
    assert_eq!(scene.pull(pilot, agrees).unwrap().resync, None);
}

#[test]
fn results_of_tasks_that_a_pilot_was_not_leased_are_refused_and_the_rest_of_its_report_is_taken() {
    let (mut scene, job, pilot) = scene_of(6);
    let other = scene.pilot(2);
    assert_eq!(scene.take(other), [(1, "2-3".into())]);
    let mut forged = successes(job, "0,2,5");
    let failure = |index| Failure { index, kind: FailureKind::Exit { code: 1 }, usage: Usage::default() };
    forged.failures = vec![failure(1), failure(3), failure(4)];
    forged.outputs =
        [0, 2].map(|index| TaskOutput { index, stdout: b"forged".to_vec(), stderr: Vec::new() }).to_vec();
    let answer = scene.pull(other, report(1, vec![forged])).unwrap();
    assert_eq!(answer.acknowledged, 1);
    assert_eq!(doubts(&scene), [Doubt::NotLeased { job, n_tasks: 4 }]);
    assert_eq!(
        scene.counts(job),
        "active w0 p4 d1 f1 c0",
        "task 2 is done, task 3 has failed, others follow"
    );
    let Some(Record::Reported { results, .. }) = scene.records.last() else { panic!("no report was kept") };
    assert_eq!(results[0].outputs.iter().map(|output| output.index).collect::<Vec<_>>(), [2]);
    scene.pull(pilot, report(1, vec![successes(job, "0-1")]));
    assert_eq!(scene.counts(job), "active w0 p2 d3 f1 c0", "whose they are they are taken of");
    let status = scene.say(|request| Event::Asked { request, query: Query::Status });
    assert!(matches!(status, Some(Answer::Status(status)) if status.n_results_refused == 4));
}

#[test]
fn nobody_gives_away_or_returns_what_others_hold() {
    let (mut scene, job, pilot) = scene_of(4);
    let other = scene.pilot(2);
    scene.take(other);
    let mut forged = JobReport::new(job);
    (forged.returned, forged.given) = (set("0-1"), vec![(other, set("0-1"))]);
    scene.pull(other, report(1, vec![forged]));
    assert_eq!(doubts(&scene), [Doubt::NotLeased { job, n_tasks: 2 }]);
    scene.pull(pilot, report(1, vec![successes(job, "0-1")]));
    assert_eq!(scene.counts(job), "active w0 p2 d2 f0 c0");
}

#[test]
fn what_a_pilot_that_was_given_up_has_done_is_taken_when_it_comes_back() {
    let (mut scene, job, pilot) = scene_of(2);
    scene.wait_awake(200);
    assert_eq!(scene.counts(job), "active w2 p0 d0 f0 c0");
    let other = scene.pilot(2);
    assert_eq!(scene.take(other), [(1, "0".into())], "with care");
    let pull = report(1, vec![successes(job, "0")]);
    let asked = scene.pull(pilot, pull.clone()).and_then(|answer| answer.resync);
    let told = scene.pull(pilot, Pull { report: pull.report, ..telling(asked, job, "", "0") }).unwrap();
    assert_eq!((told.acknowledged, doubts(&scene)), (1, vec![]));
    assert!(scene.counts(job).ends_with(" d1 f0 c0"), "{}", scene.counts(job));
    // It says the same of a task that it never had.
    scene.wait_awake(200);
    let second = scene.submit(super::job(1));
    let asked = scene.pull(pilot, hungry()).and_then(|answer| answer.resync);
    let pull = Pull { is_hungry: false, ..report(2, vec![successes(second, "0")]) };
    let told = telling(asked, second, "", "0");
    scene.pull(pilot, Pull { report: pull.report, is_hungry: false, ..told }).unwrap();
    assert_eq!(doubts(&scene), [Doubt::NotLeased { job: second, n_tasks: 1 }]);
    assert_eq!(scene.counts(second), "active w1 p0 d0 f0 c0");
}

#[test]
fn a_pilot_that_comes_back_when_its_job_is_over_is_not_doubted() {
    let (mut scene, job, pilot) = scene_of(2);
    scene.wait_awake(200);
    let other = scene.pilot(2);
    let mut given = scene.take(other);
    for seq in [1, 2] {
        let tasks = given.remove(0).1;
        given = bundles(&scene.pull(other, report(seq, vec![successes(job, &tasks)])).unwrap());
    }
    assert_eq!(scene.counts(job), "done w0 p0 d2 f0 c0");
    let asked = scene.pull(pilot, hungry()).and_then(|answer| answer.resync);
    let pull = report(1, vec![successes(job, "0")]);
    let told = scene.pull(pilot, Pull { report: pull.report, ..telling(asked, job, "1", "0") }).unwrap();
    assert_eq!((told.acknowledged, doubts(&scene)), (1, vec![]));
    assert!(commands(&told).contains(&PilotCommand::Kill { job, tasks: set("1") }), "{told:?}");
    // It must not mention a task again that it has answered for.
    scene.wait_awake(200);
    let asked = scene.pull(pilot, hungry()).and_then(|answer| answer.resync);
    scene.pull(pilot, telling(asked, job, "", "0"));
    assert_eq!(doubts(&scene), [Doubt::NotLeased { job, n_tasks: 1 }]);
}

#[test]
fn a_pilot_of_before_is_taken_at_its_word_once_and_about_jobs_of_before() {
    let mut scene = Scene::new();
    let first = scene.submit(job(4));
    let pilot = scene.pilot(4);
    scene.take(pilot);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.wait(1);
    let second = scene.submit(job(4));
    let of_2 = |pull| Pull { epoch: 2, is_hungry: false, ..pull };
    let asked = scene.pull(pilot, of_2(hungry())).and_then(|answer| answer.resync);
    let mut tells = telling(asked, first, "", "0");
    let of_second = telling(asked, second, "", "1").holds.map(|holds| holds.tasks).unwrap_or_default();
    tells.tally = tally(1, 0, 1);
    tells.holds.iter_mut().for_each(|holds| holds.tasks.extend(of_second.clone()));
    scene.pull(pilot, of_2(tells));
    assert_eq!(doubts(&scene), [Doubt::NotLeased { job: second, n_tasks: 1 }]);
    let wrong = scene.pull(pilot, of_2(report(7, vec![]))).unwrap();
    scene.pull(pilot, of_2(telling(wrong.resync, first, "", "0-3")));
    let both = vec![successes(first, "0-3"), successes(second, "1")];
    assert_eq!(scene.pull(pilot, of_2(report(1, both))).unwrap().acknowledged, 1);
    assert_eq!(scene.counts(first), "active w3 p0 d1 f0 c0", "what it told first");
    assert_eq!(scene.counts(second), "active w4 p0 d0 f0 c0");
}

#[test]
fn a_pilot_whose_registration_the_store_has_forgotten_is_asked_what_it_has_done() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 2));
    let job = scene.submit(job(2));
    let (allocation, tag) = scene.submissions().remove(0);
    scene.say(|_| Event::AllocationAnswered { allocation, outcome: SubmitOutcome::Accepted("7".into()) });
    scene.now = scene.now + Span::from_secs(100);
    // The pilot registered and was sent tasks after the backup.
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.wait(1);
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    let registration =
        Box::new(Registration { tag, nonce: 4, node, uptime: Span::from_secs(50), predecessor: None });
    let answer = scene.say(|request| Event::PilotRegistered { request, registration });
    let Some(Answer::Registered(registered)) = answer else { panic!("{answer:?}") };
    let pilot = registered.pilot;
    let of_2 = |pull| Pull { epoch: 2, ..pull };
    let asked = scene.pull(pilot, of_2(report(3, vec![successes(job, "0")]))).and_then(|a| a.resync);
    let tells = Pull { tally: tally(1, 2, 2), ..telling(asked, job, "1", "0") };
    scene.pull(pilot, of_2(tells));
    let answer = scene.pull(pilot, of_2(report(3, vec![successes(job, "0")]))).unwrap();
    assert_eq!((answer.acknowledged, &*scene.counts(job)), (3, "active w0 p1 d1 f0 c0"));
}

/// Returns the answer to a pull with the session of the first registration, or with another one.
fn answered(scene: &mut Scene, pilot: PilotId, session: u64) -> Option<Answer> {
    let pull = Box::new(Pull { session_nonce: Some(session), ..hungry() });
    scene.say(|request| Event::Pulled { request, pilot, pull })
}

fn register_as(scene: &mut Scene, pilot: PilotId, nonce: u64) -> Option<Answer> {
    let held = &scene.engine.durable().pilots()[&pilot];
    let (allocation, node) = (held.allocation, held.node.clone());
    let tag = scene.engine.durable().allocations()[&allocation].tag.clone();
    let registration = Box::new(Registration { tag, nonce, node, uptime: Span::ZERO, predecessor: None });
    scene.say(|request| Event::PilotRegistered { request, registration })
}

#[test]
fn the_session_of_a_pilot_that_was_given_up_has_ended_and_it_registers_again_with_its_results() {
    let (mut scene, job, pilot) = scene_of(2);
    let nonce = scene.engine.durable().pilots()[&pilot].nonce;
    scene.wait_awake(200);
    let ended = Some(Answer::Refused(Refusal::SessionEnded(pilot)));
    assert_eq!(answered(&mut scene, pilot, nonce), ended);
    let query = Query::Session(pilot, nonce);
    assert_eq!(scene.say(|request| Event::Asked { request, query }), ended, "nor does it fetch files");
    assert!(!scene.engine.durable().pilots()[&pilot].is_live(), "speaking does not bring it back");
    let Some(Answer::Registered(again)) = register_as(&mut scene, pilot, nonce) else {
        panic!("it is refused")
    };
    assert_eq!((again.pilot, again.acknowledged), (pilot, 0));
    assert_ne!(again.session, nonce);
    assert_eq!(answered(&mut scene, pilot, nonce), ended, "what was sent with the old session comes late");
    let Some(Answer::Pull(answer)) = answered(&mut scene, pilot, again.session) else {
        panic!("it is refused")
    };
    let report = Some(Report { seq: 1, jobs: vec![successes(job, "0")] });
    scene.pull(
        pilot,
        Pull { report, session_nonce: Some(again.session), ..telling(answer.resync, job, "1", "0") },
    );
    assert_eq!(scene.counts(job), "active w0 p1 d1 f0 c0");
    let Some(Answer::Registered(same)) = register_as(&mut scene, pilot, nonce) else {
        panic!("it is refused")
    };
    assert_eq!((same.pilot, same.session), (pilot, again.session), "an answer that was lost");
}

#[test]
fn who_has_said_goodbye_does_not_come_back() {
    let (mut scene, job, pilot) = scene_of(2);
    let nonce = scene.engine.durable().pilots()[&pilot].nonce;
    let reason = crate::pull::LeaveReason::Told;
    let leave =
        |request| Event::PilotLeft { request, pilot, session_nonce: Some(nonce), report: None, reason };
    assert_eq!(scene.say(leave), Some(Answer::Left));
    let ended = Some(Answer::Refused(Refusal::SessionEnded(pilot)));
    assert_eq!(scene.say(leave), ended, "it hears that it has left");
    assert_eq!(answered(&mut scene, pilot, nonce), ended);
    let refused = register_as(&mut scene, pilot, nonce);
    assert!(matches!(refused, Some(Answer::Refused(Refusal::NoAllocation(_)))), "{refused:?}");
    assert_eq!(scene.counts(job), "active w2 p0 d0 f0 c0");
}

#[test]
fn a_session_ends_with_the_batch_job() {
    let (mut scene, _, pilot) = scene_of(2);
    let nonce = scene.engine.durable().pilots()[&pilot].nonce;
    scene.wait_awake(20);
    let (platform, asked_at) = (crate::ids::PlatformId(1), scene.now);
    scene.now = scene.now + Span::from_millis(10);
    let allocation = scene.engine.durable().pilots()[&pilot].allocation;
    let held = scene.engine.durable().allocations()[&allocation].clone();
    let ended = ListedAllocation {
        tag: held.tag,
        batch_id: held.batch_id.unwrap_or_default(),
        is_ended: true,
        ..ListedAllocation::default()
    };
    scene.say(|_| Event::PlatformListed { platform, asked_at, result: Ok(vec![ended]) });
    assert_eq!(answered(&mut scene, pilot, nonce), Some(Answer::Refused(Refusal::SessionEnded(pilot))));
}

#[test]
fn a_pilot_that_serves_a_later_life_is_neither_commanded_nor_given_up() {
    let (mut scene, job, pilot) = scene_of(2);
    for n in 0..10 {
        scene.wait_awake(30);
        let pull = Box::new(Pull { epoch: 2, ..hungry() });
        let answer = scene.say(|request| Event::Pulled { request, pilot, pull });
        assert_eq!(answer, Some(Answer::Refused(Refusal::OtherLife(pilot))));
        assert_eq!(doubts(&scene).len(), usize::from(n == 0), "that is told once");
        assert!(!scene.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. })));
    }
    assert!(scene.engine.durable().pilots()[&pilot].is_live());
    assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0");
}
