//! Finds why the account of this process has no access to a path: the directory that it cannot enter.

use std::{
    env,
    ffi::CString,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

use crate::sys::private;

/// Advice for a user whose job names a directory that the pilots' account cannot enter.
const WAYS: &str = "let it in, or use `workdir: scratch` with `inputs` and `outputs`";

/// Returns a clause about a job's file or directory that this process may not use: the account, the directory
/// that it cannot enter, and a way out. `None`: access was not denied.
pub fn of_job(path: &Path, error: &io::Error) -> Option<String> {
    (error.raw_os_error() == Some(libc::EACCES)).then(|| {
        let account = account();
        match barred(path) {
            Some(folder) => format!("{account} cannot enter {folder}: {WAYS}"),
            None => format!("{account} may not use it: {WAYS}"),
        }
    })
}

/// Returns the same for a program, without the advice. `None`: no directory on the path is closed.
pub fn of_program(path: &Path) -> Option<String> {
    Some(format!("{} cannot enter {}", account(), barred(path)?))
}

/// Returns a text for the account of this process.
fn account() -> String {
    let uid = private::user();
    match env::var("USER").ok().filter(|name| !name.is_empty()) {
        Some(name) => format!("the account {name} (uid {uid})"),
        None => format!("the account with uid {uid}"),
    }
}

/// Returns the first directory on a path, itself included, that this process cannot enter.
fn barred(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let mut on_the_way: Vec<&Path> = path.ancestors().collect();
    on_the_way.reverse();
    let folder = on_the_way.into_iter().find(|folder| is_barred(folder))?;
    let facts = fs::metadata(folder).ok();
    let facts = facts.map(|facts| format!(" (mode {:04o}, of uid {})", facts.mode() & 0o7777, facts.uid()));
    Some(format!("{folder:?}{}", facts.unwrap_or_default()))
}

/// Returns whether this is an existing directory that cannot be entered.
fn is_barred(folder: &Path) -> bool {
    if fs::metadata(folder).is_ok_and(|facts| !facts.is_dir()) {
        return false;
    }
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: the name is a string that ends with NUL and outlives the call.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::X_OK, libc::AT_EACCESS) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EACCES)
}
