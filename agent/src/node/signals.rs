//! The signals by which platforms and people end a pilot.

use std::{
    io,
    sync::atomic::{AtomicI32, Ordering},
};

use signal_hook_registry::register_sigaction;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::guard::keeper;

/// The last signal from a process other than the guard; 0: none.
static FROM_OTHERS: AtomicI32 = AtomicI32::new(0);

/// All of these signals as one stream. Grid Engine sends SIGUSR2 before it kills a job, and SIGUSR1 before it
/// stops a job, whose tasks should then run elsewhere. LoadLeveler sends SIGXCPU at the soft limit of the
/// walltime.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user_1: Signal,
    user_2: Signal,
    soft_limit: Signal,
}

impl Signals {
    /// Begins to catch the signals.
    ///
    /// # Errors
    /// The system allows no handler.
    pub fn new() -> io::Result<Signals> {
        let guard = keeper::living_guard().unwrap_or(0);
        // Comes before the streams: the sender must be known when a stream reports the signal.
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

    /// Waits for the next signal.
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

/// Returns the signal that tasks have got too, if there was one. The guard gets and forwards a signal that is
/// meant for the pilot alone; batch systems and hosts that shut down signal all processes, also those of
/// tasks.
pub fn of_all_processes() -> Option<libc::c_int> {
    Some(FROM_OTHERS.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

fn note_sender(signal: libc::c_int, guard: libc::pid_t) -> io::Result<()> {
    let note = move |information: &libc::siginfo_t| {
        // SAFETY: signals from processes have a sender; for other signals the field is 0 or has another
        // meaning, and does not equal the guard's pid.
        if unsafe { information.si_pid() } != guard {
            FROM_OTHERS.store(signal, Ordering::Relaxed);
        }
    };
    // SAFETY: the action only stores a number.
    unsafe { register_sigaction(signal, note) }.map(drop)
}
