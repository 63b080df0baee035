//! What programs write, as a terminal may get it: control characters are shown, not obeyed.

use std::fmt::Write;

/// What a program wrote, as a terminal may get it, without colours; and the bytes at its end that are only the beginning
/// of a character or of a line end.
pub fn harmless_output(bytes: &[u8]) -> (String, &[u8]) {
    let n_whole = bytes.len() - n_begun(bytes);
    let (whole, begun) = bytes.split_at(n_whole);
    let mut shown = String::with_capacity(whole.len());
    for chunk in whole.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            push(&mut shown, c, chars.peek() == Some(&'\n'));
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    (shown, begun)
}

/// A carriage return is part of a line end where a line feed follows.
pub fn push(shown: &mut String, c: char, is_before_line_feed: bool) {
    match c {
        '\n' | '\t' => shown.push(c),
        '\r' if is_before_line_feed => {}
        '\0'..='\x1f' => shown.extend(['^', char::from(b'@' + c as u8)]),
        '\x7f' => shown.push_str("^?"),
        c if is_control(c) => {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
        c => shown.push(c),
    }
}

/// Control characters, those that change the direction in which text is written, and those that take no room, by which
/// two texts may look the same.
pub fn is_control(c: char) -> bool {
    let turns_text =
        matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_unseen = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' | '\u{200b}'..='\u{200d}'
            | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || turns_text || is_unseen
}

/// How many bytes at the end may go on with what comes next.
fn n_begun(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(4)..]) {
        Ok(_) => 0,
        Err(_) => {
            let n_after = bytes.iter().rev().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            let first = bytes.len().checked_sub(n_after + 1).map(|at| bytes[at]);
            let n_needed = match first {
                Some(0xc2..=0xdf) => 2,
                Some(0xe0..=0xef) => 3,
                Some(0xf0..=0xf4) => 4,
                _ => 0,
            };
            if n_after + 1 < n_needed { n_after + 1 } else { 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::harmless_output;

    #[test]
    fn output_is_shown_without_sequences_and_bytes_that_are_no_text_are_seen() {
        let shown = |bytes: &[u8]| harmless_output(bytes).0;
        assert_eq!(shown(b"\x1b[31mred\x1b[0m\r\n"), "^[[31mred^[[0m\n");
        assert_eq!(shown(b"caf\xe9 \x9b2J\n"), "caf\\xe9 \\x9b2J\n");
        assert_eq!(shown("größe\n".as_bytes()), "größe\n");
        // What takes no room, and what turns text around.
        assert_eq!(
            shown("ad\u{200b}a \u{feff}b\u{202e}c\u{e0041}\n".as_bytes()),
            "ad\\u{200b}a \\u{feff}b\\u{202e}c\\u{e0041}\n"
        );
    }

    #[test]
    fn character_that_comes_in_pieces_is_left_for_the_next_piece() {
        type Case = (&'static [u8], (&'static str, &'static [u8]));
        let cases: [Case; 8] = [
            (b"a\xc3", ("a", b"\xc3")),
            (b"a\xf0\x9f\x98", ("a", b"\xf0\x9f\x98")),
            (b"a\r", ("a", b"\r")),
            (b"a\xe9", ("a", b"\xe9")),
            (b"\xff", ("\\xff", b"")),
            (b"\x80", ("\\x80", b"")),
            ("ä".as_bytes(), ("ä", b"")),
            (b"", ("", b"")),
        ];
        for (bytes, expected) in cases {
            let (shown, begun) = harmless_output(bytes);
            assert_eq!((shown.as_str(), begun), expected, "{bytes:?}");
        }
    }
}
