//! The shape of an allocation.

use crate::time::Span;

/// What allocations of one platform have in common that its queue may care about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// Of all its nodes.
    pub cores: u32,
    /// How many.
    pub n_nodes: u32,
    /// `None`: without end.
    pub walltime: Option<Span>,
}
