//! Chooses the platforms of the next allocations by a placement policy, if there is one (layer 2). All
//! platforms are considered together, so that work that one of them will do is not requested from another as
//! well.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    engine::{
        dispatch::capacity::needed,
        interface::{
            platform::platform_spec::{PlatformMode, PlatformSpec},
            settings::Settings,
        },
        live::{Live, platform::limits},
        plan::runtime_model::RuntimeModel,
        provision::demand::{N_JOBS_LOOKED_AT, n_pilots},
        record::provision_reason::Compared,
        state::{allocation::AllocationState, durable::Durable, job::Job},
        turn::Turn,
    },
    ids::{JobId, PilotId, PlatformId},
    policy::{
        distribution::RUNTIME_UNKNOWN_S,
        none_or,
        placement::pilots::{Outlook, PilotPlacement, Site, Supply, outlook},
    },
    time::{Span, Time},
};

/// Allocations for a group are placed in about this many lots; a lot has several allocations where more are
/// wanted.
const N_LOTS: u64 = 64;

/// An allocation that has waited for this many times the mean, and for `OVERDUE_LEAST_S`, is not counted on.
const OVERDUE: f64 = 2.0;

const OVERDUE_LEAST_S: f64 = 60.0;

/// The least runtime of a task, in seconds.
const TASK_LEAST_S: f64 = 1e-6;

/// The waiting work, and the platforms that could do it.
pub(in crate::engine) struct PlacementProblem {
    sites: Vec<PlatformSupply>,
    /// Groups of tasks that the same platforms can run, the groups with the fewest platforms first.
    groups: Vec<Group>,
}

/// A platform and its pilots, for any kind of task.
struct PlatformSupply {
    id: PlatformId,
    /// Expected queue wait of an allocation that is requested now, in seconds.
    wait_s: f64,
    n_nodes: u64,
    /// Number of allocations that may be requested from it.
    n_room: u64,
    /// Number of pilots at work, and when they have done the tasks that they hold, in seconds from now.
    at_work: (u64, f64),
    /// Number of pilots that are to come, and when, in seconds from now.
    to_come: (u64, f64),
    /// Number of pilots to come that are counted on.
    n_counted: u64,
}

/// Tasks that the same platforms can run.
struct Group {
    /// Seconds of work on one core, at the mean speed of the platforms.
    work_s: f64,
    /// Cores for which no pilot is to come.
    left: u64,
    /// The longest time for which one of their jobs has been given nothing, in seconds.
    starved_s: f64,
    /// How each platform suits the tasks; `None`: it can run none of them.
    fits: Vec<Option<Fit>>,
}

/// How a platform suits a group of tasks.
#[derive(Clone, Copy, Default)]
struct Fit {
    /// Speed of the tasks there, relative to the mean of the platforms.
    speed: f64,
    /// Cores of a pilot that they keep busy: lack of memory may leave some cores idle.
    cores: f64,
    /// Runtime of a task there, in seconds.
    task_s: f64,
    /// Cores of the tasks that may run there, as far as the budgets of their users allow.
    wanted: u64,
}

/// The effect of one more allocation on a platform.
pub(in crate::engine) struct Prospect {
    pub(in crate::engine) platform: PlatformId,
    /// Queue wait of the allocation, in seconds.
    pub(in crate::engine) wait_s: f64,
    pub(in crate::engine) with: Outlook,
    pub(in crate::engine) without: Outlook,
}

/// A job with waiting tasks.
struct Waiting<'a> {
    job: &'a Job,
    n_ready: u64,
    /// Runtime of a task on each platform, in seconds.
    runtimes: Rc<[f64]>,
    /// Number of tasks that may start on each platform; 0: none can.
    allowed: Vec<u64>,
    /// The time for which the job has been given nothing, in seconds.
    starved_s: f64,
}

