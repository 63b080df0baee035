//! Throughput: the user's tasks that a core of the platform completes in a given time (paper 000, section
//! 4.1).

use super::Table;

/// Returns tasks per second on one core.
pub(super) fn table(runtimes: &Table<f64>) -> Table<f64> {
    runtimes.map_places(|user, platform| 1.0 / runtimes.at(user, platform))
}

#[cfg(test)]
mod tests {
    use super::super::{Affinity, tests_of_paper::runtimes};

    #[test]
    fn tasks_of_an_hour_are_those_of_table_3() {
        let throughput = Affinity::Throughput.table(&runtimes(), &[false, true, false, false, false]);
        let of_an_hour = |user, platform| throughput.at(user, platform) * 3600.0;
        // Montage on gene and lcloud, Blast on gene: as printed, independent of the users in need.
        for (found, printed) in
            [(of_an_hour(3, 0), 11.64), (of_an_hour(3, 3), 33.76), (of_an_hour(1, 0), 56.28)]
        {
            assert!((found - printed).abs() < 0.005, "{found}, not {printed}");
        }
    }
}
