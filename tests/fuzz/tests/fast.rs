//! The fast version of the fuzzing: what once failed, valid inputs, and small changes of them, the same
//! at every run. `tests/fuzz/run` goes on from here for as long as one likes.

use std::{fs, path::Path, sync::Mutex, time::Instant};

use fuzz::{
    Running, Target,
    mutate::{Luck, mutated},
};

/// No input takes longer, however slow and busy the machine: a hang is no slowness.
const SECONDS_MAX: u64 = 20;

/// Memory is counted for the whole process: one target at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn check(target: &Target) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut running = Running::start(target);
    let mut try_out = |name: &str, bytes: &[u8]| {
        let begun = Instant::now();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.check(bytes)));
        let seconds = begun.elapsed().as_secs();
        assert!(
            outcome.is_ok() && seconds < SECONDS_MAX,
            "{}: {name}, after {seconds} s: {bytes:?}",
            target.name
        );
    };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    for entry in fs::read_dir(corpus).into_iter().flatten() {
        let path = entry.expect("the corpus can be listed").path();
        try_out(&path.display().to_string(), &fs::read(&path).expect("its files can be read"));
    }
    let seeds = (target.seeds)();
    let mut luck = Luck(1);
    for n in 0..target.n_fast {
        try_out(&format!("input {n}"), &mutated(&seeds, target.words, &mut luck));
    }
}

#[test]
fn job_files_are_read_or_refused() {
    check(&fuzz::job_file::TARGET);
}

#[test]
fn sweeps_are_read_or_refused() {
    check(&fuzz::sweep::TARGET);
}

#[test]
fn pilots_may_send_anything() {
    check(&fuzz::frames::TARGET);
}

#[test]
fn managers_may_answer_anything() {
    check(&fuzz::answers::TARGET);
}

#[test]
fn requests_are_answered_whatever_they_are() {
    check(&fuzz::api::TARGET);
}

#[test]
fn damaged_stores_are_used_or_refused() {
    check(&fuzz::store::TARGET);
}

#[test]
fn damaged_spools_are_used_or_refused() {
    check(&fuzz::spool::TARGET);
}

#[test]
fn damaged_files_of_output_are_read_or_passed_over() {
    check(&fuzz::output::TARGET);
}

#[test]
fn pilots_may_ask_each_other_anything() {
    check(&fuzz::peers::TARGET);
}
