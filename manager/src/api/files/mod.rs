//! Files by their contents, and files of stores.

pub(crate) mod objects;
pub(crate) mod stores;
