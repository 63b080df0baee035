//! Lists of named facts: what is shown of one thing.

use crate::show::{
    Ink, Screen,
    harmless::on_one_line,
    table::{shortened, width_of},
};

/// Between a name and what is said of it.
const GAP: &str = "  ";

/// Lines of a name and what is said of it.
#[derive(Debug, Default)]
pub struct Facts {
    lines: Vec<(String, String)>,
}

impl Facts {
    /// One more line at the bottom. Further lines of a text stand below its first.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) {
        self.lines.push((name.into(), text.into()));
    }

    /// One more line, when there is something to say.
    pub fn add_some(&mut self, name: &str, text: Option<String>) {
        if let Some(text) = text {
            self.add(name, text);
        }
    }

    /// The list as text; every line ends, and none is wider than the screen.
    pub fn render(&self, screen: &Screen) -> String {
        let width = self.lines.iter().map(|(name, _)| width_of(&on_one_line(name))).max().unwrap_or(0);
        let width = width.min(screen.width.map_or(usize::MAX, |screen_width| screen_width / 3));
        let room = screen.width.map(|screen_width| screen_width.saturating_sub(width + GAP.len()).max(1));
        let mut shown = String::new();
        for (name, text) in &self.lines {
            let name = shortened(name, width);
            let padding = " ".repeat(width - width_of(&name));
            let mut name = screen.paint(Ink::Bold, &name) + &padding;
            for line in text.lines().flat_map(|line| wrapped(line, room)) {
                shown.push_str(format!("{name}{GAP}{line}").trim_end());
                shown.push('\n');
                name = " ".repeat(width);
            }
        }
        shown
    }
}

/// The line as it is; for a screen in pieces that fit, without control characters, broken at blanks where that is possible.
pub fn wrapped(line: &str, room: Option<usize>) -> Vec<String> {
    let Some(room) = room else { return vec![line.to_owned()] };
    let line = on_one_line(line);
    if width_of(&line) <= room {
        return vec![line];
    }
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in line.split_inclusive(' ') {
        if !piece.is_empty() && width_of(&piece) + width_of(word.trim_end()) > room {
            pieces.push(std::mem::take(&mut piece));
        }
        for c in word.chars() {
            if width_of(&piece) + width_of(c.encode_utf8(&mut [0; 4])) > room && c != ' ' {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.push(c);
        }
    }
    // A bracket that ends a long word does not stand alone.
    if let Some(before) =
        pieces.last_mut().filter(|before| piece.chars().count() == 1 && before.chars().count() > 1)
        && !before.ends_with(' ')
        && let Some(last) = before.pop()
    {
        piece.insert(0, last);
    }
    pieces.push(piece);
    pieces.iter().map(|piece| piece.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::Facts;
    use crate::show::Screen;

    #[test]
    fn texts_stand_below_each_other() {
        let mut facts = Facts::default();
        facts.add("state", "active");
        facts.add("wall time", "1s\n2s");
        facts.add_some("nothing", None);
        assert_eq!(facts.render(&Screen::default()), "state      active\nwall time  1s\n           2s\n");
    }

    #[test]
    fn a_bracket_that_ends_a_long_word_does_not_stand_alone() {
        assert_eq!(super::wrapped("1 (abcdefgh)", Some(9)), ["1", "(abcdefg", "h)"]);
        assert_eq!(super::wrapped("abcd e f", Some(6)), ["abcd e", "f"]);
    }

    #[test]
    fn long_texts_are_broken_at_blanks_to_fit_the_screen() {
        let mut facts = Facts::default();
        facts.add("why", "one two three four 漢字漢字漢字漢字漢字漢字");
        let screen = Screen { width: Some(18), ..Screen::default() };
        let expected = "why  one two three\n     four\n     漢字漢字漢字\n     漢字漢字漢字\n";
        assert_eq!(facts.render(&screen), expected);
    }
}
