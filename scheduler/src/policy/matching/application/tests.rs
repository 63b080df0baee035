//! Tests of matching by application: values computed independently, choices, and that incremental updates
//! equal a new table.

use proptest::prelude::*;
use serde::de::{
    IntoDeserializer,
    value::{Error, StrDeserializer},
};

use super::*;

const RATES: [[f64; 4]; 3] = [[1.0, 2.0, 0.5, 1.5], [1.0, 1.0, 1.0, 1.2], [1.0, 0.4, 2.5, 0.8]];
const DEGREES: [[u32; 4]; 3] = [[4, 2, 8, 1], [2, 1, 4, 1], [8, 4, 16, 1]];
const NI: [[f64; 4]; 3] = [
    [-0.4, 0.4, -0.8, 0.0],
    [-0.0544217687074828, -0.0544217687074828, -0.0544217687074828, 0.13605442176870763],
    [-0.6066093254866454, -1.1172476233589856, 0.6699864191942057, -0.7768220914440922],
];
const AI: [[f64; 4]; 3] = [
    [-0.42857142857142855, -0.42857142857142855, -0.42857142857142855, 0.0],
    [-0.8571428571428571, -0.8571428571428571, -0.8571428571428571, 0.0],
    [0.42857142857142855, 0.42857142857142855, 0.42857142857142855, 0.0],
];
const MU: [[f64; 4]; 3] = [
    [0.4555334217802519, 0.4555334217802519, 0.4555334217802519, 1.0],
    [0.1336766024001917, 0.1336766024001917, 0.1336766024001917, 1.0],
    [0.558624491843922, 0.558624491843922, 0.558624491843922, 1.0],
];
const GI: [[f64; 4]; 3] = [
    [-0.4155561879491356, -0.05112945052493409, -0.5977695566612364, 0.0],
    [-0.7498378293658324, -0.7498378293658324, -0.7498378293658324, 0.13605442176870763],
    [-0.14970589413087104, -0.4349609537958524, 0.5634317550315826, -0.7768220914440922],
];
/// (application, node), the highest GI first.
const PAIRS_BY_GI: [(usize, usize); 12] =
    [(2, 2), (1, 3), (0, 3), (0, 1), (2, 0), (0, 0), (2, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 3)];

fn rows<T: Copy>(rows: &[[T; 4]]) -> Vec<Vec<T>> {
    rows.iter().map(|row| row.to_vec()).collect()
}

/// These applications, with equal work left in each.
fn open(applications: impl IntoIterator<Item = usize>) -> Vec<Open> {
    applications
        .into_iter()
        .map(|application| Open { application, work: 100.0, oldest: application })
        .collect()
}

fn importance() -> Importance {
    Importance::new(&rows(&RATES), &rows(&DEGREES))
}

#[test]
fn importances_are_those_of_the_equations() {
    let importance = importance();
    for (application, node) in PAIRS_BY_GI {
        let found = [
            importance.of_node(application, node),
            importance.of_application(application, node),
            importance.weight_of_node(application, node),
            importance.global(application, node),
        ];
        let expected = [NI, AI, MU, GI].map(|table| table[application][node]);
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{application} on {node}: {found}, not {expected}");
        }
    }
}

#[test]
fn nodes_that_ask_together_are_served_by_the_best_pair() {
    let importance = importance();
    let mut requests = Requests::new(ByApplication::Alstb, &importance, 0..4, &open(0..3));
    let served: Vec<_> = std::iter::from_fn(|| requests.next(&open(0..3))).collect();
    // The highest pairs of nodes that are not served yet.
    assert_eq!(served, [(2, 2), (1, 3), (0, 1), (2, 0)]);
    let alone = (0..4).map(|node| ByApplication::Alstb.choose(&importance, node, &open(0..3)));
    assert_eq!(alone.collect::<Vec<_>>(), [Some(2), Some(0), Some(2), Some(1)]);

    let mut all: Vec<_> = (0..3).flat_map(|i| (0..4).map(move |j| (i, j))).collect();
    all.sort_by_key(|(i, j)| {
        let score = ByApplication::Alstb.score(&importance, *i, *j);
        (std::cmp::Reverse(score), *j, *i)
    });
    // Application 1 has equal scores, but for rounding, on its first three nodes.
    assert_eq!(all, PAIRS_BY_GI);
}

#[test]
fn an_application_that_runs_out_is_left_to_nobody() {
    let importance = importance();
    let mut requests = Requests::new(ByApplication::Alstb, &importance, 0..4, &open(0..3));
    assert_eq!(requests.next(&open(0..3)), Some((2, 2)));
    // Without application 2, node 0 takes application 0, and is served after node 1.
    let served: Vec<_> = std::iter::from_fn(|| requests.next(&open(0..2))).collect();
    assert_eq!(served, [(1, 3), (0, 1), (0, 0)]);
    assert_eq!(Requests::new(ByApplication::Ni, &importance, 0..4, &[]).next(&[]), None);
}

