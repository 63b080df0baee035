//! OpenPBS or TORQUE: a real one where its commands are on the path, else `pbs/emulator.py`, whose jobs are
//! processes of this host.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::Uid;

use crate::{Sandbox, scene::Platform, text};

const EMULATOR: &str = include_str!("pbs/emulator.py");
/// Its names.
const PROGRAMS: [&str; 7] = ["qsub", "qstat", "qselect", "qdel", "pbsnodes", "pbsdsh", "qmgr"];

/// Which PBS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// An emulated OpenPBS.
    OpenPbs,
    /// An emulated TORQUE.
    Torque,
    /// The one whose commands are on the path.
    Real,
}

impl System {
    /// The emulated ones.
    pub const EMULATED: [System; 2] = [System::OpenPbs, System::Torque];

    /// All that there are on this host.
    pub fn all() -> Vec<System> {
        let mut all = System::EMULATED.to_vec();
        match Command::new("qstat").arg("--version").output() {
            // Those of Grid Engine and SLURM have the same names.
            Ok(output) if !is_pbs(&(text(&output.stdout) + &text(&output.stderr))) => {
                println!("NOT REAL: the qstat on the path is of no PBS")
            }
            Ok(_) if Uid::effective().is_root() => println!("NOT REAL: PBS takes no jobs of root"),
            Ok(_) => all.push(System::Real),
            Err(_) => println!("NOT REAL: there is no qstat on the path"),
        }
        all
    }
}

fn is_pbs(version: &str) -> bool {
    version.contains("pbs_version") || version.to_lowercase().contains("version:")
}

/// A cluster with the queue `batch`; where it is emulated, of two nodes with two cores each.
pub struct Cluster {
    /// What its commands need in their environment.
    pub environment: Vec<(String, String)>,
    /// Where an emulated one keeps its jobs.
    folder: Option<PathBuf>,
    home: PathBuf,
}

impl Cluster {
    /// Starts one.
    pub fn start(sandbox: &Sandbox, system: System) -> Cluster {
        let home = sandbox.path().join("home");
        let form = match system {
            System::OpenPbs => "openpbs",
            System::Torque => "torque",
            System::Real => return Cluster { environment: Vec::new(), folder: None, home },
        };
        let folder = sandbox.write("pbs/form", form).with_file_name("");
        let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let python = text(&python.expect("python3 is installed").stdout);
        let (_, body) = EMULATOR.split_once('\n').expect("a first line");
        for program in PROGRAMS {
            let path =
                sandbox.write(&format!("pbs/bin/{program}"), &format!("#!{} -IS\n{body}", python.trim()));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", folder.join("bin").display());
        Cluster { environment: vec![("PATH".to_owned(), path)], folder: Some(folder), home }
    }

    /// Takes an emulated server away, or brings it back.
    pub fn be_away(&self, is_away: bool) {
        let mark = self.emulated().join("down");
        match is_away {
            true => fs::write(mark, "").expect("a mark"),
            false => fs::remove_file(mark).expect("it was away"),
        }
    }

    /// Lets the queue of an emulated one start jobs, or none.
    pub fn start_queue(&self, is_started: bool) {
        let started = if is_started { "True" } else { "False" };
        self.emulated();
        self.say("qmgr", &["-c", &format!("set queue batch started = {started}")]);
    }

    /// What a command says.
    pub fn say(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output();
        text(&output.expect("the commands are there").stdout)
    }

    /// A command where those of the cluster are found.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned());
        if self.folder.is_some() {
            // Of what runs because of it one knows whose it is.
            command.env("HOME", &self.home);
        }
        command
    }

    /// The ids of our jobs in these states.
    pub fn jobs(&self, states: &str) -> Vec<String> {
        let user = self.user();
        self.say("qselect", &["-u", &user, "-s", states]).lines().map(str::to_owned).collect()
    }

    fn user(&self) -> String {
        let user = nix::unistd::User::from_uid(Uid::effective()).expect("users can be looked up");
        user.expect("we are a user").name
    }

    fn emulated(&self) -> &Path {
        self.folder.as_deref().expect("only an emulated cluster obeys")
    }
}

impl Platform for Cluster {
    fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn has_pilots(&self, _: &Sandbox) -> bool {
        !self.jobs("QHWTRE").is_empty()
    }
}
