//! The manager's process: an engine, a disk with the committed records, and moments to die in.

use std::collections::BTreeMap;

use scheduler::{
    engine::{
        Engine, Step,
        interface::{Answer, Effect, Event, Notice, Query, QueueLoad, Refusal, RequestId, TaskFilter},
        record::Record,
        state::durable::Durable,
    },
    ids::{JobId, PilotId, PlatformId},
    pull::PullAnswer,
    ranges::TaskSet,
    time::{Span, Time},
};

use super::{
    Asker, Happening, Held, World,
    sites::{Wish, Worker},
};
use crate::auditor::{Auditor, Violation};

/// The engine checks itself after this many events, after each one that is traced, before it dies and at the
/// end: a check after every event would take a quarter of the time.
const EVENTS_PER_CHECK: u64 = 4;

#[derive(Default)]
pub(super) struct Manager {
    /// `None` while the process does not exist.
    pub(super) engine: Option<Engine>,
    pub(super) epoch: u64,
    pub(super) n_events: u64,
    disk: Vec<Record>,
    inbox: Vec<Event>,
    is_at_work: bool,
    alarm: Option<Time>,
    /// The pilots of the pulls that are not answered.
    pulls: BTreeMap<RequestId, PilotId>,
    /// The process does nothing before this time.
    stalled_until: Time,
    /// The worker of each site, if they work on one request at a time.
    pub(super) workers: BTreeMap<usize, Worker>,
}

/// The point in a commit at which the manager dies.
enum Death {
    /// The records are not on the disk: the append failed, was torn, or was never synced.
    BeforeCommit,
    /// The records are on the disk, and no effect has left.
    AfterCommit,
    /// Some effects have left.
    AmidEffects(usize),
}

