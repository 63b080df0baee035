//! Converts a scenario to the plan that the world runs.

use scheduler::{
    edges::OnFailedDependency,
    engine::interface::{JobRequest, PlatformLimits, PlatformSpec, Stage, settings::Settings},
    rng::Rng,
    time::Span,
};

use super::{
    Arrivals, Lot, Platform, Scenario,
    distribution::{Distribution, span},
    model::Model,
    past::Coming,
    workflow::{self, Together},
};
use crate::{
    draw,
    world::{
        BEGIN,
        ledger::{JobAccount, Ledger},
        patience::{LASTS_AT_MOST, Patience},
        plan::{Act, Plan, SitePlan},
        scene::Scene,
    },
};

/// The first number of draws for arrivals and applications of a lot.
const ARRIVALS: u64 = 23;
/// The time for which a pull is parked if pilots and messages are never lost: heartbeats are not needed then.
const QUIET: Span = Span::from_secs(1200);
/// The time for which a pull is parked otherwise, as by agents.
const POLL_WAIT: Span = Span::from_secs(20);
/// The heartbeat limit of a pilot where pulls are parked for long.
const QUIET_LIMIT: Span = Span::from_secs(3 * 1200);
/// If a scenario does not limit how long tasks may wait without an end of any: this month in addition to its
/// longest task, which is longer than batch systems let their jobs wait or run.
const WAITED_AT_MOST: Span = Span::from_secs(30 * 86_400);

/// Returns the plan, and the further inputs of the world.
pub(super) fn of(scenario: &Scenario) -> (Plan, Scene) {
    let lots = scenario.lots.iter().enumerate();
    let drawn = lots.flat_map(|(which, lot)| arrivals(scenario, which, lot));
    let (mut acts, mut jobs) = (Vec::new(), Vec::new());
    for (number, coming) in (0..).zip(drawn) {
        jobs.push(account(&coming, number));
        let at = when(&coming);
        acts.push((at, Act::Submit(Box::new(request(scenario, coming, number)))));
    }
    let n_drawn = jobs.len() as u64;
    jobs.extend((n_drawn..).zip(scenario.past.iter()).map(|(number, past)| account(&past.job, number)));
    for together in workflow::together(&scenario.past) {
        acts.extend(past_act(scenario, &together, n_drawn));
    }
    let faults = &scenario.faults;
    let is_quiet = faults.is_none() && scenario.applications.iter().all(|one| one.pilot_dies == 0.0);
    let settings =
        Settings { store_id: 7, policies: scenario.policies, cells_at_once: u64::MAX, ..Settings::default() };
    let settings = match is_quiet {
        true => Settings { poll_wait_max: QUIET, heartbeat_limit: QUIET_LIMIT, ..settings },
        false => settings,
    };
    let plan = Plan {
        profiled: Default::default(),
        settings,
        rates: faults.rates.clone(),
        // Without faults, the faults that the fault simulation makes by itself must not happen either.
        faults_last: if faults.is_none() { Span::ZERO } else { faults.until.unwrap_or(LASTS_AT_MOST) },
        sites: scenario.platforms.iter().map(site).collect(),
        acts,
        manager_stalls: Vec::new(),
        ends_by_signal: false,
        hides: 0,
        tells_suspended: false,
        is_asked_in_turn: false,
        asks: None,
        manager_deaths: faults.manager_deaths.clone(),
        absence_max: faults.manager_away,
    };
    let scene = Scene {
        model: Box::new(Model::new(scenario)),
        patience: patience(scenario, &jobs),
        ledger: Ledger::new(jobs, scenario.platforms.len()),
        is_audited: scenario.is_audited(),
        trouble_within: faults.within,
        poll_wait: if is_quiet { QUIET } else { POLL_WAIT },
    };
    (plan, scene)
}

/// Returns the patience of the scenario, or one that is longer than any of its tasks needs.
fn patience(scenario: &Scenario, jobs: &[JobAccount]) -> Patience {
    let limit = scenario.patience.unwrap_or_else(|| longest_task(scenario) + WAITED_AT_MOST);
    Patience::new(limit, jobs.iter().map(|job| (job.submitted, job.n_tasks)))
}

/// Returns the expected runtime of the longest task on its slowest platform.
fn longest_task(scenario: &Scenario) -> Span {
    let drawn = scenario.applications.iter().filter_map(|application| application.time);
    let past = scenario.past.iter().map(|job| job.lengths.longest().as_secs_f64());
    let by_speed = drawn.map(|time| time.longest()).chain(past).fold(0.0, f64::max);
    let slowest = scenario.platforms.iter().map(|platform| platform.speed).fold(f64::INFINITY, f64::min);
    let own = scenario.platforms.iter().flat_map(|platform| &platform.times);
    span(own.map(|(_, time)| time.longest()).fold(by_speed / slowest, f64::max))
}

