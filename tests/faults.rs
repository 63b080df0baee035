//! Some seeds of the fault simulation. `tests/run --long` takes many more, and `tests/faults` any number.

use std::collections::BTreeMap;

use simulator::faults::run_many;
use tests::Sandbox;

const N_SEEDS: u64 = 500;

/// What seeds came to when `tests/decisions --update` ran last.
const GOLDEN: &str = include_str!("golden/decisions");

#[test]
fn first_seeds_break_no_rule_and_decide_as_before() {
    let mut fingerprints = BTreeMap::new();
    let mut broken = Vec::new();
    run_many(0..N_SEEDS, |seed, result| match result {
        Ok(outcome) => _ = fingerprints.insert(seed, outcome.fingerprint()),
        Err(violation) => broken.push(format!("seed {seed}: {violation}")),
    });
    assert!(broken.is_empty(), "{} seeds broke a rule:\n{}", broken.len(), broken.join("\n"));
    let found = fingerprints.iter().map(|(seed, fingerprint)| format!("{seed} {fingerprint}"));
    let differing: Vec<_> = found.zip(GOLDEN.lines()).filter(|(found, before)| found != before).collect();
    assert!(
        differing.is_empty(),
        "{} of {N_SEEDS} seeds decide otherwise than before, among them {:?}; if the change was meant to change what is \
         decided, run `tests/decisions --update`",
        differing.len(),
        differing[0]
    );
    assert!(GOLDEN.lines().count() as u64 >= N_SEEDS, "tests/golden/decisions is cut off");
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
