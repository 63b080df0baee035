//! Tasks that a pilot gives to another pilot.

use super::*;
use crate::policy::{Policies, stealing::PilotStealing};

/// Returns a report that gives these tasks to that pilot.
fn gift(job: JobId, to: PilotId, tasks: &str) -> JobReport {
    JobReport { given: vec![(to, set(tasks))], ..JobReport::new(job) }
}

fn holds(scene: &Scene, pilot: PilotId) -> String {
    let state = scene.engine.live.pilots.get(&pilot);
    state.map_or_else(String::new, |state| state.leases.values().map(ToString::to_string).collect())
}

/// Returns a job whose tasks 0 to 3 the first of two pilots holds, while the second has a parked pull.
fn two() -> (Scene, JobId, PilotId, PilotId) {
    let mut scene = Scene::new();
    let (giver, other) = (scene.pilot(4), scene.pilot(4));
    let id = scene.submit(job(4));
    assert_eq!(scene.take(giver), [(id.0, "0-3".to_owned())]);
    assert_eq!(scene.pull(other, parked()), None);
    (scene, id, giver, other)
}

/// A job, its tasks, the number of templates sent with them, and the attempts that are not the first.
type Sent = (u64, String, usize, Vec<(u64, u32)>);

/// Returns the tasks sent in this step as gifts of another pilot, with templates and attempts.
fn sent(scene: &Scene) -> Vec<Sent> {
    let answers = scene.effects.iter().filter_map(|effect| match effect {
        Effect::Answer { answer: Answer::Pull(answer), .. } => Some(answer),
        _ => None,
    });
    let parts: Vec<_> = answers.flat_map(|answer| &answer.parts).collect();
    let bundles =
        parts.iter().flat_map(|part| part.bundles.iter().map(|bundle| (bundle, part.templates.len())));
    let given = bundles.filter(|(bundle, _)| bundle.is_given);
    given.map(|(bundle, n)| (bundle.job.0, bundle.tasks.to_string(), n, bundle.tried.clone())).collect()
}

#[test]
fn a_given_task_is_its_new_holders_at_once_and_is_sent_to_its_parked_pull() {
    let (mut scene, id, giver, other) = two();
    let answer = scene.report(giver, gift(id, other, "2-3"));
    assert_eq!(bundles(&answer), []);
    assert_eq!(sent(&scene), [(id.0, "2-3".into(), 1, vec![])]);
    assert_eq!((holds(&scene, giver), holds(&scene, other)), ("0-1".into(), "2-3".into()));
    for (pilot, n_taken, n_given) in [(giver, 0, 2), (other, 2, 0)] {
        let reasons = scene.explain(Query::ExplainPilot(pilot));
        assert!(reasons.contains(&Reason::PilotTook { n_taken, n_given }), "{reasons:?}");
    }
    assert_eq!(scene.counts(id), "active w0 p4 d0 f0 c0");
    scene.done(giver, id, "0-1");
    scene.done(other, id, "2-3");
    assert_eq!(scene.counts(id), "done w0 p0 d4 f0 c0");
}

#[test]
fn a_task_goes_with_the_number_of_its_attempt() {
    let mut scene = Scene::new();
    let giver = scene.pilot(1);
    let id = scene.submit(JobRequest { retries: 3, ..job(1) });
    scene.take(giver);
    let answer = scene.fail(giver, id, 0, FailureKind::Exit { code: 1 });
    assert_eq!(bundles(&answer), [(id.0, "0".to_owned())], "no other can run it");
    let other = scene.pilot(1);
    assert_eq!(scene.pull(other, parked()), None);
    scene.report(giver, gift(id, other, "0"));
    assert_eq!(sent(&scene), [(id.0, "0".into(), 1, vec![(0, 2)])]);
}

