//! Tests of matching ahead of time: small cases by hand, and that every task runs once.

use proptest::prelude::*;

use super::*;

fn times(rows: &[[f64; 2]]) -> Table<f64> {
    Table::from_rows(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>()).unwrap()
}

/// Compares task, machine and end, in the order of assignment.
fn check(policy: StaticMap, rows: &[[f64; 2]], expected: &[(usize, usize, f64)]) {
    let given = policy.assign(&times(rows));
    let found: Vec<_> = given.iter().map(|one| (one.task, one.machine, one.end)).collect();
    assert_eq!(found, expected, "{policy:?}");
}

const TIMES: [[f64; 2]; 4] = [[4.0, 5.0], [3.0, 9.0], [2.0, 6.0], [8.0, 8.0]];

#[test]
fn min_min_gives_what_can_end_first() {
    // Task 2 ends at 2 on machine 0. Then tasks 0 and 1 could both end at 5, and the lower one goes, to
    // machine 1; task 1 goes to machine 0 until 5, and task 3 ends at 13 on either, so it goes to the lower.
    check(StaticMap::MinMin, &TIMES, &[(2, 0, 2.0), (0, 1, 5.0), (1, 0, 5.0), (3, 0, 13.0)]);
}

#[test]
fn max_std_gives_what_differs_most() {
    // Deviations .5, 3, 2 and 0.
    check(StaticMap::MaxStd, &TIMES, &[(1, 0, 3.0), (2, 0, 5.0), (0, 1, 5.0), (3, 0, 13.0)]);
    // Deviations 1, 1, 2 and .5: in seconds, not by the mean; the lower task of equal ones goes first.
    let times = [[1.0, 3.0], [3.0, 1.0], [100.0, 104.0], [1.0, 2.0]];
    check(StaticMap::MaxStd, &times, &[(2, 0, 100.0), (0, 1, 3.0), (1, 1, 4.0), (3, 1, 6.0)]);
}

#[test]
fn sufferage_gives_to_who_loses_most() {
    // Tasks 0 to 2 claim machine 0, and task 1 keeps it: it loses 6 elsewhere. Then task 2 claims machine 0,
    // where it ends at 5, and tasks 0 and 3 claim machine 1, where 3 loses more: 11 against 8.
    check(StaticMap::Sufferage, &TIMES, &[(1, 0, 3.0), (2, 0, 5.0), (3, 1, 8.0), (0, 0, 9.0)]);
    // The losses are 5 and 6, though the first task would end later there.
    check(StaticMap::Sufferage, &[[4.0, 9.0], [1.0, 7.0]], &[(1, 0, 1.0), (0, 0, 5.0)]);
}

#[test]
fn one_machine_suffers_nobody_and_none_runs_nothing() {
    let one = Table::from_rows(&[vec![2.0], vec![1.0]]).unwrap();
    let order = |policy: StaticMap| policy.assign(&one).iter().map(|given| given.task).collect::<Vec<_>>();
    assert_eq!(order(StaticMap::Sufferage), [0, 1]);
    assert_eq!(order(StaticMap::MinMin), [1, 0]);
    assert_eq!(StaticMap::MinMin.assign(&Table::new(0, 0, 0.0)), []);
}

proptest! {
    #[test]
    fn every_task_is_run_once_and_one_after_the_other(
        rows in prop::collection::vec(prop::collection::vec(0..20u32, 3), 0..30),
    ) {
        let rows: Vec<Vec<f64>> = rows.into_iter().map(|row| row.into_iter().map(f64::from).collect()).collect();
        let times = Table::from_rows(&rows).unwrap();
        for policy in [StaticMap::MinMin, StaticMap::MaxStd, StaticMap::Sufferage] {
            let given = policy.assign(&times);
            let mut tasks: Vec<_> = given.iter().map(|one| one.task).collect();
            tasks.sort_unstable();
            prop_assert_eq!(tasks, (0..rows.len()).collect::<Vec<_>>());
            let mut free_at = [0.0; 3];
            for one in &given {
                prop_assert_eq!(one.end, free_at[one.machine] + times.at(one.task, one.machine));
                free_at[one.machine] = one.end;
            }
        }
    }

    #[test]
    fn min_min_is_that_of_the_definition(
        rows in prop::collection::vec(prop::collection::vec(0..20u32, 3), 0..12),
    ) {
        let rows: Vec<Vec<f64>> = rows.into_iter().map(|row| row.into_iter().map(f64::from).collect()).collect();
        let mut left: Vec<usize> = (0..rows.len()).collect();
        let mut free_at = [0.0; 3];
        for one in StaticMap::MinMin.assign(&Table::from_rows(&rows).unwrap()) {
            let all = left.iter().flat_map(|task| (0..3).map(move |machine| (*task, machine)));
            let end = |(task, machine): &(usize, usize)| free_at[*machine] + rows[*task][*machine];
            let first = all.min_by(|a, b| end(a).total_cmp(&end(b)));
            prop_assert_eq!(first, Some((one.task, one.machine)));
            free_at[one.machine] = one.end;
            left.retain(|task| *task != one.task);
        }
    }
}
