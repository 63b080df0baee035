//! Jobs from submission to the end: paused, cancelled, retried.

use super::*;
use crate::pull::{Held, Holdings};

#[test]
fn a_job_runs_from_submission_to_its_end() {
    let mut scene = Scene::new();
    let job = scene.submit(job(5));
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "0-1".into())]);
    assert_eq!(bundles(&scene.done(pilot, job, "0-1")), [(1, "2-3".into())]);
    assert_eq!(scene.counts(job), "active w1 p2 d2 f0 c0");
    scene.done(pilot, job, "2-3");
    scene.done(pilot, job, "4");
    assert!(scene.effects.contains(&Effect::Notify(Notice::JobEnded(job))), "{:?}", scene.effects);
    assert_eq!(scene.counts(job), "done w0 p0 d5 f0 c0");
}

#[test]
fn a_billion_tasks_cost_as_much_as_one() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1_000_000_000));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.done(pilot, job, "0-1");
    assert_eq!(scene.counts(job), "active w999999996 p2 d2 f0 c0");
    assert_eq!(scene.engine.durable().jobs()[&job].open.n_ranges(), 1);
}

#[test]
fn cancel_kills_what_runs_and_ignores_what_still_comes() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    assert_eq!(scene.change(job, JobChange::Cancel(None)), Some(Answer::Changed { n_tasks: 4, n_stale: 0 }));
    let told = commands(&scene.pull(pilot, hungry()).unwrap_or_default());
    assert!(told.contains(&PilotCommand::Kill { job, tasks: set("0-1") }), "{told:?}");
    scene.done(pilot, job, "0");
    assert_eq!(scene.counts(job), "cancelled w0 p0 d0 f0 c4");
}

#[test]
fn single_tasks_can_be_cancelled_and_tried_again() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    scene.change(job, JobChange::Cancel(Some(set("1-2"))));
    assert_eq!(scene.counts(job), "active w2 p0 d0 f0 c2");
    assert_eq!(
        scene.change(job, JobChange::Retry(Some(set("0-3")))),
        Some(Answer::Changed { n_tasks: 2, n_stale: 0 })
    );
    assert_eq!(scene.counts(job), "active w4 p0 d0 f0 c0");
}

#[test]
fn a_paused_job_gives_nothing_out_until_it_is_resumed() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    scene.change(job, JobChange::Pause);
    let told = scene.pull(pilot, hungry()).unwrap_or_default();
    assert_eq!(commands(&told), [PilotCommand::Return { job, tasks: set("0") }]);
    assert_eq!(bundles(&scene.done(pilot, job, "0")), []);
    scene.change(job, JobChange::Resume);
    assert_eq!(scene.take(pilot), [(1, "1".into())]);
}

#[test]
fn another_users_job_is_not_yours_to_change() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let caller = Caller { user: "bob".into(), is_operator: false };
    let answer =
        scene.say(|request| Event::JobChangeAsked { request, caller, job, change: JobChange::Pause });
    assert!(matches!(answer, Some(Answer::Refused(Refusal::NotYours { .. }))), "{answer:?}");
}

#[test]
fn a_repeated_submission_is_the_same_job() {
    let mut scene = Scene::new();
    let keyed = || JobRequest { submission_key: Some("k".into()), ..job(1) };
    assert_eq!(scene.submit(keyed()), scene.submit(keyed()));
    assert_eq!(scene.engine.durable().jobs().len(), 1);
}

