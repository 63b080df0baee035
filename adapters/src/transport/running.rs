//! The commands that this process waits for. One that is given up ends with all of its processes, and all of them end when
//! this process does: futures are not dropped then, and nobody would hear what they say.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    io, mem,
    path::Path,
    pin::pin,
    process::ExitStatus,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tokio::process::{Child, Command};

/// Has a value of its own in each command, and in all processes that descend from it.
pub(super) const MARK: &str = "PILOTFISH_COMMAND";

/// For so long the end of this process waits for commands that are about to end, or are just being started: a submission
/// may be of several steps, and a program on a file server that does not answer.
const END_LIMIT: Duration = Duration::from_secs(3);
/// How often it is looked whether all have ended.
const END_PAUSE: Duration = Duration::from_millis(1);

/// Looks for processes that others have started meanwhile at most so often. Those that were found stand still.
const N_LOOKS_MAX: usize = 16;

/// Those of this process.
pub(super) static COMMANDS: Commands = Commands::new();

/// Ends all commands that this process waits for, unless they do so by themselves in a moment. It starts none any more: that
/// fails.
pub fn end_commands() {
    COMMANDS.end(END_LIMIT);
}

/// Commands that run.
pub(super) struct Commands(Mutex<State>);

struct State {
    is_over: bool,
    n_starting: usize,
    n_started: u64,
    groups: BTreeMap<u64, Group>,
}

