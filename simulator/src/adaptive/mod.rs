//! The world of paper 003 (Kim, Choi and Kim, "Adaptive application-aware job scheduling optimization
//! strategy in heterogeneous infrastructures", Cluster Computing 19, 2016).

pub mod fluid;
pub mod workload;
pub mod world;
