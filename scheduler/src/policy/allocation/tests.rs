//! Tests of first-level shares: paper 000's scenarios, computed independently, and general properties.

use proptest::prelude::*;

use super::{Allocation, Demand, equal_parts};
use crate::policy::{
    affinity::{Affinity, tests_of_paper::RUNTIMES},
    table::Table,
};

mod printed;
mod scenarios;

use scenarios::SCENARIOS;

fn policy(words: &str) -> (Allocation, Affinity) {
    let (policy, affinity) = words.split_once('|').expect("two words");
    let policy = match policy {
        "fair" => Allocation::Equal,
        "paf" => Allocation::Paf { percent: 50 },
        "aaf" => Allocation::Aaf { percent: 50 },
        _ => Allocation::default(),
    };
    let affinity = match affinity {
        "thr" => Affinity::Throughput,
        "epa" => Affinity::Epa,
        _ => Affinity::Rpa,
    };
    (policy, affinity)
}

#[test]
fn shares_of_the_papers_scenarios() {
    for scenario in SCENARIOS {
        // A platform without nodes is left out.
        let platforms: Vec<usize> = (0..4).filter(|platform| scenario.cores[*platform] > 0).collect();
        let runtimes = |user: &usize| platforms.iter().map(|platform| RUNTIMES[*user][*platform]).collect();
        let runtimes = Table::from_rows(&scenario.users.iter().map(runtimes).collect::<Vec<_>>()).unwrap();
        let cores: Vec<u64> = platforms.iter().map(|platform| scenario.cores[*platform]).collect();
        for (words, expected) in scenario.shares {
            let (policy, affinity) = policy(words);
            let affinity = affinity.table(&runtimes, &vec![true; scenario.users.len()]);
            let demand =
                Demand { tasks: scenario.tasks, cores: &cores, affinity: &affinity, favourites: None };
            let shares = policy.share(&demand).cores;
            for (user, expected) in expected.iter().enumerate() {
                let expected: Vec<u64> = platforms.iter().map(|platform| expected[*platform]).collect();
                assert_eq!(shares.row(user), expected, "{}, {words}, user {user}", scenario.name);
            }
        }
    }
}

/// Returns the cores that each user (row) gets of each platform (column), without earlier favourites.
fn shares(policy: Allocation, tasks: &[u64], cores: &[u64], affinity: &[impl AsRef<[f64]>]) -> Vec<Vec<u64>> {
    let affinity: Vec<Vec<f64>> = affinity.iter().map(|row| row.as_ref().to_vec()).collect();
    let affinity = Table::from_rows(&affinity).unwrap();
    let demand = Demand { tasks, cores, affinity: &affinity, favourites: None };
    policy.share(&demand).cores.rows().map(<[u64]>::to_vec).collect()
}

