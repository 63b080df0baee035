//! Tests of the simulation: small runs by hand, and general properties.

use scheduler::policy::{
    bundling::by_estimate::ByEstimate,
    matching::{
        application::{ByApplication, Importance},
        static_map::StaticMap,
    },
};

use super::{
    ahead,
    scene::{Job, N_PROCESSORS, Scene, Setting},
    world::{self, Policies},
};

const PAPER: Policies = Policies { matching: ByApplication::Alstb, bundling: ByEstimate::PAPER };

fn job(application: usize, tasks: &[f64]) -> Job {
    Job { application, tasks: tasks.iter().copied().collect() }
}

/// A scene with nodes of 4 processors, where environments take 2 s.
fn scene(rates: &[Vec<f64>], degrees: &[Vec<u32>], jobs: Vec<Job>) -> Scene {
    let n_nodes = rates[0].len();
    Scene {
        importance: Importance::new(rates, degrees),
        n_processors: vec![4; n_nodes],
        environment_s: vec![2.0; rates.len()],
        jobs,
    }
}

#[test]
fn a_node_runs_a_bundle_the_largest_first_on_the_processor_that_is_free_first() {
    let scene = scene(&[vec![2.0]], &[vec![2]], vec![job(0, &[10.0, 6.0, 4.0, 2.0])]);
    let outcome = world::run(&scene, PAPER);
    // After 2.5 s: 10 and 2 on one processor, 6 and 4 on the other, at a rate of 2; bins of 25 s hold all.
    assert_eq!(outcome.ends, [2.5 + 5.0 + 1.0]);
    assert_eq!(outcome.flowtime, 4.0 * 8.5);
    assert_eq!((outcome.n_bundles, outcome.n_tasks, outcome.n_changes), (1, 4, 1));
}

#[test]
fn a_node_asks_again_while_its_other_processors_still_run() {
    let bundling = ByEstimate::Fixed { n_tasks: 2 };
    let scene = scene(&[vec![1.0]], &[vec![2]], vec![job(0, &[10.0, 8.0, 4.0])]);
    let outcome = world::run(&scene, Policies { bundling, ..PAPER });
    // The first processor is free at 12.5 s, the second at 10.5; half a second later it gets the third task.
    assert_eq!(outcome.ends, [15.0]);
    let bundling = ByEstimate::Single;
    let outcome = world::run(&scene, Policies { bundling, ..PAPER });
    // The second processor is idle at 2.5 s, has a task from 3 to 11, and the third task from 11.5 on.
    assert_eq!((outcome.ends, outcome.n_bundles), (vec![15.5], 3));
}

#[test]
fn a_node_leaves_its_job_when_all_its_processors_have_ended() {
    let jobs = vec![job(0, &[10.0, 4.0]), job(0, &[50.0])];
    let outcome = world::run(&scene(&[vec![1.0]], &[vec![2]], jobs), PAPER);
    // The second job, with more work, waits for the end of the first, though a processor is idle from 6.5 on.
    assert_eq!(outcome.ends, [12.5, 12.5 + 2.5 + 50.0]);
    assert_eq!(outcome.flowtime, 4.0 * 65.0);
}

#[test]
fn each_node_serves_the_application_that_it_suits() {
    let jobs = vec![job(0, &[30.0]), job(1, &[30.0])];
    let outcome =
        world::run(&scene(&[vec![1.0, 3.0], vec![3.0, 1.0]], &[vec![2; 2], vec![2; 2]], jobs), PAPER);
    assert_eq!(outcome.ends, [12.5, 12.5]);
}

#[test]
fn heuristics_run_a_task_at_a_time_with_an_environment_each() {
    let scene = scene(&[vec![1.0, 2.0]], &[vec![4; 2]], vec![job(0, &[10.0, 6.0])]);
    let outcome = ahead::run(&scene, StaticMap::MinMin);
    // 6 ends first on node 1, at 2.5 + 3; then 10 after it, at 5.5 + 2.5 + 5, or at 12.5 on node 0.
    assert_eq!(outcome.ends, [12.5]);
    assert_eq!(outcome.flowtime, 4.0 * (5.5 + 12.5));
}

const SMALL: Setting = Setting {
    n_nodes: 20,
    n_applications: 6,
    n_jobs: 15,
    n_tasks: (0, 200),
    n_processors: N_PROCESSORS,
    v_machine: 0.6,
    v_application: 0.6,
};

#[test]
fn every_task_is_run_once_under_every_policy() {
    for seed in 0..4 {
        let scene = Scene::draw(&SMALL, seed);
        let least = least_flowtime(&scene);
        for matching in ByApplication::ALL {
            for bundling in [ByEstimate::default(), ByEstimate::Single, ByEstimate::Fixed { n_tasks: 7 }] {
                let outcome = world::run(&scene, Policies { matching, bundling });
                assert_eq!(outcome.n_tasks, scene.n_tasks());
                let has_ended = |(job, end): (&Job, &f64)| job.tasks.is_empty() == (*end == 0.0);
                assert!(scene.jobs.iter().zip(&outcome.ends).all(has_ended));
                let most = f64::from(scene.n_processors.iter().sum::<u32>()) * outcome.makespan();
                assert!(least <= outcome.flowtime && outcome.flowtime <= most * (1.0 + 1e-9));
            }
        }
        for policy in [StaticMap::MinMin, StaticMap::Sufferage, StaticMap::MaxStd] {
            assert_eq!(ahead::run(&scene, policy).n_tasks, scene.n_tasks());
        }
    }
}

/// Returns the flowtime if every task ran where it costs least, and every processor in use were busy.
fn least_flowtime(scene: &Scene) -> f64 {
    let cost = |application| {
        let nodes = 0..scene.n_processors.len();
        let of_node = |node| {
            let speed = scene.importance.rate(application, node);
            f64::from(scene.n_processors[node])
                / speed
                / f64::from(scene.importance.degree(application, node))
        };
        nodes.map(of_node).fold(f64::INFINITY, f64::min)
    };
    scene.jobs.iter().map(|job| job.tasks.work() * cost(job.application)).sum()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| world::run(&Scene::draw(&SMALL, seed), PAPER);
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
