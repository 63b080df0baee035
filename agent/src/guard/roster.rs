//! Lists the pilots of this host and user from /proc: guards with a tag in their arguments.

use std::{fmt, fs, path::Path};

use crate::{
    guard::keeper::{ENDING_NAME, GUARD_NAME},
    sys::private,
};

/// A pilot that runs on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The process id of its guard.
    pub pid: i32,
    /// The tag of its allocation.
    pub tag: String,
    /// Its state.
    pub state: State,
}

/// The state of a listed pilot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The pilot runs tasks or waits for tasks.
    Running,
    /// The pilot was told to end.
    Ending,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Running => "running",
            State::Ending => "ending",
        })
    }
}

/// Returns all pilots of this user; `proc`: the path of `/proc`.
pub fn pilots(proc: &Path) -> impl Iterator<Item = Listed> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    let proc = proc.to_path_buf();
    pids.into_iter().filter_map(move |pid| pilot(&proc, pid))
}

/// Returns the pilot whose guard has this process id; `None` if there is none, or it is another user's.
pub fn pilot(proc: &Path, pid: i32) -> Option<Listed> {
    let folder = proc.join(pid.to_string());
    // The directory itself belongs to root if the process's memory is hidden.
    if user_of(&fs::read_to_string(folder.join("status")).ok()?)? != private::user() {
        return None;
    }
    let state = match fs::read_to_string(folder.join("comm")).ok()?.trim() {
        GUARD_NAME => State::Running,
        ENDING_NAME => State::Ending,
        _ => return None,
    };
    let arguments = fs::read(folder.join("cmdline")).ok()?;
    let tag = tag_among(&arguments)?;
    Some(Listed { pid, tag, state })
}

/// Returns the effective user id from the text of `status`; `Uid:` has real, effective, saved and file system
/// ids.
fn user_of(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// Returns whether the process is gone, or is a zombie.
pub fn has_ended(proc: &Path, pid: i32) -> bool {
    let status = fs::read_to_string(proc.join(pid.to_string()).join("status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("X");
    state.trim_start().starts_with(['Z', 'X'])
}

/// Returns the value of `--tag` in NUL-separated arguments.
fn tag_among(arguments: &[u8]) -> Option<String> {
    let mut words = arguments.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    while let Some(word) = words.next() {
        if word == "--tag" {
            return words.next().map(|tag| tag.into_owned());
        }
        if let Some(tag) = word.strip_prefix("--tag=") {
            return Some(tag.to_string());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Listed, State, pilot, pilots, tag_among};
    use crate::sys::private;

    fn process(proc: &Path, pid: i32, comm: &str, arguments: &str) {
        let folder = proc.join(pid.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("comm"), format!("{comm}\n")).unwrap();
        fs::write(folder.join("cmdline"), arguments.replace(' ', "\0")).unwrap();
        let user = private::user();
        fs::write(folder.join("status"), format!("Name:\t{comm}\nUid:\t0\t{user}\t0\t0\n")).unwrap();
    }

    #[test]
    fn only_guards_with_a_tag_are_pilots() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 9, "pilotfish-guard", "pilotfish-agent run --join - --tag pf-b");
        process(proc.path(), 3, "pilotfish-drain", "pilotfish agent run --tag=pf-a --join x");
        process(proc.path(), 4, "pilotfish-pilot", "pilotfish-agent run --join - --tag pf-b");
        process(proc.path(), 5, "bash", "bash --tag pf-c");
        process(proc.path(), 6, "pilotfish-guard", "pilotfish-agent run --join x");
        fs::create_dir(proc.path().join("self")).unwrap();
        process(proc.path(), 7, "pilotfish-guard", "pilotfish-agent run --join - --tag pf-d");
        let others = format!("Uid:\t0\t{}\t0\t0\n", private::user() + 1);
        fs::write(proc.path().join("7/status"), others).unwrap();
        let expected = [
            Listed { pid: 3, tag: "pf-a".into(), state: State::Ending },
            Listed { pid: 9, tag: "pf-b".into(), state: State::Running },
        ];
        assert_eq!(pilots(proc.path()).collect::<Vec<_>>(), expected);
        assert_eq!(pilot(proc.path(), 5), None);
    }

    #[test]
    fn tag_without_value_is_none() {
        assert_eq!(tag_among(b"a\0--tag"), None);
        assert_eq!(tag_among(b"a\0--tag\0b\0"), Some("b".into()));
    }
}
