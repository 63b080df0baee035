//! The family of a program that is ended here: all its processes, also those in process groups and sessions
//! of their own.
//!
//! They are found by their parents in /proc, below the program's process. If a parent has ended, its children
//! become children of the guard; they are found by the program's mark in their environment, or because they
//! were seen before. One look at /proc serves all programs that are ended at a time; other programs cost
//! nothing.

use std::{
    collections::HashMap,
    ffi::CString,
    fs,
    path::{Path, PathBuf},
};

use super::Environment;
use crate::guard::{
    keeper,
    leftovers::{self, Stat},
};

/// The variables that identify one program of one pilot; the environment of a program has no second entry of
/// these.
const MARKS: [&[u8]; 5] = [
    b"PILOTFISH_KEEPERS=",
    b"PILOTFISH_SLOT=",
    b"PILOTFISH_JOB_ID=",
    b"PILOTFISH_TASK_ID=",
    b"PILOTFISH_ATTEMPT=",
];
/// The variables without which the mark is not unique: the pilot, and the slot in it.
const NEEDED: [&[u8]; 2] = [b"PILOTFISH_KEEPERS=", b"PILOTFISH_SLOT="];

/// The processes of one program.
#[derive(Debug)]
pub(super) struct Family {
    /// Entries in the environment of each process that has not changed it; empty: processes cannot be found
    /// by it.
    mark: Vec<CString>,
    /// Processes that were seen, with their start times.
    known: HashMap<i32, u64>,
}

impl Family {
    /// Returns the family of a program with this environment, of which no process was seen yet.
    pub(super) fn new(environment: &Environment) -> Family {
        let is_of =
            |entry: &CString, names: &[&[u8]]| names.iter().any(|name| entry.to_bytes().starts_with(name));
        let entries = environment.own.iter().chain(environment.shared.iter());
        let mark: Vec<CString> = entries.filter(|entry| is_of(entry, &MARKS)).cloned().collect();
        let is_unique = NEEDED.iter().all(|name| mark.iter().any(|entry| is_of(entry, &[name])));
        Family { mark: if is_unique { mark } else { Vec::new() }, known: HashMap::new() }
    }

    fn has_marked(&self, environ: &[u8]) -> bool {
        let is_there =
            |mark: &CString| environ.split(|byte| *byte == 0).any(|entry| entry == mark.to_bytes());
        !self.mark.is_empty() && self.mark.iter().all(is_there)
    }
}

/// A snapshot of all processes.
pub(super) struct Look {
    proc: PathBuf,
    own: i32,
    stats: HashMap<i32, Stat>,
    children: HashMap<i32, Vec<i32>>,
    /// Processes whose parents have ended, with their environments.
    orphans: Vec<(i32, Vec<u8>)>,
}

impl Look {
    /// Takes a snapshot. Costs two or three system calls for each process of the host.
    pub(super) fn now() -> Look {
        let proc = Path::new("/proc");
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let adopters =
            keeper::living_guard().map_or_else(|| leftovers::ancestors(proc, own), |guard| vec![guard]);
        Look::at(proc, own, &adopters)
    }