impl World<'_> {
    pub(super) fn manager_starts(&mut self) {
        if self.manager.engine.is_some() {
            return;
        }
        self.manager.epoch += 1;
        if let Some(auditor) = &mut self.auditor {
            auditor.manager_starts(self.now);
        }
        let records = self.manager.disk.clone();
        let engine = Engine::restore(self.plan.settings, self.manager.epoch, self.now, records);
        self.manager.engine = Some(engine);
        self.check_engine();
        self.manager.alarm = None;
        for spec in self.plan.sites.iter().map(|site| site.spec.clone()).collect::<Vec<_>>() {
            let request = self.request(Asker::Nobody);
            self.arrives(Event::PlatformAttached { request, spec }, None);
        }
    }

    pub(super) fn manager_dies(&mut self) {
        self.check_engine();
        if self.manager.engine.take().is_none() {
            return;
        }
        self.manager.inbox.clear();
        self.manager.pulls.clear();
        self.manager.workers.clear();
        self.manager.is_at_work &= self.manager.stalled_until <= self.now;
        self.manager.stalled_until = Time(0);
        let broken = std::mem::take(&mut self.asked);
        for asker in broken.into_values() {
            self.unanswered(asker);
        }
        let absence = Span(self.luck.below(self.plan.absence_max.0));
        self.after(absence, Happening::ManagerStarts);
    }

    /// Checks the engine's invariants. Panics if one is broken.
    pub(super) fn check_engine(&self) {
        if let (Some(engine), Some(_)) = (&self.manager.engine, &self.auditor) {
            engine.check_invariants();
        }
    }

    /// Lets the manager stand still: arriving messages wait, and so do their senders.
    pub(super) fn manager_stalls(&mut self, span: Span) {
        if self.manager.engine.is_some() && self.manager.stalled_until <= self.now {
            self.manager.stalled_until = self.now + span;
            self.auditor.iter_mut().for_each(|auditor| auditor.manager_stalls(self.now, span));
        }
    }

    pub(super) fn arrives(&mut self, event: Event, epoch: Option<u64>) {
        if self.manager.engine.is_none() || epoch.is_some_and(|epoch| epoch != self.manager.epoch) {
            // The connection is refused, or the answer's worker does not exist any more.
            let asker = request_of(&event).and_then(|request| self.asked.remove(&request));
            return asker.into_iter().for_each(|asker| self.unanswered(asker));
        }
        if let Event::Pulled { request, pilot, .. } = &event {
            self.manager.pulls.insert(*request, *pilot);
        }
        self.manager.inbox.push(event);
        self.set_to_work();
    }

    pub(super) fn manager_wakes(&mut self) {
        if self.manager.alarm.is_some_and(|alarm| alarm <= self.now) {
            self.manager.alarm = None;
            self.manager.inbox.push(Event::TimerFired);
            self.set_to_work();
        }
    }

    fn set_to_work(&mut self) {
        if !self.manager.is_at_work {
            self.manager.is_at_work = true;
            let span = Span(self.luck.below(2_000));
            self.after(span, Happening::ManagerWorks);
        }
    }

    /// Handles all arrived events, commits them together, and performs the effects.
    pub(super) fn manager_works(&mut self) -> Held {
        if self.manager.stalled_until > self.now {
            let span = self.manager.stalled_until.since(self.now);
            self.after(span, Happening::ManagerWorks);
            return Ok(());
        }
        self.manager.is_at_work = false;
        let now = self.now;
        let Some(engine) = &mut self.manager.engine else { return Ok(()) };
        let mut steps = Vec::new();
        for event in std::mem::take(&mut self.manager.inbox) {
            self.manager.n_events += 1;
            self.auditor.iter_mut().for_each(|auditor| auditor.hears(&event, now));
            let pulled = match &event {
                Event::Pulled { request, pilot, .. } => Some((*request, *pilot)),
                _ => None,
            };
            let step = engine.handle(now, event);
            if let Some(((request, pilot), auditor)) = pulled.zip(self.auditor.as_mut())
                && !is_session_over(request, &step)
            {
                auditor.is_heard(pilot, now);
            }
            steps.push(step);
            let is_due = self.trace.is_some() || self.manager.n_events.is_multiple_of(EVENTS_PER_CHECK);
            if self.auditor.is_some() && is_due {
                engine.check_invariants();
            }
        }
        let n_effects = steps.iter().map(|step| step.effects.len()).sum();
        let death = self.draw_death(n_effects);
        let mut n_left = match death {
            Some(Death::BeforeCommit) => {
                self.manager_dies();
                return Ok(());
            }
            Some(Death::AfterCommit) => 0,
            Some(Death::AmidEffects(n)) => n,
            None => n_effects,
        };
        if self.is_disk_needed() {
            let kept = steps.iter().flat_map(|step| step.records.iter().cloned());
            self.manager.disk.extend(kept);
        }
        if self.luck.one_in(500) {
            self.compare_with_disk()?;
        }
        let mut is_over = false;
        for Step { records, effects } in steps {
            // Effects are checked against the decisions until then, not against later ones.
            self.note(|_| format!("kept {records:?}"));
            if let Some(auditor) = &mut self.auditor {
                records.iter().for_each(|record| self.decisions.add(now, record));
                records.iter().try_for_each(|record| auditor.kept(record))?;
            }
            if let Some(scene) = &mut self.scene {
                records.iter().for_each(|record| scene.ledger.kept(record));
            }
            for effect in effects.into_iter().take(n_left) {
                n_left -= 1;
                is_over |= matches!(effect, Effect::Answer { answer: Answer::ShutDown(_), .. });
                self.perform(effect)?;
            }
        }
        if death.is_some() || is_over {
            self.manager_dies();
        }
        self.set_alarm();
        Ok(())
    }

    /// Returns whether the disk will ever be read.
    fn is_disk_needed(&self) -> bool {
        let can_die = self.plan.rates.commit_dies > 0 || !self.plan.manager_deaths.is_empty();
        self.auditor.is_some() || can_die
    }

    fn draw_death(&mut self, n_effects: usize) -> Option<Death> {
        if !self.goes_wrong(self.plan.rates.commit_dies) {
            return None;
        }
        Some(match self.luck.below(3) {
            0 => Death::BeforeCommit,
            1 => Death::AfterCommit,
            _ => Death::AmidEffects(self.luck.below(n_effects as u64 + 1) as usize),
        })
    }

    fn perform(&mut self, effect: Effect) -> Held {
        self.note(|_| format!("{effect:?}"));
        let (platform, wish) = match effect {
            Effect::Answer { request, answer } => {
                self.audit_answer(request, &answer)?;
                return self.deliver(request, answer);
            }
            // Messages may be lost or doubled, but pilots never report impossible facts.
            Effect::Notify(Notice::PilotDoubted { pilot, what }) if self.auditor.is_some() => {
                return Err(Violation(format!("pilot {pilot} is not believed: {what}")));
            }
            Effect::Notify(_) => return Ok(()),
            Effect::Submit { platform, allocation, tag, walltime } => {
                (platform, Wish::Submit { allocation, tag, walltime })
            }
            Effect::Withdraw { platform, allocations } => {
                self.withdrawn(platform, &allocations);
                return Ok(());
            }
            Effect::Cancel { platform, batch_ids } => (platform, Wish::Cancel { batch_ids }),
            Effect::List { platform, .. } => (platform, Wish::List { asked_at: self.now }),
            Effect::Plan(question) => {
                let event = Box::new(Event::Planned { plan: question.answer() });
                let span = Span(self.luck.below(200_000));
                self.after(span, Happening::Arrives { event, epoch: Some(self.manager.epoch) });
                return Ok(());
            }
            Effect::Load { platform } => {
                self.loaded(platform);
                return Ok(());
            }
            // No site here is a cloud.
            Effect::Scale { .. } => return Ok(()),
        };
        let span = Span(self.luck.below(200_000));
        self.after(span, Happening::SiteAsked { platform, wish, epoch: self.manager.epoch });
        Ok(())
    }

    /// Lets a site tell its load, or not; loads of a scenario's queues are unknown.
    fn loaded(&mut self, platform: PlatformId) {
        if self.scene.is_some() || self.luck.one_in(3) {
            return;
        }
        let mut some = || self.luck.below(100);
        let load = QueueLoad { free_cores: some(), cores: some(), n_waiting: some(), waiting_cores: some() };
        let span = Span(self.luck.below(5_000_000));
        let event = Box::new(Event::PlatformLoaded { platform, load });
        self.after(span, Happening::Arrives { event, epoch: Some(self.manager.epoch) });
    }

    fn audit_answer(&mut self, request: RequestId, answer: &Answer) -> Held {
        let pilot = self.manager.pulls.remove(&request);
        let Answer::Pull(PullAnswer { resync, epoch, parts, .. }) = answer else { return Ok(()) };
        if let Some((pilot, auditor)) = pilot.zip(self.auditor.as_mut()) {
            parts.iter().try_for_each(|part| auditor.sent(pilot, *epoch, part, self.now))?;
        }
        if resync.is_none()
            && let Some(Asker::Pull { node, life, .. }) = self.asked.get(&request)
            && let Some(pilot) = self.pilot_of(*node, *life)
            && let Some(auditor) = &mut self.auditor
        {
            auditor.is_in_step(pilot, self.now)?;
        }
        Ok(())
    }

    fn set_alarm(&mut self) {
        let Some(due) = self.manager.engine.as_ref().and_then(Engine::next_wakeup) else { return };
        if self.manager.alarm.is_none_or(|alarm| due < alarm) {
            self.manager.alarm = Some(due);
            self.after(due.since(self.now), Happening::ManagerWakes);
        }
    }

    /// Checks that the state in memory equals the replayed records: there is one state machine and not two.
    pub(super) fn compare_with_disk(&self) -> Held {
        if self.auditor.is_none() {
            return Ok(());
        }
        let mut replayed = Durable::default();
        self.manager.disk.iter().for_each(|record| replayed.apply(record));
        let Some(live) = self.manager.engine.as_ref().map(Engine::durable) else { return Ok(()) };
        if *live == replayed {
            return Ok(());
        }
        let (live, replayed) = (format!("{live:#?}"), format!("{replayed:#?}"));
        let differ = live.lines().zip(replayed.lines()).find(|(live, replayed)| live != replayed);
        let (live, replayed) = differ.unwrap_or(("more", "less"));
        let (live, replayed) = (live.trim(), replayed.trim());
        Err(Violation(format!("live state is not what its records say: {live} where they say {replayed}")))
    }

    /// Asks at the end for the results of every task, as a reader does.
    pub(super) fn ask_at_the_end(&mut self) -> Held {
        for job in self.auditor.as_ref().map(Auditor::jobs).unwrap_or_default() {
            let mut ask = |filter| self.tasks_in(job, filter);
            let (done, failed) = (ask(TaskFilter::Done)?, ask(TaskFilter::Failed)?);
            let cancelled = ask(TaskFilter::Cancelled)?;
            if let Some(auditor) = &self.auditor {
                auditor.told(job, [&done, &failed, &cancelled])?;
            }
        }
        Ok(())
    }

    fn tasks_in(&mut self, job: JobId, filter: TaskFilter) -> Result<TaskSet, Violation> {
        let request = self.request(Asker::Nobody);
        let event = Event::Asked { request, query: Query::TasksIn(job, filter) };
        let engine = self.manager.engine.as_mut().ok_or_else(|| Violation("no manager".into()))?;
        let step = engine.handle(self.now, event);
        // A query is an event like others: a pilot may have been silent for too long by now.
        self.manager.disk.extend(step.records);
        let found = step.effects.into_iter().find_map(|effect| match effect {
            Effect::Answer { answer: Answer::Tasks(tasks), .. } => Some(tasks),
            _ => None,
        });
        found.ok_or_else(|| Violation(format!("job {job} is not known any more")))
    }
}

