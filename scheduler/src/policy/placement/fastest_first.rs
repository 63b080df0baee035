//! Fastest first: the fastest platform that has room, ties by position (paper 001, section 2). What runs how
//! long is not asked.

pub(super) fn choose(free: &[u64], cores: u64) -> Option<usize> {
    free.iter().position(|n_free| *n_free >= cores)
}