    fn at(proc: &Path, own: i32, adopters: &[i32]) -> Look {
        let mut look = Look {
            proc: proc.into(),
            own,
            stats: HashMap::new(),
            children: HashMap::new(),
            orphans: Vec::new(),
        };
        for entry in fs::read_dir(proc).into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A dead process has no children and nothing but its pid.
            let Some(stat) = Stat::read(proc, pid).filter(|stat| !stat.is_dead) else { continue };
            look.stats.insert(pid, stat);
            look.children.entry(stat.parent).or_default().push(pid);
        }
        for pid in adopters.iter().filter_map(|adopter| look.children.get(adopter)).flatten() {
            if let Ok(environ) = fs::read(proc.join(pid.to_string()).join("environ")) {
                look.orphans.push((*pid, environ));
            }
        }
        look
    }

    /// Returns the living processes of a family and remembers them. `root`: its first process, if that is a
    /// child of ours that is not reaped yet.
    fn members(&self, family: &mut Family, root: Option<i32>) -> Vec<(i32, Stat)> {
        let is_known = |pid: &i32, start: &u64| self.stats.get(pid).is_some_and(|stat| stat.start == *start);
        family.known.retain(|pid, start| is_known(pid, start));
        let orphans = self.orphans.iter().filter(|(_, environ)| family.has_marked(environ));
        let mut found: Vec<i32> = family.known.keys().copied().chain(orphans.map(|(pid, _)| *pid)).collect();
        found.extend(root);
        let mut members = HashMap::new();
        while let Some(pid) = found.pop() {
            if let Some(stat) = self.stats.get(&pid).filter(|_| pid != self.own)
                && members.insert(pid, *stat).is_none()
            {
                found.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        family.known = members.iter().map(|(pid, stat)| (*pid, stat.start)).collect();
        members.into_iter().collect()
    }

    /// Returns whether an orphan has an empty environment, as during an exec: it may belong to any family.
    pub(super) fn is_unsure(&self) -> bool {
        self.orphans.iter().any(|(pid, environ)| *pid != self.own && environ.is_empty())
    }

    /// Sends SIGTERM to a program and its family, once to each process.
    pub(super) fn ask_to_end(&self, family: &mut Family, root: i32) {
        let members = self.members(family, Some(root));
        kill_group(root, libc::SIGTERM);
        // A stopped process would not handle the signal.
        kill_group(root, libc::SIGCONT);
        for (pid, stat) in members.iter().filter(|(_, stat)| stat.group != root) {
            self.signal(*pid, stat, libc::SIGTERM);
            self.signal(*pid, stat, libc::SIGCONT);
        }
    }

    /// Kills a family; returns the number of its living processes. `root`: as for [`Look::members`].
    pub(super) fn kill(&self, family: &mut Family, root: Option<i32>) -> usize {
        let members = self.members(family, root);
        if let Some(root) = root {
            kill_group(root, libc::SIGKILL);
        }
        for (pid, stat) in &members {
            self.signal(*pid, stat, libc::SIGKILL);
        }
        members.len()
    }

    /// Sends a signal if the pid still belongs to the process that was seen: a snapshot takes some time.
    fn signal(&self, pid: i32, seen: &Stat, signal: libc::c_int) {
        if Stat::read(&self.proc, pid).is_some_and(|stat| stat.start == seen.start) {
            // SAFETY: no memory is passed.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

/// Sends a signal to a process group; returns whether it had any process.
pub(super) fn kill_group(pid: libc::pid_t, signal: libc::c_int) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(-pid, signal) == 0 }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, sync::Arc};

    use super::{Family, Look};
    use crate::{guard::leftovers::testing::Proc, spawn::Environment};

    /// The guard, its worker and a task in the fake /proc.
    const GUARD: i32 = 40;
    const WORKER: i32 = 50;
    const TASK: i32 = 60;
    const MARK: &str = "A=1 PILOTFISH_KEEPERS=here PILOTFISH_SLOT=0 PILOTFISH_TASK_ID=3.8";

    fn family() -> Family {
        let entry = |text: &str| CString::new(text).unwrap();
        let own = MARK.split(' ').skip(2).map(entry).collect();
        Family::new(&Environment {
            shared: Arc::new(vec![entry("A=1"), entry("PILOTFISH_KEEPERS=here")]),
            own,
        })
    }

    fn members(proc: &Proc, family: &mut Family, root: Option<i32>) -> Vec<i32> {
        let look = Look::at(proc.path(), WORKER, &[GUARD]);
        let mut found: Vec<i32> = look.members(family, root).into_iter().map(|(pid, _)| pid).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn descendants_are_found_whatever_their_environment() {
        let proc = Proc::new();
        proc.process(TASK, WORKER, 7, MARK);
        proc.process(61, TASK, 8, "");
        proc.process(30, 61, 9, MARK);
        proc.process_in("Z", 62, TASK, 8, "");
        proc.process(70, WORKER, 7, "");
        proc.process(71, 70, 8, MARK);
        assert_eq!(members(&proc, &mut family(), Some(TASK)), [30, TASK, 61]);
    }

    #[test]
    fn orphans_are_known_by_all_of_the_mark() {
        let proc = Proc::new();
        proc.process(61, GUARD, 8, &format!("B=2 {MARK} C=3"));
        proc.process(62, 61, 8, "");
        proc.process(63, GUARD, 8, &MARK.replace("3.8", "3.88"));
        proc.process(64, GUARD, 8, &MARK.replace("here", "there"));
        proc.process(65, GUARD, 8, "");
        proc.process(66, 1, 8, MARK);
        assert_eq!(members(&proc, &mut family(), None), [61, 62]);
        let mut unmarked = Family::new(&Environment::default());
        assert_eq!(members(&proc, &mut unmarked, None), [0; 0]);
    }

    #[test]
    fn orphan_without_environment_may_be_anybodys() {
        let proc = Proc::new();
        proc.process(61, GUARD, 8, MARK);
        proc.process(62, 61, 8, "");
        assert!(!Look::at(proc.path(), WORKER, &[GUARD]).is_unsure());
        proc.process(63, GUARD, 8, "");
        assert!(Look::at(proc.path(), WORKER, &[GUARD]).is_unsure());
    }

    #[test]
    fn once_seen_is_known_until_the_number_is_somebody_elses() {
        let proc = Proc::new();
        let mut family = family();
        proc.process(TASK, WORKER, 7, MARK);
        proc.process(61, TASK, 8, "");
        assert_eq!(members(&proc, &mut family, Some(TASK)), [TASK, 61]);
        proc.process(61, GUARD, 8, "");
        proc.process(62, 61, 9, "");
        // The task has ended, and another process has its pid.
        proc.process(TASK, 1, 9, "");
        proc.process(67, TASK, 9, "");
        assert_eq!(members(&proc, &mut family, None), [61, 62]);
        proc.process(61, 1, 10, "");
        assert_eq!(members(&proc, &mut family, None), [62]);
    }
}
