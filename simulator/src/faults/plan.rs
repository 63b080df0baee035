//! Draws the plan of a seed before anything happens: limits, sites, jobs, users' requests, and the rates of
//! failures.

use std::collections::BTreeMap;

use scheduler::{
    engine::interface::{
        JobChange, JobRequest, PlatformLimits, PlatformMode, PlatformSpec, ScalingSpec, ScalingWay,
        platform::{
            price::{Money, Price},
            scaling::Ratio,
        },
        settings::Settings,
    },
    estimates::TaskEstimates,
    policy::{
        Policies, allocation::Allocation, bundling::Bundling, distribution::Distribution, mapping::Mapping,
        matching::Matching, placement::pilots::PilotPlacement, scaling::Scaling, stealing::PilotStealing,
    },
    pull::{Staging, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    rng::Rng,
    time::Span,
};

use crate::world::plan::{Act, Nature, Plan, Rates, SitePlan};

/// The time after the last fault at which no copy of an older request arrives any more.
pub(super) const LATE: Span = Span(100_000_000);

impl Nature {
    fn draw(luck: &mut Rng) -> Nature {
        Nature {
            wall_us_max: luck.pick(&[2_000, 200_000, 3_000_000, 40_000_000]),
            fails: luck.pick(&[0, 0, 50, 10, 2]),
            node_fails: luck.pick(&[0, 0, 60, 10]),
            kills_pilot: luck.pick(&[0, 0, 0, 200, 20]),
            is_poison: luck.pick(&[0, 0, 0, 50]),
        }
    }
}

impl Plan {
    /// Draws the complete plan of a seed.
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut plan = Plan::draw_eleventh(seed);
        let mut luck = Rng::of(seed, &[19]);
        // The delay, together with that of a late submission, is less than managers allow for.
        for site in plan.sites.iter_mut().filter(|site| site.spec.submits_late) {
            site.lists_late = Span::from_secs(luck.pick(&[0, 0, 3, 8]));
        }
        plan
    }

    /// Draws the plan that a seed meant before listings could be late.
    pub(crate) fn draw_eleventh(seed: u64) -> Plan {
        let mut plan = Plan::draw_tenth(seed);
        let mut luck = Rng::of(seed, &[18]);
        plan.hides = luck.pick(&[0, 0, 5, 2]);
        plan.tells_suspended = luck.one_in(2);
        plan
    }

    /// Draws the plan that a seed meant before batch jobs could be missing in listings or be reported as
    /// suspended.
    pub(crate) fn draw_tenth(seed: u64) -> Plan {
        let mut plan = Plan::draw_ninth(seed);
        plan.ends_by_signal = Rng::of(seed, &[17]).one_in(3);
        plan
    }

    /// Draws the plan that a seed meant before batch systems could end jobs because of their tasks.
    pub(crate) fn draw_ninth(seed: u64) -> Plan {
        let mut plan = Plan::draw_eighth(seed);
        let stealing = &mut plan.settings.policies.stealing;
        if *stealing != PilotStealing::None && Rng::of(seed, &[16]).one_in(5) {
            *stealing = PilotStealing::Rlds;
        }
        plan
    }

    /// Draws the plan that a seed meant before pilots could steal by RLDS.
    pub(crate) fn draw_eighth(seed: u64) -> Plan {
        let mut plan = Plan::draw_sixth(seed);
        plan.add_gifts(&mut Rng::of(seed, &[15]));
        plan
    }

    /// Draws the plan that a seed meant while gifts and followers shared their random numbers, so that some
    /// combinations never occurred.
    #[cfg(test)]
    pub(crate) fn draw_seventh(seed: u64) -> Plan {
        let mut plan = Plan::draw_sixth(seed);
        plan.add_gifts(&mut Rng::of(seed, &[14]));
        plan
    }

    /// Draws the plan that a seed meant before pilots gave each other tasks.
    pub(crate) fn draw_sixth(seed: u64) -> Plan {
        let mut plan = Plan::draw_fifth(seed);
        plan.add_graph(&mut Rng::of(seed, &[12]));
        plan.add_files(&mut Rng::of(seed, &[13]));
        plan.add_followers(&mut Rng::of(seed, &[14]));
        plan
    }

    /// Draws the plan that a seed meant before tasks had dependencies and files.
    pub(crate) fn draw_fifth(seed: u64) -> Plan {
        let mut plan = Plan::draw_fourth(seed);
        plan.add_stalls(&mut Rng::of(seed, &[11]));
        plan
    }

    /// Draws the plan that a seed meant before managers could stand still and sites could be asked one
    /// request at a time.
    pub(crate) fn draw_fourth(seed: u64) -> Plan {
        let mut plan = Plan::draw_third(seed);
        plan.add_scaling(&mut Rng::of(seed, &[7]));
        plan.add_estimates(&mut Rng::of(seed, &[9]));
        plan.add_budgets(&mut Rng::of(seed, &[10]));
        plan.settings.cells_at_once = Rng::of(seed, &[8]).pick(&[0, 100, u64::MAX]);
        plan
    }

    /// Draws the plan that a seed meant before vCPU ratios, late plans and estimates.
    pub(crate) fn draw_third(seed: u64) -> Plan {
        let mut plan = Plan::draw_second(seed);
        plan.add_operator(&mut Rng::of(seed, &[3]));
        plan.add_nodes(&mut Rng::of(seed, &[4]));
        plan.add_policies(&mut Rng::of(seed, &[5]));
        plan.add_profiling(&mut Rng::of(seed, &[6]));
        plan
    }

    /// Draws the plan that a seed meant before operators, batch jobs of several nodes, other policies and
    /// profiling runs.
    pub(crate) fn draw_second(seed: u64) -> Plan {
        let mut plan = Plan::draw_first(seed);
        let mut luck = Rng::of(seed, &[2]);
        plan.rates.hang_up = luck.pick(&[0, 20, 3]);
        if luck.one_in(20) {
            plan.add_giant(&mut luck);
        }
        plan
    }

    /// Draws the plan that a seed meant at first: the first failed seeds are runs of these plans.
    pub(crate) fn draw_first(seed: u64) -> Plan {
        let mut luck = Rng::new(seed);
        let faults_last = Span::from_secs(luck.pick(&[20, 120, 600]));
        let n_deaths = luck.pick(&[0, 1, 5]);
        Plan {
            settings: Settings {
                cells_at_once: u64::MAX,
                store_id: 7,
                // The short ones are below the longest delay: pilots are declared lost while they live.
                heartbeat_limit: Span::from_secs(luck.pick(&[8, 75])),
                grace: Span::from_secs(luck.pick(&[5, 60])),
                ..Settings::default()
            },
            rates: Rates::draw(&mut luck),
            faults_last,
            sites: (0..luck.between(1, 3)).map(|n| SitePlan::draw(n, &mut luck)).collect(),
            acts: acts(faults_last, &mut luck),
            profiled: BTreeMap::new(),
            manager_stalls: Vec::new(),
            asks: None,
            ends_by_signal: false,
            hides: 0,
            tells_suspended: false,
            is_asked_in_turn: false,
            manager_deaths: (0..n_deaths).map(|_| Span(luck.below(faults_last.0))).collect(),
            absence_max: Span::from_secs(luck.pick(&[1, 30, 3600])),
        }
    }

    /// Adds a job of which few tasks ever run: it is cancelled at last. Rule 7: nothing grows with its tasks.
    fn add_giant(&mut self, luck: &mut Rng) {
        let n_jobs = self.acts.iter().filter(|(_, act)| matches!(act, Act::Submit(_))).count();
        let nature = Nature { wall_us_max: 40_000_000, ..Nature::draw(luck) };
        let needs = TaskNeeds { time_limit: None, ..job(n_jobs, luck).needs };
        let spec = nature.to_spec().into();
        let giant = JobRequest { n_tasks: 1_000_000_000, needs, spec, ..job(n_jobs, luck) };
        self.acts.push((Span(luck.below(self.faults_last.0)), Act::Submit(Box::new(giant))));
        let late = self.faults_last + LATE;
        self.acts.push((late, Act::Change(n_jobs, JobChange::Cancel(None))));
    }
}

