//! The fields of a platform that describe its site: queue, account, options and setup of a pilot's job.

pub(crate) mod counted;
pub(crate) mod host;

pub use host::of_url;
use serde::{Deserialize, Deserializer, de::Error};

use crate::{
    address::{has_user, shown},
    cloud::Cloud,
};

/// How pilots of a platform are requested. Every field may be absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// The partition, queue or class; `None`: the default of the batch system.
    pub queue: Option<String>,
    /// The account that is charged.
    pub account: Option<String>,
    /// Further options of the submission, each one word, like `--constraint=avx512`; for LoadLeveler keywords
    /// like `island_count = 1`.
    pub options: Vec<String>,
    /// Shell lines that the script runs before the agent: modules to load, folders to make.
    pub setup: Vec<String>,
    /// Path of the agent on the platform's nodes; `None`: the same as on this host.
    pub agent: Option<String>,
    /// Folder of the pilots' files, visible on all nodes; `None`: in the manager's folder, or in the home
    /// directory of the account on another host.
    pub folder: Option<String>,
    /// The account of this host under which pilots run; `None`: the manager's own.
    pub run_as: Option<String>,
    /// Whether tasks may run under the manager's own account although the manager has several users.
    pub allows_shared_account: bool,
    /// The host on which the platform's commands are run, `[user@]host[:port]`; `None`: this host.
    pub ssh: Option<String>,
    /// Configuration file of OpenSSH for this host; `None`: `~/.ssh/config`.
    pub ssh_config: Option<String>,
    /// The SSH client; `None`: the program `ssh` if this host has one.
    pub transport: Option<SshProgram>,
    /// How pilots reach the manager; `None`: through the tunnel if there is SSH, else directly.
    pub reach: Option<Reach>,
    /// Names of resources that differ from site to site.
    pub resource_names: ResourceNames,
    /// The cloud project, for adapter `openstack`.
    pub cloud: Option<Cloud>,
}

/// Names of resources that each installation of Grid Engine or LoadLeveler chooses. Every field may be
/// absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResourceNames {
    /// The parallel environment that gives a Grid Engine job several cores on one host.
    pub parallel_environment: Option<String>,
    /// The resource that requests memory.
    pub memory_resource: Option<String>,
    /// The resource that requests GPUs.
    pub gpu_resource: Option<String>,
}

/// An SSH client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SshProgram {
    /// The program `ssh` of this host, with all of its configuration.
    Openssh,
    /// A library, for hosts without OpenSSH.
    Libssh2,
}

/// The way from pilots to the manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Directly, at the manager's own address.
    Direct,
    /// Through the SSH connection, with a relay on the remote host.
    Tunnel,
    /// At this URL of a proxy or a forwarded port.
    At(String),
}

pub(crate) fn reach<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Reach>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let has_host = |url: &str| !url.is_empty() && url.chars().all(|c| c.is_ascii_graphic() && c != '/');
    let url = word.trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if has_user(url) {
        return Err(D::Error::custom(format!(
            "found `{}` with a user name or a password, which each pilot would be told; take them out",
            shown(url).escape_debug()
        )));
    }
    match word.as_str() {
        "direct" => Ok(Some(Reach::Direct)),
        "tunnel" => Ok(Some(Reach::Tunnel)),
        _ if rest.is_some_and(has_host) => Ok(Some(Reach::At(url.to_owned()))),
        _ => Err(D::Error::custom(format!(
            "found `{}`; write `direct`, `tunnel` or a URL like `https://gate.centre.org:8443`",
            shown(&word).escape_debug()
        ))),
    }
}

/// Returns the cluster that an option of Slurm names, abbreviated or not: `--clusters=NAME`, `-M NAME`;
/// `None` for other options.
pub fn slurm_cluster(option: &str) -> Option<&str> {
    if let Some((word, value)) = option.split_once('=').filter(|(word, _)| word.starts_with("--")) {
        // `--cluster-constraint` is another option, and `--c` is ambiguous.
        return (word.len() > 3 && "--clusters".starts_with(word)).then_some(value.trim());
    }
    let (letter, value) = short_options(option, SLURM_FLAGS).pop()?;
    (letter == 'M').then_some(value?.trim())
}

