//! Finds the output files of a task in its folder: one file, or several by a folder or a pattern.

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use protocol::job::{OutputTarget, Several, TaskOutputFile, limits::N_LEFT_MAX, manager_folder};
use scheduler::results::FailureKind;

use super::{
    cache::{OBJECT_MODE, is_marked},
    unread,
};
use crate::sys::private;

/// A file to deliver.
#[derive(Debug)]
pub(super) struct LeftFile {
    pub path: PathBuf,
    /// Its path in the task's folder.
    pub from: PathBuf,
    pub to: OutputTarget,
    /// Its permissions.
    pub mode: u32,
    /// Its size in bytes.
    pub size: u64,
}

/// The files for one output of a task.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub files: Vec<LeftFile>,
    /// Entries that cannot be delivered: the target of each, and the reason.
    pub left_out: Vec<(OutputTarget, String)>,
}

/// The most entries of a task's folder that are looked at for one output.
const N_LOOKED_AT: usize = 1_000_000;
/// The most left-out entries of one output that are reported.
const N_LEFT_OUT_TOLD: usize = 20;

/// Returns the files of an output; none for an optional output that does not exist.
///
/// # Errors
/// The output does not exist, has too many files, or has an unusable name; or the disk fails.
pub(super) fn files(
    folder: &Path,
    output: &TaskOutputFile,
    brought: &HashSet<PathBuf>,
) -> Result<Left, FailureKind> {
    let path = folder.join(&output.from);
    let missing = || FailureKind::OutputMissing { file: output.shown() };
    let of_folder;
    let output = match (&output.several, fs::metadata(&path)) {
        (None, Ok(facts)) if facts.is_file() => {
            let (from, to) = (output.from.clone(), output.to.clone());
            check_name(&from)?;
            let files = vec![LeftFile { path, from, to, mode: facts.mode(), size: facts.len() }];
            return Ok(Left { files, left_out: Vec::new() });
        }
        // The task has created a folder under the name of a file.
        (None, Ok(facts)) if facts.is_dir() => {
            of_folder = TaskOutputFile { several: Some(Several::Folder), ..output.clone() };
            &of_folder
        }
        (Some(_), Ok(facts)) if facts.is_dir() => output,
        (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return match (fs::read_link(&path), output.optional) {
                (Ok(target), true) => {
                    Ok(Left { files: Vec::new(), left_out: vec![(output.to.clone(), to_nothing(&target))] })
                }
                (Ok(target), false) => Err(FailureKind::OutputMissing {
                    file: format!("{}: {}", output.shown(), to_nothing(&target)),
                }),
                (Err(_), true) => Ok(Left::default()),
                (Err(_), false) => Err(missing()),
            };
        }
        _ => return Err(missing()),
    };
    let mut found = walk(folder, &output.from).map_err(|error| unread(&output.shown(), &error))?;
    if matches!(output.to, OutputTarget::Home(_)) {
        let is_input = |from: &PathBuf| brought.contains(from) && is_as_brought(&folder.join(from));
        found.spare_managers(output, is_input);
    }
    let mut left = Left::default();
    for from in found.files {
        // If a name is not UTF-8, the rest of it can still match.
        let Some(name) = output.name_of(&from.to_string_lossy()) else { continue };
        if brought.contains(&from) && is_as_brought(&folder.join(&from)) {
            continue;
        }
        check_name(&from)?;
        if left.files.len() == N_LEFT_MAX {
            let file =
                format!("{} as it is: more than {N_LEFT_MAX} files, which are better packed", output.shown());
            return Err(FailureKind::OutputMissing { file });
        }
        let to = output.to.join(&name);
        let to = to.ok_or_else(|| FailureKind::OutputMissing {
            file: format!("{} under a name that its store takes", from.to_string_lossy()),
        })?;
        let path = folder.join(&from);
        let facts = fs::metadata(&path).map_err(|error| unread(&from.to_string_lossy(), &error))?;
        left.files.push(LeftFile { path, from, to, mode: facts.mode(), size: facts.len() });
    }
    left.left_out = left_out(folder, output, found.astray, brought);
    let is_pattern = matches!(output.several, Some(Several::Pattern(_)));
    match left.files.is_empty() && is_pattern && !output.optional {
        true => match left.left_out.pop() {
            Some((_, why)) => Err(FailureKind::OutputMissing { file: format!("{}: {why}", output.shown()) }),
            None => Err(missing()),
        },
        false => Ok(left),
    }
}