impl Commands {
    const fn new() -> Commands {
        let groups = BTreeMap::new();
        Commands(Mutex::new(State { is_over: false, n_starting: 0, n_started: 0, groups }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command with a process group of its own; `mark`: the value of [`MARK`] in its environment. What is returned
    /// with the process ends it when it is dropped, and is to be dropped first.
    pub(super) fn start(
        &'static self,
        command: &mut Command,
        mark: Option<String>,
    ) -> io::Result<(Child, Running)> {
        // Its children are in its process group and end with it: otherwise a shell's `$(qstat)` outlives the shell.
        self.start_leader(command.process_group(0), mark, |_| false)
    }

    /// The same of one that begins a process group itself; `spares`: whether one that is outside of that group stays.
    pub(super) fn start_leader(
        &'static self,
        command: &mut Command,
        mark: Option<String>,
        spares: fn(Pid) -> bool,
    ) -> io::Result<(Child, Running)> {
        {
            let mut state = self.lock();
            if state.is_over {
                return Err(io::Error::other("this process ends"));
            }
            state.n_starting += 1;
        }
        let started = command.kill_on_drop(true).spawn();
        let mut state = self.lock();
        state.n_starting -= 1;
        let child = started?;
        let number = state.n_started;
        state.n_started += 1;
        if let Some(leader) = child.id().and_then(|id| i32::try_from(id).ok()) {
            state.groups.insert(number, Group { leader: Pid::from_raw(leader), mark, spares });
        }
        Ok((child, Running { commands: self, number }))
    }

    /// Has all end that run still after this time, and starts none any more. The thread that calls this may have met a bug
    /// of ours, so it waits for no lock without end.
    fn end(&self, limit: Duration) {
        let began = Instant::now();
        loop {
            let state = match self.0.try_lock() {
                Ok(state) => Some(state),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            let is_late = began.elapsed() >= limit;
            if let Some(mut state) = state {
                state.is_over = true;
                if is_late || (state.n_starting == 0 && state.groups.is_empty()) {
                    // Nobody waits for their ends while this has the lock, so no number is another process's yet.
                    mem::take(&mut state.groups).into_values().for_each(|group| group.kill());
                    return;
                }
            } else if is_late {
                return;
            }
            std::thread::sleep(END_PAUSE);
        }
    }
}

/// One of them. It is over when it was waited for; one that was not is given up and ends.
pub(super) struct Running {
    commands: &'static Commands,
    number: u64,
}

impl Running {
    /// Waits for the end of its first process, whose number may be another process's after that.
    pub(super) async fn end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        poll_fn(|context| {
            let mut state = self.commands.lock();
            let polled = pin!(child.wait()).poll(context);
            if polled.is_ready() {
                state.groups.remove(&self.number);
            }
            polled
        })
        .await
    }

    /// Has all of its processes go on. The first of them has ended.
    pub(super) fn leave(&self) {
        self.commands.lock().groups.remove(&self.number);
    }

    /// Ends all of its processes; the first of them is to be waited for still.
    pub(super) fn kill(&self) {
        let group = self.commands.lock().groups.remove(&self.number);
        if let Some(group) = group {
            group.kill();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The processes of a command. A wrapper may have put some of them into a group or a session of their own.
struct Group {
    /// The first of them, whose number is that of its process group.
    leader: Pid,
    mark: Option<String>,
    /// Whether one that is outside of that group stays.
    spares: fn(Pid) -> bool,
}

impl Group {
    /// Nobody has waited for the first process yet.
    fn kill(&self) {
        let mut found = BTreeSet::new();
        for _ in 0..N_LOOKS_MAX {
            let all = self.descendants();
            let new: Vec<Pid> = all.difference(&found).filter(|pid| !(self.spares)(**pid)).copied().collect();
            if new.is_empty() {
                break;
            }
            // Those that have ended meanwhile need no signal.
            new.iter().for_each(|pid| _ = kill(*pid, Signal::SIGSTOP));
            found.extend(new);
        }
        let _ = killpg(self.leader, Signal::SIGKILL);
        found.into_iter().for_each(|pid| _ = kill(pid, Signal::SIGKILL));
    }

    /// The processes that descend from a command: those whose parents do, those of its process group, and those with its
    /// mark, which also those have that have left both.
    fn descendants(&self) -> BTreeSet<Pid> {
        let mut all = BTreeSet::from([self.leader]);
        let mut others: Vec<(Pid, Pid)> = Vec::new();
        let mark = self.mark.as_ref().map(|mark| format!("{MARK}={mark}"));
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let number = entry.file_name().to_string_lossy().parse::<i32>().ok().filter(|number| *number > 1);
            let Some(pid) = number.map(Pid::from_raw) else { continue };
            let Some((parent, group)) = parent_and_group(&entry.path()) else { continue };
            let has_mark = mark.as_ref().is_some_and(|mark| {
                let variables = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                variables.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            });
            match group == self.leader || has_mark {
                true => _ = all.insert(pid),
                false => others.push((pid, parent)),
            }
        }
        loop {
            let of_them = others.iter().filter(|(pid, parent)| all.contains(parent) && !all.contains(pid));
            let more: Vec<Pid> = of_them.map(|(pid, _)| *pid).collect();
            if more.is_empty() {
                return all;
            }
            all.extend(more);
        }
    }
}

/// Of a process that is there: its parent and its process group.
fn parent_and_group(process: &Path) -> Option<(Pid, Pid)> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    // A program's name may have blanks and brackets in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(1);
    let mut number = || Some(Pid::from_raw(fields.next()?.parse().ok()?));
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Whether a process of that number is there and no zombie.
    fn runs(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
    }

    #[tokio::test]
    async fn all_commands_end_with_their_process_and_none_begins_after_that() {
        let commands: &'static Commands = Box::leak(Box::new(Commands::new()));
        let folder = tempfile::tempdir().expect("a folder");
        let mut all = Vec::new();
        for number in 0..2 {
            let file = folder.path().join(number.to_string());
            let lines = format!(
                "(setsid sh -c 'echo $$ >> {0}; exec sleep 1000' &); echo $$ >> {0}; sleep 1000 & echo $! >> {0}; wait",
                file.display()
            );
            let mark = format!("{}-{number}-of-a-test", std::process::id());
            let mut command = Command::new("sh");
            command.args(["-c", &lines]).env(MARK, &mark).stdin(Stdio::null());
            all.push((commands.start(&mut command, Some(mark)).expect("it starts"), file));
        }
        let pids = |file: &Path| std::fs::read_to_string(file).unwrap_or_default();
        for (_, file) in &all {
            while pids(file).lines().count() < 3 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        commands.end(Duration::ZERO);
        for ((mut child, running), file) in all {
            let status = running.end(&mut child).await.expect("it has ended");
            assert_eq!(status.code(), None, "it was killed");
            for pid in pids(&file).lines() {
                while runs(pid) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        }
        let after = commands.start(&mut Command::new("true"), None).map(drop);
        assert!(after.is_err_and(|error| error.to_string() == "this process ends"));
    }
}
