//! From text to YAML values, and from the parser's complaints to what an author can act on.

pub(crate) mod characters;
pub(crate) mod excess;
pub(crate) mod locate;

use std::borrow::Cow;

use serde_yaml::{Mapping, Value};

use crate::job::Problem;
use crate::job::author::yaml::characters::{misplaced, only_in_json, with_whole_characters};
use crate::job::author::yaml::excess::excess;
use crate::job::author::yaml::locate::{Locator, MERGE, join, second_document};

/// Parses the text of a YAML file, of which every field stands once. What `<<` names is merged.
///
/// # Errors
/// What keeps it from being YAML, with line and column.
pub fn parse(text: &str) -> Result<Value, Vec<Problem>> {
    if let Some(problem) = excess(text) {
        return Err(vec![problem]);
    }
    let value = match only_in_json(text) {
        Some(value) => value,
        None => read(text)?,
    };
    merge(value, "").map_err(|path| {
        let line = Locator::read(text).mark(&path).map(|mark| mark.line);
        let problem =
            Problem::new(path, "no mapping", "merge a mapping, or a list of them, like `<<: *NAME`");
        vec![Problem { line, ..problem }]
    })
}

/// The value of a text that is to be YAML.
fn read(text: &str) -> Result<Value, Vec<Problem>> {
    if let Some(problem) = misplaced(text) {
        return Err(vec![problem]);
    }
    let tags = tags(text);
    if !tags.is_empty() {
        return Err(tags);
    }
    let (value, text) = match (serde_yaml::from_str(text), with_whole_characters(text)) {
        (Err(_), Cow::Owned(whole)) => match excess(&whole) {
            Some(problem) => return Err(vec![problem]),
            None => (serde_yaml::from_str(&whole), Cow::Owned(whole)),
        },
        (value, _) => (value, Cow::Borrowed(text)),
    };
    value.map_err(|error| {
        let repeated = repeated_keys(&text);
        if repeated.is_empty() { vec![explain(&text, &error)] } else { repeated }
    })
}

/// Tags that say more than the value itself. Whatever is read of YAML here has none of its own.
fn tags(text: &str) -> Vec<Problem> {
    if !text.contains('!') {
        return Vec::new();
    }
    let locator = Locator::read(text);
    let tags = locator.tags().iter().map(|tag| {
        let found = format!("the tag `{}`, which has no effect here", tag.shown);
        let (line, column) = (Some(tag.mark.line), Some(tag.mark.column));
        Problem { line, column, ..Problem::new(&tag.path, found, "take it away, and write the value itself") }
    });
    tags.collect()
}

/// Puts fields of mappings that are merged where their `<<` stands, unless they stand there themselves. The order of
/// all others stays: that of a sweep's entries means something. Errors: the path of what cannot be merged.
fn merge(value: Value, path: &str) -> Result<Value, String> {
    match value {
        Value::Sequence(items) => {
            let items = items.into_iter().enumerate().map(|(n, item)| merge(item, &format!("{path}[{n}]")));
            items.collect::<Result<_, _>>().map(Value::Sequence)
        }
        Value::Mapping(fields) => {
            let own: Mapping = fields
                .into_iter()
                .map(|(key, value)| {
                    let name = key.as_str().unwrap_or("?").to_owned();
                    Ok((key, merge(value, &join(path, &name))?))
                })
                .collect::<Result<_, String>>()?;
            if !own.contains_key(MERGE) {
                return Ok(Value::Mapping(own));
            }
            let names: Vec<Value> = own.keys().cloned().collect();
            let mut all = Mapping::new();
            for (key, value) in own {
                if key.as_str() != Some(MERGE) {
                    all.insert(key, value);
                    continue;
                }
                let merged = match value {
                    Value::Sequence(items) => items,
                    one => vec![one],
                };
                for one in merged {
                    let Value::Mapping(fields) = one else { return Err(join(path, MERGE)) };
                    let others = fields.into_iter().filter(|(key, _)| !names.contains(key));
                    others.for_each(|(key, value)| _ = all.entry(key).or_insert(value));
                }
            }
            Ok(Value::Mapping(all))
        }
        value => Ok(value),
    }
}

