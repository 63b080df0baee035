//! The contents of files beside a store, looked at by what the store says of them: whether each is there, and how long.

use std::{
    fs::{self, Metadata},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use protocol::job::JobSpec;
use rusqlite::Connection;
use scheduler::{digest::Digest, engine::state::durable::Durable};

use crate::store::{Access, FILE, StoreError, at_rest, connect, error::Fault, left::files, replay};

/// The folder beside `objects` in `files`.
const BESIDE: [&str; 4] = ["objects", "incoming", "rotten", "owners"];

/// The result of a check of the contents of files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// How many files were looked for: outputs of tasks that are kept here, and inputs of jobs that are not over.
    pub n_files: u64,
    /// Files that are missing or have another size.
    pub found: Vec<String>,
    /// Files that no manager has put there.
    pub strangers: Vec<String>,
}

/// Looks for the contents that a whole store in a folder knows of, also while its manager runs. Finds `n_max` things of a
/// kind at most. Reads no contents and changes nothing.
///
/// Errors: the store cannot be read. Cost: a reading of the store, and a look at the disk for each file.
pub fn check_kept(folder: &Path, n_max: usize) -> Result<Kept, StoreError> {
    let path = folder.join(FILE);
    let access = if at_rest(&path).is_some() { Access::ReadUnchanging } else { Access::Read };
    let connection = connect(&path, access)?;
    let mut look = Look { root: folder.join("files"), n_max, kept: Kept::default() };
    look.at_all(&connection).map_err(|fault| fault.at(&path, "check"))?;
    look.strangers();
    Ok(look.kept)
}

struct Look {
    root: PathBuf,
    n_max: usize,
    kept: Kept,
}

impl Look {
    fn at_all(&mut self, connection: &Connection) -> Result<(), Fault> {
        files::each(connection, |job, task, file| {
            // Files in places that nodes see or in stores of other kinds are not here, nor are files that were left out.
            if file.left_out.is_none() && !file.to.contains("://") {
                self.at(&file.sha256, file.bytes, || format!("{} of task {job}.{task}", file.to));
            }
            self.kept.found.len() < self.n_max
        })?;
        let mut durable = Durable::default();
        replay::replay(connection, |record| durable.apply(&record))?;
        for (id, job) in durable.jobs().iter().filter(|(_, job)| job.ended_at.is_none()) {
            // One that cannot be read was refused by the manager, or the store would not be whole.
            let Ok(spec) = serde_json::from_str::<JobSpec>(&job.request.spec) else { continue };
            for (sha256, n_bytes) in spec.objects() {
                self.at(&sha256, n_bytes, || format!("an input of job {id}"));
            }
        }
        Ok(())
    }

    fn at(&mut self, sha256: &Digest, n_bytes: u64, what: impl Fn() -> String) {
        self.kept.n_files += 1;
        if self.kept.found.len() >= self.n_max {
            return;
        }
        let name = sha256.to_string();
        let path = self.root.join("objects").join(&name[..2]).join(&name);
        let is_rotten = || self.root.join("rotten").join(&name).exists();
        let found = match fs::metadata(&path) {
            Ok(there) if there.is_file() && there.len() == n_bytes => return,
            Ok(there) if there.is_file() => {
                format!("its contents have {} bytes instead of {n_bytes}", there.len())
            }
            Ok(_) => "its contents are no file".to_owned(),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                format!("its contents cannot be read: {error}")
            }
            Err(_) if is_rotten() => "its contents were found rotten and set aside".to_owned(),
            Err(_) => "its contents are missing".to_owned(),
        };
        self.kept.found.push(format!("{}: {found} ({})", what(), path.display()));
    }

    /// Looks for files that no manager puts there. Objects that no record names are no such files: those of a job that nobody
    /// has submitted stays for a week.
    fn strangers(&mut self) {
        for (entry, _) in entries(&self.root) {
            if !BESIDE.iter().any(|name| entry.ends_with(name)) {
                self.stranger(&entry);
            }
        }
        for (folder, facts) in entries(&self.root.join("objects")) {
            let begin = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_ours =
                begin.len() == 2 && begin.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !facts.is_dir() || !is_ours {
                self.stranger(&folder);
                continue;
            }
            for (object, facts) in entries(&folder) {
                let name = object.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let is_ours =
                    name.starts_with(&begin) && name.parse::<Digest>().is_ok_and(|of| of.to_string() == name);
                if !facts.is_file() || !is_ours {
                    self.stranger(&object);
                }
            }
        }
    }

    fn stranger(&mut self, path: &Path) {
        if self.kept.strangers.len() < self.n_max {
            self.kept.strangers.push(path.display().to_string());
        }
    }
}

