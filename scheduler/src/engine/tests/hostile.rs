//! Pilots that say impossible things, and records that no engine would write: nothing breaks, and nothing
//! grows.

use super::*;
use crate::{
    engine::{interface::JobRequest, record::CancelCause},
    pull::{Held, Holdings, LeaveReason},
};

/// Restarts the manager; the pilot then sends this state of the job twice.
fn tell_twice(scene: &mut Scene, pilot: PilotId, job: JobId, running: TaskSet) {
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    let asked = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).and_then(|answer| answer.resync);
    let held = Held { job, queued: TaskSet::new(), running, unreported: TaskSet::new() };
    let holds = Holdings { asked: asked.unwrap_or(0), tasks: vec![held.clone(), held], templates: vec![] };
    let pull = Pull { epoch: 2, part_seen: 0, holds: Some(holds), is_hungry: false, ..hungry() };
    scene.pull(pilot, pull);
}

#[test]
fn what_a_pilot_tells_twice_it_holds_once() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    // The scene checks the sums.
    tell_twice(&mut scene, pilot, job, set("0-1"));
    assert_eq!(scene.counts(job), "active w2 p2 d0 f0 c0");
}

#[test]
fn pilots_that_have_not_come_back_are_not_called_busy() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    scene.pilot(2);
    let settings = Settings { grace: Span::ZERO, ..Settings::default() };
    scene.engine = Engine::restore(settings, 2, scene.now, scene.records.clone());
    assert_eq!(scene.explain(Query::ExplainJob(job))[0], Reason::PilotsAway { n_pilots: 1 });
}

#[test]
fn a_pilot_that_holds_only_what_nobody_wants_is_idle() {
    let mut scene = Scene::new();
    let job = scene.submit(job(2));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.change(job, JobChange::Cancel(None));
    tell_twice(&mut scene, pilot, job, set("0-1"));
    let reasons = scene.explain(Query::ExplainPilot(pilot));
    assert!(matches!(reasons[..], [Reason::PilotIdle { .. }, ..]), "{reasons:?}");
}

#[test]
fn what_a_store_has_forgotten_runs_again_and_the_next_report_is_taken() {
    let mut scene = Scene::new();
    let job = scene.submit(job(3));
    let pilot = scene.pilot(3);
    scene.take(pilot);
    let backup = scene.records.clone();
    scene.done(pilot, job, "0");
    scene.records = backup;
    tell_twice(&mut scene, pilot, job, set("1-2"));
    assert_eq!(scene.counts(job), "active w1 p2 d0 f0 c0");
    let answer = scene.done(pilot, job, "1");
    assert_eq!((answer.acknowledged, &*scene.counts(job)), (2, "active w0 p2 d1 f0 c0"));
}

#[test]
fn who_had_a_pilots_number_before_the_store_was_put_back_is_not_that_pilot() {
    let mut scene = Scene::new();
    scene.submit(job(2));
    let pilot = scene.pilot(1);
    let nonce = scene.engine.durable().pilots()[&pilot].nonce;
    let mut pull = |session_nonce| {
        let pull = Pull { session_nonce: Some(session_nonce), ..hungry() };
        scene.say(|request| Event::Pulled { request, pilot, pull: Box::new(pull) })
    };
    assert_eq!(pull(nonce + 1), Some(Answer::Refused(Refusal::SessionEnded(pilot))));
    assert!(matches!(pull(nonce), Some(Answer::Pull(answer)) if !answer.parts.is_empty()));
    let mut leave = |nonce| {
        let (session_nonce, reason) = (Some(nonce), LeaveReason::Told);
        scene.say(|request| Event::PilotLeft { request, pilot, session_nonce, report: None, reason })
    };
    assert_eq!(leave(nonce + 1), Some(Answer::Refused(Refusal::SessionEnded(pilot))));
    assert_eq!(leave(nonce), Some(Answer::Left));
}

#[test]
fn a_pilot_is_blamed_for_no_more_than_it_has_slots_for() {
    let mut scene = Scene::new();
    let endless = scene.submit(JobRequest { n_tasks: 1 << 40, ..job(1) });
    let pilot = scene.pilot(u32::MAX);
    scene.take(pilot);
    let running = vec![(endless, TaskSet::from(0..u64::MAX))];
    scene.pull(pilot, Pull { running, ..hungry() });
    scene.wait_awake(100);
    let Some(Record::PilotLost { blamed, .. }) =
        scene.records.iter().find(|record| matches!(record, Record::PilotLost { .. }))
    else {
        panic!("the pilot was not given up");
    };
    assert_eq!(blamed.len(), 1 << 16);
}

#[test]
fn no_pilot_says_of_itself_that_it_was_lost() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 1, ..job(3) });
    let pilot = scene.pilot(2);
    scene.take(pilot);
    let answer = scene.fail(pilot, job, 0, FailureKind::PilotLost);
    assert_eq!(answer.acknowledged, 1, "else it would be sent again for ever");
    assert!(scene.engine.durable().jobs()[&job].troubled.is_empty(), "what it says is not believed");
    let counts = scene.counts(job);
    assert!(counts.ends_with("d0 f0 c0"), "{counts}");
}

#[test]
fn no_record_takes_a_jobs_sets_apart() {
    let mut scene = Scene::new();
    let id = scene.submit(job(10));
    let (everything, at) = (TaskSet::from(0..u64::MAX), scene.now);
    let cancelled =
        |tasks| Record::TasksCancelled { job: id, tasks, cause: CancelCause::User("ada".into()), at };
    let reopened = |tasks| Record::TasksReopened { job: id, tasks, at };
    scene.records.push(reopened(everything.clone()));
    scene.records.push(cancelled(TaskSet::from(5..90)));
    scene.records.push(cancelled(everything.clone()));
    scene.records.push(reopened(TaskSet::from(3..4)));
    scene.records.push(Record::JobAccepted {
        job: JobId(2),
        request: JobRequest { n_tasks: 0, ..job(1) },
        at,
    });
    for n in 0..=scene.records.len() {
        let records = scene.records[..n].to_vec();
        Engine::restore(Settings::default(), 2, scene.now, records).check_invariants();
    }
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(scene.counts(id), "active w1 p0 d0 f0 c9");
    assert_eq!(scene.counts(JobId(2)), "done w0 p0 d0 f0 c0");
}
