//! What end-to-end tests share: a sandbox with its own home, commands that are always reaped, and
//! waiting by asking. `tests/run` builds the binaries first.

#[path = "lib/apart.rs"]
pub mod apart;
#[path = "lib/api.rs"]
pub mod api;
#[path = "lib/between.rs"]
pub mod between;
#[path = "lib/cable.rs"]
pub mod cable;
#[path = "lib/disk.rs"]
pub mod disk;
#[path = "lib/emulated.rs"]
pub mod emulated;
#[path = "lib/gridengine.rs"]
pub mod gridengine;
#[path = "lib/hang.rs"]
mod hang;
#[path = "lib/loadleveler.rs"]
pub mod loadleveler;
#[path = "lib/luck.rs"]
pub mod luck;
#[path = "lib/openstack.rs"]
pub mod openstack;
#[path = "lib/pbs.rs"]
pub mod pbs;
#[path = "lib/peers.rs"]
pub mod peers;
#[path = "lib/pilots.rs"]
pub mod pilots;
#[path = "lib/plan.rs"]
pub mod plan;
#[path = "lib/ports.rs"]
pub mod ports;
#[path = "lib/rounds.rs"]
pub mod rounds;
#[path = "lib/scene.rs"]
pub mod scene;
#[path = "lib/secrets.rs"]
mod secrets;
#[path = "lib/site.rs"]
pub mod site;
#[path = "lib/slurm.rs"]
pub mod slurm;
#[path = "lib/sshd.rs"]
pub mod sshd;
#[path = "lib/sweep.rs"]
pub mod sweep;
#[path = "lib/swift.rs"]
pub mod swift;
#[path = "lib/witness.rs"]
pub mod witness;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

pub use hang::hang_limit;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// The `pilotfish` that was built beside this test.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let folder = test.ancestors().nth(2).expect("tests are in target/PROFILE/deps");
    let program = folder.join("pilotfish");
    assert!(
        program.exists(),
        "{} is missing: run `cargo build -p cli` first, or tests/run",
        program.display()
    );
    program
}

/// Bytes that compress to nothing but themselves.
pub fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// A folder of its own, home included, and whatever was started in it, killed at the end. No log in it may hold a
/// secret: that is looked at when it goes out of scope.
pub struct Sandbox {
    folder: TempDir,
    secrets: Mutex<Vec<String>>,
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new()
    }
}

