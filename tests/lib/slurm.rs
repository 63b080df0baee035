//! A real SLURM on this host: a controller and nodes that are processes of the test, in its sandbox.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{sys::signal::Signal, unistd::Uid};

use crate::{Running, Sandbox, apart::Apart, lose_power, ports::free_ports, scene::Platform, text, until};

/// Nodes of the cluster, named n1, n2.
const N_NODES: u16 = 2;
/// Cores that each of them claims.
const N_CORES: u16 = 2;

/// A cluster with the partitions `batch` and `down`, which starts nothing.
pub struct Cluster {
    /// What its commands need in their environment.
    pub environment: Vec<(String, String)>,
    /// Before each of them: where they are run.
    words: Vec<String>,
    folder: PathBuf,
    controller: Option<Running>,
    nodes: Vec<Running>,
    /// Ends after the others, which ask it who they are.
    _munge: Running,
}

impl Cluster {
    /// Starts one; `None`, with the reason printed, where that is not possible.
    pub fn start(sandbox: &Sandbox) -> Option<Cluster> {
        let host = nix::unistd::gethostname().expect("a name").to_string_lossy().into_owned();
        Cluster::start_on(sandbox, &host, Vec::new())
    }

    /// Starts one on a host apart, which only that host reaches.
    pub fn start_apart(sandbox: &Sandbox, apart: &Apart) -> Option<Cluster> {
        let cluster = Cluster::start_on(sandbox, "localhost", apart.words())?;
        apart.set_environment(&cluster.environment);
        Some(cluster)
    }

    fn start_on(sandbox: &Sandbox, host: &str, words: Vec<String>) -> Option<Cluster> {
        if !Uid::effective().is_root() {
            crate::skipped("only root can start SLURM's daemons");
            return None;
        }
        for program in ["munged", "slurmctld", "slurmd", "sbatch"] {
            if Command::new(program).arg("--version").output().is_err() {
                crate::skipped(&format!("{program} is not installed; tests/run does that"));
                return None;
            }
        }
        // Below the sandbox's home: what its jobs leave is found by that, and killed.
        let folder = sandbox.path().join("home/slurm");
        for name in ["", "state", "n1", "n2"] {
            fs::create_dir(folder.join(name)).expect("a folder");
        }
        // It will not have others read its key, nor a socket that others may not reach.
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).expect("an open sandbox");
        let munge = munge(sandbox, &folder);
        let conf = folder.join("slurm.conf");
        fs::write(&conf, configuration(&folder, host)).expect("slurm.conf");
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = vec![
            ("SLURM_CONF".to_owned(), conf.display().to_string()),
            ("PATH".to_owned(), format!("{path}:/usr/sbin")),
        ];
        let mut cluster =
            Cluster { environment, words, folder, controller: None, nodes: Vec::new(), _munge: munge };
        cluster.start_controller(sandbox);
        for n in 1..=N_NODES {
            let node = cluster.daemon(sandbox, &format!("n{n}"), "slurmd", &["-D", "-N", &format!("n{n}")]);
            cluster.nodes.push(node);
        }
        let all_idle = |cluster: &Cluster| {
            let states = cluster.say("sinfo", &["-h", "-N", "-p", "batch", "-o", "%t"]);
            states.lines().filter(|state| *state == "idle").count() == usize::from(N_NODES)
        };
        until("the nodes are there", || all_idle(&cluster));
        Some(cluster)
    }

    /// Starts the controller, which was not started or was killed.
    pub fn start_controller(&mut self, sandbox: &Sandbox) {
        self.controller = Some(self.daemon(sandbox, "slurmctld", "slurmctld", &["-D"]));
        until("the controller answers", || self.say("scontrol", &["ping"]).contains("is UP"));
    }

    /// Sends the controller a signal.
    pub fn signal_controller(&self, signal: Signal) {
        self.controller.as_ref().expect("a controller").signal(signal);
    }

    /// Ends the controller by a signal.
    pub fn kill_controller(&mut self) {
        let controller = self.controller.take().expect("a controller");
        controller.signal(Signal::SIGKILL);
        controller.wait();
    }

    /// Ends the first node and all that runs there, at once, and says that it is down.
    pub fn kill_node(&mut self, sandbox: &Sandbox) {
        let jobs = self.say("squeue", &["-h", "-w", "n1", "-t", "RUNNING", "-o", "%A"]);
        let steps: Vec<String> = jobs.lines().map(|job| format!("slurmstepd: [{job}.")).collect();
        let node = self.nodes.remove(0);
        let is_there = |pid: u32, command: &str| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let is_of_a_job = text(&environment).split('\0').any(|line| line == "SLURMD_NODENAME=n1");
            is_of_a_job || pid == node.pid() || steps.iter().any(|step| command.starts_with(step))
        };
        lose_power(sandbox, is_there);
        node.wait();
        until("it is down", || {
            self.takes("scontrol", &["update", "nodename=n1", "state=down", "reason=power"])
        });
    }

    /// What a command of SLURM says.
    pub fn say(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().expect("SLURM's commands are installed");
        text(&output.stdout)
    }

    /// Whether a command of SLURM does what it is told.
    pub fn takes(&self, program: &str, arguments: &[&str]) -> bool {
        let output = self.command(program).args(arguments).output();
        output.expect("SLURM's commands are installed").status.success()
    }

    /// The ids of jobs in these states, as `squeue` names them.
    pub fn jobs(&self, states: &str) -> Vec<String> {
        let said = self.say("squeue", &["-h", "-a", "-t", states, "-o", "%A"]);
        said.lines().map(str::to_owned).collect()
    }

    fn command(&self, program: &str) -> Command {
        let mut words = self.words.iter().map(String::as_str).chain([program]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).envs(self.environment.iter().cloned());
        command
    }

    fn daemon(&self, sandbox: &Sandbox, name: &str, program: &str, arguments: &[&str]) -> Running {
        let mut command = self.command(program);
        command.args(arguments).current_dir(&self.folder);
        sandbox.spawn(name, command)
    }
}