fn repeated_keys(text: &str) -> Vec<Problem> {
    let locator = Locator::read(text);
    let repeated = locator.repeated().iter().map(|repeated| Problem {
        line: Some(repeated.second.line),
        column: Some(repeated.second.column),
        ..Problem::new(
            &repeated.path,
            format!("the field a second time (first in line {})", repeated.first.line),
            "write it once",
        )
    });
    repeated.collect()
}

/// Parts of the parser's messages, and what most likely is meant.
const HINTS: [(&str, &str); 10] = [
    ("mapping values are not allowed", "check the indentation, and put texts that contain `: ` in quotes"),
    ("expected ',' or ']'", "close the list with `]`, and put texts that contain `[`, `]` or `,` in quotes"),
    ("expected ',' or '}'", "close the braces with `}`, and put texts that contain braces in quotes"),
    ("scanning a quoted scalar", "close the quotation mark"),
    ("alphabetic or numeric character", "put texts that begin with `*` or `&` in quotes"),
    ("recursion limit", "nest less deeply; an alias must not contain itself"),
    ("unknown anchor", "put texts that begin with `*` in quotes"),
    ("cannot start any token", "put texts that begin with such a character in quotes"),
    ("could not find expected ':'", "write `field: value`, with a space behind the colon"),
    ("expected key", "indent the fields of one level alike"),
];

fn explain(text: &str, error: &serde_yaml::Error) -> Problem {
    let location = error.location();
    let line = location.as_ref().and_then(|location| u32::try_from(location.line()).ok());
    let column = location.as_ref().and_then(|location| u32::try_from(location.column()).ok());
    let problem =
        |found: String, expected: &str| Problem { line, column, ..Problem::new("", found, expected) };
    let tab = text.lines().zip(1_u32..).find(|(content, _)| {
        let indentation = &content[..content.len() - content.trim_start().len()];
        indentation.contains('\t') && !content.trim().is_empty()
    });
    if let Some((_, line)) = tab {
        let found = "a tab in the indentation".to_owned();
        return Problem { line: Some(line), column: Some(1), ..problem(found, "indent with spaces") };
    }
    let message = error.to_string();
    if message.contains(" as u128") || message.contains(" as i128") {
        let found = "a number of more than 64 bits".to_owned();
        return problem(found, "write a smaller one, or put it in quotes as a text");
    }
    if message.contains("more than one document") {
        let expected = "write one document a file: take out what follows, with its `---`, or put it into a file of its own";
        let found = "a second document".to_owned();
        return Problem { line: second_document(text), ..problem(found, expected) };
    }
    let near = line.and_then(|line| usize::try_from(line).ok()).unwrap_or(0);
    let bare = (near.saturating_sub(1)..=near).find_map(|n| {
        let (name, value) = with_bare_placeholder(text.lines().nth(n.checked_sub(1)?)?)?;
        Some((u32::try_from(n).ok()?, name, value))
    });
    if let Some((line, name, value)) = bare {
        let found = format!("{name} without quotes, which YAML reads as a mapping");
        let quote = if value.contains('\'') { '"' } else { '\'' };
        let expected = format!("put the whole text in quotes: {quote}{value}{quote}");
        return Problem { line: Some(line), column: None, ..problem(found, &expected) };
    }
    let hint = HINTS.iter().find(|(part, _)| message.contains(part)).map(|(_, hint)| *hint);
    // The position stands in front already.
    let cause = message.split(" at line ").next().unwrap_or(&message).trim_end_matches(':');
    let opened = opened_at(&message);
    // Behind all text nothing can be corrected: what is open there begins before.
    if let Some(last) = last_text(text).filter(|last| line.is_some_and(|line| line > *last)) {
        let found = format!("no valid YAML ({cause})");
        let hint = hint.unwrap_or("close what is open: a list with `]`, braces with `}`");
        return Problem { line: opened.or(Some(last)), column: None, ..problem(found, hint) };
    }
    let opened = opened.filter(|opened| Some(*opened) != line);
    let opened = opened.map(|line| format!("; opened in line {line}")).unwrap_or_default();
    problem(format!("no valid YAML ({cause}{opened})"), hint.unwrap_or("correct the YAML there"))
}

