//! First-level shares of paper 000's scenarios, worked out independently, and what always holds.

use proptest::prelude::*;

use super::{Allocation, Demand, equal_parts};
use crate::policy::{
    affinity::{Affinity, tests_of_paper::RUNTIMES},
    table::Table,
};

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
        // A platform without nodes is not there.
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

#[test]
fn a_platform_stays_with_whom_it_went_to() {
    let affinity = Table::from_rows(&[vec![2.0], vec![1.0]]).unwrap();
    let before = Table::from_rows(&[vec![false], vec![true]]).unwrap();
    let demand = |favourites| Demand { tasks: &[9, 9], cores: &[8], affinity: &affinity, favourites };
    let paf = Allocation::Paf { percent: 50 };
    let first = paf.share(&demand(None));
    assert_eq!((first.cores.at(0, 0), first.cores.at(1, 0)), (8, 0));
    let again = paf.share(&demand(Some(&before)));
    assert_eq!((again.cores.at(0, 0), again.cores.at(1, 0)), (4, 4));
    assert_eq!(again.favourites.unwrap().row(0), [true]);
}

#[test]
fn equal_parts_are_capped_and_leave_nothing_over() {
    assert_eq!(equal_parts(10, &[9, 9, 9]), [4, 3, 3]);
    assert_eq!(equal_parts(10, &[1, 9, 9]), [1, 5, 4]);
    assert_eq!(equal_parts(100, &[1, 2]), [1, 2]);
    assert!(equal_parts(5, &[]).is_empty());
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
