//! The history of weights.

use std::collections::VecDeque;

use crate::engine::{
    interface::views::weights::{KindView, WeightChange},
    record::weight_policy::{TaskClass, WeightPolicyState},
};

/// Number of changes that are kept.
const N_CHANGES_MAX: usize = 200;

/// The recorded history of weights.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WeightLog {
    changes: VecDeque<WeightChange>,
    law: Option<WeightPolicyState>,
}

impl WeightLog {
    /// Returns the last changes, oldest first.
    pub fn changes(&self) -> impl DoubleEndedIterator<Item = &WeightChange> {
        self.changes.iter()
    }

    /// Returns the last recorded state of a policy that carries over from job to job.
    pub fn law(&self) -> Option<&WeightPolicyState> {
        self.law.as_ref()
    }

    pub(in crate::engine) fn note(&mut self, changes: &[WeightChange], law: Option<&WeightPolicyState>) {
        self.changes.extend(changes.iter().cloned());
        let n_old = self.changes.len().saturating_sub(N_CHANGES_MAX);
        self.changes.drain(..n_old);
        if let Some(law) = law {
            self.law = Some(law.clone());
        }
    }

    pub(in crate::engine) fn last_of(&self, kind: &TaskClass) -> Option<&WeightChange> {
        let is_of = |view: &KindView| view.application == kind.application && view.needs == kind.needs;
        self.changes.iter().rev().find(|change| is_of(&change.kind))
    }
}
