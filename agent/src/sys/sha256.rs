//! SHA-256 as the digest of contents.

use ring::digest::{Context, SHA256, digest};
use scheduler::digest::Digest;

/// Returns a hash to which pieces are added; [`finished`] returns its digest.
pub fn begin() -> Context {
    Context::new(&SHA256)
}

/// Returns the digest of all added pieces.
pub fn finished(hash: Context) -> Digest {
    named(hash.finish())
}

/// Returns the digest of `bytes`.
pub fn of(bytes: &[u8]) -> Digest {
    named(digest(&SHA256, bytes))
}

fn named(hash: ring::digest::Digest) -> Digest {
    let mut found = Digest::default();
    found.0.copy_from_slice(hash.as_ref());
    found
}