impl Platform for Cluster {
    fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// A job whose number the controller has given away twice completes for a minute after all of it has ended.
    fn has_pilots(&self, sandbox: &Sandbox) -> bool {
        !self.jobs("PENDING,RUNNING").is_empty() || !sandbox.agents().is_empty()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(controller) = &self.controller {
            controller.signal(Signal::SIGCONT);
            // What is left ends with the sandbox.
            self.say("scancel", &["--user=root", "--signal=KILL", "--full"]);
        }
    }
}

/// The daemon by which SLURM's parts know each other.
fn munge(sandbox: &Sandbox, folder: &Path) -> Running {
    let path = |name: &str| format!("{}/{name}", folder.display());
    fs::write(path("munge.key"), [7; 1024]).expect("a key");
    fs::set_permissions(path("munge.key"), fs::Permissions::from_mode(0o600)).expect("a private key");
    let mut command = Command::new("munged");
    command.args(["--foreground", "--force"]).env("PATH", "/usr/sbin:/usr/bin").env("HOME", folder);
    for (option, file) in [
        ("key-file", "munge.key"),
        ("socket", "munge.sock"),
        ("pid-file", "munge.pid"),
        ("log-file", "munge.log"),
        ("seed-file", "munge.seed"),
    ] {
        command.arg(format!("--{option}={}", path(file)));
    }
    let munge = sandbox.spawn("munged", command);
    let socket = path("munge.sock");
    until("munged answers", || {
        Command::new("munge").args(["-n", "-S", &socket]).output().is_ok_and(|output| output.status.success())
    });
    munge
}

fn configuration(folder: &Path, host: &str) -> String {
    let n_ports = 1 + N_NODES;
    let ports: Vec<u16> = (free_ports(n_ports)..).take(n_ports.into()).collect();
    let host = host.split('.').next().unwrap_or_default();
    let folder = folder.display();
    let mut text = format!(
        "ClusterName=pilot\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmctldPort={}\n\
         AuthType=auth/munge\nAuthInfo=socket={folder}/munge.sock\nStateSaveLocation={folder}/state\n\
         SlurmdSpoolDir={folder}/%n\nSlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/%n.pid\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/%n.log\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\n\
         PropagateResourceLimits=NONE\nSchedulerParameters=batch_sched_delay=0,sched_interval=1\n\
         PriorityType=priority/basic\nEnforcePartLimits=ALL\nReturnToService=2\nMinJobAge=30\nKillWait=10\n\
         SlurmdTimeout=20\nMessageTimeout=5\nAccountingStorageType=accounting_storage/none\n",
        ports[0]
    );
    for n in 1..=N_NODES {
        text.push_str(&format!(
            "NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={} CPUs={N_CORES} RealMemory=1000 State=UNKNOWN\n",
            ports[usize::from(n)]
        ));
    }
    text.push_str("PartitionName=batch Nodes=n[1-2] Default=YES DefaultTime=10 MaxTime=60 State=UP\n");
    text.push_str("PartitionName=down Nodes=n1 MaxTime=60 State=DOWN\n");
    text
}