impl Waiting<'_> {
    fn cores(&self) -> u64 {
        u64::from(self.job.request.needs.resources.cores).max(1)
    }

    /// Returns the cores that all of its tasks would take at once.
    fn cores_wanted(&self) -> u64 {
        self.n_ready.saturating_mul(self.cores())
    }

    /// Returns the seconds of work on one core, at the mean speed of the platforms.
    fn work_s(&self) -> f64 {
        let mean = self.runtimes.iter().sum::<f64>() / self.runtimes.len().max(1) as f64;
        self.cores_wanted() as f64 * mean
    }
}

impl Turn<'_> {
    /// Returns how many allocations the policy requests from a platform now. All allocations are placed
    /// together once per step, and the platforms that get some are looked at in the same step.
    pub(in crate::engine) fn n_placed(&mut self, policy: PilotPlacement, id: PlatformId) -> usize {
        if self.live.ready.is_empty() {
            return 0;
        }
        if self.live.placed.is_none() {
            self.live.note_starved(self.now);
            let floor = PlacementProblem::of(self.settings, self.durable, self.live, self.now);
            let compared = floor.compared(policy, self.durable);
            let placed = floor.place(policy);
            for other in placed.keys().filter(|other| **other != id) {
                self.live.arm_platform(*other, self.now);
            }
            self.live.placed = Some((placed, compared));
        }
        let placed = self.live.placed.as_mut().and_then(|(placed, _)| placed.remove(&id));
        placed.unwrap_or(0) as usize
    }
}

impl PlacementProblem {
    /// Collects the problem. O(jobs × platforms + applications × platforms² + waiting allocations), and, with
    /// budgets of users, the tasks that these hold.
    pub(in crate::engine) fn of(
        settings: &Settings,
        durable: &Durable,
        live: &Live,
        now: Time,
    ) -> PlacementProblem {
        // Also platforms that a new manager has not attached yet: their work is not requested from others. A
        // platform that is not attached after a while is no longer configured, and nothing is heard of it.
        let is_attached = |id: &PlatformId| live.platforms.get(id).is_some_and(|state| state.is_attached);
        let may_be_attached = now < live.grace_until;
        let is_known = |id: &PlatformId| {
            durable.mode(*id) != PlatformMode::Detached && (may_be_attached || is_attached(id))
        };
        let specs: Vec<(PlatformId, &PlatformSpec)> =
            durable.platforms().iter().map(|(id, spec)| (*id, spec)).filter(|(id, _)| is_known(id)).collect();
        let ids: Vec<PlatformId> = specs.iter().map(|(id, _)| *id).collect();
        let known = RuntimeModel::new(durable.facts(), &ids);
        let starved_s =
            |id: &JobId| live.starved.get(id).map_or(0.0, |(_, since)| now.since(*since).as_secs_f64());
        let mut guesses = BTreeMap::<&str, Rc<[f64]>>::new();
        let waiting = live.ready.iter().take(N_JOBS_LOOKED_AT).filter_map(|id| {
            let (job, leases) = (durable.jobs().get(id)?, live.jobs.get(id)?);
            let application = &job.request.application;
            let guess =
                || known.guess(application).into_iter().map(|task_s| task_s.max(TASK_LEAST_S)).collect();
            let runtimes = guesses.entry(application).or_insert_with(guess).clone();
            let allowed = |(id, spec): &(PlatformId, &PlatformSpec)| match can_run(settings, spec, job) {
                true => leases.ready.len().min(limits::n_allowed(durable, live, *id, job)),
                false => 0,
            };
            let allowed = specs.iter().map(allowed).collect();
            (!job.is_paused).then(|| Waiting {
                job,
                n_ready: leases.ready.len(),
                runtimes,
                allowed,
                starved_s: starved_s(id),
            })
        });
        let mut by_fit = BTreeMap::<Vec<bool>, Vec<Waiting<'_>>>::new();
        for one in waiting {
            by_fit.entry(one.allowed.iter().map(|n| *n > 0).collect()).or_default().push(one);
        }
        let mut groups: Vec<Group> =
            by_fit.values().map(|waiting| Group::of(durable, waiting, &specs)).collect();
        groups.sort_by_key(|group| group.fits.iter().flatten().count());
        let ground = |(id, spec): &(PlatformId, &PlatformSpec)| {
            PlatformSupply::of((settings, durable, live, now), *id, spec)
        };
        PlacementProblem { sites: specs.iter().map(ground).collect(), groups }
    }

