//! Two managers and one folder: there is only ever one of them, by whatever name it is called.

use std::{fs, os::unix::fs::symlink, process::Command};

use nix::sys::signal::Signal;
use serde_json::Value;
use tests::{
    Running, Sandbox,
    disk::Disk,
    pilots::{pilots, signal_all},
    site::Site,
    sweep::{Hit, audit},
    until,
};

use crate::surroundings;

const ONE_PILOT: &str = "platforms: [{name: here, adapter: local, cores: 1}]\n";

/// A second manager in this folder, started by this command, ends at once and says who is there.
fn is_refused(site: &Site, command: &[&str], folder: &str) {
    let words = [command, &["-q", "--dir", folder]].concat();
    let output = site.sandbox.run(&words);
    let said = tests::text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
    assert!(said.contains(&format!("process {}", site.manager_pid())), "{words:?}: {said}");
}

#[test]
fn a_second_manager_is_refused_by_whatever_name() {
    let mut site = Site::new("state", 1_000, ONE_PILOT);
    site.serve();
    site.submit(1);
    symlink("state", site.sandbox.path().join("link")).expect("a link");
    let mut names = vec!["state", "state/../link/.", "link"];
    let bound = Disk::bind(&site.sandbox, "state", "bound");
    names.extend(bound.is_some().then_some("bound"));
    names.iter().for_each(|name| is_refused(&site, &["serve"], name));
    is_refused(&site, &["run", "job.yaml"], "link");
    // One that stands still is still there.
    let holder = site.manager_pid();
    signal_all(&[holder], Signal::SIGSTOP);
    is_refused(&site, &["serve"], "link");
    signal_all(&[holder], Signal::SIGCONT);
    site.kill_manager();
    // Nobody need clear anything away after a death.
    site.serve();
    is_refused(&site, &["serve"], "link");
    drop(bound);
    assert_eq!(site.close(&[]).0.n_again, 0);
}

/// It would be waited for, and no signal end that.
#[test]
fn a_pipe_in_the_place_of_the_access_file_holds_nobody_up() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path().join("home/.pilotfish/default");
    fs::create_dir_all(&folder).expect("a folder");
    assert!(Command::new("mkfifo").arg(folder.join("access.json")).status().expect("coreutils").success());
    let output = sandbox.run(&["jobs"]);
    let said = tests::text(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("is no plain file"), "{said}");
    // A manager writes it anew.
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "1"]));
    sandbox.ok(&["stop"]);
    assert_eq!(manager.wait(), Some(0));
}

#[test]
fn whoever_finds_another_store_than_before_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("manager.yaml", ONE_PILOT);
    let serve = || sandbox.serve(sandbox.command(&["serve", "--config", "manager.yaml"]));
    let warns = || sandbox.read("serve.err").contains("the store of before is not here");
    let manager = serve();
    sandbox.ok(&["submit", "--", "true"]);
    sandbox.ok(&["stop", "--now"]);
    manager.wait();
    let manager = serve();
    assert!(!warns(), "it is the same");
    sandbox.ok(&["stop"]);
    manager.wait();
    fs::remove_file(sandbox.path().join("home/.pilotfish/default/store.sqlite")).expect("a store");
    let manager = serve();
    assert!(warns(), "{}", sandbox.read("serve.err"));
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn of_several_that_begin_at_once_in_a_new_folder_one_serves_and_its_store_stays() {
    let sandbox = Sandbox::new();
    let start = |name: usize| {
        sandbox.start(&format!("serve{name}"), &["serve", "-q", "--cores", "1", "--dir", "state"])
    };
    let mut managers: Vec<Running> = (0..6).map(start).collect();
    until("all but one have given up", || {
        let n_left = managers.iter_mut().map(Running::has_ended).filter(|has_ended| !has_ended).count();
        n_left == 1 && sandbox.path().join("state/access.json").exists()
    });
    let said = sandbox.ok(&["submit", "--dir", "state", "--wait", "--", "echo", "kept"]);
    assert!(said.starts_with("job 1 "), "{said}");
    sandbox.ok(&["stop", "--dir", "state"]);
    until("it ends", || managers.iter_mut().all(Running::has_ended));
    let codes: Vec<Option<i32>> = managers.into_iter().map(Running::wait).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(3)).count(), 5, "{codes:?}");
    assert_eq!(sandbox.json(&["job", "1", "--dir", "state"])["counts"]["done"], 1, "it is not in the store");
}

