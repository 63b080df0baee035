//! The session with the manager: join document, registration, exchanges and the spool of reports.

pub(crate) mod arrival;
pub mod client;
pub(crate) mod join;
pub mod spool;