impl Plan {
    /// Adds users that follow the output of tasks; none of them insists on it.
    fn add_followers(&mut self, luck: &mut Rng) {
        let n_jobs: usize = self.acts.iter().map(|(_, act)| act.n_jobs()).sum();
        for _ in 0..luck.pick(&[0, 0, 2, 20]) {
            let tasks = luck.one_in(2).then(|| TaskSet::from(0..luck.between(1, 9)));
            let act = Act::Follow(luck.below(n_jobs as u64) as usize, tasks);
            self.acts.push((Span(luck.below(self.faults_last.0)), act));
        }
    }

    /// Sets whether and how pilots steal tasks from each other.
    fn add_gifts(&mut self, luck: &mut Rng) {
        self.asks = luck.pick(&[None, Some(200_000), Some(20_000_000)]).map(Span);
        let laws = [PilotStealing::Mlb, PilotStealing::Mdl, PilotStealing::Flds, PilotStealing::Lend];
        let is_any = self.asks.is_some() || luck.one_in(4);
        self.settings.policies.stealing = if is_any { luck.pick(&laws) } else { PilotStealing::None };
    }

    /// Adds an operator's limits for the sites, and requests for them.
    fn add_operator(&mut self, luck: &mut Rng) {
        for site in &mut self.sites {
            site.spec.limits = PlatformLimits {
                n_queued_max: luck.pick(&[None, None, Some(1), Some(2)]),
                n_submissions_per_minute: luck.pick(&[None, None, Some(1), Some(3)]),
                ..PlatformLimits::default()
            };
        }
        let n_sites = self.sites.len();
        for _ in 0..luck.pick(&[0, 0, 3, 8]) {
            let site = luck.below(n_sites as u64) as usize;
            let act = match luck.below(5) {
                0 => Act::ChangePlatform(site, PlatformMode::Paused),
                1 => Act::ChangePlatform(site, PlatformMode::Draining),
                2 => Act::ChangePlatform(site, PlatformMode::Active),
                _ => Act::CancelAllocation { number: luck.between(1, 20), is_urgent: luck.one_in(2) },
            };
            self.acts.push((Span(luck.below(self.faults_last.0)), act));
        }
        // No site may stay paused: all jobs must end.
        let late = self.faults_last + LATE;
        self.acts.extend((0..n_sites).map(|site| (late, Act::ChangePlatform(site, PlatformMode::Active))));
    }
}

