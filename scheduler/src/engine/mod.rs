//! The state machine of jobs, leases, pilots and allocations: events in, records and effects out.
//!
//! `handle` never fails and never waits. Durable state changes only through
//! [`state::durable::Durable::apply`]; pilots rebuild the volatile state (leases, heartbeats) when they come
//! back.

mod dispatch;
mod handlers;
pub mod interface;
pub mod live;
pub mod plan;
mod provision;
pub mod read;
pub mod record;
pub mod state;
mod turn;

mod invariants;
#[cfg(test)]
mod tests;

pub use turn::Step;

use interface::{Answer, Event, Query, RequestId, settings::Settings};
use live::{Live, timers::Timer};
use read::views::Reader;
use record::Record;
use state::durable::Durable;
use turn::Turn;

use crate::time::{Span, Time};

/// A wake-up that is late by this much was delayed by a stall of this process; pilots are not blamed for the
/// silence.
const STALL: Span = Span::from_secs(2);

/// The engine: the part of a manager that decides. `Clone`: dry runs and tests fork it.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    durable: Durable,
    live: Live,
}

impl Engine {
    /// Restores an engine from its records. `epoch`: larger at each start of the manager, not 0.
    pub fn restore(
        settings: Settings,
        epoch: u64,
        now: Time,
        records: impl IntoIterator<Item = Record>,
    ) -> Engine {
        let mut durable = Durable::default();
        for record in records {
            durable.apply(&record);
        }
        let mut live = Live::rebuild(&durable, epoch.max(1), now);
        live.grace_until = now + settings.grace;
        live.timers.insert((live.grace_until, Timer::Grace));
        let ids: Vec<_> = live.pilots.keys().copied().collect();
        for id in ids {
            live.arm_pilot(id, now + settings.heartbeat_limit);
        }
        let ids: Vec<_> = live.platforms.keys().copied().collect();
        for id in ids {
            live.arm_platform(id, now);
        }
        Engine { settings, durable, live }
    }

    /// Handles one event. The records must be durable before the effects are performed.
    pub fn handle(&mut self, now: Time, event: Event) -> Step {
        let now = now.max(self.live.now);
        self.forgive_stall(now);
        self.live.now = now;
        self.live.placed = None;
        let mut turn = Turn {
            settings: &self.settings,
            durable: &mut self.durable,
            live: &mut self.live,
            now,
            step: Step::default(),
        };
        turn.dispatch(event);
        turn.settle_graph();
        turn.fire_timers();
        turn.settle_graph();
        turn.serve_parked();
        turn.note_queues();
        turn.finish_shutdown();
        turn.step
    }

    /// Returns the time of the next [`Event::TimerFired`] that the engine needs.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.live.timers.first().map(|(at, _)| *at)
    }

    /// Returns the durable state, for readers.
    pub fn durable(&self) -> &Durable {
        &self.durable
    }

    /// Extends the leases of all pilots, and the grace period, by the length of a stall: while this process
    /// slept, it could hear no pilot. The start of the sleep is unknown, so the time of the last event is
    /// taken.
    fn forgive_stall(&mut self, now: Time) {
        let Some(due) = self.next_wakeup() else { return };
        if now.since(due) < STALL {
            return;
        }
        let silence = now.since(self.live.now);
        for pilot in self.live.pilots.values_mut() {
            pilot.last_heard = (pilot.last_heard + silence).min(now);
        }
        if self.live.timers.remove(&(self.live.grace_until, Timer::Grace)) {
            self.live.grace_until = self.live.grace_until + silence;
            self.live.timers.insert((self.live.grace_until, Timer::Grace));
        }
    }
}

