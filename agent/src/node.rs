//! The resources of this node for tasks: cores, memory, GPUs; and the facts about the pilot's batch job.
//!
//! The parsers do no I/O; [`discover`] reads their files below a root, so that a test can lay out the files
//! of any machine.

pub mod gpus;
pub mod limits;
pub(crate) mod memory_killer;
pub(crate) mod ranks;
pub(crate) mod signals;
pub mod slots;
pub(crate) mod starvation;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::node::gpus::Gpus;

/// The resources of a node, as far as this process may use them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The host's name.
    pub hostname: String,
    /// The CPUs to which tasks may be bound, by the kernel's numbers, ascending.
    pub cpus: Vec<usize>,
    /// Number of whole cores to use: fewer than the CPUs if there is a CPU quota.
    pub n_cores: u32,
    /// Memory in bytes; 0: unknown.
    pub memory_bytes: u64,
    /// The GPUs of this pilot.
    pub gpus: Gpus,
    /// The id of the pilot's job in the batch system.
    pub batch_id: Option<String>,
    /// The number of this node in the job, as far as the launcher of the agent sets it.
    pub rank: u32,
    /// The end of the job's walltime, in seconds since 1970.
    pub walltime_end_unix: Option<u64>,
    /// The time between the batch system's signal and the kill, if it is known.
    pub notice: Option<Duration>,
}

/// Reads the properties of the machine below `root` (`/` on a real machine). `variable`: the environment.
pub fn discover(root: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Node {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let cpus = allowed_cpus(&read("proc/self/status"));
    let cgroups = cgroup_folders(&read("proc/self/cgroup"));
    let quota = smallest(&cgroups, |folder| cpu_quota(&root.join(folder)));
    let memory_limit = smallest(&cgroups, |folder| memory_limit(&root.join(folder)));
    let n_cores = quota.map_or(cpus.len() as u64, |quota| quota.min(cpus.len() as u64)).max(1);
    let total = memory_total(&read("proc/meminfo"));
    Node {
        hostname: read("proc/sys/kernel/hostname").trim().to_string(),
        n_cores: u32::try_from(n_cores).unwrap_or(u32::MAX),
        cpus,
        memory_bytes: total.into_iter().chain(memory_limit).min().unwrap_or(0),
        gpus: Gpus::discover(root, variable),
        batch_id: batch_id(variable),
        rank: rank(variable),
        walltime_end_unix: walltime_end(&read, variable),
        // Grid Engine tells a job neither its walltime nor its end, but its notice.
        notice: variable("SGE_JOB_SPOOL_DIR")
            .and_then(|folder| notice(&read(&format!("{}/config", folder.trim_start_matches('/'))))),
    }
}

/// Returns the CPUs of `Cpus_allowed_list` in `/proc/PID/status`, as affinity and cpusets allow them.
fn allowed_cpus(status: &str) -> Vec<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    cpu_list(list.unwrap_or("0"))
}

/// Parses a list like `0-3,8,10-11`; skips parts that are no numbers.
fn cpu_list(list: &str) -> Vec<usize> {
    let mut cpus: Vec<usize> = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last.min(first.saturating_add(1 << 16)));
        }
    }
    cpus
}

/// Returns the directories of our control groups in both hierarchies, with all of their parents, from
/// `/proc/self/cgroup`.
///
/// In a container the paths may be those of the host, which do not exist here; the mount's own directory is
/// included.
fn cgroup_folders(text: &str) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = cgroup_mounts(text)
        .flat_map(|(mount, own)| own.ancestors().map(|folder| mount.join(folder)).collect::<Vec<PathBuf>>())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Returns the directories of our own control groups for memory and CPU, without their parents.
pub(crate) fn own_cgroup_folders(text: &str) -> Vec<PathBuf> {
    cgroup_mounts(text).map(|(mount, own)| mount.join(own)).collect()
}

/// Returns the possible mounts of the hierarchies for memory and CPU, each with our group's path in it.
fn cgroup_mounts(text: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let is_ours = |name: &str| matches!(name, "cpu" | "memory");
        let mounts: Vec<String> = match controllers {
            // Version 2, alone or beside version 1.
            "" => vec!["sys/fs/cgroup".into(), "sys/fs/cgroup/unified".into()],
            list if list.split(',').any(is_ours) => {
                let single = list.split(',').filter(|name| is_ours(name)).map(str::to_string);
                single.chain([list.to_string()]).map(|name| format!("sys/fs/cgroup/{name}")).collect()
            }
            _ => continue,
        };
        let own = path.trim_start_matches('/');
        found.extend(mounts.into_iter().map(|mount| (PathBuf::from(mount), PathBuf::from(own))));
    }
    found.into_iter()
}

fn smallest(folders: &[PathBuf], limit: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
    folders.iter().filter_map(|folder| limit(folder)).min()
}

