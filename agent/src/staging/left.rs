//! What a task has left in its folder: one file, or several that are named together.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use protocol::job::{OutputTarget, Several, TaskOutputFile, limits::N_LEFT_MAX};
use scheduler::results::FailureKind;

use super::unread;

/// A file that is to be delivered.
#[derive(Debug)]
pub(super) struct LeftFile {
    pub path: PathBuf,
    /// Its path below the task's folder.
    pub from: PathBuf,
    pub to: OutputTarget,
}

/// Files and folders of a task's folder that are looked at for one output.
const N_LOOKED_AT: usize = 1_000_000;

/// The files that an output means; none of an optional one that is not there.
///
/// # Errors
/// It is not there, is more than can be delivered, or has a name that is not UTF-8; the disk fails.
pub(super) fn files(
    folder: &Path,
    output: &TaskOutputFile,
    brought: &HashSet<PathBuf>,
) -> Result<Vec<LeftFile>, FailureKind> {
    let path = folder.join(&output.from);
    let missing = || FailureKind::OutputMissing { file: output.shown() };
    let of_folder;
    let output = match (&output.several, fs::metadata(&path)) {
        (None, Ok(facts)) if facts.is_file() => {
            let (from, to) = (output.from.clone(), output.to.clone());
            return Ok(vec![LeftFile { path, from, to }]);
        }
        // Under the name of a file the task has made a folder.
        (None, Ok(facts)) if facts.is_dir() => {
            of_folder = TaskOutputFile { several: Some(Several::Folder), ..output.clone() };
            &of_folder
        }
        (Some(_), Ok(facts)) if facts.is_dir() => output,
        (_, Err(error)) if error.kind() == io::ErrorKind::NotFound && output.optional => {
            return Ok(Vec::new());
        }
        _ => return Err(missing()),
    };
    let found = walk(folder, &output.from).map_err(|error| unread(&output.shown(), &error))?;
    let mut files = Vec::new();
    for from in found {
        // Of a name that is not UTF-8, the rest of it can match.
        let Some(name) = output.name_of(&from.to_string_lossy()).filter(|_| !brought.contains(&from)) else {
            continue;
        };
        let shown = from.to_string_lossy();
        if from.to_str().is_none() {
            return Err(FailureKind::OutputMissing {
                file: format!("{shown}, whose name is not UTF-8: rename it"),
            });
        }
        if files.len() == N_LEFT_MAX {
            let file =
                format!("{} as it is: more than {N_LEFT_MAX} files, which are better packed", output.shown());
            return Err(FailureKind::OutputMissing { file });
        }
        let to = output.to.join(&name);
        let to = to.ok_or_else(|| FailureKind::OutputMissing {
            file: format!("{shown} under a name that its store takes"),
        })?;
        files.push(LeftFile { path: folder.join(&from), from, to });
    }
    let is_pattern = matches!(output.several, Some(Several::Pattern(_)));
    match files.is_empty() && is_pattern && !output.optional {
        true => Err(missing()),
        false => Ok(files),
    }
}

/// All files of a task's folder below one of its folders, by their paths, in order. Links are followed that lead to
/// something in the task's folder, each folder once.
fn walk(root: &Path, below: &Path) -> io::Result<Vec<PathBuf>> {
    let own = root.canonicalize()?;
    let (mut files, mut seen, mut n_seen) = (Vec::new(), HashSet::new(), 0);
    let (mut waiting, mut links) = (vec![below.to_owned()], Vec::new());
    while let Some(within) = waiting.pop().or_else(|| links.pop()) {
        let facts = fs::metadata(root.join(&within))?;
        if !seen.insert((facts.dev(), facts.ino())) {
            continue;
        }
        for entry in fs::read_dir(root.join(&within))? {
            let entry = entry?;
            n_seen += 1;
            if n_seen > N_LOOKED_AT {
                return Err(io::Error::other(format!("more than {N_LOOKED_AT} files")));
            }
            let (path, name) = (entry.path(), within.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(name);
            } else if kind.is_file() {
                files.push(name);
            } else if kind.is_symlink() && path.canonicalize().is_ok_and(|target| target.starts_with(&own)) {
                match path.is_dir() {
                    true => links.push(name),
                    false if path.is_file() => files.push(name),
                    false => {}
                }
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}