/// The next one has the same address, and answers there while `stop` still looks for the first.
#[test]
fn stop_returns_though_another_that_waited_takes_the_folder_at_once() {
    let sandbox = Sandbox::new();
    let serve = |name: &str| sandbox.start(name, &["serve", "-q", "--no-local", "--dir", "state"]);
    let until_it_answers = |manager: &mut Running| {
        until("the manager answers", || {
            assert!(!manager.has_ended(), "{}{}", sandbox.read("first.err"), sandbox.read("next.err"));
            let access: Value = serde_json::from_str(&sandbox.read("state/access.json")).unwrap_or_default();
            access["pid"] == manager.pid()
        });
    };
    let mut first = serve("first");
    until_it_answers(&mut first);
    // Who finds the access file gives up at once; who does not waits for the lock.
    fs::create_dir(sandbox.path().join("there")).expect("a folder");
    let path = |folder: &str| sandbox.path().join(folder).join("access.json");
    fs::rename(path("state"), path("there")).expect("an access file");
    let mut next = serve("next");
    let threads = format!("/proc/{}/task", next.pid());
    until("the next is at work", || fs::read_dir(&threads).is_ok_and(|threads| threads.count() > 1));
    sandbox.ok(&["stop", "--dir", "there"]);
    assert_eq!(first.wait(), Some(0), "{}", sandbox.read("first.err"));
    // On a busy machine it may have waited for too long.
    if next.has_ended() {
        next = serve("next");
    }
    until_it_answers(&mut next);
    sandbox.ok(&["stop", "--dir", "state"]);
    assert_eq!(next.wait(), Some(0), "{}", sandbox.read("next.err"));
}

/// A copy of a store as it is.
fn copy(site: &Site, from: &str, to: &str) {
    let command = format!(".backup {}", site.sandbox.path().join(to).display());
    let done = Command::new("sqlite3").arg(site.sandbox.path().join(from)).arg(command).output();
    assert!(done.as_ref().is_ok_and(|output| output.status.success()), "{done:?}");
}

#[test]
fn a_job_that_comes_after_a_backup_is_not_taken_for_one_that_it_lacks() {
    let mut site = Site::new("state", 10, ONE_PILOT);
    site.serve();
    site.submit(1);
    site.until_done();
    copy(&site, "state/store.sqlite", "backup");
    // The second job is not in the copy; its pilot still works on it.
    let held_up =
        ["submit", "--dir", "state", "--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done; echo OLD"];
    site.sandbox.ok(&held_up);
    until("it runs", || site.sandbox.json(&["job", "2", "--dir", "state"])["counts"]["running"] == 1);
    site.kill_manager();
    copy(&site, "backup", "state/store.sqlite");
    site.serve();
    let said = site.sandbox.ok(&["submit", "--dir", "state", "--wait", "--", "echo", "NEW"]);
    assert!(said.starts_with("job 3 "), "{said}");
    let wrote = site.sandbox.ok(&["logs", "3", "--dir", "state"]);
    assert!(wrote.ends_with("NEW\n") && !wrote.contains("OLD"), "{wrote}");
    site.sandbox.write("go", "");
    site.sandbox.ok(&["stop", "--dir", "state"]);
    assert_eq!(site.manager_ends().0, Some(0));
    until("nothing is left running", || site.sandbox.processes().is_empty());
}

#[test]
fn a_store_put_back_from_a_backup_goes_on_from_there() {
    let n_tasks = 3_000;
    let mut site =
        Site::new("state", n_tasks, "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 2}]\n");
    site.serve();
    site.sandbox.ok(&["submit", "job.yaml", "--dir", "state"]);
    site.until_executed(n_tasks / 4);
    copy(&site, "state/store.sqlite", "backup");
    site.until_executed(n_tasks / 2);
    let before = pilots(&site.sandbox);
    site.kill_manager();
    copy(&site, "backup", "state/store.sqlite");
    site.serve();
    site.until_done();
    assert_eq!(pilots(&site.sandbox), before, "the pilots of before went on");
    assert!(site.sandbox.read("serve.err").contains("lost reports that it had acknowledged"));
    let rows = tests::sweep::rows(&site.api, 1);
    let hits: Vec<Hit> = (1..=2).map(|pilot| Hit { pilot, n_held: n_tasks }).collect();
    assert!(audit(&site.sandbox, &rows, n_tasks, &hits).n_again > 0, "nothing was forgotten");
    site.sandbox.ok(&["stop", "--dir", "state"]);
    assert_eq!(site.manager_ends().0, Some(0));
    until("nothing is left running", || site.sandbox.processes().is_empty());
}

#[test]
fn no_manager_starts_where_locks_do_not_work() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["serve", "-q", "--no-local", "--dir", "state"]);
    command.envs(surroundings(&sandbox, &[("TEST_NO_LOCKS", "yes")]));
    let output = command.output().expect("it runs");
    let said = tests::text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("state/lock") && said.contains("No locks available"), "{said}");
}
