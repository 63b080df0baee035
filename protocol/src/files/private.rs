//! Folders and files that only their owner may enter, read and write, whatever the umask.
//!
//! The folders of managers and pilots hold tokens and what users' tasks wrote. Nobody else on a shared disk may read
//! that, or put something there.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Keeps the folder out of Git: `git add -A` above it would publish its secrets.
const GIT_IGNORES: &str = ".gitignore";

/// Makes a folder, and those above it that are missing, for their owner only. One that is there stays as it is.
///
/// # Errors
/// It cannot be made, or something else has its name.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Options for a file that is made for its owner only if it is not there.
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Makes the folder of a manager or pilot that runs as `user`, or takes one that is there: afterwards only its owner
/// may enter it, and Git leaves it alone.
///
/// # Errors
/// It cannot be made. It belongs to another user. Others may write in it and something is there already, which they may
/// have put there.
pub fn take_folder(path: &Path, user: u32) -> io::Result<()> {
    let is_new = !path.is_dir();
    make_folder(path)?;
    let found = fs::metadata(path)?;
    if found.uid() != user {
        return Err(refused(format!(
            "it belongs to user {}, and this program runs as user {user}; name a folder of your own",
            found.uid()
        )));
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 && fs::read_dir(path)?.next().is_some() {
        return Err(refused(format!(
            "others may write in it (mode {mode:04o}); look whether all in it is yours, then: chmod 700 {}",
            path.display()
        )));
    }
    // One that its owner has made read-only stays so; a new one is its owner's whatever the umask.
    let private = if is_new { mode & 0o7000 | 0o700 } else { mode & 0o7700 };
    if mode != private {
        fs::set_permissions(path, fs::Permissions::from_mode(private))?;
    }
    let ignores = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(GIT_IGNORES));
    // It is there already, or the disk is full: the folder is as good without it.
    let _ = ignores.and_then(|mut file| file.write_all(b"*\n"));
    Ok(())
}

/// Checks that nobody but `user` may read or change this file.
///
/// # Errors
/// Others may, or it cannot be looked at.
pub fn check_file(path: &Path, user: u32) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let mode = found.mode() & 0o7777;
    if found.uid() != user {
        return Err(refused(format!(
            "it belongs to user {}, and this program runs as user {user}; remove it, and a new one is made",
            found.uid()
        )));
    }
    if mode & 0o077 != 0 {
        return Err(refused(format!(
            "others may read or change it (mode {mode:04o}); remove it, and a new one is made, or, if nobody has \
             read it: chmod 600 {}",
            path.display()
        )));
    }
    Ok(())
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    use super::{check_file, file_options, make_folder, take_folder};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn me(folder: &Path) -> u32 {
        fs::metadata(folder).unwrap().uid()
    }

    #[test]
    fn what_is_made_is_its_owners_only() {
        let root = tempfile::tempdir().unwrap();
        make_folder(&root.path().join("a/b")).unwrap();
        file_options().append(true).open(root.path().join("a/b/c")).unwrap();
        let modes = ["a", "a/b", "a/b/c"].map(|name| mode(&root.path().join(name)));
        assert_eq!(modes, [0o700, 0o700, 0o600]);
    }

    #[test]
    fn a_folder_that_others_may_read_becomes_private_and_git_leaves_it_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("m");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("manager.yaml"), "").unwrap();
        set_mode(&folder, 0o2755);
        take_folder(&folder, me(root.path())).unwrap();
        assert_eq!(mode(&folder), 0o2700, "the group's bit is not ours");
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "*\n");
        fs::write(folder.join(".gitignore"), "mine").unwrap();
        take_folder(&folder, me(root.path())).unwrap();
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "mine");
    }

    #[test]
    fn a_folder_in_which_others_may_have_put_something_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("m");
        fs::create_dir(&folder).unwrap();
        for wrong in [0o770, 0o707, 0o777, 0o1777] {
            set_mode(&folder, wrong);
            fs::write(folder.join("x"), "").unwrap();
            let error = take_folder(&folder, me(root.path())).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {wrong:04o}")) && error.contains("chmod 700"), "{error}");
            assert_eq!(mode(&folder), wrong, "it is for its owner to change");
            fs::remove_file(folder.join("x")).unwrap();
        }
        take_folder(&folder, me(root.path())).unwrap();
        assert_eq!(mode(&folder) & 0o777, 0o700, "nothing was there");
        let error = take_folder(&folder, me(root.path()) + 1).unwrap_err().to_string();
        assert!(error.contains("belongs to user"), "{error}");
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("secret");
        fs::write(&file, "").unwrap();
        for wrong in [0o640, 0o604, 0o620, 0o601] {
            set_mode(&file, wrong);
            let error = check_file(&file, me(root.path())).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {wrong:04o}")) && error.contains("chmod 600"), "{error}");
        }
        set_mode(&file, 0o600);
        check_file(&file, me(root.path())).unwrap();
        assert!(check_file(&file, me(root.path()) + 1).is_err());
    }
}
