//! Which job a folder used last, and at which manager, so that later commands in that folder mean the same one.
//! `~/.pilotfish/.last` has one small file for each folder that jobs were submitted from: the manager's folder,
//! and after a zero byte the job's number.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use protocol::private;
use scheduler::ids::JobId;

use super::{RUN_FOLDER, STORE_FILE, home_folder, show_path};
use crate::{failure::words, hash::sha256_hex, show, show::quote::quoted};

/// The folder of the records. No manager can have this name.
const RECORDS: &str = ".last";
/// More records than this are not kept; the oldest go first.
const N_RECORDS_MAX: usize = 1000;

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Use {
    /// The manager's folder.
    manager: PathBuf,
    /// The job; `None`: it is not known, as in records of earlier versions.
    job: Option<JobId>,
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
    let Some((here, record)) = record_of_here() else { return };
    let manager = manager.canonicalize().unwrap_or_else(|_| here.join(manager));
    let now = Use { manager, job };
    let before = read(&record);
    if before.as_ref() == Some(&now) {
        return;
    }
    let Err(error) = write(&record, &now, before.is_none()) else { return };
    let manager = now.manager;
    let run = here.join(RUN_FOLDER);
    let is_run = manager == run.canonicalize().unwrap_or_else(|_| run.clone());
    let misleads = before.is_some() || (!is_run && run.join(STORE_FILE).is_file());
    if misleads {
        show::say(&format!(
            "warning: {} cannot be written ({}); commands about this job need its number and --dir {} here",
            show_path(&record),
            words(&error),
            quoted(&manager.display().to_string())
        ));
    }
}

/// The folder of the manager that the last job of the current folder went to, relative to that when it is inside.
pub fn recall() -> Option<PathBuf> {
    let (here, record) = record_of_here()?;
    let manager = read(&record)?.manager;
    let run = PathBuf::from(RUN_FOLDER);
    if run.canonicalize().is_ok_and(|run| run == manager) {
        return Some(run);
    }
    match manager.strip_prefix(&here) {
        Ok(inside) if !inside.as_os_str().is_empty() => Some(inside.to_owned()),
        Ok(_) | Err(_) => Some(manager),
    }
}

/// Which job `last` means at the manager in `folder`, which the user has named or not.
pub fn last_job(folder: &Path, is_named: bool) -> LastJob {
    let last = record_of_here().and_then(|(_, record)| read(&record));
    let is_run = folder == Path::new(RUN_FOLDER);
    match last {
        Some(Use { manager, job }) if folder.canonicalize().is_ok_and(|folder| folder == manager) => {
            job.map_or(LastJob::Newest, LastJob::Job)
        }
        _ if !is_named && !is_run => LastJob::NewestOfAnyFolder,
        _ => LastJob::Newest,
    }
}

/// The current folder, and the file of its record.
fn record_of_here() -> Option<(PathBuf, PathBuf)> {
    let here = std::env::current_dir().ok()?;
    let here = here.canonicalize().unwrap_or(here);
    let name = sha256_hex(here.as_os_str().as_bytes());
    let record = home_folder()?.join(RECORDS).join(&name[..32]);
    Some((here, record))
}

fn read(record: &Path) -> Option<Use> {
    let bytes = fs::read(record).ok()?;
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let manager = PathBuf::from(OsStr::from_bytes(parts.next()?));
    let job = parts.next().and_then(|number| std::str::from_utf8(number).ok()?.parse().ok()).map(JobId);
    manager.is_absolute().then_some(Use { manager, job })
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
    if let Some(job) = last.job {
        bytes.push(0);
        bytes.extend(job.0.to_string().bytes());
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

    use super::{N_RECORDS_MAX, Use, read, write};

    #[test]
    fn record_is_replaced_and_the_oldest_of_too_many_goes() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..N_RECORDS_MAX {
            fs::write(folder.path().join(n.to_string()), "/old").unwrap();
        }
        let oldest = fs::File::options().write(true).open(folder.path().join("7")).unwrap();
        oldest.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let record = folder.path().join("new");
        let used = |manager: &str, job: Option<u64>| Use { manager: manager.into(), job: job.map(JobId) };
        write(&record, &used("/a", Some(1)), true).unwrap();
        write(&record, &used("/b", Some(12)), false).unwrap();
        assert_eq!(read(&record), Some(used("/b", Some(12))));
        write(&record, &used("/b", None), false).unwrap();
        assert_eq!(read(&record), Some(used("/b", None)));
        assert_eq!(read(&folder.path().join("7")), None, "the oldest is gone");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), N_RECORDS_MAX);
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
