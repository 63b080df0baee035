//! How a command ends: its exit code, and what is said when it does not succeed.

use std::{fmt, io};

use protocol::{job::Problem, net::address::shown, text::ulimits};

/// How a command ended that did what it was asked. The exit code says more to scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Fine,
    /// The command did its part, but tasks failed or were cancelled.
    TasksFailed,
    /// `store check` has found damage.
    Damaged,
    /// `wait --timeout` ended first.
    TimedOut,
    /// Ctrl-C.
    Interrupted,
}

impl Outcome {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Outcome::Fine => 0,
            Outcome::TasksFailed | Outcome::Damaged => 1,
            // As timeout(1) does.
            Outcome::TimedOut => 124,
            Outcome::Interrupted => 130,
        }
    }
}

/// The exit code after a bug of ours: what Rust itself uses for a panic.
pub const CODE_BUG: i32 = 101;
/// The exit code when something outside did not do its part.
pub const CODE_INFRASTRUCTURE: i32 = 3;

/// Why a command ended without doing what it was asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// What the user gave cannot be used: exit code 2. One line a mistake.
    BadInput(Vec<String>),
    /// A manager, a file or the machine did not do its part: exit code 3.
    Infrastructure(String),
    /// Whoever read our output has gone; nothing is left to say.
    BrokenPipe,
}

impl Failure {
    /// What it says, without the name of this program.
    pub fn message(&self) -> String {
        match self {
            Failure::BadInput(lines) => lines.join("; "),
            Failure::Infrastructure(line) => line.clone(),
            Failure::BrokenPipe => String::new(),
        }
    }

    /// One mistake of the user's: what was found and what would be right.
    pub fn bad_input(line: impl Into<String>) -> Failure {
        Failure::BadInput(vec![without_numbers(line.into())])
    }

    /// Something outside did not do its part.
    pub fn infrastructure(line: impl Into<String>) -> Failure {
        Failure::Infrastructure(ulimits::with_hint(without_numbers(line.into())))
    }

    /// A file or folder could not be used.
    pub fn file(what: &str, path: &std::path::Path, error: &io::Error) -> Failure {
        Failure::infrastructure(format!("cannot {what} {}: {}", path.display(), words(error)))
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::BadInput(_) => 2,
            Failure::Infrastructure(_) => 3,
            Failure::BrokenPipe => 0,
        }
    }
}

/// The text of a file that people give.
///
/// # Errors
/// It is not UTF-8: in which line.
pub fn utf8(bytes: Vec<u8>, path: &std::path::Path) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        let path = path.display();
        Failure::bad_input(format!("{path}: found bytes in line {line} that are not UTF-8; save it as UTF-8"))
    })
}

/// An error of the system in its own words, without Rust's "(os error 2)".
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

/// A line without the numbers of system errors, which say nothing that their words do not.
pub fn without_numbers(line: String) -> String {
    let mut kept = String::new();
    let mut rest = line.as_str();
    while let Some((before, after)) = rest.split_once(" (os error ") {
        let Some((_, behind)) = after.split_once(')') else { break };
        kept.push_str(before);
        rest = behind;
    }
    kept.push_str(rest);
    kept
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::BadInput(lines) => {
                for line in lines {
                    writeln!(f, "pilotfish: {}", shown(line))?;
                }
                Ok(())
            }
            // Whatever is wrong with an address, its password is shown to nobody.
            Failure::Infrastructure(line) => writeln!(f, "pilotfish: {}", shown(line)),
            Failure::BrokenPipe => Ok(()),
        }
    }
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Failure {
        Failure::BadInput(problems.iter().map(|problem| without_numbers(problem.to_string())).collect())
    }
}

impl From<io::Error> for Failure {
    /// For what is written to standard output; files have [`Failure::file`].
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::infrastructure(format!("cannot write the output: {}", words(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::Failure;

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let gone = Failure::from(Error::from(ErrorKind::BrokenPipe));
        assert_eq!((gone.code(), gone.to_string()), (0, String::new()));
    }

    #[test]
    fn passwords_of_addresses_are_not_shown() {
        let failure = Failure::bad_input("found `https://ann:hush@gate/x` in manager.yaml");
        assert_eq!(failure.to_string(), "pilotfish: found `https://…@gate/x` in manager.yaml\n");
        let failure = Failure::infrastructure("cannot reach https://ann:hush@gate");
        assert_eq!(failure.to_string(), "pilotfish: cannot reach https://…@gate\n");
    }

    #[test]
    fn errors_of_the_system_are_shown_without_their_number() {
        let failure = Failure::infrastructure("a: Not a directory (os error 20), b: No (os error 2) (c)");
        assert_eq!(failure.to_string(), "pilotfish: a: Not a directory, b: No (c)\n");
        let failure = Failure::from(Error::from_raw_os_error(28));
        assert_eq!(failure.to_string(), "pilotfish: cannot write the output: no space left on device\n");
    }
}
