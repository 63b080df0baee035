//! Which job a folder used last, and at which manager, so that later commands in that folder mean the same one.
//! `~/.pilotfish/.last` has one small file for each folder that jobs were submitted from. Its parts are separated by zero
//! bytes: the manager's folder, the job's number, what tells the folder from a later one at the same path, and `run` where a
//! run took the job. Where a run is kept in the folder, the same is in the run's file `last` as long as a job elsewhere was
//! used after it: it goes with a folder that is moved or copied, so that there nobody takes the run's numbers for the newest
//! ones.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use protocol::files::private;
use scheduler::ids::JobId;

use super::folders::{RUN_FOLDER, STORE_FILE, home_folder, show_path};
use crate::{
    failure::words,
    show::{self, quote::quoted},
    sys::hash::sha256_hex,
};

/// The folder of the records. No manager can have this name.
const RECORDS: &str = ".last";
/// Of a run's folder: the record that goes with it.
const BESIDE_RUN: &str = "last";
/// In a record: a run took the job.
const OF_RUN: &str = "run";
/// More records than this are not kept; the oldest go first.
const N_RECORDS_MAX: usize = 1000;

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    /// The manager's folder.
    manager: PathBuf,
    /// The job; `None`: it is not known, as in records of earlier versions.
    job: Option<JobId>,
    /// The folder that used it; `None`: it is not known, as in records of earlier versions.
    by: Option<Mark>,
    /// The manager was that of a run, which ends by itself.
    is_run: bool,
}

impl Use {
    /// Whether it was this folder, and not one that was at its path before.
    fn is_of(&self, folder: Mark) -> bool {
        self.by.is_none_or(|by| by.is_same(folder))
    }
}

/// Tells a folder from a later one at its path. Device numbers are not part of it: they change between mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    inode: u64,
    /// Nanoseconds since 1970; `None`: the file system does not say.
    born: Option<u128>,
}

impl Mark {
    fn of(folder: &Path) -> io::Result<Mark> {
        let data = fs::metadata(folder)?;
        let born = data.created().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let born = born.filter(|born| !born.is_zero()).as_ref().map(Duration::as_nanos);
        Ok(Mark { inode: data.ino(), born })
    }

    /// A new folder may have the number of a removed one, and some network file systems give numbers anew.
    fn is_same(self, other: Mark) -> bool {
        match (self.born, other.born) {
            (Some(one), Some(other)) => one == other,
            _ => self.inode == other.inode,
        }
    }

    /// `INODE` or `INODE:BORN`
    fn read(text: &str) -> Option<Mark> {
        let (inode, born) = text.split_once(':').map_or((text, None), |(inode, born)| (inode, Some(born)));
        let born = born.map(str::parse).transpose().ok()?;
        Some(Mark { inode: inode.parse().ok()?, born })
    }

    fn text(self) -> String {
        let born = self.born.map(|born| format!(":{born}")).unwrap_or_default();
        format!("{}{born}", self.inode)
    }
}

/// Which job `last` means at a manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastJob {
    /// The newest one of the manager.
    #[default]
    Newest,
    /// The newest one, though nothing is known of a job of the current folder: users are told which one it is.
    NewestOfAnyFolder,
    /// This one, which the current folder used last.
    Job(JobId),
}

/// Records that the current folder used this job last, of the manager in `manager`. Warns when that cannot
/// be recorded and later commands would mean another job.
pub fn remember(manager: &Path, job: Option<JobId>) {
    record_use(manager, job, false);
}

/// The same of a job that a run in that folder took.
pub fn remember_run(manager: &Path, job: Option<JobId>) {
    record_use(manager, job, true);
}

/// Records that the current folder used this manager last. Its last job there stays the last one.
pub fn remember_manager(manager: &Path) {
    let last = here().and_then(|here| last_use(&here));
    let is_same = |last: &Use| manager.canonicalize().is_ok_and(|manager| manager == last.manager);
    let (job, is_run) = last.filter(is_same).map_or((None, false), |last| (last.job, last.is_run));
    record_use(manager, job, is_run);
}

fn record_use(manager: &Path, job: Option<JobId>, is_run: bool) {
    let Some((here, record)) = record_of_here() else { return };
    let manager = manager.canonicalize().unwrap_or_else(|_| here.join(manager));
    let by = Mark::of(&here).ok();
    let now = Use { manager, job, by, is_run };
    let before = read(&record);
    note_beside_run(&here, &now);
    if before.as_ref() == Some(&now) {
        return;
    }
    let Err(error) = write(&record, &now, before.is_none()) else { return };
    let manager = now.manager;
    let run = here.join(RUN_FOLDER);
    let is_run = manager == run.canonicalize().unwrap_or_else(|_| run.clone());
    let is_before_of_here = before.is_some_and(|before| by.is_none_or(|here| before.is_of(here)));
    let misleads = is_before_of_here || (!is_run && run.join(STORE_FILE).is_file());
    if misleads {
        show::say(&format!(
            "warning: {} cannot be written ({}); commands about this job need its number and --dir {} here",
            show_path(&record),
            words(&error),
            quoted(&manager.display().to_string())
        ));
    }
}

