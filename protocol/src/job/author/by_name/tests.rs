//! Random sweeps in random orders, beside an evaluation that compares each task with each other.

use proptest::prelude::*;
use scheduler::edges::Edges;
use scheduler::ranges::TaskSet;

use super::{Rule, edges};
use crate::sweep::{Column, Dimension, IntegerRange, Sample, Sweep, Values};

const RULES: [Rule; 3] = [Rule::Same, Rule::Groups, Rule::Spread];

/// What each task waits for by the values of common parameters; `None`: there is no common parameter.
fn naive(own: &Sweep, on: &Sweep) -> Option<Vec<Vec<u64>>> {
    let common: Vec<&str> = own.names().filter(|name| on.names().any(|other| other == *name)).collect();
    let values = |sweep: &Sweep, task: u64| -> Vec<String> {
        let all = sweep.parameters(task);
        common.iter().map(|name| all.value(name).unwrap().to_string()).collect()
    };
    let of_on: Vec<Vec<String>> = (0..on.n_tasks()).map(|task| values(on, task)).collect();
    let of_task = |task: u64| {
        let wanted = values(own, task);
        (0_u64..).zip(&of_on).filter(|(_, found)| **found == wanted).map(|(at, _)| at).collect()
    };
    (!common.is_empty()).then(|| (0..own.n_tasks()).map(of_task).collect())
}

/// Whether each index has the same values in both, and they have no other parameters.
fn is_aligned(own: &Sweep, on: &Sweep) -> bool {
    let lists = naive(own, on).unwrap();
    let has_all =
        |one: &Sweep, other: &Sweep| one.names().all(|name| other.names().any(|known| known == name));
    own.n_tasks() == on.n_tasks()
        && has_all(own, on)
        && has_all(on, own)
        && (0_u64..).zip(&lists).all(|(task, list)| list.contains(&task))
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        3 => (0..3i64, 1..4u64).prop_map(|(from, n)| Values::Integers(vec![IntegerRange { from, step: 1, n }])),
        2 => Just(Values::Integers(vec![IntegerRange { from: 1, step: 1, n: 3 }])),
        3 => prop::collection::vec(0..4u8, 1..4)
            .prop_map(|list| Values::Texts(list.iter().map(ToString::to_string).collect())),
        1 => (2..4u64).prop_map(|n| Values::Linspace { from: 0.0, to: 1.0, n }),
    ]
}

/// Parameters of a pool of four, some in step, in any order.
fn sweep() -> impl Strategy<Value = Sweep> {
    let names = Just(vec!["a", "b", "c", "d"]).prop_shuffle();
    let sizes = prop::collection::vec(1..3usize, 1..4);
    let columns = prop::collection::vec(values(), 4);
    let sample = prop_oneof![3 => Just(None), 1 => (1..9u64, 0..3u64).prop_map(Some)];
    (names, sizes, columns, sample).prop_map(|(names, sizes, columns, sample)| {
        let mut left = names.into_iter().zip(columns);
        let dimensions = sizes.into_iter().filter_map(|n| {
            let columns: Vec<Column> = left
                .by_ref()
                .take(n)
                .map(|(name, values)| Column { name: name.to_owned(), values })
                .collect();
            (!columns.is_empty()).then_some(Dimension { columns })
        });
        let mut sweep = Sweep { dimensions: dimensions.collect(), sample: None };
        let n_all = sweep.n_tasks();
        sweep.sample = sample.map(|(n, seed)| Sample { n: n.min(n_all), seed });
        sweep
    })
}

/// The first often has the entries of the second in another order, and some fewer.
fn related() -> impl Strategy<Value = (Sweep, Sweep)> {
    sweep().prop_flat_map(|on| {
        let own = Just(on.dimensions.clone()).prop_shuffle();
        (own, 0..2usize, Just(on)).prop_map(|(mut dimensions, n_out, on)| {
            dimensions.truncate(dimensions.len().saturating_sub(n_out).max(1));
            (Sweep { dimensions, sample: None }, on)
        })
    })
}

/// The same rows in the same order under names of which some may be others: tasks of one index have the same values of what
/// is common, and what is common may not tell them apart.
fn aligned() -> impl Strategy<Value = (Sweep, Sweep)> {
    let is_other = prop::collection::vec(prop::bool::weighted(0.3), 4);
    (sweep(), is_other).prop_map(|(on, is_other)| {
        let mut own = on.clone();
        let columns = own.dimensions.iter_mut().flat_map(|dimension| &mut dimension.columns);
        for (column, _) in columns.zip(is_other).filter(|(_, is_other)| *is_other) {
            column.name.insert(0, 'o');
        }
        (own, on)
    })
}

