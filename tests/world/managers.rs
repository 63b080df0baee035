//! Two managers and one folder: there is only ever one of them, by whatever name it is called.

use std::os::unix::fs::symlink;

use nix::sys::signal::Signal;
use tests::{Sandbox, disk::Disk, pilots::signal_all, site::Site};

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
