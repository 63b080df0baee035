//! The guard, which leaves no orphans: a process that outlives the pilot's worker and ends all of its
//! descendants.
//!
//! The guard is a child subreaper, so every descendant whose parent is gone becomes its child, also one in
//! its own session. When the worker ends for any reason, the guard kills the remaining processes, removes the
//! tasks' folders that the worker could not remove, and ends with the worker's exit code. When the guard is
//! killed, the worker gets SIGTERM from the kernel. Until the worker ends, the guard only waits: it has no
//! threads and no sockets.

pub(crate) mod worker;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read},
    mem,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    process, ptr,
};

use crate::guard::keeper::worker::begin;
pub use crate::guard::keeper::worker::{is_unguarded, leave_cache_to_guard, leave_to_guard, living_guard};
use crate::{guard::scratch, staging::cache, sys::pipe::pipe};

/// The name of a guard in `/proc/PID/comm` (15 characters at most).
pub const GUARD_NAME: &str = "pilotfish-guard";
/// The name of a guard that was told to end.
pub const ENDING_NAME: &str = "pilotfish-drain";
/// The name of the worker's main thread.
const WORKER_NAME: &str = "pilotfish-pilot";

/// Signals that the guard forwards to the worker. Batch systems announce the end with USR1, USR2 or XCPU too.
pub const FORWARDED: [libc::c_int; 6] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGXCPU];

/// Runs `worker` in a child process and waits for it; then kills all remaining descendants, and removes the
/// folders that the worker has left ([`leave_to_guard`]).
///
/// Returns the worker's exit code in the guard (128 plus the signal's number if a signal ended it). Never
/// returns in the worker, which exits with the result of `worker`. Must be called before the process has a
/// second thread.
///
/// # Errors
/// There are no processes or descriptors left for the worker.
pub fn guard(worker: impl FnOnce() -> i32) -> io::Result<i32> {
    set_name(GUARD_NAME);
    let (heard, told) = pipe()?;
    let blocked = block_signals();
    // SAFETY: prctl without pointers; fork in a process with one thread.
    let pid = unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        // If SIGCHLD were ignored, ended children would vanish without a status.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let guard = libc::getpid();
        match libc::fork() {
            0 => {
                drop(heard);
                become_worker(guard, &blocked.before, told, worker)
            }
            pid => pid,
        }
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    drop(told);
    let status = wait_for_worker(pid, &blocked.now);
    kill_descendants();
    remove_left(File::from(heard));
    Ok(match status {
        status if libc::WIFSIGNALED(status) => 128 + libc::WTERMSIG(status),
        status => libc::WEXITSTATUS(status),
    })
}

/// Parses a message of [`leave_cache_to_guard`]: returns the topmost folder and the cache.
fn cache_in(word: &[u8]) -> Option<(&Path, PathBuf)> {
    let slashes = word.windows(2).position(|two| two == b"//")?;
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    let (top, below) = (path(&word[..slashes]), path(&word[slashes + 2..]));
    Some((top, top.join(below))).filter(|(_, root)| cache::is_cache(root))
}

struct Blocked {
    before: libc::sigset_t,
    now: libc::sigset_t,
}

fn block_signals() -> Blocked {
    // SAFETY: the sets are initialised before they are read.
    unsafe {
        let mut blocked = Blocked { before: mem::zeroed(), now: mem::zeroed() };
        libc::sigemptyset(&mut blocked.now);
        for signal in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
            libc::sigaddset(&mut blocked.now, signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &blocked.now, &mut blocked.before);
        blocked
    }
}

fn become_worker(
    guard: libc::pid_t,
    mask: &libc::sigset_t,
    told: OwnedFd,
    worker: impl FnOnce() -> i32,
) -> ! {
    // SAFETY: calls without pointers, or with one to an initialised set.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
        if libc::getppid() != guard {
            // The guard was killed before the line above, so the signal would never come.
            libc::_exit(128 + libc::SIGTERM);
        }
        // A process group of its own: Ctrl-C at a terminal reaches only the guard, which forwards it once.
        libc::setpgid(0, 0);
        libc::sigprocmask(libc::SIG_SETMASK, mask, ptr::null_mut());
    }
    begin(guard, told);
    set_name(WORKER_NAME);
    process::exit(worker())
}

