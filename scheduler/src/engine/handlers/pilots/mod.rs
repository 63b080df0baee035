//! Pilots: registration, pulls, reports, leaving and loss.

pub mod agreement;
pub mod blame;
pub mod co_runners;
pub mod doubts;
pub mod ends;
pub mod isolation;
pub mod leases;
pub mod left_behind;
pub mod reports;
pub mod resource_use;
pub mod transfers;

use std::collections::BTreeSet;

use crate::{
    engine::{
        interface::{RequestId, answer::Answer, notice::Notice, refusal::Refusal},
        live::pilots::pilot_state::PilotState,
        record::{Blamed, DrainCause, Record},
        state::{allocation::Allocation, pilot::Pilot},
        turn::Turn,
    },
    ids::{JobId, PilotId},
    pull::{
        Bundle, Held, Holdings, LeaveReason, NodeFacts, Part, PilotCommand, Pull, PullAnswer, Registered,
        Registration, Template,
    },
    ranges::TaskSet,
    results::Report,
    time::Span,
};

/// The most pilots of a job that send what its tasks write: nobody reads more.
const N_SHOWING_MAX: usize = 64;

/// A pilot that is refused because another one has its place registers again within this time.
const SECOND_JOIN_PAUSE: Span = Span::from_secs(30);

