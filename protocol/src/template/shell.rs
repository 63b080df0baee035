//! Quoting values for the place in a shell line where they stand.
//!
//! The tracker follows quotes, backslashes, comments and `$( … )` in the literal text. It does not
//! know here-documents: in those a value is written as at the line's start.

/// Where in a shell line a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Not in a shell line, or asked for raw.
    None,
    /// Outside all quotes: the value becomes one word.
    Bare,
    /// Inside `'…'`.
    Single,
    /// Inside `"…"`.
    Double,
}

/// One level of nesting: the line itself, or a `$( … )`, with its quotes and parentheses.
#[derive(Clone, Copy, Debug)]
struct Level {
    quoting: Quoting,
    n_parentheses: usize,
}

/// Follows the literal text of a shell line.
#[derive(Clone, Debug)]
pub(super) struct QuotingTracker {
    levels: Vec<Level>,
    is_escaped: bool,
    is_comment: bool,
    previous: char,
}

impl Default for QuotingTracker {
    fn default() -> QuotingTracker {
        let line = Level { quoting: Quoting::Bare, n_parentheses: 0 };
        QuotingTracker { levels: vec![line], is_escaped: false, is_comment: false, previous: '\n' }
    }
}

impl QuotingTracker {
    /// Where the text read so far ends.
    pub(super) fn here(&mut self) -> Quoting {
        // A value is part of a word, so a `#` behind it begins no comment.
        self.previous = 'x';
        self.levels.last().map_or(Quoting::Bare, |level| level.quoting)
    }

    /// Goes on over literal text.
    pub(super) fn read(&mut self, literal: &str) {
        for character in literal.chars() {
            self.step(character);
            self.previous = character;
        }
    }

    fn step(&mut self, character: char) {
        if self.is_comment {
            self.is_comment = character != '\n';
            return;
        }
        if std::mem::take(&mut self.is_escaped) {
            return;
        }
        let previous = self.previous;
        let n_levels = self.levels.len();
        let Some(level) = self.levels.last_mut() else { return };
        match (level.quoting, character) {
            (Quoting::Single, '\'') => level.quoting = Quoting::Bare,
            (Quoting::Single, _) => {}
            (_, '\\') => self.is_escaped = true,
            (Quoting::Double, '"') => level.quoting = Quoting::Bare,
            (_, '(') if previous == '$' => {
                self.levels.push(Level { quoting: Quoting::Bare, n_parentheses: 0 });
            }
            (Quoting::Double, _) => {}
            (_, '\'') => level.quoting = Quoting::Single,
            (_, '"') => level.quoting = Quoting::Double,
            (_, '(') => level.n_parentheses += 1,
            (_, ')') if level.n_parentheses > 0 => level.n_parentheses -= 1,
            (_, ')') if n_levels > 1 => {
                self.levels.pop();
            }
            (_, '#') if previous.is_whitespace() || ";|&(".contains(previous) => self.is_comment = true,
            (_, _) => {}
        }
    }
}

/// Appends a value so that a shell reads exactly this value at this place.
pub(super) fn push_quoted(text: &mut String, value: &str, quoting: Quoting) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match quoting {
        Quoting::None => text.push_str(value),
        Quoting::Bare if !value.is_empty() && value.bytes().all(is_plain) => text.push_str(value),
        Quoting::Bare => {
            text.push('\'');
            push_single(text, value);
            text.push('\'');
        }
        Quoting::Single => push_single(text, value),
        Quoting::Double => {
            for character in value.chars() {
                if "\\\"$`".contains(character) {
                    text.push('\\');
                }
                text.push(character);
            }
        }
    }
}

/// Inside single quotes only the quote itself is special: it is closed, escaped and opened again.
fn push_single(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\'' => text.push_str("'\\''"),
            _ => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::sweep::Value;
    use crate::template::{Mode, Scope, Template};

    /// What `/bin/sh` prints for a line with `{x}` put in.
    fn printed(line: &str, value: &str) -> String {
        let template = Template::parse(line, Mode::Shell, &["x"]).unwrap();
        let values = [Value::Text(value)];
        let rendered =
            template.render(&Scope { values: &values, index: 0, job_id: 1, job_name: "j", cores: 1 });
        let output = Command::new("/bin/sh").arg("-c").arg(&rendered).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn shell_reads_back_every_value_at_every_place() {
        let values = [
            "plain",
            "two words",
            "it's",
            "a\"b",
            "$(echo no) `echo no` $HOME",
            "back\\slash",
            "",
            "a\nb",
            "*;&|#<>~é",
        ];
        let lines = [
            "printf %s {x}",
            "printf %s '{x}'",
            "printf %s \"{x}\"",
            "printf %s\\ {x} | tail -c +2",
            "printf %s \"$(printf %s {x})\"",
            "printf %s \"$(printf %s \"{x}\")\"",
            "printf %s \"$( (printf %s '{x}') )\"",
            "# it's a \"comment\n printf %s {x}",
            "printf %s \"\\\"{x}\" | tail -c +2",
            "printf %s '\\'{x} | tail -c +2",
            "printf %s '\"'{x} | tail -c +2",
        ];
        for line in lines {
            for value in values {
                assert_eq!(printed(line, value), value, "{line}");
            }
        }
    }

    #[test]
    fn raw_values_are_read_by_the_shell() {
        assert_eq!(printed("printf %s {x:raw}", "$(echo yes)"), "yes");
    }
}
