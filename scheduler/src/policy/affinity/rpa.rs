//! Relative platform affinity: the effective platform affinity of runtimes that are divided by the mean
//! runtime of all users that have tasks left. A platform that suits everybody is then nobody's favourite
//! (paper 000, section 4.1).

use super::{Table, epa};

/// Returns the affinities. Users without tasks do not count in the mean, unless no user has tasks.
pub(super) fn table(runtimes: &Table<f64>, is_in_need: &[bool]) -> Table<f64> {
    let counts = |user: usize| is_in_need.get(user).copied().unwrap_or(false);
    let users: Vec<usize> = (0..runtimes.n_rows()).filter(|user| counts(*user)).collect();
    let users = if users.is_empty() { (0..runtimes.n_rows()).collect() } else { users };
    let mean =
        |platform| users.iter().map(|user| runtimes.at(*user, platform)).sum::<f64>() / users.len() as f64;
    let means: Vec<f64> = (0..runtimes.n_columns()).map(mean).collect();
    epa::table(&runtimes.map_places(|user, platform| runtimes.at(user, platform) / means[platform]))
}

#[cfg(test)]
mod tests {
    use super::super::{Affinity, Table, tests_of_paper::*};

    #[test]
    fn table_3_of_the_paper() {
        assert_near(&Affinity::Rpa.table(&runtimes(), &[true; 5]), &RPA);
    }

    #[test]
    fn users_without_tasks_count_for_nobody() {
        let runtimes = runtimes();
        let first_two: Vec<_> = runtimes.rows().take(2).map(<[f64]>::to_vec).collect();
        let of_two = Affinity::Rpa.table(&Table::from_rows(&first_two).unwrap(), &[true; 2]);
        let in_need = [true, true, false, false, false];
        let of_five = Affinity::Rpa.table(&runtimes, &in_need);
        assert_eq!((of_five.row(0), of_five.row(1)), (of_two.row(0), of_two.row(1)));
        assert_eq!(
            Affinity::Rpa.table(&runtimes, &in_need[..2]),
            of_five,
            "who is not told of is not in need"
        );
    }

    #[test]
    fn while_nobody_is_in_need_all_count_and_one_platform_is_as_good_as_itself() {
        let all = Affinity::Rpa.table(&runtimes(), &[true; 5]);
        assert_eq!(Affinity::Rpa.table(&runtimes(), &[false; 5]), all);
        let one = Table::from_rows(&[vec![3.0], vec![9.0]]).unwrap();
        assert_eq!(Affinity::Rpa.table(&one, &[true; 2]), Table::new(2, 1, 1.0));
    }
}
