//! Where files that tasks have left may be written on this machine: not through links, and not over files that were
//! not brought by Pilotfish.

mod record;

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent::{staging::cache::hash_of, sys::parts};
use nix::fcntl::OFlag;
use protocol::job::{manager_folder, safe_relative};
use scheduler::{
    digest::Digest,
    ids::{JobId, TaskId},
};

use crate::failure::words;
use record::{Brought, Leaver, Record};

/// The answer to whether a file may be written somewhere.
#[derive(Debug)]
pub enum Place {
    /// The file is there already, and is the same.
    Same(File),
    /// It may be written.
    Free(Spot),
}

/// A name in a folder that is held open: whatever becomes of the folder's path meanwhile, the file goes there.
#[derive(Debug)]
pub struct Spot {
    held: Arc<File>,
    name: PathBuf,
}

impl Spot {
    /// The folder, for as long as this lives.
    pub fn folder(&self) -> PathBuf {
        through(&self.held)
    }

    /// The file in it.
    pub fn path(&self) -> PathBuf {
        self.folder().join(&self.name)
    }
}

/// Folders that are held open for several files.
#[derive(Debug, Default)]
pub struct HeldFolders(HashMap<PathBuf, Arc<File>>);

impl HeldFolders {
    /// How many.
    pub fn n_open(&self) -> usize {
        self.0.len()
    }
}

/// A folder to which files are brought.
#[derive(Debug)]
pub struct Landing {
    folder: PathBuf,
    held: File,
    /// Whether files may be replaced that others have put there, or changed.
    overwrites: bool,
    /// The files that commands have brought, by their path below the folder.
    brought: Mutex<HashMap<String, Brought>>,
    record: Option<Record>,
    /// Folders below it in which it was looked for what killed commands have left.
    looked_into: Mutex<HashSet<PathBuf>>,
    /// The job whose tasks have left the files that come, and its workflow.
    job: JobId,
    workflow: Arc<str>,
}

