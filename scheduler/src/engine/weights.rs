//! The weights as people see them: which share of an application's tasks is meant for which platform, from which
//! numbers, and how that came about.

use serde::{Deserialize, Serialize};

use super::{
    quotas::{Cell, Quotas, Row},
    views::Reader,
    weight_history::WeightChange,
};
use crate::{
    ids::PlatformId,
    policy::{distribution::Distribution, none_or},
    resources::Resources,
    time::{Span, Time},
};

/// What is meant for which platform.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightsView {
    /// The word of the policy.
    pub policy: String,
    /// When all that is ready will have begun and what runs have ended, as far as can be told.
    pub last_end: Option<Span>,
    /// A row of weights for each kind of task.
    pub kinds: Vec<KindView>,
    /// How weights have moved, the last times, oldest first.
    pub history: Vec<WeightChange>,
}

/// The row of weights of a kind of task: an application's that need the same.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KindView {
    /// The application.
    pub application: String,
    /// What each task needs.
    pub needs: Resources,
    /// Tasks that are ready and meant for some platform.
    pub n_ready: u64,
    /// By platform.
    pub platforms: Vec<WeightView>,
}

/// The weight of an application on a platform, and the numbers behind it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WeightView {
    /// The platform.
    pub platform: String,
    /// The share of what is ready, 0 to 1.
    pub weight: f64,
    /// What it was before; of a change only.
    pub before: Option<f64>,
    /// Ready tasks that are still meant for it.
    pub n_left: u64,
    /// Tasks that its pilots can run at a time.
    pub n_slots: u64,
    /// The mean wall time of a task there, where one has run or somebody has said it.
    pub mean: Option<Span>,
    /// Whether that was said and none has run.
    #[serde(default)]
    pub is_declared: bool,
    /// What it is taken to be where none has: by what other applications take there.
    #[serde(default)]
    pub guess: Option<Span>,
    /// The part of the last attempts there that failed, whoever's fault it was, 0 to 1.
    pub error_rate: f64,
    /// Tasks a second that it finishes; nothing where none has run.
    pub rate: Option<f64>,
    /// Whether what it begins now would end after all that others can do: it is given none.
    pub is_late: bool,
}

impl Reader<'_> {
    /// All weights that there are.
    pub(super) fn weights(&self) -> WeightsView {
        let quotas = &self.volatile.guide.quotas;
        let name = |id| self.durable.platform_name(id);
        let law = self.durable.policies(self.settings.policies).distribution;
        let is_known = law == Some(Distribution::Adaptive) && !quotas.rows.is_empty();
        WeightsView {
            policy: none_or::to_word(law).to_owned(),
            last_end: is_known.then_some(Span::from_secs_f64(quotas.last_end_s)),
            kinds: quotas.rows.iter().map(|row| view(quotas, row, self.now, &name)).collect(),
            history: self.durable.weights().changes().cloned().collect(),
        }
    }
}

pub(super) fn view(quotas: &Quotas, row: &Row, now: Time, name: &dyn Fn(PlatformId) -> String) -> KindView {
    let cells = row.cells.iter().zip(row.weights.shares()).zip(&quotas.platforms);
    let platform = |((cell, weight), id): ((&Cell, &f64), &PlatformId)| WeightView {
        platform: name(*id),
        weight: *weight,
        before: None,
        n_left: cell.n_left,
        n_slots: cell.n_slots,
        mean: cell.runtime_s.map(Span::from_secs_f64),
        is_declared: cell.is_declared,
        guess: cell.guess_s.map(Span::from_secs_f64),
        error_rate: cell.error_rate,
        rate: cell.rate(),
        is_late: cell.is_late(now),
    };
    KindView {
        application: row.kind.application.clone(),
        needs: row.kind.needs.clone(),
        n_ready: row.n_left(),
        platforms: cells.map(platform).collect(),
    }
}
