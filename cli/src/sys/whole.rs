//! Files that are written whole or not at all: whoever looks finds the file that was there before, or all of the new one.
//! Of several commands that write one file at the same time, each writes a part of its own, and the last one that is whole
//! stays.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
};

use agent::sys::parts;
use tempfile::{Builder, TempPath};

/// Links that are followed from one to the next, as the kernel does.
const N_LINKS_MAX: usize = 40;

/// What others than the owner may do with a file before its permissions are known: nothing.
const OWN: u32 = 0o600;
/// What all may do with a new file, but for what the umask takes.
const NEW: u32 = 0o666;

/// A file on its way into its place. Dropped before [`WholeFile::finish`] it leaves nothing.
pub struct WholeFile {
    place: PathBuf,
    /// Where it is written until it is whole; removed when dropped.
    part: TempPath,
    file: File,
}

impl WholeFile {
    /// Begins a file that is to be found under this path. Where a link is, the file that it leads to is written. A file that
    /// is replaced keeps its permissions.
    ///
    /// # Errors
    /// A folder has the name, or nothing can be written beside it.
    pub fn begin(path: &Path) -> io::Result<WholeFile> {
        let place = end_of_links(path)?;
        let there = match fs::metadata(&place) {
            Ok(facts) if facts.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(facts) => Some(facts),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if place.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        parts::remove_dead(folder);
        let mode = if there.is_some() { OWN } else { NEW };
        let (mut part, prefix) = (Builder::new(), parts::prefix());
        let part = part.prefix(&prefix).permissions(PermissionsExt::from_mode(mode)).tempfile_in(folder)?;
        let (file, part) = part.into_parts();
        if let Some(there) = there {
            take_permissions(&file, &there)?;
        }
        Ok(WholeFile { place, part, file })
    }

    /// What is written so far.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Puts it into its place.
    ///
    /// # Errors
    /// It cannot be put there. Nothing of it is left.
    pub fn finish(self) -> io::Result<()> {
        self.part.persist(&self.place).map_err(|error| error.error)
    }
}

/// Writes this into a file, whole or not at all, or into a pipe or a device.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_device(path) {
        return fs::write(path, bytes);
    }
    let whole = WholeFile::begin(path)?;
    whole.file().write_all(bytes)?;
    whole.finish()
}

/// Whether a file of another name cannot take its place: a device, a pipe.
pub fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| !facts.is_file() && !facts.is_dir())
}

/// Where a path leads; nothing need be there.
fn end_of_links(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..N_LINKS_MAX {
        match fs::symlink_metadata(&place) {
            Ok(facts) if facts.is_symlink() => {
                let target = fs::read_link(&place)?;
                // An absolute one stands for itself.
                place = place.parent().unwrap_or(Path::new("")).join(target);
            }
            Ok(_) => return Ok(place),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(place),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// Gives the file the owner, the group and the permissions of another. Where the group cannot be given, ours may do nothing
/// with it.
fn take_permissions(file: &File, other: &fs::Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let mut mode = other.permissions().mode() & 0o7777;
    if own.gid() != other.gid() && fchown(file, None, Some(other.gid())).is_err() {
        mode &= !0o070;
    }
    if own.uid() != other.uid() {
        // Only root can; others leave a file of their own, as every program that replaces files does.
        let _ = fchown(file, Some(other.uid()), None);
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{ErrorKind, Write},
        os::unix::fs::{PermissionsExt, symlink},
        path::Path,
    };

    use super::{WholeFile, write};

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn link_stays_and_what_it_leads_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("real")).unwrap();
        fs::write(at("real/a.csv"), "old").unwrap();
        symlink("real/a.csv", at("near")).unwrap();
        symlink(at("near"), at("far")).unwrap();
        symlink("real/new.csv", at("open")).unwrap();
        write(&at("far"), b"new").unwrap();
        write(&at("open"), b"more").unwrap();
        assert!(["near", "far", "open"].iter().all(|name| at(name).is_symlink()));
        assert_eq!(fs::read(at("real/a.csv")).unwrap(), b"new");
        assert_eq!(fs::read(at("real/new.csv")).unwrap(), b"more");
        assert_eq!(names(&at("real")), ["a.csv", "new.csv"]);
        symlink("round", at("round")).unwrap();
        assert!(write(&at("round"), b"x").is_err());
    }

    #[test]
    fn file_that_is_replaced_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        for mode in [0o640, 0o600, 0o664, 0o444] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode);
            assert_eq!(fs::read(&path).unwrap(), b"new");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn folder_is_refused_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("d.csv")).unwrap();
        for name in ["d.csv", ".."] {
            let refused = WholeFile::begin(&folder.path().join(name)).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::IsADirectory, "{name}");
        }
        assert_eq!(names(folder.path()), ["d.csv"]);
    }

    #[test]
    fn part_goes_when_it_does_not_become_whole_or_finds_no_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let whole = WholeFile::begin(&path).unwrap();
        whole.file().write_all(b"half").unwrap();
        drop(whole);
        assert_eq!(names(folder.path()), [""; 0]);
        let whole = WholeFile::begin(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(whole.finish().is_err());
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn two_that_write_one_file_have_a_part_each_and_the_last_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let [first, second] = [(); 2].map(|()| WholeFile::begin(&path).unwrap());
        first.file().write_all(b"first").unwrap();
        second.file().write_all(b"second").unwrap();
        first.file().write_all(b", all of it").unwrap();
        second.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        first.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first, all of it");
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn parts_of_killed_commands_go_and_those_of_living_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let own = agent::sys::parts::prefix();
        let dead = own.replace(&format!("-{}-", std::process::id()), "-0-");
        for prefix in [&own, &dead] {
            fs::write(folder.path().join(format!("{prefix}0123")), "half").unwrap();
        }
        write(&folder.path().join("a.csv"), b"all").unwrap();
        assert_eq!(names(folder.path()), [format!("{own}0123"), "a.csv".into()]);
    }

    #[test]
    fn new_file_has_the_permissions_that_the_umask_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("plain"), "").unwrap();
        write(&at("whole"), b"").unwrap();
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode();
        assert_eq!(mode("whole"), mode("plain"));
    }
}
