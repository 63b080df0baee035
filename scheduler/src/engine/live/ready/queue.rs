//! Indices over live pilots and open jobs, so that the cost of an event depends on what it concerns and not
//! on the size of the system. Each index has one owner here; in tests `invariants.rs` compares them with a
//! full scan.

use std::collections::BTreeSet;

use crate::{
    engine::{
        interface::RequestId,
        live::{
            Live,
            job_leases::JobLeases,
            pilots::{pilot_state::PilotState, reservation::Reservation},
            profiling::ProfilingRun,
            ready::{
                by_estimate::ReadyByEstimate,
                waiting_line::{Newcomer, WaitingLine},
            },
        },
        state::{durable::Durable, job::Job},
    },
    ids::{JobId, PilotId},
    policy::bundling::by_estimate::Taker,
    ranges::TaskSet,
    resources::Resources,
    time::Time,
};

impl Live {
    /// Changes a pilot's state and keeps its place among the takers up to date.
    pub fn with_pilot<T>(&mut self, id: PilotId, change: impl FnOnce(&mut PilotState) -> T) -> Option<T> {
        let state = self.pilots.get_mut(&id)?;
        let before = state.free_cores_listed();
        let result = change(state);
        let after = state.free_cores_listed();
        if before != after {
            before.inspect(|free_cores| self.parked.unlist(&state.capacity, *free_cores, id));
            after.inspect(|free_cores| self.parked.list(&state.capacity, *free_cores, id));
        }
        Some(result)
    }

    /// Parks a pilot's pull until `until`.
    pub fn park(&mut self, request: RequestId, id: PilotId, until: Time) {
        if self.with_pilot(id, |state| state.parked = Some((request, until))).is_some() {
            self.parked.by_request.insert(request, id);
            self.arm_pilot(id, until);
        }
    }

    /// Ends a pilot's parked pull and returns its request.
    pub fn unpark(&mut self, id: PilotId) -> Option<RequestId> {
        let (request, _) = self.with_pilot(id, |state| state.parked.take())??;
        self.parked.by_request.remove(&request);
        Some(request)
    }

    /// Sets the time since when the pilot holds nothing.
    pub fn set_idle(&mut self, durable: &Durable, id: PilotId, since: Option<Time>) {
        let Some(state) = self.pilots.get_mut(&id).filter(|state| state.idle_since != since) else { return };
        let Some(platform) = durable.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        let before = std::mem::replace(&mut state.idle_since, since);
        before.inspect(|at| _ = self.idle.remove(&(platform, *at, id)));
        since.inspect(|at| _ = self.idle.insert((platform, *at, id)));
    }

    /// Adds a live pilot.
    pub fn add_pilot(&mut self, durable: &Durable, id: PilotId, state: PilotState) {
        let Some(pilot) = durable.pilots().get(&id) else { return };
        let (capacity, since) = (pilot.node.capacity.clone(), state.idle_since);
        self.n_unsynced += usize::from(!state.is_synced);
        self.pilots.insert(id, Box::new(PilotState { capacity, idle_since: None, ..state }));
        self.set_idle(durable, id, since);
        if pilot.drain.is_none() {
            self.enlist(durable, id);
        }
    }

    /// Removes a pilot. It must hold nothing and have no parked pull.
    pub fn remove_pilot(&mut self, durable: &Durable, id: PilotId) {
        self.delist(durable, id);
        self.lose_node(id);
        self.keep_nothing(id);
        self.set_idle(durable, id, None);
        let Some(state) = self.pilots.remove(&id) else { return };
        self.n_unsynced -= usize::from(!state.is_synced);
        for job in state.templates {
            self.forget_knowing(job, id);
        }
    }

    /// Lets a pilot take part: jobs that it can run count it.
    pub fn enlist(&mut self, durable: &Durable, id: PilotId) {
        let Some(platform) = durable.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        let Some(state) = self.pilots.get_mut(&id).filter(|state| !state.takes_part) else { return };
        state.takes_part = true;
        self.capacities.entry((platform, state.capacity.clone())).or_default().insert(id);
        for (job, leases) in &mut self.jobs {
            leases.n_fitting += u64::from(fits(durable, *job, &state.capacity));
        }
    }