impl Turn<'_> {
    pub(in crate::engine) fn register_pilot(&mut self, request: RequestId, registration: Registration) {
        let Registration { tag, nonce, node, uptime, predecessor } = registration;
        let Some((allocation, known)) = self.durable.allocation_of(&tag) else {
            return self.refuse(request, Refusal::NoAllocation(tag));
        };
        let came_before =
            |id: &&PilotId| self.durable.pilots().get(id).is_some_and(|held| held.nonce == nonce);
        if let Some(&pilot) = known.came.iter().rev().find(came_before) {
            return self.register_again(request, pilot, tag);
        }
        let is_late = Self::may_come_late(known);
        if !(known.is_live() || is_late) || self.live.shutdown.is_some() {
            return self.refuse(request, Refusal::NoAllocation(tag));
        }
        if self.durable.joins_once(known.platform) && !known.is_unused() {
            return self.refuse(request, Refusal::JoinedBefore(tag));
        }
        let before = match self.place_of(known, &node, predecessor) {
            Ok(before) => before,
            Err(pilot) => {
                self.note_second_join(pilot, &tag);
                return self.refuse(request, Refusal::StillThere { tag, pilot });
            }
        };
        let platform = known.platform;
        let why = self.winding_up(platform).or_else(|| self.durable.given_back(known));
        let id = PilotId(self.durable.pilots().last_key_value().map_or(1, |(last, _)| last.0 + 1));
        let born_at = crate::time::Time(self.now.0.saturating_sub(uptime.0));
        // A pilot that the store has forgotten may hold tasks.
        let is_of_before = born_at <= self.live.started_at && known.intended_at < self.live.started_at;
        if is_late {
            self.comes_late(allocation, node.batch_id.clone());
        }
        self.record(Record::PilotRegistered { pilot: id, allocation, nonce, node, born_at, at: self.now });
        let state = PilotState {
            is_synced: !is_of_before,
            last_heard: self.now,
            idle_since: Some(self.now).filter(|_| !is_of_before),
            is_doubted: self.is_node_doubted(id),
            ..PilotState::default()
        };
        self.live.add_pilot(self.durable, id, state);
        self.live.arm_pilot(id, self.now + self.settings.heartbeat_limit);
        self.want_plan();
        self.tell_slots(id);
        self.tell_stealing(id);
        self.arm_scaling(platform);
        if let Some(before) = before {
            self.lose_pilot(before, "its process was started again");
        }
        self.note_pilot_came(allocation);
        if is_late {
            self.withdraw_excess(platform);
            self.live.arm_platform(platform, self.now);
        }
        if let Some(why) = why {
            self.drain_pilot(id, why);
        }
        self.answer_registration(request, id);
    }

    /// Registers a known pilot again: an answer was lost, or its session ended when the pilot was counted as
    /// lost.
    fn register_again(&mut self, request: RequestId, id: PilotId, tag: String) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        if pilot.has_left {
            return self.refuse(request, Refusal::NoAllocation(tag));
        }
        if !pilot.is_live() {
            self.take_back(id);
        }
        self.answer_registration(request, id);
    }

    fn answer_registration(&mut self, request: RequestId, id: PilotId) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let (acknowledged, session) = (pilot.acknowledged, pilot.session());
        let platform = self.durable.platform_name(pilot.platform);
        let registered = Registered { pilot: id, acknowledged, platform, session };
        self.answer(request, Answer::Registered(registered));
    }

    /// Notes that another process uses a pilot's join token; it comes again for a while. Notifies watchers
    /// once for each pilot.
    fn note_second_join(&mut self, pilot: PilotId, tag: &str) {
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        if state.second_join_at.replace(self.now).is_none() {
            self.notify(Notice::JoinedTwice { pilot, tag: tag.to_owned() });
        }
    }

    /// Returns the pilot that a new one replaces, if any; `Err`: the pilot that keeps its place. A join token
    /// serves once for each node. It serves again only when the pilot that came with it is gone (it left, its
    /// batch job has ended, or it has been silent for its heartbeat limit), or if the new pilot knows the
    /// number that its predecessor drew, which is in its folder.
    fn place_of(
        &self,
        held: &Allocation,
        node: &NodeFacts,
        predecessor: Option<u64>,
    ) -> Result<Option<PilotId>, PilotId> {
        let mates = self.durable.live_pilots(held);
        let pilots = self.durable.pilots();
        let is_before = |id: &PilotId| predecessor == Some(pilots[id].nonce);
        let place = |id: &PilotId| (&pilots[id].node.hostname, pilots[id].node.rank);
        let yields = |id: PilotId| if self.is_silent(id) { Ok(Some(id)) } else { Err(id) };
        if let Some(before) = mates.iter().copied().find(is_before) {
            return Ok(Some(before));
        }
        if let Some(same) = mates.iter().copied().find(|id| place(id) == (&node.hostname, node.rank)) {
            return yields(same);
        }
        let heard = |id: &&PilotId| self.live.pilots.get(*id).map(|state| state.last_heard);
        let Some(longest) = mates.iter().min_by_key(heard).filter(|_| mates.len() >= held.n_nodes as usize)
        else {
            return Ok(None);
        };
        // The predecessor was lost. A pilot that was gone and speaks late has the place of another node.
        let mut newer = BTreeSet::new();
        let late = mates.iter().rev().find(|id| !newer.insert(place(id)));
        match late.filter(|_| held.came.iter().any(is_before)) {
            Some(late) => Ok(Some(*late)),
            None => yields(*longest),
        }
    }

    /// Returns whether a pilot has been silent for its heartbeat limit.
    fn is_silent(&self, id: PilotId) -> bool {
        let limit = self.settings.heartbeat_limit;
        let state = self.live.pilots.get(&id).filter(|state| state.parked.is_none());
        state.is_some_and(|state| self.now.since(state.last_heard) >= limit)
    }

    /// Returns the pilot, if the session is its own and has not ended. A session ends when the pilot leaves
    /// or is lost.
    pub(in crate::engine) fn pilot_of_session(
        &self,
        id: PilotId,
        session: Option<u64>,
    ) -> Result<&Pilot, Refusal> {
        let pilot = self.durable.pilots().get(&id).ok_or(Refusal::NoPilot(id))?;
        match session {
            Some(session) if session != pilot.session() || !pilot.is_live() => Err(Refusal::SessionEnded(id)),
            Some(_) | None => Ok(pilot),
        }
    }

    pub(in crate::engine) fn pull(&mut self, request: RequestId, id: PilotId, pull: Pull) {
        let pilot = match self.pilot_of_session(id, pull.session_nonce) {
            Ok(pilot) => pilot,
            Err(refusal) => return self.refuse(request, refusal),
        };
        if pull.epoch > self.live.epoch {
            return self.leave_to_other_life(request, id, pull.epoch);
        }
        if !pilot.is_live() {
            self.take_back(id);
        }
        let (epoch, now) = (self.live.epoch, self.now);
        let known = self.live.with_pilot(id, |state| {
            state.last_heard = now;
            state.is_hungry = pull.is_hungry;
            if pull.epoch == epoch {
                state.unconfirmed.retain(|part| part.number > pull.part_seen);
            }
        });
        if known.is_none() {
            return;
        }
        if let Some(holds) = pull.holds.as_ref().filter(|_| pull.epoch == epoch) {
            self.adopt(id, holds, &pull);
        }
        self.compare(id, &pull);
        if !self.is_synced(id) {
            return self.ask_for_holdings(request, id);
        }
        self.note_efforts(id, &pull.efforts);
        self.note_moved(id, &pull.moved);
        self.note_starved(id, &pull.starved);
        let has_report = pull.report.is_some();
        if let Some(report) = pull.report
            && !self.take_report(id, report)
        {
            // The pilot numbers its reports differently than the manager.
            self.lose_step(id);
            return self.ask_for_holdings(request, id);
        }
        // A new process that delivers reports of an earlier one knows nothing of the earlier one's tasks.
        if pull.epoch == epoch {
            self.note_running(id, &pull.running);
        }
        self.feed(id);
        let has_news = self.live.pilots.get(&id).is_some_and(|state| !state.unconfirmed.is_empty());
        if has_report || has_news || pull.wait == Span::ZERO {
            return self.answer_pull(request, id, None);
        }
        self.park(request, id, pull.wait);
    }

    fn is_synced(&self, id: PilotId) -> bool {
        self.live.pilots.get(&id).is_some_and(|state| state.is_synced)
    }

    fn park(&mut self, request: RequestId, id: PilotId, wait: Span) {
        self.supersede(id);
        self.live.park(request, id, self.now + wait.min(self.settings.poll_wait_max));
    }

    /// Answers the pilot's parked pull, if any, without new tasks: a pilot has at most one parked pull.
    pub(in crate::engine) fn supersede(&mut self, id: PilotId) {
        if let Some(older) = self.live.unpark(id) {
            self.answer_pull(older, id, None);
        }
    }

    pub(in crate::engine) fn unpark(&mut self, request: RequestId) {
        let Some(id) = self.live.parked.by_request.get(&request).copied() else { return };
        self.live.unpark(id);
        if let Some(state) = self.live.pilots.get_mut(&id) {
            state.last_heard = self.now;
            self.live.arm_pilot(id, self.now + self.settings.heartbeat_limit);
        }
    }

    pub(in crate::engine) fn answer_pull(&mut self, request: RequestId, id: PilotId, resync: Option<u64>) {
        let acknowledged = self.durable.pilots().get(&id).map_or(0, |pilot| pilot.acknowledged);
        let state = self.live.pilots.get(&id);
        let parts = state.map_or_else(Vec::new, |state| state.unconfirmed.clone());
        let told = state.map_or(0, |state| state.told);
        let answer = PullAnswer { epoch: self.live.epoch, acknowledged, resync, told, parts };
        self.answer(request, Answer::Pull(answer));
    }

    /// Puts new tasks and commands for the pilot into a part of their own, which is sent until it is
    /// confirmed.
    pub(in crate::engine) fn feed(&mut self, id: PilotId) {
        let bundles = self.fill(id);
        self.send_part(id, bundles);
    }

    /// Puts these tasks and the pending commands into a part.
    pub(in crate::engine) fn send_part(&mut self, id: PilotId, bundles: Vec<Bundle>) {
        self.live.note_crew(self.durable, id, self.now);
        let Some(state) = self.live.pilots.get_mut(&id) else { return };
        let commands = std::mem::take(&mut state.commands);
        if bundles.is_empty() && commands.is_empty() {
            return;
        }
        let mut templates = Vec::new();
        for bundle in &bundles {
            let Some(job) = self.durable.jobs().get(&bundle.job) else { continue };
            if self.live.note_knowing(bundle.job, id) {
                let (needs, spec) = (job.request.needs.clone(), job.request.spec.to_string());
                templates.push(Template { job: bundle.job, needs, spec });
            }
        }
        let Some(state) = self.live.pilots.get_mut(&id) else { return };
        if !bundles.is_empty() {
            state.n_failed_steal_requests = 0;
        }
        state.n_parts = state.n_parts.saturating_add(1);
        let part = Part { number: state.n_parts, templates, bundles, commands };
        state.unconfirmed.push(part);
    }

    /// Adds a command to the pilot's next answer; a parked pull is answered at the end of the step.
    pub(in crate::engine) fn command(&mut self, id: PilotId, command: PilotCommand) {
        if let Some(state) = self.live.pilots.get_mut(&id) {
            state.commands.push(command);
            self.live.pilots_to_notify.insert(id);
        }
    }

    /// Asks pilots for what their tasks write. A pilot that has not confirmed an earlier request is not asked
    /// again.
    pub(in crate::engine) fn want_tails(
        &mut self,
        job: JobId,
        tasks: Option<&TaskSet>,
        except: &BTreeSet<PilotId>,
    ) {
        for id in self.live.holders(job, tasks, N_SHOWING_MAX) {
            let is_told = self.live.pilots.get(&id).is_some_and(|state| {
                let unconfirmed = state.unconfirmed.iter().flat_map(|part| &part.commands);
                unconfirmed.chain(&state.commands).any(|command| *command == PilotCommand::Show)
            });
            if !is_told && !except.contains(&id) {
                self.command(id, PilotCommand::Show);
            }
        }
    }

    /// Asks a pilot that is out of step what it holds. Each question has a number of its own.
    pub(in crate::engine) fn ask_for_holdings(&mut self, request: RequestId, id: PilotId) {
        self.live.n_questions += 1;
        let asked = self.live.n_questions;
        if let Some(state) = self.live.pilots.get_mut(&id) {
            state.asked = Some(asked);
        }
        self.answer_pull(request, id, Some(asked));
    }

    /// Leases a pilot the tasks that it says it holds. It must kill those that another pilot holds or that
    /// are not wanted.
    fn adopt(&mut self, id: PilotId, holds: &Holdings, pull: &Pull) {
        let Some(state) = self.live.pilots.get_mut(&id) else { return };
        if state.is_synced || state.asked != Some(holds.asked) {
            return;
        }
        (state.n_parts, state.confirmed) = (pull.part_seen, pull.part_seen);
        state.unconfirmed.clear();
        state.stale_failures.clear();
        state.is_synced = true;
        state.told = holds.asked;
        self.live.n_unsynced -= 1;
        // By its leases until now, before they change below.
        let mine = |held: &Held| self.leased_ever(id, held.job, &told_of(held));
        let mine: Vec<TaskSet> = holds.tasks.iter().map(mine).collect();
        self.note_told(id, pull.tally);
        if let Some(state) = self.live.pilots.get_mut(&id) {
            (state.revoked, state.disowned) = Default::default();
        }
        self.settle_all(id);
        self.live.set_knowing(id, holds.templates.iter().copied());
        self.live.set_idle(self.durable, id, Some(self.now));
        self.release_untold(id, holds);
        self.take_back_blame(id, holds);
        for (held, mut all) in holds.tasks.iter().zip(mine) {
            self.disown(id, held, &all);
            let wanted = self.adoptable(id, held.job, &all);
            let mut unwanted = held.queued.clone();
            unwanted.insert_all(&held.running);
            unwanted.remove_all(&wanted);
            self.live.not_ready(held.job, &wanted);
            self.lease(id, held.job, &wanted);
            all.remove_all(&wanted);
            self.note_revoked(id, held.job, &all);
            self.note_owed(id, held.job, &held.unreported.intersection(&all));
            // The pull may have been delayed: attempts that ran then may have ended before a retry.
            self.note_doubtful(id, held.job, &wanted);
            if !unwanted.is_empty() {
                self.command(id, PilotCommand::Kill { job: held.job, tasks: unwanted });
            }
            if self.durable.jobs().get(&held.job).is_some_and(|job| job.is_paused) {
                self.command(id, PilotCommand::Return { job: held.job, tasks: held.queued.clone() });
            }
        }
        self.tell_slots(id);
        self.tell_stealing(id);
        if self.durable.pilots().get(&id).is_some_and(|pilot| pilot.drain.is_some()) {
            self.command(id, PilotCommand::Drain);
        }
        self.end_grace();
    }

    /// Makes tasks ready again that the pilot was leased and does not hold.
    fn release_untold(&mut self, id: PilotId, holds: &Holdings) {
        let leases = self.live.pilots.get(&id).map_or_else(Default::default, |state| state.leases.clone());
        for (job, mut untold) in leases {
            holds
                .tasks
                .iter()
                .filter(|held| held.job == job)
                .for_each(|held| untold.remove_all(&told_of(held)));
            let taken = self.unlease(id, job, &untold);
            self.make_ready(job, &taken);
        }
    }

    /// Takes back the blame of tasks that the pilot still has after its supposed loss: the network was the
    /// cause, or a stall of the manager, and that counts toward no `crash_limit`.
    fn take_back_blame(&mut self, id: PilotId, holds: &Holdings) {
        let blamed = |held: &Held| {
            let job = self.durable.jobs().get(&held.job)?;
            let parts = [&held.queued, &held.running, &held.unreported];
            let mut tasks = TaskSet::new();
            parts.into_iter().for_each(|part| tasks.insert_all(&job.blamed_for(id, part)));
            (!tasks.is_empty()).then_some((held.job, tasks))
        };
        let tasks: Vec<(JobId, TaskSet)> = holds.tasks.iter().filter_map(blamed).collect();
        if !tasks.is_empty() {
            let jobs: Vec<JobId> = tasks.iter().map(|(job, _)| *job).collect();
            self.record(Record::BlameTakenBack { pilot: id, tasks, at: self.now });
            jobs.into_iter().for_each(|job| self.note_last_chances(job));
        }
        for Held { job, queued, running, unreported } in &holds.tasks {
            [queued, running, unreported].into_iter().for_each(|tasks| self.clear_unblamed(*job, tasks));
        }
    }

    /// Ends the grace period once all pilots have said what they hold.
    fn end_grace(&mut self) {
        if self.live.n_unsynced == 0 {
            self.withhold_nothing();
        }
    }

    /// Gives out the tasks that were withheld after a start, by a first plan.
    pub(in crate::engine) fn withhold_nothing(&mut self) {
        self.guide_first();
        self.live.stir_all();
        self.stir_platforms();
    }

    /// Returns those of these tasks that are open, not blocked and held by no other pilot.
    fn adoptable(&self, id: PilotId, job: JobId, tasks: &TaskSet) -> TaskSet {
        let Some(held) = self.durable.jobs().get(&job) else { return TaskSet::new() };
        let mut wanted = tasks.intersection(&held.open);
        for (_, leased) in self.live.held(job).into_iter().filter(|(other, _)| *other != id) {
            wanted.remove_all(&leased);
        }
        if let Some(blocked) = self.live.graph.blocked(job) {
            wanted.remove_all(blocked);
        }
        wanted
    }

    /// Ends all leases of a pilot; its open tasks become ready again.
    fn release_all(&mut self, id: PilotId) {
        let leases = self.live.pilots.get(&id).map_or_else(Default::default, |state| state.leases.clone());
        for (job, tasks) in leases {
            let taken = self.unlease(id, job, &tasks);
            self.make_ready(job, &taken);
        }
    }

    pub(in crate::engine) fn pilot_leaves(
        &mut self,
        request: RequestId,
        (id, session_nonce): (PilotId, Option<u64>),
        report: Option<Report>,
        reason: LeaveReason,
    ) {
        let pilot = match self.pilot_of_session(id, session_nonce) {
            Ok(pilot) => pilot,
            Err(refusal) => return self.refuse(request, refusal),
        };
        if !pilot.is_live() {
            self.take_back(id);
        }
        if let Some(report) = report {
            self.take_report(id, report);
        }
        let why = match (reason, self.durable.pilots().get(&id).and_then(|pilot| pilot.drain.clone())) {
            (LeaveReason::Told, Some(DrainCause::Shutdown)) => "the manager was stopped".into(),
            (LeaveReason::Told, Some(DrainCause::Platform)) => "its platform was drained".into(),
            (LeaveReason::Told, Some(cause)) => cause.to_string(),
            (LeaveReason::Told, None) => "told to".into(),
            (LeaveReason::Walltime, _) => "its walltime ended".into(),
            (LeaveReason::Signalled, _) => "it got a signal".into(),
        };
        self.record(Record::PilotLeft { pilot: id, why: why.clone(), at: self.now });
        self.note_short_life(id, self.now, &why);
        self.live.former.remove(&id);
        self.bury(id);
        self.release_allocation(id, &why, false);
        self.answer(request, Answer::Left);
    }

    /// Counts a pilot as lost. Its tasks become ready again; tasks that ran there may be the cause.
    pub(in crate::engine) fn lose_pilot(&mut self, id: PilotId, why: &str) {
        if self.durable.pilots().get(&id).is_none_or(|pilot| !pilot.is_live()) {
            return;
        }
        let blamed = self.blame(id);
        let n_blamed = blamed.len() as u64;
        self.record(Record::PilotLost {
            pilot: id,
            why: why.to_owned(),
            blamed: blamed.clone(),
            at: self.now,
        });
        self.keep_former(id);
        self.suspect_all_of(id, &blamed);
        for Blamed { task, verdict, .. } in blamed {
            self.live.is_patient_again(task.job, task.index);
            let kind = crate::results::FailureKind::PilotLost;
            let is_final = verdict == crate::engine::record::Verdict::Final;
            self.notify(Notice::TaskFailed { task, kind, is_final, pilot: id });
        }
        if let Some(platform) = self.durable.pilots().get(&id).map(|pilot| pilot.platform) {
            self.note_lost(platform, n_blamed);
        }
        if n_blamed == 0 {
            let heard = self.live.pilots.get(&id).map_or(self.now, |state| state.last_heard);
            self.note_short_life(id, heard, why);
        }
        let jobs: Vec<JobId> =
            self.live.pilots.get(&id).map_or_else(Vec::new, |state| state.leases.keys().copied().collect());
        self.bury(id);
        self.release_allocation(id, why, true);
        for job in jobs {
            self.stop_failing_job(job);
            self.close_if_over(job);
            self.notify(Notice::JobChanged(job));
        }
    }

    /// Forgets a pilot. Its tasks become ready again.
    fn bury(&mut self, id: PilotId) {
        self.supersede(id);
        self.release_all(id);
        self.settle_all(id);
        let was_awaited = !self.is_synced(id);
        self.live.remove_pilot(self.durable, id);
        if let Some(platform) = self.durable.pilots().get(&id).map(|pilot| pilot.platform) {
            self.find_node(platform);
        }
        if was_awaited {
            self.end_grace();
        }
        self.stir_platforms();
    }

    /// Releases an allocation without pilots, unless more pilots come whenever there is room for them. An
    /// allocation whose last pilot was lost may go on, so it is cancelled.
    fn release_allocation(&mut self, id: PilotId, why: &str, has_vanished: bool) {
        let Some(pilot) = self.durable.pilots().get(&id) else { return };
        let (allocation, platform) = (pilot.allocation, pilot.platform);
        let is_left = |held: &&Allocation| held.is_live() && self.durable.live_pilots(held).is_empty();
        let Some(held) = self.durable.allocations().get(&allocation).filter(is_left) else { return };
        let is_wanted = self.durable.given_back(held).or_else(|| self.winding_up(platform)).is_none();
        if has_vanished && is_wanted && self.live.suspended.contains_key(&allocation) {
            // It goes on when it is resumed, and its pilot comes back.
            return self.list_soon(platform);
        }
        // Pilots of its remaining nodes would not be wanted.
        let is_some_to_come = held.n_waiting() > 0;
        if is_some_to_come && self.durable.is_array(platform) && is_wanted {
            return;
        }
        self.record(Record::AllocationReleased { allocation, why: why.to_owned(), at: self.now });
        if has_vanished || is_some_to_come || self.durable.is_array(platform) {
            self.cancel_batch_job(allocation);
        }
        self.list_soon(platform);
    }

    /// Takes back a lost pilot that speaks again: it must say what it holds.
    fn take_back(&mut self, id: PilotId) {
        self.record(Record::PilotReturned { pilot: id, at: self.now });
        self.allocation_is_back(id);
        let state = PilotState { last_heard: self.now, ..PilotState::default() };
        self.live.add_pilot(self.durable, id, state);
        self.live.arm_pilot(id, self.now + self.settings.heartbeat_limit);
        if let Some(why) = self.durable.pilots().get(&id).and_then(|pilot| self.winding_up(pilot.platform)) {
            self.drain_pilot(id, why);
        }
    }

    pub(in crate::engine) fn drain_pilot(&mut self, id: PilotId, why: DrainCause) {
        let is_known = |pilot: &Pilot| pilot.is_live() && pilot.drain.is_none();
        if !self.durable.pilots().get(&id).is_some_and(is_known) {
            return;
        }
        self.record(Record::PilotDrained { pilot: id, why, at: self.now });
        self.live.delist(self.durable, id);
        self.want_plan();
        self.command(id, PilotCommand::Drain);
    }

    /// Handles a pilot's timer: its pause or its parked pull is over, or it has been silent for too long.
    pub(in crate::engine) fn look_at_pilot(&mut self, id: PilotId) {
        self.end_pause(id);
        let limit = self.settings.heartbeat_limit;
        let Some(state) = self.live.pilots.get_mut(&id) else { return };
        state.timer_at = None;
        match state.parked {
            Some((_, until)) if until <= self.now => {
                // Its connection was open until now.
                state.last_heard = self.now;
                self.supersede(id);
            }
            Some((_, until)) => {
                self.live.arm_pilot(id, until);
                return self.arm_pause(id);
            }
            None if self.now.since(state.last_heard) >= limit => {
                // Its batch job was started again: the pilot that takes its place needs the allocation.
                let is_awaited = state.second_join_at.is_some_and(|at| self.now < at + SECOND_JOIN_PAUSE);
                if is_awaited && self.now < state.last_heard + limit + SECOND_JOIN_PAUSE {
                    let until = state.last_heard + limit + SECOND_JOIN_PAUSE;
                    return self.live.arm_pilot(id, until);
                }
                let silence = self.now.since(state.last_heard);
                let why = match self.is_suspended(id) {
                    true => format!("its batch system has suspended it, and it was silent for {silence}"),
                    false => format!("silent for {silence}"),
                };
                return self.lose_pilot(id, &why);
            }
            None => {}
        }
        let heard = self.live.pilots.get(&id).map_or(self.now, |state| state.last_heard);
        self.live.arm_pilot(id, (heard + limit).max(self.now + Span::from_millis(1)));
        self.arm_pause(id);
    }
}

/// Returns all tasks of a job that a pilot says it has.
pub(in crate::engine) fn told_of(held: &Held) -> TaskSet {
    let mut all = held.queued.clone();
    all.insert_all(&held.running);
    all.insert_all(&held.unreported);
    all
}
