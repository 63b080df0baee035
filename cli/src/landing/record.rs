//! The list of files that were brought to a folder: `~/.pilotfish/.brought` has one for each folder.
//!
//! A line for each file: its SHA-256, a blank, its path below the folder. The last line of a path counts. A line `from`
//! says which task has left the files of the lines behind it, up to the next such line. Lists of former versions have none,
//! and former versions leave them out. A list that has doubled is compacted: it is left with one line for each file that is
//! still there, after a first line that says how long it was then. Commands change lists one at a time, so none loses the
//! lines of another.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use protocol::files::private;
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
};

use crate::{access::folders::home_folder, sys::hash::sha256_hex};

/// The folder of the lists. No manager can have this name.
const FOLDER: &str = ".brought";
/// Who has locked this file in it may change lists.
const LOCK: &str = "lock";
/// Shorter lists are left alone: half a thousand lines.
const SHORT_BYTES: u64 = 64 << 10;
/// What a compacted list begins with, before its size in bytes. Older versions leave such a line out.
const COMPACTED: &str = "compacted-to-bytes ";

/// Begins the line that says who has left the files of the lines behind it: a workflow and a task, or `-`.
const FROM: &str = "from ";
/// Nobody knows who.
const NOBODY: &str = "-";

/// Who has left a file that was brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaver {
    /// The workflow of the task, or its job if that is none's: a name without blanks that no other has.
    pub workflow: Arc<str>,
    /// The task.
    pub task: TaskId,
}

/// A file that was brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Brought {
    /// What it held.
    pub sha256: Digest,
    /// Who has left it, if that is known.
    pub by: Option<Leaver>,
}

/// The list of one folder.
#[derive(Debug)]
pub struct Record(PathBuf);

impl Record {
    /// The list of a folder, if the user has a home.
    pub fn of(folder: &Path) -> Option<Record> {
        let folder = folder.canonicalize().ok()?;
        let name = sha256_hex(folder.as_os_str().as_bytes());
        Some(Record(home_folder()?.join(FOLDER).join(&name[..32])))
    }

    #[cfg(test)]
    pub fn at(path: PathBuf) -> Record {
        Record(path)
    }

    /// What was brought, by its path. Lines that are none are left out.
    pub fn read(&self) -> HashMap<String, Brought> {
        let text = fs::read(&self.0).unwrap_or_default();
        entries(&String::from_utf8_lossy(&text)).map(|(path, brought)| (path.to_owned(), brought)).collect()
    }

    /// Adds files that were brought. `is_there` says whether a file that was brought before is there still.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn add(&self, brought: &[(String, Brought)], is_there: impl Fn(&str) -> bool) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        private::make_folder(folder)?;
        let lock = private::file_options().append(true).open(folder.join(LOCK))?;
        // Where the file system has no locks, a list is not compacted: that could lose lines of another command.
        let is_alone = lock.lock().is_ok();
        let lines = lines(brought.iter().map(|(path, brought)| (path.as_str(), brought)));
        let mut file = private::file_options().append(true).open(&self.0)?;
        file.write_all(lines.as_bytes())?;
        let n_bytes = file.metadata()?.len();
        if is_alone && n_bytes > SHORT_BYTES {
            let text = fs::read(&self.0)?;
            let text = String::from_utf8_lossy(&text);
            if n_bytes > 2 * compacted_bytes(&text) {
                self.replace(&compacted(&text, is_there))?;
            }
        }
        Ok(())
    }

    /// Puts another text in the list's place, at once or not at all.
    fn replace(&self, text: &str) -> io::Result<()> {
        let draft = self.0.with_extension("new");
        let write = || {
            let mut file: File = private::file_options().write(true).truncate(true).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.0)
        };
        write().inspect_err(|_| {
            // The first error is the one to tell. The list is as it was.
            let _ = fs::remove_file(&draft);
        })
    }
}

