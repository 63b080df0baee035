//! Tables: written into a page as Markdown and beside it as CSV.

/// A table with a name of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// Of its CSV file, without folder and ending: lower case, words joined by hyphens.
    pub name: String,
    /// Above it.
    pub title: String,
    /// Column heads, with units.
    pub columns: Vec<String>,
    /// One cell a column.
    pub rows: Vec<Vec<Cell>>,
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, shown with so many digits after the point; the CSV has all of it.
    Number(f64, usize),
    /// Nothing: not published, or not run.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}