impl Plan {
    /// Sets policies that use all inputs, and applications for them.
    fn add_policies(&mut self, luck: &mut Rng) {
        let pa_rr = Allocation::PaRr { unit_cores: 1 };
        self.settings.policies = Policies {
            allocation: luck.pick(&[None, None, Some(Allocation::Equal), Some(pa_rr)]),
            matching: luck.pick(&[Matching::Turns, Matching::Turns, Matching::Alstb, Matching::Sufferage]),
            distribution: luck.pick(&[None, Some(Distribution::Adaptive), Some(Distribution::Adaptive2016)]),
            placement: luck.pick(&[None, Some(PilotPlacement::Tla), Some(PilotPlacement::FastestFirst)]),
            ..Policies::default()
        };
        for (_, act) in &mut self.acts {
            if let Act::Submit(request) = act {
                request.application = luck.pick(&["docking", "search"]).into();
            }
        }
        // Drawn last, so that older seeds keep the rest of their plans.
        self.settings.policies.mapping = luck.pick(&[None, Some(Mapping::AllCore), Some(Mapping::default())]);
    }

    /// Makes some jobs profiling runs, which have a node for themselves.
    fn add_profiling(&mut self, luck: &mut Rng) {
        let is_submitted = |act: &&(Span, Act)| matches!(act.1, Act::Submit(_));
        for n in 0..self.acts.iter().filter(is_submitted).count() {
            if luck.one_in(5) {
                self.profiled.insert(n, (luck.below(self.sites.len() as u64) as usize, luck.between(1, 3)));
            }
        }
    }

    /// Sets vCPU ratios: some pilots offer more slots than their nodes have cores.
    fn add_scaling(&mut self, luck: &mut Rng) {
        // Simulated tasks use all of their cores: for that reason alone no policy would add slots.
        self.settings.policies.scaling =
            luck.pick(&[Scaling::Adaptive, Scaling::Adaptive2016, Scaling::Measured]);
        for site in &mut self.sites {
            let spec = ScalingSpec {
                by: ScalingWay::Slots,
                ratio_max: luck.pick(&[Ratio(1500), Ratio(4000)]),
                errors_max_permille: luck.pick(&[50, 500]),
                interval: Span::from_secs(luck.pick(&[2, 15])),
            };
            site.spec.scaling = luck.pick(&[None, None, Some(spec)]);
        }
    }

