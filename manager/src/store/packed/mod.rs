//! Formats of blobs in rows. See `docs/store.md`.

pub(super) mod columns;
pub(super) mod failures;
pub(super) mod frames;
