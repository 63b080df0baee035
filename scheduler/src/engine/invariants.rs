//! The design's rules on the state at rest. Tests check them after every event, simulated faults after some.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        Engine,
        live::{Live, pilots::pilot_state::PilotState, ready::parked_pulls::ParkedPulls},
        state::{allocation::AllocationCounts, job::Job},
    },
    ids::{JobId, PilotId, PlatformId},
    ranges::TaskSet,
};

impl Engine {
    /// Panics when a rule is broken, naming it. O(state): for tests.
    pub fn check_invariants(&self) {
        for (id, leases) in &self.live.jobs {
            let job = &self.durable.jobs()[id];
            assert!(job.ended_at.is_none(), "job {id} is over and still has leases");
            let mut held = TaskSet::new();
            let mut n_running = 0;
            for (pilot, state) in &self.live.pilots {
                let Some(tasks) = state.leases.get(id) else { continue };
                assert!(
                    held.intersection(tasks).is_empty(),
                    "a task of job {id} is leased twice, to {pilot} too"
                );
                held.insert_all(tasks);
                n_running += state.running.get(id).map_or(0, TaskSet::len);
                assert!(leases.holders.contains(pilot), "pilot {pilot} is no known holder of job {id}");
            }
            let n_holders = self.live.pilots.values().filter(|s| s.leases.contains_key(id)).count();
            assert_eq!(n_holders, leases.holders.len(), "job {id} is held by fewer than it knows");
            assert_eq!(held.len(), leases.n_leased, "the sum of leases of job {id} is wrong");
            assert_eq!(n_running, leases.n_running, "the sum of running tasks of job {id} is wrong");
            assert!(
                held.intersection(&leases.ready).is_empty(),
                "a task of job {id} is both ready and leased"
            );
            assert_eq!(held.intersection(&job.open), held, "a closed task of job {id} is leased");
            if let Some(blocked) = self.live.graph.blocked(*id) {
                let (of_held, of_ready) = (blocked.intersection(&held), blocked.intersection(&leases.ready));
                assert!(of_held.is_empty(), "tasks {of_held} of job {id} are leased and wait for others");
                assert!(of_ready.is_empty(), "tasks {of_ready} of job {id} are ready and wait for others");
            }
            assert_eq!(
                leases.ready.intersection(&job.open),
                leases.ready,
                "a closed task of job {id} is ready"
            );
            if let (Some(by_size), Some(estimates)) = (&leases.by_size, &job.request.estimates) {
                let is_right = by_size.is_of(estimates, &leases.ready);
                assert!(is_right, "ready tasks of job {id} by their estimates");
            }
            self.check_no_task_is_lost(*id, &held);
        }
        for (id, job) in self.durable.jobs() {
            let n_closed = job.n_done() + job.failed.len() + job.cancelled.len();
            assert_eq!(n_closed + job.open.len(), job.request.n_tasks, "tasks of job {id} do not add up");
            assert!(job.failed.intersection(&job.cancelled).is_empty(), "a task of job {id} has ended twice");
            assert_eq!(job.ended_at.is_some(), job.open.is_empty(), "job {id} is over or not, not both");
        }
        let n_unsynced = self.live.pilots.values().filter(|state| !state.is_synced).count();
        assert_eq!(n_unsynced, self.live.n_unsynced, "pilots not in step are counted wrong");
        for id in self.live.pilots.keys() {
            assert!(self.durable.pilots()[id].is_live(), "pilot {id} is gone and still has a state");
        }
        self.live.graph.check(&self.durable);
        self.check_indices();
    }