/// Letters of `sbatch` options that take no value.
const SLURM_FLAGS: &str = "hHkOQsuvVWX";
/// Letters of `qsub` options that take no value.
const PBS_FLAGS: &str = "fhIVxXz";

/// Returns the letters of `-QMhpc2` or `-N 4`; the last one may have a value.
fn short_options<'o>(option: &'o str, flags: &str) -> Vec<(char, Option<&'o str>)> {
    let letters = option.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or("");
    let mut found = Vec::new();
    for (place, letter) in letters.char_indices() {
        let is_flag = flags.contains(letter);
        let value = letters.get(place + letter.len_utf8()..).filter(|_| !is_flag);
        found.push((letter, value));
        if !is_flag {
            break;
        }
    }
    found
}

/// Returns why an option cannot be used although Pilotfish does not set it: it would put jobs where no
/// listing shows them, or on several hosts.
pub(crate) fn leads_astray(adapter: &str, option: &str) -> Option<&'static str> {
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
    };
    let has_at = |option: &str| {
        short_options(option, PBS_FLAGS)
            .iter()
            .any(|(letter, value)| *letter == 'q' && value.is_some_and(|queue| queue.contains('@')))
    };
    match adapter {
        "slurm" if slurm_cluster(option).is_some_and(|name| !is_name(name) || name == "all") => {
            Some("name one cluster, like `--clusters=hpc2`; each cluster is a platform of its own")
        }
        "pbs" if has_at(option) => {
            Some("name no server; set PBS_DEFAULT where the commands are run, so that all of them ask it")
        }
        "gridengine" if option.split_whitespace().any(|word| word == "-pe") => {
            Some("name it by `parallel_environment`; `cores` says how many it gives, all on one host")
        }
        "loadleveler"
            if option
                .split('=')
                .next()
                .is_some_and(|word| word.trim().eq_ignore_ascii_case("cluster_list")) =>
        {
            Some("run the commands on that cluster, by `ssh`: listings show the jobs of one cluster")
        }
        _ => None,
    }
}

/// Returns whether an option is reserved for Pilotfish: it changes the name, user, script or number of jobs
/// by which pilots are found again, drops our options, submits nothing, or waits for the job's end. Slurm
/// accepts abbreviated long options.
pub(crate) fn is_said_by_us(adapter: &str, option: &str) -> bool {
    let ours: &[&str] = match adapter {
        "slurm" => &[
            "--job-name",
            "--array",
            "--wrap",
            "--output",
            "--error",
            "--test-only",
            "--wait",
            "--uid",
            "--gid",
            "--help",
            "--usage",
            "--version",
            "-J",
            "-a",
            "-o",
            "-e",
            "-W",
            "-h",
            "-V",
        ],
        "pbs" => &["-N", "-J", "-t", "-I", "-u", "-z", "--help", "--version"],
        "gridengine" => &["-N", "-t", "-clear", "-sync", "-now", "-verify", "-help", "-@", "-b"],
        _ => &[],
    };
    if adapter == "gridengine" {
        // Grid Engine's options also have one dash, and an option may be several words.
        let words: Vec<&str> = option.split_whitespace().collect();
        let is_trial = words.windows(2).any(|pair| pair[0] == "-w" && ["v", "p"].contains(&pair[1]));
        return is_trial || words.iter().any(|word| ours.contains(word));
    }
    let word = option.split([' ', '=']).next().unwrap_or(option);
    if word.starts_with("--") {
        // An abbreviation of one of our options; no whole option is such an abbreviation. Options end at
        // `--`.
        return ours.iter().any(|ours| ours.starts_with(word));
    }
    let flags = if adapter == "slurm" { SLURM_FLAGS } else { PBS_FLAGS };
    let letters = short_options(option, flags);
    let is_attended =
        |attributes: &str| ["block", "interactive"].iter().any(|name| attributes.contains(name));
    let blocks = adapter == "pbs"
        && letters.iter().any(|(letter, value)| *letter == 'W' && value.is_some_and(is_attended));
    blocks || letters.iter().any(|(letter, _)| ours.contains(&format!("-{letter}").as_str()))
}

pub(crate) fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    for word in &words {
        let is_option = word.starts_with('-') || is_keyword(word);
        if !is_option || word.chars().any(char::is_control) {
            return Err(D::Error::custom(format!(
                "found `{}`; write options, each as one word, like `--constraint=avx512`",
                word.escape_debug()
            )));
        }
    }
    Ok(words)
}

