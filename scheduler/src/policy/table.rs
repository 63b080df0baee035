//! Tables by user and platform, the inputs and results of most policies of the fairness paper.

use serde::{Deserialize, Serialize};

/// A rectangle of numbers: a row for each user, a column for each platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table<T> {
    n_columns: usize,
    cells: Vec<T>,
}

impl<T: Copy> Table<T> {
    /// Makes `n_rows` rows of `n_columns` cells, each with this value.
    pub fn new(n_rows: usize, n_columns: usize, value: T) -> Table<T> {
        Table { n_columns, cells: vec![value; n_rows * n_columns] }
    }

    /// Makes a table of these rows; `None` unless all of them have the same length.
    pub fn from_rows(rows: &[Vec<T>]) -> Option<Table<T>> {
        let n_columns = rows.first().map_or(0, Vec::len);
        let is_rectangle = rows.iter().all(|row| row.len() == n_columns);
        is_rectangle.then(|| Table { n_columns, cells: rows.concat() })
    }

    /// Returns the number of rows.
    pub fn n_rows(&self) -> usize {
        self.cells.len().checked_div(self.n_columns).unwrap_or(0)
    }

    /// Returns the number of columns.
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Returns a cell.
    ///
    /// # Panics
    /// The place is outside of the table.
    pub fn at(&self, row: usize, column: usize) -> T {
        self.row(row)[column]
    }

    /// Returns a mutable cell.
    ///
    /// # Panics
    /// The place is outside of the table.
    pub fn at_mut(&mut self, row: usize, column: usize) -> &mut T {
        assert!(column < self.n_columns, "column {column} of {}", self.n_columns);
        &mut self.cells[row * self.n_columns + column]
    }

    /// Returns a row.
    ///
    /// # Panics
    /// The row is outside of the table.
    pub fn row(&self, row: usize) -> &[T] {
        &self.cells[row * self.n_columns..(row + 1) * self.n_columns]
    }

    /// Returns all rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[T]> {
        (0..self.n_rows()).map(|row| self.row(row))
    }

    /// Makes a table of the same shape, each cell computed from its row and column.
    pub fn map_places<U: Copy>(&self, value: impl Fn(usize, usize) -> U) -> Table<U> {
        let places = (0..self.n_rows()).flat_map(|row| (0..self.n_columns).map(move |column| (row, column)));
        Table { n_columns: self.n_columns, cells: places.map(|(row, column)| value(row, column)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn rows_are_kept_apart() {
        let mut table = Table::from_rows(&[vec![1, 2], vec![3, 4]]).unwrap();
        *table.at_mut(1, 0) = 7;
        assert_eq!(table.rows().collect::<Vec<_>>(), [[1, 2], [7, 4]]);
        assert_eq!(table.map_places(|row, column| row * 10 + column).row(1), [10, 11]);
        assert_eq!(Table::from_rows(&[vec![1], vec![]]), None);
        assert_eq!(Table::new(0, 3, 0).n_rows(), 0);
    }
}