/// Forwards signals until the worker has ended; returns its wait status. Reaps orphans meanwhile.
fn wait_for_worker(worker: libc::pid_t, signals: &libc::sigset_t) -> libc::c_int {
    loop {
        let mut status = 0;
        // SAFETY: the status is a local.
        let ended = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
        if ended == worker {
            return status;
        }
        if ended != 0 {
            continue;
        }
        // SAFETY: the set is initialised; no information is asked for.
        let signal = unsafe { libc::sigwaitinfo(signals, ptr::null_mut()) };
        if FORWARDED.contains(&signal) {
            set_name(ENDING_NAME);
            // SAFETY: no memory is passed. The worker is our child and not reaped, so the pid is its own.
            unsafe {
                libc::kill(worker, signal);
                // The worker may be stopped, as the guard may have been.
                libc::kill(worker, libc::SIGCONT);
            }
        }
    }
}

/// Kills all descendants and waits for them, until there are none.
fn kill_descendants() {
    // SAFETY: no memory is passed.
    let own = unsafe { libc::getpid() };
    loop {
        for pid in descendants(own) {
            // SAFETY: no memory is passed. A descendant's id is not reused while its parent lives and has not
            // reaped it. If a parent below us reaps it, the id may be reused only by a process that would be
            // killed anyway.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // SAFETY: no memory is passed.
        let ended = unsafe { libc::waitpid(-1, ptr::null_mut(), 0) };
        if ended < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return;
        }
    }
}

/// Removes the folders that the worker has named. The worker's end of the pipe is closed, so reading ends.
fn remove_left(mut heard: File) {
    let mut words = Vec::new();
    // The next pilot removes folders that could not be read here.
    let _ = heard.read_to_end(&mut words);
    for word in words.split(|byte| *byte == 0).filter(|word| !word.is_empty()) {
        match cache_in(word) {
            // Another pilot may use it.
            Some((top, root)) => cache::remove_if_dead(&root, top),
            None => scratch::remove_root(Path::new(OsStr::from_bytes(word))),
        }
    }
}

/// Returns all living descendants of a process, by the parents in /proc.
fn descendants(ancestor: libc::pid_t) -> Vec<libc::pid_t> {
    let mut children: HashMap<libc::pid_t, Vec<libc::pid_t>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some(parent) = parent_in_stat(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&ancestor).unwrap_or_default();
    let mut n_seen = 0;
    while let Some(pid) = found.get(n_seen).copied() {
        n_seen += 1;
        found.extend(children.remove(&pid).unwrap_or_default());
    }
    found
}

/// Returns the parent's id from the text of `/proc/PID/stat`; its second field may contain any character.
fn parent_in_stat(stat: &str) -> Option<libc::pid_t> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

