//! Allocations that a platform was asked for and has not answered for.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    ids::AllocationId,
    time::{Span, Time},
};

pub(in crate::engine) const MINUTE: Span = Span::from_secs(60);

/// When a platform was asked for allocations, as far as that is known: when it was told is between the intent and the
/// answer, which may be long after it where one order is carried out after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Those that were intended and have no answer.
    pub(in crate::engine) unanswered: BTreeSet<AllocationId>,
    /// When answers came: those of a minute before the last one.
    pub(in crate::engine) answered: VecDeque<Time>,
}

impl Asked {
    pub(in crate::engine) fn intended(&mut self, allocation: AllocationId) {
        self.unanswered.insert(allocation);
    }

    /// The first answer, whatever it says.
    pub(in crate::engine) fn answered(&mut self, allocation: AllocationId, at: Time) {
        if self.unanswered.remove(&allocation) {
            self.answered.retain(|before| at.since(*before) < MINUTE);
            self.answered.push_back(at);
        }
    }
}
