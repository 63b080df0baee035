//! Tasks that lost pilots held are suspects and are sent with care.

use super::*;
use crate::pull::{Held, Holdings};

/// Returns successes that took a millisecond each: 250 more tasks are prefetched.
fn short(id: JobId, tasks: &str) -> JobReport {
    let usage = Usage { wall_us: 1000, ..Usage::default() };
    let successes = Successes::from_attempts(set(tasks).indices().map(|index| (index, 0, usage)).collect());
    JobReport { successes, ..JobReport::new(id) }
}

/// Returns a job, and a pilot of one core that has its tasks 1 to 251.
fn with_much_ahead(scene: &mut Scene) -> (JobId, PilotId) {
    let id = scene.submit(JobRequest { crash_limit: 5, retries: 1, ..job(10_000) });
    let pilot = scene.pilot(1);
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    assert_eq!(bundles(&scene.report(pilot, short(id, "0"))), [(1, "1-251".into())]);
    (id, pilot)
}

/// Returns the same after the pilot was lost; it last reported that task 7 ran.
fn with_a_lost_pilot(scene: &mut Scene) -> (JobId, PilotId) {
    let (id, lost) = with_much_ahead(scene);
    lose(scene, lost, id, "7");
    (id, lost)
}

fn lose(scene: &mut Scene, pilot: PilotId, id: JobId, running: &str) {
    scene.pull(pilot, Pull { running: vec![(id, set(running))], ..hungry() });
    scene.wait_awake(200);
    assert!(!scene.engine.durable().pilots()[&pilot].is_live());
}

/// Returns a pilot of one core whose results count for tasks that were not leased to it, as if it had
/// registered before the manager's start: then not each task has to be sent to it.
fn trusted(scene: &mut Scene) -> PilotId {
    let pilot = scene.pilot(1);
    scene.engine.live.started_at = scene.now;
    pilot
}

fn n_sent(answer: &PullAnswer) -> u64 {
    bundles(answer).iter().map(|(_, tasks)| set(tasks).len()).sum()
}

fn blamed(scene: &Scene, id: JobId) -> Vec<u64> {
    scene.engine.durable().jobs()[&id].troubled.keys().copied().collect()
}

#[test]
fn nothing_is_sent_ahead_until_all_that_a_lost_pilot_held_has_ended() {
    let mut scene = Scene::new();
    let (id, _) = with_a_lost_pilot(&mut scene);
    let pilot = trusted(&mut scene);
    assert_eq!(scene.take(pilot), [(1, "1".into())]);
    assert_eq!(bundles(&scene.report(pilot, short(id, "1"))), [(1, "2".into())]);
    assert_eq!(bundles(&scene.fail(pilot, id, 2, FailureKind::Exit { code: 1 })), [(1, "3".into())]);
    assert_eq!(bundles(&scene.report(pilot, short(id, "3-250"))), [(1, "251".into())]);
    assert!(n_sent(&scene.report(pilot, short(id, "251"))) > 200, "it goes on as before");
}

/// Returns the same, with a second pilot that is still there with tasks 252 to 502.
fn with_a_lost_and_another_pilot(scene: &mut Scene) -> (JobId, PilotId) {
    let (id, lost) = with_much_ahead(scene);
    let other = scene.pilot(1);
    assert_eq!(scene.take(other), [(1, "252-502".into())]);
    scene.pull(lost, Pull { running: vec![(id, set("7"))], ..hungry() });
    for _ in 0..10 {
        scene.wait_awake(20);
        scene.pull(other, hungry());
    }
    assert_eq!(blamed(scene, id), [7]);
    (id, other)
}

#[test]
fn who_has_much_already_gets_no_suspect_before_it_has_a_core_for_it() {
    let mut scene = Scene::new();
    let (id, other) = with_a_lost_and_another_pilot(&mut scene);
    assert_eq!(bundles(&scene.report(other, short(id, "252-501"))), [], "one is left, which may run");
    assert_eq!(bundles(&scene.report(other, short(id, "502"))), [(1, "1".into())]);
}

#[test]
fn who_has_a_suspect_is_given_nothing_to_wait_behind_it() {
    let mut scene = Scene::new();
    let (id, giver) = with_a_lost_and_another_pilot(&mut scene);
    let thief = scene.pilot(1);
    assert_eq!(scene.take(thief), [(1, "1".into())]);
    assert_eq!(scene.pull(thief, parked()), None);
    scene.report(giver, JobReport { given: vec![(thief, set("400-502"))], ..JobReport::new(id) });
    assert_eq!(scene.engine.live.pilots[&thief].leases[&id], set("1"));
}