/// Returns the number of whole cores in the group's quota, at least 1; `None`: there is no quota.
fn cpu_quota(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    if let Some(text) = read("cpu.max") {
        return quota_cores(text.split_whitespace().next()?, text.split_whitespace().nth(1)?);
    }
    quota_cores(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// Returns the number of cores from a quota and a period in microseconds; `None` for `max` and `-1`.
fn quota_cores(quota: &str, period: &str) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    Some(quota.checked_div(period)?.max(1))
}

fn memory_limit(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let text = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    // "max" is no number. Without a limit, version 1 has a number near 2^63, which is never the smallest.
    text.trim().parse().ok()
}

/// Returns `MemTotal` of `/proc/meminfo` in bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the number of this node in its job. srun, pbsdsh of both PBS, LoadLeveler's poe and MPI's
/// launchers number their processes; Grid Engine numbers the tasks of a job array, from 1.
fn rank(variable: &dyn Fn(&str) -> Option<String>) -> u32 {
    const NUMBERS: [&str; 6] =
        ["SLURM_PROCID", "PBS_NODENUM", "PBS_VNODENUM", "MP_CHILD", "PMI_RANK", "OMPI_COMM_WORLD_RANK"];
    let number = |name: &&str| variable(name)?.trim().parse::<u32>().ok();
    let of_task = || number(&"SGE_TASK_ID").map(|task| task.saturating_sub(1));
    NUMBERS.iter().find_map(number).or_else(of_task).unwrap_or(0)
}

/// Returns a host's name as a file name: a host name may be anything, even with a slash.
pub fn file_name(host: &str) -> String {
    match host {
        "" | "." | ".." => host.replace('.', "_") + "_",
        _ => host.replace(['/', '\0'], "_"),
    }
}

impl Node {
    /// Returns a name for the pilot's files on this node, different from those of the job's other nodes.
    pub fn place(&self) -> String {
        let host = file_name(&self.hostname);
        match self.rank {
            0 => host,
            rank => format!("{host}.{rank}"),
        }
    }
}

/// Returns the notice from `notify=60` in the configuration of Grid Engine's shepherd.
fn notice(config: &str) -> Option<Duration> {
    let seconds = config.lines().find_map(|line| line.strip_prefix("notify="))?.trim().parse().ok()?;
    (seconds > 0).then_some(Duration::from_secs(seconds))
}

/// Returns the end of the job's walltime. SLURM sets it in the environment. TORQUE sets the walltime, which
/// counts from the start of the job's session; this is our session, or one that began a moment before ours.
/// OpenPBS sets neither.
fn walltime_end(read: &dyn Fn(&str) -> String, variable: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u64>().ok());
    let of_torque = || session_began_unix(read)?.checked_add(number("PBS_WALLTIME")?);
    number("SLURM_JOB_END_TIME").or_else(of_torque)
}

/// Returns the start of our session's leader; if that process has ended, our own start.
fn session_began_unix(read: &dyn Fn(&str) -> String) -> Option<u64> {
    // The unit of times in `/proc/PID/stat`, on all machines.
    const TICKS_A_SECOND: u64 = 100;
    let (own, kernel) = (read("proc/self/stat"), read("proc/stat"));
    let boot: u64 = kernel.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    let leader = read(&format!("proc/{}/stat", stat_field(&own, 6)?));
    let ticks = stat_field(&leader, 22).or(stat_field(&own, 22))?;
    Some(boot + ticks / TICKS_A_SECOND)
}

