//! Batch jobs that could be left in a queue, or be ended and asked for again: a batch system that lists late, that does not
//! cancel, and a platform that is another one under the same name. The batch system is three scripts.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use nix::sys::signal::Signal;
use tests::{Running, Sandbox, text, until};

/// A job is a folder: its script, when it was submitted, and whether it has begun or is over. It begins when there is a file
/// `go` in the sandbox. With a file `hold` a submission takes until there is a file `let`.
const SBATCH: &str = r#"[ "$1" = --version ] && { echo slurm 23.11.4; exit; }
echo >> "$S/asked"
[ -e "$S/hold" ] && until [ -e "$S/let" ]; do sleep 0.1; done
n=$(($(ls "$S/jobs" | wc -l) + 1001))
mkdir "$S/jobs/$n"
for word; do case $word in --job-name=*) echo "${word#*=}" > "$S/jobs/$n/name" ;; esac; done
cat > "$S/jobs/$n/script"
date +%s > "$S/jobs/$n/at"
(
cd "$S/jobs/$n"
until [ -e "$S/go" ] || [ -e over ]; do sleep 0.1; done
[ -e over ] && exit
: > begun
sh ./script
: > over
) > /dev/null 2>&1 < /dev/null &
echo "$n""#;

/// With a file `hang` it never answers. Shows what was there `late` seconds ago. Each call that is a multiple of `fails` fails, and ends with 0.
const SQUEUE: &str = r#"echo >> "$S/calls"
[ -e "$S/hang" ] && { echo $$ >> "$S/hanging"; exec sleep 7001; }
fails=$(cat "$S/fails" 2>/dev/null || echo 1000000)
[ $(($(wc -l < "$S/calls") % fails)) = 0 ] && {
echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 0; }
late=$(cat "$S/late" 2>/dev/null || echo 0)
now=$(date +%s)
for job in "$S"/jobs/*; do
[ -e "$job/at" ] && [ ! -e "$job/over" ] && [ $((now - $(cat "$job/at"))) -ge "$late" ] || continue
state=PENDING; [ -e "$job/begun" ] && state=RUNNING
echo "${job##*/}|$state|None|$(cat "$job/name")"
done
exit 0"#;

/// With a file `stuck` it never ends. With a file `lie` it says what is in it, does nothing and ends with 0.
const SCANCEL: &str = r#"echo "$@" >> "$S/cancelled"
[ -e "$S/stuck" ] && { echo $$ >> "$S/hanging"; sleep 7001 & echo $! >> "$S/hanging"; wait; }
[ -e "$S/lie" ] && { cat "$S/lie" >&2; exit 0; }
[ -e "$S/deny" ] && { echo "scancel: error: Kill job error on job id $1: Access/permission denied" >&2; exit 1; }
for id; do : > "$S/jobs/$id/over"; done
exit 0"#;

/// A sandbox with that batch system, and a platform `cl` of it with two pilots.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, lines) in [("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)] {
        let script = sandbox.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{lines}\n"));
        fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("a program");
    }
    fs::create_dir(sandbox.path().join("jobs")).expect("a folder");
    configure(&sandbox, "slurm");
    sandbox.write("job.yaml", "command: 'true'\nsweep: {n: {range: [0, 39]}}\n");
    sandbox
}

fn configure(sandbox: &Sandbox, adapter: &str) {
    let platform = format!("{{name: cl, adapter: {adapter}, cores: 1, pilots_max: 2, poll_interval: 1s}}");
    sandbox.write("manager.yaml", &format!("platforms: [{platform}]\nlimits: {{leave_limit: 30s}}\n"));
}

fn command(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", sandbox.path().join("bin").display()));
    command.env("S", sandbox.path());
    command
}

fn serve(sandbox: &Sandbox) -> Running {
    sandbox.serve(command(sandbox, &["serve", "--config", "manager.yaml"]))
}

/// Submits the job, and waits until two batch jobs wait and are known.
fn two_wait(sandbox: &Sandbox) {
    sandbox.ok(&["submit", "job.yaml"]);
    until("both are known", || ids(sandbox).len() == 2);
}

/// The ids of the batch jobs of allocations that may be there.
fn ids(sandbox: &Sandbox) -> Vec<String> {
    let held = sandbox.json(&["allocation", "list"]);
    let held = held.as_array().into_iter().flatten();
    held.filter_map(|held| held["batch_id"].as_str().map(str::to_owned)).collect()
}

fn n_submitted(sandbox: &Sandbox) -> usize {
    fs::read_dir(sandbox.path().join("jobs")).expect("a folder").count()
}

/// Waits until it has been listed so many times more.
fn until_listed(sandbox: &Sandbox, n: usize) {
    let n_calls = || sandbox.read("calls").lines().count();
    let before = n_calls();
    until("it is listed", || n_calls() >= before + n);
}

/// Ends the manager, which leaves these batch jobs; gives what is said.
fn stops_and_leaves(sandbox: &Sandbox, manager: Running, batch_jobs: &[&str]) -> String {
    let output = command(sandbox, &["stop", "--json"]).output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["left"][0]["batch_jobs"], serde_json::json!(batch_jobs), "{answer}");
    assert_eq!(manager.wait(), Some(0));
    said
}

#[test]
fn listings_that_come_from_a_cache_or_fail_without_a_code_end_nothing_and_cost_no_more_jobs() {
    let sandbox = sandbox();
    sandbox.write("late", "8");
    sandbox.write("fails", "3");
    let manager = serve(&sandbox);
    two_wait(&sandbox);
    until_listed(&sandbox, 7);
    assert_eq!((ids(&sandbox), n_submitted(&sandbox)), (vec!["1001".to_owned(), "1002".to_owned()], 2));
    sandbox.write("go", "");
    sandbox.ok(&["wait", "1"]);
    assert_eq!(n_submitted(&sandbox), 2);
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0));
}