/// Returns the entries that an output matches and that cannot be delivered.
fn left_out(
    folder: &Path,
    output: &TaskOutputFile,
    astray: Vec<Astray>,
    brought: &HashSet<PathBuf>,
) -> Vec<(OutputTarget, String)> {
    let mut told = Vec::new();
    let mut n_others = 0;
    for Astray { from, is_folder, why } in astray {
        let shown = from.to_string_lossy();
        let name = match output.name_of(&shown) {
            None if is_folder && output.may_mean_below(&shown) => {
                from.strip_prefix(&output.from).ok().map(Path::to_owned)
            }
            name => name,
        };
        let is_input = brought.contains(&from) && is_as_brought(&folder.join(&from));
        let to = name.filter(|_| !is_input).and_then(|name| output.to.join(&name));
        match to {
            Some(to) if told.len() < N_LEFT_OUT_TOLD => told.push((to, why)),
            Some(_) => n_others += 1,
            None => {}
        }
    }
    if let Some((_, why)) = told.last_mut().filter(|_| n_others > 0) {
        *why += &format!("; so were {n_others} others");
    }
    told
}

/// Returns whether the file under an input's name is the input itself, and not one that the task has changed
/// or put there. An input is a symbolic link, a hard link to an object of the cache, or, for root, a copy of
/// one.
fn is_as_brought(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink() || is_object(private::user(), &facts))
}

/// Returns whether a file is an object of the cache. Root can write to read-only files, and a replacement
/// often has the same permissions; then the modification time decides.
fn is_object(user: u32, facts: &fs::Metadata) -> bool {
    let may_be = facts.is_file() && facts.mode() & 0o777 == OBJECT_MODE;
    may_be && (is_marked(facts) || (user != 0 && facts.nlink() > 1))
}

/// Checks that a name is one line of UTF-8, as for inputs.
fn check_name(from: &Path) -> Result<(), FailureKind> {
    let wrong = match from.to_str() {
        None => "whose name is not UTF-8",
        Some(name) if name.contains(['\n', '\r']) => "whose name has a line break",
        Some(_) => return Ok(()),
    };
    let shown = from.to_string_lossy();
    Err(FailureKind::OutputMissing { file: format!("{shown:?}, {wrong}: rename it") })
}

fn to_nothing(target: &Path) -> String {
    format!("it is a link to {}, which does not exist", target.display())
}

/// The entries of a folder and below it.
#[derive(Default)]
struct Walked {
    files: Vec<PathBuf>,
    astray: Vec<Astray>,
}

/// An entry that is no file of the task's folder, by its path there.
struct Astray {
    from: PathBuf,
    is_folder: bool,
    why: String,
}

impl Walked {
    /// Leaves out files that would go to a folder that is a manager's own, to which nothing is delivered.
    /// Reports each of these folders.
    fn spare_managers(&mut self, output: &TaskOutputFile, is_input: impl Fn(&PathBuf) -> bool) {
        let spared = |from: &Path| {
            let name = from.strip_prefix(&output.from).ok()?;
            manager_folder(name).map(|name| output.from.join(name))
        };
        let is_meant = |from: &&PathBuf| output.name_of(&from.to_string_lossy()).is_some() && !is_input(from);
        let folders: BTreeSet<PathBuf> =
            self.files.iter().filter(is_meant).filter_map(|from| spared(from)).collect();
        self.files.retain(|from| spared(from).is_none());
        self.astray.retain(|astray| spared(&astray.from).is_none_or(|folder| !folders.contains(&folder)));
        let why = "it is a manager's own by its name, and nothing is brought there; give it another name";
        let told = folders.into_iter().map(|from| Astray { from, is_folder: true, why: why.to_owned() });
        self.astray.extend(told);
        self.astray.sort_unstable_by(|one, other| one.from.cmp(&other.from));
    }
}

/// Returns all files below a folder of a task's folder, by their paths, in order. Follows links to entries of
/// the task's folder, and enters each folder once.
fn walk(root: &Path, below: &Path) -> io::Result<Walked> {
    let own = root.canonicalize()?;
    let (mut walked, mut seen, mut n_seen) = (Walked::default(), HashSet::new(), 0);
    // Folders by their paths come first, then the targets of links, each with its link's target.
    let (mut waiting, mut links): (_, Vec<(PathBuf, Option<PathBuf>)>) =
        (vec![(below.to_owned(), None)], Vec::new());
    while let Some((within, link)) = waiting.pop().or_else(|| links.pop()) {
        let facts = fs::metadata(root.join(&within))?;
        if !seen.insert((facts.dev(), facts.ino())) {
            if let Some(target) = link {
                let why = format!(
                    "it is a link to {}, whose files are delivered under that name",
                    target.display()
                );
                walked.astray.push(Astray { from: within, is_folder: true, why });
            }
            continue;
        }
        for entry in fs::read_dir(root.join(&within))? {
            let entry = entry?;
            n_seen += 1;
            if n_seen > N_LOOKED_AT {
                return Err(io::Error::other(format!("more than {N_LOOKED_AT} files")));
            }
            let (path, from) = (entry.path(), within.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push((from, None));
            } else if kind.is_file() {
                walked.files.push(from);
            } else if kind.is_symlink() {
                match followed(&path, &own) {
                    Ok(facts) if facts.is_dir() => links.push((from, Some(fs::read_link(&path)?))),
                    Ok(facts) if facts.is_file() => walked.files.push(from),
                    Ok(facts) => walked.astray.push(special(from, facts.file_type())),
                    Err(why) => walked.astray.push(Astray { is_folder: path.is_dir(), from, why }),
                }
            } else {
                walked.astray.push(special(from, kind));
            }
        }
    }
    walked.files.sort_unstable();
    walked.astray.sort_unstable_by(|one, other| one.from.cmp(&other.from));
    Ok(walked)
}

