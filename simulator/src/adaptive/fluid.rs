//! A run of a workload with tasks as a fluid: each platform works on the first job in its queue at the pace
//! of that job's application, failed work is retried, and vCPUs change at once. Computed from event to event
//! without time steps, so it is as exact as its model.

use std::collections::VecDeque;

use scheduler::{
    policy::{
        distribution::{self, Adjusted, Distribution, Distributor, Known, Measured},
        scaling::{self, Decision, Interval, Scalers, Scaling, Scope, Seen},
        table::Table,
    },
    rng::Rng,
    time::{Span, Time},
};

use super::{
    workload::Job,
    world::{APPLICATIONS, Application, CLOUD, CORES, Nature, Pace},
};

/// Seconds between two decisions on vCPUs, and between two measurements of rates.
pub const INTERVAL_S: f64 = 300.0;
/// The seed of measuring errors: the same in all runs, only the jobs differ.
const LUCK_OF_MEASURING: u64 = 3;
/// Amounts of tasks below this count as zero.
const NOTHING: f64 = 1e-6;

/// The policies of a run, with their constants.
#[derive(Clone, Copy, Debug)]
pub struct Laws {
    /// The policy for weights.
    pub distribution: Distribution,
    /// The policy for vCPUs.
    pub scaling: Scaling,
    /// The scope of a vCPU ratio.
    pub scope: Scope,
    /// Constants of the policy for weights.
    pub weights: distribution::Settings,
    /// Constants of the policy for vCPUs.
    pub vcpus: scaling::Settings,
}

impl Laws {
    /// Makes policies with the constants of all runs.
    pub fn new(distribution: Distribution, scaling: Scaling) -> Laws {
        Laws {
            distribution,
            scaling,
            scope: scaling.scope(),
            weights: distribution::Settings::default(),
            vcpus: scaling::Settings::default(),
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Tasks per second, from the first second to the end of the last task.
    pub throughput: f64,
    /// Mean seconds of a task from its submission to its (last) start.
    pub wait_s: f64,
    /// Part of all core-seconds in which a core computed, including failed attempts.
    pub utilisation: f64,
    /// Failed attempts divided by tasks.
    pub errors: f64,
    /// Number of changes of the vCPU ratio, summed over all applications if each has its own.
    pub n_changes: usize,
    /// The vCPU ratio and the cloud's mean weight, after each interval.
    pub course: Vec<Moment>,
    /// How many times LOAD kept, initialised and moved the weights.
    pub load_steps: [usize; 3],
    /// Number of steps in which a weight would have left 0 to 1.
    pub n_clamped: usize,
}

/// A point in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Time in seconds.
    pub at: f64,
    /// The cloud's vCPU ratio, for the application that ran there last.
    pub ratio: f64,
    /// Tasks on the cloud that are not finished.
    pub n_queued: u64,
    /// The part of the last job that went to the cloud.
    pub cloud_weight: f64,
}

/// Tasks of one job on one platform.
#[derive(Clone, Copy, Debug)]
struct Slice {
    application: usize,
    left: f64,
    submitted_at: f64,
}

/// The platforms' work since the last interval, by application and platform.
struct Done {
    finished: Table<f64>,
    seconds: Table<f64>,
    /// Attempts on the cloud, by application.
    cloud: Vec<Attempts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Attempts {
    ended: f64,
    failed: f64,
    cpu_s: f64,
    wall_s: f64,
}

impl Done {
    fn nothing() -> Done {
        let none = Table::new(APPLICATIONS.len(), CORES.len(), 0.0);
        Done { finished: none.clone(), seconds: none, cloud: vec![Attempts::default(); APPLICATIONS.len()] }
    }
}

/// The state of a run.
struct Run {
    now: f64,
    nature: Nature,
    luck: Rng,
    queues: [VecDeque<Slice>; 2],
    distributor: Distributor,
    scalers: Scalers,
    cloud_weight: f64,
    last_on_cloud: usize,
    done: Done,
    waited_s: f64,
    cpu_s: f64,
    failed: f64,
    outcome: Outcome,
}

/// Runs all jobs to their end; `jobs` are in ascending order of time.
pub fn run(jobs: &[Job], laws: &Laws, nature: Nature) -> Outcome {
    let mut run = Run::new(laws, nature);
    let mut coming = jobs.iter().peekable();
    let mut next_interval = INTERVAL_S;
    loop {
        let arrival = coming.peek().map_or(f64::INFINITY, |job| job.at);
        if arrival.is_infinite() && run.is_idle() {
            return run.outcome(jobs.iter().map(|job| job.n_tasks).sum());
        }
        let end = (0..CORES.len()).map(|platform| run.head_ends_at(platform)).fold(f64::INFINITY, f64::min);
        run.advance(arrival.min(next_interval).min(end));
        if run.now >= arrival {
            coming.next().into_iter().for_each(|job| run.submit(job));
        }
        if run.now >= next_interval {
            run.decide();
            next_interval += INTERVAL_S;
        }
    }
}

impl Run {
    fn new(laws: &Laws, nature: Nature) -> Run {
        let runtimes = Table::new(APPLICATIONS.len(), CORES.len(), ());
        let runtimes = runtimes.map_places(|row, platform| Some(APPLICATIONS[row].runtimes[platform]));
        let known = Known { cores: &CORES, runtimes: &runtimes };
        Run {
            now: 0.0,
            nature,
            luck: Rng::new(LUCK_OF_MEASURING),
            queues: Default::default(),
            distributor: Distributor::new(laws.distribution, &laws.weights, &known),
            scalers: Scalers::new(laws.scaling, laws.scope, laws.vcpus, APPLICATIONS.len()),
            cloud_weight: 0.0,
            last_on_cloud: 0,
            done: Done::nothing(),
            waited_s: 0.0,
            cpu_s: 0.0,
            failed: 0.0,
            outcome: Outcome::default(),
        }
    }

