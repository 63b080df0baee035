//! A few seeds at every build; many more by `pilotfish simulate --faults`.

use super::run;

#[test]
fn under_any_faults_every_rule_holds() {
    for seed in 0..300 {
        let outcome = std::panic::catch_unwind(|| run(seed, None));
        match outcome {
            Ok(Ok(_)) => {}
            Ok(Err(violation)) => panic!("seed {seed}: {violation}"),
            Err(_) => panic!("seed {seed}: an invariant does not hold, see above"),
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run_to_the_byte() {
    let trace = |seed| {
        let mut text = String::new();
        let outcome = run(seed, Some(&mut |line| text.push_str(&format!("{line}\n"))));
        (outcome, text)
    };
    assert_eq!(trace(11), trace(11));
    assert_ne!(trace(11), trace(12));
}
