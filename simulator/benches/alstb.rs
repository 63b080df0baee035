//! Benchmark of the largest run of paper 002's Fig. 5, on one core: 5 million tasks, 1,000 nodes, 50
//! applications, in 100 jobs and in 1,000. `cargo bench -p simulator --bench alstb`

use std::time::Instant;

use scheduler::policy::{bundling::by_estimate::ByEstimate, matching::application::ByApplication};
use simulator::alstb::{
    scene::{N_PROCESSORS, Scene, Setting},
    world::{self, Policies},
};

/// The time limit, including the drawing of the tasks.
const GOAL_S: f64 = 10.0;
const N_TASKS: u64 = 5_000_000;

fn main() {
    for n_jobs in [100, 1000] {
        let n_tasks = N_TASKS / n_jobs;
        let setting = Setting {
            n_nodes: 1000,
            n_applications: 50,
            n_jobs: n_jobs as usize,
            n_tasks: (n_tasks, n_tasks),
            n_processors: N_PROCESSORS,
            v_machine: 0.6,
            v_application: 0.6,
        };
        let started = Instant::now();
        let scene = Scene::draw(&setting, 1);
        let drawn_s = started.elapsed().as_secs_f64();
        let policies = Policies { matching: ByApplication::Alstb, bundling: ByEstimate::PAPER };
        let outcome = world::run(&scene, policies);
        let s = started.elapsed().as_secs_f64();
        assert_eq!(outcome.n_tasks, N_TASKS);
        println!(
            "{n_jobs} jobs of {n_tasks} tasks: {s:.2} s, of which {drawn_s:.2} s drawing; {} bundles (goal {GOAL_S} s)",
            outcome.n_bundles
        );
    }
}
