//! Puts files from the cache into a task's folder, and from there onto shared file systems.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use scheduler::digest::Digest;

use super::cache::{OBJECT_MODE, mark};
use crate::{
    session::client::random,
    sys::{parts, private, sha256},
};

/// Bytes that are copied between two checks whether the file is still wanted.
const PIECE_BYTES: u64 = 64 << 20;

/// Largest file of which each task of root gets a copy; copies of larger files would fill disks.
const COPIED_FOR_ROOT_MAX: u64 = 16 << 20;

/// A flag that stops work on a file because nobody wants it any more.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Sets the flag.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Checks the flag.
    ///
    /// # Errors
    /// The flag is set.
    pub fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(io::Error::other("it is not wanted any more")),
            false => Ok(()),
        }
    }
}

/// Puts a file of the cache into a task's folder, which the task cannot write: by a hard link, or by a
/// symbolic link if the file systems differ.
///
/// # Errors
/// The folder cannot be written, or the work was stopped.
pub fn link(object: &Path, target: &Path, stop: &Stop) -> io::Result<()> {
    // The task's folder may be gone.
    stop.check()?;
    make_parent(target)?;
    match fs::hard_link(object, target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Another file system, too many names, or a file system without hard links.
        Err(_) => symlink(object, target),
        Ok(()) => Ok(()),
    }
}

/// Puts a file of the cache into a task's folder for reading: by `share`, or by a copy if this process runs
/// as root and the file is small. Root can write to read-only files, and other tasks use the same file.
///
/// # Errors
/// The errors of [`copy`] and `share`.
pub fn give(
    object: &Path,
    target: &Path,
    stop: &Stop,
    share: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    give_to(private::user(), (object, target), stop, share)
}

fn give_to(
    user: u32,
    (object, target): (&Path, &Path),
    stop: &Stop,
    share: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    if user != 0 || fs::metadata(object)?.len() > COPIED_FOR_ROOT_MAX {
        return share(object, target);
    }
    copy(object, target, stop)?;
    fs::set_permissions(target, fs::Permissions::from_mode(OBJECT_MODE))?;
    // Without the mark the file would count as changed, and patterns of outputs would match it.
    let _ = File::open(target).and_then(|file| file.set_modified(mark()));
    Ok(())
}

/// Puts a writable copy of a file into a task's folder; unchanged blocks are shared if the file system can do
/// that. The copy is complete or does not exist.
///
/// # Errors
/// The disk fails or is full, or the work was stopped.
pub fn copy(object: &Path, target: &Path, stop: &Stop) -> io::Result<()> {
    stop.check()?;
    make_parent(target)?;
    let from = File::open(object)?;
    let to = OpenOptions::new().write(true).create_new(true).mode(0o700).open(target)?;
    let copied = copy_contents(&from, &to, stop);
    if copied.is_err() {
        // A copy that stays goes with the task's folder.
        let _ = fs::remove_file(target);
    }
    copied
}

fn copy_contents(from: &File, mut to: &File, stop: &Stop) -> io::Result<()> {
    // SAFETY: both descriptors are open files of ours.
    if unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) } == 0 {
        return Ok(());
    }
    while io::copy(&mut from.take(PIECE_BYTES), &mut to)? > 0 {
        stop.check()?;
    }
    Ok(())
}

/// Links a file of a shared file system into a task's folder.
///
/// # Errors
/// The file does not exist, or the folder cannot be written.
pub fn share(path: &Path, target: &Path) -> io::Result<()> {
    fs::metadata(path)?;
    make_parent(target)?;
    symlink(path, target)
}

fn make_parent(target: &Path) -> io::Result<()> {
    target.parent().map_or(Ok(()), private::make_folder)
}

