//! One event that is being handled: the state that it changes and the step that it makes.

use crate::{
    engine::{
        interface::{Answer, Effect, Notice, Refusal, RequestId, settings::Settings},
        live::Live,
        record::Record,
        state::durable::Durable,
    },
    time::Time,
};

/// The consequences of one event: first the records are made durable, then the effects are performed.
#[must_use = "dropping a step loses records"]
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// The changes, in order. They are already applied in memory.
    pub records: Vec<Record>,
    /// The actions to perform, in order.
    pub effects: Vec<Effect>,
}

/// One event that is being handled; collects its records and effects.
pub(in crate::engine) struct Turn<'a> {
    pub(in crate::engine) settings: &'a Settings,
    pub(in crate::engine) durable: &'a mut Durable,
    pub(in crate::engine) live: &'a mut Live,
    pub(in crate::engine) now: Time,
    pub(in crate::engine) step: Step,
}

impl Turn<'_> {
    /// Applies a record in memory and adds it to the step, which makes it durable.
    pub(in crate::engine) fn record(&mut self, record: Record) {
        self.durable.apply(&record);
        self.live.graph.note(&record);
        self.step.records.push(record);
    }

    pub(in crate::engine) fn answer(&mut self, request: RequestId, answer: Answer) {
        self.step.effects.push(Effect::Answer { request, answer });
    }

    pub(in crate::engine) fn refuse(&mut self, request: RequestId, refusal: Refusal) {
        self.answer(request, Answer::Refused(refusal));
    }

    /// Queues a notice, at most once per step. Notices of failed tasks are not compared with earlier ones:
    /// there may be thousands, and each occurs only once.
    pub(in crate::engine) fn notify(&mut self, notice: Notice) {
        let may_repeat = !matches!(notice, Notice::TaskFailed { .. });
        let effect = Effect::Notify(notice);
        if !may_repeat || !self.step.effects.contains(&effect) {
            self.step.effects.push(effect);
        }
    }
}
