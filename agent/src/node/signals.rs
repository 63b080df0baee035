//! The signals by which platforms and people tell a pilot to go.

use std::{
    io,
    sync::atomic::{AtomicI32, Ordering},
};

use signal_hook_registry::register_sigaction;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::guard::keeper;

/// The last signal that this process got from somebody else than its guard; 0: none.
static FROM_OTHERS: AtomicI32 = AtomicI32::new(0);

/// All of them as one stream. Grid Engine says with SIGUSR2 that a job is about to be killed, and with SIGUSR1
/// that it is about to be stopped, when its tasks had better run elsewhere; LoadLeveler says with SIGXCPU that
/// the soft limit of time has come.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    soft_limit: Signal,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The system allows no handler.
    pub fn new() -> io::Result<Signals> {
        let guard = keeper::living_guard().unwrap_or(0);
        // Before the streams: who sent a signal is known when it is told.
        for signal in keeper::FORWARDED {
            note_sender(signal, guard)?;
        }
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user_1: signal(SignalKind::user_defined1())?,
            user_2: signal(SignalKind::user_defined2())?,
            soft_limit: signal(SignalKind::from_raw(libc::SIGXCPU))?,
        })
    }

    /// Returns when the next one has come.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.user_1.recv() => {}
            _ = self.user_2.recv() => {}
            _ = self.soft_limit.recv() => {}
        }
    }
}

/// The signal that tasks have got as well, if there was one. Who signals only the pilot signals its guard, which passes
/// it on; batch systems and hosts that shut down signal all processes, the tasks' too.
pub fn of_all_processes() -> Option<libc::c_int> {
    Some(FROM_OTHERS.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

fn note_sender(signal: libc::c_int, guard: libc::pid_t) -> io::Result<()> {
    let note = move |information: &libc::siginfo_t| {
        // SAFETY: signals that processes send have a sender; of others the number is 0 or means something else, which is
        // no guard.
        if unsafe { information.si_pid() } != guard {
            FROM_OTHERS.store(signal, Ordering::Relaxed);
        }
    };
    // SAFETY: the action only stores a number.
    unsafe { register_sigaction(signal, note) }.map(drop)
}