/// The files of a list, each by its path.
fn entries(text: &str) -> impl Iterator<Item = (&str, Brought)> {
    let mut by: Option<Leaver> = None;
    text.lines().filter_map(move |line| {
        if let Some(from) = line.strip_prefix(FROM) {
            by = leaver(from, by.take());
            return None;
        }
        let (sha256, path) = line.split_once(' ')?;
        Some((path, Brought { sha256: sha256.parse().ok()?, by: by.clone() }))
    })
}

/// Who that is; `before`: who the line before named.
fn leaver(from: &str, before: Option<Leaver>) -> Option<Leaver> {
    let (workflow, task) = from.split_once(' ')?;
    let (job, index) = task.split_once('.')?;
    let task = TaskId { job: JobId(job.parse().ok()?), index: index.parse().ok()? };
    let workflow = match before.filter(|before| *before.workflow == *workflow) {
        Some(before) => before.workflow,
        None => workflow.into(),
    };
    Some(Leaver { workflow, task })
}

/// Lines for these files.
fn lines<'b>(brought: impl IntoIterator<Item = (&'b str, &'b Brought)>) -> String {
    let (mut lines, mut by) = (String::new(), &None);
    for (path, Brought { sha256, by: whose }) in brought {
        if whose != by {
            lines.push_str(&from_line(whose.as_ref()));
            by = whose;
        }
        lines.push_str(&format!("{sha256} {path}\n"));
    }
    // A former version may add lines that do not say whose they are.
    if by.is_some() {
        lines.push_str(&from_line(None));
    }
    lines
}

fn from_line(by: Option<&Leaver>) -> String {
    match by {
        Some(Leaver { workflow, task }) => format!("{FROM}{workflow} {task}\n"),
        None => format!("{FROM}{NOBODY}\n"),
    }
}

/// How long the list was when it was last compacted; 0: it never was.
fn compacted_bytes(text: &str) -> u64 {
    let first = text.lines().next().and_then(|line| line.strip_prefix(COMPACTED));
    first.and_then(|n_bytes| n_bytes.parse().ok()).unwrap_or(0)
}