#[test]
fn ties_go_to_the_lowest_node_then_the_lowest_application() {
    let even = Importance::new(&vec![vec![1.0; 3]; 2], &vec![vec![2; 3]; 2]);
    let mut requests = Requests::new(ByApplication::Alstb, &even, [2, 1, 0], &open(0..2));
    let served: Vec<_> = std::iter::from_fn(|| requests.next(&open(0..2))).collect();
    assert_eq!(served, [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn each_heuristic_chooses_by_its_own_number() {
    let importance = importance();
    let choices = |policy: ByApplication| {
        (0..4).map(|node| policy.choose(&importance, node, &open(0..3)).unwrap()).collect::<Vec<_>>()
    };
    // The application with the largest node importance in each column.
    assert_eq!(choices(ByApplication::Ni), [1, 0, 2, 1]);
    // The fastest application in each column of the rates; all are equal on node 0.
    assert_eq!(choices(ByApplication::MinMin), [0, 0, 2, 0]);
    // The rates of application 2 differ most.
    assert_eq!(choices(ByApplication::MaxStd), [2, 2, 2, 2]);
    // Compared with the best other node: -1, -.2 and -1.5 on node 0; on node 3 -.5, +.2 and -1.7.
    assert_eq!(choices(ByApplication::Sufferage), [1, 0, 2, 1]);
    let sufferages = [[-1.0, 0.5, -1.5, -0.5], [-0.2, -0.2, -0.2, 0.2], [-1.5, -2.1, 1.5, -1.7]];
    for (i, j) in PAIRS_BY_GI {
        let found = ByApplication::Sufferage.score(&importance, i, j).0;
        assert!((found - sufferages[i][j]).abs() < 1e-12, "{i} on {j}: {found}");
    }
    let alone = Importance::new(&[vec![3.0]], &[vec![1]]);
    assert_eq!(ByApplication::Sufferage.score(&alone, 0, 0).0, 3.0, "with no other node all would be lost");
}

#[test]
fn what_does_not_vary_is_left_to_the_degrees() {
    let even = Importance::new(&vec![vec![1.0; 3]; 2], &vec![vec![2; 3]; 2]);
    assert_eq!((even.weight_of_node(0, 0), even.global(0, 0)), (0.0, 0.0));
}

#[test]
fn applications_that_differ_alike_are_told_apart_by_their_rate() {
    let importance = Importance::new(&[vec![1.0, 2.0], vec![2.0, 3.0]], &vec![vec![1; 2]; 2]);
    assert_eq!(ByApplication::MaxStd.choose(&importance, 0, &open(0..2)), Some(1));
}

#[test]
fn of_what_suits_the_node_the_soonest_goes_first() {
    // Applications 0 and 1 have similar speeds on the nodes, application 2 is far slower on node 0.
    let rates = [vec![1.0, 1.0], vec![2.1, 2.0], vec![1.0, 4.0]];
    let importance = Importance::new(&rates, &vec![vec![2, 2]; 3]);
    let choice = |node, works: [f64; 3]| {
        let open: Vec<Open> =
            (0..3).map(|at| Open { application: at, work: works[at], oldest: at }).collect();
        ByApplication::Soonest.choose(&importance, node, &open)
    };
    // 100 / 2 seconds, 100 / 4.1; application 2 is not considered.
    assert_eq!(choice(0, [100.0, 100.0, 1.0]), Some(1));
    assert_eq!(choice(0, [40.0, 100.0, 1.0]), Some(0));
    // The other node suits application 2 alone.
    assert_eq!(choice(1, [1.0, 1.0, 900.0]), Some(2));
    assert_eq!(ByApplication::Soonest.choose(&importance, 0, &[]), None);
    // A node on which nothing runs still serves an application.
    let idle = Importance::new(&[vec![0.0], vec![0.0]], &vec![vec![1]; 2]);
    assert_eq!(ByApplication::Soonest.choose(&idle, 0, &open(0..2)), Some(0));
}

#[test]
fn how_well_a_node_suits_is_by_the_weighted_mean_of_whole_nodes() {
    let importance = importance();
    // Rate × degree: 4, 4, 4, 1.5; 2, 1, 4, 1.2; 8, 1.6, 40, 0.8. Weighted: sum of squares / sum.
    let weighted = [50.25 / 13.5, 22.44 / 8.2, 1667.2 / 50.4];
    let speeds = [[4.0, 4.0, 4.0, 1.5], [2.0, 1.0, 4.0, 1.2], [8.0, 1.6, 40.0, 0.8]];
    for (i, j) in PAIRS_BY_GI {
        let found = ByApplication::Soonest.score(&importance, i, j).0;
        assert!((found - speeds[i][j] / weighted[i]).abs() < 1e-12, "{i} on {j}: {found}");
    }
}

#[test]
fn what_suits_the_node_far_less_is_no_choice_and_seconds_are_by_the_plain_mean() {
    // The same three rates in another order: equal weighted means. On node 0 the second has 89 % or 87 %.
    let choice = |second: f64| {
        let importance =
            Importance::new(&[vec![100.0, second, 50.0], vec![second, 100.0, 50.0]], &vec![vec![1; 3]; 2]);
        let open = [(0, 100.0), (1, 1.0)].map(|(application, work)| Open { application, work, oldest: 0 });
        ByApplication::Soonest.choose(&importance, 0, &open)
    };
    assert_eq!((choice(89.0), choice(87.0)), (Some(1), Some(0)));
    // On node 0: 5 / (28 / 8) and 4 / (28 / 10) are nearly equal. 8 / 2 s against 9 / 2.5 s; by the weighted
    // means it would be 8 / 3.5 against 9 / 2.8.
    let importance =
        Importance::new(&[vec![5.0, 1.0, 1.0, 1.0], vec![4.0, 2.0, 2.0, 2.0]], &vec![vec![1; 4]; 2]);
    let open = |works: [f64; 2]| [0, 1].map(|at| Open { application: at, work: works[at], oldest: 0 });
    assert_eq!(ByApplication::Soonest.choose(&importance, 0, &open([8.0, 9.0])), Some(1));
    assert_eq!(
        ByApplication::Soonest.choose(&importance, 0, &open([8.0, 10.0])),
        Some(0),
        "the first of equals"
    );
}

#[test]
fn the_application_of_the_oldest_job_goes_first_wherever_it_runs_best() {
    let importance = importance();
    let open = |oldest: [usize; 3]| -> Vec<Open> {
        (0..3).map(|at| Open { application: at, work: 1.0, oldest: oldest[at] }).collect()
    };
    let all = open([4, 1, 2]);
    let choices: Vec<_> = (0..4).map(|node| ByApplication::Fifo.choose(&importance, node, &all)).collect();
    assert_eq!(choices, [Some(1); 4]);
    assert_eq!(ByApplication::Fifo.choose(&importance, 0, &[]), None);
    // Three nodes ask at once; the lowest is served first. The next job of application 1 is younger than the
    // job of application 2.
    let mut requests = Requests::new(ByApplication::Fifo, &importance, [2, 0, 1], &all);
    assert_eq!(requests.next(&all), Some((1, 0)));
    assert_eq!(requests.next(&open([4, 3, 2])), Some((2, 1)));
    assert_eq!(requests.next(&open([4, 3, 2])), Some((2, 2)));
    assert_eq!(requests.next(&all), None);
}

#[test]
fn jobs_end_one_after_the_other() {
    let job = |policy: ByApplication| policy.job_of([("a", 30.0), ("b", 20.0), ("c", 20.0)]);
    assert_eq!(job(ByApplication::Alstb), Some("b"));
    assert_eq!(job(ByApplication::Fifo), Some("a"), "first come, first served");
    assert_eq!(ByApplication::Alstb.job_of::<u8>([]), None);
}

#[test]
fn data_leave_no_fewer_than_one_processor_busy() {
    assert_eq!([0.0, 0.5, 0.51, 0.99, 1.0].map(|share| degree(share, 8)), [8, 4, 4, 1, 1]);
    assert_eq!([10, 20].map(|n| degree(0.7, n)), [3, 6], "whatever floats make of it");
    assert_eq!(degree(0.3, 0), 1);
    assert_eq!(degree(-5.0, 4), 4);
}

#[test]
fn words_are_those_of_the_policies_block() {
    let words = ["alstb", "ni", "min-min", "max-std", "sufferage", "soonest", "fifo"];
    let read = words.map(|word| {
        let word: StrDeserializer<'_, Error> = word.into_deserializer();
        ByApplication::deserialize(word).unwrap()
    });
    assert_eq!(read, ByApplication::ALL);
}

#[derive(Clone, Debug)]
enum Change {
    Rate(usize, usize, f64),
    Degree(usize, usize, u32),
    AddNode(Vec<f64>, Vec<u32>),
    RemoveNode(usize),
    AddApplication(Vec<f64>, Vec<u32>),
    RemoveApplication(usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let (rates, degrees) = (prop::collection::vec(0.0..5.0, 20), prop::collection::vec(1..9u32, 20));
    let change = prop_oneof![
        (0..20usize, 0..20usize, 0.0..5.0).prop_map(|(i, j, rate)| Change::Rate(i, j, rate)),
        (0..20usize, 0..20usize, 1..9u32).prop_map(|(i, j, degree)| Change::Degree(i, j, degree)),
        (rates.clone(), degrees.clone()).prop_map(|(rates, degrees)| Change::AddNode(rates, degrees)),
        (0..20usize).prop_map(Change::RemoveNode),
        (rates, degrees).prop_map(|(rates, degrees)| Change::AddApplication(rates, degrees)),
        (0..20usize).prop_map(Change::RemoveApplication),
    ];
    prop::collection::vec(change, 0..15)
}

proptest! {
    #[test]
    fn what_is_kept_up_equals_what_is_made_anew(changes in changes()) {
        let (mut rates, mut degrees) = (rows(&RATES), rows(&DEGREES));
        let mut kept = importance();
        for change in changes {
            let (n_applications, n_nodes) = (kept.n_applications(), kept.n_nodes());
            match change {
                Change::Rate(i, j, rate) => {
                    let (i, j) = (i % n_applications, j % n_nodes);
                    rates[i][j] = rate;
                    kept.set_rate(i, j, rate);
                }
                Change::Degree(i, j, degree) => {
                    let (i, j) = (i % n_applications, j % n_nodes);
                    degrees[i][j] = degree;
                    kept.set_degree(i, j, degree);
                }
                Change::AddNode(new_rates, new_degrees) => {
                    rates.iter_mut().zip(&new_rates).for_each(|(row, rate)| row.push(*rate));
                    degrees.iter_mut().zip(&new_degrees).for_each(|(row, degree)| row.push(*degree));
                    kept.add_node(&new_rates[..n_applications], &new_degrees[..n_applications]);
                }
                Change::RemoveNode(j) if n_nodes > 1 => {
                    for (rates, degrees) in rates.iter_mut().zip(&mut degrees) {
                        rates.remove(j % n_nodes);
                        degrees.remove(j % n_nodes);
                    }
                    kept.remove_node(j % n_nodes);
                }
                Change::AddApplication(new_rates, new_degrees) => {
                    rates.push(new_rates[..n_nodes].to_vec());
                    degrees.push(new_degrees[..n_nodes].to_vec());
                    kept.add_application(&new_rates[..n_nodes], &new_degrees[..n_nodes]);
                }
                Change::RemoveApplication(i) if n_applications > 1 => {
                    rates.remove(i % n_applications);
                    degrees.remove(i % n_applications);
                    kept.remove_application(i % n_applications);
                }
                Change::RemoveNode(_) | Change::RemoveApplication(_) => {}
            }
        }
        let anew = Importance::new(&rates, &degrees);
        for i in 0..anew.n_applications() {
            for j in 0..anew.n_nodes() {
                prop_assert_eq!(kept.global(i, j), anew.global(i, j));
                prop_assert_eq!(kept.row(i), anew.row(i));
            }
        }
    }

    #[test]
    fn the_best_pair_is_always_next(
        rates in prop::collection::vec(prop::collection::vec(0..4u32, 5), 4),
        degrees in prop::collection::vec(prop::collection::vec(1..4u32, 5), 4),
        n_bundles in prop::collection::vec(0..4u32, 4),
    ) {
        let rates: Vec<Vec<f64>> =
            rates.into_iter().map(|row| row.into_iter().map(f64::from).collect()).collect();
        let importance = Importance::new(&rates, &degrees);
        let left_open = |left: &[u32]| open((0..4).filter(|i| left[*i] > 0));
        // The policies after the first five do not go by the score alone.
        for policy in ByApplication::ALL.into_iter().take(5) {
            let (mut left, mut asking) = (n_bundles.clone(), (0..5).collect::<Vec<_>>());
            let mut requests = Requests::new(policy, &importance, 0..5, &left_open(&left));
            while let Some((i, j)) = requests.next(&left_open(&left)) {
                let all = asking.iter().flat_map(|j| left_open(&left).into_iter().map(move |one| (one.application, *j)));
                let best = all.max_by_key(|(i, j)| {
                    let score = policy.score(&importance, *i, *j);
                    (score, std::cmp::Reverse(*j), std::cmp::Reverse(*i))
                });
                prop_assert_eq!(Some((i, j)), best);
                left[i] -= 1;
                asking.retain(|node| *node != j);
            }
            prop_assert!(asking.is_empty() || left_open(&left).is_empty());
        }
    }
}
