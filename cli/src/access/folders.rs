//! Folders of managers: the names of the files in them, where they are, and how their paths are shown.

use std::path::{Path, PathBuf};

use crate::show::quote::quoted;

/// The manager's access file in its folder.
pub const ACCESS_FILE: &str = "access.json";
/// The manager's store in its folder.
pub const STORE_FILE: &str = "store.sqlite";
/// The folder of `pilotfish run`, in the current one.
pub const RUN_FOLDER: &str = ".pilotfish";

/// `~/.pilotfish`; `None`: there is no home folder.
pub fn home_folder() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(RUN_FOLDER))
}

/// A path as people write it in a command, in quotes where a shell needs them.
pub fn shell_path(path: &Path) -> String {
    let shown = show_path(path);
    match shown.strip_prefix("~/") {
        // In quotes it would stand for itself.
        Some(rest) if !rest.is_empty() => format!("~/{}", quoted(rest)),
        Some(_) => shown,
        None => quoted(&shown),
    }
}

/// A path as people write it.
pub fn show_path(path: &Path) -> String {
    if let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty())
        && let Ok(rest) = path.strip_prefix(&home)
    {
        return format!("~/{}", rest.display());
    }
    if path.is_relative() && !path.starts_with(".") && !path.starts_with("..") {
        return format!("./{}", path.display());
    }
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{shell_path, show_path};

    #[test]
    fn paths_in_commands_are_those_that_a_shell_reads() {
        assert_eq!(shell_path(Path::new("/a b/c")), "'/a b/c'");
        assert_eq!(shell_path(Path::new("state")), "./state");
        if let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) {
            assert_eq!(shell_path(&Path::new(&home).join("my m")), "~/'my m'");
        }
    }

    #[test]
    fn relative_folders_are_shown_as_such() {
        assert_eq!(show_path(Path::new(".pilotfish")), "./.pilotfish");
        assert_eq!(show_path(Path::new("../x")), "../x");
        assert_eq!(show_path(Path::new("./x")), "./x");
    }
}