/// A list with the last line of each path that is there.
fn compacted(text: &str, is_there: impl Fn(&str) -> bool) -> String {
    let last: BTreeMap<&str, Brought> = entries(text).collect();
    let lines = lines(last.iter().filter(|(path, _)| is_there(path)).map(|(path, brought)| (*path, brought)));
    format!("{COMPACTED}{}\n{lines}", lines.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn digest(n: usize) -> Digest {
        sha256_hex(n.to_string().as_bytes()).parse().unwrap()
    }

    /// Files `a/0` and so on, as they were brought the nth time.
    fn files(n_files: usize, n: usize) -> Vec<(String, Brought)> {
        (0..n_files).map(|file| (format!("a/{file}"), nobodys(digest(n + file)))).collect()
    }

    fn nobodys(sha256: Digest) -> Brought {
        Brought { sha256, by: None }
    }

    fn size(record: &Record) -> u64 {
        fs::metadata(&record.0).unwrap().len()
    }

    #[test]
    fn list_of_files_that_are_brought_again_and_again_stays_short() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::at(folder.path().join("records/one"));
        for n in 0..400 {
            record.add(&files(100, n), |_| true).unwrap();
            assert!(size(&record) < SHORT_BYTES + 100 * 80, "{} after {n} times", size(&record));
        }
        let newest: HashMap<String, Brought> = files(100, 399).into_iter().collect();
        assert_eq!(record.read(), newest, "the newest of each path, and nothing else");
        let mode = fs::metadata(&record.0).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path().join("records")).unwrap().count(), 2, "the list and the lock");
    }

    #[test]
    fn list_of_files_that_are_gone_forgets_them() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::at(folder.path().join("records/one"));
        for n in 0..2_000 {
            let name = |n: usize| format!("job-{n}/out of the task");
            record.add(&[(name(n), nobodys(digest(n)))], |path| path == name(n) || path == name(3)).unwrap();
        }
        assert!(size(&record) < SHORT_BYTES + 200, "{}", size(&record));
        assert_eq!(
            record.read().get("job-3/out of the task"),
            Some(&nobodys(digest(3))),
            "it is there still"
        );
        assert_eq!(record.read().get("job-4/out of the task"), None);
    }

    #[test]
    fn long_list_whose_files_are_all_there_is_not_written_again_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::at(folder.path().join("records/one"));
        record.add(&files(2_000, 0), |_| true).unwrap();
        let looked = std::cell::Cell::new(0_usize);
        for n in 0..100 {
            let look = |_: &str| {
                looked.set(looked.get() + 1);
                true
            };
            record.add(&[(format!("b/{n}"), nobodys(digest(n)))], look).unwrap();
        }
        assert_eq!((looked.get(), record.read().len()), (0, 2_100));
    }

    #[test]
    fn two_commands_at_once_lose_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records/one");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = path.clone();
                scope.spawn(move || {
                    let record = Record::at(path);
                    for n in 0..100 {
                        let again = (0..20).map(|file| (format!("again/{file}"), nobodys(digest(n))));
                        let own = (format!("{thread}/{n}"), nobodys(digest(n)));
                        record.add(&again.chain([own]).collect::<Vec<_>>(), |_| true).unwrap();
                    }
                });
            }
        });
        let record = Record::at(path);
        let read = record.read();
        assert_eq!(read.len(), 4 * 100 + 20, "{} bytes", size(&record));
        assert!(size(&record) < 4 * SHORT_BYTES, "it was compacted: {}", size(&record));
    }

    #[test]
    fn list_of_a_former_version_and_lines_that_are_none_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::at(folder.path().join("one"));
        fs::write(&record.0, format!("{} a b\nnonsense\n{} c\n{} c", digest(1), digest(2), digest(3)))
            .unwrap();
        let read = record.read();
        assert_eq!((read.len(), &read["a b"], &read["c"]), (2, &nobodys(digest(1)), &nobodys(digest(3))));
        let said = compacted(&fs::read_to_string(&record.0).unwrap(), |_| true);
        fs::write(&record.0, &said).unwrap();
        assert_eq!(record.read(), read);
        assert_eq!(compacted_bytes(&said), said.split_once('\n').unwrap().1.len() as u64);
    }

    #[test]
    fn list_says_which_task_has_left_each_file_also_when_it_is_compacted_and_when_former_versions_add_to_it()
    {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::at(folder.path().join("records/one"));
        let task = |workflow: &str, job: u64, index: u64| {
            Some(Leaver { workflow: workflow.into(), task: TaskId { job: JobId(job), index } })
        };
        let brought = [
            ("out/0", task("1@7", 1, 0)),
            ("out/1", task("1@7", 1, 1)),
            ("out/1b", task("1@7", 1, 1)),
            ("of nobody", None),
            ("of another", task("9@8", 9, 3)),
        ];
        let brought: Vec<(String, Brought)> =
            brought.map(|(path, by)| (path.to_owned(), Brought { sha256: digest(1), by })).into();
        record.add(&brought, |_| true).unwrap();
        // As a former version does.
        let mut text = fs::read_to_string(&record.0).unwrap();
        text.push_str(&format!("{} late\n", digest(2)));
        let mut expected: HashMap<String, Brought> = brought.into_iter().collect();
        expected.insert("late".to_owned(), nobodys(digest(2)));
        for text in [compacted(&text, |_| true), text] {
            fs::write(&record.0, text).unwrap();
            assert_eq!(record.read(), expected);
        }
        // What a former version reads.
        let text = fs::read_to_string(&record.0).unwrap();
        let former = text
            .lines()
            .filter(|line| line.split_once(' ').is_some_and(|(sha256, _)| sha256.parse::<Digest>().is_ok()));
        assert_eq!(former.count(), expected.len());
    }
}
