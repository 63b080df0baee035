//! System calls that the standard library does not have.

pub(crate) mod denied;
pub(crate) mod opened;
pub mod parts;
pub mod pin;
pub(crate) mod pipe;
pub mod private;
pub mod sha256;
pub(crate) mod watch;
