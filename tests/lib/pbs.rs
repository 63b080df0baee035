//! OpenPBS or TORQUE: a real one where its commands are on the path, else `pbs/emulator.py`, whose jobs are
//! processes of this host.

use std::{ops::Deref, process::Command};

use nix::unistd::Uid;

use crate::{Sandbox, emulated::Commands, scene::Platform, sshd::user, text};

const EMULATOR: &str = include_str!("pbs/emulator.py");
/// Its names.
const PROGRAMS: [&str; 12] = [
    "qsub", "qstat", "qselect", "qdel", "qhold", "qrls", "qalter", "qmove", "pbsnodes", "pbsdsh", "qmgr",
    "strike",
];

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
    /// Its commands.
    pub commands: Commands,
}

impl Cluster {
    /// Starts one.
    pub fn start(sandbox: &Sandbox, system: System) -> Cluster {
        let form = match system {
            System::OpenPbs => "openpbs",
            System::Torque => "torque",
            System::Real => return Cluster { commands: Commands::real(sandbox) },
        };
        Cluster { commands: Commands::emulated(sandbox, EMULATOR, form, &PROGRAMS) }
    }

    /// Lets the queue of an emulated one start jobs, or none.
    pub fn start_queue(&self, is_started: bool) {
        let started = if is_started { "True" } else { "False" };
        self.say("qmgr", &["-c", &format!("set queue batch started = {started}")]);
    }

    /// Has our user so many other jobs, and others so many.
    pub fn have_strangers(&self, n_of_our_user: usize, n_of_others: usize) {
        let numbers = format!("{n_of_our_user} {n_of_others}");
        std::fs::write(self.folder().join("strangers"), numbers).expect("a file");
    }

    /// Has commands ask that server from now on; `None`: the one that they ask where none is named.
    pub fn ask_server(&mut self, server: Option<&str>) {
        self.commands.environment.retain(|(name, _)| name != "PBS_DEFAULT");
        let named = server.map(|server| ("PBS_DEFAULT".to_owned(), server.to_owned()));
        self.commands.environment.extend(named);
    }

    /// How many connections to the server `run` makes.
    pub fn connections(&self, run: impl FnOnce()) -> usize {
        let made =
            || std::fs::read_to_string(self.folder().join("connections")).unwrap_or_default().lines().count();
        let before = made();
        run();
        made() - before
    }

    /// The ids of our jobs in these states.
    pub fn jobs(&self, states: &str) -> Vec<String> {
        self.jobs_with(&[], states)
    }

    /// The same of the jobs on that server of an emulated one.
    pub fn jobs_on(&self, server: &str, states: &str) -> Vec<String> {
        self.jobs_with(&["-q", &format!("@{server}")], states)
    }

    fn jobs_with(&self, options: &[&str], states: &str) -> Vec<String> {
        let name = user();
        let mut arguments = vec!["-u", name.as_str(), "-s", states];
        arguments.extend(options);
        let ids = self.say("qselect", &arguments);
        // Strangers have long numbers.
        ids.lines()
            .filter(|id| id.split('.').next().is_some_and(|n| n.len() < 6))
            .map(str::to_owned)
            .collect()
    }
}

impl Deref for Cluster {
    type Target = Commands;

    fn deref(&self) -> &Commands {
        &self.commands
    }
}

impl Platform for Cluster {
    fn environment(&self) -> &[(String, String)] {
        &self.commands.environment
    }

    fn has_pilots(&self, _: &Sandbox) -> bool {
        !self.jobs("QHWTRE").is_empty()
    }
}
