//! Private folders of tasks, removed afterwards.
//!
//! Removing may take long, so a thread does it. What a pilot that was killed has left is removed by
//! the next one on the same host.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
};

use crate::private;

const PREFIX: &str = "scratch-";

/// Where this pilot's scratch folders are.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    remove: Option<mpsc::Sender<PathBuf>>,
    remover: Option<thread::JoinHandle<()>>,
}

impl Scratch {
    /// Makes the root of all scratch folders in `folder`, and removes those of dead pilots of this host.
    ///
    /// # Errors
    /// The folder cannot be made, or no thread is left.
    pub fn new(folder: &Path, place: &str) -> io::Result<Scratch> {
        let prefix = format!("{PREFIX}{place}-");
        let leftovers = leftovers(folder, &prefix);
        let root = folder.join(format!("{prefix}{}", std::process::id()));
        private::make_folder(&root)?;
        let (remove, removals) = mpsc::channel::<PathBuf>();
        let remover = thread::Builder::new().name("pilotfish-clean".into()).spawn(move || {
            for path in removals {
                remove_tree(&path);
            }
        })?;
        let scratch = Scratch { root, remove: Some(remove), remover: Some(remover) };
        for leftover in leftovers {
            scratch.remove(leftover);
        }
        Ok(scratch)
    }

    /// Makes an empty folder of this name.
    ///
    /// # Errors
    /// The folder cannot be made: no space, or not ours to write in.
    pub fn make(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        private::make_folder(&path)?;
        Ok(path)
    }

    /// Removes a folder made by [`Scratch::make`], soon.
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
            // If it panicked, the root is removed all the same.
            let _ = remover.join();
        }
        remove_tree(&self.root);
    }
}

/// Roots of pilots of this host that are not there any more.
fn leftovers(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_dead = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(prefix)).and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| pid != std::process::id() && !Path::new("/proc").join(pid.to_string()).exists())
    };
    entries.filter(is_dead).map(|entry| entry.path()).collect()
}

/// Removes all that is there, also folders that a task has closed to itself.
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
    // Whatever stays closed is told when the removal fails.
    if !is_folder || fs::set_permissions(path, fs::Permissions::from_mode(0o700)).is_err() {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        open_folders(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use super::{Scratch, open_folders};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
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
    fn what_a_killed_pilot_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // Process 1 lives; 4294967295 cannot.
        for name in ["scratch-node-4294967295", "scratch-node-1", "scratch-other-4294967295", "data"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        drop(Scratch::new(folder.path(), "node").unwrap());
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, ["data", "scratch-node-1", "scratch-other-4294967295"]);
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
