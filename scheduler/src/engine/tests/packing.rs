//! Bundles that are packed by estimates.

use super::*;
use crate::{
    estimates::TaskEstimates,
    policy::{Policies, bundling::Bundling},
};

/// The case of paper 002, Fig. 3, computed by hand: three bins of 12, the size of the largest task.
const SIZES: [f64; 11] = [1.0, 7.0, 3.0, 12.0, 5.0, 9.0, 7.0, 1.0, 4.0, 2.0, 3.0];

fn packing() -> Scene {
    let mut scene = Scene::new();
    scene.engine.settings.policies = Policies { bundling: Bundling::BinPacking, ..Policies::default() };
    scene
}

fn sized(sizes: &[f64]) -> JobRequest {
    JobRequest { estimates: TaskEstimates::new(1, sizes.iter().copied()), ..job(sizes.len() as u64) }
}

/// Returns the sizes of each set of tasks that are sent, in the order in which the sets start.
fn sizes_of(bundles: &[(u64, String)]) -> Vec<Vec<f64>> {
    let sizes = |tasks: &String| {
        let mut sizes: Vec<f64> = set(tasks).indices().map(|index| SIZES[index as usize]).collect();
        sizes.sort_by(|a, b| b.total_cmp(a));
        sizes
    };
    bundles.iter().map(|(_, tasks)| sizes(tasks)).collect()
}

#[test]
fn a_bin_for_each_core_and_the_largest_first() {
    let mut scene = packing();
    let id = scene.submit(sized(&SIZES));
    let pilot = scene.pilot(4);
    // [12], [9, 3], [7, 5] and [7, 4, 1] side by side; [3, 2, 1] are left.
    assert_eq!(sizes_of(&scene.take(pilot)), [vec![12.0, 9.0, 7.0, 7.0], vec![5.0, 4.0, 3.0], vec![1.0]]);
    assert!(scene.take(pilot).is_empty(), "it has enough to do");
    // Each core that becomes free makes a bin as large as the largest task that is left.
    for index in [3, 5, 1, 6] {
        assert!(bundles(&scene.done(pilot, id, &index.to_string())).is_empty(), "{index}");
    }
    assert_eq!(sizes_of(&bundles(&scene.done(pilot, id, "4"))), [vec![3.0]]);
}

#[test]
fn what_is_given_back_is_packed_again_and_what_is_cancelled_is_not() {
    let mut scene = packing();
    let id = scene.submit(JobRequest { retries: 1, ..sized(&SIZES) });
    let pilot = scene.pilot(1);
    assert_eq!(sizes_of(&scene.take(pilot)), [vec![12.0]]);
    scene.change(id, JobChange::Cancel(Some(set("5"))));
    assert_eq!(
        sizes_of(&bundles(&scene.fail(pilot, id, 3, FailureKind::Exit { code: 1 }))),
        [vec![12.0]],
        "the largest again"
    );
    assert_eq!(sizes_of(&bundles(&scene.done(pilot, id, "3"))), [vec![7.0]]);
}

#[test]
fn what_has_no_estimates_is_counted() {
    let mut scene = packing();
    scene.submit(job(10));
    let pilot = scene.pilot(4);
    assert_eq!(scene.take(pilot), [(1, "0-3".into())]);
}

#[test]
fn short_tasks_fill_a_bin_for_as_long_as_is_sent_ahead() {
    let mut scene = packing();
    let id = scene.submit(sized(&[1.0; 1000]));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    let usage = Usage { started_us: 1, wall_us: 10_000, cpu_us: 1, memory_bytes: 1 };
    let successes = Successes::from_attempts(vec![(0, 0, usage)]);
    let answer = scene.report(pilot, JobReport { successes, ..JobReport::new(id) });
    // A hundred tasks run per second, and a quarter of a second is prefetched.
    let n: u64 = bundles(&answer).iter().map(|(_, tasks)| set(tasks).len()).sum();
    assert_eq!(n, 25);
}

#[test]
fn suspects_are_not_packed_and_go_before_what_is_larger() {
    let mut scene = packing();
    let id = scene.submit(sized(&SIZES));
    let lost = scene.pilot(1);
    scene.take(lost);
    scene.done(lost, id, "3");
    assert!(scene.engine.durable().jobs()[&id].rate().is_some());
    scene.pull(lost, Pull { running: vec![(id, set("5"))], ..hungry() });
    scene.wait_awake(200);
    let next = scene.pilot(2);
    assert_eq!(scene.take(next), [(1, "0,5".into())], "a task for each core, the suspect and the first");
}
