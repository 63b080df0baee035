//! A job whose tasks all fail ends as quickly as one whose tasks succeed, but a node that fails all tasks
//! gets no more than it can start.

use super::{elsewhere::pilot_of, *};

const MS: u64 = 1_000;

/// Returns failures of all these tasks, with a runtime of a millisecond each.
fn failures(id: JobId, tasks: &str) -> JobReport {
    let usage = Usage { wall_us: MS, ..Usage::default() };
    let failed = |index| Failure { index, kind: FailureKind::Exit { code: 1 }, usage };
    JobReport { failures: set(tasks).indices().map(failed).collect(), ..JobReport::new(id) }
}

fn n_given(answer: &PullAnswer) -> u64 {
    bundles(answer).iter().map(|(_, tasks)| set(tasks).len()).sum()
}

#[test]
fn failures_are_sent_ahead_like_successes() {
    let (mut failing, mut fine) = (Scene::new(), Scene::new());
    let [(id, pilot), (other, its_pilot)] = [&mut failing, &mut fine].map(|scene| {
        let (id, pilot) = (scene.submit(job(100_000)), scene.pilot(2));
        assert_eq!(scene.take(pilot), [(1, "0-1".into())], "nothing is known yet");
        (id, pilot)
    });
    let n_failing = n_given(&failing.report(pilot, failures(id, "0-1")));
    let usage = Usage { wall_us: MS, ..Usage::default() };
    let successes = Successes::from_attempts((0..2).map(|index| (index, 0, usage)).collect());
    let n_fine = n_given(&fine.report(its_pilot, JobReport { successes, ..JobReport::new(other) }));
    assert!(n_fine > 400, "{n_fine}");
    assert!(n_failing >= n_fine, "{n_failing} failures ahead, {n_fine} successes");
}

#[test]
fn a_node_that_fails_everything_beside_another_gets_what_it_can_begin() {
    let mut scene = Scene::new();
    let (bad, other) = (pilot_of(&mut scene, "here", "a"), pilot_of(&mut scene, "here", "b"));
    let job = scene.submit(job(10_000));
    let mut next = scene.take(bad);
    for _ in 0..5 {
        assert_eq!(next.len(), 1, "{next:?}");
        assert_eq!(set(&next[0].1).len(), 1, "the other has shown nothing yet: {next:?}");
        next = bundles(&scene.report(bad, failures(job, &next[0].1)));
    }
    let taken = scene.take(other);
    let answer = scene.report(other, failures(job, &taken[0].1));
    assert!(n_given(&answer) > 100, "it fails everywhere: {:?}", bundles(&answer));
}

#[test]
fn what_is_opened_again_was_mended() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1_000));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    let answer = scene.report(pilot, failures(job, "0"));
    let given = bundles(&answer);
    assert!(n_given(&answer) > 100, "{given:?}");
    scene.change(job, JobChange::Retry(None));
    let rest = scene.report(pilot, failures(job, &given[0].1));
    assert!(n_given(&rest) > 100, "those of before the change count again: {rest:?}");
    scene.change(job, JobChange::Retry(None));
    assert_eq!(scene.engine.durable().jobs()[&job].attempt_mean(), None);
}