/// Returns whether that request of a pilot was refused because its session had ended: the manager ignores
/// such a request.
fn is_session_over(asked: RequestId, step: &Step) -> bool {
    step.effects.iter().any(|effect| match effect {
        Effect::Answer { request, answer: Answer::Refused(Refusal::SessionEnded(_)) } => *request == asked,
        _ => false,
    })
}

/// Returns the request to which an event wants an answer.
fn request_of(event: &Event) -> Option<RequestId> {
    match event {
        Event::PlatformAttached { request, .. }
        | Event::PlatformChangeAsked { request, .. }
        | Event::AllocationCancelAsked { request, .. }
        | Event::JobSubmitted { request, .. }
        | Event::WorkflowSubmitted { request, .. }
        | Event::ProfilingAsked { request, .. }
        | Event::ForgetAsked { request, .. }
        | Event::DeclareAsked { request, .. }
        | Event::PoliciesAsked { request, .. }
        | Event::TokenMade { request, .. }
        | Event::TokensRevoked { request, .. }
        | Event::JobChangeAsked { request, .. }
        | Event::Asked { request, .. }
        | Event::PilotRegistered { request, .. }
        | Event::Pulled { request, .. }
        | Event::HungUp { request }
        | Event::PilotLeft { request, .. }
        | Event::HuntAsked { request, .. }
        | Event::ShutdownAsked { request, .. } => Some(*request),
        Event::TokensUsed { .. }
        | Event::AllocationAnswered { .. }
        | Event::PlatformListed { .. }
        | Event::PlatformLoaded { .. }
        | Event::PlatformWaits { .. }
        | Event::RatiosAnswered { .. }
        | Event::Planned { .. }
        | Event::TailsWanted { .. }
        | Event::TimerFired => None,
    }
}
