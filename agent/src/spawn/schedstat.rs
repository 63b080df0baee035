//! Times of a thread in its file `schedstat` of /proc.

use std::{fs, path::Path};

/// Time of running and of waiting in nanoseconds.
pub(crate) fn schedstat(path: &Path) -> Option<[u64; 2]> {
    let text = fs::read_to_string(path).ok()?;
    let mut fields = text.split_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.next()?.ok()?])
}
