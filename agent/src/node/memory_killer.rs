//! The kernel's counts of processes that it has killed for lack of memory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::node::own_cgroup_folders;

/// The counters of this process's control groups; those of the whole machine if the groups have none.
#[derive(Debug)]
pub struct MemoryKiller {
    /// Each counter's file with its last value.
    counters: Vec<(PathBuf, u64)>,
}

impl MemoryKiller {
    /// Finds the counters below `root` (`/` on a real machine) and reads them for the first time.
    pub fn new(root: &Path) -> MemoryKiller {
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let files = own_cgroup_folders(&groups).into_iter();
        let files =
            files.flat_map(|folder| ["memory.events", "memory.oom_control"].map(|name| folder.join(name)));
        let read = |path: PathBuf| {
            let path = root.join(path);
            n_killed(&path).map(|n| (path, n))
        };
        let mut counters: Vec<(PathBuf, u64)> = files.filter_map(read).collect();
        if counters.is_empty() {
            counters.extend(read("proc/vmstat".into()));
        }
        MemoryKiller { counters }
    }

    /// Returns whether the kernel has killed a process since the last call. Returns false if the kernel has
    /// no counter.
    pub fn has_struck(&mut self) -> bool {
        let mut has_struck = false;
        for (path, before) in &mut self.counters {
            let Some(n) = n_killed(path) else { continue };
            has_struck |= n > *before;
            *before = n;
        }
        has_struck
    }
}

/// Returns N of the line `oom_kill N`; `None` if the file has no such line, as in old kernels.
fn n_killed(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::MemoryKiller;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Checks that a kill is noticed once if this file counts it.
    fn assert_noticed(root: &Path, path: &str, text: &dyn Fn(u64) -> String) {
        write(root, path, &text(3));
        let mut killer = MemoryKiller::new(root);
        assert!(!killer.has_struck(), "{path}");
        write(root, path, &text(4));
        assert_eq!([killer.has_struck(), killer.has_struck()], [true, false], "{path}");
    }

    #[test]
    fn kills_are_noticed_once_in_either_version_of_control_groups_and_without_any() {
        let root = tempfile::tempdir().unwrap();
        assert!(!MemoryKiller::new(root.path()).has_struck(), "nothing is counted");
        assert_noticed(root.path(), "proc/vmstat", &|n| format!("pgfault 5\noom_kill {n}\n"));
        write(root.path(), "proc/self/cgroup", "4:memory:/slurm/job_7\n1:cpu:/\n");
        assert_noticed(root.path(), "sys/fs/cgroup/memory/slurm/job_7/memory.oom_control", &|n| {
            format!("oom_kill_disable 0\nunder_oom 0\noom_kill {n}\n")
        });
        write(root.path(), "proc/self/cgroup", "0::/system.slice/cloud-final.service\n");
        assert_noticed(root.path(), "sys/fs/cgroup/system.slice/cloud-final.service/memory.events", &|n| {
            format!("low 0\nhigh 0\nmax 0\noom {n}\noom_kill {n}\noom_group_kill 0\n")
        });
    }

    #[test]
    fn kills_elsewhere_on_the_machine_do_not_count_where_the_own_group_is_counted() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/self/cgroup", "0::/a/b\n");
        write(root.path(), "proc/vmstat", "oom_kill 1\n");
        write(root.path(), "sys/fs/cgroup/a/memory.events", "oom_kill 1\n");
        write(root.path(), "sys/fs/cgroup/a/b/memory.events", "oom_kill 0\n");
        let mut killer = MemoryKiller::new(root.path());
        write(root.path(), "proc/vmstat", "oom_kill 2\n");
        write(root.path(), "sys/fs/cgroup/a/memory.events", "oom_kill 2\n");
        assert!(!killer.has_struck());
    }
}