/// The placeholder that the value of a line begins with, and that value, where something follows it: `run: {x}.sh`.
fn with_bare_placeholder(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let value = line.split_once(": ").map_or(line, |(_, value)| value.trim_start());
    let value = value.strip_prefix("- ").unwrap_or(value).trim_start();
    let end = value.strip_prefix('{')?.find(['{', '}'])? + 1;
    let (name, rest) = value.split_at_checked(end + 1)?;
    let inside = name.strip_prefix('{')?.strip_suffix('}')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:+-".contains(c);
    let is_name =
        inside.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && inside.chars().all(is_plain);
    let follows = !rest.trim().is_empty() && !rest.trim_start().starts_with(['#', ',', ']', '}']);
    (is_name && follows).then_some((name, value))
}

/// The last line that is neither empty nor a comment.
fn last_text(text: &str) -> Option<u32> {
    let is_text = |line: &str| !line.is_empty() && !line.starts_with('#');
    (1..).zip(text.lines()).filter(|(_, line)| is_text(line.trim())).map(|(n, _)| n).last()
}

/// The line where the list, the braces or the quoted text begin that the parser was inside of.
fn opened_at(message: &str) -> Option<u32> {
    let parts = ["while parsing a flow ", "while scanning a quoted "];
    let (_, after) = parts.iter().find_map(|part| message.split_once(part))?;
    let (_, after) = after.split_once(" at line ")?;
    after.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn characters_that_json_writes_as_two_escapes_are_whole() {
        let command =
            |text: &str| parse(text).map(|value| value["command"].as_str().unwrap_or("").to_owned());
        let both = r#"{"command": "a \ud83d\ude00 b \uD834\uDD1E \u00e9"}"#;
        assert_eq!(command(both), Ok("a \u{1f600} b \u{1d11e} \u{e9}".to_owned()));
        assert_eq!(command(r#"{"command": "\\ud83d\\ude00"}"#), Ok(r"\ud83d\ude00".to_owned()));
        assert!(command(r#"{"command": "\ud83d"}"#).is_err());
        assert_eq!(command(r"command: \ud8"), Ok(r"\ud8".to_owned()));
        assert_eq!(command(r#"command: "\ud83d\ude00""#), Ok("\u{1f600}".to_owned()));
        assert_eq!(command(r"command: '\ud83d\ude00'"), Ok(r"\ud83d\ude00".to_owned()));
    }

    #[test]
    fn characters_that_yaml_would_change_are_kept_or_refused() {
        let command = |text: &str| -> Result<String, (Option<u32>, String)> {
            let value = parse(text).map_err(|problems| (problems[0].line, problems[0].to_string()))?;
            Ok(value["command"].as_str().unwrap_or("").to_owned())
        };
        for c in ["\u{85}", "\u{2028}", "\u{2029}", "\u{7f}", "\u{9b}", "\u{fffe}", "\u{ffff}"] {
            let written = format!("x{c}y {c} z");
            let code = format!("\\u{:04x}", u32::from(c.chars().next().unwrap()));
            let escaped = format!("command: \"x{code}y {code} z\"");
            assert_eq!(command(&format!("{{\"command\": \"{written}\"}}")), Ok(written.clone()));
            assert_eq!(command(&escaped), Ok(written.clone()));
            for text in [format!("\ncommand: {written}"), format!("\ncommand: \"{written}\" # why")] {
                let (line, said) = command(&text).unwrap_err();
                let expected = format!("take it out, or write `{code}` for it in a text in double quotes");
                assert!(line == Some(2) && said.ends_with(&expected), "{said}");
            }
        }
        let (line, said) = command("command: x\n# \u{1a}").unwrap_err();
        assert!(
            line == Some(2) && said.starts_with("control character U+001A cannot stand in YAML;"),
            "{said}"
        );
    }

    #[test]
    fn tags_that_say_more_than_the_value_are_refused_with_their_line() {
        for (text, line, path, tag) in [
            ("a: b\ncommand:\n- echo\n- !!binary |\n  aGVsbG8=\n", 4, "command[1]", "!!binary"),
            (
                "command: !!python/object/apply:os.system [id]",
                1,
                "command",
                "!!python/object/apply:os.system",
            ),
            ("command:\n  !!python/tuple\n  - a\n", 1, "command", "!!python/tuple"),
            ("a: !!float 3", 1, "a", "!!float"),
            ("a: !!int \"5\"", 1, "a", "!!int"),
            ("a: !!int 010", 1, "a", "!!int"),
            ("a: ! 5", 1, "a", "!"),
            ("a: !secret x", 1, "a", "!secret"),
            ("a: !<tag:example.org,2000:x> y", 1, "a", "!<tag:example.org,2000:x>"),
            ("a: {!!binary aGk= : 1}", 1, "a.aGk=", "!!binary"),
            ("a: !!set {b, c}", 1, "a", "!!set"),
        ] {
            let said = &parse(text).unwrap_err()[0];
            assert_eq!((said.line, said.path.as_str()), (Some(line), path), "{text}");
            let expected =
                format!("{path}: tag `{tag}` has no effect here; take it away, and write the value itself");
            assert_eq!(said.to_string(), expected);
        }
        let text = "a: [!!str b, !!str 1.10, !<tag:yaml.org,2002:str> true, \"!!binary\"]\nb: !!map {c: !!seq [!!int 5, !!float 1.5, !!bool true, !!null ~]}\n";
        let value = parse(text).unwrap();
        let shown = |name: &str| serde_json::to_string(&value[name]).unwrap();
        assert_eq!(shown("a"), r#"["b","1.10","true","!!binary"]"#);
        assert_eq!(shown("b"), r#"{"c":[5,1.5,true,null]}"#);
        assert!(parse("command: echo hello! 'x' !y").is_ok());
    }

    #[test]
    fn a_placeholder_without_quotes_is_told_as_that() {
        for (text, line, name, right) in [
            ("command: {x} --flag\n", 1, "{x}", "'{x} --flag'"),
            (
                "name: a\ncommand: {tool}/run.sh 'a b'\nsweep: {x: [1]}\n",
                2,
                "{tool}",
                "\"{tool}/run.sh 'a b'\"",
            ),
            ("command:\n  - echo\n  - {x:03}.txt\n", 3, "{x:03}", "'{x:03}.txt'"),
        ] {
            let said = &parse(text).unwrap_err()[0];
            assert_eq!(said.line, Some(line), "{said}");
            assert_eq!(said.found, format!("{name} without quotes, which YAML reads as a mapping"));
            assert_eq!(said.expected, format!("put the whole text in quotes: {right}"));
        }
    }

    #[test]
    fn what_is_left_open_is_told_where_there_is_text() {
        for (text, expected) in [
            ("a: b\nc: [\n", (Some(2), "close what is open: a list with `]`, braces with `}`")),
            ("a: b\nc: [d,\n\n# e\n", (Some(2), "close what is open: a list with `]`, braces with `}`")),
            (
                "a: {b: c\n\n",
                (Some(1), "close the braces with `}`, and put texts that contain braces in quotes"),
            ),
            ("a: \"b\n  c\n\n", (Some(1), "close the quotation mark")),
        ] {
            let problems = parse(text).unwrap_err();
            assert_eq!((problems[0].line, problems[0].expected.as_str()), expected, "{text}");
            assert_eq!(problems[0].column, None);
        }
    }

    #[test]
    fn mappings_are_merged_in_order_and_own_fields_come_first() {
        let text = "a: &a {x: 1, y: 2}\nb: {z: 0, <<: *a, y: 3, w: 4}\nc: {<<: [*a, {x: 5, v: 6}]}\nd: [{<<: {<<: *a, u: 7}}]\n";
        let value = parse(text).unwrap();
        let shown = |name: &str| serde_json::to_string(&value[name]).unwrap();
        assert_eq!(shown("b"), r#"{"z":0,"x":1,"y":3,"w":4}"#);
        assert_eq!(shown("c"), r#"{"x":1,"y":2,"v":6}"#);
        assert_eq!(shown("d"), r#"[{"x":1,"y":2,"u":7}]"#);
        for wrong in ["a: {<<: 1}", "a: {<<: [{x: 1}, 2]}"] {
            let said = parse(wrong).unwrap_err()[0].to_string();
            assert!(said.contains("a.<<: found no mapping; merge a mapping"), "{said}");
        }
    }
}
