//! Disks that are full or read-only. Small file systems in memory, which only root can mount.

use tests::{Sandbox, disk::Disk};

use crate::page::Page;

const N_TASKS: u64 = 300;

fn executions(sandbox: &Sandbox) -> Vec<u64> {
    let mut executed: Vec<u64> =
        sandbox.read("executions").lines().filter_map(|line| line.trim().parse().ok()).collect();
    executed.sort_unstable();
    executed
}

/// Ends a `run` on a full disk; gives what it said, whichever of its files found no room.
fn ends_for_want_of_room(sandbox: &Sandbox, run: &[&str]) -> String {
    let output = sandbox.run(run);
    let said = tests::text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("make room and start again"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn a_full_disk_ends_a_run_that_goes_on_when_there_is_room() {
    let mut page = Page::new("full-disk");
    let Some(disk) = Disk::mount(&page.sandbox, "disk", "size=6m") else { return };
    page.sandbox.write(
        "job.yaml",
        &format!(
            "name: x\ncommand: 'echo {{n}} >> executions; head -c 60000 /dev/urandom | base64'\n\
             sweep: {{n: {{range: [1, {N_TASKS}]}}}}\n"
        ),
    );
    let run = ["run", "job.yaml", "-q", "-j", "2", "--dir", "disk/state"];
    // Which tasks' files found no room before the store did differs from time to time.
    let said = ends_for_want_of_room(&page.sandbox, &run);
    page.told("the store's disk is full", &run.join(" "), said.lines().last().unwrap_or(""), "exit code 3");
    let n_before = executions(&page.sandbox).len();
    assert!(n_before < N_TASKS as usize, "the disk was not full");
    ends_for_want_of_room(&page.sandbox, &run);
    tests::until("nothing is left running", || page.sandbox.processes().is_empty());
    disk.fill();
    page.fails("a new folder on it", &["run", "-q", "--dir", "disk/new", "--", "true"]);
    disk.change("size=200m");
    page.sandbox.ok(&run);
    let job = page.sandbox.json(&["job", "1", "--dir", "disk/state"]);
    assert_eq!((&job["counts"]["done"], &job["counts"]["failed"]), (&N_TASKS.into(), &0.into()), "{job}");
    let mut executed = executions(&page.sandbox);
    let n_executions = executed.len();
    executed.dedup();
    assert_eq!(executed.len() as u64, N_TASKS, "tasks that never ran");
    // What had run and could not be reported.
    assert!(n_executions - executed.len() <= n_before, "{n_executions} executions");
    drop(disk);
    page.close();
}

#[test]
fn a_full_disk_ends_a_manager_that_goes_on_when_there_is_room() {
    let mut page = Page::new("full-disk-serve");
    let Some(disk) = Disk::mount(&page.sandbox, "disk", "size=6m") else { return };
    let manager = page.serve("disk/state", &["-q", "--cores", "2"]);
    page.sandbox.ok(&[
        "submit",
        "--dir",
        "disk/state",
        "--array",
        &format!("1-{N_TASKS}"),
        "--shell",
        "--",
        "echo {array} >> executions; head -c 60000 /dev/urandom | base64",
    ]);
    assert_eq!(manager.wait(), Some(3), "{}", page.sandbox.read("disk-state-serve.err"));
    let said = page.sandbox.read("disk-state-serve.err");
    let said = said.lines().last().unwrap_or("");
    page.told("serve while the disk gets full", "serve -q --dir disk/state", said, "exit code 3");
    page.fails("submit afterwards", &["submit", "--dir", "disk/state", "--", "true"]);
    disk.change("size=200m");
    let manager = page.serve("disk/state", &["-q", "--cores", "2"]);
    page.sandbox.ok(&["wait", "1", "--dir", "disk/state"]);
    page.sandbox.ok(&["stop", "--dir", "disk/state"]);
    assert_eq!(manager.wait(), Some(0));
    let mut executed = executions(&page.sandbox);
    executed.dedup();
    assert_eq!(executed.len() as u64, N_TASKS, "tasks that never ran");
    drop(disk);
    page.close();
}

#[test]
fn read_only_disks_are_explained() {
    let mut page = Page::new("read-only-disk");
    let Some(disk) = Disk::mount(&page.sandbox, "disk", "size=20m") else { return };
    page.sandbox.ok(&["run", "-q", "--dir", "disk/state", "--", "echo", "{}", ":::", "a", "b"]);
    // One whose manager was killed leaves a log beside its store.
    let killed = page.serve("disk/killed", &["-q", "--no-local"]);
    page.sandbox.ok(&["submit", "--dir", "disk/killed", "--", "true"]);
    killed.signal(nix::sys::signal::Signal::SIGKILL);
    assert_eq!(killed.wait(), None);
    std::fs::remove_file(disk.path().join("killed/store.sqlite-shm")).expect("it was left there");
    tests::until("nothing is left running", || page.sandbox.processes().is_empty());
    disk.change("ro");
    page.fails("run in a folder that is there", &["run", "--dir", "disk/state", "--", "true"]);
    page.fails("serve in a folder that is there", &["serve", "-q", "--dir", "disk/state"]);
    page.fails("run in a new folder", &["run", "--dir", "disk/new", "--", "true"]);
    page.fails("serve in a new folder", &["serve", "-q", "--dir", "disk/new"]);
    page.ends("read outputs", &["logs", "1", "--dir", "disk/state"], 0);
    for command in [&["jobs"][..], &["job", "1"], &["tasks", "1"], &["task", "1.0"], &["export", "1"]] {
        page.sandbox.ok(&[command, &["--dir", "disk/state"][..]].concat());
    }
    page.fails("read a store that was not closed", &["jobs", "--dir", "disk/killed"]);
    page.fails("export to it", &["export", "1", "--dir", "disk/state", "-o", "disk/x.csv"]);
    page.ends("tasks that write there", &["run", "-q", "--stdout", "disk/{index}.txt", "--", "echo"], 1);
    disk.change("rw");
    assert_eq!(page.sandbox.json(&["job", "1", "--dir", "disk/state"])["counts"]["done"], 2);
    drop(disk);
    page.close();
}