    /// Ends a pilot's part: it gets no new tasks.
    pub fn delist(&mut self, durable: &Durable, id: PilotId) {
        let Some(platform) = durable.pilots().get(&id).map(|pilot| pilot.platform) else { return };
        let Some(state) = self.pilots.get_mut(&id).filter(|state| state.takes_part) else { return };
        state.takes_part = false;
        let capacity = (platform, state.capacity.clone());
        if let Some(pilots) = self.capacities.get_mut(&capacity) {
            pilots.remove(&id);
            if pilots.is_empty() {
                self.capacities.remove(&capacity);
            }
        }
        for (job, leases) in &mut self.jobs {
            leases.n_fitting -= u64::from(fits(durable, *job, &state.capacity));
        }
        self.stir_retried();
    }

    /// Applies a changed capacity of a pilot's node; returns whether it has changed.
    pub fn resize_pilot(&mut self, durable: &Durable, id: PilotId) -> bool {
        let Some(capacity) = durable.pilots().get(&id).map(|pilot| pilot.node.capacity.clone()) else {
            return false;
        };
        let Some(state) = self.pilots.get(&id).filter(|state| state.capacity != capacity) else {
            return false;
        };
        let takes_part = state.takes_part;
        if takes_part {
            self.delist(durable, id);
        }
        // The job for which it keeps its cores may not fit any more.
        self.keep_nothing(id);
        if let Some(state) = self.pilots.get_mut(&id) {
            state.free_cores_listed().inspect(|n_free| self.parked.unlist(&state.capacity, *n_free, id));
            state.capacity = capacity;
            state.free_cores_listed().inspect(|n_free| self.parked.list(&state.capacity, *n_free, id));
        }
        if takes_part {
            self.enlist(durable, id);
        }
        true
    }

    /// Adds a job with open tasks, none of them ready or held yet.
    pub fn add_job(&mut self, id: JobId, job: &Job) {
        let needs = &job.request.needs.resources;
        let fitting = self.capacities.iter().filter(|((_, capacity), _)| needs.fits_in(capacity));
        let n_fitting = fitting.map(|(_, pilots)| pilots.len() as u64).sum();
        let (priority, rank) = (job.request.priority, job.request.rank());
        let user = self.plan.place_of(&job.request.user);
        let newcomer = Newcomer::of(job);
        let leases = JobLeases { n_fitting, priority, rank, user, newcomer, ..JobLeases::default() };
        self.jobs.entry(id).or_insert(leases);
    }

    /// Removes a job that has ended: none of its tasks is ready or held.
    pub fn remove_job(&mut self, id: JobId) {
        self.leave_line(id);
        self.jobs.remove(&id);
        self.graph.remove_job(id);
        self.unreported_results.retain(|(job, _), _| *job != id);
        self.suspects.remove(&id);
        self.last_chances.remove(&id);
        self.alone.remove(&id);
        self.empty_nobody_for(id);
        self.n_crash_most.remove(&id);
        self.retried.remove(&id);
        self.impatient.remove(&id);
        self.restless.remove(&id);
        self.reserved_jobs.remove(&id);
        self.dirty_jobs.remove(&id);
    }

    /// Makes tasks ready; parked pulls are looked at again at the end of the step.
    pub fn add_ready(&mut self, id: JobId, tasks: &TaskSet) {
        let Some(leases) = self.jobs.get_mut(&id).filter(|_| !tasks.is_empty()) else { return };
        if let Some(by_size) = &mut leases.by_size {
            let mut new = tasks.clone();
            new.remove_all(&leases.ready);
            by_size.add(&new);
        }
        self.plan_schedule.queues_changed |= leases.ready.is_empty();
        leases.ready.insert_all(tasks);
        match leases.profiled_on {
            Some(platform) => {
                self.pilots_to_notify.extend(self.profiling.get(&platform).and_then(ProfilingRun::pilot))
            }
            None => {
                self.line_up(id);
                self.dirty_jobs.insert(id);
            }
        }
    }

    /// Removes tasks of a job from the ready ones.
    pub fn not_ready(&mut self, id: JobId, tasks: &TaskSet) {
        let Some(leases) = self.jobs.get_mut(&id) else { return };
        if let Some(by_size) = &mut leases.by_size {
            by_size.remove(&tasks.intersection(&leases.ready));
        }
        leases.ready.remove_all(tasks);
        self.note_less_ready(id);
    }

