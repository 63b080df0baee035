//! Resources that tasks used beside cores, and bytes that moved for jobs, as long as they are not recorded.

use std::collections::BTreeMap;

use crate::{
    engine::record::resource_use::ResourceUse,
    ids::{JobId, PlatformId},
    pull::MovedBytes,
};

/// Sums that are not recorded yet.
pub type Efforts = BTreeMap<(PlatformId, String), ResourceUse>;

/// Bytes that have moved and are not recorded yet.
pub type Moved = BTreeMap<(JobId, PlatformId), MovedBytes>;

/// Returns the bytes that have moved for a job.
pub fn moved_of(moved: &Moved, job: JobId) -> MovedBytes {
    let mut sum = MovedBytes::default();
    let all = (job, PlatformId(0))..=(job, PlatformId(u64::MAX));
    moved.range(all).for_each(|(_, more)| sum.add(more));
    sum
}