/// Keywords that make a job a pilot's job, or that end its description (`queue`).
const KEYWORDS_OF_OURS: [&str; 11] = [
    "queue",
    "executable",
    "arguments",
    "input",
    "job_name",
    "dependency",
    "hold",
    "environment",
    "node",
    "total_tasks",
    "task_geometry",
];

/// Returns whether `option` is a `keyword = value` of LoadLeveler whose value does not continue on the next
/// line.
pub(crate) fn is_keyword(option: &str) -> bool {
    let Some((keyword, value)) = option.split_once('=') else { return false };
    let keyword = keyword.trim().to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let is_word =
        keyword.starts_with(|first: char| first.is_ascii_alphabetic()) && keyword.chars().all(is_plain);
    is_word && !value.trim().is_empty() && !value.trim_end().ends_with('\\')
}

/// Returns whether the site may set the keyword: it is none of `KEYWORDS_OF_OURS`.
pub(crate) fn is_of_the_site(option: &str) -> bool {
    let keyword = option.split('=').next().unwrap_or("").trim();
    !KEYWORDS_OF_OURS.iter().any(|ours| ours.eq_ignore_ascii_case(keyword))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::PlatformProfile;

    fn platform(adapter: &str, lines: &str) -> Result<PlatformProfile, String> {
        let text = format!("name: site\nadapter: {adapter}\ncores: 4\n{lines}");
        serde_yaml::from_str(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_queue_goes_by_three_names() {
        for name in ["queue", "partition", "class"] {
            let site = platform("slurm", &format!("{name}: debug,batch\n")).expect(name).site();
            assert_eq!(site, Site { queue: Some("debug,batch".into()), ..Site::default() });
        }
        assert!(platform("slurm", "queue: debug\nclass: batch\n").is_err(), "which of them?");
    }

    #[test]
    fn everything_said_is_kept() {
        let lines = "account: proj-7\noptions: [--constraint=avx512, --qos=a b]\n\
            setup: [module load gcc, \"\\ttrue\"]\nagent: /opt/pilotfish-agent\nfolder: /scratch/ada\n";
        let site = platform("slurm", lines).expect("a platform").site();
        assert_eq!(site.account.as_deref(), Some("proj-7"));
        assert_eq!(site.options, ["--constraint=avx512", "--qos=a b"]);
        assert_eq!(site.setup, ["module load gcc", "\ttrue"]);
        assert_eq!(
            (site.agent.as_deref(), site.folder.as_deref()),
            (Some("/opt/pilotfish-agent"), Some("/scratch/ada"))
        );
    }

    #[test]
    fn pilots_reach_the_manager_as_is_said() {
        let reach = |lines: &str| platform("slurm", lines).expect(lines).site().reach;
        assert_eq!(reach(""), None);
        assert_eq!(reach("reach: direct"), Some(Reach::Direct));
        assert_eq!(reach("ssh: ada@login\nreach: tunnel"), Some(Reach::Tunnel));
        let url = "https://gate:8443";
        assert_eq!(reach(&format!("reach: {url}/")), Some(Reach::At(url.into())));
    }

    #[test]
    fn several_hosts_are_a_platform_each() {
        let of = |lines: &str| platform("hosts", lines).map_err(|error| error.to_string());
        let each = of("hosts: [ada@node1.lab:2222, node2]\n").expect("hosts").each();
        let found: Vec<(&str, Option<String>)> =
            each.iter().map(|platform| (platform.name(), platform.site().ssh)).collect();
        assert_eq!(
            found,
            [("site-node1-lab", Some("ada@node1.lab:2222".into())), ("site-node2", Some("node2".into()))]
        );
        assert_eq!(of("ssh: node2\n").expect("a host").each().len(), 1);
        for (lines, words) in [
            ("hosts: []", "found no host"),
            ("hosts: [a, '-b']", "found `-b`"),
            ("hosts: [a]\nssh: b", "without ssh"),
            ("hosts: [ada@n, bob@n:22]", "both would be `site-n`"),
            ("hosts: [n123456789012345678901234567890123456789012345678901234567890]", "longer than 64"),
        ] {
            let error = of(lines).expect_err(lines);
            assert!(error.contains(words), "{lines}: {error}");
        }
        assert!(platform("slurm", "hosts: [a]").expect_err("no login node").contains("adapter hosts"));
    }

    #[test]
    fn plain_hosts_have_an_address_and_no_queue() {
        assert!(platform("hosts", "ssh: ada@node1\n").is_ok());
        let error = platform("hosts", "").expect_err("no host");
        assert!(error.contains("set `ssh`"), "{error}");
        let error = platform("hosts", "ssh: a\nqueue: b").expect_err("a queue");
        assert!(error.contains("no batch system"), "{error}");
    }

    #[test]
    fn what_could_break_out_of_a_script_is_refused() {
        for (line, found, expected) in [
            ("queue: a b", "`a b`", "letters, digits"),
            ("queue: ''", "``", "letters, digits"),
            ("queue: $(id)", "`$(id)`", "letters, digits"),
            ("account: -x", "`-x`", "not beginning with `-`"),
            ("options: [constraint]", "`constraint`", "like `--constraint=avx512`"),
            ("options: [\"--a\\nb\"]", "`--a\\nb`", "each as one word"),
            ("setup: [\"a\\nb\"]", "`a\\nb`", "an entry of its own"),
            ("agent: bin/agent", "`bin/agent`", "an absolute path"),
            ("folder: scratch", "`scratch`", "an absolute path"),
            ("ssh: -oProxyCommand=id", "`-oProxyCommand=id`", "a host like"),
            ("ssh: a b", "`a b`", "a host like"),
            ("ssh_config: config", "`config`", "an absolute path"),
            ("reach: 'https://ann:hush@gate'", "`https://…@gate` with a user name", "take them out"),
            ("reach: 'HTTPS://ann:hush@gate/x'", "@gate/x` with a user name", "take them out"),
            ("ssh: 'ann:hush@login'", "`ann:…@login` with a password", "take it out"),
            ("ssh: 'ssh://ann:hush@login'", "`ann:…@login` with a password", "take it out"),
            ("reach: relay", "`relay`", "`direct`, `tunnel` or a URL"),
            ("reach: https://", "`https://`", "`direct`, `tunnel` or a URL"),
            ("reach: tunnel", "tunnel", "set `ssh`"),
            ("transport: libssh2", "a transport", "set `ssh`"),
            ("ssh: a\ntransport: telnet", "telnet", "`openssh`"),
        ] {
            let error = platform("slurm", line).expect_err(line);
            assert!(error.contains(found) && error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn what_speaks_ssh_is_said_or_left_open() {
        let of = |lines: &str| platform("hosts", lines).expect(lines).each()[0].site().transport;
        assert_eq!(of("ssh: a"), None);
        assert_eq!(of("ssh: a\ntransport: openssh"), Some(SshProgram::Openssh));
        assert_eq!(of("hosts: [a, b]\ntransport: libssh2"), Some(SshProgram::Libssh2));
    }

    #[test]
    fn what_sites_call_their_own_way_is_their_own() {
        let lines = "parallel_environment: smp\nmemory_resource: h_rss\ngpu_resource: ngpus\n";
        let words = platform("gridengine", lines).expect("a platform").site().resource_names;
        let expected = ["smp", "h_rss", "ngpus"].map(|word| Some(word.to_owned()));
        assert_eq!([words.parallel_environment, words.memory_resource, words.gpu_resource], expected);
        for line in lines.lines() {
            let error = platform("slurm", line).expect_err(line);
            assert!(error.contains("only platforms with adapter gridengine"), "{line}: {error}");
        }
        let error = platform("gridengine", "").expect_err("four cores");
        assert!(error.contains("cores 4 and no parallel_environment"), "{error}");
        let words = platform("loadleveler", "gpus: 1\nmemory_resource: mem\ngpu_resource: gpus\n");
        let words = words.expect("a platform").site().resource_names;
        assert_eq!(
            (words.memory_resource.as_deref(), words.gpu_resource.as_deref()),
            (Some("mem"), Some("gpus"))
        );
        let error = platform("loadleveler", "parallel_environment: smp").expect_err("Grid Engine's");
        assert!(error.contains("found a parallel_environment of `site`"), "{error}");
        let error = platform("loadleveler", "gpus: 1").expect_err("no name");
        assert!(error.contains("gpus 1 and no gpu_resource"), "{error}");
    }

    #[test]
    fn options_are_of_the_systems_kind() {
        let options = |adapter: &str, option: &str| platform(adapter, &format!("options: ['{option}']"));
        for option in ["network.MPI = sn_all,not_shared,US", "island_count=1", "comment = a=b"] {
            let site = options("loadleveler", option).expect(option).site();
            assert_eq!(site.options, [option]);
            let error = options("slurm", option).expect_err(option);
            assert!(error.contains("like `--constraint=avx512`"), "{error}");
        }
        let error = options("loadleveler", "--constraint=avx512").expect_err("an option");
        assert!(error.contains("like `island_count = 1`"), "{error}");
        for option in ["Queue = x", "executable=/bin/true", "JOB_NAME = mine", "Node = 3", "total_tasks=9"] {
            let error = options("loadleveler", option).expect_err(option);
            assert!(error.contains("Pilotfish sets it itself"), "{error}");
        }
        for (adapter, option) in [
            ("slurm", "--job-name=mine"),
            ("slurm", "-Jmine"),
            ("slurm", "-N 4"),
            ("slurm", "--array=1-9"),
            ("slurm", "--arr=0-2"),
            ("slurm", "--job=mine"),
            ("slurm", "--nod=4"),
            ("slurm", "--test-only"),
            ("slurm", "-vHJmine"),
            ("slurm", "-W"),
            ("slurm", "-o out"),
            ("slurm", "-Qeerrors"),
            ("slurm", "--uid=bob"),
            ("slurm", "--ui=1001"),
            ("slurm", "--gid=lab"),
            ("slurm", "--"),
            ("pbs", "--"),
            ("pbs", "--version"),
            ("pbs", "-u bob"),
            ("pbs", "-Vubob"),
            ("pbs", "-Nmine"),
            ("pbs", "-J 1-9"),
            ("pbs", "-zV"),
            ("pbs", "-VNmine"),
            ("pbs", "-W block=true"),
            ("pbs", "-W umask=022,interactive=true"),
            ("pbs", "-l select=3:ncpus=1"),
            ("pbs", "-lwalltime=1:0:0,nodes=3"),
            ("pbs", "-l select=1:ncpus=1+1:ncpus=2"),
            ("pbs", "-l nodes=2#shared"),
            ("pbs", "-l nodes = 2"),
            ("pbs", "-l procs=8"),
            ("pbs", "-lwalltime=60,procs=2"),
            ("pbs", "-L tasks=2:lprocs=4"),
        ] {
            let error = options(adapter, option).expect_err(option);
            assert!(error.contains("Pilotfish sets it itself"), "{error}");
        }
        for (adapter, option) in [
            ("slurm", "--nice=5"),
            ("slurm", "--no-requeue"),
            ("slurm", "-A lab"),
            ("slurm", "-pJna"),
            ("slurm", "--wait-all-nodes=1"),
            ("slurm", "--ntasks-per-core=1"),
            ("slurm", "--clusters=hpc2"),
            ("slurm", "--cluster-constraint=fast"),
            ("slurm", "--gres=gpu:a100:2"),
            ("slurm", "--export=NONE"),
            ("pbs", "-Wumask=022"),
            ("pbs", "-q express"),
            ("pbs", "-l select=1:ncpus=4:model=ivy"),
            ("pbs", "-l place=excl"),
            ("pbs", "-l nodes=1:ppn=4#shared"),
            ("pbs", "-l nodes=n2:ppn=4"),
            ("pbs", "-l procs=1"),
            ("pbs", "-L tasks=1:lprocs=4"),
        ] {
            assert_eq!(options(adapter, option).expect(option).site().options, [option]);
        }
        let of_grid_engine = |option: &str| {
            platform("gridengine", &format!("options: ['{option}']\nparallel_environment: smp"))
        };
        for option in ["-notify", "-l exclusive=true", "-p -100 -w n", "-q all.q -l h=a"] {
            assert_eq!(of_grid_engine(option).expect(option).site().options, [option]);
        }
        let hidden =
            ["-l h=a -N mine", "-pe mpi 4 -t 1-3", "-q all.q  -t 1-5", "-w v", "-l a=1 -w  p", "-@ more"];
        let others = ["-N mine", "-t 1-9", "-clear", "-q all.q -clear"];
        for option in others.into_iter().chain(hidden) {
            let error = of_grid_engine(option).expect_err(option);
            assert!(error.contains("Pilotfish sets it itself"), "{error}");
        }
        for option in ["-pe mpi 16", "-l h=a  -pe smp 4"] {
            let error = of_grid_engine(option).expect_err(option);
            assert!(error.contains("name it by `parallel_environment`"), "{error}");
        }
        for option in ["island_count", "island count = 1", "comment = ", "comment = a \\", "# @ comment = a"]
        {
            let error = options("loadleveler", option).expect_err(option);
            assert!(error.contains("write options"), "{error}");
        }
    }

    #[test]
    fn options_that_take_more_than_budgets_count_name_the_field_that_says_it() {
        for (adapter, option, field) in [
            ("slurm", "-c32", "`cores`"),
            ("slurm", "--cpus-per-task=8", "`cores`"),
            ("slurm", "-N 3", "`nodes`"),
            ("pbs", "-lselect=1:ncpus=32", "`cores`"),
            ("loadleveler", "tasks_per_node = 32", "`cores`"),
        ] {
            let error = platform(adapter, &format!("options: ['{option}']")).expect_err(option);
            let is_told = error.contains(option) && error.contains(&format!("write {field}"));
            assert!(is_told, "{error}");
        }
        let slots = "options: ['-l slots=4']\nparallel_environment: smp";
        let error = platform("gridengine", slots).expect_err("slots");
        assert!(error.contains("write `cores`"), "{error}");
        let longer = "options: [--time=9:0:0]";
        assert!(platform("slurm", longer).is_ok(), "no budget counts without a walltime");
        let error = platform("slurm", &format!("{longer}\nwalltime: 1h")).expect_err("longer");
        assert!(error.contains("write `walltime`"), "{error}");
    }

    #[test]
    fn options_that_hide_jobs_from_listings_are_refused() {
        for (adapter, option, words) in [
            ("slurm", "--clusters=a,b", "name one cluster"),
            ("slurm", "--clus=all", "name one cluster"),
            ("slurm", "-M a,b", "name one cluster"),
            ("slurm", "-QM", "name one cluster"),
            ("pbs", "-q batch@other", "PBS_DEFAULT"),
            ("loadleveler", "Cluster_List = other", "one cluster"),
        ] {
            let error = platform(adapter, &format!("options: ['{option}']")).expect_err(option);
            assert!(error.contains(words) && error.contains(option), "{option}: {error}");
        }
        let error = platform("pbs", "queue: batch@other").expect_err("another server");
        assert!(error.contains("PBS_DEFAULT"), "{error}");
        let error = platform("slurm", "options: [--clusters=a, -Mb]").expect_err("two clusters");
        assert!(error.contains("one cluster"), "{error}");
        let clusters =
            ["--clusters=a", "--clu=a", "--cluster=a", "-Ma", "-M a", "-QMa", "-M=a"].map(slurm_cluster);
        assert_eq!(clusters, [Some("a"), Some("a"), Some("a"), Some("a"), Some("a"), Some("a"), Some("=a")]);
        let others = ["--cluster-constraint=a", "--c=a", "-AM", "--comment=-M", "-p M"].map(slurm_cluster);
        assert_eq!(others, [None; 5]);
    }

    #[test]
    fn pilots_of_this_host_have_no_site() {
        assert!(platform("local", "").is_ok() && platform("local", "setup: [export A=1]").is_ok());
        let lines = ["queue: a", "account: a", "options: [--a]", "agent: /a", "folder: /a", "ssh: a"];
        for line in lines {
            let error = platform("local", line).expect_err(line);
            assert!(error.contains("pilots of this host have none"), "{line}: {error}");
            let field = line.split(':').next().unwrap_or_default();
            assert!(error.contains(&format!("found the field {field} of `site`")), "{line}: {error}");
            let hint = match field {
                "agent" | "folder" => {
                    "without `run_as: ACCOUNT` they keep their files in the manager's folder"
                }
                "ssh" => "those of another host have `adapter: hosts`",
                _ => "no batch system starts them",
            };
            assert!(error.contains(&format!("have none: {hint}")), "{line}: {error}");
        }
    }
}
