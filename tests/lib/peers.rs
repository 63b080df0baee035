//! Pilots of a platform that have something of each other: what tests of that share.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    Running, Sandbox,
    pilots::{PilotProcesses, pilots, signal_all},
    sweep::Hit,
    text, until,
};

/// What each task does first: so that it is known how often it was executed, and by whom.
pub const SAY_WHO: &str = "echo $PILOTFISH_TASK_ID $PILOTFISH_PILOT_ID >> $PILOTFISH_SUBMIT_DIR/executions";

/// A manager with so many pilots of a core, each with a cache of its own. `more`: what else manager.yaml says.
pub fn serve(sandbox: &Sandbox, n_pilots: usize, more: &str, environment: &[(&str, &str)]) -> Running {
    sandbox.write(
        "manager.yaml",
        &format!(
            "platforms: [{{name: here, adapter: local, cores: 1, pilots_min: {n_pilots}, pilots_max: {n_pilots}, \
             poll_interval: 1s}}]\n{more}"
        ),
    );
    let mut command = sandbox.command(&["serve", "--config", "manager.yaml"]);
    command.env("PILOTFISH_CACHE", sandbox.path().join("caches/{tag}")).envs(environment.iter().copied());
    let manager = sandbox.serve(command);
    until("all pilots are there", || sandbox.json(&["platform", "show", "here"])["n_pilots"] == n_pilots);
    manager
}

/// The value of a metric with these labels.
pub fn figure(sandbox: &Sandbox, name: &str) -> u64 {
    let metrics = sandbox.ok(&["metrics"]);
    let line = metrics.lines().find(|line| line.starts_with(&format!("pilotfish_{name} ")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Bytes of inputs that pilots have told to have found there.
pub fn from(sandbox: &Sandbox, place: &str) -> u64 {
    figure(sandbox, &format!("input_bytes_total{{from=\"{place}\"}}"))
}

/// Files that agents have in their caches.
pub fn cached(sandbox: &Sandbox) -> Vec<PathBuf> {
    let folders = fs::read_dir(sandbox.path().join("caches")).into_iter().flatten().flatten();
    let objects =
        folders.flat_map(|folder| fs::read_dir(folder.path().join("objects")).into_iter().flatten());
    objects.flatten().map(|entry| entry.path()).collect()
}

/// Whether so many tasks of a job are in that state.
pub fn counts_are(sandbox: &Sandbox, job: &str, word: &str, n: u64) -> bool {
    sandbox.json(&["job", job])["counts"][word] == n
}

/// What `cksum` says of a file.
pub fn sum_of(path: &Path) -> String {
    let file = fs::File::open(path).expect("the file is there");
    text(&Command::new("cksum").stdin(file).output().expect("a sum").stdout)
}

/// Those who have executed tasks of a job.
pub fn pilots_of(sandbox: &Sandbox, job: &str) -> BTreeSet<u64> {
    let is_of_job = |task: &str| task.split_once('.').is_some_and(|(of, _)| of == job);
    executions(sandbox).into_iter().filter(|(task, _)| is_of_job(task)).flat_map(|(_, by)| by).collect()
}

/// Who has executed each task.
fn executions(sandbox: &Sandbox) -> BTreeMap<String, Vec<u64>> {
    let mut executed: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in sandbox.read("executions").lines() {
        let (task, pilot) = line.split_once(' ').expect("a task and a pilot");
        executed.entry(task.to_owned()).or_default().push(pilot.parse().expect("a number"));
    }
    executed
}

/// Each of so many tasks was executed once, except for what pilots held that were killed: that once more at most.
pub fn executed_once(sandbox: &Sandbox, n_tasks: usize, hits: &[Hit]) {
    let executed = executions(sandbox);
    assert_eq!(executed.len(), n_tasks, "{executed:?}");
    let mut n_again = 0;
    for (task, by) in &executed {
        let of_hit = |hit: &&Hit| by.iter().filter(|pilot| **pilot == hit.pilot).count() == 1;
        let n_reasons = hits.iter().filter(of_hit).count();
        assert!(by.len() - 1 <= n_reasons, "pilots {by:?} have executed task {task}; {hits:?}");
        n_again += by.len() as u64 - 1;
    }
    let n_held: u64 = hits.iter().map(|hit| hit.n_held).sum();
    assert!(n_again <= n_held, "{n_again} executions beyond one; {hits:?}");
}

/// What the manager shows of its pilots.
pub fn views(sandbox: &Sandbox) -> Vec<Value> {
    sandbox.json(&["pilots"]).as_array().expect("pilots").clone()
}

/// Tasks that the manager has given the pilot and has heard nothing of.
fn n_held(view: &Value) -> u64 {
    ["n_running", "n_queued"].iter().map(|of| view[*of].as_u64().expect("a number")).sum()
}

/// The processes of the pilot with that number.
pub fn processes(sandbox: &Sandbox, pilot: u64) -> PilotProcesses {
    let view = views(sandbox).into_iter().find(|view| view["id"] == pilot).expect("the pilot");
    let is_it = |pilot: &PilotProcesses| view["allocation"] == pilot.allocation;
    pilots(sandbox).into_iter().find(is_it).expect("its processes")
}

/// Kills guard and worker. From when they stand still nothing is executed any more of what is held then.
pub fn kill(sandbox: &Sandbox, pilot: &PilotProcesses) -> Hit {
    let both = [pilot.guard, pilot.worker];
    signal_all(&both, Signal::SIGSTOP);
    let view = views(sandbox).into_iter().find(|view| view["allocation"] == pilot.allocation);
    signal_all(&both, Signal::SIGKILL);
    let view = view.expect("the pilot");
    Hit { pilot: view["id"].as_u64().expect("its number"), n_held: n_held(&view) }
}
