//! Measures the memory of a program and its descendants from /proc.
//!
//! RLIMIT_AS would limit address space, which many programs reserve and never use. So resident pages are
//! counted, more often for programs with a limit.

use std::{fs, path::PathBuf};

/// The most descendants to look at, which limits the cost of a fork bomb.
const N_PROCESSES_MAX: usize = 4096;

/// Returns the memory of `pid` and its descendants in bytes.
///
/// Sums up resident pages, which is cheap. Only if the sum is more than `limit_bytes`, it reads the
/// proportional share of pages (Pss): forked workers share pages, which would be counted many times.
pub(super) fn held_bytes(pid: libc::pid_t, limit_bytes: u64) -> u64 {
    let family = family(pid);
    let resident: u64 = family.iter().filter_map(|pid| resident_bytes(*pid)).sum();
    if resident <= limit_bytes {
        return resident;
    }
    family.iter().filter_map(|pid| proportional_bytes(*pid).or_else(|| resident_bytes(*pid))).sum()
}

/// Returns the resident memory of one process in bytes; `None` if the process is gone.
pub(crate) fn resident_bytes(pid: libc::pid_t) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_bytes())
}

fn proportional_bytes(pid: libc::pid_t) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the process and all of its descendants.
pub(crate) fn family(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let mut family = vec![pid];
    let mut n_seen = 0;
    while let Some(parent) = family.get(n_seen).copied() {
        n_seen += 1;
        if family.len() < N_PROCESSES_MAX {
            family.extend(children(parent));
        }
    }
    family
}

fn children(pid: libc::pid_t) -> Vec<libc::pid_t> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| -> PathBuf { thread.path().join("children") });
    let texts = lists.filter_map(|list| fs::read_to_string(list).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn page_bytes() -> u64 {
    // SAFETY: no memory is passed.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::{held_bytes, proportional_bytes, resident_bytes};

    #[test]
    fn own_memory_is_seen() {
        let pid = libc::pid_t::try_from(std::process::id()).unwrap();
        let resident = resident_bytes(pid).unwrap();
        assert!(resident > 500_000, "{resident}");
        let proportional = proportional_bytes(pid).unwrap();
        assert!(proportional > 100_000 && proportional <= resident * 2, "{proportional}");
        assert!(held_bytes(pid, u64::MAX) >= resident / 2);
        assert_eq!(resident_bytes(-1), None);
    }
}
