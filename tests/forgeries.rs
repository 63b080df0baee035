//! Somebody who has a pilot's tokens, and somebody who copies a manager's folder: neither gets what is another's.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

use manager::{security::tokens::Tokens, store::Store};
use scheduler::engine::record::Record;
use serde_json::{Value, json};
use tests::{Running, Sandbox, hang_limit, signal_pid, text, until};

/// One who has read a pilot's memory.
struct Thief {
    address: String,
    session: String,
    pilot: u64,
    epoch: u64,
}

impl Thief {
    /// Has the session of the first pilot of the manager in this folder.
    fn new(folder: &Path) -> Thief {
        let access: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("access.json")).unwrap()).unwrap();
        let address = access["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        let mut registered = None;
        let store = Store::open_to_read(folder).unwrap();
        store
            .replay(|record| {
                if let Record::PilotRegistered { pilot, nonce, .. } = record {
                    registered.get_or_insert((pilot, nonce));
                }
            })
            .unwrap();
        let (pilot, nonce) = registered.expect("a pilot has come");
        let session = Tokens::open(folder).unwrap().session(pilot, nonce);
        Thief { address, session, pilot: pilot.0, epoch: 0 }
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(hang_limit(Duration::from_secs(600)))).unwrap();
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("it takes it");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    fn pull(&mut self, report: &Value) -> (u16, Value) {
        let pull = json!({
            "epoch": self.epoch, "part_seen": 0, "report": report, "holds": null, "running": [],
            "is_hungry": false, "wait": 0,
        });
        let (status, answer) =
            self.post("/pilot/v1/pull", &self.session, &json!({"pilot": self.pilot, "pull": pull}));
        self.epoch = answer["epoch"].as_u64().unwrap_or(self.epoch);
        (status, answer)
    }
}

/// A report that says of tasks of a job that they have succeeded and written this, and left this file.
fn forged(seq: u64, job: u64, tasks: [u64; 2], file: &str) -> Value {
    let column = [1000, 1000];
    let files =
        |index| json!({"index": index, "files": [{"to": file, "sha256": "0".repeat(64), "bytes": 4}]});
    let output = |index| json!({"index": index, "stdout": b"forged".to_vec(), "stderr": []});
    let part = json!({
        "job": job,
        "successes": {
            "tasks": [[tasks[0], tasks[1] + 1]], "started_us": column, "wall_us": column, "cpu_us": column,
            "memory_bytes": column, "exit_codes": [],
        },
        "failures": [], "returned": [], "outputs": tasks.map(output), "files": tasks.map(files), "given": [],
    });
    json!({"seq": seq, "jobs": [part]})
}

fn n_done(sandbox: &Sandbox, job: &str) -> u64 {
    sandbox.json(&["job", job, "--dir", "m"])["counts"]["done"].as_u64().expect("a number")
}

fn serve(sandbox: &Sandbox, folder: &str, more: &[&str]) -> Running {
    let mut arguments = vec!["serve", "--dir", folder, "--cores", "2"];
    arguments.extend(more);
    let mut manager = sandbox.start(&format!("serve-{folder}"), &arguments);
    until("the manager answers", || {
        assert!(!manager.has_ended(), "{}", sandbox.read(&format!("serve-{folder}.err")));
        let status = sandbox.run(&["status", "--json", "--dir", folder]).stdout;
        let status: Value = serde_json::from_slice(&status).unwrap_or_default();
        status["pid"].as_u64() == Some(u64::from(manager.pid()))
    });
    manager
}

/// Two tasks that write what they are, and wait for the file `go`; their file goes to `res`.
fn write_job(sandbox: &Sandbox) {
    let go = sandbox.path().join("go").display().to_string();
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'echo true {{n}} > out; until [ -e {go} ]; do sleep 0.05; done; echo true {{n}}'\n\
             sweep: {{n: {{range: [0, 1]}}}}\nworkdir: scratch\nretries: 3\n\
             outputs: [{{from: out, to: 'res/{{n}}.txt'}}]\n"
        ),
    );
}

#[test]
fn who_has_a_pilots_session_forges_no_result_plants_no_file_and_stops_nobody() {
    let sandbox = Sandbox::new();
    write_job(&sandbox);
    let _manager = serve(&sandbox, "m", &[]);
    sandbox.ok(&["submit", "job.yaml", "--dir", "m"]);
    sandbox.ok(&["submit", "job.yaml", "--dir", "m"]);
    until("both tasks of the first job run", || {
        sandbox.json(&["job", "1", "--dir", "m"])["counts"]["running"] == 2
    });
    let mut thief = Thief::new(&sandbox.path().join("m"));
    let (status, answer) = thief.pull(&forged(1001, 2, [0, 1], "res/0.txt"));
    assert_eq!((status, &answer["acknowledged"]), (200, &json!(0)), "{answer}");
    assert!(answer["resync"].is_u64(), "it is asked what it holds: {answer}");
    // With the right number, as soon as the pilot has said what it holds.
    let mut report = |seq, job, file| {
        until("the report is taken", || {
            let (_, answer) = thief.pull(&forged(seq, job, [0, 1], file));
            answer["acknowledged"].as_u64() >= Some(seq)
        });
    };
    report(1, 2, "res/0.txt");
    report(2, 1, "../evil");
    assert_eq!((n_done(&sandbox, "1"), n_done(&sandbox, "2")), (0, 0));
    sandbox.write("go", "");
    for job in ["1", "2"] {
        sandbox.ok(&["wait", job, "--dir", "m"]);
        fs::create_dir(sandbox.path().join(format!("got{job}"))).unwrap();
        sandbox.ok(&["fetch", job, "--dir", "m", "--to", &format!("got{job}")]);
        for n in 0..2 {
            assert_eq!(sandbox.read(&format!("got{job}/res/{n}.txt")), format!("true {n}\n"), "job {job}");
        }
        assert_eq!(n_done(&sandbox, job), 2);
        let logs = sandbox.ok(&["logs", job, "--dir", "m"]);
        assert!(logs.contains("true 1") && !logs.contains("forged"), "{logs}");
    }
    assert!(!sandbox.path().join("evil").exists() && !sandbox.path().join("got1/evil").exists());
    let said = sandbox.read("serve-m.err");
    assert!(said.contains("a pilot says what cannot be"), "{said}");
    sandbox.ok(&["stop", "--dir", "m"]);
}