    /// Returns how many allocations to request from each platform: one lot after another, until no more would
    /// find work or be of use.
    pub(in crate::engine) fn place(mut self, policy: PilotPlacement) -> BTreeMap<PlatformId, u64> {
        let mut placed = vec![0; self.sites.len()];
        for place in 0..self.sites.len() {
            self.cover(place, self.sites[place].n_counted, 0);
        }
        for n in 0..self.groups.len() {
            let n_wanted = self.groups[n].left;
            while self.groups[n].left > 0 {
                let sites = self.sites_for(&self.groups[n]);
                let supplies = self.supplies_for(&self.groups[n], &sites, &placed);
                let Some(place) = policy.choose(self.groups[n].work_s, &supplies, &sites) else { break };
                let lot = n_wanted.div_ceil(sites[place].cores).div_ceil(N_LOTS);
                let lot = lot.clamp(1, sites[place].n_room);
                placed[place] += lot;
                self.sites[place].n_room -= lot;
                self.cover(place, lot * self.sites[place].n_nodes, n);
            }
        }
        let placed = self.sites.iter().zip(placed).map(|(site, n)| (site.id, n));
        placed.filter(|(_, n)| *n > 0).collect()
    }

    /// Covers the cores that the groups want by `n_pilots` pilots of a platform, beginning with the group
    /// `first`.
    fn cover(&mut self, place: usize, n_pilots: u64, first: usize) {
        let n_groups = self.groups.len();
        let mut part_left = 1.0;
        for n in (0..n_groups).map(|n| (first + n) % n_groups) {
            let group = &mut self.groups[n];
            let Some(fit) = group.fits[place].as_mut().filter(|fit| fit.cores > 0.0) else { continue };
            let cores = (n_pilots as f64 * fit.cores * part_left).ceil() as u64;
            let covered = cores.min(group.left).min(fit.wanted);
            group.left -= covered;
            fit.wanted -= covered;
            part_left -= covered as f64 / (n_pilots as f64 * fit.cores).max(1.0);
            if part_left <= 0.0 {
                return;
            }
        }
    }

    /// Returns the platforms as a group sees them. A platform whose queue does not move is asked for more
    /// only where no other platform has room.
    fn sites_for(&self, group: &Group) -> Vec<Site> {
        let site = |(ground, fit): (&PlatformSupply, &Option<Fit>)| {
            let fit = fit.unwrap_or_default();
            let cores = (fit.cores * ground.n_nodes as f64).ceil().max(1.0) as u64;
            let n_room = if fit.wanted > 0 { ground.n_room } else { 0 };
            let rate = fit.speed * fit.cores * ground.n_nodes as f64;
            Site { wait_s: ground.wait_s, rate, speed: fit.speed, task_s: fit.task_s, cores, n_room }
        };
        let mut sites: Vec<Site> = self.sites.iter().zip(&group.fits).map(site).collect();
        let moves = |ground: &PlatformSupply| ground.n_counted == ground.to_come.0;
        if sites.iter().zip(&self.sites).any(|(site, ground)| site.n_room > 0 && moves(ground)) {
            let stuck = sites.iter_mut().zip(&self.sites).filter(|(_, ground)| !moves(ground));
            stuck.for_each(|(site, _)| site.n_room = 0);
        }
        sites
    }

