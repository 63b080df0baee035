//! Comparisons with an independent simulation, on a generated log.

use scheduler::policy::placement::{Placement, Tla};

use super::{super::models::Model, Cluster, Job, TooLarge, Workload, simulate};

fn clusters(cores: u64, speeds: &[f64]) -> Vec<Cluster> {
    speeds.iter().map(|speed| Cluster { cores, speed: *speed }).collect()
}

/// All policies by brute force: a list of running jobs is searched at every instant.
struct Slow<'a> {
    clusters: &'a [Cluster],
    jobs: &'a [Job],
    /// End, processors and cluster.
    busy: Vec<(f64, u64, usize)>,
}

impl Slow<'_> {
    fn free(busy: &[(f64, u64, usize)], clusters: &[Cluster]) -> Vec<u64> {
        let used = |at: usize| busy.iter().filter(|one| one.2 == at).map(|one| one.1).sum::<u64>();
        clusters.iter().enumerate().map(|(at, cluster)| cluster.cores - used(at)).collect()
    }

    /// Returns the fastest cluster with room, ties to the first.
    fn fastest(&self, free: &[u64], cores: u64) -> Option<usize> {
        let with_room = (0..free.len()).filter(|at| free[*at] >= cores);
        let speed = |at: usize| self.clusters[at].speed;
        with_room.reduce(|best, other| if speed(other) > speed(best) { other } else { best })
    }

    fn best_fit(&self, free: &[u64], cores: u64) -> Option<usize> {
        let tightest = free.iter().filter(|n| **n >= cores).min()?;
        let only: Vec<u64> = free.iter().map(|n| if n == tightest { *n } else { 0 }).collect();
        self.fastest(&only, cores)
    }

    fn power(&self, mut free: Vec<u64>, waiting: &[Job], first: usize) -> f64 {
        let before = free.clone();
        free[first] -= waiting[0].cores;
        for job in &waiting[1..] {
            let Some(at) = self.fastest(&free, job.cores) else { break };
            free[at] -= job.cores;
        }
        (0..free.len()).map(|at| (before[at] - free[at]) as f64 * self.clusters[at].speed).sum()
    }

    fn score(&self, now: f64, waiting: &[Job], first: usize) -> f64 {
        let (mut busy, mut now, mut score) = (self.busy.clone(), now, 0.0);
        for (n, job) in waiting.iter().enumerate() {
            let at = loop {
                match self.fastest(&Slow::free(&busy, self.clusters), job.cores) {
                    Some(at) => break if n == 0 { first } else { at },
                    None => now = busy.iter().map(|one| one.0).fold(f64::INFINITY, f64::min),
                }
                busy.retain(|one| one.0 > now);
            };
            let end = now + job.runtime / self.clusters[at].speed;
            busy.push((end, job.cores, at));
            score += end - job.submitted_at;
        }
        score
    }

    fn choose(&self, now: f64, waiting: &[Job], policy: &str) -> Option<usize> {
        let free = Slow::free(&self.busy, self.clusters);
        let fastest = self.fastest(&free, waiting[0].cores)?;
        let fullest = self.best_fit(&free, waiting[0].cores)?;
        let power = |first| self.power(free.clone(), waiting, first);
        Some(match policy {
            "ff" => fastest,
            "bf" => fullest,
            "ai2" if power(fullest) > power(fastest) => fullest,
            "ai2" => fastest,
            _ => {
                let mut candidates: Vec<usize> =
                    (0..free.len()).filter(|at| free[*at] >= waiting[0].cores).collect();
                candidates.sort_by(|a, b| self.clusters[*b].speed.total_cmp(&self.clusters[*a].speed));
                let scores = candidates.into_iter().map(|at| (self.score(now, waiting, at), at));
                let better = |best: (f64, usize), other: (f64, usize)| {
                    if other.0 < best.0 - 1e-6 { other } else { best }
                };
                scores.reduce(better)?.1
            }
        })
    }

    /// Returns ATT and AQL.
    fn run(mut self, policy: &str) -> (f64, f64) {
        let mut instants: Vec<f64> = self.jobs.iter().map(|job| job.submitted_at).collect();
        let (mut turnaround, mut waited, mut n_started, mut last) = (0.0, 0.0, 0, 0.0);
        while !instants.is_empty() {
            let now = instants.iter().copied().fold(f64::INFINITY, f64::min);
            instants.retain(|instant| *instant > now);
            self.busy.retain(|one| one.0 > now);
            let n_submitted = self.jobs.iter().filter(|job| job.submitted_at <= now).count();
            last = now;
            while n_started < n_submitted {
                let waiting = &self.jobs[n_started..n_submitted];
                let Some(at) = self.choose(now, waiting, policy) else { break };
                let end = now + waiting[0].runtime / self.clusters[at].speed;
                self.busy.push((end, waiting[0].cores, at));
                instants.push(end);
                waited += now - waiting[0].submitted_at;
                turnaround += end - waiting[0].submitted_at;
                n_started += 1;
            }
        }
        (turnaround / self.jobs.len() as f64, waited / (last - self.jobs[0].submitted_at))
    }
}

