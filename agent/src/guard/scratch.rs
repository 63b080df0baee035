//! Scratch directories of tasks, which are removed afterwards.
//!
//! A thread removes them, because that may take long. The guard removes the directories of a killed pilot; if
//! the guard was killed too, the next pilot on the same host does. This matters because input files in them
//! are links to the node's cache, which keeps these files. All pilots of a platform have their root
//! directories side by side, so that one search finds all leftovers, after any number of pilots.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        mpsc::{self, Receiver, TryRecvError},
    },
    thread,
};

use crate::{
    guard::{keeper::worker, leftovers},
    session::client::random,
    sys::private,
};

const PREFIX: &str = "scratch-";
/// A file in each root: it names the processes that use the root, and is locked while its pilot lives.
const KEEPERS: &str = "keepers";

/// The root of this pilot's scratch directories.
#[derive(Debug)]
pub struct Scratch {
    /// Created with the first scratch directory.
    root: PathBuf,
    keepers: OnceLock<File>,
    remove: Option<mpsc::Sender<PathBuf>>,
    remover: Option<thread::JoinHandle<()>>,
}

impl Scratch {
    /// Returns the root for the pilot with this folder. Has the leftovers of dead pilots of this host
    /// removed.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn new(folder: &Path, place: &str) -> io::Result<Scratch> {
        let (around, place) = (around(folder).to_owned(), place.to_owned());
        let name = format!("{PREFIX}{place}-{}-{:08x}", std::process::id(), random() >> 32);
        let root = around.join(name);
        let (remove, removals) = mpsc::channel::<PathBuf>();
        let remover = thread::Builder::new().name("pilotfish-clean".into()).spawn(move || {
            sweep(&around, &place, &removals);
            for path in removals {
                remove_tree(&path);
            }
        })?;
        Ok(Scratch { root, keepers: OnceLock::new(), remove: Some(remove), remover: Some(remover) })
    }

    /// Creates an empty directory of this name.
    ///
    /// # Errors
    /// The directory cannot be created: there is no space or no permission.
    pub fn make(&self, name: &str) -> io::Result<PathBuf> {
        if self.keepers.get().is_none() {
            private::make_folder(&self.root)?;
            let keepers = keep(&self.root)?;
            self.keepers.get_or_init(|| keepers);
            worker::leave_to_guard(&self.root);
        }
        let path = self.root.join(name);
        private::make_folder(&path)?;
        Ok(path)
    }

    /// Removes a directory of [`Scratch::make`] soon.
    pub fn remove(&self, path: PathBuf) {
        if let Some(remove) = &self.remove {
            // Without the thread it is removed with the root at the end.
            let _ = remove.send(path);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove = None;
        if let Some(remover) = self.remover.take() {
            // After a panic the root is removed all the same.
            let _ = remover.join();
        }
        // Network file systems keep an open file, and with it the directory.
        drop(self.keepers.take());
        remove_root(&self.root);
    }
}

/// Removes an unused root. The keepers' file goes last, so that a root that is left in between is found
/// again.
pub(crate) fn remove_root(root: &Path) {
    task_folders(root).for_each(|folder| remove_tree(&folder));
    remove_tree(root);
}

fn task_folders(root: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name() != KEEPERS).map(|entry| entry.path())
}

/// Returns the directory of the roots: the parent of the pilot's folder if the folder is named by a tag, as
/// for all pilots of its platform; else the folder itself.
fn around(folder: &Path) -> &Path {
    let is_of_tag = folder.file_name().and_then(OsStr::to_str).is_some_and(is_tag);
    folder.parent().filter(|_| is_of_tag).unwrap_or(folder)
}

/// Returns whether a name is a manager's tag, like `pf12ab-34`: the numbers of its store and of the
/// allocation.
fn is_tag(name: &str) -> bool {
    let numbers = name.strip_prefix("pf").and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(store, allocation)| {
        u64::from_str_radix(store, 16).is_ok() && allocation.parse::<u64>().is_ok()
    })
}

/// Writes the keepers' file of a new root and locks it. If that fails, only this pilot will remove the root.
fn keep(root: &Path) -> io::Result<File> {
    let mut file = private::file_options().write(true).open(root.join(KEEPERS)).inspect_err(|_| {
        // Nothing would name its pilot. If it stays, it is empty.
        let _ = fs::remove_dir(root);
    })?;
    // The lock comes first: a root with an empty file is left alone, and an unlocked one might not be.
    private::lock_patiently(&file);
    let keepers = leftovers::keepers(worker::living_guard()).unwrap_or_default();
    // A full disk is no reason to stop.
    let _ = file.write_all(keepers.as_bytes());
    Ok(file)
}

