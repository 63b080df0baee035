//! Ends descendants of tasks whose pilot lost both guard and worker to SIGKILL.
//!
//! The kernel ends a task's own process with its worker, but not the processes that the task started. They
//! have the pilot's mark in their environment, so a later search can tell that their pilot is dead.

use std::{collections::HashMap, ffi::CString, fs, os::unix::fs::MetadataExt, path::Path};

/// The environment variable with the mark.
const VARIABLE: &str = "PILOTFISH_KEEPERS";
/// The most searches; a process that forks faster than that is left to the next call.
const N_LOOKS_MAX: usize = 8;

/// Returns `PILOTFISH_KEEPERS=` with [`keepers`], for tasks of this process with this guard. Returns `None`
/// if /proc cannot be read; leftovers of its tasks are not found then.
pub fn mark(guard: Option<i32>) -> Option<CString> {
    CString::new(format!("{VARIABLE}={}", keepers(guard)?)).ok()
}

/// Returns `BOOT/NAMESPACE/PID:START[/PID:START]`: the place where process ids are unique, this process, and
/// the guard. Returns `None` if /proc cannot be read.
pub fn keepers(guard: Option<i32>) -> Option<String> {
    let proc = Path::new("/proc");
    let own = i32::try_from(std::process::id()).ok()?;
    let keeper = |pid: i32| Some(format!("{pid}:{}", Stat::read(proc, pid)?.start));
    let mut value = format!("{}/{}", place(proc)?, keeper(own)?);
    if let Some(guard) = guard.and_then(keeper) {
        value.push('/');
        value.push_str(&guard);
    }
    Some(value)
}

/// Returns whether all [`keepers`] are dead; `None` if they belong to another host, boot or container.
pub fn are_dead(keepers: &str) -> Option<bool> {
    let proc = Path::new("/proc");
    all_dead(proc, &place(proc)?, keepers)
}

/// Returns whether all [`keepers`] are dead, or existed before this host's last boot. Returns false if it is
/// unknown.
pub fn are_gone(keepers: &str) -> bool {
    let Some(place) = place(Path::new("/proc")) else { return false };
    let boot = |place: &str| place.split_once('/').map(|(boot, _)| boot.to_owned());
    let is_of_before = boot(keepers).is_some_and(|then| !then.is_empty() && Some(then) != boot(&place));
    is_of_before || are_dead(keepers) == Some(true)
}

/// Kills this user's processes that dead pilots have left here; returns their number.
///
/// Reads /proc once, and once more for each generation of processes that was found.
pub fn end_leftovers() -> usize {
    let proc = Path::new("/proc");
    let Ok(own) = i32::try_from(std::process::id()) else { return 0 };
    let mut killed: Vec<i32> = Vec::new();
    for _ in 0..N_LOOKS_MAX {
        let mut found = find(proc, own);
        found.retain(|pid| !killed.contains(pid));
        if found.is_empty() {
            break;
        }
        for pid in &found {
            // SAFETY: no memory is passed. It existed a moment ago, and its id is not reused at once.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        killed.extend(found);
    }
    killed.len()
}

/// The needed fields of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// Its parent's process id.
    pub(crate) parent: i32,
    /// Its process group.
    pub(crate) group: i32,
    /// In clock ticks since the system's start.
    pub(crate) start: u64,
    /// Whether the process is a zombie or dead.
    pub(crate) is_dead: bool,
}

impl Stat {
    /// Reads the fields of a process; `None` if it does not exist.
    pub(crate) fn read(proc: &Path, pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?)
    }

    /// Parses the text; the second field, a name, may contain any character.
    fn parse(stat: &str) -> Option<Stat> {
        let (_, after_name) = stat.rsplit_once(')')?;
        let mut fields = after_name.split_whitespace();
        let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(Stat { parent, group, start: fields.nth(16)?.parse().ok()?, is_dead })
    }
}