#[test]
fn what_is_given_to_nobody_who_may_have_it_is_ready_for_all() {
    type Spoil = fn(&mut Scene, JobId, PilotId, PilotId) -> PilotId;
    let spoilt: [(&str, Spoil); 8] = [
        ("nobody", |_, _, _, _| PilotId(99)),
        ("itself", |_, _, giver, _| giver),
        ("one that left", |scene, _, _, other| {
            let (session_nonce, report, reason) = (None, None, crate::pull::LeaveReason::Told);
            scene.say(|request| Event::PilotLeft { request, pilot: other, session_nonce, report, reason });
            other
        }),
        ("one that takes nothing", |scene, _, _, other| {
            scene.pull(other, Pull { is_hungry: false, ..parked() });
            other
        }),
        ("one that does not listen", |scene, _, _, _| scene.pilot(4)),
        ("one that is too small", |scene, _, _, _| {
            let small = scene.pilot_on(NodeFacts { capacity: Resources::cores(0), ..NodeFacts::default() });
            scene.pull(small, parked());
            small
        }),
        ("one of another platform", |scene, _, _, _| {
            scene.attach(PlatformSpec { name: "there".into(), n_pilots_min: 1, ..platform(1, 4) });
            let (allocation, tag) = scene.submissions().pop().expect("a minimum of pilots is asked for");
            let outcome = SubmitOutcome::Accepted("b9".into());
            scene.say(|_| Event::AllocationAnswered { allocation, outcome });
            let there =
                scene.register(&tag, NodeFacts { capacity: Resources::cores(4), ..NodeFacts::default() });
            scene.pull(there, parked());
            there
        }),
        ("one of a paused job", |scene, id, _, other| {
            scene.change(id, JobChange::Pause);
            other
        }),
    ];
    for (word, spoil) in spoilt {
        let (mut scene, id, giver, other) = two();
        let to = spoil(&mut scene, id, giver, other);
        let report = Some(Report { seq: 1, jobs: vec![gift(id, to, "2-3")] });
        scene.pull(giver, Pull { report, is_hungry: false, ..hungry() });
        assert_eq!((holds(&scene, giver), sent(&scene)), ("0-1".into(), vec![]), "{word}");
        let counts = scene.counts(id);
        assert!(counts.contains("w2 p2") || counts.contains("w0 p4"), "{word}: {counts}");
    }
}

#[test]
fn a_report_that_comes_again_gives_nothing_again() {
    let (mut scene, id, giver, other) = two();
    let report = || Some(Report { seq: 1, jobs: vec![gift(id, other, "3")] });
    scene.pull(giver, Pull { report: report(), ..hungry() });
    scene.done(other, id, "3");
    scene.pull(giver, Pull { report: report(), ..hungry() });
    assert_eq!(scene.counts(id), "active w0 p3 d1 f0 c0");
}

#[test]
fn what_is_given_twice_goes_to_the_first_and_what_is_not_held_to_nobody() {
    let (mut scene, id, giver, other) = two();
    let third = scene.pilot(4);
    scene.pull(third, parked());
    let given = vec![(other, set("2-3")), (third, set("1-9"))];
    scene.report(giver, JobReport { given, ..JobReport::new(id) });
    assert_eq!((holds(&scene, other), holds(&scene, third)), ("2-3".into(), "1".into()));
    scene.report(giver, gift(id, third, "2-3"));
    assert_eq!((holds(&scene, other), holds(&scene, third)), ("2-3".into(), "1".into()));
}

#[test]
fn a_given_task_is_ready_again_when_who_got_it_is_lost() {
    let (mut scene, id, giver, other) = two();
    scene.report(giver, gift(id, other, "2-3"));
    for _ in 0..3 {
        scene.wait_awake(70);
        scene.pull(giver, Pull { is_hungry: false, ..hungry() });
    }
    assert!(holds(&scene, other).is_empty() && scene.counts(id).starts_with("active w2 p2"));
}

#[test]
fn who_is_to_have_a_task_that_is_cancelled_then_is_told_to_end_it() {
    let (mut scene, id, giver, other) = two();
    scene.report(giver, gift(id, other, "2-3"));
    scene.change(id, JobChange::Cancel(Some(set("3"))));
    let answer = scene.pull(other, Pull { part_seen: 0, ..hungry() }).expect("an answer");
    assert_eq!(commands(&answer), [PilotCommand::Kill { job: id, tasks: set("3") }]);
    assert!(answer.parts[0].commands.is_empty(), "it is told after the part that brought it");
}

/// Returns the stealing policies that commands set.
fn told(answer: &PullAnswer) -> Vec<PilotStealing> {
    let policies = commands(answer).into_iter().filter_map(|command| match command {
        PilotCommand::Steal { policy } => Some(policy),
        _ => None,
    });
    policies.collect()
}

