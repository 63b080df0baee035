//! A manager among clients that mean it no good: it serves the others, and holds no more memory than it
//! says. Bytes are measured, not times.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Command,
    time::Duration,
};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;
use tests::{Running, Sandbox, hang_limit, until};

/// A manager and its address and token.
struct Manager {
    process: Running,
    address: String,
    token: String,
}

fn serve(sandbox: &Sandbox, arguments: &[&str]) -> Manager {
    let all = [&["serve", "--dir", "state"], arguments].concat();
    let process = sandbox.start("serve", &all);
    let access = || serde_json::from_str::<Value>(&sandbox.read("state/access.json")).unwrap_or_default();
    until("the manager answers", || access()["url"].is_string());
    let word = |field: &str| access()[field].as_str().expect("it is a text").to_owned();
    let address = word("url").trim_start_matches("http://").to_owned();
    Manager { process, address, token: word("token") }
}

impl Manager {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(hang_limit(Duration::from_secs(600)))).expect("it is a setting");
        stream
    }

    /// The most memory it has had, in bytes.
    fn peak_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.pid())).expect("it lives");
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    fn n_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.pid())).expect("it lives").count()
    }
}

/// Lets this process open as many files as it may; says how many.
fn many_files() -> usize {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("up to the limit is allowed");
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The status line of an answer.
fn status_of(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 12];
    stream.read_exact(&mut bytes).expect("an answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_flood_of_connections_keeps_nobody_out_and_costs_little() {
    let n = 10_500.min(many_files() - 500);
    let sandbox = Sandbox::new();
    let manager = serve(&sandbox, &["--cores", "1"]);
    let before = manager.peak_bytes();
    let (mut flood, mut n_files) = (Vec::new(), 0);
    for k in 0..n {
        let mut stream = manager.connect();
        if k % 2 == 0 {
            stream.write_all(b"GET /api/v1/version HTTP/1.1\r\nhost: ").expect("it is taken");
        }
        flood.push(stream);
        // Those that are silent for half a minute are sent away.
        n_files = n_files.max(if k % 100 == 0 { manager.n_files() } else { 0 });
    }
    // Users and pilots get on.
    sandbox.ok(&["submit", "--dir", "state", "--wait", "--name", "amid", "--", "true"]);
    n_files = n_files.max(manager.n_files());
    assert!(n_files > n / 4, "there is a flood: {n_files} files");
    let cost = manager.peak_bytes() - before;
    println!("{n_files} connections cost {} bytes each", cost / n_files as u64);
    assert!(cost < (32 << 20) + 24 * 1024 * n_files as u64, "{cost} bytes for {n_files} connections");
    drop(flood);
    until("the flood is over", || manager.n_files() < 100);
    sandbox.ok(&["submit", "--dir", "state", "--wait", "--name", "after", "--", "true"]);
    sandbox.ok(&["stop", "--dir", "state"]);
    manager.process.wait();
}

#[test]
fn a_manager_without_files_left_goes_on_when_it_has_some() {
    let sandbox = Sandbox::new();
    let manager = serve(&sandbox, &["--no-local"]);
    let pid = manager.process.pid().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--nofile=120:120"]).status();
    assert!(limited.expect("prlimit is there").success());
    let flood: Vec<TcpStream> = (0..400).map(|_| manager.connect()).collect();
    // Strangers give way, so whoever has a token is served all the while.
    for _ in 0..5 {
        sandbox.ok(&["jobs", "--dir", "state"]);
    }
    assert!(manager.n_files() <= 120);
    let n_lines = sandbox.read("serve.err").lines().count();
    assert!(n_lines < 200, "it said {n_lines} lines");
    drop(flood);
    until("the flood is over", || manager.n_files() < 60);
    sandbox.ok(&["status", "--dir", "state"]);
    sandbox.ok(&["stop", "--dir", "state"]);
    manager.process.wait();
}

/// Twenty million bytes of output, asked for many times and never read.
#[test]
fn answers_that_nobody_reads_take_bounded_memory() {
    const N_BYTES: u64 = 20_000_000;
    const N_CLIENTS: usize = 60;
    let sandbox = Sandbox::new();
    let text = format!("command: 'head -c {N_BYTES} /dev/zero'\nresults: {{limit: 32MiB}}\n");
    sandbox.write("job.yaml", &text);
    let manager = serve(&sandbox, &["--cores", "1"]);
    sandbox.ok(&["submit", "--dir", "state", "--wait", "job.yaml"]);
    let before = manager.peak_bytes();
    let request = format!(
        "GET /api/v1/jobs/1/tasks/0/stdout HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\n\r\n",
        manager.token
    );
    let ask = |_| {
        let mut stream = manager.connect();
        stream.write_all(request.as_bytes()).expect("it is taken");
        stream
    };
    let mut clients: Vec<TcpStream> = (0..N_CLIENTS).map(ask).collect();
    let statuses: Vec<String> = clients.iter_mut().map(status_of).collect();
    let n_served = statuses.iter().filter(|status| status.ends_with("200")).count();
    let n_refused = statuses.iter().filter(|status| status.ends_with("503")).count();
    assert!(n_served > 0 && n_refused > 0 && n_served + n_refused == N_CLIENTS, "{statuses:?}");
    let cost = manager.peak_bytes() - before;
    println!("{n_served} answers of {N_BYTES} bytes, {n_refused} refused: {cost} bytes");
    assert!(cost < 640 << 20, "{cost} bytes for answers that nobody reads");
    // Others are served meanwhile.
    sandbox.ok(&["jobs", "--dir", "state"]);
    drop(clients);
    until("answers are given again", || status_of(&mut ask(0)).ends_with("200"));
    sandbox.ok(&["stop", "--dir", "state"]);
    manager.process.wait();
}