#[test]
fn a_job_that_is_over_is_purged_and_its_number_is_not_given_out_again() {
    let mut scene = Scene::new();
    let keyed = || JobRequest { submission_key: Some("k".into()), ..job(2) };
    let id = scene.submit(keyed());
    let pilot = scene.pilot(2);
    scene.take(pilot);
    let refused = |wanted| {
        let state = "active";
        Some(Answer::Refused(Refusal::WrongState { job: id, state, wanted }))
    };
    assert_eq!(scene.change(id, purge()), refused("purged: cancel it first"));
    scene.done(pilot, id, "0-1");
    let caller = Caller { user: "bob".into(), is_operator: false };
    let change = purge();
    let asked = scene.say(|request| Event::JobChangeAsked { request, caller, job: id, change });
    assert!(matches!(asked, Some(Answer::Refused(Refusal::NotYours { .. }))), "{asked:?}");
    assert!(scene.engine.durable().spec_bytes_of("ada") > 0);
    assert_eq!(scene.change(id, purge()), Some(Answer::Changed { n_tasks: 2, n_stale: 0 }));
    assert_eq!(scene.engine.durable().spec_bytes_of("ada"), 0);
    let no_job = Some(Answer::Refused(Refusal::NoJob(id)));
    assert_eq!(scene.say(|request| Event::Asked { request, query: Query::Job(id) }), no_job);
    assert_eq!(scene.change(id, purge()), no_job);
    // Late results of its tasks belong to no job.
    scene.done(pilot, id, "1");
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(scene.submit(keyed()), JobId(id.0 + 1), "its key counts no more");
}

#[test]
fn what_waits_of_a_paused_job_is_asked_back_after_a_restart() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.change(job, JobChange::Pause);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    let pull = |holds| Pull { epoch: 2, part_seen: 0, holds, ..hungry() };
    let asked = scene.pull(pilot, pull(None)).and_then(|answer| answer.resync).unwrap_or_default();
    let held = Held { job, queued: set("1"), running: set("0"), unreported: TaskSet::new() };
    let holds = Holdings { asked, tasks: vec![held], templates: vec![job] };
    let answer = scene.pull(pilot, pull(Some(holds))).unwrap_or_default();
    assert_eq!(commands(&answer), [PilotCommand::Return { job, tasks: set("1") }]);
}

#[test]
fn what_tasks_showed_of_an_application_is_kept_until_it_is_forgotten() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(2);
    let request = JobRequest { application: "vina".into(), ..job(3) };
    let vina = scene.submit(request.clone());
    scene.take(pilot);
    scene.done(pilot, vina, "0");
    scene.fail(pilot, vina, 1, FailureKind::Exit { code: 1 });
    let profiles =
        |scene: &mut Scene| match scene.say(|request| Event::Asked { request, query: Query::Profiles }) {
            Some(Answer::Profiles(profiles)) => profiles,
            other => panic!("{other:?}"),
        };
    let known = profiles(&mut scene);
    assert_eq!((known.len(), known[0].application.as_str()), (1, "vina"));
    let here = &known[0].platforms[0];
    assert_eq!(
        (here.platform.as_str(), here.n_done, here.n_failed, here.error_rate),
        ("here", 1, 1, Some(0.5))
    );
    let forget = |application: &str| {
        let application = application.to_owned();
        move |request| Event::ForgetAsked { request, application }
    };
    assert_eq!(scene.say(forget("vine")), Some(Answer::Refused(Refusal::NoProfile("vine".into()))));
    assert_eq!(scene.say(forget("vina")), Some(Answer::Profiles(known)));
    assert_eq!(profiles(&mut scene), []);
    scene.submit(request);
    scene.take(pilot);
    scene.done(pilot, JobId(2), "0");
    assert_eq!(profiles(&mut scene)[0].platforms[0].n_done, 1, "learned anew");
}

#[test]
fn numbers_that_the_records_have_forgotten_are_not_given_out_again() {
    let mut scene = Scene::new();
    let backup = scene.records.clone();
    scene.attach(platform(2, 1));
    let forgotten = scene.submit(job(2));
    let settings = Settings { last_job: forgotten.0, last_allocation: 2, ..Settings::default() };
    scene.records = backup;
    scene.engine = Engine::restore(settings, 2, scene.now, scene.records.clone());
    scene.attach(platform(2, 1));
    assert_eq!(scene.submit(job(2)), JobId(forgotten.0 + 1));
    assert_eq!(scene.engine.durable().allocations().keys().next().map(|id| id.0), Some(3));
}
