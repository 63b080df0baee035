//! Files of tasks: by their contents, in stores, and at other pilots.

pub(crate) mod collect;
pub mod objects;
pub(crate) mod peers;
pub mod stores;
pub(crate) mod web_store;
