//! What commands mean and show: which manager, which columns, which bytes.

#[path = "commands/json.rs"]
mod json;
#[path = "commands/last.rs"]
mod last;
#[path = "commands/screen.rs"]
mod screen;
#[path = "commands/terminal.rs"]
mod terminal;