    /// Returns the pilots that are there, on their way or just placed, as a group sees them. Pilots at work
    /// do not count if they have taken nothing of the group for as long as another platform would take.
    fn supplies_for(&self, group: &Group, sites: &[Site], placed: &[u64]) -> Vec<Supply> {
        let elsewhere_s = sites.iter().filter(|site| site.n_room > 0).map(|site| site.wait_s + site.task_s);
        let is_starved = group.starved_s > elsewhere_s.fold(f64::INFINITY, f64::min);
        let fitting = self.sites.iter().zip(placed).zip(&group.fits);
        let fitting = fitting.filter_map(|((ground, placed), fit)| Some((ground, *placed, (*fit)?)));
        let supplies = fitting.flat_map(|(ground, placed, fit)| {
            let new = (placed * ground.n_nodes, ground.wait_s);
            let at_work = if is_starved { (0, 0.0) } else { ground.at_work };
            [at_work, ground.to_come, new]
                .map(|(n, begins_s)| Supply { begins_s, rate: n as f64 * fit.speed * fit.cores })
        });
        supplies.collect()
    }

    /// Returns the outlooks in a form that a record can keep.
    fn compared(&self, policy: PilotPlacement, durable: &Durable) -> Option<Compared> {
        let outlooks = self.outlooks();
        let without = outlooks.first()?.without.mean_end();
        let name = |id| durable.platforms().get(&id).map_or_else(String::new, |spec| spec.name.clone());
        let with =
            |one: &Prospect| (name(one.platform), Span::from_secs_f64(one.wait_s), one.with.mean_end());
        let policy = none_or::to_word(Some(policy)).to_owned();
        Some(Compared { policy, without, with: outlooks.iter().map(with).collect() })
    }

    /// Returns the effect of one more allocation on each platform that can run waiting tasks, for the group
    /// with the most work.
    pub(in crate::engine) fn outlooks(&self) -> Vec<Prospect> {
        let none = vec![0; self.sites.len()];
        let prospect = |(place, ground): (usize, &PlatformSupply)| {
            let fitting = self.groups.iter().filter(|group| group.fits[place].is_some());
            let group = fitting.max_by(|a, b| a.work_s.total_cmp(&b.work_s))?;
            let sites = self.sites_for(group);
            let (supplies, site) = (self.supplies_for(group, &sites, &none), sites[place]);
            Some(Prospect {
                platform: ground.id,
                wait_s: ground.wait_s,
                with: PilotPlacement::outlook_with(group.work_s, &supplies, &site),
                without: outlook(group.work_s, supplies.iter().copied()),
            })
        };
        self.sites.iter().enumerate().filter_map(prospect).collect()
    }
}