    /// Every index is what a scan of everything gives.
    fn check_indices(&self) {
        let Live { pilots, jobs, .. } = &self.live;
        let (mut parked, mut idle, mut user_cores) =
            (ParkedPulls::default(), BTreeSet::new(), BTreeMap::new());
        let mut held_on = BTreeMap::new();
        let (mut capacities, mut template_holders) =
            (BTreeMap::new(), BTreeMap::<JobId, BTreeSet<PilotId>>::new());
        for (id, state) in pilots {
            let held = &self.durable.pilots()[id];
            assert_eq!(state.capacity, held.node.capacity, "pilot {id} has another capacity than its node");
            assert_eq!(
                state.takes_part,
                held.drain.is_none() && self.live.profiling_at(*id).is_none(),
                "pilot {id} takes part while it drains, or not"
            );
            let is_idle = state.is_synced && state.leases.is_empty();
            assert_eq!(is_idle, state.idle_since.is_some(), "pilot {id} is idle or not, not both");
            for (job, tasks) in &state.leases {
                *held_on.entry((held.platform, *job)).or_default() += tasks.len();
            }
            parked.by_request.extend(state.parked.map(|(request, _)| (request, *id)));
            if let Some(free_cores) = state.free_cores_listed() {
                parked.takers.entry(state.capacity.clone()).or_default().insert((free_cores, *id));
            }
            idle.extend(state.idle_since.map(|since| (held.platform, since, *id)));
            if state.takes_part {
                let alike: &mut BTreeSet<PilotId> =
                    capacities.entry((held.platform, state.capacity.clone())).or_default();
                alike.insert(*id);
            }
            state.templates.iter().for_each(|job| _ = template_holders.entry(*job).or_default().insert(*id));
            let is_untold = state.parked.is_some() && !state.commands.is_empty();
            assert!(!is_untold, "pilot {id} is parked though it must be told something");
        }
        for (id, leases) in jobs.iter() {
            let (job, request) = (&self.durable.jobs()[id], &self.durable.jobs()[id].request);
            let fits = |s: &PilotState| s.takes_part && request.needs.resources.fits_in(&s.capacity);
            let n_fitting = pilots.values().filter(|state| fits(state)).count() as u64;
            assert_eq!(leases.user, self.live.plan.place_of(&request.user), "the user of job {id}");
            assert_eq!(leases.n_fitting, n_fitting, "pilots that can run job {id} are counted wrong");
            let depth = job.depth(&self.settings);
            let held_cores = leases.n_leased.div_ceil(depth).max(leases.n_running)
                * u64::from(request.needs.resources.cores);
            assert_eq!(leases.held_cores, held_cores, "cores of job {id} are counted wrong");
            *user_cores.entry(request.user.clone()).or_default() += held_cores;
            let keep = |state: &PilotState| state.reservation.filter(|keep| keep.job == *id);
            let kept = pilots.iter().filter_map(|(pilot, state)| Some((keep(state)?.since, *pilot)));
            assert_eq!(leases.reservations, kept.collect(), "keepers for job {id}");
            assert!(leases.reservations.len() as u64 <= leases.ready.len(), "too many keepers for job {id}");
        }
        let n_reservations = pilots.values().filter(|state| state.reservation.is_some()).count();
        assert_eq!(self.live.n_reservations, n_reservations, "pilots that keep cores");
        let reserved_jobs =
            jobs.iter().filter(|(_, leases)| !leases.reservations.is_empty()).map(|(id, _)| *id);
        assert_eq!(self.live.reserved_jobs, reserved_jobs.collect(), "jobs for which cores are kept");
        let has_ready = |id: &&JobId| !jobs[*id].ready.is_empty() && jobs[*id].profiled_on.is_none();
        let ready: BTreeSet<JobId> = jobs.keys().filter(has_ready).copied().collect();
        user_cores.retain(|_, n_cores| *n_cores > 0);
        assert_eq!(self.live.ready, ready, "jobs with ready tasks");
        assert_eq!(self.live.lineup, self.live.lineup_anew(), "jobs in line");
        assert_eq!(self.live.parked, parked, "parked pulls");
        assert_eq!(self.live.idle, idle, "idle pilots");
        assert_eq!(self.live.capacities, capacities, "what pilots have");
        assert_eq!(self.live.template_holders, template_holders, "who knows which template");
        assert_eq!(self.live.user_cores, user_cores, "cores that users hold");
        assert_eq!(self.live.held_on, held_on, "tasks that are held on platforms");
        self.check_blame();
        self.check_census();
    }