/// Keeps in a run's folder that a job elsewhere was used after it.
fn note_beside_run(here: &Path, last: &Use) {
    let run = here.join(RUN_FOLDER);
    if !run.join(STORE_FILE).is_file() {
        return;
    }
    let record = run.join(BESIDE_RUN);
    // Without it commands in a copy of the folder mean the run.
    let _ = match run.canonicalize().is_ok_and(|run| run == last.manager) {
        true => fs::remove_file(record),
        false => write(&record, &Use { by: None, ..last.clone() }, false),
    };
}

/// The folder of the manager that the last job of the current folder went to, as users name it: by the home folder
/// when a name finds it there, else relative to the current folder when it is inside.
pub fn recall() -> Option<PathBuf> {
    let here = here()?;
    let manager = last_use(&here)?.manager;
    let run = PathBuf::from(RUN_FOLDER);
    if run.canonicalize().is_ok_and(|run| run == manager) {
        return Some(run);
    }
    // The record has the path without links, and many a home folder is one.
    let named = home_folder().zip(manager.file_name()).map(|(home, name)| home.join(name));
    if let Some(named) = named.filter(|named| named.canonicalize().is_ok_and(|named| named == manager)) {
        return Some(named);
    }
    match manager.strip_prefix(&here) {
        Ok(inside) if !inside.as_os_str().is_empty() => Some(inside.to_owned()),
        Ok(_) | Err(_) => Some(manager),
    }
}

/// Whether a run took the last job of the current folder.
pub fn was_a_run() -> bool {
    here().and_then(|here| last_use(&here)).is_some_and(|last| last.is_run)
}

/// Which job `last` means at the manager in `folder`, which the user has named or not.
pub fn last_job(folder: &Path, is_named: bool) -> LastJob {
    let last = here().and_then(|here| last_use(&here));
    let is_run = folder == Path::new(RUN_FOLDER);
    match last {
        Some(Use { manager, job, .. }) if folder.canonicalize().is_ok_and(|folder| folder == manager) => {
            job.map_or(LastJob::Newest, LastJob::Job)
        }
        _ if !is_named && !is_run => LastJob::NewestOfAnyFolder,
        _ => LastJob::Newest,
    }
}

/// The current folder.
fn here() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    Some(here.canonicalize().unwrap_or(here))
}

/// What the folder used last: by its own record, or by the one that came with it.
fn last_use(here: &Path) -> Option<Use> {
    let record = record_of(here)?;
    read_of(&record, here).or_else(|| read(&here.join(RUN_FOLDER).join(BESIDE_RUN)))
}

/// The current folder, and the file of its record.
fn record_of_here() -> Option<(PathBuf, PathBuf)> {
    let here = here()?;
    let record = record_of(&here)?;
    Some((here, record))
}

/// The file of a folder's record.
fn record_of(here: &Path) -> Option<PathBuf> {
    let name = sha256_hex(here.as_os_str().as_bytes());
    Some(home_folder()?.join(RECORDS).join(&name[..32]))
}

/// The last use that a record names, if it is of the folder that is `here` now.
fn read_of(record: &Path, here: &Path) -> Option<Use> {
    let last = read(record)?;
    Mark::of(here).map_or(true, |here| last.is_of(here)).then_some(last)
}

fn read(record: &Path) -> Option<Use> {
    let bytes = fs::read(record).ok()?;
    let mut parts = bytes.splitn(4, |byte| *byte == 0);
    let manager = PathBuf::from(OsStr::from_bytes(parts.next()?));
    let mut text = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let job = text().and_then(|number| number.parse().ok()).map(JobId);
    let by = text().and_then(Mark::read);
    let is_run = text() == Some(OF_RUN);
    manager.is_absolute().then_some(Use { manager, job, by, is_run })
}

