//! A real Grid Engine on this host: a master and an execution daemon that are processes of the test, in a
//! cell of its own in its sandbox.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use nix::{sys::signal::Signal, unistd::Uid};

use crate::{Running, Sandbox, lose_power, ports::free_ports, scene::Platform, text, until};

/// Where Debian's packages put daemons and commands.
const PROGRAMS: &str = "/usr/lib/gridengine";
const SHARED: &str = "/usr/share/gridengine/util";

/// A cluster of one host with the queue `batch.q` of 4 cores, the parallel environments `smp` and `wide`,
/// 2 GPUs and 4 GiB of memory, which are counted for each core. Root may submit, or a user would have to be made.
pub struct Cell {
    /// What its commands need in their environment.
    pub environment: Vec<(String, String)>,
    folder: PathBuf,
    master: Option<Running>,
    host: Option<Running>,
}

impl Cell {
    /// Starts one; `None`, with the reason printed, where that is not possible.
    pub fn start(sandbox: &Sandbox) -> Option<Cell> {
        if !Uid::effective().is_root() {
            crate::skipped("only root can start Grid Engine's daemons");
            return None;
        }
        for program in ["sge_qmaster", "sge_execd", "qsub"] {
            if !Path::new(PROGRAMS).join(program).exists() {
                crate::skipped(&format!("{program} is not installed; tests/run does that"));
                return None;
            }
        }
        // Its daemons and jobs look at it as other users, too.
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o755)).expect("an open sandbox");
        // Below the sandbox's home: what its jobs leave is found by that, and killed.
        let folder = sandbox.path().join("home/gridengine");
        let first = free_ports(2);
        let ports = [first, first + 1];
        let environment = environment(&folder, ports);
        let mut cell = Cell { environment, folder, master: None, host: None };
        cell.lay_out(ports);
        cell.start_master(sandbox);
        cell.configure();
        cell.start_host(sandbox);
        let has_load =
            |line: &str| line.starts_with("localhost") && line.split_whitespace().nth(6) != Some("-");
        until("the host is there", || cell.say("qhost", &[]).lines().any(has_load));
        Some(cell)
    }

    /// Starts the master, which was not started or was killed.
    pub fn start_master(&mut self, sandbox: &Sandbox) {
        self.master = Some(self.daemon(sandbox, "sge_qmaster"));
        until("the master answers", || self.output("qconf", &["-sh"]).status.success());
    }

    /// Starts the host, which was not started or was killed.
    pub fn start_host(&mut self, sandbox: &Sandbox) {
        self.host = Some(self.daemon(sandbox, "sge_execd"));
    }

    /// Ends the host and all that runs there, at once.
    pub fn kill_host(&mut self, sandbox: &Sandbox) {
        let host = self.host.take().expect("a host");
        let is_there = |pid: u32, command: &str| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let is_of_a_job = text(&environment).split('\0').any(|line| line.starts_with("JOB_ID="));
            is_of_a_job || pid == host.pid() || command.contains("sge_shepherd")
        };
        lose_power(sandbox, is_there);
        host.wait();
    }

    /// Sends the master a signal.
    pub fn signal_master(&self, signal: Signal) {
        self.master.as_ref().expect("a master").signal(signal);
    }

    /// Ends the master by a signal.
    pub fn kill_master(&mut self) {
        let master = self.master.take().expect("a master");
        master.signal(Signal::SIGKILL);
        master.wait();
    }

    /// What a command of Grid Engine says.
    pub fn say(&self, program: &str, arguments: &[&str]) -> String {
        text(&self.output(program, arguments).stdout)
    }

    /// The ids of jobs in these states, of which `r` are those that run and `p` those that wait.
    pub fn jobs(&self, states: &str) -> Vec<String> {
        let said = self.say("qstat", &["-s", states]);
        let ids = said.lines().skip(2).filter_map(|line| line.split_whitespace().next());
        ids.map(str::to_owned).collect()
    }

    /// All batch scripts that its daemons keep at present, which everybody can read.
    pub fn scripts(&self) -> String {
        let folders = ["qmaster/job_scripts", "execd/localhost/job_scripts"];
        let entries = folders.into_iter().flat_map(|name| fs::read_dir(self.folder.join(name)));
        // One that is gone meanwhile is none.
        entries
            .flatten()
            .flatten()
            .map(|entry| fs::read_to_string(entry.path()).unwrap_or_default())
            .collect()
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        self.command(program).args(arguments).output().expect("Grid Engine's commands are installed")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(Path::new(PROGRAMS).join(program));
        command.envs(self.environment.iter().cloned()).current_dir(&self.folder);
        command
    }

    fn daemon(&self, sandbox: &Sandbox, program: &str) -> Running {
        let mut command = self.command(program);
        // It stays our child.
        command.env("SGE_ND", "1");
        sandbox.spawn(program, command)
    }

    /// Runs a command that must succeed.
    fn succeed(&self, program: &str, arguments: &[&str]) {
        let output = self.output(program, arguments);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {}\n{said}", output.status);
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.join(name);
        fs::write(&path, text).expect("a file of the cell");
        path.display().to_string()
    }

    /// The cell's files, as they are before the first start.
    fn lay_out(&self, ports: [u16; 2]) {
        for name in [
            "root/default/common",
            "root/bin",
            "root/utilbin",
            "qmaster/job_scripts",
            "execd",
            "spool",
            "tmp",
        ] {
            fs::create_dir_all(self.folder.join(name)).expect("a folder");
        }
        let architecture = &self.environment[2].1;
        for (from, to) in [
            (SHARED, "root/util".to_owned()),
            (PROGRAMS, format!("root/bin/{architecture}")),
            (PROGRAMS, format!("root/utilbin/{architecture}")),
        ] {
            symlink(from, self.folder.join(to)).expect("a link");
        }
        let folder = self.folder.display();
        self.write("root/default/common/act_qmaster", "localhost\n");
        self.write("root/default/common/host_aliases", &format!("localhost {}\n", other_names()));
        self.write(
            "root/default/common/bootstrap",
            &format!(
                "admin_user root\ndefault_domain none\nignore_fqdn true\nspooling_method berkeleydb\n\
                 spooling_lib libspoolb\nspooling_params {folder}/spool\nbinary_path {PROGRAMS}\n\
                 qmaster_spool_dir {folder}/qmaster\nsecurity_mode none\nlistener_threads 2\nworker_threads 2\n\
                 scheduler_threads 1\n"
            ),
        );
        let configuration = self.write("configuration", &configuration(&self.folder, ports));
        let spool = format!("{folder}/spool");
        self.succeed("spoolinit", &["berkeleydb", "libspoolb", &spool, "init"]);
        for arguments in [
            ["configuration", &configuration],
            ["complexes", &format!("{SHARED}/resources/centry")],
            ["usersets", &format!("{SHARED}/resources/usersets")],
            ["managers", "root"],
        ] {
            self.succeed("spooldefaults", &arguments);
        }
    }

    /// What the master is told once it runs.
    fn configure(&self) {
        let resources = self.say("qconf", &["-sc"]);
        let others = resources.lines().filter(|line| !line.starts_with("h_vmem "));
        let consumed = ["gpu gpu INT <= YES YES 0 0", "h_vmem h_vmem MEMORY <= YES YES 1G 0"];
        let resources: String = others.chain(consumed).map(|line| format!("{line}\n")).collect();
        let host = lines(&[("hostname", "localhost"), ("complex_values", "gpu=2,h_vmem=4G")], &HOST);
        self.succeed("qconf", &["-Msconf", &self.write("scheduler", SCHEDULER)]);
        self.succeed("qconf", &["-Mc", &self.write("resources", &resources)]);
        self.succeed("qconf", &["-ah", "localhost"]);
        self.succeed("qconf", &["-as", "localhost"]);
        self.succeed("qconf", &["-Ae", &self.write("host", &host)]);
        for (name, rule) in [("smp", "$pe_slots"), ("wide", "$fill_up")] {
            let environment = lines(&[("pe_name", name), ("allocation_rule", rule)], &PARALLEL_ENVIRONMENT);
            self.succeed("qconf", &["-Ap", &self.write(name, &environment)]);
        }
        let tmp = self.folder.join("tmp").display().to_string();
        let queue = lines(&[("qname", "batch.q"), ("tmpdir", &tmp)], &QUEUE);
        let queue = LIMITS.into_iter().fold(queue, |text, name| format!("{text}{name} INFINITY\n"));
        self.succeed("qconf", &["-Aq", &self.write("batch.q", &queue)]);
    }
}

