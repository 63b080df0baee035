//! Helpers for the unit tests of codecs and transports.

use std::{fs, io::Write, path::Path};

use profiles::site::Site;
use scheduler::{resources::Resources, time::Span};

use crate::{
    Adapter, Surroundings,
    command::{AllocationRequest, Output},
    renamed,
};

/// An agent whose path has a space in it.
pub fn surroundings() -> Surroundings {
    Surroundings { agent_command: vec!["/opt/pilot fish/agent".into()] }
}

/// An account with these options, in this queue.
pub fn site(queue: &str, options: &[&str]) -> Site {
    Site {
        queue: Some(queue.into()),
        account: Some("lab".into()),
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        setup: vec!["module load glibc".into()],
        ..Site::default()
    }
}

/// An allocation of so many nodes with some of everything, for little more than an hour.
pub fn request(n_nodes: u32) -> AllocationRequest {
    AllocationRequest {
        tag: "pf1-2".into(),
        n_nodes,
        capacity: Resources { cores: 4, memory_bytes: 3 << 30, gpus: 2, ..Resources::default() },
        walltime: Some(Span::from_millis(3_600_500)),
        join: b"{\"token\":\"secret\"}".to_vec(),
        folder: "/scratch/pilots/pf1-2".into(),
    }
}

/// The tags of a listing's jobs, in its order, for a manager whose tags begin with `pf1-` and that knows these ids and
/// tags.
pub fn tags(adapter: &dyn Adapter, known: &[(&str, &str)], listing: &Output) -> Vec<String> {
    let known: Vec<_> = known.iter().map(|(id, tag)| ((*id).to_owned(), (*tag).to_owned())).collect();
    let mut jobs = adapter.read_list(listing).expect("a listing");
    for (job, of_known) in renamed(adapter, "pf1-", &known, &jobs) {
        jobs[job].tag.clone_from(&known[of_known].1);
    }
    jobs.into_iter().map(|job| job.tag).collect()
}

/// The login shells that a host may give to its users and that are installed here. `tests/run` tells at its end which
/// ones are not tried.
pub fn login_shells() -> Vec<&'static str> {
    let all = [
        "/bin/sh",
        "/bin/bash",
        "/bin/dash",
        "/bin/csh",
        "/bin/tcsh",
        "/bin/zsh",
        "/bin/ksh",
        "/usr/bin/fish",
    ];
    let (installed, missing): (Vec<&str>, Vec<&str>) =
        all.into_iter().partition(|shell| Path::new(shell).exists());
    if !missing.is_empty() {
        skipped(&format!("login shells that are not installed: {}", missing.join(", ")));
    }
    installed
}

/// Says what this test does not try here; `tests/run` tells all of that at its end.
fn skipped(why: &str) {
    println!("SKIPPED: {why}");
    let Some(list) = std::env::var_os("PILOTFISH_TESTS_SKIPPED") else { return };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let file = fs::OpenOptions::new().append(true).create(true).open(list);
    // A line at a time: others append, too.
    file.and_then(|mut file| file.write_all(format!("{test}: {why}\n").as_bytes()))
        .expect("the list is written");
}