/// Removes the roots of dead pilots of this host, and in between the directories that this pilot wants
/// removed, because its tasks need the space. Ends early when the pilot ends; the next pilot removes the
/// rest.
fn sweep(around: &Path, place: &str, removals: &Receiver<PathBuf>) {
    for (root, is_of_place) in roots_of_host(around, place) {
        let Some(keepers) = take_over(&root, is_of_place) else { continue };
        tracing::info!(path = %root.display(), "removing what a killed pilot has left");
        for folder in task_folders(&root) {
            if !remove_wanted(removals) {
                return;
            }
            remove_tree(&folder);
        }
        // Network file systems keep an open file, and with it the directory.
        drop(keepers);
        remove_tree(&root);
    }
}

/// Removes the requested directories; returns false if no more requests can come.
fn remove_wanted(removals: &Receiver<PathBuf>) -> bool {
    loop {
        match removals.try_recv() {
            Ok(path) => remove_tree(&path),
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

/// Returns this user's roots whose names are of this host, and whether they are also of this place.
fn roots_of_host(around: &Path, place: &str) -> Vec<(PathBuf, bool)> {
    let user = private::user();
    let root = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let named = place_of(name.to_str()?).filter(|named| host(named) == host(place))?;
        // These are facts about a symbolic link itself, because its target is not ours.
        let facts = entry.metadata().ok()?;
        (facts.is_dir() && facts.uid() == user).then(|| (entry.path(), named == place))
    };
    fs::read_dir(around).into_iter().flatten().flatten().filter_map(root).collect()
}

/// Returns the place in a root's name, which is `scratch-PLACE-PID-NUMBER`.
fn place_of(name: &str) -> Option<&str> {
    let mut parts = name.strip_prefix(PREFIX)?.rsplitn(3, '-');
    let (number, pid, place) = (parts.next()?, parts.next()?, parts.next()?);
    let is_root = u32::from_str_radix(number, 16).is_ok() && pid.parse::<u32>().is_ok();
    is_root.then_some(place)
}

/// Returns a place without the node's number in its job: the next job may give this host another number.
fn host(place: &str) -> &str {
    let numbered = place.rsplit_once('.').filter(|(_, number)| number.parse::<u32>().is_ok());
    numbered.map_or(place, |(host, _)| host)
}

/// Locks a root against other removers, if its pilot is dead. The keepers' processes decide that if they are
/// of this boot and container. Otherwise the kernel does, which has released the lock; this counts only if no
/// other host may have the same name and if locks work.
fn take_over(root: &Path, is_of_place: bool) -> Option<File> {
    let mut file = open_keepers(root).filter(private::lock)?;
    let mut keepers = String::new();
    file.read_to_string(&mut keepers).ok()?;
    let has_locks = || open_keepers(root).is_some_and(|again| !private::lock(&again));
    let is_let_go = || is_of_place && !keepers.is_empty() && has_locks();
    leftovers::are_dead(&keepers).unwrap_or_else(is_let_go).then_some(file)
}

fn open_keepers(root: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(root.join(KEEPERS)).ok()
}

/// Removes a tree, also directories without permissions.
fn remove_tree(path: &Path) {
    let result = fs::remove_dir_all(path).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            open_folders(path);
            fs::remove_dir_all(path)
        }
        _ => Err(error),
    });
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, path = %path.display(), "a scratch folder could not be removed");
        }
        _ => {}
    }
}

