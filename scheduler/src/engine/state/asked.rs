//! The requests for allocations to a platform, and their answers.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    ids::AllocationId,
    time::{Span, Time},
};

pub(in crate::engine) const MINUTE: Span = Span::from_secs(60);

/// The times at which a platform was asked for allocations, as far as they are known. The platform gets a
/// request between the decision and the answer, which may be long after it if requests are sent one after the
/// other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    /// Requests without an answer.
    pub(in crate::engine) unanswered: BTreeSet<AllocationId>,
    /// The times of answers, from a minute before the last one on.
    pub(in crate::engine) answered: VecDeque<Time>,
}

impl Asked {
    pub(in crate::engine) fn intended(&mut self, allocation: AllocationId) {
        self.unanswered.insert(allocation);
    }

    /// Notes an answer of any kind, if it is the first.
    pub(in crate::engine) fn answered(&mut self, allocation: AllocationId, at: Time) {
        if self.unanswered.remove(&allocation) {
            self.answered.retain(|before| at.since(*before) < MINUTE);
            self.answered.push_back(at);
        }
    }
}
