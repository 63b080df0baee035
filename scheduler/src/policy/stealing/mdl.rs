//! Maximised data locality: only tasks without data may be stolen (paper 004: t = 0).

pub(super) fn is_light(bytes: u64) -> bool {
    bytes == 0
}
