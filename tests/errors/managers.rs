//! Managers that are not there, not the right one, not reachable, or do not know what is asked for.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use serde_json::{Value, json};

use crate::page::Page;

/// Answers every request with this; lives as long as the test.
pub fn answering(answer: impl Into<String>) -> String {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 65536];
            // Whoever has gone needs no answer.
            let _ = stream.read(&mut request).and_then(|_| stream.write_all(answer.as_bytes()));
        }
    });
    url
}

/// Where nobody listens.
pub fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("http://{}", listener.local_addr().expect("its address"))
}

fn access(url: &str) -> Value {
    json!({
        "version": 1, "url": url, "certificate_sha256": null, "user": "ann", "token": "pfo_x.y",
        "pid": 1, "host": "elsewhere", "manager_version": "0.1.0"
    })
}

/// The access file that a manager wrote into this folder.
pub fn written(page: &Page, folder: &str) -> Value {
    serde_json::from_str(&page.sandbox.read(&format!("{folder}/access.json"))).expect("an access file")
}

#[test]
fn commands_without_a_manager_say_where_they_looked() {
    let mut page = Page::new("no-manager");
    page.sandbox.write("job.yaml", "command: [echo]\n");
    page.sandbox.write("centre.yaml", "platforms:\n  - {name: here, adapter: local, cores: 1}\n");
    let commands: &[&[&str]] = &[
        &["submit", "job.yaml"],
        &["jobs"],
        &["job", "1"],
        &["tasks", "1"],
        &["task", "1.0"],
        &["logs", "1"],
        &["export", "1"],
        &["wait", "1"],
        &["cancel", "1"],
        &["pause", "1"],
        &["resume", "1"],
        &["retry-failed", "1"],
        &["pilots"],
        &["platforms"],
        &["explain", "job", "1"],
        &["status"],
        &["stop"],
        &["platform", "detach", "here", "--config", "centre.yaml"],
        &["jobs", "--dir", "elsewhere"],
        &["submit", "job.yaml", "--manager", "big"],
    ];
    for arguments in commands {
        page.fails("no manager", arguments);
    }
    page.close();
}

#[test]
fn access_files_that_lead_nowhere_are_explained() {
    let mut page = Page::new("access");
    let html = "HTTP/1.1 200 OK\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<html></html>";
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let closing = "";
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = (format!("http://{}", silent.local_addr().expect("its address")), silent);
    let mut dead = access(&nobody());
    dead["host"] = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name").trim().into();
    dead["pid"] = 4_194_305.into();
    let mut later = access(&nobody());
    later["version"] = 2.into();
    let texts = [
        ("it is garbled", "{\"version\": 1, \"url\"".to_owned()),
        ("it is empty", String::new()),
        ("it lacks a field", json!({"version": 1, "url": "http://x"}).to_string()),
        ("it is of a later version", later.to_string()),
        ("its process has ended", dead.to_string()),
        ("nobody listens", access(&nobody()).to_string()),
        ("its host is not known", access("http://no-such-host.invalid:1").to_string()),
        ("its URL is none", access("nonsense").to_string()),
        ("somebody else answers", access(&answering(html)).to_string()),
        ("somebody else refuses", access(&answering(missing)).to_string()),
        ("somebody else hangs up", access(&answering(closing)).to_string()),
        ("nobody answers", access(&silent.0).to_string()),
    ];
    for (title, text) in &texts {
        page.sandbox.write("state/access.json", text);
        page.fails(title, &["status", "--dir", "state"]);
    }
    std::fs::remove_file(page.sandbox.path().join("state/access.json")).expect("it was there");
    std::fs::create_dir(page.sandbox.path().join("state/access.json")).expect("a folder");
    page.fails("it is a folder", &["status", "--dir", "state"]);
    page.close();
}

