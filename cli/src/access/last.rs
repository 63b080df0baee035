//! Which manager the last job of a folder went to, so that later commands in that folder mean the same one.
//! `~/.pilotfish/.last` has one small file for each folder that jobs were submitted from.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use protocol::private;

use super::{RUN_FOLDER, STORE_FILE, home_folder, show_path};
use crate::{failure::words, hash::sha256_hex, show, show::quote::quoted};

/// The folder of the records. No manager can have this name.
const RECORDS: &str = ".last";
/// More records than this are not kept; the oldest go first.
const N_RECORDS_MAX: usize = 1000;

/// Records that the last job of the current folder went to the manager in `manager`. Warns when that cannot
/// be recorded and later commands would mean another manager.
pub fn remember(manager: &Path) {
    let Some((here, record)) = record_of_here() else { return };
    let manager = manager.canonicalize().unwrap_or_else(|_| here.join(manager));
    let before = read(&record);
    if before.as_ref() == Some(&manager) {
        return;
    }
    let Err(error) = write(&record, &manager, before.is_none()) else { return };
    let run = here.join(RUN_FOLDER);
    let is_run = manager == run.canonicalize().unwrap_or_else(|_| run.clone());
    let misleads = before.is_some() || (!is_run && run.join(STORE_FILE).is_file());
    if misleads {
        show::say(&format!(
            "warning: {} cannot be written ({}); commands about this job need --dir {} here",
            show_path(&record),
            words(&error),
            quoted(&manager.display().to_string())
        ));
    }
}

/// The folder of the manager that the last job of the current folder went to, relative to that when it is inside.
pub fn recall() -> Option<PathBuf> {
    let (here, record) = record_of_here()?;
    let manager = read(&record)?;
    let run = PathBuf::from(RUN_FOLDER);
    if run.canonicalize().is_ok_and(|run| run == manager) {
        return Some(run);
    }
    match manager.strip_prefix(&here) {
        Ok(inside) if !inside.as_os_str().is_empty() => Some(inside.to_owned()),
        Ok(_) | Err(_) => Some(manager),
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

fn read(record: &Path) -> Option<PathBuf> {
    let bytes = fs::read(record).ok()?;
    let path = PathBuf::from(OsStr::from_bytes(&bytes));
    path.is_absolute().then_some(path)
}

/// Another command may write at the same time: each reader finds one of both whole.
fn write(record: &Path, manager: &Path, is_new: bool) -> io::Result<()> {
    let folder = record.parent().unwrap_or(Path::new("."));
    private::make_folder(folder)?;
    if is_new {
        make_room(folder);
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, manager.as_os_str().as_bytes())?;
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
    use std::{fs, path::Path};

    use super::{N_RECORDS_MAX, read, write};

    #[test]
    fn record_is_replaced_and_the_oldest_of_too_many_goes() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..N_RECORDS_MAX {
            fs::write(folder.path().join(n.to_string()), "/old").unwrap();
        }
        let oldest = fs::File::options().write(true).open(folder.path().join("7")).unwrap();
        oldest.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let record = folder.path().join("new");
        write(&record, Path::new("/a"), true).unwrap();
        write(&record, Path::new("/b"), false).unwrap();
        assert_eq!(read(&record).as_deref(), Some(Path::new("/b")));
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
