//! Others in the same run, where they are installed: `xargs` and a pool of Python's, two processes each, and
//! HyperQueue, a server and its best setting for two cores, two workers of one core each.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::place::{Folder, pause};

/// Its server and workers are there within this time.
const START_LIMIT: Duration = Duration::from_secs(20);

/// `/bin/true` tasks a second without output, submission included. `None`: not installed, or it
/// does not do what it did when this was written.
pub fn processes_a_second(n_tasks: u64) -> Option<f64> {
    let peer = Peer::start()?;
    let array = format!("0-{}", n_tasks - 1);
    let began = Instant::now();
    let words = ["submit", "--wait", "--array", &array, "--stdout=none", "--stderr=none", "/bin/true"];
    peer.run(&words).then(|| n_tasks as f64 / began.elapsed().as_secs_f64())
}

/// Seconds from submission to end of one task with a waiting worker, command line included.
pub fn latencies(n: usize) -> Option<Vec<f64>> {
    let peer = Peer::start()?;
    let one = || {
        let began = Instant::now();
        peer.run(&["submit", "--wait", "/bin/true"]).then(|| began.elapsed().as_secs_f64())
    };
    (0..n).map(|_| one()).collect()
}

/// Seconds to submit an array of so many tasks.
pub fn submit_seconds(n_tasks: u64) -> Option<f64> {
    let peer = Peer::start()?;
    let array = format!("0-{}", n_tasks - 1);
    let began = Instant::now();
    peer.run(&["submit", "--array", &array, "/bin/true"]).then(|| began.elapsed().as_secs_f64())
}

/// `/bin/true` by `xargs -P 2` a second.
pub fn xargs_a_second(n_tasks: u64) -> Option<f64> {
    xargs_seconds(n_tasks, 2).map(|seconds| n_tasks as f64 / seconds)
}

/// Seconds of so many `/bin/true` by `xargs`.
pub fn xargs_seconds(n_tasks: u64, n_slots: usize) -> Option<f64> {
    seconds_of_lines("xargs", &["-P", &n_slots.to_string(), "-n", "1", "/bin/true"], n_tasks)
}

/// The same by GNU parallel.
pub fn parallel_seconds(n_tasks: u64, n_slots: usize) -> Option<f64> {
    seconds_of_lines("parallel", &["--will-cite", "-j", &n_slots.to_string(), "/bin/true"], n_tasks)
}

/// Seconds of a program that runs something for each line of its input.
fn seconds_of_lines(program: &str, words: &[&str], n_lines: u64) -> Option<f64> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().ok()?;
    let lines: String = (0..n_lines).map(|n| format!("{n}\n")).collect();
    // Who has ended early says so by its status.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(lines.as_bytes()));
    child.wait().ok()?.success().then(|| began.elapsed().as_secs_f64())
}

/// What two processes of a pool of Python's do a second, its start left out: `/bin/true` each, or nothing.
pub fn python_a_second(n_tasks: u64, is_process: bool) -> Option<f64> {
    let one = if is_process { "subprocess.run(['/bin/true'])" } else { "pass" };
    let script = format!(
        "import subprocess, time\n\
         from multiprocessing import Pool\n\
         def one(n):\n    {one}\n\
         with Pool(2) as pool:\n    \
             pool.map(one, range(2))\n    \
             began = time.time()\n    \
             list(pool.imap_unordered(one, range({n_tasks})))\n    \
             print({n_tasks} / (time.time() - began))\n"
    );
    let output = Command::new("python3").args(["-c", &script]).stdin(Stdio::null()).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

struct Peer {
    folder: Folder,
    processes: Vec<Child>,
}

impl Peer {
    fn start() -> Option<Peer> {
        let mut peer = Peer { folder: Folder::new().ok()?, processes: Vec::new() };
        let server = peer.command(&["server", "start"]).spawn().ok()?;
        peer.processes.push(server);
        peer.until(|peer| peer.run(&["server", "info"]))?;
        for _ in 0..2 {
            let worker = peer.command(&["worker", "start", "--cpus", "1"]).spawn().ok()?;
            peer.processes.push(worker);
        }
        peer.until(|peer| peer.run(&["submit", "--wait", "/bin/true"]))?;
        Some(peer)
    }

    fn until(&self, is_so: impl Fn(&Peer) -> bool) -> Option<()> {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > START_LIMIT {
                return None;
            }
            pause();
        }
        Some(())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("hq");
        command.arg("--server-dir").arg(self.folder.path()).args(words).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> bool {
        self.command(words).status().is_ok_and(|status| status.success())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Both fail only when it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
