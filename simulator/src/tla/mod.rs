//! The world of paper 001 (Shih et al., "TLA: Temporal look-ahead processor allocation method for
//! heterogeneous multi-cluster systems", JPDC 73, 2013): clusters of unequal speed behind one queue, workloads
//! from logs and from models, and the paper's tables and figures.

pub mod models;
pub mod multicluster;
pub mod published;
pub mod reproduce;
pub mod speeds;
pub mod swf;
pub mod workload;

pub use reproduce::{reproduce, reproduce_with_logs};
