//! The resources beside cores that tasks of an application needed.

use serde::{Deserialize, Serialize};

/// What tasks of an application have needed on a platform.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Which application.
    pub application: String,
    /// How many tasks.
    pub n: u64,
    /// Bytes read from disks and written to them.
    pub io_bytes: u64,
    /// Microseconds until their programs began.
    pub prepared_us: u64,
    /// Microseconds for which cores of tasks were others' although the tasks wanted to compute.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub starved_us: u64,
}

/// As in records of before 2026-12.
fn is_zero(number: &u64) -> bool {
    *number == 0
}