/// Returns the target of a link if it is in the task's folder. `Err`: the reason why it is left out.
fn followed(link: &Path, own: &Path) -> Result<fs::Metadata, String> {
    let target = fs::read_link(link).unwrap_or_default();
    match link.canonicalize() {
        Ok(leads_to) if leads_to.starts_with(own) => {
            fs::metadata(&leads_to).map_err(|error| format!("it is a link to {}: {error}", target.display()))
        }
        Ok(_) => Err(format!(
            "it is a link to {}, outside of the task's folder; copy what it leads to, or name the link as an output of its own",
            target.display()
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(to_nothing(&target)),
        Err(error) => Err(format!("it is a link to {}: {error}", target.display())),
    }
}

fn special(from: PathBuf, kind: fs::FileType) -> Astray {
    let what = if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Astray { from, is_folder: false, why: format!("it is {what} and no file") }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, HashSet},
        fs::{self, File},
        os::unix::fs::PermissionsExt,
        path::Path,
    };

    use protocol::job::{OutputTarget, Several, TaskOutputFile};

    use super::{files, is_object};
    use crate::{
        staging::cache::{OBJECT_MODE, mark},
        sys::opened::testing::make_pipe,
    };

    #[test]
    fn folders_of_managers_do_not_come_home_and_are_told() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["res/a", "res/.pilotfish/secret", "res/.pilotfish/in/b", "res/in/.pilotfish/c"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        make_pipe(&folder.path().join("res/.pilotfish/pipe"));
        let left = |from: &str, several: Several, to: OutputTarget| {
            let output = TaskOutputFile { from: from.into(), several: Some(several), to, optional: false };
            files(folder.path(), &output, &HashSet::new()).map(|left| {
                let delivered = left.files.into_iter().map(|file| (file.to.shown(), String::new()));
                let left_out = left.left_out.into_iter().map(|(to, why)| (to.shown(), why));
                delivered.chain(left_out).collect::<BTreeMap<String, String>>()
            })
        };
        let home = || OutputTarget::Home("r".into());
        let pattern = |text: &str| Several::Pattern(text.to_owned());
        let why = "it is a manager's own by its name, and nothing is brought there; give it another name";
        let all = [("r/.pilotfish", why), ("r/a", ""), ("r/in/.pilotfish", why)];
        let all = all.map(|(to, why)| (to.to_owned(), why.to_owned()));
        assert_eq!(left("res", Several::Folder, home()).unwrap(), all.into());
        // A file that the pattern does not match is not reported.
        let found = left("res", pattern("res/*"), home()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["r/a"]);
        let said = left("res", pattern("res/**b"), home()).unwrap_err().to_string();
        assert_eq!(said, format!("it has not left its output res/**b: {why}"));
        // Files in it may go to another folder, or to a shared path that nodes write themselves.
        let found = left("res/.pilotfish/in", Several::Folder, home()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["r/b"]);
        let found = left("res", pattern("res/**b"), OutputTarget::File("/shared".into())).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["file:///shared/.pilotfish/in/b"]);
    }

    #[test]
    fn an_input_that_a_task_changed_or_replaced_counts_as_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let make = |path: &Path, is_marked: bool| {
            let file = File::create(path).unwrap();
            file.set_permissions(fs::Permissions::from_mode(OBJECT_MODE)).unwrap();
            if is_marked {
                file.set_modified(mark()).unwrap();
            }
        };
        make(&at("linked"), true);
        make(&at("changed"), false);
        for name in ["linked", "changed"] {
            fs::hard_link(at(name), at(&format!("{name} in the cache"))).unwrap();
        }
        make(&at("copied"), true);
        // As `sed -i` does it.
        make(&at("replaced"), false);
        fs::write(at("own"), "").unwrap();
        for (name, of_root, of_others) in [
            ("linked", true, true),
            ("changed", false, true),
            ("copied", true, true),
            ("replaced", false, false),
            ("own", false, false),
        ] {
            let facts = fs::metadata(at(name)).unwrap();
            assert_eq!([0, 1000].map(|user| is_object(user, &facts)), [of_root, of_others], "{name}");
        }
    }
}
