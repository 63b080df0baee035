//! Wakes a thread that waits for children: by SIGCHLD, or from other threads.
//!
//! All kernels report the end of a child by SIGCHLD; pidfds need Linux 5.3 and three more calls per task. The
//! handler only writes to the eventfds of the waiting threads. They are never closed, because a handler that
//! runs late on another thread must not write to a file with the same number.

use std::{
    io,
    os::fd::RawFd,
    ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
};

/// More waiting threads than an agent starts on any node; the rest is for tests in one process.
const N_SLOTS: usize = 128;

struct Slot {
    is_taken: AtomicBool,
    fd: AtomicI32,
}

static SLOTS: [Slot; N_SLOTS] =
    [const { Slot { is_taken: AtomicBool::new(false), fd: AtomicI32::new(-1) } }; N_SLOTS];
static HANDLER: Once = Once::new();

/// An eventfd that becomes readable when any child of the process ends, or by [`Bell::ring`].
#[derive(Clone, Copy)]
pub(crate) struct Bell {
    fd: RawFd,
}

/// The owner of a [`Bell`]; dropping it frees the slot.
pub(crate) struct BellOwner {
    slot: &'static Slot,
    bell: Bell,
}

impl BellOwner {
    /// Takes a bell and installs the SIGCHLD handler at the first call.
    ///
    /// # Errors
    /// There are no descriptors left, or more waiting threads than slots.
    pub(crate) fn new() -> io::Result<BellOwner> {
        HANDLER.call_once(install_handler);
        let free = |slot: &&Slot| !slot.is_taken.swap(true, Ordering::AcqRel);
        let slot =
            SLOTS.iter().find(free).ok_or_else(|| io::Error::other("too many threads wait for children"))?;
        if slot.fd.load(Ordering::Acquire) < 0 {
            // SAFETY: no memory is passed.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if fd < 0 {
                slot.is_taken.store(false, Ordering::Release);
                return Err(io::Error::last_os_error());
            }
            slot.fd.store(fd, Ordering::Release);
        }
        Ok(BellOwner { slot, bell: Bell { fd: slot.fd.load(Ordering::Acquire) } })
    }

    /// Returns the part that other threads may hold.
    pub(crate) fn bell(&self) -> Bell {
        self.bell
    }

    /// Returns the descriptor to poll.
    pub(crate) fn fd(&self) -> RawFd {
        self.bell.fd
    }

    /// Silences the bell.
    pub(crate) fn hush(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the buffer is 8 bytes, as eventfd wants. A silent bell fails with EAGAIN, which is as good.
        unsafe { libc::read(self.bell.fd, count.as_mut_ptr().cast(), count.len()) };
    }
}

impl Drop for BellOwner {
    fn drop(&mut self) {
        self.slot.is_taken.store(false, Ordering::Release);
    }
}

impl Bell {
    /// Wakes the owner. Any thread and a signal handler may call it.
    pub(crate) fn ring(self) {
        ring(self.fd);
    }
}

fn ring(fd: RawFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: 8 bytes, as eventfd wants. A full counter fails with EAGAIN: then it is readable anyway.
    unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
}

fn install_handler() {
    // SAFETY: zeroed is a valid `sigaction`; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = on_child;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_NOCLDSTOP;
        libc::sigaction(libc::SIGCHLD, &action, ptr::null_mut());
    }
}

extern "C" fn on_child(_signal: libc::c_int) {
    // SAFETY: errno is this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    for slot in &SLOTS {
        let fd = slot.fd.load(Ordering::Acquire);
        if fd < 0 {
            break;
        }
        ring(fd);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}