fn open_folders(path: &Path) {
    let is_folder = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
    // If a directory stays closed, the removal fails and reports it.
    if !is_folder || fs::set_permissions(path, fs::Permissions::from_mode(0o700)).is_err() {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_folders(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::{PermissionsExt, symlink},
        path::{Path, PathBuf},
        sync::mpsc,
        time::{Duration, Instant},
    };

    use super::{Scratch, open_folders, open_keepers, place_of, sweep};
    use crate::{guard::leftovers, sys::private};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns keepers of this boot and container: this process, and an earlier one with its pid.
    fn keepers() -> (String, String) {
        let living = leftovers::keepers(None).unwrap();
        let (before, start) = living.rsplit_once(':').unwrap();
        let dead = format!("{before}:{}", start.parse::<u64>().unwrap() + 1);
        (living, dead)
    }

    /// Creates a root with a task's directory and these keepers.
    fn root(folder: &Path, name: &str, keepers: &str) -> PathBuf {
        let root = folder.join(name);
        fs::create_dir_all(root.join("1.0/in")).unwrap();
        fs::write(root.join("keepers"), keepers).unwrap();
        root
    }

    /// Locks a root like a living pilot.
    fn locked(root: &Path) -> File {
        open_keepers(root).filter(private::lock).unwrap()
    }

    #[test]
    fn nothing_is_left_of_scratch_folders() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(folder.path(), "node").unwrap();
        let first = scratch.make("1.0").unwrap();
        fs::create_dir_all(first.join("a/b")).unwrap();
        fs::write(first.join("a/b/c"), "x").unwrap();
        let second = scratch.make("1.1").unwrap();
        assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o700);
        scratch.remove(first);
        drop(scratch);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn roots_are_beside_the_folders_of_a_platforms_pilots_and_else_in_the_pilots_own() {
        let folder = tempfile::tempdir().unwrap();
        for (own, around) in [("pf12ab-34", ""), ("pf-1", "pf-1"), ("pf1-", "pf1-"), ("mine", "mine")] {
            let scratch = Scratch::new(&folder.path().join(own), "node").unwrap();
            let made = scratch.make("1.0").unwrap();
            assert_eq!(made, scratch.root.join("1.0"));
            assert_eq!(scratch.root.parent().unwrap(), folder.path().join(around));
            assert_eq!(place_of(scratch.root.file_name().unwrap().to_str().unwrap()), Some("node"));
            let keepers = fs::read_to_string(scratch.root.join("keepers")).unwrap();
            assert_eq!(leftovers::are_dead(&keepers), Some(false));
            assert!(!private::lock(&open_keepers(&scratch.root).unwrap()), "it is held");
        }
    }

    #[test]
    fn what_a_killed_pilot_left_is_removed_and_nothing_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (living, dead) = keepers();
        let make = |name: &str, keepers: &str| root(folder.path(), name, keepers);
        let left = make("scratch-node-7-00000001", &dead);
        fs::create_dir(folder.path().join("data")).unwrap();
        fs::write(folder.path().join("data/kept"), "x").unwrap();
        symlink(folder.path().join("data"), left.join("1.0/in/data")).unwrap();
        symlink(folder.path().join("data"), left.join("data")).unwrap();
        make("scratch-node.1-7-00000001", &dead);
        make("scratch-node-7-00000002", "another boot of this host/1/7:7");
        let held = [("scratch-node-7-00000003", &dead[..]), ("scratch-node-7-00000004", "a container/1/7:7")];
        let _locks = held.map(|(name, keepers)| locked(&make(name, keepers)));
        make("scratch-node-7-00000005", &living);
        make("scratch-node-7-00000006", "");
        make("scratch-node.1-7-00000007", "another boot of this host/1/7:7");
        make("scratch-other-7-00000008", &dead);
        make("scratch-node-9-7-00000009", &dead);
        make("scratch-node-7", &dead);
        make("elsewhere", &dead);
        symlink(folder.path().join("elsewhere"), folder.path().join("scratch-node-7-0000000a")).unwrap();
        let gone = ["scratch-node-7-00000001", "scratch-node.1-7-00000001", "scratch-node-7-00000002"];
        let mut expected = names(folder.path());
        expected.retain(|name| !gone.contains(&name.as_str()));
        let (_remove, removals) = mpsc::channel();
        sweep(folder.path(), "node", &removals);
        assert_eq!(names(folder.path()), expected);
        let kept = ["elsewhere/1.0/in", "data/kept", "scratch-node-7-00000005/1.0/in"];
        assert!(kept.iter().all(|path| folder.path().join(path).exists()));
    }

    #[test]
    fn what_the_pilot_wants_removed_does_not_wait_nor_does_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let left = root(folder.path(), "scratch-node-7-00000001", &keepers().1);
        let wanted = root(folder.path(), "wanted", "");
        let (remove, removals) = mpsc::channel();
        remove.send(wanted.clone()).unwrap();
        drop(remove);
        sweep(folder.path(), "node", &removals);
        assert!(!wanted.exists());
        assert_eq!(names(&left), ["1.0", "keepers"], "for the next pilot");
    }

    #[test]
    fn a_new_pilot_removes_what_a_killed_one_has_left_beside_its_work() {
        let folder = tempfile::tempdir().unwrap();
        let left = root(folder.path(), "scratch-node-7-00000001", &keepers().1);
        let scratch = Scratch::new(&folder.path().join("pf1-2"), "node").unwrap();
        let begun = Instant::now();
        while left.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
            std::thread::yield_now();
        }
        drop(scratch);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn closed_folders_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let closed = folder.path().join("closed");
        fs::create_dir_all(closed.join("inner")).unwrap();
        fs::set_permissions(closed.join("inner"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        open_folders(&closed);
        assert_eq!(fs::metadata(closed.join("inner")).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
