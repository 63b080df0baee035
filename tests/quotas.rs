//! One user takes all that may be taken; the others hardly notice. What one user may take: `quotas` in `manager.yaml`.

use std::{fs, process::Command};

use serde_json::Value;
use tests::{Running, Sandbox, disk::Disk, text, until};

const TWO_CORES: &str = "platforms: [{name: here, adapter: local, cores: 2, allow_shared_account: true}]\n";

/// A manager with two cores and these quotas, and two users.
fn served(sandbox: &Sandbox, quotas: &str) -> Running {
    sandbox.write("manager.yaml", &format!("{TWO_CORES}quotas: {quotas}\n"));
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    for name in ["ann", "bob"] {
        sandbox.ok(&["user", "add", name, "--dir", "m"]);
    }
    manager
}

fn ends(sandbox: &Sandbox, manager: Running) {
    sandbox.ok(&["stop", "--now", "--dir", "m"]);
    assert_eq!(manager.wait(), Some(0), "{}", sandbox.read("serve.err"));
}

/// Exit code and standard error of a command that is refused.
fn refused(sandbox: &Sandbox, arguments: &[&str]) -> (Option<i32>, String) {
    let output = sandbox.run(arguments);
    (output.status.code(), text(&output.stderr))
}

fn n_done(sandbox: &Sandbox, job: &str) -> u64 {
    sandbox.json(&["job", job, "--dir", "m"])["counts"]["done"].as_u64().unwrap_or(0)
}

#[test]
fn a_user_with_the_highest_priority_keeps_no_other_user_waiting() {
    let sandbox = Sandbox::new();
    let manager = served(&sandbox, "{default: {jobs: 5, output: 64KiB}, users: {bob: {jobs: none}}}");
    // More than all cores for longer than any test, at the highest priority.
    let loud = "head -c 20000 /dev/urandom | base64";
    for _ in 0..5 {
        let submit = ["submit", "-q", "--dir", "ann", "--priority", "1000000", "--array", "1-100000"];
        sandbox.ok(&[&submit[..], &["--shell", "--", loud]].concat());
    }
    let (code, said) = refused(&sandbox, &["submit", "--dir", "ann", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    for words in ["ann has 5 jobs that have not ended", "the 5 that one user may have", "quotas.jobs"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    until("ann's tasks run", || n_done(&sandbox, "1") > 10);

    // Bob's tasks run though all of ann's wait.
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "bob", "--", "true"]);
    assert!(n_done(&sandbox, "6") == 1 && n_done(&sandbox, "5") < 100_000);

    // No more of her output is kept than she may have.
    let shown = |name: &str| {
        let views = sandbox.json(&["user", "list", "--quotas", "--dir", "m"]);
        let views = views.as_array().cloned().unwrap_or_default();
        let ann = views.into_iter().find(|view| view["user"] == "ann").unwrap_or_default();
        let quotas = ann["quotas"].as_array().cloned().unwrap_or_default();
        quotas.into_iter().find(|quota| quota["quota"] == name).unwrap_or_default()
    };
    until("her quota of output is used up", || shown("output")["used"].as_u64() >= Some(64 << 10));
    let used = shown("output")["used"].as_u64();
    assert!(used < Some(70 << 10), "{used:?}");
    assert_eq!((&shown("jobs")["used"], &shown("jobs")["most"]), (&5.into(), &5.into()));
    // People see bytes as sizes.
    let table = sandbox.ok(&["user", "list", "--quotas", "--dir", "m"]);
    assert!(table.contains("1.0 TiB") && !table.contains("1,099,511,627,776"), "{table}");
    let job = sandbox.json(&["job", "1", "--dir", "m"]);
    assert_eq!(job["output_quota_spent"], 64 << 10, "{job}");
    let explained = sandbox.ok(&["explain", "job", "1", "--dir", "ann"]);
    assert!(explained.contains("the output quota of ann (64.0 KiB) is used up"), "{explained}");
    // Bob's is kept as before.
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "bob", "--", "echo", "hello"]);
    assert_eq!(sandbox.ok(&["logs", "7", "--quiet", "--dir", "bob"]).trim(), "hello");

    // Canceling needs no quota, and makes room.
    sandbox.ok(&["cancel", "1", "--dir", "ann"]);
    sandbox.ok(&["submit", "-q", "--dir", "ann", "--", "true"]);
    ends(&sandbox, manager);
}