    /// Takes the first `n` ready tasks of a job that are not excluded.
    pub fn take_ready(&mut self, id: JobId, n: u64, excluded: &TaskSet) -> TaskSet {
        let Some(leases) = self.jobs.get_mut(&id) else { return TaskSet::new() };
        let taken = leases.ready.take_first_outside(n, excluded);
        if let Some(by_size) = &mut leases.by_size {
            by_size.remove(&taken);
        }
        self.note_less_ready(id);
        taken
    }

    /// Updates the line and the reservations after fewer tasks of the job are ready.
    pub(in crate::engine) fn note_less_ready(&mut self, id: JobId) {
        let n_ready = self.jobs.get(&id).map_or(0, |leases| leases.ready.len());
        if n_ready == 0 && self.leave_line(id) {
            self.plan_schedule.queues_changed = true;
        }
        self.free_keepers(id, n_ready);
    }

    /// Lets the pilot keep the cores that come free for a job, and for no other.
    pub fn keep(&mut self, id: PilotId, keep: Reservation) {
        self.keep_nothing(id);
        let n_ready = self.jobs.get(&keep.job).map_or(0, |leases| leases.ready.len());
        self.free_keepers(keep.job, n_ready.saturating_sub(1));
        let Some(state) = self.pilots.get_mut(&id) else { return };
        let Some(leases) = self.jobs.get_mut(&keep.job) else { return };
        state.reservation = Some(keep);
        self.n_reservations += 1;
        self.reserved_jobs.insert(keep.job);
        leases.reservations.insert((keep.since, id));
    }

    /// Ends the pilot's reservation and returns it.
    pub fn keep_nothing(&mut self, id: PilotId) -> Option<Reservation> {
        let kept = self.pilots.get_mut(&id)?.reservation.take()?;
        self.n_reservations -= 1;
        if let Some(leases) = self.jobs.get_mut(&kept.job) {
            leases.reservations.remove(&(kept.since, id));
            if leases.reservations.is_empty() {
                self.reserved_jobs.remove(&kept.job);
            }
        }
        Some(kept)
    }

    /// Returns whether the pilot keeps cores for a job.
    pub fn keeps(&self, id: PilotId) -> bool {
        self.pilots.get(&id).is_some_and(|state| state.reservation.is_some())
    }

    /// Ends reservations for the job until at most `n_left` remain; the oldest end first, and their pilots
    /// are served again.
    pub fn free_keepers(&mut self, job: JobId, n_left: u64) {
        while let Some(leases) = self.jobs.get(&job)
            && leases.reservations.len() as u64 > n_left
            && let Some((_, keeper)) = leases.reservations.first().copied()
        {
            self.keep_nothing(keeper);
            self.pilots_to_notify.insert(keeper);
        }
    }

    /// Notes that the pilot was given tasks of the job: one reservation for the job ends.
    pub fn note_turn(&mut self, pilot: PilotId, job: JobId) {
        self.n_served += 1;
        if let Some(state) = self.pilots.get_mut(&pilot) {
            state.previous = Some(job);
        }
        let Some(leases) = self.jobs.get_mut(&job) else { return };
        leases.last_served = self.n_served;
        let n_reservations = leases.reservations.len() as u64;
        self.free_keepers(job, n_reservations.saturating_sub(1));
    }

    /// Offers all ready tasks to parked pulls again.
    pub fn stir_all(&mut self) {
        self.dirty_jobs.clone_from(&self.ready);
        self.pilots_to_notify.extend(self.profiling.values().filter_map(ProfilingRun::pilot));
    }

    /// Notes that the pilot has the job's template; returns whether that is new.
    pub fn note_knowing(&mut self, job: JobId, id: PilotId) -> bool {
        let Some(state) = self.pilots.get_mut(&id) else { return false };
        self.template_holders.entry(job).or_default().insert(id);
        state.templates.insert(job)
    }

    fn forget_knowing(&mut self, job: JobId, id: PilotId) {
        let Some(template_holders) = self.template_holders.get_mut(&job) else { return };
        template_holders.remove(&id);
        if template_holders.is_empty() {
            self.template_holders.remove(&job);
        }
    }

    /// Sets the templates that the pilot has.
    pub fn set_knowing(&mut self, id: PilotId, jobs: impl IntoIterator<Item = JobId>) {
        let Some(state) = self.pilots.get_mut(&id) else { return };
        for job in std::mem::take(&mut state.templates) {
            self.forget_knowing(job, id);
        }
        for job in jobs {
            self.note_knowing(job, id);
        }
    }

