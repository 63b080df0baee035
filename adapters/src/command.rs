//! What adapters and transports say to each other.

use std::time::Duration;

pub use scheduler::engine::interface::QueueLoad;
use scheduler::{resources::Resources, time::Span};

/// The platform's own id of an allocation.
pub type BatchId = String;

/// The file in a pilot's folder that has what its batch job wrote.
pub const JOB_LOG: &str = "job.log";

/// What is asked of a platform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocationRequest {
    /// The name by which a listing will show it: at most 15 characters, a letter first.
    pub tag: String,
    /// How many nodes, each with an agent.
    pub n_nodes: u32,
    /// What each node must offer.
    pub capacity: Resources,
    /// How long it may run; `None`: no end.
    pub walltime: Option<Span>,
    /// The join document, a secret: for standard input or a file of mode 0600, never for arguments.
    pub join: Vec<u8>,
    /// The pilot's folder, which its nodes see; it may not exist yet.
    pub folder: String,
}

/// A command line to run where the platform is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Names the command in messages: the program it asks, and what for, like `squeue (listing jobs)`.
    pub name: String,
    /// Program and arguments. No secret may be among them: other users see them.
    pub argv: Vec<String>,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// After which it is killed and its outcome is unknown.
    pub time_limit: Duration,
}

impl Command {
    /// Runs `lines` by `/bin/sh`, in which `"$@"` are the words.
    pub fn shell(
        name: &str,
        lines: &str,
        words: impl IntoIterator<Item = String>,
        stdin: Vec<u8>,
        time_limit: Duration,
    ) -> Command {
        let shell = ["sh", "-c", lines, "sh"].map(str::to_owned);
        let argv = shell.into_iter().chain(words).collect();
        Command { name: name.to_owned(), argv, stdin, time_limit }
    }
}

/// How a command line ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// Its exit code; `None`: ended by a signal.
    pub code: Option<i32>,
    /// What it wrote, replaced where it is not UTF-8.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// Where a platform says one of our allocations is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchState {
    /// It waits.
    Queued,
    /// It runs.
    Running,
    /// It has begun and stands still, as its batch system or somebody has suspended it.
    Suspended,
    /// It has ended.
    Ended,
    /// It waits for what will never come, in the platform's words.
    Stuck(String),
    /// It came to nothing, as there was no room for it.
    NoRoom(String),
    /// A word that we do not know, kept as it is.
    Unknown(String),
}

/// One of our allocations in a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchJob {
    /// The platform's own id.
    pub id: BatchId,
    /// The tag we gave it.
    pub tag: String,
    /// Where it is.
    pub state: BatchState,
    /// How many of its tasks are there, if it is a job array.
    pub n_tasks: Option<u32>,
    /// Why it waits, or how it has ended, in the platform's words, made by [`reason`]; `None` where it runs or the
    /// listing does not say.
    pub reason: Option<String>,
}

/// Words of a platform as a reason: one line without control characters, of at most 200 characters; `None` if
/// nothing is left.
pub fn reason(words: &str) -> Option<String> {
    const CHARACTERS_MAX: usize = 200;
    let words = words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    let shown: String = match line.chars().count() > CHARACTERS_MAX {
        true => line.chars().take(CHARACTERS_MAX - 1).chain(['…']).collect(),
        false => line,
    };
    (!shown.is_empty()).then_some(shown)
}

/// Lines of a platform, or sentences, as one line: what does not end by itself is followed by `; `.
pub fn joined<'l>(lines: impl IntoIterator<Item = &'l str>) -> String {
    let mut all = String::new();
    for line in lines.into_iter().map(str::trim).filter(|line| !line.is_empty()) {
        if !all.is_empty() {
            all.push_str(if all.ends_with(['.', ':', '!', '?', ';', ',', '…']) { " " } else { "; " });
        }
        all.push_str(line);
    }
    all
}

/// A queue, partition or class, as a platform describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Whether it is used where none is named.
    pub is_default: bool,
    /// Whether it starts jobs at present.
    pub is_up: bool,
    /// The longest walltime; `None`: no limit, or none that is said.
    pub walltime_max: Option<Span>,
    /// Kinds of nodes that start jobs, or will when they are free: how many there are of each, and what one has.
    pub nodes: Vec<(u32, Resources)>,
    /// The same of those that start none until somebody mends them: down, drained, in maintenance.
    pub nodes_away: Vec<(u32, Resources)>,
}

impl Queue {
    /// Counts `n` nodes that have this.
    pub(crate) fn add(&mut self, n: u32, node: Resources, is_usable: bool) {
        let kinds = if is_usable { &mut self.nodes } else { &mut self.nodes_away };
        match kinds.iter_mut().find(|(_, known)| *known == node) {
            Some((n_known, _)) => *n_known = n_known.saturating_add(n),
            None => kinds.push((n, node)),
        }
    }

    /// Counts the nodes of another part of it.
    pub(crate) fn take_nodes(&mut self, part: Queue) {
        for (is_usable, nodes) in [(true, part.nodes), (false, part.nodes_away)] {
            nodes.into_iter().for_each(|(n, node)| self.add(n, node, is_usable));
        }
    }
}

/// What an answer means when it is not what was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdapterError {
    /// The platform said no: nothing was submitted.
    #[error("refused: {0}")]
    Refused(String),
    /// The platform takes no more jobs of the account at present: nothing was submitted, and later it may be.
    #[error("refused by a limit on jobs: {0}")]
    NoRoom(String),
    /// The answer says neither yes nor no.
    #[error("not understood: {0}")]
    NotUnderstood(String),
}

impl Output {
    /// What it said for people: standard error, else standard output, in one line of moderate length.
    pub fn words(&self) -> String {
        self.in_a_line(500)
    }

    /// The same at a length that has room for all that a site's filters say of a refusal.
    pub fn all_words(&self) -> String {
        self.in_a_line(2000)
    }

    /// The end of what it said, where more is said than has room: of what fails the last lines tell why.
    pub fn last_words(&self) -> String {
        const CHARACTERS_MAX: usize = 500;
        let all = self.in_a_line(usize::MAX);
        match all.chars().count().checked_sub(CHARACTERS_MAX) {
            None | Some(0) => all,
            Some(n_left_out) => {
                let end: String = all.chars().skip(n_left_out).collect();
                // A word of which the beginning is missing reads as another one.
                let whole = end.split_once(' ').map_or(end.as_str(), |(_, whole)| whole);
                format!("… {whole}")
            }
        }
    }

    fn in_a_line(&self, n_characters_max: usize) -> String {
        let text = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = line.chars().map(plain).take(n_characters_max).collect();
        match (shown.is_empty(), self.code) {
            (false, _) => shown,
            (true, Some(code)) => format!("exit code {code}, and no message"),
            (true, None) => "ended by a signal, and no message".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_end_by_themselves_are_followed_by_a_blank() {
        let lines =
            ["Dear user, project lab has expired.", "", " Write to help@hpc.org! ", "Why: ", "x", "refused"];
        let line = "Dear user, project lab has expired. Write to help@hpc.org! Why: x; refused";
        assert_eq!(joined(lines), line);
        assert_eq!(joined([]), "");
    }

    #[test]
    fn a_reason_is_one_short_line_without_control_characters() {
        assert_eq!(reason("Not Running:\n\tno \u{1b}[31mnodes\n"), Some("Not Running: no [31mnodes".into()));
        assert_eq!(reason(" \n\u{7} "), None);
        let long = reason(&"ü".repeat(1000)).unwrap_or_default();
        assert_eq!((long.chars().count(), long.ends_with("ü…")), (200, true));
    }
}
