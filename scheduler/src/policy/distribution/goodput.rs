//! Goodput: tasks per second that a platform finishes for good, by application; learned from measurements.

use serde::{Deserialize, Serialize};

use super::{Known, Measured};
use crate::policy::table::Table;

/// The least learned rate, as a part of the profiled rate: a platform that got no tasks any more could not
/// show that it has recovered.
const LEAST_PART: f64 = 0.01;

/// Moving averages: older measurements count less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    rates: Table<f64>,
    least: Table<f64>,
    memory_s: f64,
}

impl Goodput {
    /// Starts with the profiled rates. `memory_s`: seconds of measurement that weigh as much as all earlier
    /// ones.
    pub fn new(known: &Known<'_>, memory_s: f64) -> Goodput {
        let rates = known.rates();
        let least = rates.map_places(|row, column| rates.at(row, column) * LEAST_PART);
        Goodput { rates, least, memory_s }
    }

    /// Returns the tasks per second of each application (row) that each platform (column) finishes with all
    /// its cores.
    pub fn rates(&self) -> &Table<f64> {
        &self.rates
    }

    /// Adds a measurement. Ignores measurements of no duration and invalid numbers.
    pub fn learn(&mut self, measured: &Measured) {
        let seconds = measured.platform_s;
        let rate = measured.n_finished / seconds;
        if !(seconds > 0.0 && seconds.is_finite() && rate.is_finite() && rate >= 0.0) {
            return;
        }
        let (row, column) = (measured.application, measured.platform);
        let part = seconds / (seconds + self.memory_s.max(0.0));
        let known = self.rates.at_mut(row, column);
        *known = (*known + part * (rate - *known)).max(self.least.at(row, column));
    }
}

#[cfg(test)]
mod tests {
    use super::{Goodput, Known, Measured, Table};

    /// Returns the rates after these measurements, as (tasks, seconds); each application begins with one task
    /// per second on each platform.
    fn learned(memory_s: f64, measured: &[(f64, f64)]) -> Table<f64> {
        let runtimes = Table::new(2, 2, Some(10.0));
        let mut goodput = Goodput::new(&Known { cores: &[10, 10], runtimes: &runtimes }, memory_s);
        for (n_finished, platform_s) in measured.iter().copied() {
            goodput.learn(&Measured { application: 1, platform: 0, n_finished, platform_s });
        }
        goodput.rates().clone()
    }

    #[test]
    fn what_was_measured_counts_by_its_seconds_against_the_memory() {
        for (memory_s, measured, expected) in [
            // Five per second: 300 of 400 s, 100 of 400 s.
            (100.0, &[(1500.0, 300.0)][..], 4.0),
            (300.0, &[(500.0, 100.0)], 2.0),
            // Five per second for half of the weight, then none for a third of it.
            (60.0, &[(300.0, 60.0), (0.0, 30.0)], 2.0),
            // No memory at all, and a negative one.
            (0.0, &[(1500.0, 300.0), (7.0, 1.0)], 7.0),
            (-100.0, &[(1500.0, 300.0)], 5.0),
            // At least a hundredth of the profiled rate.
            (0.0, &[(0.0, 300.0)], 0.01),
            // Invalid measurements.
            (100.0, &[(5.0, 0.0), (5.0, -1.0), (5.0, f64::INFINITY), (-5.0, 1.0), (f64::NAN, 1.0)], 1.0),
        ] {
            let rates = learned(memory_s, measured);
            assert!((rates.at(1, 0) - expected).abs() < 1e-12, "{memory_s} {measured:?}: {}", rates.at(1, 0));
            assert_eq!([rates.at(0, 0), rates.at(0, 1), rates.at(1, 1)], [1.0; 3], "others stay");
        }
    }
}
