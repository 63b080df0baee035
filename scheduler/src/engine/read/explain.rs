//! `explain`: finds the reasons; [`crate::explain`] has their sentences.

use std::collections::BTreeSet;

use crate::{
    engine::{
        dispatch::{
            capacity::{PilotCapacity, expected_duration, needed},
            elsewhere::Elsewhere,
            serve::all_choices,
        },
        interface::{
            platform::{
                platform_spec::{PlatformMode, PlatformSpec},
                scaling::Ratio,
            },
            refusal::Refusal,
        },
        live::platform::limits,
        provision::GONE,
        read::views::{Reader, cancel_words},
        record::CancelCause,
        state::{
            allocation::AllocationState,
            job::{Job, Trouble},
            pilot::Pilot,
        },
    },
    explain::{Reason, UNSAID},
    ids::{JobId, PilotId, PlatformId, TaskId},
    ranges::TaskSet,
    resources::Resources,
    time::Span,
};

impl Reader<'_> {
    pub(in crate::engine) fn explain_job(&self, id: JobId, job: &Job) -> Vec<Reason> {
        let counts = self.counts(id, job);
        let mut reasons = Vec::new();
        if job.ended_at.is_some() {
            let (n_done, n_failed, n_cancelled) = (counts.done, counts.failed, counts.cancelled);
            reasons.push(Reason::JobOver {
                job: id,
                state: job.state().into(),
                n_done,
                n_failed,
                n_cancelled,
            });
            reasons.extend(first_failed(id, job));
            reasons.extend(self.why_some_forsaken(id, job));
            let is_told = |cause: &&CancelCause| {
                job.state() == "cancelled" && !matches!(cause, CancelCause::Dependency(_))
            };
            let cause = job.cancel_cause.as_ref().filter(is_told);
            reasons.extend(cause.map(|cause| Reason::TaskCancelled { cause: cancel_words(cause) }));
            return reasons;
        }
        let (n_running, n_queued, n_ready) = (counts.running, counts.queued, counts.waiting);
        let delayed = job
            .troubled
            .iter()
            .filter(|(index, trouble)| trouble.retry_at > self.now && job.open.contains(**index));
        let n_delayed = delayed.clone().count() as u64;
        let n_blocked = self.live.graph.n_blocked(id);
        if job.is_paused {
            reasons.push(Reason::JobPaused { job: id });
        } else if n_ready > n_delayed + n_blocked {
            reasons.extend(self.why_ready(id, job, &job.open));
        }
        reasons.extend(self.why_some_forsaken(id, job));
        reasons.extend(self.why_blocked(job, n_blocked));
        if let Some(at) = delayed.map(|(_, trouble)| trouble.retry_at).min() {
            reasons.push(Reason::JobBacksOff { n_tasks: n_delayed, left: at.since(self.now) });
        }
        reasons.push(Reason::JobRuns { job: id, n_running, n_queued, n_ready });
        if let (Some(mean), Some(deviation)) = (job.totals.wall_mean(), job.totals.wall_deviation()) {
            reasons.push(Reason::JobRate { mean, deviation, n: job.totals.n });
        }
        reasons
    }

    pub(in crate::engine) fn explain_task(&self, task: TaskId) -> Result<Vec<Reason>, Refusal> {
        let job = self.known_task(task)?;
        let trouble = job.troubled.get(&task.index);
        let last = trouble.and_then(|trouble| Some((trouble, trouble.last.clone()?)));
        if job.failed.contains(task.index) {
            let failed =
                last.map(|(trouble, kind)| Reason::TaskFailed { kind, n_attempts: trouble.n_attempts() });
            return Ok(failed.into_iter().chain(trouble.and_then(|trouble| self.ends(trouble))).collect());
        }
        if job.cancelled.contains(task.index) {
            let cause = job.cancel_cause.as_ref().map_or_else(String::new, cancel_words);
            let forsaken = self.why_forsaken(task);
            return Ok(vec![forsaken.unwrap_or(Reason::TaskCancelled { cause })]);
        }
        if !job.open.contains(task.index) {
            return Ok(vec![Reason::TaskDone]);
        }
        let mut reasons = match self.holder(task) {
            Some((pilot, true)) => vec![Reason::TaskRuns { pilot }],
            Some((pilot, false)) => vec![Reason::TaskQueued { pilot, n_ahead: self.n_ahead_on(pilot, task) }],
            None => Vec::new(),
        };
        if let Some((pilot, _)) = self.holder(task) {
            // The fair shares and quotas by which it got there, if there are any.
            reasons.extend(self.why_there(task.job, job));
            let platform = self.durable.pilots().get(&pilot).map(|held| held.platform);
            reasons.extend(platform.and_then(|platform| self.meant_for(pilot, platform)));
            return Ok(reasons);
        }
        let blocked = self.why_task_waits(job, task.index);
        if !blocked.is_empty() {
            return Ok(blocked);
        }
        if let Some((trouble, kind)) = last.filter(|(trouble, _)| trouble.retry_at > self.now) {
            let left = trouble.retry_at.since(self.now);
            reasons.extend(job.is_paused.then_some(Reason::JobPaused { job: task.job }));
            reasons.push(Reason::TaskBacksOff { left, n_attempts: trouble.n_attempts(), kind });
            return Ok(reasons);
        }
        let one = TaskSet::from(task.index..task.index.saturating_add(1));
        reasons.extend(self.why_ready(task.job, job, &one));
        if let Some(leases) = self.live.jobs.get(&task.job) {
            let n_ahead = leases.ready.intersection(&(0..task.index).into()).len();
            reasons.push(Reason::TaskBehind { n_ahead });
        }
        Ok(reasons)
    }

    /// Returns the jobs for which the job's blocked tasks wait, if there are blocked tasks.
    fn why_blocked(&self, job: &Job, n_tasks: u64) -> Option<Reason> {
        let n_open = |on: &JobId| self.durable.jobs().get(on).map_or(0, |on| on.open.len());
        let on: BTreeSet<JobId> = job.request.after.iter().map(|dependence| dependence.on).collect();
        let open = on.into_iter().map(|on| (on, n_open(&on))).filter(|(_, n)| *n > 0).collect();
        (n_tasks > 0).then_some(Reason::JobBlocked { n_tasks, open })
    }

    /// Returns the open tasks for which an open task waits.
    fn why_task_waits(&self, job: &Job, index: u64) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for dependence in &job.request.after {
            let Some(on) = self.durable.jobs().get(&dependence.on) else { continue };
            let one = TaskSet::from(index..index.saturating_add(1));
            let open = dependence.edges.predecessors(&one, on.request.n_tasks).intersection(&on.open);
            let Some(first) = open.first() else { continue };
            let first = TaskId { job: dependence.on, index: first };
            let (job, n, pilot) = (dependence.on, open.len(), self.holder(first));
            reasons.push(Reason::TaskBlocked { job, n, first, pilot });
        }
        reasons
    }

    /// Returns the task whose failure or cancellation cancelled some tasks of the job.
    fn why_some_forsaken(&self, id: JobId, job: &Job) -> Option<Reason> {
        let first = TaskId { job: id, index: job.forsaken.first()? };
        let (before, has_failed) = self.began_forsaking(first)?;
        Some(Reason::JobForsaken { n_tasks: job.forsaken.len(), first, before, has_failed })
    }

    /// Returns the other task whose failure or cancellation cancelled this one.
    fn why_forsaken(&self, task: TaskId) -> Option<Reason> {
        let (before, has_failed) = self.began_forsaking(task)?;
        Some(Reason::TaskForsaken { before, has_failed })
    }

    /// Returns the first task in the chain of dependencies that led to this task's cancellation, and whether
    /// it has failed.
    fn began_forsaking(&self, task: TaskId) -> Option<(TaskId, bool)> {
        /// The most tasks that may lie between.
        const N_BETWEEN_MAX: usize = 1000;
        let mut found = None;
        for _ in 0..N_BETWEEN_MAX {
            let last = found.map_or(task, |(before, _)| before);
            match self.waited_in_vain_for(last) {
                Some(next) => found = Some(next),
                None => break,
            }
        }
        found
    }

    /// Returns the first task for which this one waited in vain, and whether it has failed.
    fn waited_in_vain_for(&self, task: TaskId) -> Option<(TaskId, bool)> {
        let job = self.durable.jobs().get(&task.job).filter(|job| job.forsaken.contains(task.index))?;
        let one = TaskSet::from(task.index..task.index.saturating_add(1));
        job.request.after.iter().find_map(|dependence| {
            let on = self.durable.jobs().get(&dependence.on)?;
            let before = dependence.edges.predecessors(&one, on.request.n_tasks);
            let first = before.intersection(&on.lost()).first()?;
            Some((TaskId { job: dependence.on, index: first }, on.failed.contains(first)))
        })
    }

    fn n_ahead_on(&self, pilot: PilotId, task: TaskId) -> u64 {
        let leases = self.live.pilots.get(&pilot).and_then(|state| state.leases.get(&task.job));
        leases.map_or(0, |leases| leases.intersection(&(0..task.index).into()).len())
    }

    /// Returns why these tasks of the job, of which some are ready, are not given out.
    fn why_ready(&self, id: JobId, job: &Job, tasks: &TaskSet) -> Vec<Reason> {
        let mut reasons = self.why_waiting(id, job);
        let ready =
            self.live.jobs.get(&id).map_or_else(TaskSet::new, |leases| leases.ready.intersection(tasks));
        let alone = self.live.alone.get(&id).map(|alone| alone.intersection(&ready)).unwrap_or_default();
        if !alone.is_empty() {
            if alone.len() == ready.len() {
                reasons.retain(|reason| !matches!(reason, Reason::SoonServed { .. }));
            }
            reasons.push(Reason::RunAlone { n_tasks: alone.len() });
        }
        let mut others = ready.clone();
        others.remove_all(&alone);
        let n_tasks = self.n_apart(id, job, &others);
        if n_tasks > 0 {
            if n_tasks == ready.len() {
                // Free room is of no use to these tasks.
                reasons.retain(|reason| !matches!(reason, Reason::SoonServed { .. }));
            }
            reasons.push(Reason::KeptApart { n_tasks });
        }
        let avoided = self.n_for_others(id, job, &ready);
        if !avoided.is_empty() {
            if avoided.len() == ready.len() {
                reasons.retain(|reason| !matches!(reason, Reason::SoonServed { .. }));
            }
            let retry_at = |index| job.troubled.get(&index).map(|trouble| trouble.retry_at);
            let since = avoided.indices().filter_map(retry_at).max().unwrap_or(self.now);
            let left = (since + self.settings.retry_elsewhere).since(self.now);
            reasons.insert(0, Reason::RetriedElsewhere { n_tasks: avoided.len(), left });
        }
        reasons
    }

    /// Returns how many of the ready tasks must not run beside the present tasks of any pilot that could run
    /// them.
    fn n_apart(&self, id: JobId, job: &Job, ready: &TaskSet) -> u64 {
        let Some(suspects) = self.live.suspects.get(&id).filter(|_| self.live.keeps_apart(id)) else {
            return 0;
        };
        let pilots = self.pilots_for(job).into_iter();
        let takes_part = |(pilot, _): &(PilotId, &Pilot)| {
            self.live.pilots.get(pilot).is_some_and(|state| state.is_synced && state.takes_part)
        };
        let not_for = pilots.filter(takes_part).map(|(pilot, _)| self.live.not_for(pilot, id));
        let ready = ready.intersection(suspects);
        not_for
            .reduce(|apart, one| apart.intersection(&one))
            .map_or(0, |apart| apart.intersection(&ready).len())
    }

    /// Returns the ready tasks that failed on all free pilots: other pilots are to run them.
    fn n_for_others(&self, id: JobId, job: &Job, ready: &TaskSet) -> TaskSet {
        if job.failed_at.is_empty() {
            return TaskSet::new();
        }
        let (settings, durable, live, now) = (self.settings, self.durable, self.live, self.now);
        let elsewhere = Elsewhere { settings, durable, live, now };
        let needs = &job.request.needs.resources;
        let is_free = |pilot: &PilotId| {
            let offer = PilotCapacity::new(settings, durable, live, now, *pilot);
            let state = live.pilots.get(pilot).filter(|state| state.is_synced && state.takes_part);
            state.is_some() && offer.is_some_and(|offer| needs.fits_in(offer.free()))
        };
        let free = self.pilots_for(job).into_iter().map(|(pilot, _)| pilot).filter(is_free);
        let avoided = free.map(|pilot| elsewhere.not_for(pilot, id));
        let avoided = avoided.reduce(|avoided, one| avoided.intersection(&one));
        avoided.map(|avoided| avoided.intersection(ready)).unwrap_or_default()
    }

    /// Returns the last pilots that were lost, or whose batch jobs were ended, while the task ran.
    fn ends(&self, trouble: &Trouble) -> Option<Reason> {
        const N_SHOWN: usize = 3;
        let end = |id: &PilotId| {
            let pilot = self.durable.pilots().get(id)?;
            let held = self.durable.allocations().get(&pilot.allocation);
            let said = held.and_then(|held| match &held.state {
                AllocationState::Ended(why) => Some(why.clone()),
                _ => None,
            });
            let why = said.or_else(|| pilot.ended.as_ref().map(|(_, why)| why.clone()))?;
            let is_unsaid = held.is_some_and(|held| held.end_cause.is_none()) && why == GONE;
            let why = if is_unsaid { UNSAID.to_owned() } else { why };
            Some((*id, held.and_then(|held| held.batch_id.clone()), why))
        };
        let pilots: BTreeSet<PilotId> =
            trouble.ended_with.iter().chain(&trouble.lost_with).copied().collect();
        let n_more = pilots.len().saturating_sub(N_SHOWN);
        let ends: Vec<_> = pilots.iter().skip(n_more).filter_map(end).collect();
        (!ends.is_empty()).then_some(Reason::EndedWith { ends })
    }

    /// Returns the pilots that have room for a task of the job when they are free.
    fn pilots_that_fit(&self, job: &Job) -> impl Iterator<Item = (PilotId, &Pilot)> {
        let needs = &job.request.needs.resources;
        let all = self.live.pilots.keys();
        all.filter_map(|pilot| Some((*pilot, self.durable.pilots().get(pilot)?)))
            .filter(move |(_, pilot)| pilot.drain.is_none() && needs.fits_in(&pilot.node.capacity))
    }

    /// Returns the pilots that fit and on whose platform the job's user may have a task.
    fn pilots_for(&self, job: &Job) -> Vec<(PilotId, &Pilot)> {
        self.pilots_that_fit(job)
            .filter(|(_, pilot)| limits::n_allowed(self.durable, self.live, pilot.platform, job) > 0)
            .collect()
    }

    /// Returns why the job's ready tasks are not given out.
    fn why_waiting(&self, id: JobId, job: &Job) -> Vec<Reason> {
        if job.is_paused {
            return vec![Reason::JobPaused { job: id }];
        }
        if self.live.shutdown.is_some() {
            return vec![Reason::ShuttingDown];
        }
        if self.live.is_in_grace() {
            let n_pilots = self.live.pilots.values().filter(|pilot| !pilot.is_synced).count() as u64;
            return vec![Reason::InGrace { left: self.live.grace_until.since(self.now), n_pilots }];
        }
        if self.platforms().next().is_none() {
            return vec![Reason::NoPlatform];
        }
        if let Some((platform, profiling)) = self.profiling_of(id) {
            let spent = limits::why_not_used(self.durable, self.live, platform, job);
            return Vec::from_iter([Some(profiling), spent].into_iter().flatten());
        }
        let spent = |id| limits::why_not_used(self.durable, self.live, id, job);
        let mut reasons: Vec<Reason> = self.platforms().map(|(id, _)| id).filter_map(spent).collect();
        if reasons.is_empty() || reasons.len() < self.platforms().count() {
            reasons.extend(self.why_not_served(id, job));
        }
        reasons
    }

    /// Returns the platforms that are not detached.
    fn platforms(&self) -> impl Iterator<Item = (PlatformId, &PlatformSpec)> + Clone {
        let all = self.durable.platforms().iter().map(|(id, spec)| (*id, spec));
        all.filter(|(id, _)| self.durable.mode(*id) != PlatformMode::Detached)
    }

    /// Returns why none of the pilots that may serve the job does.
    fn why_not_served(&self, id: JobId, job: &Job) -> Vec<Reason> {
        let needs = &job.request.needs.resources;
        let pilots = self.pilots_for(job);
        if pilots.is_empty() {
            return self.why_no_pilot(job);
        }
        let n_pilots = pilots.len() as u64;
        let is_there = |id: &PilotId| self.live.pilots.get(id).is_some_and(|state| state.is_synced);
        if !pilots.iter().any(|(id, _)| is_there(id)) {
            return vec![Reason::PilotsAway { n_pilots }];
        }
        let offer = |id| PilotCapacity::new(self.settings, self.durable, self.live, self.now, id);
        let offers: Vec<(PilotId, PilotCapacity<'_>)> =
            pilots.iter().filter_map(|(id, _)| Some((*id, offer(*id)?))).collect();
        if offers.iter().all(|(_, offer)| !offer.outlives(job)) {
            let for_ever = self.walltimes_too_short(job);
            return vec![
                for_ever.unwrap_or(Reason::PilotsTooShort { needed: expected_duration(job), n_pilots }),
            ];
        }
        let freest = offers.iter().max_by_key(|(_, offer)| needs.how_often_in(offer.free()));
        let free = freest.map_or_else(Resources::default, |(_, offer)| offer.free().clone());
        let mut reasons = Vec::new();
        // A pilot with room keeps it for others, or is a suspected black hole: the reasons below say this.
        if needs.how_often_in(&free) == 0 {
            let freest = freest.map(|(pilot, _)| *pilot);
            reasons.push(Reason::PilotsBusy { n_pilots, free, needs: needs.clone(), freest });
            reasons.extend(self.why_no_more_pilots(needs));
        }
        reasons.extend(freest.and_then(|(pilot, _)| self.why_doubted(*pilot)));
        reasons.extend(pilots.iter().find_map(|(id, pilot)| self.profiling_at(*id, pilot.platform)));
        let keeper = self.live.jobs.get(&id).and_then(|leases| leases.reservations.first());
        reasons.extend(keeper.and_then(|(_, pilot)| self.what_it_keeps(*pilot)));
        reasons.extend(freest.and_then(|(pilot, offer)| self.first_in_line(id, *pilot, offer)));
        reasons.extend(self.why_there(id, job));
        if reasons.is_empty() {
            reasons.push(Reason::SoonServed { n_pilots });
        }
        reasons
    }

    /// Returns a reason if no platform that the job's tasks fit has pilots that live long enough for a task.
    fn walltimes_too_short(&self, job: &Job) -> Option<Reason> {
        let needs = &job.request.needs.resources;
        let fitting = self.platforms().map(|(_, spec)| spec).filter(|spec| needs.fits_in(&spec.capacity));
        let is_too_short = |life| needed(job, life) + self.settings.walltime_margin > life;
        let lives = fitting.map(|spec| Some((spec.walltime.filter(|life| is_too_short(*life))?, &spec.name)));
        let (walltime, platform) = lives.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(Reason::WalltimesTooShort {
            needed: expected_duration(job),
            platform: platform.clone(),
            walltime,
        })
    }

    fn why_no_pilot(&self, job: &Job) -> Vec<Reason> {
        let needs = &job.request.needs.resources;
        let offers = self.platforms().map(|(_, spec)| &spec.capacity);
        if !offers.clone().any(|capacity| needs.fits_in(capacity)) {
            let largest = offers.max_by_key(|capacity| (capacity.cores, capacity.memory_bytes)).cloned();
            let largest = largest.unwrap_or_default();
            return vec![Reason::FitsNowhere { needs: needs.clone(), largest }];
        }
        if let Some(reason) = self.walltimes_too_short(job) {
            return vec![reason];
        }
        let no_room = |(id, spec)| {
            let room = limits::room(self.settings, self.durable, self.live, (id, spec), self.now);
            room.bound.filter(|_| room.n == 0)
        };
        let mut reasons: Vec<Reason> = self.platforms().filter_map(no_room).collect();
        for (id, spec) in self.platforms() {
            reasons.extend(self.what_fails(id, &spec.name));
            reasons.extend(self.what_queues_say(id, &spec.name));
        }
        let waiting = self.durable.allocations().values().filter(|a| a.is_live() && a.is_unused());
        let n_allocations = waiting.count() as u64;
        // Pilots may be there where the user's budget is used up; the caller gives that reason before.
        if n_allocations > 0 || self.pilots_that_fit(job).next().is_none() {
            reasons.push(Reason::NoPilot { n_allocations });
        }
        reasons
    }

    /// Returns the reasons for which platforms bring no more pilots that could run the task: failures, and
    /// why their allocations wait.
    fn why_no_more_pilots(&self, needs: &Resources) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for (id, spec) in self.platforms().filter(|(_, spec)| needs.fits_in(&spec.capacity)) {
            reasons.extend(self.what_fails(id, &spec.name));
            reasons.extend(self.what_queues_say(id, &spec.name));
        }
        reasons
    }

    fn what_it_keeps(&self, pilot: PilotId) -> Option<Reason> {
        let job = self.live.pilots.get(&pilot)?.reservation?.job;
        let needs = self.durable.jobs().get(&job)?.request.needs.resources.clone();
        let offer = PilotCapacity::new(self.settings, self.durable, self.live, self.now, pilot)?;
        Some(Reason::PilotKeeps { pilot, job, needs, free: offer.free().clone() })
    }

    /// Returns the job that the matching policy serves on a pilot before this one, if there is one.
    fn first_in_line(&self, id: JobId, pilot: PilotId, offer: &PilotCapacity<'_>) -> Option<Reason> {
        let choices = all_choices(self.settings, offer, (self.durable, self.live), pilot);
        let (matching, candidates) =
            (offer.policies.matching, || choices.iter().map(|choice| &choice.candidate));
        let own = candidates().find(|own| own.job == id)?;
        // A job of the same user that goes first is named: this one is not compared with other users' jobs.
        let of_user = || candidates().filter(|one| one.user == own.user && one.outranks(own));
        let first = match matching.choose(of_user()) {
            Some(at) => of_user().nth(at)?,
            None => candidates().nth(matching.choose(candidates())?)?,
        };
        (first.job != id).then(|| Reason::BehindJob {
            job: first.job,
            user: first.user.to_owned(),
            pilot,
            policy: matching.word().to_owned(),
            because: matching.precedence(first, own),
        })
    }

    /// Returns the job that a pilot serves next, and the job that comes after it.
    fn next_of(&self, pilot: PilotId) -> Option<Reason> {
        let offer = PilotCapacity::new(self.settings, self.durable, self.live, self.now, pilot)?;
        let mut choices = all_choices(self.settings, &offer, (self.durable, self.live), pilot);
        let matching = offer.policies.matching;
        let mut take_first = || {
            let first = matching.choose(choices.iter().map(|choice| &choice.candidate))?;
            Some(choices.swap_remove(first).candidate)
        };
        let (first, second) = (take_first()?, take_first());
        let before = second.map(|second| (second.job, matching.precedence(&first, &second)));
        let (job, user) = (first.job, first.user.to_owned());
        Some(Reason::PilotNext { job, user, policy: matching.word().to_owned(), before })
    }

    pub(in crate::engine) fn explain_pilot(&self, id: PilotId) -> Result<Vec<Reason>, Refusal> {
        let pilot = self.durable.pilots().get(&id).ok_or(Refusal::NoPilot(id))?;
        let Some(state) = self.live.pilots.get(&id) else {
            let why = pilot.ended.as_ref().map_or_else(String::new, |(_, why)| why.clone());
            return Ok(vec![Reason::PilotEnded { why }]);
        };
        let mut reasons = Vec::new();
        if let Some(drain) = &pilot.drain {
            reasons.push(Reason::PilotDrains { why: drain.to_string() });
        }
        if let Some(since) = self.live.suspended.get(&pilot.allocation) {
            let (since, limit) = (self.now.since(*since), self.settings.heartbeat_limit);
            reasons.push(Reason::PilotSuspended { since, limit });
        }
        reasons.extend(self.why_doubted(id));
        if !state.is_synced {
            reasons.push(Reason::PilotUnsynced);
        }
        let n_running = state.running.values().map(crate::ranges::TaskSet::len).sum();
        match (state.idle_since, self.durable.platforms().get(&pilot.platform)) {
            (Some(since), Some(platform)) => {
                reasons
                    .push(Reason::PilotIdle { since: self.now.since(since), timeout: platform.idle_timeout });
            }
            _ => reasons.push(Reason::PilotWorks {
                n_running,
                n_queued: state.n_leased().saturating_sub(n_running),
                used: state.used.clone(),
                capacity: pilot.node.capacity.clone(),
            }),
        }
        if state.n_taken + state.n_given > 0 {
            let (n_taken, n_given) = (state.n_taken, state.n_given);
            reasons.push(Reason::PilotTook { n_taken, n_given });
        }
        reasons.extend(self.what_it_keeps(id));
        reasons.extend(self.profiling_at(id, pilot.platform));
        reasons.extend(self.meant_for(id, pilot.platform));
        let takes_any = pilot.drain.is_none() && !self.live.keeps(id) && self.live.profiling_at(id).is_none();
        reasons.extend(self.next_of(id).filter(|_| takes_any));
        Ok(reasons)
    }

    /// Returns why the pilot gets one task at a time, if it is a suspected black hole.
    fn why_doubted(&self, pilot: PilotId) -> Option<Reason> {
        let state = self.live.pilots.get(&pilot).filter(|state| state.is_doubted)?;
        let n_failures = self.durable.pilots().get(&pilot)?.fortune.n_in_a_row;
        let next_in = state.paused_until.map_or(Span::ZERO, |until| until.since(self.now));
        Some(Reason::PilotDoubted { pilot, n_failures, next_in })
    }

    /// Returns the failures of a platform; only an active platform is tried again.
    fn what_fails(&self, id: PlatformId, name: &str) -> Vec<Reason> {
        let Some(state) = self.live.platforms.get(&id) else { return Vec::new() };
        let platform = || name.to_owned();
        if let Some(why) = state.waits_for_person.clone() {
            return vec![Reason::PersonAwaited { platform: platform(), why }];
        }
        let is_tried = state.n_failures > 0 && self.durable.mode(id) == PlatformMode::Active;
        let fails = is_tried.then(|| Reason::PlatformFails {
            platform: platform(),
            n_failures: state.n_failures,
            retry_in: state.blocked_until.since(self.now),
            what: state.last_failure.clone().unwrap_or_default(),
        });
        let full = state.full.as_ref().filter(|_| self.durable.mode(id) == PlatformMode::Active);
        let full = full.map(|what| Reason::PlatformFull {
            platform: platform(),
            retry_in: state.blocked_until.since(self.now),
            what: what.clone(),
        });
        let unlisted = state
            .unlisted
            .as_ref()
            .map(|unlisted| Reason::PlatformUnlisted { platform: platform(), what: unlisted.what.clone() });
        unlisted.into_iter().chain(fails).chain(full).collect()
    }

    /// Returns the reasons that the platform gives for its waiting allocations.
    fn what_queues_say(&self, id: PlatformId, name: &str) -> impl Iterator<Item = Reason> {
        let say = |view: crate::engine::interface::views::QueueReasonView| Reason::QueueSays {
            platform: name.to_owned(),
            n_allocations: view.n_allocations,
            words: view.reason,
            advice: view.advice,
            since: self.now.since(view.since),
        };
        self.queue_reasons(id).into_iter().map(say)
    }

    /// Returns how many vCPUs a core of the platform stands for, and why.
    fn vcpus(&self, id: PlatformId, spec: &PlatformSpec) -> Vec<Reason> {
        let Some(scaling) = self.scaling(id, spec) else { return Vec::new() };
        let (platform, last) = (spec.name.clone(), scaling.changes.last().cloned());
        let ago = last.as_ref().map_or(Span::ZERO, |change| self.now.since(change.at));
        let most = scaling.wanted.map_or(Ratio::ONE, |wanted| wanted.ratio_max);
        let policy = self.durable.policies(self.settings.policies).scaling.word().to_owned();
        let (by, ratio) = (scaling.by, scaling.ratio);
        let trouble = scaling.trouble.map(|what| Reason::NotScaled { platform: platform.clone(), what });
        trouble
            .into_iter()
            .chain([Reason::VcpusOfCore { platform, policy, by, ratio, most, last, ago }])
            .collect()
    }

    pub(in crate::engine) fn explain_platform(&self, name: &str) -> Result<Vec<Reason>, Refusal> {
        let found = self.durable.platforms().iter().find(|(_, spec)| spec.name == name);
        let (id, spec) = found.ok_or_else(|| Refusal::NoPlatform(name.to_owned()))?;
        let live = || self.durable.allocations_there(*id).map(|(_, held)| held).filter(|held| held.is_live());
        let (n_live, n_waiting) = crate::engine::provision::demand::n_pilots(
            self.settings,
            self.durable,
            self.live,
            (*id, self.now),
        );
        // The demand of the work alone, in whole allocations.
        let room = (spec.n_pilots_max as usize).saturating_sub(self.durable.allocation_counts(*id).n_there);
        let room = room - room.checked_rem(spec.n_nodes as usize).unwrap_or(0) + n_waiting;
        let (n_live, n_waiting) = (n_live as u64, n_waiting as u64);
        let placed = self.placed(*id);
        let n_wanted = match &placed {
            Some((n_wanted, _)) => *n_wanted * u64::from(spec.n_nodes),
            None => {
                let all = (self.settings, self.durable, self.live);
                let n =
                    crate::engine::provision::demand::n_hypothetical(all.0, all.1, all.2, (*id, spec), room)
                        as u64;
                n.saturating_sub(n_waiting)
            }
        };
        let allowed = limits::room(self.settings, self.durable, self.live, (*id, spec), self.now);
        // A limit that would bind only with a higher demand stops nothing.
        let n_allowed = (allowed.n as u64).saturating_mul(u64::from(spec.n_nodes));
        let mut reasons = Vec::from_iter(allowed.bound.filter(|_| n_allowed == 0 || n_allowed < n_wanted));
        reasons.extend(self.what_fails(*id, name));
        reasons.extend(self.what_queues_say(*id, name));
        for allocation in live() {
            if let AllocationState::Unknown(what, _) = &allocation.state {
                reasons.push(Reason::AllocationUnknown { tag: allocation.tag.clone(), what: what.clone() });
            }
        }
        reasons.push(Reason::PlatformHas { n_live, n_waiting, n_max: spec.n_pilots_max, n_wanted });
        reasons.extend(placed.into_iter().flat_map(|(_, compared)| compared));
        reasons.extend(self.vcpus(*id, spec));
        Ok(reasons)
    }
}

fn first_failed(id: JobId, job: &Job) -> Option<Reason> {
    let index = job.failed.indices().next()?;
    let kind = job.troubled.get(&index)?.last.clone()?;
    Some(Reason::FirstFailed { task: TaskId { job: id, index }, kind })
}