impl Landing {
    /// The folder must be there; it may be a link itself.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(folder: &Path, overwrites: bool) -> io::Result<Landing> {
        let held = open_folder(folder, OFlag::empty())?;
        let record = Record::of(folder);
        let brought = Mutex::new(record.as_ref().map(Record::read).unwrap_or_default());
        let (job, workflow) = (JobId(0), "".into());
        let (folder, looked_into) = (folder.to_owned(), Mutex::default());
        Ok(Landing { folder, held, overwrites, brought, record, looked_into, job, workflow })
    }

    /// For files of this job's tasks. `workflow`: what is its workflow's alone, or its own if it is of none; no blanks.
    pub fn of_job(self, job: JobId, workflow: &str) -> Landing {
        Landing { job, workflow: workflow.into(), ..self }
    }

    /// The job whose files come.
    pub fn job(&self) -> JobId {
        self.job
    }

    fn leaver(&self, task: u64) -> Leaver {
        Leaver { workflow: self.workflow.clone(), task: TaskId { job: self.job, index: task } }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What may be done for a file of a task that goes to a path below the folder. Makes the folders on the way.
    ///
    /// # Errors
    /// Why it may not be written there, in words.
    pub fn place(&self, to: &str, sha256: &Digest, task: u64) -> Result<Place, String> {
        self.place_among(to, (sha256, task), &mut HeldFolders::default())
    }

    /// The same of one of several files: the folders of those before it need not be opened again.
    ///
    /// # Errors
    /// As above.
    pub fn place_among(
        &self,
        to: &str,
        (sha256, task): (&Digest, u64),
        folders: &mut HeldFolders,
    ) -> Result<Place, String> {
        // Whatever a manager says, nothing is written outside of the folder.
        let path = safe_relative(to).ok_or("it would be outside of the folder")?;
        if manager_folder(&path).is_some() {
            return Err("it would be in the folder of a manager".to_owned());
        }
        let (parents, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
        let held = match folders.0.get(parents) {
            Some(held) => Arc::clone(held),
            None => {
                let held = Arc::new(self.enter_all(parents)?);
                self.remove_dead_parts(parents, &held);
                folders.0.insert(parents.to_owned(), Arc::clone(&held));
                held
            }
        };
        let spot = Spot { held, name: PathBuf::from(name) };
        let facts = match fs::symlink_metadata(spot.path()) {
            Ok(facts) => facts,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Place::Free(spot)),
            Err(error) => return Err(self.refused(&path, &error)),
        };
        if !facts.is_file() {
            let what = if facts.is_symlink() { "a link" } else { "no file" };
            return Err(format!(
                "{} is {what}; remove it, or name another folder with --to",
                self.shown(&path)
            ));
        }
        let there = File::open(spot.path()).map_err(|error| self.refused(&path, &error))?;
        let (found, _) = hash_of(&there).map_err(|error| self.refused(&path, &error))?;
        if found == *sha256 {
            return Ok(Place::Same(there));
        }
        let by = self.leaver(task);
        let brought = self.known();
        let before = brought.get(to);
        let is_as_brought = before.is_some_and(|before| before.sha256 == found);
        if let Some(other) = before.and_then(|before| before.by.as_ref()).filter(|_| is_as_brought)
            && other.workflow == by.workflow
            && other.task != by.task
        {
            return Err(taken_by(other.task, by.task));
        }
        if self.overwrites || is_as_brought {
            return Ok(Place::Free(spot));
        }
        let why = match before.is_some() {
            true => "was changed since it was brought",
            false => "is there already, and was not brought by Pilotfish",
        };
        let shown = self.shown(&path);
        Err(format!("{shown} {why}; replace it with --overwrite, or name another folder with --to"))
    }

    /// Removes parts of files that killed commands have left in a folder below this one, once.
    fn remove_dead_parts(&self, folder: &Path, held: &File) {
        let mut looked_into = self.looked_into.lock().unwrap_or_else(PoisonError::into_inner);
        if !looked_into.contains(folder) && looked_into.insert(folder.to_owned()) {
            parts::remove_dead(&through(held));
        }
    }

    /// Opens a folder below this one. Makes it, and the folders on the way.
    fn enter_all(&self, path: &Path) -> Result<File, String> {
        let mut held = self.held.try_clone().map_err(|error| words(&error))?;
        let mut walked = PathBuf::new();
        for name in path {
            walked.push(name);
            held = enter(&held, Path::new(name)).map_err(|error| self.refused(&walked, &error))?;
        }
        Ok(held)
    }

    /// Returns when all that was written below the folder is on the disk: for many files it takes as long as for one.
    ///
    /// # Errors
    /// The disk fails.
    pub fn flush(&self) -> io::Result<()> {
        Ok(nix::unistd::syncfs(&self.held)?)
    }

    /// Whether a file that is there already, and the same as one of this task, was brought for another workflow before. The
    /// task's own must be noted then: no other task of its workflow may replace it.
    pub fn is_inherited(&self, to: &str, sha256: &Digest) -> bool {
        let is_of_other = |before: &Brought| {
            before.sha256 == *sha256 && before.by.as_ref().is_none_or(|other| other.workflow != self.workflow)
        };
        self.known().get(to).is_some_and(is_of_other)
    }

    /// Takes note of files that tasks have left and that were brought, so that later versions of them may replace them, and
    /// files of other tasks may not.
    ///
    /// # Errors
    /// It cannot be written down: they will not be replaced without being asked to.
    pub fn note(&self, brought: Vec<(String, Digest, u64)>) -> io::Result<()> {
        let of_task = |(path, sha256, task)| (path, Brought { sha256, by: Some(self.leaver(task)) });
        let brought: Vec<(String, Brought)> = brought.into_iter().map(of_task).collect();
        let noted = match self.record.as_ref().filter(|_| !brought.is_empty()) {
            Some(record) => record.add(&brought, |path| self.is_there(path)),
            None => Ok(()),
        };
        self.known().extend(brought);
        noted
    }

    /// The map is whole at any time, so a panic elsewhere does not spoil it.
    fn known(&self) -> MutexGuard<'_, HashMap<String, Brought>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something is at a path below the folder. Of what cannot be looked at nobody knows: it may be.
    fn is_there(&self, path: &str) -> bool {
        let found = fs::symlink_metadata(through(&self.held).join(path));
        let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        found.map_or_else(|error| !gone.contains(&error.kind()), |_| true)
    }

    fn refused(&self, path: &Path, error: &io::Error) -> String {
        let full = self.folder.join(path);
        match fs::symlink_metadata(&full) {
            Ok(facts) if facts.is_symlink() => format!(
                "{} is a link, and files are not brought through links; name the folder that it leads to with --to",
                self.shown(path)
            ),
            _ => format!("{}: {}", self.shown(path), words(error)),
        }
    }

    fn shown(&self, path: &Path) -> String {
        self.folder.join(path).display().to_string()
    }
}