impl Group {
    fn of(durable: &Durable, waiting: &[Waiting<'_>], specs: &[(PlatformId, &PlatformSpec)]) -> Group {
        let work_s: f64 = waiting.iter().map(Waiting::work_s).sum();
        let cores_wanted: u64 = waiting.iter().map(Waiting::cores_wanted).fold(0, u64::saturating_add);
        let fit = |(column, (id, _)): (usize, &(PlatformId, &PlatformSpec))| {
            let offered = durable.offered(*id);
            let sum = |value: &dyn Fn(&Waiting<'_>) -> f64| waiting.iter().map(value).sum::<f64>();
            let takes = sum(&|one| one.cores_wanted() as f64 * one.runtimes[column]);
            let busy = sum(&|one| {
                let n_slots = one.job.request.needs.resources.how_often_in(&offered);
                one.work_s() * n_slots.saturating_mul(one.cores()) as f64
            });
            let wanted = waiting.iter().map(|one| one.allowed[column].saturating_mul(one.cores()));
            let fit = Fit {
                speed: work_s / takes,
                cores: busy / work_s,
                task_s: takes / cores_wanted as f64,
                wanted: wanted.fold(0, u64::saturating_add),
            };
            (fit.wanted > 0 && fit.speed.is_finite() && fit.cores.is_finite()).then_some(fit)
        };
        let starved_s = waiting.iter().map(|one| one.starved_s).fold(0.0, f64::max);
        Group { work_s, left: cores_wanted, starved_s, fits: specs.iter().enumerate().map(fit).collect() }
    }
}

impl PlatformSupply {
    fn of(
        (settings, durable, live, now): (&Settings, &Durable, &Live, Time),
        id: PlatformId,
        spec: &PlatformSpec,
    ) -> PlatformSupply {
        let (n_live, n_waiting) = n_pilots(settings, durable, live, (id, now));
        let n_idle = live.idle.range((id, Time(0), PilotId(0))..);
        let n_idle = n_idle.take_while(|(platform, ..)| *platform == id).count();
        // Pilots that are idle while tasks wait cannot run these tasks.
        let n_at_work = n_live.saturating_sub(n_waiting).saturating_sub(n_idle) as u64;
        let cores_there = (n_at_work as f64 * f64::from(durable.offered(id).cores)).max(1.0);
        let queue = Queue::of(durable, id, now);
        let load = live.load(id, now);
        let shortage = load.map(|load| load.shortage(spec.cores_of_allocation().into()));
        let state = live.platforms.get(&id);
        let is_asked = state.is_some_and(|state| state.is_attached && state.blocked_until <= now);
        let is_asked = is_asked && !live.is_on_trial(durable, id);
        let is_failing = state.is_some_and(|state| state.is_failing() || state.unlisted.is_some());
        let room = || limits::room(settings, durable, live, (id, spec), now).n as u64;
        let n_room = if is_asked { room() } else { 0 };
        PlatformSupply {
            id,
            wait_s: durable.waits(id).expected_s(shortage, spec.walltime).unwrap_or(0.0).max(queue.oldest_s),
            n_nodes: spec.n_nodes.into(),
            n_room: if is_failing { n_room.min(1) } else { n_room },
            at_work: (n_at_work, held_s(durable, live, id) / cores_there),
            to_come: (n_waiting as u64, queue.left_s),
            n_counted: if is_failing { 0 } else { (n_waiting as u64).saturating_sub(queue.n_overdue) },
        }
    }
}

/// Returns whether pilots of the platform can run tasks of the job to their end.
fn can_run(settings: &Settings, spec: &PlatformSpec, job: &Job) -> bool {
    let outlives = |life| needed(job, life) + settings.walltime_margin <= life;
    job.request.needs.resources.fits_in(&spec.capacity) && spec.walltime.is_none_or(outlives)
}

/// Returns the core-seconds that the tasks that a platform's pilots hold take there.
fn held_s(durable: &Durable, live: &Live, id: PlatformId) -> f64 {
    let held = live.held_on.range((id, JobId(0))..=(id, JobId(u64::MAX)));
    let seconds = held.filter_map(|((_, job), n)| {
        let request = &durable.jobs().get(job)?.request;
        let task_s = durable.facts().runtime_s(id, &request.application).unwrap_or(RUNTIME_UNKNOWN_S);
        Some(*n as f64 * f64::from(request.needs.resources.cores) * task_s)
    });
    seconds.sum()
}

/// The waiting allocations of a platform.
#[derive(Default)]
struct Queue {
    /// Mean of the seconds that they still wait.
    left_s: f64,
    /// Seconds that the oldest has waited.
    oldest_s: f64,
    /// Number of pilots that are not counted on: it is unknown whether their allocations exist, or these have
    /// waited for too long.
    n_overdue: u64,
}

impl Queue {
    fn of(durable: &Durable, id: PlatformId, now: Time) -> Queue {
        let waits = durable.waits(id);
        let overdue_s = (OVERDUE * waits.mean_s().unwrap_or(0.0)).max(OVERDUE_LEAST_S);
        let waiting = durable.allocations_there(id).filter(|(_, held)| held.is_live() && held.is_unused());
        let (mut n, mut queue) = (0, Queue::default());
        for (_, held) in waiting {
            let waited_s = now.since(held.intended_at).as_secs_f64();
            let is_unknown = matches!(held.state, AllocationState::Unknown(..));
            n += 1;
            queue.left_s += waits.left_s(waited_s);
            queue.oldest_s = queue.oldest_s.max(waited_s);
            queue.n_overdue += if is_unknown || waited_s > overdue_s { held.n_waiting() as u64 } else { 0 };
        }
        queue.left_s /= f64::from(n.max(1));
        queue
    }
}
