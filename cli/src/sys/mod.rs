//! This process and its files: signals, terminal, logs, whole files, digests.

pub(crate) mod hash;
pub(crate) mod interrupts;
pub(crate) mod logging;
pub(crate) mod terminal;
pub(crate) mod whole;
