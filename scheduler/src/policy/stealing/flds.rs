//! Flexible load-balancing and data-locality segregation: as RLDS, and a pilot whose own queue is more than tt
//! of work long shares what is beyond that (paper 004; how many: see `relief.rs`).

use super::{Ready, rlds};

pub(super) fn is_light(bytes: u64, task: &Ready<'_>, t_percent: u32) -> bool {
    rlds::is_light(bytes, task, t_percent)
}
