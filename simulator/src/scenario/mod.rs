//! Scenarios: platforms, users, their jobs and policies read from a file, run by the live engine and the
//! live pilots in simulated time, and what it came to. The world is that of [`crate::faults`], with a plan
//! that is read instead of drawn and with times that come from a model.

pub mod distribution;
mod ground;
pub mod history;
pub mod measures;
mod model;
pub mod order;
pub mod past;
mod plan;
mod read;
mod read_log;
mod read_users;
mod read_values;
mod ruled;
mod workflow;

use std::{fmt, path::Path, sync::Arc};

use protocol::job::Problem;
use scheduler::{policy::Policies, pull::TaskNeeds, resources::Resources, time::Span};

use self::{
    distribution::Distribution,
    measures::{Account, Row},
    past::PastJob,
};
use crate::{
    auditor::Violation,
    pattern::Pattern,
    world::{World, patience::HowFar, plan::Rates},
};

pub use crate::world::{ledger, patience};

/// What a scenario's file says.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For all that is drawn by lot.
    pub seed: u64,
    /// In the file's order.
    pub platforms: Vec<Platform>,
    /// In the file's order.
    pub applications: Vec<Application>,
    /// Names, in the file's order.
    pub users: Vec<String>,
    /// Of all users, in the file's order.
    pub lots: Vec<Lot>,
    /// Jobs from workload logs, or of a manager: they come besides the lots.
    pub past: Arc<[PastJob]>,
    /// Which policy each layer uses.
    pub policies: Policies,
    /// A run is given up when tasks wait and none ends for so long; `None`: for a month more than its longest
    /// task takes.
    pub patience: Option<Span>,
    /// What it came to once, where it is a manager's history.
    pub history: Option<Box<Row>>,
    faults: Faults,
}

/// A source of pilots, one a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Unique.
    pub name: String,
    /// Pilots at most.
    pub n_nodes: u32,
    /// What each of them has for tasks.
    pub capacity: Resources,
    /// Pilots that are there even when there is nothing to do.
    pub pilots_min: u32,
    /// How long a batch job may run.
    pub walltime: Option<Span>,
    /// How long a batch job waits.
    pub queue_wait: Distribution,
    /// How long batch jobs waited once, which those of now do in turn, the first again after the last;
    /// empty: it is drawn.
    pub past_waits: Arc<[Span]>,
    /// A pilot without work for so long is sent away.
    pub idle_timeout: Span,
    /// How often it is asked for what is there.
    pub poll_interval: Span,
    /// Times of tasks are divided by it.
    pub speed: f64,
    /// What applications (by position) take here, where it is not their time over the speed.
    pub times: Vec<(usize, Distribution)>,
    /// Seconds of a task of each application as it was once, by which tasks that ran elsewhere are longer here or
    /// shorter; empty: they are not.
    pub past_means: Vec<f64>,
}

/// A kind of program.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Unique.
    pub name: String,
    /// What a task takes on a platform of speed 1; `None`: its jobs are from logs, which say it.
    pub time: Option<Distribution>,
    /// Cores of a task.
    pub cores: u32,
    /// After so long a task is stopped.
    pub time_limit: Option<Span>,
    /// How often a task whose program failed is run again.
    pub retries: u32,
    /// How much longer it takes for each core of an application (by position) that is busy on its node.
    pub slowed_by: Vec<(usize, f64)>,
    /// Of an attempt: that the program fails.
    pub program_fails: f64,
    /// … that the node fails.
    pub node_fails: f64,
    /// … that its pilot dies.
    pub pilot_dies: f64,
}

/// Jobs of a user that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Lot {
    /// By position.
    pub user: usize,
    /// The application (by position) of each job is drawn by these weights, which sum to 1.
    pub applications: Vec<(usize, f64)>,
    /// Tasks of each job.
    pub n_tasks: u64,
    /// How many jobs.
    pub n_jobs: u64,
    /// Higher first.
    pub priority: i32,
    /// When they begin to come.
    pub at: Span,
    /// How they come.
    pub arrivals: Arrivals,
}

/// How jobs come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// All together.
    AtOnce,
    /// One after the other, with exponential gaps of this mean.
    Poisson(Span),
    /// By a pattern over this span.
    Pattern(Pattern, Span),
}

/// What fails, beyond what applications do.
#[derive(Clone, Debug)]
struct Faults {
    rates: Rates,
    /// Nothing fails after so long.
    until: Option<Span>,
    /// A pilot that is to die, stall or be preempted does so this long after its start, at most.
    within: Span,
    manager_deaths: Vec<Span>,
    /// How long the manager is away after a death, at most.
    manager_away: Span,
}

/// Scenarios with more tasks are run without an auditor, who keeps a history of each.
const N_AUDITED_MAX: u64 = 5_000;

impl Application {
    /// What each of its tasks needs.
    fn needs(&self) -> TaskNeeds {
        TaskNeeds {
            resources: Resources::cores(self.cores),
            time_limit: self.time_limit,
            success_codes: vec![0],
            ..TaskNeeds::default()
        }
    }
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or all its mistakes.
    pub fn load(path: &Path) -> Result<Scenario, Vec<Problem>> {
        let text = protocol::job::load_text(path)?;
        Scenario::parse(&text, &path.display().to_string())
    }

    /// Reads the text of a file; `name` is what its problems call it, and logs are looked for beside it.
    ///
    /// # Errors
    /// All its mistakes, in the order of its lines.
    pub fn parse(text: &str, name: &str) -> Result<Scenario, Vec<Problem>> {
        read::scenario(text, name)
    }

    /// All tasks of all users.
    pub fn n_tasks(&self) -> u64 {
        let of_lots = self.lots.iter().map(|lot| lot.n_tasks.saturating_mul(lot.n_jobs));
        of_lots.chain(self.past.iter().map(|past| past.job.n_tasks)).fold(0, u64::saturating_add)
    }

    /// All jobs of all users.
    pub fn n_jobs(&self) -> u64 {
        self.lots.iter().map(|lot| lot.n_jobs).sum::<u64>() + self.past.len() as u64
    }

    /// Whether an auditor watches its runs.
    pub fn is_audited(&self) -> bool {
        self.n_tasks() <= N_AUDITED_MAX
    }

    /// Runs it with its seed. `trace` is given a line for everything that happens.
    ///
    /// # Errors
    /// A rule of the design did not hold.
    pub fn run(&self, trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>) -> Result<Account, Violation> {
        self.run_told(trace, &mut |_| {})
    }

    /// The same; `told` hears now and then how far it is.
    ///
    /// # Errors
    /// A rule of the design did not hold.
    pub fn run_told(
        &self,
        trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>,
        told: &mut dyn FnMut(HowFar),
    ) -> Result<Account, Violation> {
        let (plan, scene) = plan::of(self);
        // Both for as long as the shorter of them.
        let trace = trace.map(|trace| -> &mut dyn FnMut(fmt::Arguments<'_>) { trace });
        let mut world = World::new(self.seed, plan, Some(scene), trace);
        world.told = Some(told);
        world.run()?;
        let (n_events, stopped) = (world.outcome().n_events, world.stopped.take());
        let Some(scene) = world.scene else { unreachable!("it was given a scene") };
        Ok(measures::account(self, scene.ledger, n_events, stopped))
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_files;
#[cfg(test)]
mod tests_of_history;
#[cfg(test)]
mod tests_of_logs;
#[cfg(test)]
mod tests_of_what_if;