#[test]
fn pilots_are_told_by_which_policy_they_steal_when_they_come_and_when_it_changes() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    let answer = scene.pull(pilot, hungry()).expect("an answer");
    assert_eq!(told(&answer), [], "nothing is what they do before they are told");
    let before = Policies::default();
    let set = |scene: &mut Scene, before: Policies, stealing| {
        let policies = Policies { stealing, ..before };
        scene.say(|request| Event::PoliciesAsked { request, by: "ada".into(), before, policies });
        policies
    };
    let flds = set(&mut scene, before, PilotStealing::Flds);
    assert_eq!(told(&scene.pull(pilot, hungry()).expect("an answer")), [PilotStealing::Flds]);
    let other = scene.pilot(1);
    assert_eq!(told(&scene.pull(other, hungry()).expect("an answer")), [PilotStealing::Flds]);
    set(&mut scene, flds, PilotStealing::None);
    assert_eq!(told(&scene.pull(pilot, hungry()).expect("an answer")), [PilotStealing::None]);
}

/// Returns the pilots to which commands say to give tasks.
fn asked(answer: &PullAnswer) -> Vec<PilotId> {
    let thieves = commands(answer).into_iter().filter_map(|command| match command {
        PilotCommand::Give { to } => Some(to),
        _ => None,
    });
    thieves.collect()
}

#[test]
fn who_cannot_reach_others_has_the_one_asked_at_which_most_waits() {
    let mut scene = Scene::new();
    let [few, many, thief] = [1, 4, 1].map(|cores| scene.pilot(cores));
    let id = scene.submit(job(5));
    assert_eq!(scene.take(many), [(id.0, "0-3".to_owned())]);
    assert_eq!(scene.take(few), [(id.0, "4".to_owned())]);
    assert_eq!(scene.pull(thief, parked()), None);
    let hunt = |scene: &mut Scene, pilot, nonce| {
        scene.say(|request| Event::HuntAsked { request, pilot, session_nonce: nonce })
    };
    assert_eq!(hunt(&mut scene, thief, Some(12345)), Some(Answer::Refused(Refusal::SessionEnded(thief))));
    assert_eq!(hunt(&mut scene, PilotId(99), None), Some(Answer::Refused(Refusal::NoPilot(PilotId(99)))));
    let passed_on = |is_any_asked| Some(Answer::HuntPassedOn { is_any_asked });
    let later = |scene: &mut Scene| scene.now = scene.now + Span::from_millis(10);
    let pull = |scene: &mut Scene, pilot, part_seen| scene.pull(pilot, Pull { part_seen, ..hungry() });
    let told = |answer: Option<PullAnswer>| asked(&answer.expect("an answer"));
    assert_eq!(hunt(&mut scene, thief, None), passed_on(true));
    assert_eq!(told(pull(&mut scene, many, 1)), [thief]);
    assert_eq!(hunt(&mut scene, thief, None), passed_on(false), "not twice in a moment");
    // The pilot has given nothing: the other one is next.
    pull(&mut scene, many, 2);
    later(&mut scene);
    assert_eq!(hunt(&mut scene, thief, None), passed_on(true));
    assert_eq!(told(pull(&mut scene, few, 1)), [thief]);
    // Both were asked in vain: the one with more waiting tasks is asked again.
    pull(&mut scene, few, 2);
    later(&mut scene);
    assert_eq!(hunt(&mut scene, thief, None), passed_on(true));
    assert_eq!(told(pull(&mut scene, many, 2)), [thief]);
    // A pilot that has not confirmed the command is not asked again, and running tasks cannot be given.
    later(&mut scene);
    scene.pull(few, Pull { part_seen: 2, running: vec![(id, set("4"))], ..hungry() });
    assert_eq!(hunt(&mut scene, thief, None), passed_on(false));
}

#[test]
fn nobody_of_another_platform_is_asked() {
    let (mut scene, _, giver, _) = two();
    scene.attach(PlatformSpec { name: "there".into(), n_pilots_min: 1, ..platform(1, 4) });
    let (allocation, tag) = scene.submissions().pop().expect("a minimum of pilots is asked for");
    let outcome = SubmitOutcome::Accepted("b9".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    let there = scene.register(&tag, NodeFacts { capacity: Resources::cores(4), ..NodeFacts::default() });
    scene.pull(there, parked());
    scene.say(|request| Event::HuntAsked { request, pilot: there, session_nonce: None });
    assert_eq!(asked(&scene.pull(giver, hungry()).expect("an answer")), []);
}
