//! Fastest first: the fastest platform that has room, ties by position (FF in paper 001). Ignores runtimes.

pub(super) fn choose(free: &[u64], cores: u64) -> Option<usize> {
    free.iter().position(|n_free| *n_free >= cores)
}
