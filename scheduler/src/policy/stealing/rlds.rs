//! Rigid load-balancing and data-locality segregation: tasks may be stolen if they fetch their data in at
//! most the part t of their runtime (paper 004).

use super::Ready;

pub(super) fn is_light(bytes: u64, task: &Ready<'_>, t_percent: u32) -> bool {
    task.fetch_s(bytes) <= f64::from(t_percent) / 100.0 * task.run_s
}
