//! Tables: columns as wide as what is in them. On a screen that is too narrow, texts are cut off, but no number is;
//! what is too wide then goes on below, and columns with nothing in them are left out. What tells rows and columns apart
//! is kept as far as it can be.

use std::ops::Range;

use unicode_width::UnicodeWidthChar;

use crate::show::{Ink, Screen, harmless::on_one_line};

/// Columns of texts are narrowed down to so many places one after the other, the widest first.
const NARROWED: [usize; 2] = [12, 6];
/// A column stays as wide as its title, if that has no more places.
const TITLE_MAX: usize = 12;
/// A column stays as wide as it must be for its texts to differ, if no more places are needed.
const DISTINCT_MAX: usize = 24;
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
    /// On one line, without control characters.
    text: String,
    /// The places of a terminal that the text takes. It is asked for several times, and counted once.
    width: usize,
    ink: Ink,
}

/// A table with a heading.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Side)>,
    /// Columns that are left out where the screen is too narrow and they have zeros only.
    optional: Vec<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Cell {
    /// A field that stands out.
    pub fn inked(ink: Ink, text: impl Into<String>) -> Cell {
        let text = on_one_line(&text.into());
        Cell { width: width_of(&text), text, ink }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::inked(Ink::Plain, text)
    }
}

impl Table {
    /// A table without rows. A title that begins with `>` is of a column of numbers; with `>?`, of one that may be left
    /// out where all of them are 0 and the screen is too narrow.
    pub fn new(titles: &[&str]) -> Table {
        let mut table = Table::default();
        for title in titles {
            if title.starts_with(">?") {
                table.optional.push(table.columns.len());
            }
            match title.strip_prefix(">?").or_else(|| title.strip_prefix('>')) {
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
        let widths = self.widened(&columns, widths, &lines, screen.width);
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
            let cut = (cell.width > width).then(|| shortened(&cell.text, width));
            let taken = cut.as_deref().map_or(cell.width, width_of);
            let padding = " ".repeat(width.saturating_sub(taken));
            let painted = screen.paint(cell.ink, cut.as_deref().unwrap_or(&cell.text));
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
        let all_are = |column: usize, nothing: &str| {
            self.rows.iter().all(|row| row.get(column).is_none_or(|cell| cell.text.trim() == nothing))
        };
        let Some(width) = screen.width.filter(|_| !self.rows.is_empty()) else {
            return (0..self.columns.len()).collect();
        };
        let mut columns: Vec<usize> =
            (0..self.columns.len()).filter(|column| !all_are(*column, "")).collect();
        let widths: Vec<usize> = columns.iter().map(|column| self.natural_width(*column)).collect();
        if line_width(&widths) > width {
            columns.retain(|column| !self.optional.contains(column) || !all_are(*column, "0"));
        }
        columns
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &Cell> {
        self.rows.iter().filter_map(move |row| row.get(column))
    }

    fn title(&self, column: usize) -> &str {
        self.columns.get(column).map_or("", |(title, _)| title)
    }

    /// The width of a column's longest text.
    fn natural_width(&self, column: usize) -> usize {
        self.cells(column).map(|cell| cell.width).max().unwrap_or(0).max(width_of(self.title(column)))
    }

    /// The width of each of these columns: of its longest text, or less where the screen is too narrow. Numbers keep
    /// theirs.
    fn widths(&self, columns: &[usize], screen_width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = columns.iter().map(|column| self.natural_width(*column)).collect();
        let Some(screen_width) = screen_width.filter(|width| line_width(&widths) > *width) else {
            return widths;
        };
        let needed = self.needed_widths(columns);
        for least in NARROWED {
            loop {
                let excess = line_width(&widths).saturating_sub(screen_width);
                let texts =
                    widths.iter_mut().zip(columns).zip(&needed).filter(|((width, column), needed)| {
                        self.side(**column) == Side::Left && **width > least.max(**needed)
                    });
                let widest =
                    texts.map(|((width, _), needed)| (width, needed)).max_by_key(|(width, _)| **width);
                match widest {
                    Some((widest, needed)) if excess > 0 => {
                        *widest = widest.saturating_sub(excess.min(8)).max(least).max(*needed);
                    }
                    _ => break,
                }
            }
        }
        widths
    }

    /// What each of these columns needs so that its title can be read, and is told from others, and so that its texts
    /// can be told apart. What would need too much is not heeded.
    fn needed_widths(&self, columns: &[usize]) -> Vec<usize> {
        let titles = columns.iter().map(|column| self.title(*column)).collect();
        let among_titles = distinct_width(titles);
        let needed = |column: &usize| {
            let title = width_of(self.title(*column));
            let of_title = if title > TITLE_MAX { 0 } else { title }.max(title.min(among_titles));
            of_title.max(distinct_width(self.cells(*column).map(|cell| cell.text.as_str()).collect()))
        };
        columns.iter().map(needed).collect()
    }

    /// The same widths, with what room a line has left given to texts of it that are cut.
    fn widened(
        &self,
        columns: &[usize],
        mut widths: Vec<usize>,
        lines: &[Range<usize>],
        screen_width: Option<usize>,
    ) -> Vec<usize> {
        let Some(screen_width) = screen_width else { return widths };
        for (n, line) in lines.iter().enumerate() {
            let indent = if n > 0 { INDENT.len() } else { 0 };
            let (Some(widths), Some(columns)) = (widths.get_mut(line.clone()), columns.get(line.clone()))
            else {
                continue;
            };
            let mut left = screen_width.saturating_sub(indent + line_width(widths));
            for (width, column) in widths.iter_mut().zip(columns) {
                let more = self.natural_width(*column).saturating_sub(*width).min(left);
                *width += more;
                left -= more;
            }
        }
        widths
    }
}

/// The places that these texts need to be told apart when they are cut there, but for those that need too many.
fn distinct_width(mut texts: Vec<&str>) -> usize {
    texts.sort_unstable();
    texts.dedup();
    let needed = |(one, next): (&&str, &&str)| {
        let shared = one.chars().zip(next.chars()).take_while(|(a, b)| a == b).count();
        let first_that_differs: String = next.chars().take(shared + 1).collect();
        // The sign that more follows has a place, too.
        let is_whole = first_that_differs.len() == next.len();
        width_of(&first_that_differs) + usize::from(!is_whole)
    };
    let all = texts.iter().zip(texts.iter().skip(1)).map(needed);
    all.filter(|width| *width <= DISTINCT_MAX).max().unwrap_or(0)
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
        let n = places(c);
        if n > left {
            break;
        }
        left -= n;
        kept.push(c);
    }
    // A joiner at the end has nothing to join.
    while kept.ends_with('\u{200d}') {
        kept.pop();
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// How many places of a terminal a text takes: wide characters take two, and characters that some terminals join to one
/// take what they take elsewhere.
pub fn width_of(text: &str) -> usize {
    text.chars().map(places).sum()
}

fn places(c: char) -> usize {
    // It makes the character before it a wide one.
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
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
        // Not every terminal joins the three of these.
        assert_eq!(super::shortened("x👩\u{200d}🔬 y", 5), "x👩…");
        assert_eq!([super::width_of("x👩\u{200d}🔬"), super::width_of("❤\u{fe0f}")], [5, 2]);
    }

    #[test]
    fn table_that_is_too_wide_is_folded_and_no_number_is_cut_off() {
        let mut table = Table::new(&["A", ">FIRST", ">SECOND", "B"]);
        table.row(vec!["x".repeat(50).into(), "1,000,000".into(), "2,000,000".into(), "y".repeat(50).into()]);
        let text = table.render(&on(24));
        assert_eq!(
            text,
            "A                  FIRST\n       SECOND  B\nxxxxxxxxxxxx…  1,000,000\n    2,000,000  yyyyyyyy…\n"
        );
        assert!(widest(&text) <= 24);
    }

    #[test]
    fn what_tells_rows_and_columns_apart_is_not_cut_off() {
        let mut table =
            Table::new(&["KIND", "NAME", ">MEAN", "WHERE", "parameter_of_pressure", "parameter_of_heat"]);
        for (name, place) in [("docking-fast", "cluster-a"), ("docking-slow", "cluster-b")] {
            let words = ["application", name, "1.25", place, "1013", "300"];
            table.row(words.map(Cell::from).to_vec());
        }
        let text = table.render(&on(44));
        for whole in ["docking-f", "docking-s", "cluster-a", "cluster-b", "parameter_of_p", "parameter_of_h"]
        {
            assert!(text.contains(whole), "{whole}: {text}");
        }
        assert!(widest(&text) <= 44, "{text}");
        let two = |one: &str, next: &str| super::distinct_width(vec![one, next]);
        assert_eq!(
            [two("same", "same"), two("dock", "docking"), two("a1", "a2"), two("ab1x", "ab2x")],
            [0, 6, 2, 4]
        );
    }

    #[test]
    fn room_that_a_folded_line_has_left_is_given_to_what_is_cut() {
        let mut table = Table::new(&[">TASK", "receptor", "ligand", ">TEMPERATURE", "WHY"]);
        let why = "ended with exit code 3";
        table.row(["1", "kinase-mice", "aspirin", "300.0", why].map(Cell::from).to_vec());
        let text = table.render(&on(40));
        assert!(text.ends_with(&format!("\n    {why}\n")), "{text}");
        assert!(text.contains("kinase-mice  aspirin"), "{text}");
    }

    #[test]
    fn columns_of_zeros_that_may_be_left_out_are_where_the_screen_is_too_narrow() {
        let mut table = Table::new(&["NAME", ">?FAILURES", ">?WAITING", ">PILOTS"]);
        table.row(vec!["local".into(), "0".into(), "1".into(), "0".into()]);
        assert_eq!(table.render(&on(24)), "NAME   WAITING  PILOTS\nlocal        1       0\n");
        assert!(table.render(&on(80)).contains("FAILURES"));
        assert!(table.render(&Screen::default()).contains("FAILURES"));
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
