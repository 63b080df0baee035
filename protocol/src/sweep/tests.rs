//! Sweeps: index to parameters, compared with writing everything out.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Column, Dimension, IntegerRange, Sample, Sweep, Value, Values};

fn texts(values: &[&str]) -> Values {
    Values::Texts(values.iter().map(|value| (*value).to_owned()).collect())
}

fn range(from: i64, to: i64, step: i64) -> Values {
    Values::Integers(vec![IntegerRange::between(from, to, step).unwrap()])
}

/// All tasks, one a line.
fn all(sweep: &Sweep) -> Vec<String> {
    (0..sweep.n_tasks())
        .map(|index| {
            let values = sweep.values(index);
            values.iter().map(Value::to_string).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

#[test]
fn last_dimension_varies_fastest() {
    let zip = Dimension {
        columns: vec![
            Column { name: "x".to_owned(), values: range(10, 8, -2) },
            Column { name: "y".to_owned(), values: texts(&["a", "b"]) },
        ],
    };
    let sweep = Sweep { dimensions: vec![zip, Dimension::column("z", range(1, 3, 1))], sample: None };
    assert_eq!(all(&sweep), ["10 a 1", "10 a 2", "10 a 3", "8 b 1", "8 b 2", "8 b 3"]);
    assert_eq!(sweep.names().collect::<Vec<_>>(), ["x", "y", "z"]);
    assert_eq!(sweep.parameters(4).value("y"), Some(Value::Text("b")));
    assert_eq!(sweep.parameters(4).value("w"), None);
}

#[test]
fn sweep_without_dimensions_has_one_task() {
    assert_eq!((Sweep::default().n_tasks(), all(&Sweep::default())), (1, vec![String::new()]));
}

#[test]
fn linspace_points_read_like_tenths() {
    let points = |from, to, n| {
        all(&Sweep {
            dimensions: vec![Dimension::column("x", Values::Linspace { from, to, n })],
            sample: None,
        })
        .join(" ")
    };
    assert_eq!(points(0.0, 1.0, 11), "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1.0");
    assert_eq!(points(-0.3, 0.6, 10), "-0.3 -0.2 -0.1 0.0 0.1 0.2 0.3 0.4 0.5 0.6");
    assert_eq!(points(0.1, 0.7, 7), "0.1 0.2 0.3 0.4 0.5 0.6 0.7");
    assert_eq!(points(1e-7, 3e-7, 3), "1e-7 2e-7 3e-7");
    assert_eq!(points(5.0, 9.0, 1), "5.0");
    assert_eq!(points(2.0, 0.0, 3), "2.0 1.0 0.0");
}

#[test]
fn quintillion_combinations_cost_nothing() {
    let dimension = |name: &str| Dimension::column(name, range(1, 1_000_000, 1));
    let sweep = Sweep {
        dimensions: vec![dimension("a"), dimension("b"), dimension("c")],
        sample: Some(Sample { n: 1_000_000_000, seed: 7 }),
    };
    assert_eq!(sweep.n_combinations(), Some(1_000_000_000_000_000_000));
    assert_eq!(sweep.n_tasks(), 1_000_000_000);
    assert_eq!(sweep.values(999_999_999).len(), 3);
    let whole = Sweep { sample: None, ..sweep };
    let last = [Value::Integer(1_000_000), Value::Integer(1_000_000), Value::Integer(1_000_000)];
    assert_eq!(whole.values(whole.n_tasks() - 1), last);
}

#[test]
fn product_that_does_not_fit_saturates() {
    let dimensions = vec![Dimension::column("x", range(0, i64::MAX - 1, 1)); 2];
    let sweep = Sweep { dimensions, sample: None };
    assert_eq!((sweep.n_combinations(), sweep.n_tasks()), (None, u64::MAX));
}

#[test]
fn ranges_end_where_they_should() {
    let n = |from, to, step| IntegerRange::between(from, to, step).map(|range| range.n);
    assert_eq!(n(1, 10, 1), Some(10));
    assert_eq!(n(1, 10, 2), Some(5));
    assert_eq!(n(10, 1, -3), Some(4));
    assert_eq!(n(5, 5, -1), Some(1));
    assert_eq!(n(1, 10, -1), None);
    assert_eq!(n(1, 10, 0), None);
    assert_eq!(n(i64::MIN, i64::MAX, 1), None);
    assert_eq!(n(i64::MIN, i64::MAX, 2), Some(1 << 63));
    assert!(!IntegerRange { from: 0, step: i64::MAX, n: 3 }.fits());
    assert!(IntegerRange { from: i64::MIN, step: i64::MAX, n: 3 }.fits());
}

#[test]
fn sweep_is_the_same_after_json() {
    let sweep = Sweep {
        dimensions: vec![
            Dimension::column("f", Values::Linspace { from: 0.1 + 0.2, to: 1.0 / 3.0, n: 4 }),
            Dimension::column("r", range(-3, 3, 3)),
            Dimension::column("t", texts(&["a"])),
        ],
        sample: Some(Sample { n: 2, seed: u64::MAX }),
    };
    let json = serde_json::to_string(&sweep).unwrap();
    assert_eq!(serde_json::from_str::<Sweep>(&json).unwrap(), sweep);
    insta::assert_snapshot!(json, @r#"{"dimensions":[{"columns":[{"name":"f","values":{"linspace":{"from":0.30000000000000004,"to":0.3333333333333333,"n":4}}}]},{"columns":[{"name":"r","values":{"integers":[{"from":-3,"step":3,"n":3}]}}]},{"columns":[{"name":"t","values":{"texts":["a"]}}]}],"sample":{"n":2,"seed":18446744073709551615}}"#);
}

/// A small random column and what it holds, written out.
fn columns() -> impl Strategy<Value = (Values, Vec<String>)> {
    let listed =
        prop::collection::vec("[a-z]{0,3}", 1..5).prop_map(|list| (Values::Texts(list.clone().into()), list));
    let counted = (-20_i64..20, prop::sample::select(vec![-3_i64, -1, 1, 2]), 1_u64..5, 0_u64..3).prop_map(
        |(from, step, n, n_more)| {
            let mut ranges = vec![IntegerRange { from, step, n }];
            let mut list: Vec<String> = (0..n as i64).map(|i| (from + step * i).to_string()).collect();
            if n_more > 0 {
                ranges.push(IntegerRange { from: 100, step: 1, n: n_more });
                list.extend((100..100 + n_more).map(|number| number.to_string()));
            }
            (Values::Integers(ranges), list)
        },
    );
    prop_oneof![listed, counted]
}

/// The product written out by recursion, first dimension outermost.
fn expand(lists: &[Vec<String>]) -> Vec<String> {
    match lists {
        [] => vec![String::new()],
        [only] => only.clone(),
        [first, rest @ ..] => {
            let tails = expand(rest);
            first.iter().flat_map(|head| tails.iter().map(move |tail| format!("{head} {tail}"))).collect()
        }
    }
}

proptest! {
    #[test]
    fn product_equals_its_expansion(columns in prop::collection::vec(columns(), 0..5)) {
        let (values, lists): (Vec<Values>, Vec<Vec<String>>) = columns.into_iter().unzip();
        let dimensions =
            values.into_iter().enumerate().map(|(i, values)| Dimension::column(format!("p{i}"), values)).collect();
        prop_assert_eq!(all(&Sweep { dimensions, sample: None }), expand(&lists));
    }

    #[test]
    fn sample_draws_without_repetition(seed in any::<u64>(), n in 1_u64..400, share in 0.0_f64..=1.0) {
        let n_drawn = ((n as f64 * share) as u64).max(1);
        let sweep = Sweep {
            dimensions: vec![Dimension::column("x", range(1, n as i64, 1))],
            sample: Some(Sample { n: n_drawn, seed }),
        };
        let drawn = all(&sweep);
        let distinct: BTreeSet<i64> = drawn.iter().map(|text| text.parse().unwrap()).collect();
        prop_assert_eq!(drawn.len() as u64, n_drawn);
        prop_assert_eq!(distinct.len() as u64, n_drawn);
        prop_assert!(distinct.iter().all(|number| (1..=n as i64).contains(number)));
    }
}
