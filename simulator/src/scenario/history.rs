//! A manager's history as a scenario: what its store tells of platforms, pilots and jobs, so that other
//! policies can be tried on it. It knows the engine's durable state, not the store.

use std::sync::Arc;

use scheduler::{
    engine::{
        durable::{Durable, Job},
        runtimes::Runtimes,
    },
    ids::{JobId, PilotId, PlatformId},
    policy::Policies,
    pull::TaskNeeds,
    ranges::TaskSet,
    resources::Resources,
    time::{Span, Time},
};

use super::{
    Application, Faults, Platform, Scenario,
    distribution::Distribution,
    ledger::JobAccount,
    measures,
    past::{Coming, Lengths, PastJob},
};

/// The attempt that decided a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When it began, on the manager's clock.
    pub from: Time,
    /// When it ended.
    pub to: Time,
    /// Whether the task has failed by it.
    pub is_failure: bool,
    /// The pilot that made it.
    pub pilot: PilotId,
}

/// A history, and what of it is played again.
#[derive(Clone, Debug)]
pub struct History {
    /// To be run; what it came to once is a row of its account.
    pub scenario: Scenario,
    /// The first submission of a job that is played again.
    pub begin: Time,
    /// The last end of a task that is.
    pub end: Time,
    /// Jobs of which no task is over.
    pub n_jobs_without: u64,
    /// Tasks that are open or were cancelled.
    pub n_tasks_without: u64,
    /// Jobs that are left out because nobody wants them.
    pub n_jobs_not_chosen: u64,
    /// Attempts that failed and did not decide their task.
    pub n_tried_before: u64,
    /// Whether it is known under which policies it was; else the scenario has the default ones.
    pub are_policies_known: bool,
}

/// What of a state is played again.
pub struct Chosen<'a> {
    /// The policies that the manager's configuration said, if that is known.
    pub configured: Option<Policies>,
    /// Which jobs.
    pub is_chosen: &'a dyn Fn(JobId, &Job) -> bool,
}

/// A pilot that was.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastPilot {
    pub(super) cores: u32,
    /// Its batch job, from submission to the pilot's start.
    pub(super) waited: Span,
    /// How long it was there.
    pub(super) held: Span,
}

/// Names in the order they were met.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn place(&mut self, name: &str) -> usize {
        self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }
}

/// The history of all jobs of that state, where nobody knows what the configuration said.
///
/// # Errors
/// Those of `decided`.
pub fn of<E>(
    durable: &Durable,
    decided: impl FnMut(JobId, &Job) -> Result<Vec<Decided>, E>,
) -> Result<Option<History>, E> {
    of_chosen(durable, &Chosen { configured: None, is_chosen: &|_, _| true }, decided)
}

/// The history of that state; `None` when no task is over. `decided` gives, for a job, what is known of its
/// tasks that are over, ascending.
///
/// # Errors
/// Those of `decided`.
pub fn of_chosen<E>(
    durable: &Durable,
    chosen: &Chosen<'_>,
    mut decided: impl FnMut(JobId, &Job) -> Result<Vec<Decided>, E>,
) -> Result<Option<History>, E> {
    let (mut users, mut applications) = (Names::default(), Names::default());
    let (mut past, mut accounts, mut end) = (Vec::new(), Vec::new(), Time::default());
    let (mut n_jobs_without, mut n_tasks_without, mut n_tried_before, mut n_jobs_not_chosen) = (0, 0, 0, 0);
    for (id, job) in durable.jobs() {
        if !(chosen.is_chosen)(*id, job) {
            n_jobs_not_chosen += 1;
            continue;
        }
        let tasks = decided(*id, job)?;
        let n_failed = tasks.iter().filter(|task| task.is_failure).count() as u64;
        n_tasks_without += job.request.n_tasks.saturating_sub(tasks.len() as u64);
        n_tried_before += job.n_failed_attempts.saturating_sub(n_failed);
        if tasks.is_empty() {
            n_jobs_without += 1;
            continue;
        }
        let owner = (users.place(&job.request.user), applications.place(&job.request.application));
        accounts.push(account(accounts.len() as u64, owner, job, &tasks));
        past.push((past_job(owner, job, &tasks), tasks.iter().map(|task| task.pilot).collect::<Vec<_>>()));
        end = tasks.iter().map(|task| task.to).fold(end, Time::max);
    }
    let Some(begin) = accounts.iter().map(|job| job.submitted).min() else { return Ok(None) };
    past.iter_mut().zip(&accounts).for_each(|((past, _), job)| past.job.at = job.submitted.since(begin));
    let all_pilots = durable.platforms().keys().map(|id| (*id, pilots(durable, *id, end)));
    let all_pilots: Vec<_> = all_pilots.filter(|(_, pilots)| !pilots.is_empty()).collect();
    let those: Vec<PastPilot> = all_pilots.iter().flat_map(|(_, pilots)| pilots.iter().copied()).collect();
    let history = measures::of_history(&accounts, users.0.len(), &those, n_tried_before);
    let mut platforms: Vec<Platform> =
        all_pilots.iter().filter_map(|(id, pilots)| platform(durable, *id, pilots)).collect();
    let ids: Vec<PlatformId> = all_pilots.iter().map(|(id, _)| *id).collect();
    let past: Vec<PastJob> = past.into_iter().map(|(past, by)| placed(durable, &ids, past, &by)).collect();
    note_means(durable, &ids, &applications.0, &mut platforms);
    let last = || durable.policy_changes().last().map(|change| change.policies);
    let known = chosen.configured.map(|configured| durable.policies(configured)).or_else(last);
    let (policies, are_policies_known) = (known.unwrap_or_default(), known.is_some());
    let scenario = Scenario {
        seed: 1,
        platforms,
        applications: applications.0.into_iter().map(application).collect(),
        users: users.0,
        lots: Vec::new(),
        past: past.into(),
        policies,
        patience: None,
        history: Some(Box::new(history)),
        faults: Faults::default(),
    };
    Ok(Some(History {
        scenario,
        begin,
        end,
        n_jobs_without,
        n_tasks_without,
        n_jobs_not_chosen,
        n_tried_before,
        are_policies_known,
    }))
}

