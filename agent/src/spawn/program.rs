//! Finds programs in PATH, and remembers them.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, OsStr},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// The C library's search path if PATH is not set.
const PATH_DEFAULT: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Programs found for one value of PATH: without this cache every start would search each directory.
#[derive(Default)]
pub(super) struct Programs {
    path: Vec<u8>,
    found: HashMap<Vec<u8>, CString>,
}

/// The reason why a program was not found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NotFound {
    /// No directory of PATH has it.
    Missing,
    /// The file exists but is not executable.
    NotExecutable(PathBuf),
}

impl Programs {
    /// Returns the file to execute for `name`: itself if it contains a slash, else the first executable in
    /// PATH.
    pub(super) fn find(&mut self, name: &CStr, path: Option<&[u8]>, cwd: &Path) -> Result<CString, NotFound> {
        if name.to_bytes().contains(&b'/') {
            return Ok(name.to_owned());
        }
        let path = path.unwrap_or(PATH_DEFAULT);
        if self.path != path {
            self.found.clear();
            self.path = path.to_vec();
        }
        if let Some(program) = self.found.get(name.to_bytes()) {
            return Ok(program.clone());
        }
        let (program, is_same_everywhere) = search(name, path, cwd)?;
        if is_same_everywhere {
            self.found.insert(name.to_bytes().to_vec(), program.clone());
        }
        Ok(program)
    }

    /// Forgets all found programs, because one has moved.
    pub(super) fn forget(&mut self) {
        self.found.clear();
    }
}

/// Returns the first executable file, and whether it is the same from any working directory.
fn search(name: &CStr, path: &[u8], cwd: &Path) -> Result<(CString, bool), NotFound> {
    let mut not_executable = None;
    let mut is_absolute = true;
    for folder in path.split(|byte| *byte == b':') {
        let folder = Path::new(OsStr::from_bytes(folder));
        is_absolute &= folder.is_absolute();
        let file = cwd.join(folder).join(OsStr::from_bytes(name.to_bytes()));
        match file.metadata() {
            Ok(facts) if facts.is_file() && facts.permissions().mode() & 0o111 != 0 => {
                let program = CString::new(file.into_os_string().into_encoded_bytes());
                return program.map(|program| (program, is_absolute)).map_err(|_| NotFound::Missing);
            }
            Ok(facts) if facts.is_file() => not_executable = not_executable.or(Some(file)),
            // A directory of that name, or nothing: the next entry of PATH may have it.
            Ok(_) | Err(_) => {}
        }
    }
    Err(not_executable.map_or(NotFound::Missing, NotFound::NotExecutable))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use super::{NotFound, Programs};

    #[test]
    fn first_executable_in_path_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/tool")).unwrap();
        fs::create_dir_all(path("b")).unwrap();
        fs::create_dir_all(path("c")).unwrap();
        fs::write(path("b/tool"), "").unwrap();
        fs::write(path("c/tool"), "").unwrap();
        let search = format!("{0}/a:{0}/b:{0}/c", folder.path().display());
        let find = || Programs::default().find(c"tool", Some(search.as_bytes()), Path::new("/"));
        assert_eq!(find(), Err(NotFound::NotExecutable(path("b/tool"))));
        fs::set_permissions(path("c/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find().unwrap().to_str().unwrap(), path("c/tool").to_str().unwrap());
    }

    #[test]
    fn relative_folders_of_path_are_seen_from_the_tasks_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tool"), "").unwrap();
        fs::set_permissions(folder.path().join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut programs = Programs::default();
        assert_eq!(programs.find(c"tool", Some(b"."), Path::new("/nowhere")), Err(NotFound::Missing));
        assert!(programs.find(c"tool", Some(b"."), folder.path()).is_ok());
        assert_eq!(programs.find(c"tool", Some(b"."), Path::new("/nowhere")), Err(NotFound::Missing));
    }
}
