//! Clusters behind one queue, first come first served, without backfilling: after all arrivals and ends of
//! one instant, jobs at the head of the queue start as long as they fit somewhere.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
};

use scheduler::policy::placement::{Platform, Request, Running, Scene};

use super::workload::{Job, Workload};

/// Runtimes below this count as this in the slowdown, in seconds.
const SLOWDOWN_BOUND: f64 = 10.0;

/// A cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Number of processors.
    pub cores: u64,
    /// The divisor of a job's runtime; positive.
    pub speed: f64,
}

/// The result of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// ATT: mean time from submission to end of a job, in seconds.
    pub average_turnaround: f64,
    /// AQL: mean number of jobs in the queue, over the time from the first submission to the last end.
    pub average_queue_length: f64,
    /// Mean over jobs of turnaround divided by runtime at speed 1, at least 1; runtimes below ten seconds
    /// count as ten.
    pub bounded_slowdown: f64,
    /// Time from the first submission to the last end, in seconds.
    pub makespan: f64,
}

/// A job that needs more processors than any cluster has.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("found a job of {cores} processors, expected at most {most}, those of the largest cluster")]
pub struct TooLarge {
    /// Number of processors that the job needs.
    pub cores: u64,
    /// Number of processors of the largest cluster.
    pub most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct End(f64, usize);

impl Eq for End {}
impl Ord for End {
    fn cmp(&self, other: &End) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}
impl PartialOrd for End {
    fn partial_cmp(&self, other: &End) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Runs a workload. `decide` answers as `Placement::place` does; plans for later jobs are kept while these
/// jobs can start where the plan says, and dropped with all later ones otherwise.
pub fn simulate(
    workload: &Workload,
    clusters: &[Cluster],
    decide: impl FnMut(&Scene<'_>) -> Vec<usize>,
) -> Result<Outcome, TooLarge> {
    let most = clusters.iter().map(|cluster| cluster.cores).max().unwrap_or(0);
    if let Some(job) = workload.jobs().iter().find(|job| job.cores > most) {
        return Err(TooLarge { cores: job.cores, most });
    }
    let mut world = World::new(workload.jobs(), clusters, decide);
    while world.step() {}
    Ok(world.outcome())
}

struct World<'a, D> {
    jobs: &'a [Job],
    clusters: &'a [Cluster],
    decide: D,
    /// The jobs in the form of placement; the queue is `requests[n_started..n_submitted]`.
    requests: Vec<Request>,
    n_started: usize,
    n_submitted: usize,
    platforms: Vec<Platform>,
    running: Vec<Running>,
    /// The jobs of the entries of `running`, and the entry of each job.
    runners: Vec<usize>,
    places: Vec<usize>,
    /// Real ends of jobs.
    ends: BinaryHeap<Reverse<End>>,
    ended_at: Vec<f64>,
    plan: VecDeque<usize>,
    now: f64,
    waited: f64,
}

impl<'a, D: FnMut(&Scene<'_>) -> Vec<usize>> World<'a, D> {
    fn new(jobs: &'a [Job], clusters: &'a [Cluster], decide: D) -> World<'a, D> {
        let request =
            |job: &Job| Request { cores: job.cores, submitted_at: job.submitted_at, runtime: job.estimate };
        let platform = |cluster: &Cluster| Platform { n_free: cluster.cores, speed: cluster.speed };
        World {
            jobs,
            clusters,
            decide,
            requests: jobs.iter().map(request).collect(),
            n_started: 0,
            n_submitted: 0,
            platforms: clusters.iter().map(platform).collect(),
            running: Vec::new(),
            runners: Vec::new(),
            places: vec![0; jobs.len()],
            ends: BinaryHeap::new(),
            ended_at: vec![0.0; jobs.len()],
            plan: VecDeque::new(),
            now: 0.0,
            waited: 0.0,
        }
    }

    /// Handles all events of the next instant. Returns false if there is none.
    fn step(&mut self) -> bool {
        let submission = self.jobs.get(self.n_submitted).map(|job| job.submitted_at);
        let end = self.ends.peek().map(|end| end.0.0);
        let Some(now) = [submission, end].into_iter().flatten().reduce(f64::min) else { return false };
        self.now = now;
        while let Some(Reverse(End(_, job))) = self.ends.peek().copied().filter(|end| end.0.0 <= now) {
            self.ends.pop();
            self.end(job);
        }
        while self.jobs.get(self.n_submitted).is_some_and(|job| job.submitted_at <= now) {
            self.n_submitted += 1;
        }
        while self.n_started < self.n_submitted
            && let Some(cluster) = self.next_place()
        {
            self.start(cluster);
        }
        true
    }

    /// Returns the cluster for the head of the queue, by the plan while it is valid.
    fn next_place(&mut self) -> Option<usize> {
        let has_room = |platform: &Platform| platform.n_free >= self.requests[self.n_started].cores;
        if !self.platforms.iter().any(has_room) {
            return None;
        }
        if !self.plan.front().is_some_and(|planned| has_room(&self.platforms[*planned])) {
            let scene = Scene {
                now: self.now,
                platforms: &self.platforms,
                running: &self.running,
                waiting: &self.requests[self.n_started..self.n_submitted],
            };
            self.plan = (self.decide)(&scene).into();
        }
        self.plan.pop_front()
    }

    fn start(&mut self, cluster: usize) {
        let n = self.n_started;
        let (job, speed) = (&self.jobs[n], self.clusters[cluster].speed);
        self.n_started += 1;
        self.waited += self.now - job.submitted_at;
        self.platforms[cluster].n_free -= job.cores;
        self.places[n] = self.running.len();
        self.runners.push(n);
        let ends_at = self.now + job.estimate / speed;
        self.running.push(Running { platform: cluster, cores: job.cores, ends_at });
        self.ends.push(Reverse(End(self.now + job.runtime / speed, n)));
    }

    fn end(&mut self, job: usize) {
        let place = self.places[job];
        let gone = self.running.swap_remove(place);
        self.runners.swap_remove(place);
        if let Some(moved) = self.runners.get(place) {
            self.places[*moved] = place;
        }
        self.platforms[gone.platform].n_free += gone.cores;
        self.ended_at[job] = self.now;
    }

    fn outcome(&self) -> Outcome {
        let n = self.jobs.len().max(1) as f64;
        let turnarounds = self.jobs.iter().zip(&self.ended_at).map(|(job, end)| end - job.submitted_at);
        let slowdown =
            |(job, turnaround): (&Job, f64)| (turnaround / job.runtime.max(SLOWDOWN_BOUND)).max(1.0);
        let makespan = self.now - self.jobs.first().map_or(0.0, |job| job.submitted_at);
        Outcome {
            average_turnaround: turnarounds.clone().sum::<f64>() / n,
            average_queue_length: if makespan > 0.0 { self.waited / makespan } else { 0.0 },
            bounded_slowdown: self.jobs.iter().zip(turnarounds).map(slowdown).sum::<f64>() / n,
            makespan,
        }
    }
}

#[cfg(test)]
mod tests;
