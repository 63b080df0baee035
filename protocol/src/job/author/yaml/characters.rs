//! Characters that YAML does not give back as they are written, and texts in JSON, which does.

use std::borrow::Cow;

use serde_yaml::Value;

use crate::job::Problem;

/// Whether a character of a text may stand in YAML as it is. U+0085, U+2028 and U+2029 end a line there: of such a
/// character in a text a blank would be left, or nothing.
pub fn stands_in_yaml(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}' => false,
        other => !other.is_control(),
    }
}

/// The first character that cannot stand in YAML as it is, if there is one.
pub(in crate::job::author) fn misplaced(text: &str) -> Option<Problem> {
    let (at, character) = text.char_indices().find(|(_, character)| !stands_in_yaml(*character))?;
    let before = &text[..at];
    let is_end = |(at, c): &(usize, char)| *c == '\n' || *c == '\r' && !text[at + 1..].starts_with('\n');
    let line = 1 + before.char_indices().filter(is_end).count();
    let line_start = before.rfind(['\n', '\r']).map_or(0, |end| end + 1);
    let column = 1 + before[line_start..].chars().count();
    let code = format!("U+{:04X}", u32::from(character));
    let found = match character {
        '\u{85}' | '\u{2028}' | '\u{2029}' => {
            format!("the character {code}, which is the end of a line in YAML")
        }
        control if control.is_control() => {
            format!("the control character {code}, which cannot stand in YAML")
        }
        _ => format!("the character {code}, which cannot stand in YAML"),
    };
    let expected = match character {
        '\0' => "take it out, and save the file as UTF-8".to_owned(),
        other => {
            let code = u32::from(other);
            format!("take it out, or write `\\u{code:04x}` for it in a text in double quotes")
        }
    };
    let (line, column) = (u32::try_from(line).ok(), u32::try_from(column).ok());
    Some(Problem { line, column, ..Problem::new("", found, expected) })
}

/// The value of a JSON text that YAML would not give as it is written: one with such characters, or with characters
/// beyond U+FFFF as two escapes. `None`: YAML gives it, or it is no JSON.
pub(in crate::job::author) fn only_in_json(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let is_yaml = text.chars().all(stands_in_yaml) && matches!(with_whole_characters(text), Cow::Borrowed(_));
    if is_yaml { None } else { serde_json::from_str(text).ok() }
}

/// Writes characters beyond U+FFFF out, which JSON has as two escapes (`\ud83d\ude00`) and YAML does not know so.
pub(in crate::job::author) fn with_whole_characters(text: &str) -> Cow<'_, str> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut whole, mut copied) = (String::new(), 0);
    for (at, _) in text.match_indices("\\u") {
        let n_before = text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
        let pair = unit(at).zip(unit(at + 6)).filter(|_| at >= copied && n_before % 2 == 0);
        let Some(Ok(character)) = pair.and_then(|(high, low)| {
            let is_pair = (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
            is_pair.then(|| char::decode_utf16([high, low]).next())?
        }) else {
            continue;
        };
        whole.push_str(&text[copied..at]);
        whole.push(character);
        copied = at + 12;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    whole.push_str(&text[copied..]);
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::{misplaced, only_in_json};

    #[test]
    fn characters_that_would_not_come_back_are_told_with_their_place() {
        let double_quotes = "for it in a text in double quotes";
        for (text, place, said) in [
            (
                "a: 1\r\nb: \"x\u{85}y\"\r\n",
                (2, 6),
                format!(
                    "character U+0085 is the end of a line in YAML; take it out, or write `\\u0085` {double_quotes}"
                ),
            ),
            (
                "a: |\n  x \u{2028} y\n",
                (2, 5),
                format!(
                    "character U+2028 is the end of a line in YAML; take it out, or write `\\u2028` {double_quotes}"
                ),
            ),
            (
                "# \u{e4}\u{2029}\n",
                (1, 4),
                format!(
                    "character U+2029 is the end of a line in YAML; take it out, or write `\\u2029` {double_quotes}"
                ),
            ),
            (
                "a: b\n\u{1a}",
                (2, 1),
                format!(
                    "control character U+001A cannot stand in YAML; take it out, or write `\\u001a` {double_quotes}"
                ),
            ),
            (
                "a: b\rc: \u{7f}",
                (2, 4),
                format!(
                    "control character U+007F cannot stand in YAML; take it out, or write `\\u007f` {double_quotes}"
                ),
            ),
            (
                "a: \u{9b}",
                (1, 4),
                format!(
                    "control character U+009B cannot stand in YAML; take it out, or write `\\u009b` {double_quotes}"
                ),
            ),
            (
                "a: \u{ffff}",
                (1, 4),
                format!(
                    "character U+FFFF cannot stand in YAML; take it out, or write `\\uffff` {double_quotes}"
                ),
            ),
            (
                "a\0:\0",
                (1, 2),
                "control character U+0000 cannot stand in YAML; take it out, and save the file as UTF-8"
                    .to_owned(),
            ),
        ] {
            let problem = misplaced(text).unwrap();
            assert_eq!(problem.to_string(), said, "{text:?}");
            assert_eq!((problem.line, problem.column), (Some(place.0), Some(place.1)), "{text:?}");
        }
        assert_eq!(misplaced("\ta: \"\\u0085 \u{a0}\u{e000}\u{feff}\u{1f600}\"\r\n"), None);
    }

    #[test]
    fn json_is_read_as_json_where_yaml_would_give_another_value() {
        let text = "{\"a\": \"x\u{85}y \u{2028} \u{7f}\u{ffff}\", \"b\": [1, \"\\ud83d\\ude00\"]}";
        let value = only_in_json(text).unwrap();
        assert_eq!(value["a"].as_str(), Some("x\u{85}y \u{2028} \u{7f}\u{ffff}"));
        assert_eq!((value["b"][0].as_u64(), value["b"][1].as_str()), (Some(1), Some("\u{1f600}")));
        assert_eq!(only_in_json("{\"a\": 1.10}"), None, "YAML gives the same");
        for text in ["a: \"\u{85}\"", "{a: \"\u{85}\"}", "{\"a\": \"\u{85}\", \"a\": 1}"] {
            assert_eq!(only_in_json(text), None, "{text:?}");
        }
    }
}