    fn check_blame(&self) {
        let jobs = &self.live.jobs;
        for (id, suspects) in &self.live.suspects {
            assert!(
                jobs.contains_key(id) && !suspects.is_empty(),
                "suspects of job {id}, which is over, or none"
            );
            let open = &self.durable.jobs()[id].open;
            assert_eq!(*suspects, suspects.intersection(open), "suspects of job {id} that are not open");
        }
        for (id, job) in self.durable.jobs().iter().filter(|(id, _)| jobs.contains_key(id)) {
            let mut blamed = job.blamed(&job.open);
            self.live.suspects.get(id).inspect(|suspects| blamed.remove_all(suspects));
            assert!(blamed.is_empty(), "tasks {blamed} of job {id} are blamed and not suspect");
        }
        let last =
            |(id, job): (&JobId, &Job)| Some((*id, job.last_chances())).filter(|(_, last)| !last.is_empty());
        let open = self.durable.jobs().iter().filter(|(id, _)| jobs.contains_key(id));
        assert_eq!(
            self.live.last_chances,
            open.filter_map(last).collect(),
            "what one more lost pilot sets aside"
        );
        let alone =
            |(id, job): (&JobId, &Job)| Some((*id, job.to_be_alone())).filter(|(_, alone)| !alone.is_empty());
        let open = self.durable.jobs().iter().filter(|(id, _)| jobs.contains_key(id));
        assert_eq!(self.live.alone, open.filter_map(alone).collect(), "what is to run alone");
    }

    fn check_census(&self) {
        let mut all = BTreeMap::<PlatformId, AllocationCounts>::new();
        for held in self.durable.allocations().values() {
            let allocation_counts = all.entry(held.platform).or_default();
            let core_time_us = u128::from(held.core_time().0);
            let sum = if held.may_be_there() {
                &mut allocation_counts.committed_us
            } else {
                &mut allocation_counts.spent_us
            };
            *sum += core_time_us;
            if held.is_left_behind {
                continue;
            }
            if held.may_be_there() {
                allocation_counts.n_there += held.n_nodes_there as usize;
                allocation_counts.n_queued += usize::from(held.is_unused());
            }
            allocation_counts.n_live += if held.is_live() { held.n_nodes_there as usize } else { 0 };
            allocation_counts.n_waiting += held.n_waiting();
        }
        for id in self.durable.platforms().keys() {
            let allocation_counts = all.remove(id).unwrap_or_default();
            assert_eq!(
                self.durable.allocation_counts(*id),
                allocation_counts,
                "allocations of platform {id}"
            );
        }
    }

    /// Every open task is ready, leased, or waits for its retry with a timer armed.
    fn check_no_task_is_lost(&self, id: crate::ids::JobId, held: &TaskSet) {
        let job = &self.durable.jobs()[&id];
        let mut lost = job.open.clone();
        lost.remove_all(held);
        lost.remove_all(&self.live.jobs[&id].ready);
        if let Some(blocked) = self.live.graph.blocked(id) {
            lost.remove_all(blocked);
        }
        for (_, unreported_results) in self.live.unreported_results.iter().filter(|((job, _), _)| *job == id)
        {
            assert!(
                unreported_results.intersection(&self.live.jobs[&id].ready).is_empty(),
                "a result of job {id} is to come"
            );
            lost.remove_all(unreported_results);
        }
        for (_, timer) in &self.live.timers {
            if let super::Timer::Retry(task) = timer
                && task.job == id
            {
                lost.remove(task.index);
            }
        }
        assert!(lost.is_empty(), "tasks {lost} of job {id} are lost");
    }
}