/// Copies a file to a shared file system; under its name it is complete or does not exist. Returns its digest
/// and size. `is_executable` decides by the digest.
///
/// # Errors
/// A file cannot be read or written, or the work was stopped.
pub fn deliver(
    from: &Path,
    to: &Path,
    stop: &Stop,
    is_executable: impl FnOnce(&Digest) -> bool,
) -> io::Result<(Digest, u64)> {
    if !to.is_absolute() {
        // The file would go to the pilot's working directory, which is removed.
        let why = "its path is not absolute: nodes know no base folder";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let folder = to.parent().unwrap_or(Path::new("/"));
    // Created with the default permissions, because other users may read it.
    fs::create_dir_all(folder)?;
    let part = Beside(folder.join(format!("{}{:016x}", parts::prefix(), random())));
    let mut source = File::open(from)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(&part.0)?;
    let mut hash = sha256::begin();
    let (mut piece, mut n_bytes) = (vec![0; 128 << 10], 0);
    loop {
        stop.check()?;
        match source.read(&mut piece)? {
            0 => break,
            n => {
                hash.update(&piece[..n]);
                file.write_all(&piece[..n])?;
                n_bytes += n as u64;
            }
        }
    }
    let sha256 = sha256::finished(hash);
    if is_executable(&sha256) {
        let mode = executable(file.metadata()?.permissions().mode());
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    file.sync_all()?;
    // The flush may have taken long, and another pilot may have delivered the file since.
    stop.check()?;
    fs::rename(&part.0, to)?;
    Ok((sha256, n_bytes))
}

/// Returns permissions with execute permission for all who may read the file.
pub fn executable(mode: u32) -> u32 {
    mode | (mode & 0o444) >> 2
}

/// An incomplete file.
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // A complete file has its final name by now.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        io::Write,
        os::unix::fs::MetadataExt,
        thread,
    };

    use super::{COPIED_FOR_ROOT_MAX, Stop, copy, deliver, executable, give_to, link, share};
    use crate::{
        staging::cache::{OBJECT_MODE, is_marked},
        sys::opened::testing::make_pipe,
    };

    #[test]
    fn what_a_task_may_change_is_its_own_and_the_rest_is_shared() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("object"), "abc").unwrap();
        let stop = Stop::default();
        link(&at("object"), &at("task/in/a"), &stop).unwrap();
        assert_eq!(fs::metadata(at("object")).unwrap().nlink(), 2);
        copy(&at("object"), &at("task/b"), &stop).unwrap();
        fs::write(at("task/b"), "xyz").unwrap();
        assert_eq!(fs::read_to_string(at("object")).unwrap(), "abc");
        share(&at("object"), &at("task/c")).unwrap();
        assert!(at("task/c").is_symlink());
        assert!(share(&at("nowhere"), &at("task/d")).is_err());
    }

    #[test]
    fn tasks_of_root_have_small_files_of_their_own_and_those_of_others_share_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("object"), "abc").unwrap();
        fs::File::create(at("large")).unwrap().set_len(COPIED_FOR_ROOT_MAX + 1).unwrap();
        let n_names = |name: &str| fs::metadata(at(name)).unwrap().nlink();
        let stop = Stop::default();
        for (user, target, from, n) in [(0, "a", "object", 1), (0, "b", "large", 2), (1000, "c", "object", 2)]
        {
            give_to(user, (&at(from), &at(target)), &stop, |from, to| link(from, to, &stop)).unwrap();
            assert_eq!(n_names(from), n, "{user} {target}");
        }
        fs::write(at("object"), "spoilt").unwrap();
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "abc");
        let facts = fs::metadata(at("a")).unwrap();
        assert_eq!(facts.mode() & 0o777, OBJECT_MODE);
        assert!(is_marked(&facts));
    }

    #[test]
    fn what_is_delivered_is_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("out"), "abc").unwrap();
        for n in 0..2 {
            let (sha256, n_bytes) =
                deliver(&at("out"), &at("shared/results/1"), &Stop::default(), |_| n == 1).unwrap();
            assert_eq!(n_bytes, 3);
            let mode = fs::metadata(at("shared/results/1")).unwrap().mode();
            assert_eq!(mode & 0o111 != 0, n == 1, "{mode:o}");
            assert_eq!(mode, if n == 1 { executable(mode) } else { mode });
            assert!(sha256.to_string().starts_with("ba7816bf"));
        }
        assert_eq!(fs::read_dir(at("shared/results")).unwrap().count(), 1);
        let relative = std::path::Path::new("scratch/ada/1");
        let refused = deliver(&at("out"), relative, &Stop::default(), |_| false).unwrap_err();
        assert!(refused.to_string().contains("is not absolute"), "{refused}");
        assert!(!relative.exists());
        assert!(deliver(&at("missing"), &at("shared/results/2"), &Stop::default(), |_| false).is_err());
        assert_eq!(fs::read_dir(at("shared/results")).unwrap().count(), 1);
    }

    /// A full pipe: the copy is in the middle of the file when its reader blocks.
    #[test]
    fn of_what_is_not_wanted_any_more_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["copied", "delivered"] {
            let (pipe, target, stop) =
                (at(&format!("{name}-from")), at(&format!("{name}/to")), Stop::default());
            make_pipe(&pipe);
            let result = thread::scope(|scope| {
                let work = scope.spawn(|| match name {
                    "copied" => copy(&pipe, &target, &stop),
                    _ => deliver(&pipe, &target, &stop, |_| false).map(drop),
                });
                let mut writer = OpenOptions::new().write(true).open(&pipe).unwrap();
                writer.write_all(&vec![7; 1 << 20]).unwrap();
                stop.set();
                drop(writer);
                work.join().unwrap()
            });
            assert_eq!(result.unwrap_err().to_string(), "it is not wanted any more", "{name}");
            assert_eq!(fs::read_dir(at(name)).unwrap().count(), 0, "{name}");
        }
    }
}
