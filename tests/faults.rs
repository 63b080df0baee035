//! Some seeds of the fault simulation. `tests/run --long` takes many more, and `tests/faults` any number.

use simulator::faults::run_many;
use tests::Sandbox;

const N_SEEDS: u64 = 500;

#[test]
fn every_rule_holds_under_the_first_seeds() {
    let mut n_fine = 0;
    let mut broken = Vec::new();
    run_many(0..N_SEEDS, |seed, result| match result {
        Ok(_) => n_fine += 1,
        Err(violation) => broken.push(format!("seed {seed}: {violation}")),
    });
    assert!(broken.is_empty(), "{} seeds broke a rule:\n{}", broken.len(), broken.join("\n"));
    assert_eq!(n_fine, N_SEEDS);
}

/// Nothing of it comes from the process: no address, no hash's seed, no clock.
#[test]
fn a_seed_is_the_same_in_another_process() {
    let sandbox = Sandbox::new();
    let trace = || sandbox.ok(&["simulate", "--faults", "--seed", "11", "--trace"]);
    let first = trace();
    assert!(first.lines().count() > 100, "{first}");
    assert!(first == trace(), "two runs of a seed differ");
}