/// Another command may write at the same time: each reader finds one of both whole.
fn write(record: &Path, last: &Use, is_new: bool) -> io::Result<()> {
    let folder = record.parent().unwrap_or(Path::new("."));
    private::make_folder(folder)?;
    if is_new {
        make_room(folder);
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let mut bytes = last.manager.as_os_str().as_bytes().to_vec();
    let job = last.job.map(|job| job.0.to_string());
    let by = last.by.map(Mark::text);
    let is_run = last.is_run.then(|| OF_RUN.to_owned());
    // Unknown parts at the end are not written; records of earlier versions lack them, too.
    let parts = [job, by, is_run];
    let n_known = parts.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    for part in parts.into_iter().take(n_known) {
        bytes.push(0);
        bytes.extend(part.unwrap_or_default().bytes());
    }
    io::Write::write_all(&mut file, &bytes)?;
    file.persist(record).map_err(|error| error.error)?;
    Ok(())
}

/// Removes the oldest records when there are too many.
fn make_room(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let written = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    let mut records: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter_map(|path| Some((written(&path).ok()?, path)))
        .collect();
    let n_excess = (records.len() + 1).saturating_sub(N_RECORDS_MAX);
    records.sort();
    for (_, path) in records.into_iter().take(n_excess) {
        // One that stays takes some room, and nothing else.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scheduler::ids::JobId;

    use super::{Mark, N_RECORDS_MAX, Use, read, read_of, write};

    #[test]
    fn record_is_replaced_and_the_oldest_of_too_many_goes() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..N_RECORDS_MAX {
            fs::write(folder.path().join(n.to_string()), "/old").unwrap();
        }
        let oldest = fs::File::options().write(true).open(folder.path().join("7")).unwrap();
        oldest.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let record = folder.path().join("new");
        let by = Some(Mark { inode: 5, born: Some(1_700_000_000_123_456_789) });
        let used = |manager: &str, job: Option<u64>| Use {
            manager: manager.into(),
            job: job.map(JobId),
            by,
            is_run: false,
        };
        write(&record, &used("/a", Some(1)), true).unwrap();
        write(&record, &used("/b", Some(12)), false).unwrap();
        assert_eq!(read(&record), Some(used("/b", Some(12))));
        write(&record, &used("/b", None), false).unwrap();
        assert_eq!(read(&record), Some(used("/b", None)));
        let of_run = [by, None].map(|by| Use { by, is_run: true, ..used("/b", Some(3)) });
        for of_run in of_run {
            write(&record, &of_run, false).unwrap();
            assert_eq!(read(&record), Some(of_run));
        }
        assert_eq!(read(&folder.path().join("7")), None, "the oldest is gone");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), N_RECORDS_MAX);
    }

    #[test]
    fn record_of_a_folder_that_was_removed_is_none_of_a_new_one_at_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let (here, record) = (folder.path().join("here"), folder.path().join("record"));
        fs::create_dir(&here).unwrap();
        let last = Use { manager: "/a".into(), job: Some(JobId(7)), by: Mark::of(&here).ok(), is_run: false };
        write(&record, &last, true).unwrap();
        assert_eq!(read_of(&record, &here), Some(last.clone()));
        // Renamed and back it is the same.
        fs::rename(&here, folder.path().join("there")).unwrap();
        fs::rename(folder.path().join("there"), &here).unwrap();
        assert_eq!(read_of(&record, &here), Some(last));
        // The clocks of file systems tick every few milliseconds: a folder made within a tick may be the same by all signs.
        let removed = Mark::of(&here).unwrap();
        while Mark::of(&here).unwrap() == removed {
            fs::remove_dir(&here).unwrap();
            fs::create_dir(&here).unwrap();
        }
        assert_eq!(read_of(&record, &here), None);
        // Records of earlier versions do not say which folder it was.
        for (old, job) in [("/a\x007", Some(JobId(7))), ("/a", None)] {
            fs::write(&record, old).unwrap();
            let expected = Use { manager: "/a".into(), job, by: None, is_run: false };
            assert_eq!(read_of(&record, &here), Some(expected), "{old:?}");
        }
    }

    #[test]
    fn folders_are_told_apart_by_their_birth_or_else_by_their_number() {
        let mark = |inode, born| Mark { inode, born };
        assert!(!mark(5, Some(1)).is_same(mark(5, Some(2))), "the number is in use again");
        assert!(mark(5, Some(1)).is_same(mark(6, Some(1))), "numbers are given anew");
        assert!(mark(5, None).is_same(mark(5, Some(1))) && !mark(5, None).is_same(mark(6, None)));
        for mark in [mark(5, Some(1)), mark(u64::MAX, None)] {
            assert_eq!(Mark::read(&mark.text()), Some(mark));
        }
        assert_eq!(["", "a", "5:", "5:a"].map(Mark::read), [None; 4]);
    }

    #[test]
    fn record_that_holds_no_absolute_path_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        for wrong in ["", "relative/path"] {
            fs::write(&record, wrong).unwrap();
            assert_eq!(read(&record), None, "{wrong:?}");
        }
    }
}