#[test]
fn a_generated_log_runs_as_by_brute_force() {
    let tla = Placement::Tla(Tla { simulation_depth: None, ..Tla::default() });
    let policies =
        [("ff", Placement::FastestFirst), ("bf", Placement::BestFit), ("ai2", Placement::Ai2), ("tla", tla)];
    let mut seen = Vec::new();
    for model in [Model::Lublin99, Model::Feitelson96] {
        let workload = model.generate(700, 64, 4).at_load(0.9, 192);
        for speeds in [[1.0; 3], [1.4, 1.1, 0.5]] {
            let clusters = clusters(64, &speeds);
            for (word, policy) in policies {
                let ours = simulate(&workload, &clusters, |scene| policy.place(scene)).unwrap();
                let slow = Slow { clusters: &clusters, jobs: workload.jobs(), busy: Vec::new() }.run(word);
                let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
                assert!(near(ours.average_turnaround, slow.0), "{word}: {ours:?} {slow:?}");
                assert!(near(ours.average_queue_length, slow.1), "{word}: {ours:?} {slow:?}");
                seen.push(ours.average_turnaround);
            }
        }
    }
    // The policies differ in their results.
    seen.sort_by(f64::total_cmp);
    seen.dedup();
    assert!(seen.len() >= 13, "{seen:?}");
}

#[test]
fn only_the_look_ahead_feels_wrong_estimates() {
    let workload = Model::Lublin99.generate(1500, 64, 4).at_load(0.9, 192);
    let misjudged = workload.with_estimates(16.0, 1);
    let clusters = clusters(64, &[1.4, 1.1, 0.5]);
    let run = |workload, policy: Placement| simulate(workload, &clusters, |scene| policy.place(scene));
    for policy in [Placement::BestFit, Placement::FastestFirst, Placement::Ai2] {
        assert_eq!(run(&workload, policy), run(&misjudged, policy), "{policy:?}");
    }
    assert_ne!(run(&workload, Placement::default()), run(&misjudged, Placement::default()));
}

#[test]
fn plans_are_kept_as_long_as_they_hold() {
    let workload = Model::Lublin99.generate(1500, 64, 4).at_load(0.9, 192);
    let clusters = clusters(64, &[1.4, 1.1, 0.5]);
    let run = |allocation_depth: u32| {
        let allocation_depth = allocation_depth.try_into().unwrap();
        let policy = Placement::Tla(Tla { allocation_depth, ..Tla::default() });
        let mut n_decisions = 0;
        let outcome = simulate(&workload, &clusters, |scene| {
            n_decisions += 1;
            policy.place(scene)
        });
        (n_decisions, outcome.unwrap().average_turnaround)
    };
    let (one, eight) = (run(1), run(8));
    assert_eq!(one.0, 1500);
    assert!(eight.0 < 1200, "{eight:?}");
    assert!(eight.1 < 1.5 * one.1, "{one:?} {eight:?}");
}

#[test]
fn a_job_that_fits_nowhere_is_refused() {
    let job = Job { submitted_at: 0.0, cores: 65, runtime: 1.0, estimate: 1.0 };
    let refused = simulate(&Workload::new(vec![job]), &clusters(64, &[1.0]), |_| vec![0]);
    assert_eq!(refused, Err(TooLarge { cores: 65, most: 64 }));
    let nothing = simulate(&Workload::new(Vec::new()), &[], |_| Vec::new()).unwrap();
    assert_eq!(nothing.average_turnaround, 0.0);
}