#[test]
fn of_suspects_the_one_is_blamed_that_was_sent_and_none_that_was_not() {
    let mut scene = Scene::new();
    let (id, _) = with_a_lost_pilot(&mut scene);
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "1-2".into())]);
    scene.pull(pilot, Pull { running: vec![(id, set("1-2"))], ..hungry() });
    // Its answer brings task 3; then it is silent.
    let seq = *scene.seqs.entry(pilot).and_modify(|seq| *seq += 1).or_insert(1);
    let report = Some(Report { seq, jobs: vec![short(id, "1")] });
    let answer = scene.pull(pilot, Pull { report, running: vec![(id, set("2"))], part_seen: 1, ..hungry() });
    assert_eq!(bundles(&answer.unwrap_or_default()), [(1, "3".into())]);
    scene.wait_awake(200);
    assert_eq!(blamed(&scene, id), [2, 3, 7]);
}

#[test]
fn who_comes_back_with_its_tasks_is_none() {
    let mut scene = Scene::new();
    let (id, lost) = with_a_lost_pilot(&mut scene);
    let asked = scene.pull(lost, hungry()).and_then(|answer| answer.resync).expect("it is asked");
    let held = Held { job: id, running: set("7"), queued: set("8-251"), unreported: set("1-6") };
    let holds = Some(Holdings { asked, tasks: vec![held], templates: vec![] });
    scene.pull(lost, Pull { holds, is_hungry: false, ..hungry() });
    let answer = scene.report(lost, short(id, "7-200"));
    assert!(n_sent(&answer) > 100, "{answer:?}");
}

#[test]
fn files_are_brought_ahead_for_one_task_a_core_all_the_same() {
    let mut scene = Scene::new();
    let mut needs = job(1).needs;
    needs.staging.inputs = true;
    let id = scene.submit(JobRequest { needs, crash_limit: 5, ..job(100) });
    let lost = scene.pilot(1);
    scene.take(lost);
    scene.done(lost, id, "0");
    lose(&mut scene, lost, id, "1");
    let pilot = scene.pilot(1);
    assert_eq!(scene.take(pilot), [(1, "1-2".into())]);
}

#[test]
fn no_suspects_of_a_job_are_left_when_it_is_over() {
    let mut scene = Scene::new();
    let (id, _) = with_a_lost_pilot(&mut scene);
    assert_eq!(scene.engine.live.suspects[&id], set("1-251"));
    scene.change(id, JobChange::Cancel(None));
    assert!(scene.engine.live.suspects.is_empty());
}

#[test]
fn what_is_set_aside_or_cancelled_is_none_any_more() {
    let mut scene = Scene::new();
    let id = scene.submit(JobRequest { crash_limit: 1, ..job(10_000) });
    let lost = scene.pilot(1);
    scene.take(lost);
    scene.report(lost, short(id, "0"));
    lose(&mut scene, lost, id, "7");
    assert_eq!(scene.engine.durable().jobs()[&id].failed, set("7"));
    assert_eq!(scene.engine.live.suspects[&id], set("1-6,8-251"));
    scene.change(id, JobChange::Cancel(Some(set("100-300"))));
    assert_eq!(scene.engine.live.suspects[&id], set("1-6,8-99"));
}

#[test]
fn a_job_that_was_just_sent_is_blamed_beside_another_that_runs() {
    let mut scene = Scene::new();
    let runs = scene.submit(job(1));
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    let killer = scene.submit(job(1));
    let answer = scene.pull(pilot, Pull { running: vec![(runs, set("0"))], ..hungry() });
    assert_eq!(bundles(&answer.unwrap_or_default()), [(2, "0".into())]);
    scene.wait_awake(200);
    assert_eq!((blamed(&scene, runs), blamed(&scene, killer)), (vec![0], vec![0]));
    assert_eq!(scene.engine.live.suspects[&killer], set("0"));
}

/// Returns a job of four tasks; the first two were lost with a pilot together, and one more lost pilot
/// quarantines each.
fn with_two_last_chances(scene: &mut Scene) -> JobId {
    let id = scene.submit(JobRequest { crash_limit: 2, ..job(4) });
    let lost = scene.pilot(2);
    assert_eq!(scene.take(lost), [(1, "0-1".into())]);
    lose(scene, lost, id, "0-1");
    id
}

