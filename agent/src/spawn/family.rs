//! All processes of a program that we end, also those in groups and sessions of their own.
//!
//! They are found by the parents that /proc names, below the program's process. Whose parent has ended
//! is the guard's child then and known by the program's mark in its environment, or because it was seen
//! before. One look at /proc serves all programs that are ended at one moment; others cost none.

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

/// The variables that tell one program of one pilot from all others; programs have no other of these.
const MARKS: [&[u8]; 5] = [
    b"PILOTFISH_KEEPERS=",
    b"PILOTFISH_SLOT=",
    b"PILOTFISH_JOB_ID=",
    b"PILOTFISH_TASK_ID=",
    b"PILOTFISH_ATTEMPT=",
];
/// Those without which it would not: which pilot, and where in it.
const NEEDED: [&[u8]; 2] = [b"PILOTFISH_KEEPERS=", b"PILOTFISH_SLOT="];

/// The processes of one program.
#[derive(Debug)]
pub(super) struct Family {
    /// What is in the environment of each that has not changed it; empty: nothing is known of that.
    mark: Vec<CString>,
    /// Those that were seen, with their starts.
    known: HashMap<i32, u64>,
}

impl Family {
    /// The family of a program with that environment, of which nobody was seen yet.
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

/// One look at all processes.
pub(super) struct Look {
    proc: PathBuf,
    own: i32,
    stats: HashMap<i32, Stat>,
    children: HashMap<i32, Vec<i32>>,
    /// Whom an ended parent has left, and their environments.
    orphans: Vec<(i32, Vec<u8>)>,
}

impl Look {
    /// Looks. Cost: two or three system calls for each process of the host.
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
            // A dead one has no children, and has left no more than its number.
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

    /// The living ones of a family, from now on known, with its first process `root`: a child of ours that
    /// nobody has asked for its end yet, or `None`.
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

    /// Whether an orphan shows no environment, as one does that is about to become another program: it may
    /// be of any family.
    pub(super) fn is_unsure(&self) -> bool {
        self.orphans.iter().any(|(pid, environ)| *pid != self.own && environ.is_empty())
    }

    /// Asks a program and its family to end, each process once.
    pub(super) fn ask_to_end(&self, family: &mut Family, root: i32) {
        let members = self.members(family, Some(root));
        kill_group(root, libc::SIGTERM);
        // One that is stopped would not hear it.
        kill_group(root, libc::SIGCONT);
        for (pid, stat) in members.iter().filter(|(_, stat)| stat.group != root) {
            self.signal(*pid, stat, libc::SIGTERM);
            self.signal(*pid, stat, libc::SIGCONT);
        }
    }

    /// Kills a family, `root` as for [`Look::members`]; returns how many there were.
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

    /// Looking at all takes a while: whoever has that number must still be who was seen.
    fn signal(&self, pid: i32, seen: &Stat, signal: libc::c_int) {
        if Stat::read(&self.proc, pid).is_some_and(|stat| stat.start == seen.start) {
            // SAFETY: no memory is passed.
            unsafe { libc::kill(pid, signal) };
        }
    }
}

/// Sends a signal to a process group; says whether anybody was there.
pub(super) fn kill_group(pid: libc::pid_t, signal: libc::c_int) -> bool {
    // SAFETY: no memory is passed.
    unsafe { libc::kill(-pid, signal) == 0 }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, sync::Arc};

    use super::{Family, Look};
    use crate::{guard::leftovers::testing::Proc, spawn::Environment};

    /// The guard, its worker and a task of the made-up /proc.
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
        // The task has ended, and its number is a stranger's.
        proc.process(TASK, 1, 9, "");
        proc.process(67, TASK, 9, "");
        assert_eq!(members(&proc, &mut family, None), [61, 62]);
        proc.process(61, 1, 10, "");
        assert_eq!(members(&proc, &mut family, None), [62]);
    }
}