#[test]
fn a_job_that_is_purged_gives_its_room_back() {
    let sandbox = Sandbox::new();
    let manager = served(&sandbox, "{default: {output: 64KiB}}");
    let used = |name: &str| {
        let views = sandbox.json(&["user", "list", "--quotas", "--dir", "m"]);
        let views = views.as_array().cloned().unwrap_or_default();
        let ann = views.into_iter().find(|view| view["user"] == "ann").unwrap_or_default();
        let quotas = ann["quotas"].as_array().cloned().unwrap_or_default();
        quotas.into_iter().find(|quota| quota["quota"] == name).unwrap_or_default()["used"].as_u64()
    };
    let writes = ["submit", "-q", "--wait", "--dir", "ann", "--shell", "--", "head -c 80000 /dev/zero"];
    sandbox.ok(&writes);
    assert!(used("output") >= Some(64 << 10) && used("values") > Some(0), "{:?}", used("output"));
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "ann", "--", "echo", "lost"]);
    assert_eq!(sandbox.ok(&["logs", "2", "--quiet", "--dir", "ann"]), "");
    sandbox.ok(&["submit", "-q", "--dir", "ann", "--", "sleep", "1000000"]);
    // The newest output of all stays until the next start.
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "bob", "--", "echo", "newest"]);

    let (code, said) = refused(&sandbox, &["purge", "3", "--dir", "ann"]);
    assert!(
        code == Some(2) && said.contains("job 3 is active, so it cannot be purged: cancel it first"),
        "{said}"
    );
    let (code, said) = refused(&sandbox, &["purge", "1", "--dir", "bob"]);
    assert!(code == Some(2) && said.contains("belongs to ann"), "{said}");
    assert_eq!(sandbox.ok(&["purge", "all", "--older-than", "1d", "--dir", "ann"]), "");
    let said = sandbox.ok(&["purge", "all", "--dir", "ann"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("job 2 purged: ") && lines[1].ends_with(", 1 task"),
        "{said}"
    );
    let gone = sandbox.json(&["jobs", "--dir", "m"]);
    assert_eq!(gone.as_array().map(Vec::len), Some(2), "{gone}");
    let (code, said) = refused(&sandbox, &["logs", "1", "--dir", "ann"]);
    assert!(code == Some(2) && said.contains("there is no job 1"), "{said}");
    assert_eq!(used("output"), Some(0));
    until("its output is removed, and bob's is there", || {
        let count = ["-readonly", "m/store.sqlite", "SELECT count(*) FROM outputs"];
        let counted = Command::new("sqlite3").args(count).current_dir(sandbox.path()).output();
        text(&counted.expect("sqlite3 runs; tests/run installs it").stdout).trim() == "1"
    });
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "ann", "--", "echo", "kept"]);
    assert_eq!(sandbox.ok(&["logs", "5", "--quiet", "--dir", "ann"]), "kept\n");
    let said = sandbox.ok(&["store", "check", "--dir", "m"]);
    assert!(said.contains("whole"), "{said}");
    ends(&sandbox, manager);
}

#[test]
fn quotas_change_without_a_restart() {
    let sandbox = Sandbox::new();
    let manager = served(&sandbox, "{default: {jobs: 1}}");
    sandbox.ok(&["submit", "-q", "--dir", "ann", "--", "sleep", "1000000"]);
    assert_eq!(refused(&sandbox, &["submit", "--dir", "ann", "--", "true"]).0, Some(2));
    sandbox.write("manager.yaml", &format!("{TWO_CORES}quotas: {{users: {{ann: {{priority: all}}}}}}\n"));
    let said = sandbox.ok(&["platform", "reload", "--dir", "m"]);
    assert_eq!(said, "quotas of users have changed; they hold from now on\n");
    sandbox.ok(&["submit", "-q", "--dir", "ann", "--priority", "7", "--", "true"]);
    let shown = sandbox.ok(&["job", "2", "--dir", "m"]);
    assert!(shown.contains("7 among the jobs of all users"), "{shown}");
    sandbox.write("manager.yaml", &format!("{TWO_CORES}quotas: {{default: {{jobs: many}}}}\n"));
    let (code, said) = refused(&sandbox, &["platform", "reload", "--dir", "m"]);
    assert!(code == Some(2) && said.contains("quotas.default.jobs: found `many`"), "{said}");
    ends(&sandbox, manager);
}

