//! The task-level heuristics with which the paper compares: every task is mapped before the first begins, and
//! runs alone on its node, which is charged as a whole, with the overhead of a bundle and of an environment.

use scheduler::policy::{matching::static_map::StaticMap, table::Table};

use super::{
    outcome::Outcome,
    scene::{Scene, TRANSFER_S},
};

/// Runs all jobs of the scene to their end.
pub fn run(scene: &Scene, policy: StaticMap) -> Outcome {
    let (rows, jobs) = rows(scene);
    let mut outcome = Outcome::new(scene);
    let Some(times) = Table::from_rows(&rows) else { return outcome };
    for given in policy.assign(&times) {
        let (job, seconds) = (jobs[given.task], times.at(given.task, given.machine));
        outcome.end(job, given.end);
        outcome.flowtime += f64::from(scene.n_processors[given.machine]) * seconds;
        outcome.n_bundles += 1;
        outcome.n_tasks += 1;
        outcome.n_changes += 1;
    }
    outcome
}

/// Returns the seconds of each task on each node, and the job of each task.
fn rows(scene: &Scene) -> (Vec<Vec<f64>>, Vec<usize>) {
    let (mut rows, mut jobs) = (Vec::new(), Vec::new());
    for (id, job) in scene.jobs.iter().enumerate() {
        let overhead = TRANSFER_S + scene.environment_s[job.application];
        let mut tasks = job.tasks.clone();
        while let Some(estimate) = tasks.take_at_most(f64::MAX) {
            let nodes = 0..scene.n_processors.len();
            let time = |node| overhead + estimate / scene.importance.rate(job.application, node);
            rows.push(nodes.map(time).collect());
            jobs.push(id);
        }
    }
    (rows, jobs)
}