/// Returns the time of an arrival; one at the very beginning would come before the manager.
fn when(coming: &Coming) -> Span {
    coming.at + Span(1)
}

fn account(coming: &Coming, number: u64) -> JobAccount {
    let size = (coming.n_tasks, coming.needs.resources.cores);
    JobAccount::new(number, (coming.user, coming.application), size, BEGIN + when(coming))
}

/// Submits past jobs that arrive together. `n_drawn`: the number of drawn jobs, which are numbered before
/// them.
fn past_act(scenario: &Scenario, together: &Together, n_drawn: u64) -> Option<(Span, Act)> {
    let request = |which: usize| request(scenario, scenario.past[which].job.clone(), n_drawn + which as u64);
    let at = together.jobs.iter().map(|which| when(&scenario.past[*which].job)).min()?;
    let act = match together.jobs.as_slice() {
        [alone] if scenario.past[*alone].order.is_none() => Act::Submit(Box::new(request(*alone))),
        jobs => {
            let stages = jobs.iter().map(|which| {
                let after = scenario.past[*which].order.after.iter();
                let after = after.map(|(on, edges)| (together.on(*on, n_drawn), edges.clone())).collect();
                Stage { job: request(*which), after }
            });
            Act::SubmitAll(stages.collect())
        }
    };
    Some((at, act))
}

fn site(platform: &Platform) -> SitePlan {
    SitePlan {
        spec: PlatformSpec {
            name: platform.name.clone(),
            adapter: "simulated".into(),
            site: None,
            capacity: platform.capacity.clone(),
            n_nodes: 1,
            is_array: false,
            submits_late: false,
            joins_once: false,
            n_pilots_min: platform.pilots_min,
            n_pilots_max: platform.n_nodes,
            idle_timeout: platform.idle_timeout,
            walltime: platform.walltime,
            poll_interval: platform.poll_interval,
            limits: PlatformLimits::default(),
            scaling: None,
            price: None,
        },
        // Queue waits come from the model.
        queue_wait_max: Span::ZERO,
        lists_late: Span::ZERO,
    }
}

fn request(scenario: &Scenario, coming: Coming, number: u64) -> JobRequest {
    JobRequest {
        user: scenario.users[coming.user].clone(),
        name: format!("job{number}"),
        application: scenario.applications[coming.application].name.clone(),
        n_tasks: coming.n_tasks,
        needs: coming.needs,
        priority: coming.priority,
        priority_over_all: coming.priority_over_all,
        retries: coming.retries,
        retry_delay: Span::ZERO,
        crash_limit: 5,
        max_failures: None,
        submission_key: Some(number.to_string()),
        estimates: coming.estimates,
        after: Vec::new(),
        // Every task that ran once runs again.
        on_failed_dependency: OnFailedDependency::Run,
        workflow: None,
        spec: "".into(),
    }
}

/// Returns the jobs of a lot, in the order of arrival.
fn arrivals(scenario: &Scenario, which: usize, lot: &Lot) -> Vec<Coming> {
    let seed = scenario.seed;
    let mut luck = Rng::of(seed, &[ARRIVALS, which as u64]);
    let n = lot.n_jobs as usize;
    let offsets: Vec<Span> = match lot.arrivals {
        Arrivals::AtOnce => vec![Span::ZERO; n],
        Arrivals::Poisson(gap) => {
            let gap = Distribution::Exponential(gap.as_secs_f64());
            let mut at = Span::ZERO;
            let mut next = || {
                let now = at;
                at = at + gap.draw(&mut luck);
                now
            };
            (0..n).map(|_| next()).collect()
        }
        Arrivals::Pattern(pattern, over) => {
            pattern.arrivals(n, over.as_secs_f64(), &mut luck).into_iter().map(span).collect()
        }
    };
    let mut luck = Rng::of(seed, &[ARRIVALS, which as u64, 1]);
    let weights: Vec<f64> = lot.applications.iter().map(|(_, weight)| *weight).collect();
    let coming = |offset| {
        let which = lot.applications[draw::weighted(&weights, &mut luck)].0;
        let application = &scenario.applications[which];
        Coming {
            user: lot.user,
            application: which,
            at: lot.at + offset,
            n_tasks: lot.n_tasks,
            needs: application.needs(),
            retries: application.retries,
            priority: lot.priority,
            priority_over_all: true,
            estimates: None,
        }
    };
    offsets.into_iter().map(coming).collect()
}