    /// Forgets the job's template and returns the pilots that have it.
    pub fn take_knowing(&mut self, job: JobId) -> BTreeSet<PilotId> {
        let template_holders = self.template_holders.remove(&job).unwrap_or_default();
        for id in &template_holders {
            if let Some(state) = self.pilots.get_mut(id) {
                state.templates.remove(&job);
            }
        }
        template_holders
    }
}

/// Returns whether a pilot with this capacity can run the job.
fn fits(durable: &Durable, job: JobId, capacity: &Resources) -> bool {
    durable.jobs().get(&job).is_some_and(|job| job.request.needs.resources.fits_in(capacity))
}

impl Live {
    /// Takes up to `n_left` ready tasks of a job by estimate, without the excluded ones: those that start
    /// first, then others.
    pub fn pack_ready(
        &mut self,
        (id, job): (JobId, &Job),
        taker: &Taker,
        n_left: u64,
        excluded: &TaskSet,
    ) -> Vec<TaskSet> {
        let (Some(leases), Some(estimates)) = (self.jobs.get_mut(&id), &job.request.estimates) else {
            return Vec::new();
        };
        let ready = &leases.ready;
        let new = || Box::new(ReadyByEstimate::new(estimates, job.request.n_tasks, ready));
        let by_size = leases.by_size.get_or_insert_with(new);
        let taken = by_size.pack(&mut leases.ready, excluded, taker, n_left);
        self.note_less_ready(id);
        taken
    }
}

/// Number of ready jobs below which all of them are compared.
const N_READY_MIN: usize = 64;

impl Live {
    /// Puts a job with ready tasks into the line.
    pub(in crate::engine) fn line_up(&mut self, id: JobId) {
        if self.ready.insert(id) {
            self.lineup.insert(id, self.jobs.get(&id).and_then(|leases| leases.newcomer.as_ref()));
        }
    }

    /// Takes a job without ready tasks out of the line; returns whether it was there.
    pub(in crate::engine) fn leave_line(&mut self, id: JobId) -> bool {
        self.lineup.remove(id, self.jobs.get(&id).and_then(|leases| leases.newcomer.as_ref()));
        self.ready.remove(&id)
    }

    /// Moves a job out of the newcomers once tasks of it were leased: it is like no other job any more.
    pub(in crate::engine) fn is_new_no_more(&mut self, id: JobId) {
        let Some(newcomer) = self.jobs.get_mut(&id).and_then(|leases| leases.newcomer.take()) else { return };
        self.lineup.remove(id, Some(&newcomer));
        if self.ready.contains(&id) {
            self.lineup.insert(id, None);
        }
    }

    /// Returns the line that a full scan finds.
    pub(in crate::engine) fn lineup_anew(&self) -> WaitingLine {
        let mut lineup = WaitingLine::default();
        for id in &self.ready {
            lineup.insert(*id, self.jobs.get(id).and_then(|leases| leases.newcomer.as_ref()));
        }
        lineup
    }
}

/// Returns ready jobs that include the next `n` that the pilot is served: of each kind of newcomers the first
/// `n` and one more, and all others. `None`: there are so few that all are compared. O(kinds × n + others).
pub(in crate::engine) fn first_in_line(
    durable: &Durable,
    live: &Live,
    (pilot, kept): (PilotId, Option<Reservation>),
    n: usize,
) -> Option<BTreeSet<JobId>> {
    if live.ready.len() < N_READY_MIN {
        return None;
    }
    let revoked = live.pilots.get(&pilot).map(|state| &state.revoked);
    // A paused, reserved or revoked job may not be for this pilot, so it cannot stand for others of its kind.
    let is_alike = |id: &JobId| {
        let is_running = durable.jobs().get(id).is_some_and(|job| !job.is_paused);
        let is_kept = live.reserved_jobs.contains(id);
        is_running && !is_kept && !revoked.is_some_and(|revoked| revoked.contains_key(id))
    };
    let mut first = live.lineup.others.clone();
    for line in live.lineup.newcomers.values() {
        let mut n_alike = 0;
        for (_, id) in line {
            n_alike += usize::from(is_alike(id));
            first.insert(*id);
            if n_alike > n {
                break;
            }
        }
    }
    // Cores that are kept for a job change its turn.
    first.extend(live.reserved_jobs.intersection(&live.ready));
    first.extend(kept.map(|kept| kept.job).filter(|job| live.ready.contains(job)));
    Some(first)
}
