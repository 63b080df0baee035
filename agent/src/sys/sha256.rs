//! SHA-256 as the name of what was hashed.

use ring::digest::{Context, SHA256, digest};
use scheduler::digest::Digest;

/// A hash that goes on with every piece; [`finished`] names the whole.
pub fn begin() -> Context {
    Context::new(&SHA256)
}

/// Of all that was hashed.
pub fn finished(hash: Context) -> Digest {
    named(hash.finish())
}

/// Of these bytes.
pub fn of(bytes: &[u8]) -> Digest {
    named(digest(&SHA256, bytes))
}

fn named(hash: ring::digest::Digest) -> Digest {
    let mut found = Digest::default();
    found.0.copy_from_slice(hash.as_ref());
    found
}
