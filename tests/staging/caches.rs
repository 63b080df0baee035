//! Caches of nodes whose disk is full, and caches of pilots that were killed.

use std::{fs, path::PathBuf, process::Command};

use nix::sys::signal::Signal;
use tests::{
    Sandbox,
    disk::Disk,
    noise,
    pilots::{PilotProcesses, pilots, signal_all},
    text, until,
};

use super::{all_done, serve_with, write_bytes};

/// Files that come in packs, and a cache with room for a part of them.
#[test]
fn small_files_that_a_full_cache_has_no_room_for_cost_no_attempt() {
    const N_FILES: u64 = 300;
    const FILE_BYTES: usize = 40 << 10;
    let sandbox = Sandbox::new();
    let Some(_disk) = Disk::mount(&sandbox, "small", "size=4m") else { return };
    for n in 0..N_FILES {
        write_bytes(&sandbox, &format!("d/{n}"), &noise(FILE_BYTES, n));
    }
    sandbox.write(
        "job.yaml",
        "command: 'cat d/* | cksum > sum'\nsweep: {n: {range: [1, 3]}}\ninputs: [{from: d, to: d}]\n\
         outputs: [{from: sum, to: \"sums/{n}\"}]\n",
    );
    let cache = sandbox.path().join("small/cache").display().to_string();
    let manager = serve_with(&sandbox, &[("PILOTFISH_CACHE", &cache), ("PILOTFISH_CACHE_SIZE", "1GiB")]);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    let right = Command::new("sh").args(["-c", "cat d/* | cksum"]).current_dir(sandbox.path()).output();
    let right = text(&right.expect("a shell").stdout);
    for n in 1..=3 {
        assert_eq!(sandbox.read(&format!("sums/{n}")), right);
    }
    assert_eq!(sandbox.json(&["job", "1"])["n_failed_attempts"], 0);
    sandbox.ok(&["stop"]);
    manager.wait();
    let overflow = || super::files_with(&sandbox, "/overflow-");
    assert_eq!(overflow(), Vec::<PathBuf>::new(), "it goes with the pilot");
}

/// Each pilot has a cache of its own, and is killed with or without its guard.
fn the_cache_of_a_killed_pilot_goes(killed: fn(&PilotProcesses) -> Vec<u32>) {
    let sandbox = Sandbox::new();
    write_bytes(&sandbox, "data.bin", &noise(1 << 20, 1));
    let go = sandbox.path().join("go").display().to_string();
    sandbox.write(
        "job.yaml",
        &format!("command: 'until test -e {go}; do sleep 0.05; done'\ncrash_limit: 9\ninputs: [data.bin]\n"),
    );
    let cache = sandbox.path().join("local/of-{tag}/cache").display().to_string();
    let manager = serve_with(&sandbox, &[("PILOTFISH_CACHE", &cache)]);
    let caches = || -> Vec<PathBuf> {
        let entries = fs::read_dir(sandbox.path().join("local")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    sandbox.ok(&["submit", "job.yaml"]);
    until("it runs", || sandbox.json(&["job", "1"])["counts"]["running"] == 1);
    let before = caches();
    assert_eq!(before.len(), 1);
    let processes: Vec<u32> = pilots(&sandbox).iter().flat_map(killed).collect();
    // Stopped, neither sees the other's end.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        signal_all(&processes, signal);
    }
    until("its cache is gone", || !before[0].exists());
    sandbox.write("go", "");
    all_done(&sandbox, "1", 1);
    sandbox.ok(&["stop"]);
    manager.wait();
    assert_eq!(caches(), Vec::<PathBuf>::new(), "the last one goes with its pilot");
}

#[test]
fn a_cache_of_its_own_goes_with_a_killed_worker() {
    the_cache_of_a_killed_pilot_goes(|pilot| vec![pilot.worker]);
}

#[test]
fn a_cache_of_its_own_goes_after_guard_and_worker_were_killed() {
    the_cache_of_a_killed_pilot_goes(|pilot| vec![pilot.guard, pilot.worker]);
}
