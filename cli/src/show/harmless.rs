//! Texts of others on a terminal: control characters are shown, not obeyed. Names, messages and output may hold
//! sequences that move the cursor, change the title, or hide what is written.

use std::{
    borrow::Cow,
    io::{self, Write},
};

pub use protocol::text::harmless::harmless_output;
use protocol::text::harmless::{is_control, joins, push};

/// The sequences of [`super::Screen::paint`], which may pass.
const OURS: [&str; 7] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

/// The text as a terminal may get it: lines, tabs, our own colours, and all else that is visible.
pub fn harmless(text: &str) -> Cow<'_, str> {
    // A text without any of them is passed on as it is.
    if !text.contains(|c| c != '\n' && c != '\t' && is_control(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut before = '\n';
    while let Some(c) = rest.chars().next() {
        if let Some(colour) = OURS.iter().find(|colour| rest.starts_with(**colour)) {
            shown.push_str(colour);
            rest = &rest[colour.len()..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        push(&mut shown, Some(before), c, rest.chars().next());
        before = c;
    }
    Cow::Owned(shown)
}

/// Writes what comes as a terminal may get it.
pub struct HarmlessWriter<W: Write> {
    to: W,
    /// The beginning of a character.
    begun: Vec<u8>,
}

impl<W: Write> HarmlessWriter<W> {
    /// Writes there.
    pub fn new(to: W) -> HarmlessWriter<W> {
        HarmlessWriter { to, begun: Vec::new() }
    }
}

impl<W: Write> Write for HarmlessWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let (shown, begun) = harmless_output(&self.begun);
        let begun = begun.to_vec();
        self.to.write_all(shown.as_bytes())?;
        self.begun = begun;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The text without line ends, tabs and control characters, for a place within a line.
pub fn on_one_line(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut shown = String::with_capacity(text.len());
    let mut before = '\n';
    while let Some(c) = chars.next() {
        let is_hidden = is_control(c) && !joins(Some(before), c, chars.peek().copied());
        shown.push(if is_hidden { ' ' } else { c });
        before = c;
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{HarmlessWriter, harmless, on_one_line};

    #[test]
    fn sequences_of_others_are_shown_and_our_colours_pass() {
        assert_eq!(harmless("plain\n\ttext, grün, 漢"), "plain\n\ttext, grün, 漢");
        assert_eq!(harmless("\x1b[31mfailed\x1b[0m \x1b[2Jx"), "\x1b[31mfailed\x1b[0m ^[[2Jx");
        assert_eq!(harmless("\x1b]0;title\x07 \x1b[8mhidden"), "^[]0;title^G ^[[8mhidden");
        assert_eq!(harmless("a\u{9b}2Jb\u{202e}c\x7f"), "a\\u{9b}2Jb\\u{202e}c^?");
        assert_eq!(harmless("over\rwritten\r\n"), "over^Mwritten\n");
    }

    #[test]
    fn a_table_for_a_terminal_has_no_sequences() {
        let mut written = Vec::new();
        let mut writer = HarmlessWriter::new(&mut written);
        for piece in [&b"1,\x1b[31mred,caf\xc3"[..], b"\xa9,\0\r\n", b"2\n"] {
            writer.write_all(piece).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "1,^[[31mred,caf\u{e9},^@\n2\n");
    }

    #[test]
    fn joiners_are_shown_where_text_needs_them() {
        let text = "می\u{200c}خواهم 👩\u{200d}💻";
        assert_eq!((harmless(text).as_ref(), on_one_line(text).as_str()), (text, text));
        let alone = "\u{200c}خ a\u{200d}b";
        assert_eq!(
            (harmless(alone).as_ref(), on_one_line(alone).as_str()),
            ("\\u{200c}خ a\\u{200d}b", " خ a b")
        );
    }

    #[test]
    fn text_within_a_line_has_no_line_ends() {
        assert_eq!(on_one_line("a\nb\tc\x1b[2J\u{202e}"), "a b c [2J ");
    }
}
