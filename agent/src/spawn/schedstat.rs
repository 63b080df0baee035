//! Times of a thread from its file `schedstat` in /proc.

use std::{fs, path::Path};

/// Returns the time on a CPU and the time of waiting for one, in nanoseconds.
pub(crate) fn schedstat(path: &Path) -> Option<[u64; 2]> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.split_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.next()?.ok()?])
}