/// Returns the processes that dead pilots have left; `own`: the process that searches.
///
/// The mark alone is not enough: a batch job or a login that a task has started elsewhere inherits the
/// environment, but its parent is a daemon. The parent of a leftover is another leftover, or a process that
/// adopts orphans.
fn find(proc: &Path, own: i32) -> Vec<i32> {
    let Some(place) = place(proc) else { return Vec::new() };
    // Processes with our own mark belong to this pilot.
    let own_mark = mark_of(proc, own);
    let mut is_dead: HashMap<String, bool> = HashMap::new();
    let mut parents: HashMap<i32, i32> = HashMap::new();
    for pid in own_processes(proc).into_iter().filter(|pid| *pid != own) {
        let Some(mark) = mark_of(proc, pid).filter(|mark| Some(mark) != own_mark.as_ref()) else { continue };
        let dead = *is_dead.entry(mark).or_insert_with_key(|mark| all_dead(proc, &place, mark) == Some(true));
        if let (true, Some(stat)) = (dead, Stat::read(proc, pid).filter(|stat| !stat.is_dead)) {
            parents.insert(pid, stat.parent);
        }
    }
    if parents.is_empty() {
        return Vec::new();
    }
    let adopters = ancestors(proc, own);
    let mut found: Vec<i32> =
        parents.keys().copied().filter(|pid| adopters.contains(&topmost(*pid, &parents))).collect();
    found.sort_unstable();
    found
}

/// Returns the first ancestor of `pid` that is not a key of `parents`.
fn topmost(pid: i32, parents: &HashMap<i32, i32>) -> i32 {
    let mut above = pid;
    // The processes were not read at one instant, so the table may contain a cycle.
    for _ in 0..=parents.len() {
        match parents.get(&above) {
            Some(parent) => above = *parent,
            None => break,
        }
    }
    above
}

/// Returns the processes that adopt orphans here: process 1, and all ancestors of this process.
pub(crate) fn ancestors(proc: &Path, pid: i32) -> Vec<i32> {
    let mut found = vec![1];
    let mut above = pid;
    while let Some(parent) = Stat::read(proc, above).map(|stat| stat.parent) {
        if parent <= 1 || found.contains(&parent) {
            break;
        }
        found.push(parent);
        above = parent;
    }
    found
}

fn own_processes(proc: &Path) -> Vec<i32> {
    // SAFETY: no memory is passed.
    let user = unsafe { libc::geteuid() };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            (entry.metadata().ok()?.uid() == user).then_some(pid)
        })
        .collect()
}