    /// Adds jobs whose tasks are packed by estimates.
    fn add_estimates(&mut self, luck: &mut Rng) {
        self.settings.policies.bundling = luck.pick(&[Bundling::Guided, Bundling::BinPacking]);
        for (_, act) in &mut self.acts {
            if let Act::Submit(request) = act
                && request.n_tasks <= 1_000_000
                && luck.one_in(2)
            {
                let sizes: Vec<f64> = (0..luck.between(1, 20)).map(|_| luck.below(9) as f64).collect();
                request.estimates = TaskEstimates::new(luck.between(1, 3), sizes);
            }
        }
    }

    /// Adds jobs with inputs and output files.
    fn add_files(&mut self, luck: &mut Rng) {
        let is_any = luck.one_in(2);
        for (_, act) in &mut self.acts {
            if let Act::Submit(request) = act {
                let (inputs, outputs) = (luck.one_in(2), luck.one_in(2));
                request.needs.staging = Staging { inputs: inputs && is_any, outputs: outputs && is_any };
            }
        }
    }

    /// Sets budgets of sites, except of the first, where all jobs must be able to end, and of sites with a
    /// profiling run.
    fn add_budgets(&mut self, luck: &mut Rng) {
        let measured: Vec<usize> = self.profiled.values().map(|(site, _)| *site).collect();
        self.rates.list_confused = luck.pick(&[0, 0, 3]);
        for (n, site) in self.sites.iter_mut().enumerate().skip(1) {
            let (spec, core_hour) = (&mut site.spec, Money(3_000_000));
            let price = Price { core_hour, currency: "EUR".into() };
            let one = spec.walltime.unwrap_or_default().times(spec.cores_of_allocation().into());
            let budget = luck.pick(&[None, None, Some(one), Some(one.times(3))]);
            let of_user = luck.pick(&[None, None, Some(Span::from_secs(5)), Some(Span::from_secs(300))]);
            let is_money = luck.one_in(2);
            if measured.contains(&n) {
                continue;
            }
            spec.limits.user_core_time_max = of_user;
            match budget.filter(|_| spec.walltime.is_some()) {
                Some(budget) if is_money => {
                    (spec.limits.cost_max, spec.price) = (Some(price.of(budget)), Some(price));
                }
                budget => spec.limits.core_time_max = budget,
            }
        }
    }

    /// Lets managers stand still, for less and for longer than their limits: at any time, and after a death,
    /// when they may just have started again.
    fn add_stalls(&mut self, luck: &mut Rng) {
        self.is_asked_in_turn = luck.one_in(2);
        let deaths = self.manager_deaths.clone();
        let soon = deaths.into_iter().filter(|_| luck.one_in(2)).collect::<Vec<Span>>();
        let soon = soon.into_iter().map(|death| death + Span(luck.below(10_000_000))).collect::<Vec<Span>>();
        let any = (0..luck.pick(&[0, 0, 1, 3])).map(|_| Span(luck.below(self.faults_last.0)));
        let at = soon.into_iter().chain(any.collect::<Vec<Span>>()).collect::<Vec<Span>>();
        self.manager_stalls =
            at.into_iter().map(|at| (at, Span::from_secs(luck.pick(&[1, 10, 65, 100, 600])))).collect();
    }

    /// Sets batch jobs of several nodes.
    fn add_nodes(&mut self, luck: &mut Rng) {
        for site in &mut self.sites {
            site.spec.n_nodes = luck.pick(&[1, 1, 2, 3]);
            site.spec.n_pilots_max = site.spec.n_pilots_max.max(site.spec.n_nodes);
        }
        for site in self.sites.iter_mut().filter(|site| site.spec.n_nodes > 1) {
            site.spec.is_array = luck.one_in(2);
        }
        for site in &mut self.sites {
            site.spec.submits_late = luck.one_in(2);
        }
    }
}

