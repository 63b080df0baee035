//! Times beside others are written down.

use std::collections::BTreeMap;

use crate::{
    engine::{
        record::{Record, beside::Beside},
        turn::Turn,
    },
    ids::PlatformId,
};

impl Turn<'_> {
    /// What was measured is written down, a record for each platform; whoever maps by it looks again.
    pub(in crate::engine) fn keep_measured(&mut self) {
        self.volatile.measured_due_at = None;
        self.keep_efforts();
        let mut by_platform = BTreeMap::<PlatformId, Vec<Beside>>::new();
        for ((platform, application, company), (n, wall_us)) in std::mem::take(&mut self.volatile.measured) {
            by_platform.entry(platform).or_default().push(Beside { application, company, n, wall_us });
        }
        for (platform, beside) in by_platform {
            self.record(Record::BesideMeasured { platform, beside, at: self.now });
            if self.policies().mapping.is_some() {
                self.want_guide();
            }
        }
    }
}