impl Sandbox {
    /// An empty one.
    pub fn new() -> Sandbox {
        let folder =
            tempfile::Builder::new().prefix("pilotfish-test-").tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("home")).expect("a home");
        Sandbox { folder, secrets: Mutex::default() }
    }

    /// From now on these, too, may stand in no log.
    pub fn hide(&self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.lock().expect("a lock").extend(secrets);
    }

    /// From now on its folder stays, for whoever wants to know what went wrong.
    pub fn keep(&mut self) -> &Path {
        self.folder.disable_cleanup(true);
        self.folder.path()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("its folder");
        fs::write(&path, text).expect("the file is written");
        path
    }

    /// Reads a file; empty when there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    /// `pilotfish` with these arguments, in this sandbox.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&program(), arguments)
    }

    /// The same of another copy of it.
    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.path())
            .env("HOME", self.path().join("home"))
            .env("NO_COLOR", "1")
            .env_remove("PILOTFISH_DIR")
            .stdin(Stdio::null());
        command
    }

    /// Runs `pilotfish` to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("pilotfish runs")
    }

    /// Runs `pilotfish`, which must succeed; gives what it printed.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "pilotfish {arguments:?}: {}\n{out}{err}", output.status);
        out
    }

    /// Starts a manager and waits until it answers; without one its store would. Its output goes to `serve`.
    pub fn serve(&self, command: Command) -> Running {
        let mut manager = self.spawn("serve", command);
        until("the manager answers", || {
            assert!(!manager.has_ended(), "{}", self.read("serve.err"));
            self.is_served()
        });
        manager
    }

    /// Starts a manager in the folder `m` and waits until it answers. Its output goes to `serve`.
    pub fn serve_in_m(&self, arguments: &[&str]) -> Running {
        let command = self.command(&[&["serve", "--dir", "m"], arguments].concat());
        let mut manager = self.spawn("serve", command);
        until("the manager answers", || {
            assert!(!manager.has_ended(), "{}", self.read("serve.err"));
            let output = self.run(&["status", "--json", "--dir", "m"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            status["pid"] == manager.pid()
        });
        manager
    }

    /// Waits until the default manager answers; without one its store would.
    pub fn until_served(&self) {
        until("the manager answers", || self.is_served());
    }

    fn is_served(&self) -> bool {
        let output = self.run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["pid"].is_u64()
    }

    /// Runs `pilotfish … --json`, which must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        let out = self.ok(&all);
        serde_json::from_str(&out)
            .unwrap_or_else(|error| panic!("pilotfish {all:?} printed no JSON: {error}\n{out}"))
    }

    /// Starts `pilotfish` in the background, its output in files of that name.
    pub fn start(&self, name: &str, arguments: &[&str]) -> Running {
        self.spawn(name, self.command(arguments))
    }

    /// Starts any command in the background, its output in files of that name.
    pub fn spawn(&self, name: &str, mut command: Command) -> Running {
        let log = |kind: &str| {
            let path = self.path().join(format!("{name}.{kind}"));
            fs::OpenOptions::new().create(true).append(true).open(path).expect("a log")
        };
        let child = command.stdout(log("out")).stderr(log("err")).spawn().expect("it starts");
        Running { child }
    }

    /// Processes whose environment names this sandbox: pilots and tasks, wherever they hang.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let needle = self.path().join("home").to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&needle) && !command.is_empty() {
                found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
            }
        }
        found
    }

    /// Those of them that are pilots; an agent that only lists or cancels is none.
    pub fn agents(&self) -> Vec<u32> {
        let is_agent = |command: &str| command.contains("agent run ");
        self.processes().into_iter().filter(|(_, command)| is_agent(command)).map(|(pid, _)| pid).collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
        // What a test that has failed says must not be covered.
        if !std::thread::panicking() {
            let secrets = self.secrets.lock().expect("a lock");
            let found = secrets::found(self.path(), &secrets);
            assert_eq!(found, None, "logs hold no secrets");
        }
    }
}

/// A process that is killed and reaped when it goes out of scope.
pub struct Running {
    child: Child,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        signal_pid(self.child.id(), signal);
    }

    /// Waits for its end; gives its exit code, `None` when a signal ended it.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().expect("it can be waited for").code()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that may have ended.
pub fn signal_pid(pid: u32, signal: Signal) {
    // No such process: that is what was wanted.
    let _ = kill(Pid::from_raw(pid as i32), signal);
}

/// Ends all processes of a node at once: no pilot there sees a task die before it.
pub fn lose_power(sandbox: &Sandbox, is_there: impl Fn(u32, &str) -> bool) {
    let there = || sandbox.processes().into_iter().filter(|(pid, command)| is_there(*pid, command));
    until("nothing runs there", || {
        let pids: Vec<u32> = there().map(|(pid, _)| pid).collect();
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            pids.iter().for_each(|pid| signal_pid(*pid, signal));
        }
        // Whoever was started between the look and the signal is found by the next look.
        there().next().is_none()
    });
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says why this test is not run here; `tests/run` tells all of those at its end.
pub fn skipped(why: &str) {
    println!("SKIPPED: {why}");
    let Some(list) = std::env::var_os("PILOTFISH_TESTS_SKIPPED") else { return };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let file = fs::OpenOptions::new().append(true).create(true).open(list);
    // A line at a time: others append, too.
    file.and_then(|mut file| file.write_all(format!("{test}: {why}\n").as_bytes()))
        .expect("the list is written");
}

/// Between two questions, however quickly they are answered.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// A wait that is over is noticed within so long.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// A wait for longer is a hang.
const UNTIL_MAX: Duration = Duration::from_secs(600);

/// Asks again and again until the answer is yes. A test that never gets it fails after ten minutes, or longer on a
/// machine that `tests/run` found to be slow.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let (begun, limit) = (Instant::now(), hang_limit(UNTIL_MAX));
    loop {
        let asked = Instant::now();
        if is_so() {
            return;
        }
        assert!(begun.elapsed() < limit, "waited in vain until {what}");
        // Most of a core is for what is waited for, not for asking.
        std::thread::park_timeout((asked.elapsed() * 2).clamp(PAUSE_MIN, PAUSE_MAX));
    }
}