impl Rates {
    fn draw(luck: &mut Rng) -> Rates {
        Rates {
            message_lost: luck.pick(&[0, 100, 10]),
            message_doubled: luck.pick(&[0, 100, 10]),
            message_slow: luck.pick(&[0, 100, 10]),
            hang_up: 0,
            commit_dies: luck.pick(&[0, 1000, 100]),
            submit_refused: luck.pick(&[0, 10, 2]),
            submit_unknown: luck.pick(&[0, 10, 3]),
            submit_answered_twice: luck.pick(&[0, 5]),
            site_slow: luck.pick(&[0, 5]),
            list_fails: luck.pick(&[0, 4]),
            list_confused: 0,
            cancel_lost: luck.pick(&[0, 2]),
            pilot_dies: luck.pick(&[0, 5, 2]),
            pilot_stalls: luck.pick(&[0, 5, 2]),
            pilot_preempted: luck.pick(&[0, 5]),
            pilot_requeued: luck.pick(&[0, 1, 2]),
        }
    }
}

impl SitePlan {
    fn draw(n: u64, luck: &mut Rng) -> SitePlan {
        let spec = PlatformSpec {
            name: format!("site{n}"),
            adapter: "simulated".into(),
            site: None,
            // The first site fits every job.
            n_nodes: 1,
            is_array: false,
            submits_late: false,
            joins_once: false,
            capacity: Resources::cores(if n == 0 { 4 } else { luck.between(1, 8) as u32 }),
            n_pilots_min: luck.pick(&[0, 0, 1]),
            n_pilots_max: luck.between(1, 5) as u32,
            idle_timeout: Span::from_secs(luck.pick(&[1, 20])),
            walltime: luck.pick(&[None, Some(Span::from_secs(120)), Some(Span::from_secs(900))]),
            poll_interval: Span::from_secs(luck.pick(&[2, 30])),
            limits: PlatformLimits::default(),
            scaling: None,
            price: None,
        };
        // At least one site has no walltime: the longest task must fit somewhere.
        let walltime = spec.walltime.filter(|_| n > 0);
        let n_pilots_min = spec.n_pilots_min;
        SitePlan {
            spec: PlatformSpec { walltime, n_pilots_min, ..spec },
            queue_wait_max: Span::from_secs(luck.pick(&[0, 2, 100])),
            lists_late: Span::ZERO,
        }
    }
}

pub(super) fn job(n: usize, luck: &mut Rng) -> JobRequest {
    let nature = Nature::draw(luck);
    let time_limit =
        luck.pick(&[None, None, Some(Span(nature.wall_us_max / 2)), Some(Span(nature.wall_us_max))]);
    JobRequest {
        user: luck.pick(&["ada", "bob"]).into(),
        name: format!("job{n}"),
        application: "simulated".into(),
        n_tasks: luck.pick(&[1, 10, 100, 400]),
        needs: TaskNeeds {
            resources: Resources::cores(luck.between(1, 3) as u32),
            time_limit,
            success_codes: vec![0],
            ..TaskNeeds::default()
        },
        priority: luck.below(3) as i32,
        priority_over_all: false,
        retries: luck.below(4) as u32,
        retry_delay: Span(luck.below(3_000_000)),
        crash_limit: luck.between(1, 5) as u32,
        max_failures: luck.pick(&[None, None, Some(0), Some(5)]),
        submission_key: Some(format!("key{n}")),
        estimates: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: nature.to_spec().into(),
    }
}

fn acts(faults_last: Span, luck: &mut Rng) -> Vec<(Span, Act)> {
    let mut acts = Vec::new();
    let n_jobs = luck.between(1, 4) as usize;
    for n in 0..n_jobs {
        let at = if n == 0 { Span(1) } else { Span(luck.below(faults_last.0)) };
        acts.push((at, Act::Submit(Box::new(job(n, luck)))));
    }
    let some_tasks = |luck: &mut Rng| {
        let first = luck.below(100);
        luck.one_in(2).then(|| TaskSet::from(first..first + luck.between(1, 50)))
    };
    for _ in 0..luck.pick(&[0, 0, 4, 12]) {
        let n = luck.below(n_jobs as u64) as usize;
        let act = match luck.below(10) {
            0 | 1 => Act::Change(n, JobChange::Cancel(some_tasks(luck))),
            2 | 3 => Act::Change(n, JobChange::Pause),
            4 | 5 => Act::Change(n, JobChange::Resume),
            6..9 => Act::Change(n, JobChange::Retry(some_tasks(luck))),
            _ => Act::Shutdown { is_urgent: luck.one_in(2) },
        };
        acts.push((Span(luck.below(faults_last.0)), act));
    }
    // No job may stay paused: all must end.
    acts.extend((0..n_jobs).map(|n| (faults_last + LATE, Act::Change(n, JobChange::Resume))));
    acts
}
