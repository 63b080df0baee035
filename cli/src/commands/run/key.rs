//! Knowing a job again: `run` with the same job goes on with it.
//!
//! The key is made of the resolved job, so that a changed job is a new one. `--fresh` counts a
//! generation up, in a small file beside the store.

use std::{fs, io, path::Path};

use protocol::files::private;
use serde::Serialize;

use crate::{failure::Failure, sys::hash::sha256_hex};

/// The submission key of this job in this folder; a new one when it is to be fresh.
///
/// # Errors
/// The folder cannot be read or written.
pub fn submission_key(spec: &impl Serialize, folder: &Path, is_fresh: bool) -> Result<String, Failure> {
    let json = serde_json::to_vec(spec)
        .map_err(|error| Failure::infrastructure(format!("cannot write the job as JSON: {error}")))?;
    let hash = sha256_hex(&json);
    let folder = folder.join("runs");
    let path = folder.join(&hash);
    let mut generation = read(&path)?;
    if is_fresh {
        generation += 1;
        let written =
            private::make_folder(&folder).and_then(|()| fs::write(&path, format!("{generation}\n")));
        written.map_err(|error| Failure::file("write", &path, &error))?;
    }
    Ok(format!("run-{hash}-{generation}"))
}

fn read(path: &Path) -> Result<u64, Failure> {
    match fs::read_to_string(path) {
        // What somebody else wrote there counts as nothing.
        Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(Failure::file("read", path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use protocol::job::{CommandLine, JobSpec};

    use super::submission_key;

    #[test]
    fn the_same_job_has_the_same_key_until_it_is_to_be_fresh() {
        let folder = std::env::temp_dir().join(format!("pilotfish-key-test-{}", std::process::id()));
        let job = |word: &str| JobSpec::new(CommandLine::Args(vec![word.to_owned()]), PathBuf::from("/w"));
        let key = |word: &str, is_fresh| submission_key(&job(word), &folder, is_fresh).unwrap();
        let first = key("a", false);
        assert_eq!(key("a", false), first);
        assert_ne!(key("b", false), first);
        let fresh = key("a", true);
        assert_ne!(fresh, first);
        assert_eq!(key("a", false), fresh);
        assert_ne!(key("a", true), fresh);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
