//! Maximised load balancing: all tasks may be stolen, whatever they have to fetch (paper 004: t without
//! limit).

pub(super) fn is_light() -> bool {
    true
}
