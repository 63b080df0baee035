//! Rounds of real faults: managers and pilots killed and stopped in sweeps of 20,000 tasks. A few
//! here; `tests/rounds` runs as many as one has patience for.

use std::{
    fs,
    panic::{self, AssertUnwindSafe},
    time::Instant,
};

use tests::{plan::Plan, rounds, site::Site, witness::Testimony};

const N_TASKS: u64 = 20_000;

/// Runs the round of a seed and prints what it came to; a broken one says how to run it again.
fn round(seed: u64) {
    let plan = Plan::draw(seed, N_TASKS);
    let mut site = rounds::site(&plan, N_TASKS);
    let begun = Instant::now();
    let result = panic::catch_unwind(AssertUnwindSafe(|| rounds::run(&plan, &mut site)));
    match result {
        Ok(outcome) => {
            let (audit, faults) = (outcome.audit, plan.faults.len());
            println!(
                "seed {seed}: {faults} faults, {} pilots hit, {} executions beyond one of at most {}, {} results held to, {:.1} s",
                outcome.n_hits,
                audit.n_again,
                audit.n_again_max,
                outcome.n_shown,
                begun.elapsed().as_secs_f64()
            );
        }
        Err(panic) => {
            println!("seed {seed} broke a rule. Again: tests/rounds --rounds 1 --seed {seed}\n{plan:#?}");
            println!("what it left is in {}", site.sandbox.keep().display());
            panic::resume_unwind(panic);
        }
    }
}

/// Two rounds, or those that `tests/rounds` asks for.
#[test]
fn rounds_of_faults_hold() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, n) = (number("FIRST_SEED").unwrap_or(1), number("N_ROUNDS").unwrap_or(2));
    (first..first + n).for_each(round);
}

/// Puts a copy of the store in the place of the store, or the other way round.
fn copy_store(site: &Site, from: &str, to: &str) {
    let state = site.sandbox.path().join("state");
    for file in ["store.sqlite", "store.sqlite-wal"] {
        let (from, to) = (state.join(format!("{from}{file}")), state.join(format!("{to}{file}")));
        fs::copy(from, to).expect("the store of a dead manager is copied");
    }
}

#[test]
fn a_manager_that_forgets_is_noticed() {
    const N_TASKS: u64 = 2_000;
    let plan = Plan { faults: Vec::new(), ..Plan::draw(1, N_TASKS) };
    let mut site = rounds::site(&plan, N_TASKS);
    let mut testimony = Testimony::default();
    site.serve();
    site.submit(1);
    site.until_executed(N_TASKS / 4);
    site.kill_manager();
    copy_store(&site, "", "old-");
    site.serve();
    site.until_done();
    testimony.ask_until_answered(&site.api, 0);
    site.kill_manager();
    copy_store(&site, "old-", "");
    site.serve();
    testimony.ask_until_answered(&site.api, 0);
    assert!(
        panic::catch_unwind(|| testimony.holds(&[])).is_err(),
        "nobody noticed that results were forgotten"
    );
}
