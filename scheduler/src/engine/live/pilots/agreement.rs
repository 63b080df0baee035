//! How the reports of a pilot of an earlier life of the manager go on.

/// With which number the reports of a pilot go on that has served an earlier epoch: a store that was put back from a
/// backup has forgotten some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoesOn {
    /// With the next one that the manager expects.
    AsExpected,
    /// With this one, once.
    With(u64),
    /// With any, once: the pilot is of a version that does not say it.
    WithAny,
}