fn past_job((user, application): (usize, usize), job: &Job, tasks: &[Decided]) -> PastJob {
    let request = &job.request;
    // One that was ended by its limit has a little more than that.
    let limit = request.needs.time_limit.unwrap_or(Span(u64::MAX));
    let spans: Arc<[Span]> = tasks.iter().map(|task| task.to.since(task.from).min(limit)).collect();
    let failed: TaskSet =
        tasks.iter().enumerate().filter(|(_, task)| task.is_failure).map(|(index, _)| index as u64).collect();
    let job = Coming {
        user,
        application,
        // Known when all jobs are.
        at: Span::ZERO,
        n_tasks: tasks.len() as u64,
        // Simulated programs end with 0 or 1.
        needs: TaskNeeds { success_codes: vec![0], ..request.needs.clone() },
        // Whatever was tried before is left out, so each task is decided by its first attempt.
        retries: 0,
        priority: request.priority,
    };
    PastJob { job, lengths: Lengths::Each { spans, failed, places: [].into() } }
}

/// With the places of its tasks, if those of all of them are known.
fn placed(durable: &Durable, ids: &[PlatformId], mut past: PastJob, by: &[PilotId]) -> PastJob {
    let place = |id: &PilotId| {
        let platform = durable.pilots().get(id)?.platform;
        u16::try_from(ids.iter().position(|id| *id == platform)?).ok()
    };
    let all: Option<Vec<u16>> = by.iter().map(place).collect();
    if let (Some(all), Lengths::Each { places, .. }) = (all, &mut past.lengths) {
        *places = all.into();
    }
    past
}

/// What applications have taken on each platform, as its manager knew it; what has run only elsewhere is guessed as it
/// was by that.
fn note_means(durable: &Durable, ids: &[PlatformId], applications: &[String], platforms: &mut [Platform]) {
    let known = Runtimes::new(durable.facts(), ids);
    for application in applications {
        for (platform, mean_s) in platforms.iter_mut().zip(known.guess(application)) {
            platform.past_means.push(mean_s);
        }
    }
}

fn account(number: u64, owner: (usize, usize), job: &Job, tasks: &[Decided]) -> JobAccount {
    let size = (tasks.len() as u64, job.request.needs.resources.cores);
    let mut account = JobAccount::new(number, owner, size, job.submitted_at);
    for task in tasks {
        match task.is_failure {
            true => account.failed(task.to),
            false => account.succeeded((task.from, task.to)),
        };
    }
    account
}

/// Those of a platform in the order of their batch jobs; who is still there counts until the end.
fn pilots(durable: &Durable, platform: PlatformId, end: Time) -> Vec<PastPilot> {
    let allocations = durable.allocations().values().filter(|allocation| allocation.platform == platform);
    let first = allocations.filter_map(|allocation| {
        let pilot = durable.pilots().get(allocation.came.first()?)?;
        let asked_at = allocation.submitted_at.unwrap_or(allocation.intended_at);
        let left_at = pilot.ended.as_ref().map_or(end, |(at, _)| *at);
        Some(PastPilot {
            cores: pilot.node.capacity.cores,
            waited: pilot.born_at.since(asked_at),
            held: left_at.since(pilot.born_at),
        })
    });
    first.collect()
}

/// With pilots that have as much of everything as any that was there: whatever ran can run again.
fn platform(durable: &Durable, id: PlatformId, pilots: &[PastPilot]) -> Option<Platform> {
    let spec = durable.platforms().get(&id)?;
    let mut capacity = Resources::default();
    for pilot in durable.pilots().values().filter(|pilot| pilot.platform == id) {
        let here = &pilot.node.capacity;
        capacity.cores = capacity.cores.max(here.cores);
        capacity.memory_bytes = capacity.memory_bytes.max(here.memory_bytes);
        capacity.gpus = capacity.gpus.max(here.gpus);
        for (name, amount) in &here.generic {
            let most = capacity.generic.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }
    Some(Platform {
        name: spec.name.clone(),
        n_nodes: spec.n_pilots_max.max(1),
        capacity,
        pilots_min: spec.n_pilots_min,
        walltime: spec.walltime,
        queue_wait: Distribution::Constant(0.0),
        past_waits: pilots.iter().map(|pilot| pilot.waited).collect(),
        idle_timeout: spec.idle_timeout,
        poll_interval: spec.poll_interval,
        speed: 1.0,
        times: Vec::new(),
        past_means: Vec::new(),
    })
}

fn application(name: String) -> Application {
    Application {
        name,
        time: None,
        cores: 1,
        time_limit: None,
        retries: 0,
        slowed_by: Vec::new(),
        program_fails: 0.0,
        node_fails: 0.0,
        pilot_dies: 0.0,
    }
}