impl Platform for Cell {
    fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn has_pilots(&self, _: &Sandbox) -> bool {
        !self.jobs("rps").is_empty()
    }
}

fn environment(folder: &Path, ports: [u16; 2]) -> Vec<(String, String)> {
    let architecture = Command::new(Path::new(SHARED).join("arch")).output().expect("it is installed");
    let path = std::env::var("PATH").unwrap_or_default();
    [
        ("SGE_ROOT", folder.join("root").display().to_string()),
        ("SGE_CELL", "default".to_owned()),
        ("SGE_ARCH", text(&architecture.stdout).trim().to_owned()),
        ("SGE_QMASTER_PORT", ports[0].to_string()),
        ("SGE_EXECD_PORT", ports[1].to_string()),
        ("PATH", format!("{PROGRAMS}:{path}")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Every name but `localhost` that an address of this host may lead to.
fn other_names() -> String {
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let is_local = |line: &&str| ["127.", "::1"].iter().any(|start| line.starts_with(start));
    let lines = hosts.lines().filter(is_local).map(|line| line.split('#').next().unwrap_or(""));
    let mut names: Vec<String> =
        lines.flat_map(|line| line.split_whitespace().skip(1)).map(str::to_owned).collect();
    let own = nix::unistd::gethostname().expect("a name").to_string_lossy().into_owned();
    names.push(own.split('.').next().unwrap_or_default().to_owned());
    names.retain(|name| name != "localhost");
    names.sort();
    names.dedup();
    names.join(" ")
}

fn lines(first: &[(&str, &str)], rest: &[(&str, &str)]) -> String {
    first.iter().chain(rest).map(|(name, value)| format!("{name} {value}\n")).collect()
}

fn configuration(folder: &Path, ports: [u16; 2]) -> String {
    let folder = folder.display();
    // By such a group the processes of a job are known, and killed: another cell here must have others.
    let group = 100_000 + u32::from(ports[0]) * 16;
    format!(
        "conf_version 0\nexecd_spool_dir {folder}/execd\nmailer /bin/true\nxterm /bin/true\nload_sensor none\n\
         prolog none\nepilog none\nshell_start_mode unix_behavior\nlogin_shells sh,bash\nmin_uid 0\nmin_gid 0\n\
         user_lists none\nxuser_lists none\nprojects none\nxprojects none\nenforce_project false\n\
         enforce_user auto\nload_report_time 00:00:02\nmax_unheard 00:00:10\nreschedule_unknown 00:00:05\n\
         loglevel log_info\nadministrator_mail none\nset_token_cmd none\npag_cmd none\ntoken_extend_time none\n\
         shepherd_cmd none\nqmaster_params none\nexecd_params none\n\
         reporting_params accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00\n\
         finished_jobs 20\ngid_range {group}-{}\nqlogin_command builtin\nqlogin_daemon builtin\n\
         rlogin_command builtin\nrlogin_daemon builtin\nrsh_command builtin\nrsh_daemon builtin\n\
         max_aj_instances 2000\nmax_aj_tasks 75000\nmax_u_jobs 0\nmax_jobs 0\nauto_user_oticket 0\n\
         auto_user_fshare 0\nauto_user_default_project none\nauto_user_delete_time 0\n\
         delegated_file_staging false\nreprioritize 0\njsv_url none\njsv_allowed_mod ac,h,i,e,o,j,M,N,p,w\n",
        group + 15
    )
}

/// Jobs start at once, in the order in which they came.
const SCHEDULER: &str = "algorithm default\nschedule_interval 0:0:2\nmaxujobs 0\nqueue_sort_method load\n\
    job_load_adjustments NONE\nload_adjustment_decay_time 0:0:0\nload_formula np_load_avg\n\
    schedd_job_info true\nflush_submit_sec 1\nflush_finish_sec 1\nparams none\nreprioritize_interval 0:0:0\n\
    halftime 168\nusage_weight_list cpu=1.000000,mem=0.000000,io=0.000000\ncompensation_factor 5.000000\n\
    weight_user 0.250000\nweight_project 0.250000\nweight_department 0.250000\nweight_job 0.250000\n\
    weight_tickets_functional 0\nweight_tickets_share 0\nshare_override_tickets TRUE\n\
    share_functional_shares TRUE\nmax_functional_jobs_to_schedule 200\nreport_pjob_tickets TRUE\n\
    max_pending_tasks_per_job 50\nhalflife_decay_list none\npolicy_hierarchy OFS\nweight_ticket 0.010000\n\
    weight_waiting_time 0.000000\nweight_deadline 3600000.000000\nweight_urgency 0.100000\n\
    weight_priority 1.000000\nmax_reservation 4\ndefault_duration 0:10:0\n";

const HOST: [(&str, &str); 7] = [
    ("load_scaling", "NONE"),
    ("user_lists", "NONE"),
    ("xuser_lists", "NONE"),
    ("projects", "NONE"),
    ("xprojects", "NONE"),
    ("usage_scaling", "NONE"),
    ("report_variables", "NONE"),
];

const PARALLEL_ENVIRONMENT: [(&str, &str); 10] = [
    ("slots", "999"),
    ("user_lists", "NONE"),
    ("xuser_lists", "NONE"),
    ("start_proc_args", "NONE"),
    ("stop_proc_args", "NONE"),
    ("control_slaves", "TRUE"),
    ("job_is_first_task", "TRUE"),
    ("urgency_slots", "min"),
    ("accounting_summary", "TRUE"),
    ("qsort_args", "NONE"),
];

/// Jobs have 3 seconds between being told to end and being killed.
const QUEUE: [(&str, &str); 34] = [
    ("hostlist", "localhost"),
    ("seq_no", "0"),
    ("load_thresholds", "NONE"),
    ("suspend_thresholds", "NONE"),
    ("nsuspend", "1"),
    ("suspend_interval", "00:05:00"),
    ("priority", "0"),
    ("min_cpu_interval", "00:05:00"),
    ("processors", "UNDEFINED"),
    ("qtype", "BATCH INTERACTIVE"),
    ("ckpt_list", "NONE"),
    ("pe_list", "smp wide"),
    ("rerun", "FALSE"),
    ("slots", "4"),
    ("shell", "/bin/sh"),
    ("prolog", "NONE"),
    ("epilog", "NONE"),
    ("shell_start_mode", "unix_behavior"),
    ("starter_method", "NONE"),
    ("suspend_method", "NONE"),
    ("resume_method", "NONE"),
    ("terminate_method", "NONE"),
    ("notify", "00:00:12"),
    ("owner_list", "NONE"),
    ("user_lists", "NONE"),
    ("xuser_lists", "NONE"),
    ("subordinate_list", "NONE"),
    ("complex_values", "NONE"),
    ("projects", "NONE"),
    ("xprojects", "NONE"),
    ("calendar", "NONE"),
    ("initial_state", "default"),
    ("s_rt", "INFINITY"),
    ("h_rt", "01:00:00"),
];

const LIMITS: [&str; 14] = [
    "s_cpu", "h_cpu", "s_fsize", "h_fsize", "s_data", "h_data", "s_stack", "h_stack", "s_core", "h_core",
    "s_rss", "h_rss", "s_vmem", "h_vmem",
];
