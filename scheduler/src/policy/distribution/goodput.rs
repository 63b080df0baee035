//! Goodput: tasks a second that a platform finishes for good, by application; learned from what it does.

use serde::{Deserialize, Serialize};

use super::{Known, Measured};
use crate::policy::table::Table;

/// No learned rate is below this part of the profiled one: a platform that is given nothing any more could
/// not show that it has recovered.
const LEAST_PART: f64 = 0.01;

/// Means that forget: what was measured long ago counts less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    rates: Table<f64>,
    least: Table<f64>,
    memory_s: f64,
}

impl Goodput {
    /// From the profile; `memory_s`: seconds of measuring that count as much as all before.
    pub fn new(known: &Known<'_>, memory_s: f64) -> Goodput {
        let rates = known.rates();
        let least = rates.map_places(|row, column| rates.at(row, column) * LEAST_PART);
        Goodput { rates, least, memory_s }
    }

    /// Tasks a second of each application (row) that each platform (column) finishes with all its cores.
    pub fn rates(&self) -> &Table<f64> {
        &self.rates
    }

    /// Takes a measurement in. One of no length, or of numbers that are none, says nothing.
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
