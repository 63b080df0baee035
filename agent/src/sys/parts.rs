//! Incomplete files, each beside its final path. Their names identify the writing process, so that the next
//! process that writes to the folder removes the files of killed ones.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use protocol::files::parts::PART_PREFIX;

use crate::{
    guard::leftovers::{self, Stat},
    sys::sha256,
};

/// Time without a write after which a part from another host, boot or container counts as left by an ended
/// process.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Number of characters of the digest of a place.
const PLACE_CHARS: usize = 16;

/// Returns the beginning of the names of this process's parts: `.pilotfish-PLACE-PID-START-`. The caller
/// appends a unique suffix.
pub fn prefix() -> String {
    /// The last prefix, with its process: a forked process needs another one.
    static MADE: Mutex<Option<(u32, String)>> = Mutex::new(None);
    let pid = std::process::id();
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    match made.as_ref().filter(|(of, _)| *of == pid) {
        Some((_, prefix)) => prefix.clone(),
        None => {
            let prefix = prefix_of(Path::new("/proc"), pid);
            *made = Some((pid, prefix.clone()));
            prefix
        }
    }
}

fn prefix_of(proc: &Path, pid: u32) -> String {
    let start = i32::try_from(pid).ok().and_then(|pid| Stat::read(proc, pid)).map_or(0, |stat| stat.start);
    // Without a place from the system, nothing identifies the process.
    let place = place(proc).unwrap_or_else(|| "0".repeat(PLACE_CHARS));
    format!("{PART_PREFIX}{place}-{pid}-{start}-")
}

/// Returns a short digest of the namespace of process ids: host, boot and container.
fn place(proc: &Path) -> Option<String> {
    let place = leftovers::place(proc)?;
    Some(sha256::of(place.as_bytes()).to_string().chars().take(PLACE_CHARS).collect())
}

/// Removes from a folder the parts of this user's processes that have ended; returns their number. Reads all
/// names.
pub fn remove_dead(folder: &Path) -> usize {
    let proc = Path::new("/proc");
    // SAFETY: no memory is passed.
    let user = unsafe { libc::geteuid() };
    let (now, place) = (SystemTime::now(), place(proc));
    let is_dead = |entry: &fs::DirEntry| {
        let Some(writer) = entry.file_name().to_str().and_then(Writer::of) else { return false };
        let Ok(facts) = entry.metadata() else { return false };
        let age = facts.modified().ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
        facts.is_file() && facts.uid() == user && writer.is_dead(proc, place.as_deref(), age)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // The next process that writes here tries again to remove a part that cannot be removed now.
    let n = entries.filter(is_dead).filter(|entry| fs::remove_file(entry.path()).is_ok()).count();
    if n > 0 {
        tracing::info!(folder = %folder.display(), n, "removed parts of files that killed processes have left");
    }
    n
}

/// The process that writes a part, read from the part's name.
struct Writer {
    place: String,
    pid: i32,
    start: u64,
}

impl Writer {
    fn of(name: &str) -> Option<Writer> {
        let mut words = name.strip_prefix(PART_PREFIX)?.splitn(4, '-');
        let place = words.next().filter(|place| place.len() == PLACE_CHARS)?.to_owned();
        let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().filter(|rest| !rest.is_empty())?;
        Some(Writer { place, pid, start })
    }

    fn is_dead(&self, proc: &Path, here: Option<&str>, age: Duration) -> bool {
        if here == Some(self.place.as_str()) {
            return Stat::read(proc, self.pid).is_none_or(|stat| stat.is_dead || stat.start != self.start);
        }
        age >= LEFT_AFTER
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
        time::{Duration, SystemTime},
    };

    use super::{LEFT_AFTER, Writer, place, prefix, remove_dead};
    use crate::guard::leftovers::Stat;

    #[test]
    fn parts_of_processes_that_are_no_more_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Path::new("/proc");
        let (here, pid) = (place(proc).unwrap(), std::process::id());
        let start = Stat::read(proc, i32::try_from(pid).unwrap()).unwrap().start;
        let elsewhere = "f".repeat(16);
        assert_eq!(prefix(), format!(".pilotfish-{here}-{pid}-{start}-"));
        let days = |n: u32| SystemTime::now() - n * LEFT_AFTER - Duration::from_secs(60);
        for (name, written_at) in [
            (format!("{}a1", prefix()), days(9)),
            // The pid was given to another process meanwhile.
            (format!(".pilotfish-{here}-{pid}-{}-a1", start + 1), days(0)),
            (format!(".pilotfish-{elsewhere}-{pid}-{start}-a1"), days(0)),
            (format!(".pilotfish-{elsewhere}-{pid}-{start}-a2"), days(1)),
            (".pilotfish-notes".into(), days(9)),
            (format!(".pilotfish-{elsewhere}-{pid}-{start}"), days(9)),
            ("out.txt".into(), days(9)),
        ] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(written_at).unwrap();
        }
        fs::create_dir(folder.path().join(format!(".pilotfish-{here}-{pid}-{}-d", start + 1))).unwrap();
        assert_eq!(remove_dead(folder.path()), 2);
        let left = fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mut expected = [
            format!("{}a1", prefix()),
            format!(".pilotfish-{elsewhere}-{pid}-{start}-a1"),
            ".pilotfish-notes".into(),
            format!(".pilotfish-{elsewhere}-{pid}-{start}"),
            "out.txt".into(),
            format!(".pilotfish-{here}-{pid}-{}-d", start + 1),
        ];
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(remove_dead(&folder.path().join("missing")), 0);
    }

    #[test]
    fn name_of_a_part_tells_the_process_that_writes_it() {
        for name in [".pilotfish-a1b2c3", ".pilotfish-0123456789abcdef", ".pilotfish-0123456789abcdef-x-1-a"]
        {
            assert!(Writer::of(name).is_none(), "{name}");
        }
        assert!(Writer::of(&format!("{}a1b2c3", prefix())).is_some());
    }
}