#[test]
fn no_pilot_has_two_that_one_more_lost_pilot_sets_aside() {
    let mut scene = Scene::new();
    let id = with_two_last_chances(&mut scene);
    let pilots = [scene.pilot(2), scene.pilot(2)];
    assert_eq!(scene.take(pilots[0]), [(1, "0,2".into())]);
    assert_eq!(scene.take(pilots[1]), [(1, "1,3".into())]);
    scene.report(pilots[0], short(id, "0,2"));
    lose(&mut scene, pilots[1], id, "1,3");
    assert_eq!(scene.engine.durable().jobs()[&id].failed, TaskSet::new(), "task 3 may have been why");
    let last = scene.pilot(2);
    assert_eq!(scene.take(last), [(1, "1".into())], "it has the pilot for itself");
    lose(&mut scene, last, id, "1");
    assert_eq!(scene.engine.durable().jobs()[&id].failed, set("1"));
}

#[test]
fn of_two_last_chances_the_second_waits_for_the_first_and_other_jobs_do_not() {
    let mut scene = Scene::new();
    let id = with_two_last_chances(&mut scene);
    scene.change(id, JobChange::Cancel(Some(set("2-3"))));
    scene.restart();
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "0".into())], "and after a restart, too");
    let other = scene.submit(job(1));
    assert_eq!(scene.take(pilot), [(other.0, "0".into())]);
    assert_eq!(bundles(&scene.report(pilot, short(other, "0"))), []);
    assert_eq!(bundles(&scene.report(pilot, short(id, "0"))), [(1, "1".into())]);
    scene.report(pilot, short(id, "1"));
    assert!(scene.engine.live.last_chances.is_empty());
}

/// Returns a job with which a pilot of two cores was lost that held 2 to 501 and last ran task 2, now at its
/// last chance.
fn with_one_last_chance(scene: &mut Scene) -> JobId {
    let id = scene.submit(JobRequest { crash_limit: 2, ..job(10_000) });
    let lost = scene.pilot(2);
    assert_eq!(scene.take(lost), [(1, "0-1".into())]);
    scene.report(lost, short(id, "0-1"));
    lose(scene, lost, id, "2");
    assert_eq!(scene.engine.live.suspects[&id].first(), Some(2));
    id
}

#[test]
fn none_has_its_last_chance_beside_another_suspect() {
    let mut scene = Scene::new();
    let id = with_one_last_chance(&mut scene);
    let other = 2 + scene.engine.live.suspects[&id].len();
    let pilots = [scene.pilot(2), scene.pilot(2)];
    assert_eq!(scene.take(pilots[0]), [(1, format!("2,{other}"))], "beside what no lost pilot had");
    assert_eq!(scene.take(pilots[1]), [(1, "3-4".into())]);
    let answer = scene.report(pilots[0], short(id, &other.to_string()));
    assert_eq!(bundles(&answer), [(1, (other + 1).to_string())], "nor does it get one later");
    assert_eq!(bundles(&scene.report(pilots[0], short(id, "2"))), [(1, "5".into())]);
}

#[test]
fn a_last_chance_waits_until_a_pilot_has_no_suspect() {
    let mut scene = Scene::new();
    let id = with_one_last_chance(&mut scene);
    let pilots = [scene.pilot(2), scene.pilot(2)];
    assert_eq!(set(&scene.take(pilots[0])[0].1).first(), Some(2));
    assert_eq!(scene.take(pilots[1]), [(1, "3-4".into())]);
    let (pilot, reason) = (pilots[0], crate::pull::LeaveReason::Told);
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    assert_eq!(bundles(&scene.report(pilots[1], short(id, "3"))), [(1, "5".into())]);
    let apart = |reason: &Reason| matches!(reason, Reason::KeptApart { n_tasks: 1 });
    assert!(scene.explain(Query::ExplainTask(TaskId { job: id, index: 2 })).iter().any(apart));
    assert!(!scene.explain(Query::ExplainTask(TaskId { job: id, index: 6 })).iter().any(apart));
    assert!(scene.explain(Query::ExplainJob(id)).iter().any(apart));
    let others = scene.engine.live.suspects[&id].clone();
    let jobs = vec![short(id, "4-5")];
    scene.pull(pilots[1], Pull { report: Some(Report { seq: 2, jobs }), is_hungry: false, ..hungry() });
    assert_eq!(set(&scene.take(pilots[1])[0].1).intersection(&others), set("2"));
}

