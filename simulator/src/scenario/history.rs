//! A manager's history as a scenario: the platforms, pilots and jobs in its store, so that other policies can
//! be tried on them. It knows the engine's durable state, not the store.

use std::{collections::BTreeMap, sync::Arc};

use scheduler::{
    edges::Dependence,
    engine::{
        interface::PlatformMode,
        plan::runtime_model::RuntimeModel,
        state::{durable::Durable, job::Job},
    },
    ids::{JobId, PilotId, PlatformId},
    policy::Policies,
    pull::{Staging, TaskNeeds},
    ranges::TaskSet,
    time::{Span, Time},
};

use super::{
    Application, Faults, Platform, Scenario,
    distribution::Distribution,
    ground::{self, Shown},
    measures,
    order::{self, Kept, Order},
    past::{Coming, Lengths, PLACE_UNKNOWN, PastJob, PastPilot},
    ruled,
};
use crate::world::ledger::JobAccount;

/// The attempt that decided a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The task.
    pub index: u64,
    /// When it began, on the manager's clock.
    pub from: Time,
    /// When it ended.
    pub to: Time,
    /// Whether the task has failed with it.
    pub is_failure: bool,
    /// The pilot that made it.
    pub pilot: PilotId,
}

/// A history, and the part of it that is replayed.
#[derive(Clone, Debug)]
pub struct History {
    /// The scenario to run; the results of the original are a row of its account.
    pub scenario: Scenario,
    /// The first submission of a replayed job.
    pub begin: Time,
    /// The last end of a replayed task.
    pub end: Time,
    /// The part that is not replayed.
    pub left_out: LeftOut,
    /// Applications that have never succeeded on a platform, though they have on another, with the former's
    /// name.
    pub doubted: Vec<(String, String)>,
    /// Whether the policies of that time are known; otherwise the scenario has the default ones.
    pub are_policies_known: bool,
    /// Whether policies changed meanwhile, or may have; the scenario has those that were in use longest.
    pub have_policies_changed: bool,
}

/// The part of a history that is not replayed.
#[derive(Clone, Debug, Default)]
pub struct LeftOut {
    /// Number of jobs without an ended task.
    pub n_jobs: u64,
    /// Number of tasks that are open or were cancelled.
    pub n_tasks: u64,
    /// Number of jobs that were not chosen.
    pub n_jobs_not_chosen: u64,
    /// Number of attempts that failed and did not decide their task.
    pub n_tried_before: u64,
    /// Number of jobs that waited for jobs that are not replayed, and do not wait for them any more.
    pub n_jobs_apart: u64,
    /// Names of platforms on which no task has ever succeeded, though some have on others.
    pub platforms: Vec<String>,
    /// Number of tasks that fit only on those platforms.
    pub n_tasks_only_there: u64,
}

/// The part of a state that is to be replayed.
pub struct Chosen<'a> {
    /// The policies of the manager's configuration, if known.
    pub configured: Option<Policies>,
    /// Chooses the jobs.
    pub is_chosen: &'a dyn Fn(JobId, &Job) -> bool,
}

/// Names in the order in which they occurred.
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

/// Returns the history of all jobs of that state, with an unknown configuration.
///
/// # Errors
/// Those of `decided`.
pub fn of<E>(
    durable: &Durable,
    decided: impl FnMut(JobId, &Job) -> Result<Vec<Decided>, E>,
) -> Result<Option<History>, E> {
    of_chosen(durable, &Chosen { configured: None, is_chosen: &|_, _| true }, decided)
}

/// A job with ended tasks.
struct Gathered<'a> {
    id: JobId,
    job: &'a Job,
    past: PastJob,
    kept: Kept,
    account: JobAccount,
    /// The pilot of each task.
    by: Vec<PilotId>,
    end: Time,
    n_tried_before: u64,
}

