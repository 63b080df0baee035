//! Tables: columns as wide as what is in them, narrowed to the screen.

use crate::show::{Ink, Screen};

/// A narrowed column keeps at least so many characters.
const WIDTH_MIN: usize = 12;
/// Columns stand so far apart.
const GAP: &str = "  ";

/// On which side of its column a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// One field of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    ink: Ink,
}

/// A table with a heading.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<Cell>>,
}

impl Cell {
    /// A field that stands out.
    pub fn inked(ink: Ink, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ink }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), ink: Ink::Plain }
    }
}

impl Table {
    /// A table without rows. A title that begins with `>` is of a column of numbers.
    pub fn new(titles: &[&str]) -> Table {
        let mut table = Table::default();
        for title in titles {
            match title.strip_prefix('>') {
                Some(title) => table.column(title, Side::Right),
                None => table.column(*title, Side::Left),
            }
        }
        table
    }

    /// One more column on the right.
    pub fn column(&mut self, title: impl Into<String>, side: Side) {
        self.columns.push((title.into(), side));
    }

    /// One more row at the bottom.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text for this screen; every line ends.
    pub fn render(&self, screen: &Screen) -> String {
        let widths = self.widths(screen.width);
        let heading: Vec<Cell> =
            self.columns.iter().map(|(title, _)| Cell::inked(Ink::Bold, title.as_str())).collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            self.render_row(row, &widths, screen, &mut text);
        }
        text
    }

    fn render_row(&self, row: &[Cell], widths: &[usize], screen: &Screen, text: &mut String) {
        let mut line = String::new();
        let n_columns = self.columns.len();
        for (n, ((cell, width), (_, side))) in row.iter().zip(widths).zip(&self.columns).enumerate() {
            if n > 0 {
                line.push_str(GAP);
            }
            let shown = shortened(&cell.text, *width);
            let padding = " ".repeat(width.saturating_sub(width_of(&shown)));
            let painted = screen.paint(cell.ink, &shown);
            match side {
                Side::Right => line.extend([padding.as_str(), &painted]),
                Side::Left if n + 1 == n_columns => line.push_str(&painted),
                Side::Left => line.extend([painted.as_str(), &padding]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

    /// The width of each column: of its longest text, or less where the screen is too narrow.
    fn widths(&self, screen_width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(title, _)| width_of(title)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(width_of(&cell.text));
            }
        }
        let Some(screen_width) = screen_width else { return widths };
        let gaps = GAP.len() * widths.len().saturating_sub(1);
        loop {
            let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(screen_width);
            let widest = widths.iter_mut().filter(|width| **width > WIDTH_MIN).max();
            match widest {
                Some(widest) if excess > 0 => *widest = widest.saturating_sub(excess.min(8)).max(WIDTH_MIN),
                _ => return widths,
            }
        }
    }
}

/// The text in at most `width` characters, without line ends.
pub fn shortened(text: &str, width: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if width_of(&text) <= width {
        return text;
    }
    let mut kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::show::{Ink, Screen, table::Cell};

    fn table() -> Table {
        let mut table = Table::new(&["NAME", ">TASKS", "STATE"]);
        table.row(vec!["docking".into(), "1,000".into(), Cell::inked(Ink::Green, "done")]);
        table.row(vec!["a\tb".into(), "7".into(), "active".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let expected = "NAME     TASKS  STATE\ndocking  1,000  done\na b          7  active\n";
        assert_eq!(table().render(&Screen::default()), expected);
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let screen = Screen { is_terminal: true, has_colour: true, width: None };
        let text = table().render(&screen);
        assert!(text.contains("docking  1,000  \x1b[32mdone\x1b[0m\n"), "{text:?}");
    }

    #[test]
    fn long_texts_are_shortened_to_the_screen() {
        let mut table = Table::new(&[">N", "PATH"]);
        table.row(vec!["1".into(), "/a/very/long/path/of/a/ligand.pdbqt".into()]);
        let screen = Screen { width: Some(20), ..Screen::default() };
        assert_eq!(table.render(&screen), "N  PATH\n1  /a/very/long/pat…\n");
    }
}
