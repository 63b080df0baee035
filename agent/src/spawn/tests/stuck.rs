//! No file that a task names, and no call that hangs, makes other tasks wait.

use std::{
    fs::File,
    os::{fd::AsRawFd, unix::net::UnixListener},
    path::Path,
    sync::{Mutex, mpsc},
    thread,
};

use super::{Bench, Duration, Launch, Outcome, Output, PATIENCE, Spawner, fs, launch, run, shell};
use crate::sys::opened::testing::make_pipe;

/// Launches tasks with this file as each stream, one after another, which all fail at once with these words;
/// then other tasks.
fn is_refused(path: &Path, words: &str) {
    let bench = Bench::new();
    let file = || Output::File(path.to_owned());
    let launches = [
        ("standard input", Launch { stdin: Some(path.to_owned()), ..shell("true") }),
        ("standard output", Launch { stdout: file(), ..shell("true") }),
        ("standard error", Launch { stderr: file(), ..shell("true") }),
    ];
    for (stream, launch) in launches {
        bench.spawner.launch(launch);
        let Outcome::StartFailed { what, node } = bench.next().outcome else { panic!("{stream} was opened") };
        assert!(what.starts_with(&format!("{stream} {path:?} is {words}; name a file")), "{what}");
        assert!(!node, "it is the same on all nodes");
    }
    bench.spawner.launch(shell("exit 3"));
    assert_eq!(bench.next().outcome, Outcome::Code(3));
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_refused_whoever_is_at_its_other_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    make_pipe(&path);
    is_refused(&path, "a named pipe");
    // On Linux this open does not block; the pipe has a reader and a writer then.
    let partner = File::options().read(true).write(true).open(&path).unwrap();
    is_refused(&path, "a named pipe");
    drop(partner);
}

#[test]
fn a_socket_in_the_place_of_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    is_refused(&path, "a socket");
}

#[test]
fn tasks_wait_for_their_files_and_devices_as_always() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("in"), "").unwrap();
    let script = format!("for fd in 0 1 2; do grep flags /proc/$$/fdinfo/$fd; done > {:?}", path("flags"));
    let flags_of = |stdin: &Path, stdout: &Path| {
        let (stdin, stdout) = (Some(stdin.to_owned()), Output::File(stdout.to_owned()));
        let exit = run(Launch { stdin, stderr: stdout.clone(), stdout, ..shell(&script) });
        assert_eq!(exit.outcome, Outcome::Code(0));
        let flags = fs::read_to_string(path("flags")).unwrap();
        let flag = |line: &str| i32::from_str_radix(line.split_whitespace().last().unwrap(), 8).unwrap();
        flags.lines().map(flag).collect::<Vec<i32>>()
    };
    for (stdin, stdout) in [(path("in"), path("out")), ("/dev/zero".into(), "/dev/null".into())] {
        let flags = flags_of(&stdin, &stdout);
        assert_eq!(flags.len(), 3);
        assert!(flags.iter().all(|flags| flags & libc::O_NONBLOCK == 0), "{stdin:?} {flags:?}");
    }
}

#[test]
fn a_file_that_somebody_has_a_lease_on_is_opened_when_it_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in");
    fs::write(&path, "hello").unwrap();
    let file = File::open(&path).unwrap();
    // SAFETY: no memory is passed. The signal of a lease break would end this process.
    let lease = |kind: libc::c_int| unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind)
    };
    if lease(libc::F_WRLCK) < 0 {
        return; // The file system has no leases.
    }
    let bench = Bench::new();
    bench.spawner.launch(Launch { stdin: Some(path), ..shell("cat") });
    // SAFETY: no memory is passed.
    while unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) } == libc::F_WRLCK {
        thread::yield_now();
    }
    assert_eq!(lease(libc::F_UNLCK), 0);
    assert_eq!(bench.next().stdout, b"hello");
}

#[test]
fn the_end_does_not_wait_for_a_thread_that_hangs() {
    let (busy_send, busy) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    // Stands for an `open` that never returns.
    let spawner = Spawner::start(2, move |_| {
        busy_send.send(()).unwrap();
        // It ends when the sender is dropped.
        let _ = released.lock().unwrap().recv();
    });
    let mut spawner = spawner.unwrap();
    spawner.launch(launch(1, &["true"]));
    busy.recv_timeout(PATIENCE).unwrap();
    assert!(!spawner.end(Duration::ZERO), "one of them hangs");
    drop(release);
    assert!(spawner.end(PATIENCE), "none hangs any more");
}