/// Why a file of a task is not written: another one of the same job or workflow has left one of its name.
pub fn taken_by(other: TaskId, task: TaskId) -> String {
    format!(
        "task {other} has left one of that name; `pilotfish fetch {task} --to FOLDER` brings it to another folder, and a \
         parameter in `to` keeps them apart"
    )
}

/// The path that leads to an open folder.
fn through(held: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

fn open_folder(path: &Path, more: OFlag) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | more;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// Opens a folder in an open one, and makes it when it is missing. A link is none.
fn enter(held: &File, name: &Path) -> io::Result<File> {
    let path = through(held).join(name);
    match open_folder(&path, OFlag::O_NOFOLLOW) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            open_folder(&path, OFlag::O_NOFOLLOW)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::sys::hash::sha256_hex;

    fn digest(bytes: &[u8]) -> Digest {
        sha256_hex(bytes).parse().unwrap()
    }

    /// A folder whose record is beside it and not in the home folder.
    fn landing(base: &Path, overwrites: bool) -> Landing {
        let folder = base.join("home");
        fs::create_dir_all(&folder).unwrap();
        let record = Record::at(base.join("records/one"));
        Landing {
            brought: Mutex::new(record.read()),
            record: Some(record),
            ..Landing::open(&folder, overwrites).unwrap()
        }
    }

    fn write(landing: &Landing, to: &str, bytes: &[u8]) -> Result<(), String> {
        match landing.place(to, &digest(bytes), 0)? {
            Place::Same(_) if !landing.is_inherited(to, &digest(bytes)) => return Ok(()),
            Place::Same(_) => {}
            Place::Free(spot) => fs::write(spot.path(), bytes).unwrap(),
        }
        landing.note(vec![(to.to_owned(), digest(bytes), 0)]).unwrap();
        Ok(())
    }

    #[test]
    fn file_of_a_task_is_not_replaced_by_one_of_another_task_of_the_same_workflow() {
        let base = tempfile::tempdir().unwrap();
        let of = |job: u64, workflow: &str| landing(base.path(), false).of_job(JobId(job), workflow);
        write(&of(1, "1@5"), "out/f", b"p").unwrap();
        for second in [of(2, "1@5"), landing(base.path(), true).of_job(JobId(2), "1@5")] {
            let said = write(&second, "out/f", b"q").unwrap_err();
            assert!(said.contains("task 1.0 has left one of that name; `pilotfish fetch 2.0 --to"), "{said}");
        }
        write(&of(2, "1@5"), "out/f", b"p").unwrap();
        // The task runs again.
        write(&of(1, "1@5"), "out/f", b"p2").unwrap();
        write(&of(2, "1@5"), "out/f", b"p").unwrap_err();
        // The same file is run again: its first task leaves the same, and the second one must not replace it.
        write(&of(3, "3@9"), "out/f", b"p2").unwrap();
        write(&of(4, "3@9"), "out/f", b"q").unwrap_err();
        assert_eq!(fs::read(base.path().join("home/out/f")).unwrap(), b"p2");
        write(&of(6, "5@9"), "out/f", b"q").unwrap();
        write(&of(5, "5@9"), "out/f", b"p").unwrap_err();
        assert_eq!(fs::read(base.path().join("home/out/f")).unwrap(), b"q", "another job may replace it");
        // Within one fetch a later attempt replaces an earlier one.
        let once = of(5, "5@9");
        write(&once, "new", b"p").unwrap();
        write(&once, "new", b"p2").unwrap();
        assert_eq!(fs::read(base.path().join("home/new")).unwrap(), b"p2");
    }

    #[test]
    fn a_file_that_was_brought_is_replaced_and_no_other_one() {
        let base = tempfile::tempdir().unwrap();
        write(&landing(base.path(), false), "out/1.txt", b"one").unwrap();
        write(&landing(base.path(), false), "out/1.txt", b"two").unwrap();
        let path = base.path().join("home/out/1.txt");
        assert_eq!(fs::read(&path).unwrap(), b"two");
        fs::write(&path, "mine").unwrap();
        let said = write(&landing(base.path(), false), "out/1.txt", b"three").unwrap_err();
        assert!(
            said.contains("1.txt was changed since it was brought; replace it with --overwrite"),
            "{said}"
        );
        fs::write(base.path().join("home/notes"), "mine").unwrap();
        let said = write(&landing(base.path(), false), "notes", b"three").unwrap_err();
        assert!(said.contains("notes is there already, and was not brought by Pilotfish"), "{said}");
        // The same is no change.
        write(&landing(base.path(), false), "notes", b"mine").unwrap();
        write(&landing(base.path(), true), "notes", b"three").unwrap();
        write(&landing(base.path(), false), "notes", b"four").unwrap();
        assert_eq!(fs::read(base.path().join("home/notes")).unwrap(), b"four");
    }

    #[test]
    fn parts_that_killed_commands_have_left_are_removed_where_files_come() {
        let base = tempfile::tempdir().unwrap();
        let landing = landing(base.path(), false);
        let own = parts::prefix();
        let dead = own.replace(&format!("-{}-", std::process::id()), "-0-");
        fs::create_dir(base.path().join("home/out")).unwrap();
        for name in [format!("out/{own}a"), format!("out/{dead}a"), format!("{dead}a")] {
            fs::write(base.path().join("home").join(name), "").unwrap();
        }
        write(&landing, "out/1.txt", b"one").unwrap();
        let there = |name: &str| base.path().join("home").join(name).exists();
        assert!(there("out/1.txt") && there(&format!("out/{own}a")) && !there(&format!("out/{dead}a")));
        assert!(there(&format!("{dead}a")), "nothing comes there");
    }

    #[test]
    fn the_list_of_what_was_brought_forgets_files_that_are_gone() {
        let base = tempfile::tempdir().unwrap();
        let landing_in = || landing(base.path(), false);
        for n in 0..400 {
            write(&landing_in(), &format!("out/{n:0200}"), b"one").unwrap();
            if n % 2 == 0 {
                fs::remove_file(base.path().join(format!("home/out/{n:0200}"))).unwrap();
            }
        }
        let left = landing_in().brought.into_inner().unwrap();
        // What was removed since the list was last compacted may be in it still.
        assert!((200..350).contains(&left.len()), "{}", left.len());
        assert!((0..400).filter(|n| n % 2 == 1).all(|n| left.contains_key(&format!("out/{n:0200}"))));
        write(&landing_in(), &format!("out/{:0200}", 1), b"two").unwrap();
    }

    #[test]
    fn nothing_is_written_through_links_or_outside() {
        let base = tempfile::tempdir().unwrap();
        let landing = landing(base.path(), true);
        let other = base.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "mine").unwrap();
        symlink(&other, base.path().join("home/folder")).unwrap();
        symlink(other.join("file"), base.path().join("home/link")).unwrap();
        symlink("nowhere", base.path().join("home/dangling")).unwrap();
        fs::create_dir(base.path().join("home/taken")).unwrap();
        for (to, words) in [
            ("folder/new", "home/folder is a link, and files are not brought through links"),
            ("folder/deep/new", "home/folder is a link"),
            ("link", "home/link is a link; remove it"),
            ("dangling", "home/dangling is a link; remove it"),
            ("taken", "home/taken is no file"),
            ("link/x", "home/link is a link"),
            ("../other/file", "outside of the folder"),
            ("/etc/passwd", "outside of the folder"),
            ("", "outside of the folder"),
        ] {
            let said = write(&landing, to, b"evil").unwrap_err();
            assert!(said.contains(words), "{to}: {said}");
        }
        assert_eq!(fs::read(other.join("file")).unwrap(), b"mine");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_becomes_a_link_meanwhile_is_left_where_it_was() {
        let base = tempfile::tempdir().unwrap();
        let landing = landing(base.path(), false);
        let Ok(Place::Free(spot)) = landing.place("out/x", &digest(b"x"), 0) else { panic!("it is free") };
        let other = base.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::rename(base.path().join("home/out"), base.path().join("home/before")).unwrap();
        symlink(&other, base.path().join("home/out")).unwrap();
        fs::write(spot.path(), "x").unwrap();
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        assert_eq!(fs::read(base.path().join("home/before/x")).unwrap(), b"x");
    }
}