#[test]
fn managers_that_refuse_are_explained() {
    let mut page = Page::new("refusals");
    page.sandbox.write("job.yaml", "command: [echo]\n");
    let plain = page.serve("plain", &["--no-local", "-q"]);
    let _safe = page.serve("safe", &["--no-local", "-q", "--tls", "on"]);
    let (plain_access, safe_access) = (written(&page, "plain"), written(&page, "safe"));
    let changed = |mut access: Value, change: &dyn Fn(&mut Value)| {
        change(&mut access);
        access.to_string()
    };
    let wrong_pin = "0123456789abcdef".repeat(4);
    let cases = [
        ("a wrong token", changed(plain_access.clone(), &|access| access["token"] = "pfo_cm9vdA.x".into())),
        ("no token", changed(plain_access.clone(), &|access| access["token"] = "".into())),
        ("a token with a line end", changed(plain_access.clone(), &|access| access["token"] = "a\nb".into())),
        (
            "another certificate",
            changed(safe_access.clone(), &|a| a["certificate_sha256"] = wrong_pin.clone().into()),
        ),
        (
            "no certificate",
            changed(safe_access.clone(), &|access| access["certificate_sha256"] = Value::Null),
        ),
        (
            "TLS to one that speaks none",
            changed(plain_access.clone(), &|access| {
                access["url"] = access["url"].as_str().expect("a URL").replace("http:", "https:").into();
            }),
        ),
        (
            "no TLS to one that speaks it",
            changed(safe_access.clone(), &|access| {
                access["url"] = access["url"].as_str().expect("a URL").replace("https:", "http:").into();
            }),
        ),
    ];
    for (title, text) in &cases {
        page.sandbox.write("state/access.json", text);
        page.fails(title, &["submit", "job.yaml", "--dir", "state"]);
    }
    assert_eq!(page.sandbox.json(&["jobs", "--dir", "plain"]), json!([]), "something was submitted");
    assert_eq!(page.sandbox.json(&["jobs", "--dir", "safe"]), json!([]), "something was submitted");

    page.fails("a second manager in its folder", &["serve", "-q", "--dir", "plain"]);
    page.fails("a run in its folder", &["run", "--dir", "plain", "--", "true"]);
    // One that holds the folder but cannot be found there.
    std::fs::remove_file(page.sandbox.path().join("plain/access.json")).expect("it was there");
    page.fails("a second manager in its folder, unseen", &["serve", "-q", "--dir", "plain"]);
    page.fails("a run in its folder, unseen", &["run", "--dir", "plain", "--", "true"]);
    let port = safe_access["url"].as_str().and_then(|url| url.rsplit(':').next()).expect("a port").to_owned();
    let taken = page.sandbox.command(&["serve", "-q", "--dir", "third", "--port", &port]);
    page.case_as("a port that is taken", "serve -q --dir third --port [PORT]", taken, 3);
    page.fails("an address that is not ours", &["serve", "-q", "--dir", "third", "--host", "192.0.2.1"]);
    drop(plain);
    page.close();
}

#[test]
fn commands_beside_a_run_that_is_over_mean_its_jobs_until_a_manager_gets_one() {
    let mut page = Page::new("beside-a-run");
    page.sandbox.ok(&["run", "-q", "--", "echo", "{}", ":::", "a", "b"]);
    page.ends("nobody else is there: the store is read", &["job", "1", "-q"], 0);
    page.fails("nobody else is there: nothing can be changed", &["cancel", "1"]);
    let manager = page.serve("home/.pilotfish/default", &["--no-local", "-q"]);
    page.ends("to read", &["job", "1", "-q"], 0);
    page.ends("the status", &["status", "--json"], 0);
    page.ends("the status in a word", &["status", "-q"], 0);
    page.ends("to wait for what is over", &["wait", "1"], 0);
    for verb in ["cancel", "pause", "resume", "retry-failed"] {
        page.fails(&format!("to {verb}"), &[verb, "1"]);
    }
    page.ends("to submit", &["submit", "--name", "other", "--", "true"], 0);
    page.ends("to read after that", &["job", "1", "-q"], 0);
    page.ends("to read what the run has", &["job", "1", "-q", "--dir", ".pilotfish"], 0);
    page.ends("to wait for what nobody can run", &["wait", "1", "--timeout", "10ms"], 124);
    page.ends("to cancel after that", &["cancel", "1"], 0);
    page.ends("a task that was cancelled", &["task", "1.0", "--manager", "default"], 0);
    page.sandbox.ok(&["submit", "-q", "--manager", "default", "--", "true"]);
    std::os::unix::fs::symlink("home", page.sandbox.path().join("linked")).expect("a link");
    let mut read = page.sandbox.command(&["job", "1", "-q"]);
    read.env("HOME", page.sandbox.path().join("linked"));
    page.case_as("to read where the home folder is a link", "job 1 -q", read, 0);
    page.ends("to stop", &["stop"], 0);
    assert_eq!(manager.wait(), Some(0));
    page.ends("to read what has ended", &["job", "1", "-q"], 0);
    let left = ["wait", "2", "--dir", "home/.pilotfish/default"];
    page.fails("to wait for what will not end", &left);
    page.close();
}

