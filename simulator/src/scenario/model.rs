//! How long queues and tasks take, and what fails: drawn from the seed and the name of what it is drawn
//! for, so that a task is as long under one policy as under another.

use std::sync::Arc;

use scheduler::{pilot::Ending, results::FailureKind, rng::Rng, time::Span};

use super::{Application, Scenario, distribution::Distribution, past::PastJob};
use crate::{
    draw,
    world::{course::Course, ledger::JobAccount, scene::TimingModel},
};

/// What the numbers of a draw begin with: draws for one thing have nothing to do with those for another.
const QUEUE: u64 = 20;
const TIME: u64 = 21;
const FAILURE: u64 = 22;

pub(super) struct Model {
    seed: u64,
    /// Drawn ones, and those that were once.
    queue_waits: Vec<(Distribution, Arc<[Span]>)>,
    /// `times[application][platform]`: a distribution, and what its spans are divided by.
    times: Vec<Vec<(Distribution, f64)>>,
    applications: Vec<Application>,
    /// What the spans of past jobs are divided by, for each platform.
    speeds: Vec<f64>,
    /// What those of each application took there; empty: whatever they took elsewhere.
    past_means: Vec<Vec<f64>>,
    /// Jobs whose tasks take what they took; numbered behind the others.
    past: Arc<[PastJob]>,
    first_past: u64,
}

impl Model {
    pub(super) fn new(scenario: &Scenario) -> Model {
        let Scenario { seed, platforms, applications, past, .. } = scenario;
        let times = applications.iter().enumerate().map(|(which, application)| {
            let time = |platform: &super::Platform| {
                let own = platform.times.iter().find(|(named, _)| *named == which);
                // Without a time its jobs are past ones, for which nothing is drawn.
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

    /// How long a task is, what that is divided by there, and whether it fails in any case.
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
    /// Whether tasks on one node slow each other down.
    fn slows_down(&self) -> bool {
        self.applications.iter().any(|application| !application.slowed_by.is_empty())
    }

    fn n_applications(&self) -> usize {
        self.applications.len()
    }

    /// The speed of a task of so many cores on a node with so many busy cores of each application (itself
    /// among them), of its speed alone: each other core lengthens it by that application's part.
    fn rate(&self, application: usize, cores: u32, busy: &[u32]) -> f64 {
        let slowed = self.applications[application].slowed_by.iter().map(|(other, part)| {
            let own = if *other == application { cores } else { 0 };
            part * f64::from(busy[*other] - own)
        });
        1.0 / (1.0 + slowed.sum::<f64>())
    }

    /// How long the batch job of that number waits there.
    fn queue_wait(&self, site: usize, job: u64) -> Span {
        let (drawn, past) = &self.queue_waits[site];
        match past.len() {
            0 => drawn.draw(&mut Rng::of(self.seed, &[QUEUE, site as u64, job])),
            n => past[(job % n as u64) as usize],
        }
    }

    /// What becomes of an attempt at a task, given as the scenario's job and the task's index.
    fn course(&self, site: usize, job: &JobAccount, index: u64, attempt: u64, limit: Option<Span>) -> Course {
        let (application, job) = (job.application, job.number);
        let (wall, speed, has_failed) = self.length(site, application, (job, index));
        // Not 0: nothing takes no time at all.
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