fn set_name(name: &str) {
    let mut text = [0u8; 16];
    for (to, from) in text.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    // SAFETY: 16 bytes, null-terminated.
    unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr(), 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::{BufRead, BufReader, Read},
        os::fd::{AsRawFd, FromRawFd},
        process::Command,
    };

    use super::{guard, is_unguarded, leave_to_guard, living_guard, parent_in_stat};
    use crate::sys::pipe::pipe;

    /// A process that guards a worker, and the output of the worker and its tasks.
    struct Guarded {
        guard: libc::pid_t,
        lines: BufReader<File>,
    }

    impl Guarded {
        fn line(&mut self) -> String {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "nobody is left");
            line.trim().to_string()
        }

        fn exit_code(&self) -> i32 {
            let mut status = 0;
            // SAFETY: our child; the status is a local.
            assert_eq!(unsafe { libc::waitpid(self.guard, &mut status, 0) }, self.guard);
            libc::WEXITSTATUS(status)
        }

        /// Waits until no process holds the pipe's write end, so that all descendants are gone.
        fn wait_for_all(mut self) {
            let mut rest = Vec::new();
            self.lines.read_to_end(&mut rest).unwrap();
        }
    }

    /// Guards a worker that runs a shell script with the pipe as standard output, and then calls `after`.
    fn guarded(script: &str, after: impl FnOnce() -> i32) -> Guarded {
        let (read, write) = pipe().unwrap();
        // SAFETY: the child only starts another process and waits, and ends with _exit.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: the descriptors are open; the read end must not stay open in the child. Other tests
                // of this process may have set handlers, which no real guard has.
                unsafe {
                    for signal in super::FORWARDED {
                        libc::signal(signal, libc::SIG_DFL);
                    }
                    libc::dup2(write.as_raw_fd(), 1);
                    libc::close(write.as_raw_fd());
                    libc::close(read.as_raw_fd());
                }
                let worker = || Command::new("/bin/sh").args(["-c", script]).status().map_or(99, |_| after());
                let code = guard(worker).unwrap_or(98);
                // SAFETY: ends this copy of the test process without its exit handlers.
                unsafe { libc::_exit(code) }
            }
            // SAFETY: the reading end is passed on whole.
            guard => Guarded { guard, lines: BufReader::new(unsafe { File::from_raw_fd(into_raw(read)) }) },
        }
    }

    fn into_raw(fd: std::os::fd::OwnedFd) -> i32 {
        std::os::fd::IntoRawFd::into_raw_fd(fd)
    }

    fn kill(pid: &str, signal: libc::c_int) {
        // SAFETY: no memory is passed; the test's own descendant.
        assert_eq!(unsafe { libc::kill(pid.parse().unwrap(), signal) }, 0);
    }

    #[test]
    fn guard_ends_with_the_workers_code() {
        let worker = guarded("", || 7);
        assert_eq!(worker.exit_code(), 7);
    }

    #[test]
    fn task_in_a_session_of_its_own_ends_with_the_worker() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo").display().to_string();
        let inner = format!("echo $$; echo ready > {fifo}; exec sleep 600");
        fs::write(folder.path().join("inner"), inner).unwrap();
        let outer = format!("(setsid sh {}/inner) & exec sleep 600", folder.path().display());
        fs::write(folder.path().join("outer"), outer).unwrap();
        let script = format!("mkfifo {fifo}; setsid sh {}/outer & read x < {fifo}", folder.path().display());
        let mut worker = guarded(&script, || 3);
        let pid = worker.line();
        assert_eq!(worker.exit_code(), 3);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        assert_eq!(status, "", "{pid}");
        worker.wait_for_all();
    }

    #[test]
    fn killed_worker_leaves_nothing() {
        let mut worker = guarded("setsid sleep 600 & echo $PPID; sleep 600", || 0);
        let pid = worker.line();
        kill(&pid, libc::SIGKILL);
        assert_eq!(worker.exit_code(), 128 + libc::SIGKILL);
        worker.wait_for_all();
    }

    #[test]
    fn folders_of_a_killed_workers_tasks_go_with_its_guard() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("scratch-node-1-00000001");
        fs::create_dir_all(root.join("1.0")).unwrap();
        let worker = guarded("", || {
            leave_to_guard(&root);
            // SAFETY: no memory is passed.
            unsafe { libc::raise(libc::SIGKILL) }
        });
        assert_eq!(worker.exit_code(), 128 + libc::SIGKILL);
        assert!(folder.path().exists() && !root.exists());
    }

    #[test]
    fn signals_are_passed_on_to_the_worker() {
        for signal in [libc::SIGHUP, libc::SIGXCPU] {
            let mut worker = guarded("ulimit -c 0; echo $PPID; sleep 600 >&-", || 0);
            worker.line();
            kill(&worker.guard.to_string(), signal);
            assert_eq!(worker.exit_code(), 128 + signal);
            worker.wait_for_all();
        }
    }

    #[test]
    fn worker_ends_when_its_guard_is_killed() {
        let mut worker = guarded("echo $PPID", || {
            loop {
                std::thread::park();
            }
        });
        worker.line();
        kill(&worker.guard.to_string(), libc::SIGKILL);
        // SAFETY: our child.
        unsafe { libc::waitpid(worker.guard, std::ptr::null_mut(), 0) };
        worker.wait_for_all();
    }

    #[test]
    fn worker_knows_its_guard() {
        assert_eq!((living_guard(), is_unguarded()), (None, false));
        let worker = guarded("", || i32::from(living_guard().is_some() && !is_unguarded()));
        assert_eq!(worker.exit_code(), 1);
    }

    #[test]
    fn parent_is_found_behind_any_name() {
        assert_eq!(parent_in_stat("12 (a) b) (c) S 34 12 12 0 -1"), Some(34));
        assert_eq!(parent_in_stat("12 (a"), None);
    }
}
