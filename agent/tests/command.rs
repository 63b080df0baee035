//! The agent binary as platforms use it: started, listed, cancelled, killed. There is no manager.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

const AGENT: &str = env!("CARGO_BIN_EXE_pilotfish-agent");
/// Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(600);

fn agent(arguments: &[&str]) -> Output {
    Command::new(AGENT).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Writes a join document for a manager that does not exist.
fn join_document(folder: &Path, tag: &str) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let path = folder.join("join");
    let pilot = folder.join("pilot");
    let document = format!(
        r#"{{"url":"{url}","certificate_sha256":null,"token":"secret-token","tag":"{tag}","folder":"{}",
        "capacity":null,"walltime":null,"watch_pid":null}}"#,
        pilot.display()
    );
    fs::write(&path, document).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Returns a tag that no other test and no other run uses.
fn tag(name: &str) -> String {
    format!("pf-{name}-{}", std::process::id())
}

fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z') && !line.contains('X'))
}

/// Waits for the worker of a guard and returns its process id.
fn worker_of(guard: &str) -> String {
    let children = || fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).unwrap_or_default();
    wait_until("a worker", || !children().trim().is_empty());
    children().trim().to_string()
}

fn started(folder: &Path, tag: &str) -> String {
    let join = join_document(folder, tag);
    let output = agent(&["start", "--join", join.to_str().unwrap(), "--tag", tag]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pid = text(&output.stdout).trim().to_string();
    wait_until("the guard's name", || {
        text(&agent(&["list", tag]).stdout) == format!("{pid} {tag} running\n")
    });
    pid
}

/// Returns a folder and everything in it.
fn walk(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let below = entries.flat_map(|entry| walk(&entry.path()));
    [path.to_path_buf()].into_iter().chain(below).collect()
}

#[test]
fn started_pilot_is_listed_and_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let tag = tag("cancel");
    let pid = started(folder.path(), &tag);
    assert_eq!(text(&agent(&["list", "pf-nobody"]).stdout), "");
    let arguments = text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap());
    assert!(!arguments.contains("secret-token"), "{arguments}");
    worker_of(&pid);
    let log = || fs::read_to_string(folder.path().join("pilot/pilot.log")).unwrap_or_default();
    wait_until("a try to register", || log().contains("cannot be reached"));
    assert!(!log().contains("secret-token"));
    for entry in walk(&folder.path().join("pilot")) {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others may use {entry:?}");
    }
    let cancelled = agent(&["cancel", &pid]);
    assert!(cancelled.status.success(), "{}", text(&cancelled.stderr));
    wait_until("its end", || !is_alive(&pid));
    assert_eq!(text(&agent(&["list", &tag]).stdout), "");
    assert!(agent(&["cancel", &pid]).status.success());
}

#[test]
fn worker_does_not_outlive_its_guard() {
    let folder = tempfile::tempdir().unwrap();
    let pid = started(folder.path(), &tag("guard"));
    let worker = worker_of(&pid);
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    wait_until("the worker's end", || !is_alive(&worker));
}

#[test]
fn guard_ends_with_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let pid = started(folder.path(), &tag("worker"));
    let worker = worker_of(&pid);
    assert!(Command::new("kill").args(["-9", &worker]).status().unwrap().success());
    wait_until("the guard's end", || !is_alive(&pid));
}

#[test]
fn strangers_are_not_cancelled() {
    let output = agent(&["cancel", &std::process::id().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("error: process {} is no pilot of this user\n", std::process::id());
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn unusable_join_documents_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let join = join_document(folder.path(), "pf-x");
    let path = join.to_str().unwrap();
    let output = agent(&["start", "--join", path, "--tag", "pf-y"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: the tag is \"pf-y\" in the arguments and \"pf-x\" in the join document\n"
    );
    fs::set_permissions(&join, fs::Permissions::from_mode(0o644)).unwrap();
    let output = agent(&["run", "--join", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("chmod 600"), "{}", text(&output.stderr));
    let output = agent(&["run", "--join", "/no/such/file"]);
    assert!(text(&output.stderr).contains("No such file"), "{}", text(&output.stderr));
    fs::write(&join, "{\"url\": 7}").unwrap();
    fs::set_permissions(&join, fs::Permissions::from_mode(0o600)).unwrap();
    let output = agent(&["run", "--join", path]);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("error: the join document {path:?}: url: found a number; expected a string\n");
    assert_eq!(text(&output.stderr), expected);
    assert_eq!(agent(&["run", "--join", path, "--walltime", "soon"]).status.code(), Some(2));
}

#[test]
fn walltime_ends_a_pilot_that_nobody_answers() {
    let folder = tempfile::tempdir().unwrap();
    let join = join_document(folder.path(), "pf-walltime");
    let output = agent(&["run", "--join", join.to_str().unwrap(), "--walltime", "1s"]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
    let last = text(&output.stderr).lines().last().unwrap_or_default().to_string();
    assert!(last.starts_with("error: ") && last.contains("has not answered"), "{last}");
}