/// Returns a number of `/proc/PID/stat`; the first field is 1, as in proc(5). The second field, a name, may
/// contain anything.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn batch_id(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let plain = ["SLURM_JOB_ID", "PBS_JOBID", "LOADL_STEP_ID", "LSB_JOBID"];
    let found = plain.into_iter().filter_map(variable).find(|id| !id.is_empty());
    // Grid Engine's JOB_ID is too common a name to be trusted alone.
    found.or_else(|| variable("SGE_ROOT").or_else(|| variable("SGE_O_HOST")).and_then(|_| variable("JOB_ID")))
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs, path::Path, time::Duration};

    use super::{Gpus, Node, allowed_cpus, batch_id, cgroup_folders, cpu_list, discover};

    const STATUS: &str = "Name:\tcat\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n";
    const MEMINFO: &str = "MemTotal:       24685056 kB\nMemFree:        23773012 kB\n";

    /// Runs [`discover`] on a machine with these files and variables.
    fn node(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Node {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        discover(root.path(), &|name| variables.get(name).map(|value| (*value).to_string()))
    }

    #[test]
    fn plain_machine_gives_all_it_has() {
        let files = [
            ("proc/self/status", STATUS),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/user.slice/session-1.scope\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("proc/sys/kernel/hostname", "node7\n"),
        ];
        let expected = Node {
            hostname: "node7".into(),
            cpus: (0..8).collect(),
            n_cores: 8,
            memory_bytes: 24_685_056 * 1024,
            gpus: Gpus::default(),
            batch_id: None,
            rank: 0,
            walltime_end_unix: None,
            notice: None,
        };
        assert_eq!(node(&files, &[]), expected);
    }

    #[test]
    fn the_rank_is_what_a_launcher_or_an_array_says() {
        let rank = |variables: &[(&str, &str)]| node(&[], variables).rank;
        assert_eq!(rank(&[("SLURM_PROCID", "2")]), 2);
        assert_eq!(rank(&[("SGE_TASK_ID", "3")]), 2);
        assert_eq!(rank(&[("SGE_TASK_ID", "undefined")]), 0);
    }

    #[test]
    fn version_2_quota_and_memory_limit_of_any_group_above_count() {
        let files = [
            ("proc/self/status", STATUS),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_42/step_0\n"),
            ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_42/cpu.max", "350000 100000\n"),
            ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_42/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/system.slice/slurmstepd.scope/job_42/step_0/memory.max", "max\n"),
        ];
        let node = node(&files, &[("SLURM_JOB_ID", "42"), ("SLURM_JOB_END_TIME", "1790000000")]);
        assert_eq!((node.n_cores, node.memory_bytes), (3, 4 << 30));
        assert_eq!((node.batch_id.as_deref(), node.walltime_end_unix), (Some("42"), Some(1_790_000_000)));
    }

    #[test]
    fn nodes_of_a_job_have_files_of_their_own() {
        let files = [("proc/sys/kernel/hostname", "node7\n")];
        let place = |variables: &[(&str, &str)]| node(&files, variables).place();
        assert_eq!(place(&[("SLURM_PROCID", "0")]), "node7");
        assert_eq!(place(&[("SLURM_PROCID", "3")]), "node7.3");
        assert_eq!(place(&[("PBS_NODENUM", "1"), ("PMI_RANK", "x")]), "node7.1");
    }

    #[test]
    fn torque_tells_how_long_from_when_the_session_began() {
        let own = "70 (a) b) S 60 70 50 0 -1 0 0 0 0 0 0 0 0 0 20 0 9 0 7500 0 0";
        let leader = "50 (sh) S 1 50 50 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 6000 0 0";
        let variables = [("PBS_JOBID", "102.pbshead"), ("PBS_WALLTIME", "600")];
        let files = |leader| {
            [("proc/stat", "cpu 1 2\nbtime 1790000000\n"), ("proc/self/stat", own), ("proc/50/stat", leader)]
        };
        let end = |leader| node(&files(leader), &variables).walltime_end_unix;
        assert_eq!(end(leader), Some(1_790_000_660));
        assert_eq!(end(""), Some(1_790_000_675), "the leader is gone");
        assert_eq!(node(&files(leader), &variables[..1]).walltime_end_unix, None, "OpenPBS");
    }

    #[test]
    fn version_1_limits_count_too_also_when_the_path_is_the_hosts() {
        let files = [
            ("proc/self/status", STATUS),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        let node = node(&files, &[]);
        assert_eq!((node.n_cores, node.memory_bytes), (1, 1 << 30));
    }

    #[test]
    fn version_1_without_limits_means_the_whole_machine() {
        let files = [
            ("proc/self/status", STATUS),
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "4:memory:/process_api/a80d\n1:cpu:/\n0::/\n"),
            ("sys/fs/cgroup/memory/process_api/a80d/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ];
        let node = node(&files, &[]);
        assert_eq!((node.n_cores, node.memory_bytes), (8, 24_685_056 * 1024));
    }

    #[test]
    fn machine_that_tells_nothing_has_one_core() {
        let node = node(&[], &[]);
        assert_eq!((node.n_cores, node.memory_bytes, node.cpus), (1, 0, vec![0]));
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let node = discover(Path::new("/"), &|_| None);
        assert!(node.n_cores >= 1 && node.memory_bytes > 1 << 20 && !node.hostname.is_empty(), "{node:?}");
    }

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpu_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(cpu_list("x,1"), [1]);
        assert_eq!(allowed_cpus(STATUS), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn groups_come_with_those_above() {
        let folders = cgroup_folders("0::/a/b\n");
        assert!(folders.contains(&"sys/fs/cgroup/a/b".into()) && folders.contains(&"sys/fs/cgroup".into()));
        assert_eq!(cgroup_folders("1:name=systemd:/a\n7:blkio:/\nbroken"), Vec::<std::path::PathBuf>::new());
    }

    #[test]
    fn grid_engine_says_how_long_it_waits_after_its_signal() {
        let notice = |config: &str| {
            let files = [("var/spool/execd/n1/active_jobs/7.1/config", config)];
            let variables =
                [("SGE_JOB_SPOOL_DIR", "/var/spool/execd/n1/active_jobs/7.1"), ("SGE_ROOT", "/s")];
            node(&files, &variables).notice
        };
        assert_eq!(notice("queue=all.q\nnotify=60\nacct_project=none\n"), Some(Duration::from_secs(60)));
        assert_eq!([notice("notify=0\n"), notice("notify=soon"), notice("")], [None; 3]);
    }

    #[test]
    fn grid_engine_is_known_by_more_than_job_id() {
        let with = |names: &'static [&'static str]| {
            batch_id(&|name: &str| names.contains(&name).then(|| name.to_lowercase()))
        };
        assert_eq!(with(&["JOB_ID"]), None);
        assert_eq!(with(&["JOB_ID", "SGE_ROOT"]).as_deref(), Some("job_id"));
        assert_eq!(with(&["PBS_JOBID"]).as_deref(), Some("pbs_jobid"));
    }
}
