//! Effective platform affinity: how much longer the user's tasks take elsewhere (paper 000, section 4.1).

use super::Table;

/// Returns the mean runtime on all other platforms divided by the runtime on this one; 1 if there is no
/// other.
pub(super) fn table(runtimes: &Table<f64>) -> Table<f64> {
    runtimes.map_places(|user, platform| {
        let row = runtimes.row(user);
        let n_others = row.len() - 1;
        if n_others == 0 {
            return 1.0;
        }
        let others = row.iter().enumerate().filter(|(other, _)| *other != platform);
        others.map(|(_, runtime)| runtime).sum::<f64>() / n_others as f64 / row[platform]
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Affinity, Table, tests_of_paper::*};

    #[test]
    fn table_3_of_the_paper() {
        let epa = Affinity::Epa.table(&runtimes(), &[true; 5]);
        assert_near(&epa, &EPA);
        let one = Table::from_rows(&[vec![3.0], vec![9.0]]).unwrap();
        assert_eq!(Affinity::Epa.table(&one, &[true; 2]).row(1), [1.0]);
    }
}
