//! The continuation of reports from pilots of an earlier epoch.

/// The number with which the reports of a pilot of an earlier epoch continue: a store that was restored from
/// a backup lacks some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoesOn {
    /// The next number that the manager expects.
    AsExpected,
    /// This number, once.
    With(u64),
    /// Any number, once: the pilot's version does not say it.
    WithAny,
}
