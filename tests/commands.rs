//! What commands mean and show: which manager, which columns, which bytes.

#[path = "commands/last.rs"]
mod last;
