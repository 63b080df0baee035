//! Rounds of real faults: managers and pilots killed and stopped in sweeps of 20,000 tasks. A few
//! here; `tests/rounds` runs as many as one has patience for.

use std::{
    panic::{self, AssertUnwindSafe},
    time::Instant,
};

use tests::{plan::Plan, rounds};

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
