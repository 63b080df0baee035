//! A batch system's commands: emulated ones, whose jobs are processes of this host, or those on the path.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use crate::{Sandbox, text};

/// What all emulators begin with.
const HEAD: &str = include_str!("emulated.py");

/// The commands of one system.
pub struct Commands {
    /// What they need in their environment.
    pub environment: Vec<(String, String)>,
    /// Where emulated ones keep their jobs.
    folder: Option<PathBuf>,
    home: PathBuf,
}

impl Commands {
    /// Those on the path.
    pub fn real(sandbox: &Sandbox) -> Commands {
        Commands { environment: Vec::new(), folder: None, home: sandbox.path().join("home") }
    }

    /// Emulated ones of these names. `form`: what the emulator is to be.
    pub fn emulated(sandbox: &Sandbox, emulator: &str, form: &str, programs: &[&str]) -> Commands {
        let folder = sandbox.write("emulated/form", form).with_file_name("");
        let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let python = text(&python.expect("python3 is installed").stdout);
        // A module, which Python translates once.
        let module = sandbox.write("emulated/lib/emulator.py", &format!("{HEAD}{emulator}"));
        let modules = module.with_file_name("").display().to_string();
        let script = format!(
            "#!{} -IS\nimport sys\nsys.path.insert(0, {modules:?})\nimport emulator\nemulator.main()\n",
            python.trim()
        );
        for program in programs {
            let path = sandbox.write(&format!("emulated/bin/{program}"), &script);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
        }
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", folder.join("bin").display());
        let environment = vec![("PATH".to_owned(), path)];
        Commands { environment, folder: Some(folder), home: sandbox.path().join("home") }
    }

    /// Takes an emulated server away, or brings it back.
    pub fn be_away(&self, is_away: bool) {
        self.mark("down", is_away);
    }

    /// Puts a file where emulated ones look for it, or takes it away.
    pub fn mark(&self, name: &str, is_there: bool) {
        let mark = self.folder().join(name);
        match is_there {
            true => fs::write(mark, "").expect("a mark"),
            false => fs::remove_file(mark).expect("it was there"),
        }
    }

    /// A command where those of the system are found.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment.iter().cloned());
        if self.folder.is_some() {
            // Of what runs because of it one knows whose it is.
            command.env("HOME", &self.home);
        }
        command
    }

    /// What a command says.
    pub fn say(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output();
        text(&output.expect("the commands are there").stdout)
    }

    /// Runs a command that reads this.
    pub fn run(&self, argv: &[String], stdin: &[u8]) -> Output {
        let (program, arguments) = argv.split_first().expect("a program");
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        // One that refuses at once may end before it reads.
        let _ = child.stdin.take().expect("its input").write_all(stdin);
        child.wait_with_output().expect("it ends")
    }

    /// Where emulated ones keep their jobs.
    pub fn folder(&self) -> &Path {
        self.folder.as_deref().expect("only emulated ones have one")
    }
}
