//! Tables: written into a page as Markdown and beside it as CSV.

use super::Draws;

/// A table with a name of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// Name of its CSV file, without directory and extension: lower case, words joined by hyphens.
    pub name: String,
    /// Title above the table.
    pub title: String,
    /// Column heads, with units.
    pub columns: Vec<String>,
    /// Rows with one cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

/// The content of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A number, shown with this many digits after the point; the CSV has all digits.
    Number(f64, usize),
    /// Mean ± standard deviation; the CSV has a column for each.
    Mean(Draws, usize),
    /// No value: not published, or not run.
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

impl Cell {
    /// Formats the cell for people.
    pub(super) fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value, n_digits) => format!("{value:.n_digits$}"),
            Cell::Mean(draws, n_digits) => draws.shown(*n_digits),
            Cell::Empty => String::new(),
        }
    }

    fn is_number(&self) -> bool {
        !matches!(self, Cell::Text(_))
    }
}

impl Listing {
    /// Returns the table with its title, for a page.
    pub fn to_markdown(&self) -> String {
        let is_of_numbers = |column: usize| {
            self.rows.iter().all(|row| row.get(column).is_none_or(Cell::is_number)) && !self.rows.is_empty()
        };
        let rules: Vec<&str> = (0..self.columns.len())
            .map(|column| if is_of_numbers(column) { "---:" } else { "---" })
            .collect();
        let mut text = format!("**{}**\n\n{}{}", self.title, line(&self.columns), line(&rules));
        for row in &self.rows {
            text += &line(&row.iter().map(Cell::shown).collect::<Vec<_>>());
        }
        text
    }

    /// Returns column heads and rows, numbers with all their digits; a mean is followed by its standard
    /// deviation.
    pub fn to_csv(&self) -> String {
        let has_sd = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.into_iter().any(|cell| matches!(cell, Cell::Mean(draws, _) if draws.n > 1))
        };
        let has_sd: Vec<bool> = (0..self.columns.len()).map(has_sd).collect();
        let heads = self.columns.iter().zip(&has_sd).flat_map(|(head, has_sd)| {
            [Some(head.clone()), has_sd.then(|| format!("{head}: standard deviation"))]
        });
        let mut text = csv_line(heads.flatten());
        for row in &self.rows {
            let both = row.iter().zip(&has_sd).flat_map(|(cell, has_sd)| {
                let [value, sd] = in_file(cell);
                [Some(value), has_sd.then_some(sd)]
            });
            text += &csv_line(both.flatten());
        }
        text
    }
}

/// Returns a value and its deviation.
fn in_file(cell: &Cell) -> [String; 2] {
    match cell {
        Cell::Text(text) => [text.clone(), String::new()],
        Cell::Number(value, _) => [value.to_string(), String::new()],
        Cell::Mean(draws, _) if draws.n > 1 => [draws.mean.to_string(), draws.sd.to_string()],
        Cell::Mean(draws, _) => [draws.mean.to_string(), String::new()],
        Cell::Empty => [String::new(), String::new()],
    }
}

/// Formats a row of a Markdown table.
pub(super) fn line<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| cell.as_ref().replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::{Cell, Draws, Listing};

    #[test]
    fn numbers_are_short_in_the_page_and_whole_in_the_file() {
        let rows =
            vec![vec!["a | b, \"c\"".into(), Cell::Number(0.123_456, 2)], vec!["d".into(), Cell::Empty]];
        let columns = vec!["what".to_owned(), "s".to_owned()];
        let listing = Listing { name: "t".into(), title: "T".into(), columns, rows };
        assert_eq!(
            listing.to_markdown(),
            "**T**\n\n| what | s |\n| --- | ---: |\n| a \\| b, \"c\" | 0.12 |\n| d |  |\n"
        );
        assert_eq!(listing.to_csv(), "what,s\n\"a | b, \"\"c\"\"\",0.123456\nd,\n");
    }

    #[test]
    fn means_have_their_deviation_beside_them() {
        let rows = vec![
            vec!["a".into(), Cell::Mean(Draws::of([1.0, 3.0]), 1)],
            vec!["b".into(), Cell::Mean(Draws::of([4.0]), 1)],
        ];
        let columns = vec!["what".to_owned(), "s".to_owned()];
        let listing = Listing { name: "t".into(), title: "T".into(), columns, rows };
        assert!(listing.to_markdown().ends_with("| a | 2.0 ± 1.4 |\n| b | 4.0 |\n"));
        assert_eq!(listing.to_csv(), "what,s,s: standard deviation\na,2,1.4142135623730951\nb,4,\n");
    }
}