#[test]
fn what_a_manager_does_not_know_is_explained() {
    let mut page = Page::new("unknown");
    let _manager = page.serve("home/.pilotfish/default", &["--no-local", "-q"]);
    page.refuses("the last of no jobs", &["job", "last"]);
    page.refuses("a job of none", &["job", "1"]);
    page.sandbox.ok(&["submit", "-q", "--", "echo", "{}", ":::", "a", "b"]);
    let cases: &[(&str, &[&str])] = &[
        ("a job that is not there", &["job", "7"]),
        ("tasks of a job that is not there", &["tasks", "7"]),
        ("jobs that are not there", &["cancel", "5-9"]),
        ("a task beyond the last", &["task", "1.2"]),
        ("outputs of a task beyond the last", &["logs", "1.2"]),
        ("outputs of a task that has none", &["logs", "1.0"]),
        ("tasks from beyond the last", &["cancel", "1.5-9"]),
        ("a list of tasks from beyond the last", &["tasks", "1.5-9"]),
        ("outputs of tasks from beyond the last", &["logs", "1.5-9"]),
        ("outputs of tasks to beyond the last", &["logs", "1.0-9"]),
        ("files of a task beyond the last", &["fetch", "1.2"]),
        ("files of several tasks", &["fetch", "1.0-1"]),
        ("a whole job for one task", &["task", "1"]),
        ("a pilot that is not there", &["explain", "pilot", "1"]),
        ("a pilot that is none", &["explain", "pilot", "x"]),
        ("a platform that is not there", &["explain", "platform", "lcoal"]),
        ("a task for a job", &["explain", "task", "1"]),
        ("to wait for a job that is not there", &["wait", "7"]),
        ("no interval to watch", &["jobs", "--watch=often"]),
    ];
    for (title, arguments) in cases {
        page.refuses(title, arguments);
    }
    page.ends("no task as it is wanted", &["tasks", "1", "--failed"], 0);
    page.ends("no task from there on", &["tasks", "1", "--from", "2"], 0);
    page.ends("to wait for too long", &["wait", "1", "--timeout", "10ms"], 124);
    page.ends("to resume what was not paused", &["resume", "1"], 0);
    page.ends("to pause", &["pause", "1"], 0);
    page.ends("to pause what is paused", &["pause", "1"], 0);
    page.ends("to wait for what is paused", &["wait", "1", "--timeout", "10ms"], 124);
    page.ends("to cancel a task", &["cancel", "1.0"], 0);
    page.ends("to open a task of a paused job again", &["retry-failed", "1.0"], 0);
    page.ends("to open tasks again that are open", &["retry-failed", "1.0-1"], 0);
    page.ends("to cancel a task again", &["cancel", "1.0"], 0);
    page.ends("to cancel what has partly ended", &["cancel", "1"], 0);
    page.ends("to open again what was cancelled", &["retry-failed", "1"], 0);
    page.ends("the same for programs", &["retry-failed", "1", "--json"], 0);
    page.refuses("to pause what is over", &["pause", "1"]);
    page.refuses("to cancel what is over", &["cancel", "1"]);
    page.refuses("two managers' names", &["status", "--manager", "a b"]);
    page.close();
}
