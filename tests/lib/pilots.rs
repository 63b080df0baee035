//! The processes of pilots on this host, as the kernel shows them.

use std::fs;

use nix::sys::signal::Signal;

use crate::{Sandbox, signal_pid, sweep::pause, until};

/// A guard and its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PilotProcesses {
    /// The process that the other one is a child of.
    pub guard: u32,
    /// The pilot itself.
    pub worker: u32,
    /// The number of its allocation.
    pub allocation: u64,
}

/// All pilots of which both processes live.
pub fn pilots(sandbox: &Sandbox) -> Vec<PilotProcesses> {
    let agents = sandbox.agents();
    let parent = |pid: u32| field(pid, "PPid:")?.parse().ok().filter(|parent| agents.contains(parent));
    let pair = |worker: &u32| {
        // A task's process that is not its program yet looks like a worker's worker.
        let guard = parent(*worker).filter(|guard| parent(*guard).is_none())?;
        Some(PilotProcesses { guard, worker: *worker, allocation: allocation(*worker)? })
    };
    agents.iter().filter_map(pair).collect()
}

/// Sends a signal to all of them; of a stop it waits for the effect.
pub fn signal_all(pids: &[u32], signal: Signal) {
    pids.iter().for_each(|pid| signal_pid(*pid, signal));
    if signal == Signal::SIGSTOP {
        until("they have stopped", || {
            pause();
            pids.iter().all(|pid| is_still(*pid))
        });
    }
}

/// Whether all threads of a process stand still: one that flushes a file does so first.
fn is_still(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let mut threads = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    threads.all(|thread| field(thread, "State:").is_none_or(|state| state.starts_with(['T', 'Z', 'X'])))
}

fn field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
}

/// The last number of the tag that the pilot was started with.
fn allocation(pid: u32) -> Option<u64> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).into_owned();
    let mut words = command.split('\0').skip_while(|word| *word != "--tag");
    words.nth(1)?.rsplit('-').next()?.parse().ok()
}
