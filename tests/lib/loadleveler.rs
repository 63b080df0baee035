//! LoadLeveler: a real one where its commands are on the path, else `loadleveler/emulator.py`, whose steps are
//! processes of this host.

use std::{ops::Deref, process::Command};

use nix::unistd::Uid;

use crate::{Sandbox, emulated::Commands, scene::Platform, sshd::user};

const EMULATOR: &str = include_str!("loadleveler/emulator.py");
/// Its names.
const PROGRAMS: [&str; 8] =
    ["llsubmit", "llq", "llcancel", "llhold", "llclass", "llstatus", "llspawn.stdio", "strike"];

/// Which LoadLeveler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// An emulated one of release 3.5.
    Old,
    /// An emulated one of release 5.1.
    New,
    /// The one whose commands are on the path.
    Real,
}

impl System {
    /// The emulated ones.
    pub const EMULATED: [System; 2] = [System::Old, System::New];

    /// All that there are on this host.
    pub fn all() -> Vec<System> {
        let mut all = System::EMULATED.to_vec();
        match Command::new("llsubmit").arg("-v").output() {
            Ok(_) if Uid::effective().is_root() => println!("NOT REAL: LoadLeveler takes no jobs of root"),
            Ok(_) => all.push(System::Real),
            Err(_) => println!("NOT REAL: there is no llsubmit on the path"),
        }
        all
    }
}

/// A cluster with the class `batch`; where it is emulated, of two nodes with two cores each.
pub struct Cluster {
    /// Its commands.
    pub commands: Commands,
}

impl Cluster {
    /// Starts one.
    pub fn start(sandbox: &Sandbox, system: System) -> Cluster {
        let form = match system {
            System::Old => "3.5",
            System::New => "5.1",
            System::Real => return Cluster { commands: Commands::real(sandbox) },
        };
        Cluster { commands: Commands::emulated(sandbox, EMULATOR, form, &PROGRAMS) }
    }

    /// Lets machines of an emulated one start no steps, or start them again.
    pub fn be_drained(&self, is_drained: bool) {
        self.mark("drained", is_drained);
        // Whoever asks makes it look at what waits.
        self.say("llq", &[]);
    }

    /// The ids of our steps in these states.
    pub fn steps(&self, states: &[&str]) -> Vec<String> {
        let listed = self.say("llq", &["-r", "%st", "%id", "-u", &user()]);
        let steps = listed.lines().filter_map(|line| line.split_once('!'));
        steps.filter(|(state, _)| states.contains(state)).map(|(_, id)| id.to_owned()).collect()
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
        let before_their_end = [
            "I", "D", "NQ", "H", "S", "HS", "P", "ST", "R", "CK", "E", "EP", "MP", "CP", "VP", "V", "XP",
            "X", "RP",
        ];
        !self.steps(&before_their_end).is_empty()
    }
}