/// Returns the mark in a process's environment.
fn mark_of(proc: &Path, pid: i32) -> Option<String> {
    let environment = fs::read(proc.join(pid.to_string()).join("environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Returns whether all processes of a mark are dead; `None` for a mark from another host, boot or container.
fn all_dead(proc: &Path, place: &str, mark: &str) -> Option<bool> {
    let keepers = mark.strip_prefix(place)?.strip_prefix('/')?;
    let is_dead = |keeper: &str| {
        let named =
            keeper.split_once(':').and_then(|(pid, start)| Some((pid.parse().ok()?, start.parse().ok()?)));
        // A process that cannot be parsed may be alive.
        named.is_some_and(|(pid, start): (i32, u64)| {
            Stat::read(proc, pid).is_none_or(|stat| stat.is_dead || stat.start != start)
        })
    };
    Some(keepers.split('/').all(is_dead))
}

/// Returns the place in which process ids are unique: boot and namespace, without a slash at the end.
pub(crate) fn place(proc: &Path) -> Option<String> {
    let boot = fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    let namespace = fs::metadata(proc.join("self/ns/pid")).ok()?.ino();
    Some(format!("{}/{namespace}", boot.trim()))
}

/// A fake /proc for tests.
#[cfg(test)]
pub(crate) mod testing {
    use std::{fs, path::Path};

    use super::place;

    /// The process that searches.
    pub(crate) const LOOKER: i32 = 50;

    /// A fake /proc in which process 50 searches; its parent is 40, whose parent is process 1.
    pub(crate) struct Proc {
        folder: tempfile::TempDir,
    }

    impl Proc {
        pub(crate) fn new() -> Proc {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("sys/kernel/random")).unwrap();
            fs::create_dir_all(folder.path().join("self/ns")).unwrap();
            fs::write(folder.path().join("sys/kernel/random/boot_id"), "boot\n").unwrap();
            fs::write(folder.path().join("self/ns/pid"), "").unwrap();
            let proc = Proc { folder };
            proc.process(40, 1, 5, "");
            proc.process(LOOKER, 40, 6, "");
            proc
        }

        pub(crate) fn path(&self) -> &Path {
            self.folder.path()
        }

        pub(crate) fn process(&self, pid: i32, parent: i32, start: u64, environ: &str) {
            self.process_in("S", pid, parent, start, environ);
        }

        pub(crate) fn process_in(&self, state: &str, pid: i32, parent: i32, start: u64, environ: &str) {
            let folder = self.path().join(pid.to_string());
            fs::create_dir_all(&folder).unwrap();
            let zeros = "0 ".repeat(17);
            fs::write(folder.join("stat"), format!("{pid} (a) b) {state} {parent} {zeros}{start} 0"))
                .unwrap();
            fs::write(folder.join("environ"), environ.replace(' ', "\0")).unwrap();
        }

        pub(crate) fn mark(&self, keepers: &str) -> String {
            format!("A=1 PILOTFISH_KEEPERS={}/{keepers} B=2", place(self.path()).unwrap())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{
        Stat, are_dead, are_gone, find, mark,
        testing::{LOOKER, Proc},
    };

    fn found(proc: &Proc) -> Vec<i32> {
        find(proc.path(), LOOKER)
    }

    #[test]
    fn only_what_has_no_keeper_left_is_found() {
        let proc = Proc::new();
        let mark = proc.mark("10:7/11:8");
        proc.process(20, 1, 9, &mark);
        proc.process(21, 20, 9, &mark);
        proc.process(22, 1, 9, "A=1");
        assert_eq!(found(&proc), [20, 21]);
        proc.process(10, 1, 7, "");
        assert_eq!(found(&proc), [0; 0], "a worker that drains without its guard");
        proc.process(10, 1, 70, "");
        assert_eq!(found(&proc), [20, 21], "somebody else has its number now");
        proc.process(11, 1, 8, "");
        assert_eq!(found(&proc), [0; 0], "a guard that ends what its worker left");
        proc.process_in("Z", 11, 1, 8, "");
        assert_eq!(found(&proc), [20, 21], "dead, and nobody has asked for its end");
    }

    #[test]
    fn what_a_daemon_has_started_is_nobodys_leftover() {
        let proc = Proc::new();
        let mark = proc.mark("10:7");
        proc.process(30, 1, 1, "");
        proc.process(20, 30, 9, &mark);
        proc.process(21, 20, 9, &mark);
        assert_eq!(found(&proc), [0; 0]);
        proc.process(23, 40, 9, &mark);
        assert_eq!(found(&proc), [23], "adopted by an ancestor of ours");
    }

    #[test]
    fn marks_of_other_places_and_our_own_are_let_alone() {
        let proc = Proc::new();
        proc.process(20, 1, 9, "PILOTFISH_KEEPERS=otherboot/1/10:7");
        proc.process(21, 1, 9, &proc.mark("10:7").replace("boot/", "boot/9"));
        proc.process(22, 1, 9, &proc.mark("nonsense"));
        proc.process(23, 1, 9, &proc.mark("10:7/"));
        assert_eq!(found(&proc), [0; 0]);
        let mark = proc.mark("10:7");
        proc.process(24, 1, 9, &mark);
        assert_eq!(found(&proc), [24]);
        proc.process(LOOKER, 40, 6, &mark);
        assert_eq!(found(&proc), [0; 0], "the looker is one of them");
    }

    #[test]
    fn a_living_process_marks_its_tasks_as_kept() {
        let mark = mark(None).unwrap().into_string().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let start = Stat::read(Path::new("/proc"), own).unwrap().start;
        assert!(
            mark.starts_with("PILOTFISH_KEEPERS=") && mark.ends_with(&format!("/{own}:{start}")),
            "{mark}"
        );
        let value = mark.strip_prefix("PILOTFISH_KEEPERS=").unwrap();
        assert_eq!(are_dead(value), Some(false));
        let dead = value.replace(&format!(":{start}"), &format!(":{}", start + 1));
        assert_eq!(are_dead(&dead), Some(true));
        assert_eq!((are_dead(&format!("x{dead}")), are_dead("")), (None, None), "nobody knows");
        assert!(are_gone(&dead) && !are_gone(value) && !are_gone(""));
        assert!(are_gone(&format!("x{value}")), "the host was started anew");
    }
}
