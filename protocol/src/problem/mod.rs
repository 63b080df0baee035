//! What is wrong with a job, said so that its author can correct it.

mod suggest;

use std::fmt;

use serde::{Deserialize, Serialize};

#[cfg(feature = "author")]
pub(crate) use suggest::called_elsewhere;
pub use suggest::nearest;

use crate::net::address;

/// One mistake: where, what was found, and what would be right.
///
/// Reads `job.yaml:7: sweep.seed.range: found step 0; the step must not be 0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The file as the user named it; absent for a job that came from elsewhere.
    pub file: Option<String>,
    /// Counted from 1.
    pub line: Option<u32>,
    /// Counted from 1, in characters.
    pub column: Option<u32>,
    /// The field, like `sweep.seed.range`; empty for the file as a whole.
    pub path: String,
    /// What was found: a fragment that follows "found". `THING, which is …` becomes the sentence `THING is …`.
    pub found: String,
    /// What would be right: a fragment that stands alone.
    pub expected: String,
}

impl Problem {
    /// A problem whose place in a file is not known, or not yet.
    pub fn new(path: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Problem {
        Problem {
            file: None,
            line: None,
            column: None,
            path: path.into(),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

impl Problem {
    /// What was found, as a sentence without an end: `program x does not exist`.
    pub fn sentence(&self) -> String {
        sentence(&self.found)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            match (self.line, self.column) {
                // A field says enough of where in the line; a mistake of the syntax has none.
                (Some(line), Some(column)) if self.path.is_empty() => write!(f, "{line}:{column}: ")?,
                (Some(line), _) => write!(f, "{line}: ")?,
                (None, _) => write!(f, " ")?,
            }
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", sentence(&self.found), self.expected)
    }
}

/// What a clause begins with that says something of what was found.
const VERBS: [&str; 12] =
    ["advances", "also", "cannot", "come", "does", "has", "is", "looks", "may", "needs", "was", "would"];

/// What was found as a sentence: `found a list`; `program x does not exist` of `the program x, which does not exist`.
pub(crate) fn sentence(found: &str) -> String {
    // A comma within a quoted text is none of ours.
    let is_outside = |text: &str| text.matches('`').count().is_multiple_of(2);
    let clause = found.match_indices(", which ").find(|(at, _)| is_outside(&found[..*at]));
    if let Some((at, comma)) = clause {
        let (thing, says) = (&found[..at], &found[at + comma.len()..]);
        if VERBS.contains(&says.split(' ').next().unwrap_or_default()) {
            return format!("{} {says}", thing.strip_prefix("the ").unwrap_or(thing));
        }
    }
    if let Some(why) = found.strip_prefix("a file that cannot be read") {
        return format!("the file cannot be read{why}");
    }
    match found {
        "no such file" => "there is no such file".to_owned(),
        found => format!("found {found}"),
    }
}

impl std::error::Error for Problem {}

/// A text as it is shown in a message: in backquotes, one line, not too long, without passwords of addresses.
pub(crate) fn quoted(text: &str) -> String {
    const N_CHARS_MAX: usize = 60;
    let text = address::shown(text);
    let mut shown = String::new();
    for character in text.chars().take(N_CHARS_MAX) {
        match character {
            control if control.is_control() => shown.extend(control.escape_default()),
            printable => shown.push(printable),
        }
    }
    let more = if text.chars().nth(N_CHARS_MAX).is_some() { "…" } else { "" };
    format!("`{shown}{more}`")
}

#[cfg(test)]
mod tests {
    use super::Problem;

    #[test]
    fn problem_is_one_sentence_of_what_was_found_and_what_would_be_right() {
        let said = |found: &str| Problem::new("f", found, "x").to_string();
        for (found, expected) in [
            ("a list", "f: found a list; x"),
            ("the program `p`, which does not exist", "f: program `p` does not exist; x"),
            ("`x`, which is not executable", "f: `x` is not executable; x"),
            ("`a, which is b`", "f: found `a, which is b`; x"),
            ("`a, which is b`, which has no end", "f: `a, which is b` has no end; x"),
            ("`x`, which looks like a secret", "f: `x` looks like a secret; x"),
            ("`a`, of which nobody knows", "f: found `a`, of which nobody knows; x"),
            ("no such file", "f: there is no such file; x"),
            ("a file that cannot be read (is a directory)", "f: the file cannot be read (is a directory); x"),
        ] {
            assert_eq!(said(found), expected);
        }
    }
}
