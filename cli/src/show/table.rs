//! Tables: columns as wide as what is in them. On a screen that is too narrow, texts are cut off, but no number is;
//! what is too wide then goes on below, and columns with nothing in them are left out.

use std::ops::Range;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::show::{Ink, Screen, harmless::on_one_line};

/// Columns of texts are narrowed down to so many places one after the other, the widest first.
const NARROWED: [usize; 2] = [12, 6];
/// How far the further lines of a folded row stand in.
const INDENT: &str = "    ";
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

    /// The table as text for this screen; of one without rows only that there is `nothing`, like `no pilots`.
    pub fn render_or(&self, nothing: &str, screen: &Screen) -> String {
        if self.rows.is_empty() { format!("{nothing}\n") } else { self.render(screen) }
    }

    /// The table as text for this screen; every line ends.
    pub fn render(&self, screen: &Screen) -> String {
        let columns = self.shown_columns(screen);
        let widths = self.widths(&columns, screen.width);
        let lines = folded(&widths, screen.width);
        let heading: Vec<Cell> =
            self.columns.iter().map(|(title, _)| Cell::inked(Ink::Bold, title.as_str())).collect();
        let mut text = String::new();
        for row in std::iter::once(&heading).chain(&self.rows) {
            for (n, range) in lines.iter().enumerate() {
                let indent = if n > 0 { INDENT } else { "" };
                // A single column may be wider than the screen.
                let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(indent.len()).max(1));
                let widths = widths[range.clone()].iter().map(|width| (*width).min(room));
                let fields = columns[range.clone()].iter().copied().zip(widths);
                self.render_line(row, indent, fields, screen, &mut text);
            }
        }
        text
    }

    fn render_line(
        &self,
        row: &[Cell],
        indent: &str,
        fields: impl Iterator<Item = (usize, usize)>,
        screen: &Screen,
        text: &mut String,
    ) {
        let mut line = indent.to_owned();
        for (n, (column, width)) in fields.enumerate() {
            if n > 0 {
                line.push_str(GAP);
            }
            let Some(cell) = row.get(column) else { continue };
            let shown = shortened(&cell.text, width);
            let padding = " ".repeat(width.saturating_sub(width_of(&shown)));
            let painted = screen.paint(cell.ink, &shown);
            match self.side(column) {
                Side::Right => line.extend([padding.as_str(), &painted]),
                Side::Left => line.extend([painted.as_str(), &padding]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

    fn side(&self, column: usize) -> Side {
        self.columns.get(column).map_or(Side::Left, |(_, side)| *side)
    }

    /// Columns by their place. On a screen of known width, only those in which there is anything.
    fn shown_columns(&self, screen: &Screen) -> Vec<usize> {
        let is_empty = |column: usize| {
            self.rows.iter().all(|row| row.get(column).is_none_or(|cell| cell.text.trim().is_empty()))
        };
        let drops = screen.width.is_some() && !self.rows.is_empty();
        (0..self.columns.len()).filter(|column| !drops || !is_empty(*column)).collect()
    }

    /// The width of each of these columns: of its longest text, or less where the screen is too narrow. Numbers keep
    /// theirs.
    fn widths(&self, columns: &[usize], screen_width: Option<usize>) -> Vec<usize> {
        let width = |column: &usize| {
            let title = self.columns.get(*column).map_or(0, |(title, _)| width_of(title));
            let cells = self.rows.iter().filter_map(|row| row.get(*column));
            cells.map(|cell| width_of(&on_one_line(&cell.text))).max().unwrap_or(0).max(title)
        };
        let mut widths: Vec<usize> = columns.iter().map(width).collect();
        let Some(screen_width) = screen_width else { return widths };
        for least in NARROWED {
            loop {
                let excess = line_width(&widths).saturating_sub(screen_width);
                let texts =
                    widths.iter_mut().zip(columns).filter(|(_, column)| self.side(**column) == Side::Left);
                let widest = texts.map(|(width, _)| width).filter(|width| **width > least).max();
                match widest {
                    Some(widest) if excess > 0 => *widest = widest.saturating_sub(excess.min(8)).max(least),
                    _ => break,
                }
            }
        }
        widths
    }
}

fn line_width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// Which columns stand on which line of a row.
fn folded(widths: &[usize], screen_width: Option<usize>) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    let Some(screen_width) = screen_width else { return std::iter::once(0..widths.len()).collect() };
    for end in 1..=widths.len() {
        let indent = if lines.is_empty() { 0 } else { INDENT.len() };
        if end - start > 1 && indent + line_width(&widths[start..end]) > screen_width {
            lines.push(start..end - 1);
            start = end - 1;
        }
    }
    lines.push(start..widths.len());
    lines
}

/// The text in at most `width` places of a terminal, without line ends and control characters.
pub fn shortened(text: &str, width: usize) -> String {
    let text = on_one_line(text);
    if width_of(&text) <= width {
        return text;
    }
    let mut kept = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let n = c.width().unwrap_or(0);
        if n > left {
            break;
        }
        left -= n;
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// How many places of a terminal a text takes: wide characters take two.
pub fn width_of(text: &str) -> usize {
    text.width()
}

#[cfg(test)]
mod tests {
    use super::Table;
    use crate::show::{Ink, Screen, table::Cell};

    #[test]
    fn a_table_without_rows_is_told_of_in_words() {
        let empty = Table::new(&["A", ">B"]);
        assert_eq!(empty.render_or("no pilots", &Screen::default()), "no pilots\n");
        assert_eq!(table().render_or("no pilots", &Screen::default()), table().render(&Screen::default()));
    }

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

    fn on(width: usize) -> Screen {
        Screen { width: Some(width), ..Screen::default() }
    }

    fn widest(text: &str) -> usize {
        text.lines().map(super::width_of).max().unwrap_or(0)
    }

    #[test]
    fn wide_characters_count_as_two_places() {
        let mut table = Table::new(&["NAME", ">N"]);
        table.row(vec!["漢字の名前".into(), "1".into()]);
        table.row(vec!["plain".into(), "22".into()]);
        assert_eq!(table.render(&Screen::default()), "NAME         N\n漢字の名前   1\nplain       22\n");
        assert_eq!(super::shortened("漢字の名前", 6), "漢字…");
        assert_eq!(super::shortened("漢字", 4), "漢字");
    }

    #[test]
    fn table_that_is_too_wide_is_folded_and_no_number_is_cut_off() {
        let mut table = Table::new(&["A", ">FIRST", ">SECOND", "B"]);
        table.row(vec!["x".repeat(50).into(), "1,000,000".into(), "2,000,000".into(), "y".repeat(50).into()]);
        let text = table.render(&on(24));
        assert_eq!(text, "A           FIRST\n       SECOND  B\nxxxxx…  1,000,000\n    2,000,000  yyyyy…\n");
        assert!(widest(&text) <= 24);
    }

    #[test]
    fn columns_with_nothing_in_them_are_left_out_on_a_screen_only() {
        let mut table = Table::new(&["A", "WHY", ">N"]);
        table.row(vec!["x".into(), "".into(), "1".into()]);
        assert_eq!(table.render(&on(80)), "A  N\nx  1\n");
        assert_eq!(table.render(&Screen::default()), "A  WHY  N\nx       1\n");
        assert_eq!(Table::new(&["A", "B"]).render(&on(80)), "A  B\n", "an empty table has its heading");
    }

    #[test]
    fn control_characters_take_no_part_in_a_table() {
        let mut table = Table::new(&["A"]);
        table.row(vec!["a\x1b[2Jb\nc".into()]);
        assert_eq!(table.render(&on(80)), "A\na [2Jb c\n");
    }
}
