//! The world of paper 002 (Xiao et al., "An Application-Level Scheduling with Task Bundling Approach for Many-Task Computing in Heterogeneous Environments", NPC 2012).
