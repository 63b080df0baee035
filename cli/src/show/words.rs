//! States with their colours: the words of the design page.

use scheduler::engine::interface::TaskFilter;

use crate::{
    client::state_word,
    show::{Ink, table::Cell},
};

/// A job's, task's or pilot's state.
pub fn state(word: &str) -> Cell {
    let ink = match word {
        "done" | "working" => Ink::Green,
        "failed" => Ink::Red,
        "active" | "running" => Ink::Cyan,
        "paused" | "draining" | "awaited" => Ink::Yellow,
        _ => Ink::Plain,
    };
    Cell::inked(ink, word)
}

/// A task's state.
pub fn task_state(filter: TaskFilter) -> Cell {
    state(state_word(filter))
}

/// A number of failures: red when there are any.
pub fn failures(number: u64) -> Cell {
    let ink = if number > 0 { Ink::Red } else { Ink::Plain };
    Cell::inked(ink, super::format::count(number))
}
