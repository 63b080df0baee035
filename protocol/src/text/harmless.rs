//! What programs write, as a terminal may get it: control characters are shown, not obeyed.

use std::fmt::Write;

/// What a program wrote, as a terminal may get it, without colours; and the bytes at its end that are only the beginning
/// of a character or of a line end, or join what came to what comes.
pub fn harmless_output(bytes: &[u8]) -> (String, &[u8]) {
    let n_whole = bytes.len() - n_begun(bytes);
    let (whole, begun) = bytes.split_at(n_whole);
    let mut shown = String::with_capacity(whole.len());
    // What came before the first character is not known.
    let mut before = None;
    for chunk in whole.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            push(&mut shown, before, c, chars.peek().copied());
            before = Some(c);
        }
        for byte in chunk.invalid() {
            before = Some('\u{fffd}');
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    (shown, begun)
}

/// Between what comes before and after it: a carriage return is part of a line end where a line feed follows.
pub fn push(shown: &mut String, before: Option<char>, c: char, after: Option<char>) {
    match c {
        '\n' | '\t' => shown.push(c),
        '\r' if after == Some('\n') => {}
        '\0'..='\x1f' => shown.extend(['^', char::from(b'@' + c as u8)]),
        '\x7f' => shown.push_str("^?"),
        c if is_control(c) && !joins(before, c, after) => {
            // Writing to a String cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
        c => shown.push(c),
    }
}

const NON_JOINER: char = '\u{200c}';
const JOINER: char = '\u{200d}';

/// Whether it is a joiner or non-joiner in its place: between letters of scripts that need it to be written, or joining
/// two emoji. `before`: `None` where it is not known.
pub fn joins(before: Option<char>, c: char, after: Option<char>) -> bool {
    let are_both = |fits: fn(char) -> bool| {
        before.is_none_or(fits) && after.is_some_and(|c| fits(c) && c != EMOJI_STYLE)
    };
    let is_joined = matches!(c, NON_JOINER | JOINER) && are_both(is_joined_letter);
    is_joined || (c == JOINER && are_both(is_emoji))
}

/// Of Arabic, Syriac and N'Ko, of the scripts of India and South East Asia, Mongolian: letters, their marks and digits.
fn is_joined_letter(c: char) -> bool {
    let is_of_script = matches!(
        c,
        '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}' | '\u{1780}'..='\u{18af}'
            | '\u{1a20}'..='\u{1bff}' | '\u{a840}'..='\u{a87f}' | '\u{a8e0}'..='\u{a9df}' | '\u{fb50}'..='\u{fdff}'
            | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{1157f}' | '\u{1e900}'..='\u{1e95f}'
    );
    let is_mark = matches!(c, '\u{66a}'..='\u{66d}' | '\u{6d4}' | '\u{6dd}' | '\u{964}' | '\u{965}');
    is_of_script && !is_mark && !is_control(c)
}

/// Asks for an emoji in colours, after it.
const EMOJI_STYLE: char = '\u{fe0f}';

fn is_emoji(c: char) -> bool {
    matches!(c, EMOJI_STYLE | '\u{2190}'..='\u{21ff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
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
    let n_cut = n_cut(bytes);
    let n_joiner = NON_JOINER.len_utf8();
    let is_joiner = [NON_JOINER, JOINER]
        .iter()
        .any(|joiner| bytes[..bytes.len() - n_cut].ends_with(joiner.encode_utf8(&mut [0; 4]).as_bytes()));
    if is_joiner { n_cut + n_joiner } else { n_cut }
}

/// How many bytes at the end are only a part of a character.
fn n_cut(bytes: &[u8]) -> usize {
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
    fn joiners_are_shown_where_text_needs_them() {
        let shown = |text: &str| harmless_output(format!("{text}.").as_bytes()).0;
        let needed = [
            "می\u{200c}خواهم",
            "कार\u{94d}\u{200d}य",
            "ක\u{dca}\u{200d}ර",
            "👩\u{200d}💻",
            "🏳\u{fe0f}\u{200d}🌈",
            "👩🏽\u{200d}❤\u{fe0f}\u{200d}👨",
        ];
        for text in needed {
            assert_eq!(shown(text), format!("{text}."));
        }
        for (text, expected) in [
            ("ad\u{200c}min", "ad\\u{200c}min"),
            ("ad\u{200d}min", "ad\\u{200d}min"),
            ("می\u{200c} x", "می\\u{200c} x"),
            ("a\u{200c}خ", "a\\u{200c}خ"),
            ("م\u{200c}\u{200c}خ", "م\\u{200c}\\u{200c}خ"),
            ("👩\u{200c}💻", "👩\\u{200c}💻"),
            ("م\u{200d}💻", "م\\u{200d}💻"),
            ("م\u{200b}خ", "م\\u{200b}خ"),
        ] {
            assert_eq!(shown(text), format!("{expected}."));
        }
    }

    #[test]
    fn joiner_waits_for_what_it_joins() {
        let text = "می\u{200c}خ 👩\u{200d}💻 a\u{200d}b\n";
        for at in 0..=text.len() {
            let (first, begun) = harmless_output(&text.as_bytes()[..at]);
            let rest = [begun, &text.as_bytes()[at..]].concat();
            let all = first + &harmless_output(&rest).0;
            assert_eq!(all, "می\u{200c}خ 👩\u{200d}💻 a\\u{200d}b\n", "{at}");
        }
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
