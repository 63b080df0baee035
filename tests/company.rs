//! Not alone: a `run` among jobs that were left and that come meanwhile, a job beside a long sweep.

use std::{fs::OpenOptions, io::Write};

use nix::{
    sys::{signal::Signal, stat::Mode},
    unistd::mkfifo,
};
use tests::{Sandbox, until};

/// A run of one task that waits for a line in the gate.
const WAITS: [&str; 4] = ["-j", "1", "--", "read line < gate"];

fn has_begun(sandbox: &Sandbox, job: &str) -> bool {
    let output = sandbox.run(&["job", job, "--dir", ".pilotfish", "--json"]);
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    view["counts"]["running"] == 1
}

#[test]
fn a_run_names_what_it_leaves_and_finishes_what_comes_meanwhile() {
    let sandbox = Sandbox::new();
    mkfifo(&sandbox.path().join("gate"), Mode::S_IRWXU).expect("a gate");
    let named = |name: &'static str| [&["run", "--name", name][..], &WAITS].concat();
    let first = sandbox.start("first", &named("first"));
    until("the first run's task has begun", || has_begun(&sandbox, "1"));
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait(), Some(130), "{}", sandbox.read("first.err"));

    mkfifo(&sandbox.path().join("late-gate"), Mode::S_IRWXU).expect("a second gate");
    let open = |gate: &str| {
        let mut gate = OpenOptions::new().write(true).open(sandbox.path().join(gate)).expect("the gate");
        writeln!(gate, "go").expect("somebody reads");
    };
    // What comes before it has looked round is none that came meanwhile.
    let has_looked = |run: &str| sandbox.read(run).contains("(first, 1 task left) stays paused");
    let second = sandbox.start("second", &named("second"));
    until("the second run's task has begun", || has_looked("second.err") && has_begun(&sandbox, "2"));
    let late = "read line < late-gate; exit {}";
    sandbox.ok(&["submit", "--name", "late", "--", late, ":::", "3"]);
    open("gate");
    let waits = "also finishing job 3 late, submitted meanwhile";
    until("the run waits for the other job", || sandbox.read("second.err").contains(waits));
    open("late-gate");
    assert_eq!(
        second.wait(),
        Some(1),
        "a failed task of the other job tells: {}",
        sandbox.read("second.err")
    );

    let said = sandbox.read("second.err");
    let left = "job 1 (first, 1 task left) stays paused; go on with it by its own `pilotfish run`, or by `pilotfish resume 1` while this one works";
    let again = "what failed of job 3 runs again by `pilotfish retry-failed 3` while another run works, or `pilotfish serve --dir .pilotfish`";
    for line in [left, waits, "job 3 has failed tasks (1: 1 failed)", again] {
        assert!(said.contains(&format!("pilotfish: {line}\n")), "{line}\n{said}");
    }
    assert!(sandbox.read("second.out").contains("1: 1 done"), "the own job's end is told");
    assert_eq!(sandbox.json(&["job", "1"])["state"], "paused");
    assert_eq!(sandbox.json(&["job", "3"])["state"], "failed");

    // Both ways on are true ones.
    let third = sandbox.start("third", &[&["run", "--name", "third"][..], &WAITS].concat());
    until("the third run's task has begun", || has_looked("third.err") && has_begun(&sandbox, "4"));
    sandbox.ok(&["retry-failed", "3"]);
    open("gate");
    let waits = "also finishing job 3 late, resumed meanwhile";
    until("the run waits for the job that was opened again", || sandbox.read("third.err").contains(waits));
    open("late-gate");
    assert_eq!(third.wait(), Some(1), "{}", sandbox.read("third.err"));
    let served = sandbox.start("served", &["serve", "-q", "--dir", ".pilotfish"]);
    until("the folder has a manager", || sandbox.run(&["retry-failed", "3"]).status.success());
    open("late-gate");
    assert_eq!(sandbox.run(&["wait", "3"]).status.code(), Some(1));
    sandbox.ok(&["stop"]);
    assert_eq!(served.wait(), Some(0), "{}", sandbox.read("served.err"));

    let changed = sandbox.run(&["run", "--name", "first", "--", "true"]);
    let changed = String::from_utf8_lossy(&changed.stderr);
    let why = "job 5 is a new one and not job 1 of the same name: a run goes on only where command, values, settings and input files are as they were";
    assert!(changed.contains(why), "{changed}");
}

#[test]
fn failed_tasks_of_a_job_that_has_changed_since_do_not_run_again_in_silence() {
    let sandbox = Sandbox::new();
    sandbox.write("job.yaml", "command: ['false']\n");
    assert_eq!(sandbox.run(&["run", "-q", "job.yaml"]).status.code(), Some(1));
    let again = sandbox.run(&["run", "-q", "--retry-failed", "job.yaml"]);
    assert!(!String::from_utf8_lossy(&again.stderr).contains("is a new one"));
    sandbox.write("job.yaml", "command: ['false']\ntime_limit: 9s\n");
    let changed = sandbox.run(&["run", "-q", "--retry-failed", "job.yaml"]);
    let changed = String::from_utf8_lossy(&changed.stderr);
    let (new, on) =
        ("job 2 is a new one, as its command, values, settings", "pilotfish retry-failed 1 --dir ");
    assert!(changed.contains(new) && changed.contains(on), "{changed}");
}

#[test]
fn other_jobs_get_in_beside_a_sweep_that_has_all_cores() {
    let sandbox = Sandbox::new();
    let job = |name: &str, command: &str, n_tasks: u64, cores: u64| {
        let sweep = format!("{{i: {{range: [1, {n_tasks}]}}}}");
        let text = format!("command: {command}\nsweep: {sweep}\nresources: {{cores: {cores}}}\n");
        sandbox.write(name, &text);
    };
    job("sweep.yaml", "[sleep, \"0.01\"]", 1_000_000, 1);
    job("narrow.yaml", "[hostname]", 3, 1);
    job("wide.yaml", "[hostname]", 3, 2);
    let served = sandbox.start("served", &["serve", "-q", "--dir", ".pilotfish", "--cores", "2"]);
    until("the sweep is under way", || sandbox.run(&["submit", "sweep.yaml"]).status.success());
    until("its tasks are known to be brief", || sandbox.json(&["job", "1"])["counts"]["done"] != 0);
    sandbox.ok(&["submit", "--wait", "narrow.yaml"]);
    sandbox.ok(&["submit", "--wait", "wide.yaml"]);
    assert_eq!(sandbox.json(&["job", "1"])["state"], "active");
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(served.wait(), Some(0), "{}", sandbox.read("served.err"));
}
