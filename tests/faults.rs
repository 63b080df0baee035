//! Ten thousand seeds of the fault simulation; `tests/faults` runs as many as one has patience for.

use simulator::faults::run_many;

const N_SEEDS: u64 = 10_000;

#[test]
fn ten_thousand_seeds_hold() {
    let mut n_fine = 0;
    let mut broken = Vec::new();
    run_many(0..N_SEEDS, |seed, result| match result {
        Ok(_) => n_fine += 1,
        Err(violation) => broken.push(format!("seed {seed}: {violation}")),
    });
    assert!(broken.is_empty(), "{} seeds broke a rule:\n{}", broken.len(), broken.join("\n"));
    assert_eq!(n_fine, N_SEEDS);
}
