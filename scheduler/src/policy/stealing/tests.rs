//! Tests of Algorithm 1 of paper 004: its branches, and the differences of the policies in them.

use proptest::prelude::*;
use serde::{
    Deserialize,
    de::{
        IntoDeserializer,
        value::{Error, StrDeserializer},
    },
};

use super::{Input, Pace, Ready, Spot, Stealing};

/// 50 ms at 125 MB/s: t = 0.5 is 3.125 MB.
const RUN_S: f64 = 0.05;
const BYTES_PER_S: f64 = 125e6;
const RLDS: Stealing = Stealing::Rlds { t_percent: 50 };
const FLDS: Stealing = Stealing::Flds { t_percent: 50, tt_ms: 10_000, is_adaptive: false };
const HERE: usize = 3;

fn spot(policy: Stealing, inputs: &[(usize, u64)]) -> Spot {
    let inputs: Vec<Input> = inputs.iter().map(|(at, bytes)| Input { at: *at, bytes: *bytes }).collect();
    policy.spot(&Ready { inputs: &inputs, run_s: RUN_S, bytes_per_s: BYTES_PER_S }, HERE)
}

#[test]
fn the_branches_of_algorithm_1() {
    type Inputs = &'static [(usize, u64)];
    let cases: [(&str, Inputs, Spot); 8] = [
        ("no data", &[], Spot::Shared),
        ("all of it light", &[(1, 2_000_000), (2, 1_000_000)], Spot::Shared),
        ("just light enough", &[(1, 3_125_000)], Spot::Shared),
        ("heavy, none of its files is", &[(1, 3_000_000), (2, 3_000_000)], Spot::Shared),
        ("one byte too heavy", &[(1, 3_125_001)], Spot::Own(1)),
        ("the largest is here", &[(1, 3_000_000), (HERE, 5_000_000)], Spot::Own(HERE)),
        ("the largest is elsewhere", &[(HERE, 4_000_000), (2, 5_000_000)], Spot::Own(2)),
        ("the first of equal ones", &[(2, 5_000_000), (HERE, 5_000_000)], Spot::Own(2)),
    ];
    for (case, inputs, expected) in cases {
        assert_eq!(spot(RLDS, inputs), expected, "{case}");
        assert_eq!(spot(FLDS, inputs), expected, "{case}");
    }
}

#[test]
fn the_policies_differ_in_what_is_light() {
    let spots = |inputs: &[(usize, u64)]| {
        [Stealing::None, Stealing::Mlb, Stealing::Mdl, Stealing::Lend, RLDS]
            .map(|policy| spot(policy, inputs))
    };
    let own = Spot::Own;
    assert_eq!(spots(&[]), [own(HERE), Spot::Shared, Spot::Shared, Spot::Shared, Spot::Shared]);
    assert_eq!(spots(&[(1, 0)]), [own(HERE), Spot::Shared, Spot::Shared, Spot::Shared, Spot::Shared]);
    assert_eq!(spots(&[(1, 1)]), [own(HERE), Spot::Shared, own(1), own(1), Spot::Shared]);
    assert_eq!(spots(&[(1, u64::MAX), (2, u64::MAX)]), [own(HERE), Spot::Shared, own(1), own(1), own(1)]);
}

#[test]
fn only_lending_lets_tasks_leave_their_data_and_only_when_they_would_wait_longer() {
    let pace = Pace { tasks_per_s: 40.0, bytes_per_s: BYTES_PER_S };
    for policy in [Stealing::None, Stealing::Mlb, Stealing::Mdl, RLDS, FLDS] {
        assert!(!policy.may_leave(usize::MAX, 0, &pace));
    }
    let inputs = [Input { at: 1, bytes: 3 }, Input { at: 2, bytes: 5 }, Input { at: 1, bytes: 5 }];
    let task = Ready { inputs: &inputs, run_s: RUN_S, bytes_per_s: BYTES_PER_S };
    assert_eq!([FLDS, Stealing::Mlb, Stealing::Lend].map(|policy| policy.weight(&task)), [13, 13, 5]);
    assert_eq!(Stealing::Lend.weight(&Ready { inputs: &[], ..task }), 0);
    // Four tasks wait a tenth of a second, in which 12.5 MB are fetched.
    assert!(Stealing::Lend.may_leave(4, 12_499_999, &pace));
    assert!(!Stealing::Lend.may_leave(4, 12_500_000, &pace));
}

#[test]
fn the_words_of_the_configuration() {
    let read = |word: &'static str| {
        let word: StrDeserializer<'static, Error> = word.into_deserializer();
        Stealing::deserialize(word)
    };
    assert_eq!(
        [read("none"), read("mlb"), read("mdl")],
        [Ok(Stealing::None), Ok(Stealing::Mlb), Ok(Stealing::Mdl)]
    );
    assert!(read("nil").unwrap_err().to_string().contains("`none`, `mlb`, `mdl`, `rlds`, `flds`, `lend`"));
    assert!([Stealing::Mlb, Stealing::Mdl, RLDS, FLDS].into_iter().all(Stealing::steals));
    assert!(!Stealing::None.steals());
}

proptest! {
    #[test]
    fn a_task_that_stays_is_with_its_largest_file(
        inputs in prop::collection::vec((0..9usize, 0..9_000_000u64), 0..6), t_percent in 0..300u32,
    ) {
        let largest = inputs.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let limit = f64::from(t_percent) / 100.0 * RUN_S * BYTES_PER_S;
        match spot(Stealing::Rlds { t_percent }, &inputs) {
            Spot::Own(pilot) => {
                prop_assert!(inputs.contains(&(pilot, largest)));
                prop_assert!(largest as f64 > limit - 1.0);
            }
            Spot::Shared => prop_assert!(largest as f64 <= limit + 1.0),
        }
    }
}
