//! Folders that the pilot's account cannot enter.

use std::{os::unix::fs::PermissionsExt, time::Instant};

use super::{Launch, Outcome, Output, Path, Processes, fs, shell};
use crate::{
    spawn::{child::Role, prepare::Prepared},
    sys::private,
};

/// An account that is not root.
const OTHER: libc::uid_t = 65534;

fn start(launch: Launch) -> String {
    let mut processes = Processes::new(None).unwrap();
    let prepared = Prepared::new(&launch, &mut processes.pipes);
    let started = prepared
        .and_then(|prepared| processes.begin(launch, prepared, Role::Task { token: 1 }, Instant::now()));
    match started.map_err(Outcome::from) {
        Err(Outcome::StartFailed { what, .. }) => what,
        other => panic!("{:?}", other.map(drop)),
    }
}

/// Returns the message of a failed launch, from a thread that is not root; other threads keep their account.
fn told(launch: Launch) -> String {
    let as_other = move || {
        let other = if private::user() == 0 { OTHER } else { libc::uid_t::MAX };
        // SAFETY: no memory is passed. Unlike libc's function, the system call changes this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, other, -1) }, 0);
        format!("{}\nuid {}", start(launch), private::user())
    };
    std::thread::spawn(as_other).join().unwrap()
}

/// Checks the message. It has the account's name only if the variable `USER` is set for the tests.
fn is_told(launch: Launch, before: &str, after: &str) {
    let told = told(launch);
    let (told, uid) = told.rsplit_once("\n").unwrap();
    assert!(told.starts_with(&format!("{before}the account ")) && told.contains(uid), "{told}");
    assert!(told.ends_with(after), "{told}");
}

#[test]
fn folder_that_the_account_cannot_enter_is_named_with_the_account() {
    let top = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let shut = top.path().join("home");
    let inside = shut.join("job/in");
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("program"), "").unwrap();
    set(top.path(), 0o755);
    set(&shut, 0o600);
    let cannot = format!(" cannot enter {shut:?} (mode 0600, of uid {})", private::user());
    let ways = format!("{cannot}: let it in, or use `workdir: scratch` with `inputs` and `outputs`");
    let at = |path: &Path, makes_cwd| Launch { cwd: Some(path.into()), makes_cwd, ..shell("true") };
    for makes_cwd in [false, true] {
        is_told(at(&inside, makes_cwd), &format!("folder {inside:?}: Permission denied: "), &ways);
    }
    let file = inside.join("file");
    let launch = Launch { stdout: Output::File(file.clone()), ..shell("true") };
    is_told(launch, &format!("standard output {file:?}: Permission denied: "), &ways);
    let program = inside.join("program");
    let launch = super::launch(1, &[&program.to_string_lossy()]);
    is_told(launch, &format!("{program:?}: Permission denied: "), &cannot);
    // A folder that may be entered but not written to.
    let sealed = top.path().join("sealed");
    fs::create_dir(&sealed).unwrap();
    set(&sealed, 0o555);
    let new = sealed.join("new");
    let ways = " may not use it: let it in, or use `workdir: scratch` with `inputs` and `outputs`";
    is_told(at(&new, true), &format!("folder {new:?}: Permission denied: "), ways);
    set(&shut, 0o700);
}