    fn is_idle(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    fn pace(&self, application: usize, platform: usize) -> Pace {
        Pace::of(application, platform, self.scalers.ratio(application), self.nature)
    }

    fn head_ends_at(&self, platform: usize) -> f64 {
        let end = |head: &Slice| self.now + head.left / self.pace(head.application, platform).goodput();
        self.queues[platform].front().map_or(f64::INFINITY, end)
    }

    /// Lets the platforms work until `then`; no head of a queue ends before that.
    fn advance(&mut self, then: f64) {
        let seconds = then - self.now;
        for platform in 0..CORES.len() {
            let Some(head) = self.queues[platform].front().copied() else { continue };
            let pace = self.pace(head.application, platform);
            let done = (pace.goodput() * seconds).min(head.left);
            let Application { runtimes, cpu, .. } = APPLICATIONS[head.application];
            let cpu_s = pace.attempts * seconds * runtimes[platform] * cpu;
            *self.done.finished.at_mut(head.application, platform) += done;
            *self.done.seconds.at_mut(head.application, platform) += seconds;
            self.waited_s += done * (self.now + seconds / 2.0 - head.submitted_at);
            self.cpu_s += cpu_s;
            if platform == CLOUD {
                let attempts = &mut self.done.cloud[head.application];
                let failed = pace.attempts * pace.errors * seconds;
                attempts.ended += pace.attempts * seconds;
                attempts.failed += failed;
                attempts.cpu_s += cpu_s;
                attempts.wall_s += seconds * CORES[CLOUD] as f64 * self.scalers.ratio(head.application);
                self.failed += failed;
                self.last_on_cloud = head.application;
            }
            let queue = &mut self.queues[platform];
            if head.left - done < NOTHING {
                queue.pop_front();
            } else if let Some(head) = queue.front_mut() {
                head.left -= done;
            }
        }
        self.now = then;
    }

    /// Returns the tasks of each application that each platform has not finished.
    fn queued(&self) -> Table<u64> {
        let mut queued = Table::new(APPLICATIONS.len(), CORES.len(), 0);
        for (platform, queue) in self.queues.iter().enumerate() {
            queue
                .iter()
                .for_each(|slice| *queued.at_mut(slice.application, platform) += slice.left.ceil() as u64);
        }
        queued
    }

    fn submit(&mut self, job: &Job) {
        let weights = self.distributor.weights(job.application, job.n_tasks, &self.queued());
        for (platform, slice) in weights.split(job.n_tasks).into_iter().enumerate() {
            let left = (slice.end - slice.start) as f64;
            if left > 0.0 {
                let slice = Slice { application: job.application, left, submitted_at: job.at };
                self.queues[platform].push_back(slice);
            }
        }
        self.cloud_weight = weights.shares()[CLOUD];
        let step = match self.distributor.submitted(job.n_tasks, &self.queued()) {
            Adjusted::Kept => 0,
            Adjusted::Initialized => 1,
            Adjusted::Moved { n_clamped } => {
                self.outcome.n_clamped += usize::from(n_clamped > 0);
                2
            }
        };
        self.outcome.load_steps[step] += 1;
    }

    /// Handles the end of an interval: learns from the measurements and decides on vCPUs.
    fn decide(&mut self) {
        let done = std::mem::replace(&mut self.done, Done::nothing());
        for application in 0..APPLICATIONS.len() {
            for platform in 0..CORES.len() {
                let n_finished = done.finished.at(application, platform);
                let platform_s = done.seconds.at(application, platform);
                self.distributor.finished(&Measured { application, platform, n_finished, platform_s });
            }
        }
        let queued = self.queued();
        let seen = |(application, attempts): (usize, &Attempts)| {
            let (of_cpu, of_failed) = self.nature.measured(&mut self.luck);
            Seen {
                n_ended: attempts.ended.round() as u64,
                n_failed: (attempts.failed * of_failed).round() as u64,
                n_queued: queued.at(application, CLOUD),
                cpu: span(attempts.cpu_s * of_cpu),
                wall: span(attempts.wall_s),
            }
        };
        let seen: Vec<Seen> = done.cloud.iter().enumerate().map(seen).collect();
        let interval = Interval { at: Time::default() + span(self.now), n_cores: CORES[CLOUD] };
        let decisions = self.scalers.decide(&interval, &seen);
        if decisions.iter().any(Decision::has_risen)
            && let Adjusted::Moved { n_clamped } = self.distributor.scaled_up(&[false, true])
        {
            self.outcome.n_clamped += usize::from(n_clamped > 0);
        }
        self.outcome.n_changes += decisions.iter().filter(|decision| decision.has_changed()).count();
        self.outcome.course.push(Moment {
            at: self.now,
            ratio: self.scalers.ratio(self.last_on_cloud),
            n_queued: seen.iter().map(|seen| seen.n_queued).sum(),
            cloud_weight: self.cloud_weight,
        });
    }

    fn outcome(self, n_tasks: u64) -> Outcome {
        let n_tasks = n_tasks as f64;
        Outcome {
            throughput: n_tasks / self.now,
            wait_s: self.waited_s / n_tasks,
            utilisation: self.cpu_s / (self.now * CORES.iter().sum::<u64>() as f64),
            errors: self.failed / n_tasks,
            ..self.outcome
        }
    }
}

fn span(seconds: f64) -> Span {
    Span((seconds * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use scheduler::policy::{distribution::Distribution, scaling::Scaling};

    use super::{INTERVAL_S, Laws, Nature, run};
    use crate::adaptive::workload::Job;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected.abs(), "{found}, not {expected}");
    }

    #[test]
    fn one_job_by_hand() {
        let job = Job { application: 0, n_tasks: 100, at: 0.0 };
        let outcome = run(&[job], &Laws::new(Distribution::CoreBased, Scaling::Fixed), Nature::Cores);
        // Fifty on each: 24 cores at 14 s; 24 at 10 s, where one in 200 attempts fails.
        let (cluster_s, cloud_s) = (50.0 * 14.0 / 24.0, 50.0 * 10.0 / 24.0 / 0.995);
        near(outcome.throughput, 100.0 / cluster_s);
        near(outcome.wait_s, (cluster_s + cloud_s) / 4.0);
        near(outcome.utilisation, (cluster_s + cloud_s) / (2.0 * cluster_s));
        near(outcome.errors, 0.5 * 0.005 / 0.995);
    }

    #[test]
    fn the_queue_is_served_in_order_and_idle_time_is_time() {
        let job = |at| Job { application: 1, n_tasks: 240, at };
        let laws = Laws::new(Distribution::CoreBased, Scaling::Fixed);
        let alone = run(&[job(0.0)], &laws, Nature::Cores);
        let behind = run(&[job(0.0), job(0.0)], &laws, Nature::Cores);
        let later = run(&[job(0.0), job(1000.0)], &laws, Nature::Cores);
        near(behind.wait_s, 2.0 * alone.wait_s);
        near(later.wait_s, alone.wait_s);
        near(480.0 / later.throughput, 1000.0 + 240.0 / alone.throughput);
    }

    #[test]
    fn vcpus_follow_their_law() {
        let jobs = [Job { application: 3, n_tasks: 20_000, at: 0.0 }];
        let ratios = |scaling| {
            let outcome = run(&jobs, &Laws::new(Distribution::Profile, scaling), Nature::Cores);
            assert_eq!(outcome.course[0].at, INTERVAL_S);
            outcome.course.iter().take(4).map(|moment| moment.ratio).collect::<Vec<_>>()
        };
        assert_eq!(ratios(Scaling::Fixed), [1.0; 4]);
        assert_eq!(ratios(Scaling::Adaptive2016), [2.0, 3.0, 4.0, 4.0]);
        assert_eq!(ratios(Scaling::Adaptive), [1.5, 2.0, 2.5, 3.0]);
        assert!(ratios(Scaling::Measured).iter().all(|ratio| (ratio - 2.5).abs() < 1e-5));
    }
}
