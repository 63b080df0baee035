//! Connections and requests, below the handlers: limits of clients, extractors, errors.

pub(crate) mod census;
pub(crate) mod counts;
pub(crate) mod crowd;
pub(crate) mod doors;
pub(crate) mod error;
pub(crate) mod extract;
pub(crate) mod listener;
pub(crate) mod parking;
pub(crate) mod patience;
pub(crate) mod room;
