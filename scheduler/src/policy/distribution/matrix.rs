//! The weight matrix W: a row of weights for each application, a column for each platform.

use serde::{Deserialize, Serialize};

use super::weights::Weights;
use crate::policy::table::Table;

/// Rows of weights, all for the same platforms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Weights>", into = "Vec<Weights>")]
pub struct WeightMatrix(Vec<Weights>);

/// The reason why rows form no matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found} weights in row {row}; the first row has {expected}")]
pub struct Ragged {
    /// Index of the row, from 0.
    pub row: usize,
    /// Number of weights in it.
    pub found: usize,
    /// Number of weights in the first row.
    pub expected: usize,
}

impl WeightMatrix {
    pub(super) fn new(rows: Vec<Weights>) -> WeightMatrix {
        WeightMatrix(rows)
    }

    /// Makes weights in proportion to each row of amounts; equal weights if the amounts are of no use.
    pub fn of(amounts: &Table<f64>) -> WeightMatrix {
        let row = |amounts: &[f64]| Weights::of(amounts).unwrap_or_else(|| Weights::equal(amounts.len()));
        WeightMatrix(amounts.rows().map(row).collect())
    }

    /// Returns the weights of one application.
    ///
    /// # Panics
    /// It has no row.
    pub fn row(&self, application: usize) -> &Weights {
        &self.0[application]
    }

    /// Returns all rows, in order.
    pub fn rows(&self) -> &[Weights] {
        &self.0
    }

    /// Shifts every row, as [`Weights::shift`] does; returns how many rows would have left 0 to 1.
    pub fn shift(&mut self, loses: &[bool], loss: f64) -> usize {
        let mut n_clamped = 0;
        for row in &mut self.0 {
            let shifted = row.shift(loses, loss);
            n_clamped += usize::from(shifted.was_clamped);
            *row = shifted.weights;
        }
        n_clamped
    }
}

impl TryFrom<Vec<Weights>> for WeightMatrix {
    type Error = Ragged;

    fn try_from(rows: Vec<Weights>) -> Result<WeightMatrix, Ragged> {
        let expected = rows.first().map_or(0, |row| row.shares().len());
        let ragged = rows.iter().position(|row| row.shares().len() != expected);
        match ragged {
            Some(row) => Err(Ragged { row, found: rows[row].shares().len(), expected }),
            None => Ok(WeightMatrix(rows)),
        }
    }
}

impl From<WeightMatrix> for Vec<Weights> {
    fn from(matrix: WeightMatrix) -> Vec<Weights> {
        matrix.0
    }
}