impl<'a> Gathered<'a> {
    fn of(id: JobId, job: &'a Job, tasks: &[Decided]) -> Gathered<'a> {
        let n_failed = tasks.iter().filter(|task| task.is_failure).count() as u64;
        let kept = Kept::of(tasks.iter().map(|task| task.index), job.request.n_tasks);
        Gathered {
            id,
            job,
            past: past_job(job, tasks, &kept),
            kept,
            account: account(job, tasks),
            by: tasks.iter().map(|task| task.pilot).collect(),
            end: tasks.iter().map(|task| task.to).max().unwrap_or_default(),
            n_tried_before: job.n_failed_attempts.saturating_sub(n_failed),
        }
    }
}

/// Returns the history of that state; `None` if no task has ended. `decided` returns the deciding attempts of
/// a job's ended tasks, ascending.
///
/// # Errors
/// Those of `decided`.
pub fn of_chosen<E>(
    durable: &Durable,
    chosen: &Chosen<'_>,
    mut decided: impl FnMut(JobId, &Job) -> Result<Vec<Decided>, E>,
) -> Result<Option<History>, E> {
    let (mut left_out, mut shown, mut gathered) = (LeftOut::default(), Shown::default(), Vec::new());
    for (id, job) in durable.jobs() {
        if !(chosen.is_chosen)(*id, job) {
            left_out.n_jobs_not_chosen += 1;
            continue;
        }
        let tasks = decided(*id, job)?;
        left_out.n_tasks += job.request.n_tasks.saturating_sub(tasks.len() as u64);
        if tasks.is_empty() {
            left_out.n_jobs += 1;
            continue;
        }
        let deciding = tasks.iter().map(|task| (task.pilot, task.is_failure));
        deciding.for_each(|one| shown.note(durable, &job.request.application, one));
        gathered.push(Gathered::of(*id, job, &tasks));
    }
    Ok(of_gathered(durable, chosen.configured, (gathered, &shown), left_out))
}

fn of_gathered(
    durable: &Durable,
    configured: Option<Policies>,
    (mut gathered, shown): (Vec<Gathered<'_>>, &Shown<'_>),
    mut left_out: LeftOut,
) -> Option<History> {
    let last = gathered.iter().map(|one| one.end).max()?;
    let first = gathered.iter().map(|one| one.job.submitted_at).min()?;
    // A detached platform may have been detached before these jobs came, unless a pilot shows otherwise.
    let was_there = |id: &PlatformId| match durable.mode(*id) {
        PlatformMode::Detached => !pilots(durable, *id, (first, last)).is_empty(),
        _ => !pilots(durable, *id, (Time::default(), last)).is_empty(),
    };
    let all_ids: Vec<PlatformId> = durable.platforms().keys().copied().filter(was_there).collect();
    let ids = platforms_of(durable, &all_ids, (&mut gathered, shown), &mut left_out);
    let end = gathered.iter().map(|one| one.end).max()?;
    let (mut users, mut applications) = (Names::default(), Names::default());
    let orders = orders(&gathered, &mut left_out);
    let (mut past, mut accounts) = (Vec::new(), Vec::new());
    for (one, order) in gathered.into_iter().zip(orders) {
        let Gathered { job: Job { request, .. }, past: mut job, mut account, by, .. } = one;
        (job.job.user, job.job.application) =
            (users.place(&request.user), applications.place(&request.application));
        (account.number, account.user, account.application) =
            (accounts.len() as u64, job.job.user, job.job.application);
        job.order = order;
        accounts.push(account);
        past.push(placed(durable, &ids, job, &by));
        left_out.n_tried_before += one.n_tried_before;
    }
    let begin = accounts.iter().map(|job| job.submitted).min()?;
    past.iter_mut().zip(&accounts).for_each(|(past, job)| past.job.at = job.submitted.since(begin));
    let those: Vec<PastPilot> = all_ids.iter().flat_map(|id| pilots(durable, *id, (begin, end))).collect();
    let history = measures::of_history(&accounts, users.0.len(), &those, left_out.n_tried_before);
    let of_id = |id: &PlatformId| platform(durable, *id, &pilots(durable, *id, (Time::default(), end)));
    let mut platforms: Vec<Platform> = ids.iter().filter_map(of_id).collect();
    note_means(durable, &ids, &applications.0, &mut platforms);
    let doubted = shown.doubted(durable, &ids, &applications.0);
    let ruled = ruled::between(durable, configured, (begin, end));
    let scenario = Scenario {
        seed: 1,
        platforms,
        applications: applications.0.into_iter().map(application).collect(),
        users: users.0,
        lots: Vec::new(),
        past: past.into(),
        policies: ruled.policies,
        patience: None,
        history: Some(Box::new(history)),
        faults: Faults::default(),
    };
    Some(History {
        scenario,
        begin,
        end,
        left_out,
        doubted,
        are_policies_known: ruled.is_known,
        have_policies_changed: ruled.have_changed,
    })
}

/// Returns the platforms of the replay: those with known runtimes. Jobs that fit only on others are left out.
fn platforms_of(
    durable: &Durable,
    all: &[PlatformId],
    (gathered, shown): (&mut Vec<Gathered<'_>>, &Shown<'_>),
    left_out: &mut LeftOut,
) -> Vec<PlatformId> {
    let ids = shown.known(durable, all);
    let rooms: Vec<_> = ids.iter().map(|id| (*id, ground::capacity(durable, *id))).collect();
    let fits = |one: &Gathered<'_>| ground::has_room(durable, &rooms, &one.past.job.needs);
    if ids.len() == all.len() || !gathered.iter().any(fits) {
        return all.to_vec();
    }
    let unknown = all.iter().filter(|id| !ids.contains(id));
    left_out.platforms = unknown.map(|id| ground::name(durable, *id)).collect();
    let unfit = gathered.iter().filter(|one| !fits(one));
    left_out.n_tasks_only_there = unfit.map(|one| one.past.job.n_tasks).sum();
    gathered.retain(fits);
    ids
}

/// Returns the dependencies of each job. Jobs that are not replayed are not waited for.
fn orders(gathered: &[Gathered<'_>], left_out: &mut LeftOut) -> Vec<Order> {
    let places: BTreeMap<JobId, usize> =
        gathered.iter().enumerate().map(|(place, one)| (one.id, place)).collect();
    let mut orders = Vec::new();
    for one in gathered {
        let request = &one.job.request;
        let (mut after, mut is_apart) = (Vec::new(), false);
        for Dependence { on, edges } in &request.after {
            let place = places.get(on).copied();
            let edges = place.and_then(|place| {
                let on = &gathered[place];
                order::edges(edges, (&one.kept, request.n_tasks), (&on.kept, on.job.request.n_tasks))
            });
            is_apart |= edges.is_none();
            after.extend(place.zip(edges));
        }
        left_out.n_jobs_apart += u64::from(is_apart);
        orders.push(Order { workflow: request.workflow, after });
    }
    orders
}

fn past_job(job: &Job, tasks: &[Decided], kept: &Kept) -> PastJob {
    let request = &job.request;
    // An attempt that was ended by its limit took a little longer than that.
    let limit = request.needs.time_limit.unwrap_or(Span(u64::MAX));
    let spans: Arc<[Span]> = tasks.iter().map(|task| task.to.since(task.from).min(limit)).collect();
    let failed: TaskSet =
        tasks.iter().enumerate().filter(|(_, task)| task.is_failure).map(|(index, _)| index as u64).collect();
    let job = Coming {
        // Set when all jobs are known.
        user: 0,
        application: 0,
        at: Span::ZERO,
        n_tasks: tasks.len() as u64,
        // Simulated programs exit with 0 or 1. Runtimes include staging or not: no file is moved here.
        needs: TaskNeeds { success_codes: vec![0], staging: Staging::default(), ..request.needs.clone() },
        // Earlier attempts are left out, so each task is decided by its first attempt.
        retries: 0,
        priority: request.priority,
        priority_over_all: request.priority_over_all,
        estimates: request.estimates.as_ref().and_then(|estimates| kept.estimates(estimates)),
    };
    // The order is set when all jobs are known.
    PastJob { job, lengths: Lengths::Each { spans, failed, places: [].into() }, order: Order::default() }
}

/// Adds the platforms of its tasks.
fn placed(durable: &Durable, ids: &[PlatformId], mut past: PastJob, by: &[PilotId]) -> PastJob {
    let place = |id: &PilotId| {
        let platform = durable.pilots().get(id)?.platform;
        u16::try_from(ids.iter().position(|id| *id == platform)?).ok()
    };
    if let Lengths::Each { places, .. } = &mut past.lengths {
        *places = by.iter().map(|pilot| place(pilot).unwrap_or(PLACE_UNKNOWN)).collect();
    }
    past
}

/// Notes the mean runtimes of applications on each platform, as the manager knew them; for an application
/// that has run only elsewhere, the guess of the runtime model.
fn note_means(durable: &Durable, ids: &[PlatformId], applications: &[String], platforms: &mut [Platform]) {
    let known = RuntimeModel::new(durable.facts(), ids);
    for application in applications {
        for (platform, mean_s) in platforms.iter_mut().zip(known.guess(application)) {
            platform.past_means.push(mean_s);
        }
    }
}

/// Makes the account, without its number and its owner.
fn account(job: &Job, tasks: &[Decided]) -> JobAccount {
    let size = (tasks.len() as u64, job.request.needs.resources.cores);
    let mut account = JobAccount::new(0, (0, 0), size, job.submitted_at);
    for task in tasks {
        match task.is_failure {
            true => account.failed(task.to),
            false => account.succeeded((task.from, task.to)),
        };
    }
    account
}

/// Returns the pilots of a platform that were there in that time, in the order of their batch jobs. Time
/// before it does not count; pilots that are still there count until its end.
fn pilots(durable: &Durable, platform: PlatformId, (begin, end): (Time, Time)) -> Vec<PastPilot> {
    let allocations = durable.allocations().values().filter(|allocation| allocation.platform == platform);
    let first = allocations.filter_map(|allocation| {
        let pilot = durable.pilots().get(allocation.came.first()?)?;
        let asked_at = allocation.submitted_at.unwrap_or(allocation.intended_at);
        let left_at = pilot.ended.as_ref().map_or(end, |(at, _)| *at);
        let was_there = pilot.born_at <= end && left_at >= begin;
        was_there.then(|| PastPilot {
            cores: pilot.node.capacity.cores,
            waited: pilot.born_at.since(asked_at),
            held: left_at.since(pilot.born_at.max(begin)),
        })
    });
    first.collect()
}

fn platform(durable: &Durable, id: PlatformId, pilots: &[PastPilot]) -> Option<Platform> {
    let spec = durable.platforms().get(&id)?;
    Some(Platform {
        name: spec.name.clone(),
        n_nodes: spec.n_pilots_max.max(1),
        capacity: ground::capacity(durable, id),
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
