//! The shape of an allocation.

use crate::time::Span;

/// The properties of a platform's allocations that a queue may treat differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// Number of cores, over all nodes.
    pub cores: u32,
    /// Number of nodes.
    pub n_nodes: u32,
    /// The walltime; `None`: no end.
    pub walltime: Option<Span>,
}
