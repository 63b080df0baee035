//! The world of paper 004 (Wang et al., "Load-balanced and locality-aware scheduling for data-intensive workloads
//! at extreme scales", 2015): MATRIX with data-aware work stealing (DAWS), as a simulation of events.
//!
//! Every node has a pilot with two threads, the live ready queues and the live stealing policies; what is
//! simulated is the network, the data and the running of tasks. [`bounds`] has what no policy can beat.

pub mod bounds;
pub mod published;
pub mod workload;
pub mod world;

mod node;
