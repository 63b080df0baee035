//! What people are shown: the screen, colours, and writing to standard output. Knows no command.

pub mod facts;
pub mod format;
pub mod harmless;
pub mod job;
pub mod preview;
pub mod quote;
pub mod table;
pub mod units;
pub mod words;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::failure::Failure;
use harmless::harmless;

/// Where output goes and what may be used there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Whether a person looks at it now.
    pub is_terminal: bool,
    /// Whether colours are wanted.
    pub has_colour: bool,
    /// Columns, when it has a known width.
    pub width: Option<usize>,
}

/// How a text stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// Not at all.
    #[default]
    Plain,
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// What is well.
    Green,
    /// What waits.
    Yellow,
    /// What failed.
    Red,
    /// What goes on.
    Cyan,
}

impl Screen {
    /// Standard output.
    pub fn stdout() -> Screen {
        Screen::of(io::stdout().is_terminal(), libc::STDOUT_FILENO)
    }

    /// Standard error.
    pub fn stderr() -> Screen {
        Screen::of(io::stderr().is_terminal(), libc::STDERR_FILENO)
    }

    fn of(is_terminal: bool, descriptor: libc::c_int) -> Screen {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Screen {
            is_terminal,
            has_colour: is_terminal && !is_set("NO_COLOR") && !is_dumb,
            width: if is_terminal { width_of(descriptor) } else { None },
        }
    }

    /// The lines of a text, broken at blanks where they are wider than the screen. Every line ends.
    pub fn wrapped(&self, text: &str) -> String {
        let lines = text.lines().flat_map(|line| facts::wrapped(line, self.width));
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The lines of a text as a screen gets them: broken, without control sequences of others, and then in this ink.
    fn told(&self, ink: Ink, text: &str) -> String {
        self.wrapped(&harmless(text)).lines().map(|line| self.paint(ink, line) + "\n").collect()
    }

    /// The text in this ink, where colours are wanted.
    pub fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.has_colour {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Plain => return text.to_owned(),
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Green => "32",
            Ink::Yellow => "33",
            Ink::Red => "31",
            Ink::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Writes to standard output; on a terminal without control sequences of others.
///
/// # Errors
/// The reader has gone, or the disk is full.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.is_terminal() {
        true => out.write_all(harmless(text).as_bytes())?,
        false => out.write_all(text.as_bytes())?,
    }
    out.flush()?;
    Ok(())
}

/// Says something on standard error, as one line.
pub fn say(text: &str) {
    say_lines(&format!("pilotfish: {text}\n"));
}

/// The same in this ink, where colours are wanted.
pub fn say_in(ink: Ink, text: &str) {
    write_lines(ink, &format!("pilotfish: {text}\n"));
}

/// Writes lines to standard error; on a terminal without control sequences of others.
pub fn say_lines(text: &str) {
    write_lines(Ink::Plain, text);
}

fn write_lines(ink: Ink, text: &str) {
    let mut error = io::stderr().lock();
    let text = match error.is_terminal() {
        true => Screen::stderr().told(ink, text),
        false => text.to_owned(),
    };
    // Nobody can be told that standard error is gone.
    let _ = error.write_all(text.as_bytes());
}

/// A value as JSON for programs, on several lines.
///
/// # Errors
/// Only for values that JSON has no form for, which ours are not.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(Failure::infrastructure(format!("cannot write JSON: {error}"))),
    }
}

fn width_of(descriptor: libc::c_int) -> Option<usize> {
    // SAFETY: an all-zero winsize is a valid one, and the call writes at most that much.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(descriptor, libc::TIOCGWINSZ, &mut size) == 0).then_some(size)
    };
    size.map(|size| usize::from(size.ws_col)).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::{Ink, Screen};

    #[test]
    fn what_is_told_in_colour_is_broken_first() {
        let screen = Screen { is_terminal: true, has_colour: true, width: Some(10) };
        assert_eq!(
            screen.told(Ink::Red, "one two three\x1b[2J"),
            "\x1b[31mone two\x1b[0m\n\x1b[31mthree^[[2J\x1b[0m\n"
        );
        assert_eq!(screen.told(Ink::Plain, "one two three"), "one two\nthree\n");
    }
}
