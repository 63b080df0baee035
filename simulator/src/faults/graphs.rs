//! Draws the workflows of a seed: tasks that wait for other tasks.

use scheduler::{
    edges::{Edges, Listed, OnFailedDependency},
    engine::interface::{JobChange, On, Stage},
    ranges::TaskSet,
    rng::Rng,
    time::Span,
};

use super::plan::{LATE, job};
use crate::world::plan::{Act, Plan};

/// The largest number of tasks of a stage: the auditor checks each edge.
const N_TASKS_MAX: u64 = 400;

impl Plan {
    /// Adds a workflow and its user's requests, in every second seed.
    pub(super) fn add_graph(&mut self, luck: &mut Rng) {
        if luck.one_in(2) {
            return;
        }
        let n_before: usize = self.acts.iter().map(|(_, act)| act.n_jobs()).sum();
        let mut stages: Vec<Stage> = Vec::new();
        for at in 0..luck.between(2, 6) as usize {
            let stage = stage(n_before, at, &stages, luck);
            stages.push(stage);
        }
        let n_stages = stages.len();
        let (from, last) = (Span(luck.below(self.faults_last.0)), self.faults_last);
        self.acts.push((from, Act::SubmitAll(stages)));
        for _ in 0..luck.pick(&[0, 0, 2, 8]) {
            let stage = n_before + luck.below(n_stages as u64) as usize;
            let first = luck.below(20);
            let some = luck.one_in(2).then(|| TaskSet::from(first..first + luck.between(1, 50)));
            let change = match luck.below(8) {
                0 | 1 => JobChange::Cancel(some),
                2 => JobChange::Pause,
                3 => JobChange::Resume,
                _ => JobChange::Retry(some),
            };
            let at = from + Span(luck.below(last.0.saturating_sub(from.0).max(1)));
            self.acts.push((at, Act::Change(stage, change)));
        }
        let late = last + LATE;
        let goes_on = |stage: usize| (late, Act::Change(n_before + stage, JobChange::Resume));
        self.acts.extend((0..n_stages).map(goes_on));
    }
}

/// Draws a stage that comes after some of the earlier ones, and whose tasks may wait for each other.
fn stage(n_before: usize, at: usize, stages: &[Stage], luck: &mut Rng) -> Stage {
    let mut job = job(n_before + at, luck);
    job.application = luck.pick(&["docking", "search"]).into();
    job.n_tasks = luck.pick(&[1, 4, 10, 60]);
    job.on_failed_dependency = luck.pick(&[OnFailedDependency::Cancel, OnFailedDependency::Run]);
    let mut after = Vec::new();
    if at > 0 {
        let on = luck.below(at as u64) as usize;
        let n_on = stages.get(on).map_or(1, |stage| stage.job.n_tasks);
        let width = luck.pick(&[2, 3]);
        let (n_tasks, edges) = match luck.below(6) {
            0 | 1 => (n_on, Edges::Same),
            2 if n_on.is_multiple_of(width) => (n_on / width, Edges::Groups(width)),
            3 if n_on * width <= N_TASKS_MAX => (n_on * width, Edges::Spread(width)),
            4 => (job.n_tasks, listed(job.n_tasks, luck, |_| n_on)),
            _ => (job.n_tasks, Edges::All),
        };
        job.n_tasks = n_tasks;
        after.push((On::Stage(on), edges));
        if luck.one_in(3) {
            let other = luck.below(at as u64) as usize;
            let edges = match stages.get(other).map_or(0, |stage| stage.job.n_tasks) {
                n if n == n_tasks => Edges::Same,
                _ => Edges::All,
            };
            after.push((On::Stage(other), edges));
        }
    }
    if luck.one_in(3) {
        after.push((On::Stage(at), listed(job.n_tasks, luck, |task| task)));
    }
    Stage { job, after }
}

/// Draws dependencies of each task on some tasks below a bound.
fn listed(n_tasks: u64, luck: &mut Rng, bound: impl Fn(u64) -> u64) -> Edges {
    let mut lists = Vec::new();
    for task in 0..n_tasks {
        let below = bound(task);
        let n = if below == 0 { 0 } else { luck.pick(&[0, 1, 1, 2, 5]) };
        lists.push((0..n).map(|_| luck.below(below)).collect::<Vec<u64>>());
    }
    Listed::new(lists).map_or(Edges::All, Edges::Listed)
}
