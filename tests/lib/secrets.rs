//! What may stand in no log of any test: tokens, and the secrets that a test has made known.

use std::{fs, path::Path};

/// What all tokens begin with: pilots', sessions', users', operators', and those of Keystone.
const TOKENS: [&str; 5] = ["pfj_", "pfs_", "pfu_", "pfo_", "gAAAA"];
/// Where a test's cloud has its own logs and databases, and where in there pilots have theirs.
const CLOUD: (&str, &str) = ("home/cloud", "pilots");
/// Of longer logs the beginning is looked at: a test is to be quick.
const BYTES_MAX: usize = 64 << 20;

/// The first secret in a log below the sandbox: what, and where.
pub(super) fn found(sandbox: &Path, secrets: &[String]) -> Option<String> {
    let cloud = sandbox.join(CLOUD.0);
    let mut folders = vec![sandbox.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            let is_log =
                path.extension().is_some_and(|kind| ["out", "err", "log"].iter().any(|log| kind == *log));
            if kind.is_dir() {
                folders.push(if path == cloud { path.join(CLOUD.1) } else { path });
            } else if kind.is_file() && is_log {
                let bytes = fs::read(&path).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(BYTES_MAX)]);
                let is_there = |secret: &&str| text.contains(*secret);
                if let Some(secret) =
                    TOKENS.into_iter().chain(secrets.iter().map(String::as_str)).find(is_there)
                {
                    return Some(format!("`{secret}` is found in {}", path.display()));
                }
            }
        }
    }
    None
}