impl Turn<'_> {
    fn dispatch(&mut self, event: Event) {
        match event {
            Event::PlatformAttached { request, spec } => self.attach_platform(request, spec),
            Event::PlatformChangeAsked { request, platform, change } => {
                self.change_platform(request, platform, change);
            }
            Event::AllocationCancelAsked { request, allocation, is_urgent } => {
                self.cancel_asked(request, allocation, is_urgent);
            }
            Event::ForgetAsked { request, application } => self.forget(request, application),
            Event::DeclareAsked { request, application, declared } => {
                self.declare(request, application, declared.map(|declared| *declared));
            }
            Event::PoliciesAsked { request, by, before, policies } => {
                self.set_policies(request, by, before, policies);
            }
            Event::TokenMade { request, token } => self.keep_token(request, *token),
            Event::TokensRevoked { request, ids, by } => self.revoke_tokens(request, ids, by),
            Event::TokensUsed { used } => self.note_used_tokens(used),
            Event::JobSubmitted { request, job } => _ = self.submit_job(request, *job, None),
            Event::WorkflowSubmitted { request, stages } => self.submit_workflow(request, stages),
            Event::ProfilingAsked { request, job, platform, n_slots } => {
                self.submit_profiling(request, *job, (platform, n_slots));
            }
            Event::JobChangeAsked { request, caller, job, change } => {
                self.change_job(request, &caller, job, change);
            }
            Event::Asked { request, query } => self.answer_query(request, query),
            Event::PilotRegistered { request, registration } => self.register_pilot(request, *registration),
            Event::Pulled { request, pilot, pull } => self.pull(request, pilot, *pull),
            Event::HungUp { request } => self.unpark(request),
            Event::PilotLeft { request, pilot, session_nonce, report, reason } => {
                self.pilot_leaves(request, (pilot, session_nonce), report, reason);
            }
            Event::HuntAsked { request, pilot, session_nonce } => {
                self.pass_hunt_on(request, pilot, session_nonce);
            }
            Event::AllocationAnswered { allocation, outcome } => {
                self.allocation_answered(allocation, outcome)
            }
            Event::PlatformListed { platform, asked_at, result } => {
                self.platform_listed(platform, asked_at, result);
            }
            Event::PlatformLoaded { platform, load } => self.platform_loaded(platform, load),
            Event::PlatformWaits { platform, why } => self.platform_waits(platform, why),
            Event::RatiosAnswered { platform, asked, result } => {
                self.ratios_answered(platform, asked, result);
            }
            Event::Planned { plan } => self.planned(plan),
            Event::ShutdownAsked { request, is_urgent } => self.shut_down(request, is_urgent),
            Event::TailsWanted { job, tasks, except } => self.want_tails(job, tasks.as_ref(), &except),
            Event::TimerFired => {}
        }
    }

    fn fire_timers(&mut self) {
        // The grace timer goes first: the other timers may look at pilots that got no tasks because of it.
        let grace = (self.live.grace_until, Timer::Grace);
        if grace.0 <= self.now && self.live.timers.remove(&grace) {
            self.withhold_nothing();
        }
        while let Some((at, timer)) = self.live.timers.first().copied() {
            if at > self.now {
                return;
            }
            self.live.timers.pop_first();
            match timer {
                Timer::Retry(task) => self.retry_is_due(task),
                Timer::Pilot(pilot) => self.look_at_pilot(pilot),
                Timer::Platform(platform) => {
                    // Tasks that present pilots take now need no further pilots.
                    self.serve_parked();
                    self.look_at_platform(platform);
                }
                Timer::Replan => self.renew_plan(),
                Timer::Measured => self.keep_measured(),
                Timer::Retries => self.look_at_retries(),
                Timer::Profiling(platform) => self.end_profiling(platform),
                Timer::Scaling(platform) => self.scale(platform),
                // Fired before the loop.
                Timer::Grace => {}
            }
        }
    }

    fn answer_query(&mut self, request: RequestId, query: Query) {
        let reader = Reader::new(self.settings, self.durable, self.live, self.now);
        let answer = reader.answer(query).unwrap_or_else(Answer::Refused);
        self.answer(request, answer);
    }
}