#[test]
fn a_submission_that_waits_behind_a_slow_one_is_not_made_once_its_platform_is_drained() {
    let sandbox = sandbox();
    sandbox.write("hold", "");
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "job.yaml"]);
    until("the first is asked for", || sandbox.path().join("asked").exists());
    sandbox.ok(&["platform", "drain", "cl"]);
    sandbox.write("let", "");
    let is_over = || {
        let all = sandbox.json(&["allocation", "list", "--all"]);
        let all = all.as_array().cloned().unwrap_or_default();
        all.len() == 2 && all.iter().any(|held| held["state"] == "ended")
    };
    until("one of both is over", is_over);
    until("the other one is cancelled", || sandbox.path().join("cancelled").exists());
    assert_eq!((sandbox.read("cancelled").as_str(), n_submitted(&sandbox)), ("1001\n", 1));
    assert_eq!(sandbox.read("asked").lines().count(), 1);
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0));
}

#[test]
fn a_cancellation_that_ends_with_0_is_believed_only_when_the_listing_shows_it() {
    for (words, told) in [
        ("", "lists them still"),
        ("scancel: error: Kill job error on job id 1001: Access/permission denied\n", "permission denied"),
    ] {
        let sandbox = sandbox();
        let manager = serve(&sandbox);
        two_wait(&sandbox);
        sandbox.write("lie", words);
        let said = stops_and_leaves(&sandbox, manager, &["1001", "1002"]);
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn batch_jobs_that_could_not_be_cancelled_are_named_at_the_stop() {
    let sandbox = sandbox();
    let manager = serve(&sandbox);
    two_wait(&sandbox);
    sandbox.write("deny", "");
    let said = stops_and_leaves(&sandbox, manager, &["1001", "1002"]);
    assert!(said.contains("2 batch jobs of cl may be left there: 1001, 1002"), "{said}");
    assert!(said.contains("Access/permission denied"), "{said}");
    // Whoever reads the store only knows nothing of the configuration.
    let listed = sandbox.ok(&["allocation", "list"]);
    assert!(!listed.contains("configuration"), "{listed}");
    // The next one tries again.
    fs::remove_file(sandbox.path().join("deny")).expect("a file");
    let manager = serve(&sandbox);
    until("they are cancelled", || sandbox.path().join("jobs/1002/over").exists());
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0));
}

/// Waits until the commands that hang have ended, of which there are so many or more.
fn until_none_hangs(sandbox: &Sandbox, n: usize) {
    let hanging = sandbox.read("hanging");
    assert!(hanging.lines().count() >= n, "{hanging}");
    for pid in hanging.lines() {
        let runs = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
        };
        until("it has ended", || !runs());
    }
}

#[test]
fn a_listing_that_hangs_ends_with_the_manager() {
    for is_signal in [true, false] {
        let sandbox = sandbox();
        let platform = "{name: cl, adapter: slurm, cores: 1, poll_interval: 1s}";
        sandbox.write("manager.yaml", &format!("platforms: [{platform}]\nlimits: {{leave_limit: 1s}}\n"));
        sandbox.write("hang", "");
        let manager = serve(&sandbox);
        until("a listing hangs", || !sandbox.read("hanging").is_empty());
        match is_signal {
            true => manager.signal(Signal::SIGTERM),
            // It may say that the platform does not answer.
            false => _ = command(&sandbox, &["stop"]).output().expect("it ends"),
        }
        assert_eq!(manager.wait(), Some(0));
        until_none_hangs(&sandbox, 1);
    }
}

#[test]
fn a_cancellation_that_hangs_ends_with_the_manager() {
    let sandbox = sandbox();
    let manager = serve(&sandbox);
    two_wait(&sandbox);
    sandbox.write("stuck", "");
    let mut stop = command(&sandbox, &["stop"]).spawn().expect("it starts");
    until("a cancellation hangs", || sandbox.read("hanging").lines().count() >= 2);
    manager.signal(Signal::SIGTERM);
    assert_eq!(manager.wait(), Some(0));
    // Whatever it was told by a manager that ended meanwhile.
    stop.wait().expect("it ends");
    until_none_hangs(&sandbox, 2);
}

#[test]
fn a_platform_with_another_adapter_leaves_earlier_jobs_alone_and_says_so() {
    let sandbox = sandbox();
    let manager = serve(&sandbox);
    two_wait(&sandbox);
    manager.signal(Signal::SIGTERM);
    manager.wait();
    configure(&sandbox, "local");
    let manager = serve(&sandbox);
    sandbox.ok(&["wait", "1"]);
    let held = sandbox.json(&["allocation", "show", "1"]);
    let why = held["why"].as_str().unwrap_or_default();
    assert_eq!(held["state"], "queued", "{held}");
    assert!(why.contains("it was asked of slurm, and its platform is local now"), "{why}");
    let log = sandbox.read("serve.err");
    assert!(log.contains("nobody looks after them") && log.contains("1001"), "{log}");
    let said = stops_and_leaves(&sandbox, manager, &["1001", "1002"]);
    assert!(said.contains("1001, 1002") && said.contains("slurm"), "{said}");
    assert_eq!(sandbox.read("cancelled"), "", "their ids are not those of this host's processes");
    // Put back, it has them again, and nothing to do for them.
    configure(&sandbox, "slurm");
    let manager = serve(&sandbox);
    sandbox.ok(&["stop", "--now"]);
    assert_eq!(manager.wait(), Some(0));
    assert!(sandbox.path().join("jobs/1001/over").exists() && sandbox.path().join("jobs/1002/over").exists());
}
