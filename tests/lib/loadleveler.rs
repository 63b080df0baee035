//! LoadLeveler: a real one where its commands are on the path, else `loadleveler/emulator.py`, whose steps are
//! processes of this host.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::Uid;

use crate::{Sandbox, scene::Platform, text};

const EMULATOR: &str = include_str!("loadleveler/emulator.py");
/// Its names.
const PROGRAMS: [&str; 7] = ["llsubmit", "llq", "llcancel", "llhold", "llclass", "llstatus", "llspawn.stdio"];

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
    /// What its commands need in their environment.
    pub environment: Vec<(String, String)>,
    /// Where an emulated one keeps its steps.
    folder: Option<PathBuf>,
    home: PathBuf,
}

impl Cluster {
    /// Starts one.
    pub fn start(sandbox: &Sandbox, system: System) -> Cluster {
        let home = sandbox.path().join("home");
        let form = match system {
            System::Old => "3.5",
            System::New => "5.1",
            System::Real => return Cluster { environment: Vec::new(), folder: None, home },
        };
        let folder = sandbox.write("ll/form", form).with_file_name("");
        let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let python = text(&python.expect("python3 is installed").stdout);
        let (_, body) = EMULATOR.split_once('\n').expect("a first line");
        for program in PROGRAMS {
            let path =
                sandbox.write(&format!("ll/bin/{program}"), &format!("#!{} -IS\n{body}", python.trim()));
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", folder.join("bin").display());
        Cluster { environment: vec![("PATH".to_owned(), path)], folder: Some(folder), home }
    }

    /// Takes an emulated central manager away, or brings it back.
    pub fn be_away(&self, is_away: bool) {
        self.mark("down", is_away);
    }

    /// Lets machines of an emulated one start no steps, or start them again.
    pub fn be_drained(&self, is_drained: bool) {
        self.mark("drained", is_drained);
        // Whoever asks makes it look at what waits.
        self.say("llq", &[]);
    }

    fn mark(&self, name: &str, is_there: bool) {
        let mark = self.folder.as_deref().expect("only an emulated cluster obeys").join(name);
        match is_there {
            true => fs::write(mark, "").expect("a mark"),
            false => fs::remove_file(mark).expect("it was there"),
        }
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

    /// The ids of our steps in these states.
    pub fn steps(&self, states: &[&str]) -> Vec<String> {
        let user = nix::unistd::User::from_uid(Uid::effective()).expect("users can be looked up");
        let user = user.expect("we are a user").name;
        let listed = self.say("llq", &["-r", "%st", "%id", "-u", &user]);
        let steps = listed.lines().filter_map(|line| line.split_once('!'));
        steps.filter(|(state, _)| states.contains(state)).map(|(_, id)| id.to_owned()).collect()
    }

    /// Where an emulated one keeps its steps.
    pub fn folder(&self) -> &Path {
        self.folder.as_deref().expect("only an emulated cluster has one")
    }
}

impl Platform for Cluster {
    fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn has_pilots(&self, _: &Sandbox) -> bool {
        let before_their_end = [
            "I", "D", "NQ", "H", "S", "HS", "P", "ST", "R", "CK", "E", "EP", "MP", "CP", "VP", "V", "XP",
            "X", "RP",
        ];
        !self.steps(&before_their_end).is_empty()
    }
}
