//! The model of queue waits, runtimes and failures: drawn from the seed and the name of their subject, so
//! that a task takes equally long under any policy.

use std::sync::Arc;

use scheduler::{pilot::Ending, results::FailureKind, rng::Rng, time::Span};

use super::{Application, Scenario, distribution::Distribution, past::PastJob};
use crate::{
    draw,
    world::{course::Course, ledger::JobAccount, scene::TimingModel},
};

/// The first number of each draw: draws for different purposes are independent.
const QUEUE: u64 = 20;
const TIME: u64 = 21;
const FAILURE: u64 = 22;

pub(super) struct Model {
    seed: u64,
    /// The distribution of queue waits, and former queue waits.
    queue_waits: Vec<(Distribution, Arc<[Span]>)>,
    /// `times[application][platform]`: a distribution, and the divisor of its spans.
    times: Vec<Vec<(Distribution, f64)>>,
    applications: Vec<Application>,
    /// The divisor of runtimes of past jobs, for each platform.
    speeds: Vec<f64>,
    /// The mean runtimes of each application on each platform; empty: runtimes are not scaled.
    past_means: Vec<Vec<f64>>,
    /// Jobs whose tasks have given runtimes; numbered after the others.
    past: Arc<[PastJob]>,
    first_past: u64,
}

impl Model {
    pub(super) fn new(scenario: &Scenario) -> Model {
        let Scenario { seed, platforms, applications, past, .. } = scenario;
        let times = applications.iter().enumerate().map(|(which, application)| {
            let time = |platform: &super::Platform| {
                let own = platform.times.iter().find(|(named, _)| *named == which);
                // The jobs of an application without a time are past ones, for which nothing is drawn.
                let time = application.time.unwrap_or(Distribution::Constant(0.0));
                own.map_or((time, platform.speed), |(_, time)| (*time, 1.0))
            };
            platforms.iter().map(time).collect()
        });
        let queue_waits =
            platforms.iter().map(|platform| (platform.queue_wait, Arc::clone(&platform.past_waits)));
        Model {
            seed: *seed,
            queue_waits: queue_waits.collect(),
            times: times.collect(),
            applications: applications.clone(),
            speeds: platforms.iter().map(|platform| platform.speed).collect(),
            past_means: platforms.iter().map(|platform| platform.past_means.clone()).collect(),
            past: Arc::clone(past),
            first_past: scenario.lots.iter().map(|lot| lot.n_jobs).sum(),
        }
    }

    /// Returns the length of a task, its divisor on this site, and whether it fails in any case.
    fn length(&self, site: usize, application: usize, (job, index): (u64, u64)) -> (Span, f64, bool) {
        let past = job.checked_sub(self.first_past).and_then(|number| self.past.get(number as usize));
        if let Some(past) = past {
            let (span, has_failed) = past.lengths.of(index);
            let mean = |site: usize| self.past_means.get(site)?.get(application).copied();
            let there = past.lengths.place(index).filter(|there| *there != site);
            let faster = there.and_then(|there| Some(mean(there)? / mean(site)?));
            return (span, self.speeds[site] * faster.unwrap_or(1.0), has_failed);
        }
        let (time, speed) = self.times[application][site];
        (time.draw(&mut Rng::of(self.seed, &[TIME, job, index])), speed, false)
    }
}

impl TimingModel for Model {
    /// Returns whether tasks on one node slow each other down.
    fn slows_down(&self) -> bool {
        self.applications.iter().any(|application| !application.slowed_by.is_empty())
    }

    fn n_applications(&self) -> usize {
        self.applications.len()
    }

    /// Returns the speed of a task relative to its speed alone. `busy`: busy cores of each application on the
    /// node, including its own `cores`; each other core lengthens it by that application's part.
    fn rate(&self, application: usize, cores: u32, busy: &[u32]) -> f64 {
        let slowed = self.applications[application].slowed_by.iter().map(|(other, part)| {
            let own = if *other == application { cores } else { 0 };
            part * f64::from(busy[*other] - own)
        });
        1.0 / (1.0 + slowed.sum::<f64>())
    }

    /// Returns the queue wait of the batch job with this number.
    fn queue_wait(&self, site: usize, job: u64) -> Span {
        let (drawn, past) = &self.queue_waits[site];
        match past.len() {
            0 => drawn.draw(&mut Rng::of(self.seed, &[QUEUE, site as u64, job])),
            n => past[(job % n as u64) as usize],
        }
    }

    /// Returns the course of an attempt at a task, given as the scenario's job and the task's index.
    fn course(&self, site: usize, job: &JobAccount, index: u64, attempt: u64, limit: Option<Span>) -> Course {
        let (application, job) = (job.application, job.number);
        let (wall, speed, has_failed) = self.length(site, application, (job, index));
        // At least 1: nothing takes no time at all.
        let wall = Span(((wall.0 as f64 / speed) as u64).max(1));
        let mut luck = Rng::of(self.seed, &[FAILURE, job, index, attempt]);
        let mut happens = |rate: f64| draw::uniform(&mut luck) < rate;
        let application = &self.applications[application];
        let (node_fails, program_fails) =
            (happens(application.node_fails), happens(application.program_fails));
        let kills_pilot = happens(application.pilot_dies);
        let (span, ending) = match limit.filter(|limit| *limit < wall) {
            _ if node_fails => (Span::from_millis(1), Course::node_failure()),
            Some(limit) => (limit, Ending::Failed(FailureKind::TimeLimit { limit })),
            None => (wall, Ending::Exited(i32::from(program_fails || has_failed))),
        };
        Course { span, ending, kills_pilot }
    }
}
