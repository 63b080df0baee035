//! What is wrong with a job, said so that its author can correct it.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// What was found: a fragment that follows "found".
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
        write!(f, "found {}; {}", self.found, self.expected)
    }
}

impl std::error::Error for Problem {}

/// A text as it is shown in a message: in backquotes, one line, not too long, without passwords of addresses.
pub(crate) fn quoted(text: &str) -> String {
    const N_CHARS_MAX: usize = 60;
    let text = crate::address::shown(text);
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
