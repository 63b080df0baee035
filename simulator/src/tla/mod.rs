//! The world of paper 001 (Shih et al., "TLA: Temporal look-ahead processor allocation method for heterogeneous multi-cluster systems", JPDC 73, 2013).