#[test]
fn in_turns_so_many_cores_are_taken_at_a_time() {
    // Both users like the first platform most and the last one least; ten cores each are fair.
    let alike = |unit_cores| {
        shares(Allocation::PaRr { unit_cores }, &[99, 99], &[10, 4, 6], &[[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    };
    for (unit, expected) in [
        (0, [[5, 2, 3], [5, 2, 3]]),
        (1, [[5, 2, 3], [5, 2, 3]]),
        (3, [[6, 3, 1], [4, 1, 5]]),
        // A turn ends with the platform: the second user takes 3 instead of 7, then the first 3 of the next.
        (7, [[7, 3, 0], [3, 1, 6]]),
        (99, [[10, 0, 0], [0, 4, 6]]),
    ] {
        assert_eq!(alike(unit), expected, "{unit} at a time");
    }
    // The paper's default scenario by relative affinity, taken by 200 and by 300.
    let affinity =
        Affinity::Rpa.table(&Table::from_rows(&RUNTIMES.map(|row| row.to_vec())).unwrap(), &[true; 5]);
    let affinity: Vec<_> = affinity.rows().map(<[f64]>::to_vec).collect();
    let of_paper = |unit_cores| shares(Allocation::PaRr { unit_cores }, &[9999; 5], &[600; 4], &affinity);
    let by_200 = [[80, 400, 0, 0], [80, 0, 0, 400], [440, 0, 40, 0], [0, 0, 280, 200], [0, 200, 280, 0]];
    let by_300 = [[180, 300, 0, 0], [120, 0, 60, 300], [300, 0, 180, 0], [0, 0, 180, 300], [0, 300, 180, 0]];
    assert_eq!([of_paper(200), of_paper(300)], [by_200, by_300]);
}

#[test]
fn who_needs_less_goes_first_and_takes_what_it_likes_most() {
    let everybody = [Allocation::Paf { percent: 100 }, Allocation::Aaf { percent: 100 }];
    for policy in everybody {
        // Half of five is two for the user that is served first, and three for the last one.
        let of_five = |tasks: [u64; 2]| shares(policy, &tasks, &[5], &[[1.0], [2.0]]).concat();
        assert_eq!([[100, 50], [50, 100], [50, 50]].map(of_five), [[3, 2], [2, 3], [2, 3]], "{policy:?}");
        // A single user has fewer tasks than there are cores.
        let alone = |likings: [f64; 3]| shares(policy, &[6], &[4, 4, 4], &[likings]).concat();
        assert_eq!(alone([1.0, 2.0, 3.0]), [0, 2, 4], "{policy:?}");
        assert_eq!(alone([1.0, 3.0, 3.0]), [0, 4, 2], "{policy:?}");
        assert_eq!(alone([1.0, 1.0, 1.0]), [4, 2, 0], "{policy:?}");
    }
}

#[test]
fn where_nobody_is_first_all_or_those_not_below_the_median_are() {
    // A third of two users, or of one platform, is rounded down to none.
    let of_two = |percent, likings: [f64; 2]| {
        let rows = likings.map(|liking| [liking]);
        let policies = [Allocation::Paf { percent }, Allocation::Aaf { percent }];
        policies.map(|policy| shares(policy, &[9, 9], &[8], &rows).concat())
    };
    assert_eq!(of_two(33, [1.0, 2.0]), [[4, 4], [0, 8]]);
    assert_eq!(of_two(33, [2.0, 2.0]), [[4, 4], [4, 4]]);
    assert_eq!(of_two(50, [1.0, 2.0]), [[0, 8], [0, 8]]);
    // The median of three users is one of them.
    let aaf = Allocation::Aaf { percent: 99 };
    assert_eq!(shares(aaf, &[9; 3], &[8], &[[3.0], [1.0], [2.0]]).concat(), [4, 0, 4]);
}

#[test]
fn a_platform_stays_with_whom_it_went_to() {
    let affinity = Table::from_rows(&[vec![2.0], vec![1.0]]).unwrap();
    let before = Table::from_rows(&[vec![false], vec![true]]).unwrap();
    let other_shapes = [Table::new(3, 1, true), Table::new(2, 2, true)];
    let demand = |favourites| Demand { tasks: &[9, 9], cores: &[8], affinity: &affinity, favourites };
    let paf = Allocation::Paf { percent: 50 };
    let share =
        |favourites| paf.share(&demand(favourites)).cores.rows().flatten().copied().collect::<Vec<u64>>();
    assert_eq!(share(None), [8, 0]);
    assert_eq!(share(Some(&before)), [4, 4]);
    assert_eq!(paf.share(&demand(Some(&before))).favourites.unwrap().row(0), [true]);
    for other_shape in &other_shapes {
        assert_eq!(share(Some(other_shape)), [8, 0], "of other users or platforms nothing is remembered");
    }
}

#[test]
fn only_the_first_pass_remembers() {
    // The first user likes nothing most and had the first platform before. The second likes both most and has
    // tasks for little more than the second platform, the third has tasks for everything.
    let affinity = Table::from_rows(&[vec![1.0, 1.0], vec![3.0, 4.0], vec![2.0, 2.0]]).unwrap();
    let before = Table::from_rows(&[vec![true, false], vec![false; 2], vec![false; 2]]).unwrap();
    let share = |favourites| {
        let demand = Demand { tasks: &[10, 11, 50], cores: &[12, 10], affinity: &affinity, favourites };
        Allocation::Paf { percent: 50 }.share(&demand)
    };
    // Half of twelve goes to the first user, one to the second, which has ten elsewhere. In the second pass
    // half of two users is the third alone, and it takes the five that are left.
    let with = share(Some(&before));
    assert_eq!(with.cores, Table::from_rows(&[vec![6, 0], vec![1, 10], vec![5, 0]]).unwrap());
    let favourites = with.favourites.unwrap();
    assert_eq!(favourites.rows().collect::<Vec<_>>(), [[true, false], [true, true], [false, false]]);
    assert_eq!(share(None).cores, Table::from_rows(&[vec![0, 0], vec![1, 10], vec![11, 0]]).unwrap());
}

#[test]
fn equal_parts_are_capped_and_leave_nothing_over() {
    assert_eq!(equal_parts(10, &[9, 9, 9]), [4, 3, 3]);
    assert_eq!(equal_parts(11, &[9, 9, 9]), [4, 4, 3]);
    assert_eq!(equal_parts(10, &[1, 9, 9]), [1, 5, 4]);
    assert_eq!(equal_parts(100, &[1, 2]), [1, 2]);
    assert!(equal_parts(5, &[]).is_empty());
    // Cores of the second platform that the user with few tasks does not need go to the other.
    assert_eq!(shares(Allocation::Equal, &[3, 99], &[4, 4], &[[1.0; 2]; 2]), [[2, 1], [2, 3]]);
}

fn demands() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Vec<Vec<f64>>)> {
    (1..6usize, 1..5usize).prop_flat_map(|(n_users, n_platforms)| {
        let row = prop::collection::vec(0.1..10.0f64, n_platforms);
        let tasks = prop::collection::vec(0..100u64, n_users);
        (tasks, prop::collection::vec(0..100u64, n_platforms), prop::collection::vec(row, n_users))
    })
}

proptest! {
    #[test]
    fn nothing_is_given_twice_and_nothing_is_left_that_somebody_needs((tasks, cores, affinity) in demands(), unit in 0..40u64, percent in 0..=100u32) {
        let affinity = Table::from_rows(&affinity).unwrap();
        let demand = Demand { tasks: &tasks, cores: &cores, affinity: &affinity, favourites: None };
        let policies = [
            Allocation::Equal,
            Allocation::Paf { percent },
            Allocation::Aaf { percent },
            Allocation::PaRr { unit_cores: unit },
        ];
        for policy in policies {
            let shares = policy.share(&demand).cores;
            let given: u64 = shares.rows().flatten().sum();
            prop_assert_eq!(given, cores.iter().sum::<u64>().min(tasks.iter().sum()), "{:?}", policy);
            for (user, n_tasks) in tasks.iter().enumerate() {
                prop_assert!(shares.row(user).iter().sum::<u64>() <= *n_tasks);
            }
            for (platform, n_cores) in cores.iter().enumerate() {
                prop_assert!(shares.rows().map(|row| row[platform]).sum::<u64>() <= *n_cores);
            }
        }
        let fair = equal_parts(cores.iter().sum(), &tasks);
        let shares = Allocation::PaRr { unit_cores: unit }.share(&demand).cores;
        for (user, fair) in fair.iter().enumerate() {
            prop_assert_eq!(shares.row(user).iter().sum::<u64>(), *fair);
        }
    }
}
