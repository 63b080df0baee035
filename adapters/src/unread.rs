//! Lines that are not understood. A site prints words of its own before an answer, and one partition may be described in
//! an odd way: such lines are left out of a listing, and told with the command that printed them.

use crate::command::{AdapterError, joined};

/// So many lines are shown.
const N_SHOWN_MAX: usize = 3;
/// So much of a line is shown.
const CHARACTERS_MAX: usize = 120;

/// Lines of what a command printed that are not understood.
pub(crate) struct Unread {
    command: &'static str,
    /// Queues or machines of which one field is not understood. They are told before `others`.
    of_parts: Vec<String>,
    /// Lines that are no queue and no machine, like a banner.
    others: Vec<String>,
    n: usize,
}

impl Unread {
    /// None yet, of that command.
    pub(crate) fn of(command: &'static str) -> Unread {
        Unread { command, of_parts: Vec::new(), others: Vec::new(), n: 0 }
    }

    /// Takes note of a line that is something else.
    pub(crate) fn line(&mut self, line: &str) {
        self.n += 1;
        if self.others.len() < N_SHOWN_MAX {
            self.others.push(format!("`{}`", shown(line)));
        }
    }

    /// Takes note of what is left out for a part of it, as in ``time limit `n/a` ``.
    pub(crate) fn part(&mut self, whole: &str, part: &str) {
        self.n += 1;
        if self.of_parts.len() < N_SHOWN_MAX {
            self.of_parts.push(format!("`{}` ({})", shown(whole), shown(part)));
        }
    }

    /// Nothing counts that was taken note of: the command says itself why it failed.
    pub(crate) fn forget(&mut self) {
        *self = Unread::of(self.command);
    }

    /// Adds a warning, if there are such lines. `n_read`: how many lines are understood.
    ///
    /// # Errors
    /// There are such lines, and none is understood.
    pub(crate) fn tell(self, n_read: usize, left_out: &mut Vec<String>) -> Result<(), AdapterError> {
        if self.n == 0 {
            return Ok(());
        }
        if n_read == 0 {
            return Err(AdapterError::NotUnderstood(self.first()));
        }
        left_out.push(self.warning());
        Ok(())
    }

    /// Names the command and the first of these lines.
    fn first(&self) -> String {
        let first = self.of_parts.first().or(self.others.first());
        format!("{}: {}", self.command, first.map_or("it said nothing", String::as_str))
    }

    fn warning(&self) -> String {
        let mut lines: Vec<&str> = self.of_parts.iter().chain(&self.others).map(String::as_str).collect();
        lines.truncate(N_SHOWN_MAX);
        let more = match self.n - lines.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        format!("{}: not understood and left out: {}{more}", self.command, lines.join(", "))
    }
}

/// A line as it is shown.
fn shown(line: &str) -> String {
    let line = joined([line.trim()]);
    let mut shown: String =
        line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARACTERS_MAX).collect();
    if line.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_left_out_are_told_with_their_command_and_some_of_many_are_shown() {
        let mut left_out = Vec::new();
        assert_eq!(Unread::of("sinfo").tell(0, &mut left_out), Ok(()));
        let mut unread = Unread::of("sinfo");
        (0..9).for_each(|n| unread.line(&format!("Welcome {n}!\t\u{1b}[1m")));
        unread.part("bad|up|n/a", "time limit `n/a`");
        unread.tell(1, &mut left_out).expect("a warning");
        let warning = "sinfo: not understood and left out: `bad|up|n/a` (time limit `n/a`), `Welcome 0!  [1m`, `Welcome 1!  [1m` and 7 more";
        assert_eq!(left_out, [warning]);
        let mut unread = Unread::of("sinfo");
        unread.line(&"Welcome".repeat(100));
        let error = unread.tell(0, &mut left_out).expect_err("nothing is understood").to_string();
        assert!(error.starts_with("not understood: sinfo: `Welcome") && error.ends_with("…`"), "{error}");
    }
}