#[test]
fn what_is_kept_apart_is_not_said_to_be_served_soon() {
    let mut scene = Scene::new();
    let needs = TaskNeeds { resources: Resources::cores(2), ..job(1).needs };
    let id = scene.submit(JobRequest { crash_limit: 2, needs, ..job(2) });
    let lost = scene.pilot(4);
    assert_eq!(scene.take(lost), [(1, "0-1".into())]);
    lose(&mut scene, lost, id, "0-1");
    let (pilot, _too_small) = (scene.pilot(4), scene.pilot(1));
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    let reasons = scene.explain(Query::ExplainTask(TaskId { job: id, index: 1 }));
    assert!(reasons.contains(&Reason::KeptApart { n_tasks: 1 }), "{reasons:?}");
    assert!(!reasons.iter().any(|reason| matches!(reason, Reason::SoonServed { .. })), "{reasons:?}");
}

#[test]
fn what_was_blamed_is_suspect_after_a_restart_too() {
    let mut scene = Scene::new();
    let id = scene.submit(JobRequest { crash_limit: 3, ..job(4) });
    let lost = [scene.pilot(2), scene.pilot(2)];
    lost.iter().for_each(|pilot| _ = scene.take(*pilot));
    scene.wait_awake(200);
    let last = scene.pilot(1);
    assert_eq!(scene.take(last), [(1, "0".into())]);
    lose(&mut scene, last, id, "0");
    scene.restart();
    assert_eq!(scene.engine.live.suspects[&id], set("0-3"));
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "0".into())], "it has its last chance, and all others are suspect");
    assert_eq!(bundles(&scene.report(pilot, short(id, "0"))), [(1, "1-2".into())]);
}

#[test]
fn who_comes_back_with_what_another_was_lost_with_does_not_clear_it() {
    let mut scene = Scene::new();
    let id = scene.submit(JobRequest { crash_limit: 5, ..job(4) });
    let mut lost = || {
        let pilot = scene.pilot(2);
        assert_eq!(scene.take(pilot), [(1, "0-1".into())]);
        lose(&mut scene, pilot, id, "0-1");
        pilot
    };
    let [_, back] = [lost(), lost()];
    let asked = scene.pull(back, hungry()).and_then(|answer| answer.resync).expect("it is asked");
    let held = Held { job: id, running: set("0-1"), queued: set(""), unreported: set("") };
    let holds = Some(Holdings { asked, tasks: vec![held], templates: vec![] });
    scene.pull(back, Pull { holds, is_hungry: false, ..hungry() });
    assert_eq!(scene.engine.durable().jobs()[&id].troubled[&0].n_crash(), 1);
    assert_eq!(scene.engine.live.suspects[&id], set("0-1"));
}

#[test]
fn who_has_confirmed_its_tasks_and_runs_none_is_lost_by_none_whatever_else_it_was_told() {
    let mut scene = Scene::new();
    let (id, lost) = with_much_ahead(&mut scene);
    scene.change(id, JobChange::Cancel(Some(set("250"))));
    let answer = scene.pull(lost, Pull { part_seen: 1, ..hungry() }).unwrap_or_default();
    assert_eq!(answer.parts.iter().map(|part| part.bundles.len()).collect::<Vec<_>>(), [1, 0]);
    scene.pull(lost, Pull { part_seen: 2, ..hungry() });
    scene.wait_awake(200);
    assert!(!scene.engine.durable().pilots()[&lost].is_live());
    assert!(blamed(&scene, id).is_empty());
}

#[test]
fn what_was_blamed_is_suspect_until_it_is_over() {
    let mut scene = Scene::new();
    let (id, _) = with_a_lost_pilot(&mut scene);
    assert_eq!(blamed(&scene, id), [7]);
    let pilot = trusted(&mut scene);
    scene.take(pilot);
    scene.report(pilot, short(id, "1-6"));
    scene.fail(pilot, id, 7, FailureKind::Exit { code: 1 });
    assert_eq!(scene.engine.live.suspects[&id], set("7-251"));
    scene.report(pilot, short(id, "7"));
    scene.fail(pilot, id, 8, FailureKind::Exit { code: 1 });
    assert_eq!(scene.engine.live.suspects[&id], set("9-251"), "8 was only held");
}

#[test]
fn what_is_opened_again_leaves_others_suspect() {
    let mut scene = Scene::new();
    let id = with_one_last_chance(&mut scene);
    let suspects = scene.engine.live.suspects[&id].clone();
    scene.change(id, JobChange::Cancel(Some(set("9999"))));
    scene.change(id, JobChange::Retry(Some(set("9999"))));
    assert_eq!(scene.engine.live.suspects[&id], suspects);
}
