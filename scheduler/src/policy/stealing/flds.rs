//! Flexible load-balancing and data-locality segregation: like RLDS, but a pilot whose own queue is longer
//! than tt of work shares the tasks beyond it (paper 004; how many: see `relief.rs`).

use super::{Ready, rlds};

pub(super) fn is_light(bytes: u64, task: &Ready<'_>, t_percent: u32) -> bool {
    rlds::is_light(bytes, task, t_percent)
}
