//! The resources beside cores that tasks of an application used.

use serde::{Deserialize, Serialize};

/// The resources that tasks of an application used on a platform.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceUse {
    /// The application.
    pub application: String,
    /// Number of tasks.
    pub n: u64,
    /// Bytes read from and written to disks.
    pub io_bytes: u64,
    /// Microseconds until their programs started.
    pub prepared_us: u64,
    /// Microseconds for which others had the cores of tasks that wanted to compute.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub starved_us: u64,
}

/// Keeps the format of records from before 2026-12.
fn is_zero(number: &u64) -> bool {
    *number == 0
}
