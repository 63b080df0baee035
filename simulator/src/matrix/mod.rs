//! The world of paper 004 (Wang et al., "Load-balanced and locality-aware scheduling for data-intensive workloads at extreme scales", 2015).
