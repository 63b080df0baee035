//! Scenarios: platforms, users, their jobs and policies read from a file, run by the real engine and the real
//! pilots in simulated time, with metrics of the result. The world is that of [`crate::faults`], with a plan
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

/// The content of a scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The platforms, in the file's order.
    pub platforms: Vec<Platform>,
    /// The applications, in the file's order.
    pub applications: Vec<Application>,
    /// Names of the users, in the file's order.
    pub users: Vec<String>,
    /// The lots of all users, in the file's order.
    pub lots: Vec<Lot>,
    /// Jobs from workload logs, or of a manager's history, in addition to the lots.
    pub past: Arc<[PastJob]>,
    /// The policy of each layer.
    pub policies: Policies,
    /// The run is stopped if tasks wait and none ends for this long; `None`: for a month more than its
    /// longest task takes.
    pub patience: Option<Span>,
    /// The original results, if the scenario is a manager's history.
    pub history: Option<Box<Row>>,
    faults: Faults,
}

/// A source of pilots, one for each node.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// A unique name.
    pub name: String,
    /// The largest number of pilots.
    pub n_nodes: u32,
    /// The resources of each pilot for tasks.
    pub capacity: Resources,
    /// Number of pilots that exist even when there is nothing to do.
    pub pilots_min: u32,
    /// The walltime of a batch job.
    pub walltime: Option<Span>,
    /// The queue wait of a batch job.
    pub queue_wait: Distribution,
    /// The queue waits of former batch jobs. New ones get them in turn, beginning again after the last;
    /// empty: queue waits are drawn.
    pub past_waits: Arc<[Span]>,
    /// A pilot without work for this long is sent away.
    pub idle_timeout: Span,
    /// The interval at which it is asked for a listing.
    pub poll_interval: Span,
    /// The divisor of runtimes.
    pub speed: f64,
    /// The runtimes of applications (by position) here, where they are not their time divided by the speed.
    pub times: Vec<(usize, Distribution)>,
    /// Mean seconds of a task of each application in the history, by which runtimes of tasks that ran
    /// elsewhere are scaled; empty: they are not scaled.
    pub past_means: Vec<f64>,
}

/// A kind of program.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// A unique name.
    pub name: String,
    /// The runtime of a task on a platform of speed 1; `None`: its jobs are from logs, which have it.
    pub time: Option<Distribution>,
    /// Cores of a task.
    pub cores: u32,
    /// The time limit of a task.
    pub time_limit: Option<Span>,
    /// The number of retries of a task whose program failed.
    pub retries: u32,
    /// The relative slow-down for each core of an application (by position) that is busy on its node.
    pub slowed_by: Vec<(usize, f64)>,
    /// The probability that the program of an attempt fails.
    pub program_fails: f64,
    /// … that the node fails.
    pub node_fails: f64,
    /// … that the pilot dies.
    pub pilot_dies: f64,
}

/// Similar jobs of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Lot {
    /// The user, by position.
    pub user: usize,
    /// The applications (by position) with the probabilities by which each job's is drawn; they sum to 1.
    pub applications: Vec<(usize, f64)>,
    /// Number of tasks of each job.
    pub n_tasks: u64,
    /// Number of jobs.
    pub n_jobs: u64,
    /// The priority of the jobs; higher goes first.
    pub priority: i32,
    /// When the first job may arrive.
    pub at: Span,
    /// The distribution of the arrivals.
    pub arrivals: Arrivals,
}

/// The distribution of the arrivals of jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// All jobs together.
    AtOnce,
    /// One job after the other, with exponential gaps of this mean.
    Poisson(Span),
    /// By a pattern over this span.
    Pattern(Pattern, Span),
}

/// The faults, in addition to those of applications.
#[derive(Clone, Debug)]
struct Faults {
    rates: Rates,
    /// The time after which nothing fails.
    until: Option<Span>,
    /// The longest time from its start until a pilot that is to die, stall or be preempted does so.
    within: Span,
    manager_deaths: Vec<Span>,
    /// The longest absence of the manager after a death.
    manager_away: Span,
}

/// Scenarios with more tasks run without an auditor, which keeps a history of each task.
const N_AUDITED_MAX: u64 = 5_000;

impl Application {
    /// Returns the needs of each of its tasks.
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

    /// Reads the text of a file; `name` is its name in messages, and log files are searched beside it.
    ///
    /// # Errors
    /// All its mistakes, in the order of its lines.
    pub fn parse(text: &str, name: &str) -> Result<Scenario, Vec<Problem>> {
        read::scenario(text, name)
    }

    /// Returns the number of tasks of all users.
    pub fn n_tasks(&self) -> u64 {
        let of_lots = self.lots.iter().map(|lot| lot.n_tasks.saturating_mul(lot.n_jobs));
        of_lots.chain(self.past.iter().map(|past| past.job.n_tasks)).fold(0, u64::saturating_add)
    }

    /// Returns the number of jobs of all users.
    pub fn n_jobs(&self) -> u64 {
        self.lots.iter().map(|lot| lot.n_jobs).sum::<u64>() + self.past.len() as u64
    }

    /// Returns whether an auditor checks its runs.
    pub fn is_audited(&self) -> bool {
        self.n_tasks() <= N_AUDITED_MAX
    }

    /// Runs it with its seed. `trace` gets a line for every event.
    ///
    /// # Errors
    /// A rule of the design was violated.
    pub fn run(&self, trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>) -> Result<Account, Violation> {
        self.run_told(trace, &mut |_| {})
    }

    /// Runs it with its seed; `told` is called now and then with the progress.
    ///
    /// # Errors
    /// A rule of the design was violated.
    pub fn run_told(
        &self,
        trace: Option<&mut dyn FnMut(fmt::Arguments<'_>)>,
        told: &mut dyn FnMut(HowFar),
    ) -> Result<Account, Violation> {
        let (plan, scene) = plan::of(self);
        // Gives both the shorter of the two lifetimes.
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