#[test]
fn a_join_token_serves_once_while_its_pilot_is_there_and_a_session_ends_with_it() {
    let sandbox = Sandbox::new();
    write_job(&sandbox);
    let _manager = serve(&sandbox, "m", &[]);
    sandbox.ok(&["submit", "job.yaml", "--dir", "m"]);
    until("its tasks run", || sandbox.json(&["job", "1", "--dir", "m"])["counts"]["running"] == 2);
    let mut thief = Thief::new(&sandbox.path().join("m"));
    let tag =
        sandbox.json(&["allocation", "show", "1", "--dir", "m"])["tag"].as_str().expect("a tag").to_owned();
    let join = Tokens::open(&sandbox.path().join("m")).unwrap().join(&tag);
    let capacity = json!({"cores": 2, "memory_bytes": 1 << 30, "gpus": 0, "generic": {}, "widest": 0});
    let node = json!({
        "hostname": "elsewhere", "rank": 0, "capacity": capacity, "batch_id": null, "walltime_left": null,
        "agent_version": "0",
    });
    let registration = json!({"tag": tag, "nonce": 5, "node": node, "uptime": 1});
    let registration = json!({"version": 1, "registration": registration});
    let (status, answer) = thief.post("/pilot/v1/register", &join, &registration);
    assert_eq!((status, &answer["error"]["code"]), (425, &json!("still-there")), "{answer}");
    assert_eq!(thief.pull(&json!(null)).0, 200, "the session of the first one is still its own");
    sandbox.ok(&["allocation", "cancel", "1", "--now", "--dir", "m"]);
    until("the pilot has gone", || {
        let pilots = sandbox.json(&["pilots", "--dir", "m"]);
        pilots.as_array().is_some_and(|pilots| pilots.iter().all(|pilot| pilot["id"] != 1))
    });
    let (status, answer) = thief.pull(&json!(null));
    assert_eq!((status, &answer["error"]["code"]), (401, &json!("session-ended")), "{answer}");
    sandbox.write("go", "");
    sandbox.ok(&["wait", "1", "--dir", "m"]);
    sandbox.ok(&["stop", "--dir", "m"]);
}

fn copy(sandbox: &Sandbox, from: &str, to: &str) {
    let copied = Command::new("cp").args(["-a", from, to]).current_dir(sandbox.path()).status();
    assert!(copied.expect("cp runs").success());
}

#[test]
fn a_copy_of_a_managers_folder_takes_nothing_from_the_original() {
    let sandbox = Sandbox::new();
    write_job(&sandbox);
    let manager = serve(&sandbox, "m", &[]);
    sandbox.ok(&["submit", "job.yaml", "--dir", "m"]);
    until("its tasks run", || sandbox.json(&["job", "1", "--dir", "m"])["counts"]["running"] == 2);
    let agents = sandbox.agents();
    assert!(!agents.is_empty());
    copy(&sandbox, "m", "copied");

    let refused = sandbox.run(&["serve", "--dir", "copied"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("--as-copy") && said.contains("the original is still there"), "{said}");
    // Nor does a command that names the copy reach the original.
    let refused = sandbox.run(&["stop", "--now", "--dir", "copied"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("copy of"), "{refused:?}");

    let copied = serve(&sandbox, "copied", &["--as-copy"]);
    until("the copy's own pilot has come", || sandbox.agents().len() > agents.len());
    let pilots = sandbox.json(&["pilots", "--dir", "copied"]);
    assert!(pilots.as_array().is_some_and(|pilots| pilots.iter().all(|pilot| pilot["id"] != 1)), "{pilots}");
    sandbox.ok(&["stop", "--now", "--dir", "copied"]);
    assert_eq!(copied.wait(), Some(0));
    assert_eq!(sandbox.agents(), agents, "the original's pilot works on");
    let job = sandbox.json(&["job", "1", "--dir", "m"]);
    assert_eq!(job["counts"]["running"], 2, "{job}");
    sandbox.write("go", "");
    sandbox.ok(&["wait", "1", "--dir", "m"]);
    sandbox.ok(&["stop", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0));

    // A folder that is renamed is the same one, and so is what is put back in its place.
    fs::rename(sandbox.path().join("m"), sandbox.path().join("renamed")).unwrap();
    let renamed = serve(&sandbox, "renamed", &[]);
    signal_pid(renamed.pid(), nix::sys::signal::Signal::SIGTERM);
    assert_eq!(renamed.wait(), Some(0));
    copy(&sandbox, "renamed", "backup");
    fs::remove_dir_all(sandbox.path().join("renamed")).unwrap();
    fs::rename(sandbox.path().join("backup"), sandbox.path().join("renamed")).unwrap();
    let put_back = serve(&sandbox, "renamed", &[]);
    sandbox.ok(&["stop", "--dir", "renamed"]);
    assert_eq!(put_back.wait(), Some(0));
}
