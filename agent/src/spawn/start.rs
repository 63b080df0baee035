//! Starts one program at the least cost that the kernel allows: vfork semantics on a stack of our own.
//!
//! posix_spawn of older C libraries reads the disposition of all 64 signals in every child, maps and unmaps a
//! stack, and cannot bind to CPUs. The child here does only what a task needs. It runs in our memory while
//! the calling thread sleeps, so it may neither allocate, nor lock, nor panic. The kernel kills the child
//! when the calling thread ends, which happens only with the agent.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    io,
    os::fd::RawFd,
    ptr,
};

/// Stack of the child between clone and exec; debug builds need more than release builds.
const STACK_BYTES: usize = 128 * 1024;
const GUARD_BYTES: usize = 16 * 1024;

/// All properties of a program to start.
pub(super) struct Image<'a> {
    /// The file to execute; relative to `cwd`.
    pub program: &'a CStr,
    /// Arguments, null-terminated.
    pub argv: &'a [*const c_char],
    /// Environment, null-terminated.
    pub envp: &'a [*const c_char],
    /// Its working directory.
    pub cwd: Option<&'a CStr>,
    /// Its standard input, output and error: descriptors of 3 and above.
    pub stdio: [RawFd; 3],
    /// The CPUs to which it is bound; `None`: the agent's.
    pub cpus: Option<&'a libc::cpu_set_t>,
}

/// The step of the start that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Creating the process.
    Clone,
    /// Setting up its descriptors.
    Stdio,
    /// Binding to CPUs.
    Bind,
    /// Changing to its working directory.
    Folder,
    /// Executing the program.
    Execute,
}

/// A failed start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotStarted {
    /// The step that failed.
    pub step: Step,
    /// The system's error number.
    pub errno: i32,
}

/// A stack for children, used by one child at a time.
pub(super) struct Stack {
    base: *mut c_void,
}

impl Stack {
    /// Maps a stack with a guard area below it.
    ///
    /// # Errors
    /// There is no memory left.
    pub(super) fn new() -> io::Result<Stack> {
        // SAFETY: an anonymous private mapping at a place of the kernel's choice, unmapped only by `drop`.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
            let base =
                libc::mmap(ptr::null_mut(), STACK_BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let stack = Stack { base };
            if libc::mprotect(base, GUARD_BYTES, libc::PROT_NONE) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(stack)
        }
    }

    fn top(&self) -> *mut c_void {
        // SAFETY: one past the mapping's last byte; page-aligned, so aligned enough for any ABI.
        unsafe { self.base.add(STACK_BYTES) }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no child runs on it: `start` returns after exec.
        unsafe { libc::munmap(self.base, STACK_BYTES) };
    }
}

struct Shared<'a> {
    image: &'a Image<'a>,
    /// The agent.
    parent: libc::pid_t,
    failed: Option<NotStarted>,
}

/// Starts the program in its own process group; returns its process id once it executes.
///
/// All signals must be blocked in the calling thread: a handler must not run in the child, where it would
/// change our memory.
///
/// # Errors
/// The first step that failed. No process is left then.
pub(super) fn start(image: &Image<'_>, stack: &mut Stack) -> Result<libc::pid_t, NotStarted> {
    debug_assert!(image.stdio.iter().all(|fd| *fd > 2), "dup2 of a standard descriptor onto itself");
    // SAFETY: no memory is passed.
    let parent = unsafe { libc::getpid() };
    let mut shared = Shared { image, parent, failed: None };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is used by this child alone, and `shared` outlives it, because CLONE_VFORK
    // keeps this thread asleep until the child has executed or ended.
    let pid = unsafe { libc::clone(child, stack.top(), flags, ptr::from_mut(&mut shared).cast()) };
    if pid < 0 {
        return Err(NotStarted { step: Step::Clone, errno: last_errno() });
    }
    // SAFETY: the child wrote to it through the pointer given to clone, so it must be read anew.
    let Some(failed) = (unsafe { ptr::read_volatile(&raw const shared.failed) }) else {
        return Ok(pid);
    };
    // SAFETY: it is our child and has ended; no memory is passed.
    unsafe { libc::waitpid(pid, ptr::null_mut(), libc::__WALL) };
    Err(failed)
}

/// Runs in the child.
extern "C" fn child(shared: *mut c_void) -> c_int {
    let shared = shared.cast::<Shared<'_>>();
    // SAFETY: `start` passes a `Shared` that outlives the child; only system calls are made.
    unsafe {
        let step = prepare((*shared).image, (*shared).parent);
        let failed = NotStarted { step, errno: last_errno() };
        ptr::write_volatile(&raw mut (*shared).failed, Some(failed));
        libc::_exit(127)
    }
}

/// Sets the process up and executes; returns only when something failed.
///
/// # Safety
/// The image's pointers are valid and null-terminated.
unsafe fn prepare(image: &Image<'_>, parent: libc::pid_t) -> Step {
    // SAFETY: async-signal-safe calls with pointers from the image or to locals.
    unsafe {
        libc::setpgid(0, 0);
        // This also works if the agent and its guard are killed at once.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if libc::getppid() != parent {
            // The agent was killed before the line above, so this process would never get its signal.
            libc::_exit(128 + libc::SIGKILL);
        }
        for (target, source) in image.stdio.iter().enumerate() {
            if libc::dup2(*source, target as c_int) < 0 {
                return Step::Stdio;
            }
        }
        if let Some(cpus) = image.cpus
            && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) < 0
        {
            return Step::Bind;
        }
        if let Some(cwd) = image.cwd
            && libc::chdir(cwd.as_ptr()) < 0
        {
            return Step::Folder;
        }
        // Rust's runtime ignores SIGPIPE, and exec keeps that; exec itself resets handlers.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
        libc::execve(image.program.as_ptr(), image.argv.as_ptr(), image.envp.as_ptr());
        Step::Execute
    }
}

/// Returns the calling thread's `errno`.
pub(super) fn last_errno() -> i32 {
    // SAFETY: always a valid pointer to this thread's own.
    unsafe { *libc::__errno_location() }
}