#[test]
fn files_over_a_users_quota_are_refused_or_wait_until_the_user_may_have_more() {
    let sandbox = Sandbox::new();
    let manager = served(&sandbox, "{default: {files: 100KiB}}");
    // In a file of its own each: packs of small files are refused alike.
    for (name, n_bytes) in [("small.bin", 30_000), ("large.bin", 90_000)] {
        sandbox.write(name, &"x".repeat(n_bytes));
        sandbox.write(&format!("{name}.yaml"), &format!("command: 'true'\nname: {name}\ninputs: [{name}]\n"));
    }
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "ann", "small.bin.yaml"]);
    let (code, said) = refused(&sandbox, &["submit", "--dir", "ann", "large.bin.yaml"]);
    assert!(
        code == Some(2) && said.contains("ann has files here") && said.contains("quotas.files"),
        "{said}"
    );
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "bob", "large.bin.yaml"]);

    // What tasks leave counts when it is reported: one is let in at least, and the last one waits.
    let leaving = "command: 'head -c 80000 /dev/urandom > out'\nsweep: {n: [1, 2, 3]}\nresources: {cores: 2}\n\
        outputs: [{from: out, to: \"res/{n}\"}]\n";
    sandbox.write("leaving.yaml", leaving);
    sandbox.ok(&["submit", "-q", "--dir", "ann", "leaving.yaml"]);
    until("it is told what is waited for", || {
        sandbox.ok(&["explain", "job", "3", "--dir", "ann"]).contains("ann has files here")
    });
    assert!((1..3).contains(&n_done(&sandbox, "3")));
    sandbox.write("manager.yaml", &format!("{TWO_CORES}quotas: {{default: {{files: 1MiB}}}}\n"));
    sandbox.ok(&["platform", "reload", "--dir", "m"]);
    sandbox.ok(&["wait", "3", "--dir", "ann"]);
    let job: Value = sandbox.json(&["job", "3", "--dir", "m"]);
    assert_eq!((&job["counts"]["done"], &job["counts"]["failed"]), (&3.into(), &0.into()), "{job}");
    let used = || {
        let views = sandbox.json(&["user", "list", "--quotas", "--dir", "m"]);
        let ann = views.as_array()?.iter().find(|view| view["user"] == "ann")?.clone();
        ann["quotas"].as_array()?.iter().find(|quota| quota["quota"] == "files")?["used"].as_u64()
    };
    assert_eq!(used(), Some(30_000 + 3 * 80_000));
    // A manager that begins anew knows it, too.
    ends(&sandbox, manager);
    let manager = sandbox.serve_in_m(&["--config", "manager.yaml"]);
    assert_eq!(used(), Some(30_000 + 3 * 80_000));
    ends(&sandbox, manager);
}

#[test]
fn a_full_disk_takes_no_jobs_and_cancel_works() {
    let sandbox = Sandbox::new();
    let Some(disk) = Disk::mount(&sandbox, "m", "size=64m,mode=700") else { return };
    let manager = served(&sandbox, "{}");
    let reserve = disk.path().join("reserve");
    assert_eq!(fs::metadata(&reserve).map(|file| file.len()).ok(), Some(4 << 20));
    sandbox.ok(&["submit", "-q", "--dir", "ann", "--", "sleep", "1000000"]);
    let open = "until [ -e open ]; do sleep 0.05; done; echo kept; touch ran";
    sandbox.ok(&["submit", "-q", "--dir", "bob", "--shell", "--", open]);
    until("both run", || {
        let running = |job: &str| sandbox.json(&["job", job, "--dir", "m"])["counts"]["running"].clone();
        running("1") == 1 && running("2") == 1
    });
    disk.fill();
    until("the disk is found full", || sandbox.ok(&["status", "--dir", "m"]).contains("until there is room"));
    let (code, said) = refused(&sandbox, &["submit", "--dir", "ann", "--", "true"]);
    assert!(code == Some(3) && said.contains("disk is nearly full"), "{code:?} {said}");
    for what in
        [&["status"][..], &["explain", "job", "2"], &["explain", "task", "2.0"], &["explain", "pilot", "1"]]
    {
        let said = sandbox.ok(&[what, &["--dir", "m"]].concat());
        assert!(said.contains("no job and no output is taken until there is room"), "{what:?}: {said}");
    }
    assert!(sandbox.ok(&["metrics", "--dir", "m"]).contains("\npilotfish_disk_full 1\n"));
    sandbox.ok(&["cancel", "1", "--dir", "ann"]);
    until("it is over", || sandbox.json(&["job", "1", "--dir", "m"])["state"] == "cancelled");
    assert!(!reserve.exists(), "records have no other room");
    // The pilot keeps what a task has written until there is room.
    sandbox.write("open", "");
    until("bob's task has run", || sandbox.path().join("ran").exists());
    for _ in 0..20 {
        assert_eq!(n_done(&sandbox, "2"), 0, "its output was taken onto a full disk");
    }
    disk.make_room();
    until("there is room again", || reserve.exists());
    until("that is told", || !sandbox.ok(&["status", "--dir", "m"]).contains("until there is room"));
    sandbox.ok(&["wait", "2", "--dir", "bob"]);
    assert_eq!(sandbox.ok(&["logs", "2", "--quiet", "--dir", "bob"]).trim(), "kept");
    sandbox.ok(&["submit", "-q", "--wait", "--dir", "ann", "--", "true"]);
    let job: Value = sandbox.json(&["job", "2", "--dir", "m"]);
    assert_eq!(job["counts"]["failed"], 0, "{job}");
    ends(&sandbox, manager);
    drop(disk);
}