/// Returns the entries of a folder, which may be missing. Links are not followed.
fn entries(folder: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
}

#[cfg(test)]
mod tests {
    use scheduler::{
        engine::record::Record,
        results::{OutputFile, TaskFiles, Usage},
    };
    use serde_json::json;

    use super::*;
    use crate::store::{
        Store,
        tests::records::{beginning, job_accepted, reported, result},
    };

    #[test]
    fn contents_that_are_missing_cut_or_strange_are_found_without_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.commit(&beginning(10)).unwrap();
        let digest = |n: u8| Digest([n; 32]);
        let file = |to: &str, n: u8| OutputFile {
            to: to.into(),
            sha256: digest(n),
            bytes: 3,
            ..OutputFile::default()
        };
        let link = OutputFile { left_out: Some("it leads out".into()), ..file("link", 0x77) };
        let mut left = result(1, vec![(3, 0, Usage::default())], vec![]);
        let files =
            vec![file("out/a", 1), file("out/b", 2), file("file:///scratch/c", 3), link, file("out/d", 4)];
        left.files = vec![TaskFiles { index: 3, files }];
        store.commit(&[reported(1, 1, vec![left])]).unwrap();
        let mut spec = JobSpec::new(protocol::job::CommandLine::Shell("cat a".into()), "/w".into());
        let input = json!({"from": "a", "to": "a", "objects": {"sha256": [digest(0xab)], "bytes": [3]}});
        spec.inputs = vec![serde_json::from_value(input).unwrap()];
        let Record::JobAccepted { request, at, .. } = job_accepted(4, 1) else { panic!("another record") };
        let request = scheduler::engine::interface::JobRequest {
            spec: serde_json::to_string(&spec).unwrap().into(),
            ..request
        };
        store.commit(&[Record::JobAccepted { job: scheduler::ids::JobId(4), request, at }]).unwrap();
        let place = |n: u8| {
            let name = digest(n).to_string();
            folder.path().join("files/objects").join(&name[..2]).join(name)
        };
        let put = |n: u8, contents: &str| {
            fs::create_dir_all(place(n).parent().unwrap()).unwrap();
            fs::write(place(n), contents).unwrap();
        };
        [1, 2, 4, 0xab].into_iter().for_each(|n| put(n, "abc"));
        // Brought for a job that is not there yet.
        put(0xcc, "abcd");
        let look = || check_kept(folder.path(), 20).unwrap();
        assert_eq!(look(), Kept { n_files: 4, ..Kept::default() });

        put(1, "ab");
        fs::remove_file(place(2)).unwrap();
        fs::remove_file(place(0xab)).unwrap();
        fs::create_dir_all(folder.path().join("files/rotten")).unwrap();
        fs::rename(place(4), folder.path().join("files/rotten").join(digest(4).to_string())).unwrap();
        fs::write(place(1).with_file_name("notes.txt"), "mine").unwrap();
        fs::write(folder.path().join("files/README"), "mine").unwrap();
        let Kept { n_files, found, mut strangers } = look();
        let shown = |n: u8| place(n).display().to_string();
        assert_eq!(
            found,
            [
                format!("out/a of task 1.3: its contents have 2 bytes instead of 3 ({})", shown(1)),
                format!("out/b of task 1.3: its contents are missing ({})", shown(2)),
                format!("out/d of task 1.3: its contents were found rotten and set aside ({})", shown(4)),
                format!("an input of job 4: its contents are missing ({})", shown(0xab)),
            ]
        );
        strangers.sort();
        let expected = [folder.path().join("files/README"), place(1).with_file_name("notes.txt")];
        assert_eq!((n_files, strangers), (4, expected.map(|path| path.display().to_string()).to_vec()));
        assert_eq!(check_kept(folder.path(), 2).unwrap().found.len(), 2);
    }
}