fn pair() -> impl Strategy<Value = (Sweep, Sweep)> {
    prop_oneof![
        1 => related(),
        1 => related().prop_map(|(own, on)| (on, own)),
        1 => (sweep(), sweep()),
        2 => aligned(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn tasks_wait_for_those_with_the_same_values((own, on) in pair()) {
        let lists = naive(&own, &on);
        for rule in RULES {
            let found = edges(rule, &own, "on", &on);
            let Some(lists) = &lists else {
                prop_assert_eq!(found, None);
                continue;
            };
            if rule == Rule::Same && own.n_tasks() != on.n_tasks() {
                prop_assert_eq!(found, Some(Ok(Edges::Same)));
                continue;
            }
            let is_aligned = rule == Rule::Same && is_aligned(&own, &on);
            let mut used: Vec<u64> = lists.concat();
            used.sort_unstable();
            let is_right = match rule {
                Rule::Same => is_aligned || lists.iter().all(|list| list.len() == 1) && used.windows(2).all(|two| two[0] != two[1]),
                Rule::Spread => lists.iter().all(|list| list.len() == 1),
                _ => lists.iter().all(|list| !list.is_empty()),
            };
            match found.unwrap() {
                Err((found, expected)) => prop_assert!(!is_right, "{rule:?}: {found}; {expected}"),
                Ok(edges) => {
                    prop_assert!(is_right, "{rule:?}: {edges:?}");
                    for (task, list) in (0_u64..).zip(lists) {
                        let before = edges.predecessors(&TaskSet::from(task..task + 1), on.n_tasks());
                        let wanted = if is_aligned { vec![task] } else { list.clone() };
                        prop_assert_eq!(before.indices().collect::<Vec<u64>>(), wanted, "{:?} task {}", rule, task);
                    }
                    let sizes = scheduler::edges::sizes(0, &edges, own.n_tasks(), on.n_tasks());
                    prop_assert_eq!(sizes, Ok(()));
                }
            }
        }
    }
}

fn range(name: &str, n: u64) -> Dimension {
    Dimension::column(name, Values::Integers(vec![IntegerRange { from: 1, step: 1, n }]))
}

fn product(dimensions: Vec<Dimension>) -> Sweep {
    Sweep { dimensions, sample: None }
}

#[test]
fn tasks_that_their_common_values_do_not_tell_apart_are_refused_in_any_order() {
    let on = product(vec![range("a", 2), range("b", 2)]);
    for own in [vec![range("a", 2), range("c", 2)], vec![range("c", 2), range("a", 2)]] {
        let (found, _) = edges(Rule::Same, &product(own), "stage `mc`", &on).unwrap().unwrap_err();
        assert_eq!(found, "`same` for task 0 with a = `1`, which 2 tasks of stage `mc` have");
    }
}

#[test]
fn sweeps_in_the_same_order_cost_nothing_however_many_tasks_there_are() {
    let n = 1_000_000_000;
    let (on, own) = (product(vec![range("lam", 3), range("seed", n)]), product(vec![range("lam", 3)]));
    assert_eq!(edges(Rule::Groups, &own, "mc", &on), Some(Ok(Edges::Groups(n))));
    assert_eq!(edges(Rule::Spread, &on, "mean", &own), Some(Ok(Edges::Spread(n))));
    assert_eq!(edges(Rule::Same, &on, "mc", &on), Some(Ok(Edges::Same)));
}

#[test]
fn too_many_tasks_in_another_order_are_refused_with_the_order_that_goes() {
    let (on, own) =
        (product(vec![range("seed", 100_000_000), range("lam", 3)]), product(vec![range("lam", 3)]));
    let (found, expected) = edges(Rule::Groups, &own, "mc", &on).unwrap().unwrap_err();
    assert_eq!(found, "`groups` by `lam` for 300000000 tasks");
    assert!(expected.contains("both sweeps begin with `lam` in the same order"), "{expected}");
}

#[test]
fn a_group_in_another_order_is_a_short_text() {
    let (on, own) = (product(vec![range("seed", 20), range("lam", 3)]), product(vec![range("lam", 3)]));
    let edges = edges(Rule::Groups, &own, "mc", &on).unwrap().unwrap();
    assert_eq!(serde_json::to_string(&edges).unwrap(), r#"{"listed":"0+20/3;0+20/3;0+20/3"}"#);
}
