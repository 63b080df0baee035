//! Scripts and lines of shell.

pub mod commands;
pub(crate) mod line_ends;
pub(crate) mod shebang;
