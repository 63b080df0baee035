//! YAML as Python's library reads it, of version 1.1: with merge keys, with `yes` and `off`, and with numbers such as
//! `0123` and `1_000`, which are other numbers or texts in version 1.2. Numbers are texts here, as openstacksdk makes them.

use std::{borrow::Cow, collections::HashMap, mem};

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

/// Nodes of a file at most, with those that aliases repeat.
const N_NODES_MAX: usize = 100_000;
const CORE: &str = "tag:yaml.org,2002:";

/// What stands in a file.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// A text, or a number as Python writes it.
    Text(String),
    List(Vec<Node>),
    Map(Map),
}

/// Keys and values, each key once, in their order.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Map(Vec<(String, Node)>);

impl Map {
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, node)| node)
    }

    /// Whatever was there of that key is replaced.
    pub(super) fn set(&mut self, key: String, node: Node) {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, held)) => *held = node,
            None => self.0.push((key, node)),
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(at).1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(key, node)| (key.as_str(), node))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Node {
    pub(super) fn map(&self) -> Option<&Map> {
        match self {
            Node::Map(map) => Some(map),
            _ => None,
        }
    }

    fn n_nodes(&self) -> usize {
        match self {
            Node::Null | Node::Bool(_) | Node::Text(_) => 1,
            Node::List(all) => all.iter().fold(1, |n, node| n + node.n_nodes()),
            Node::Map(all) => all.iter().fold(1, |n, (_, node)| n + node.n_nodes()),
        }
    }
}

/// What is being read.
enum Level {
    List(usize, Vec<Node>),
    Map(usize, Pairs),
}

#[derive(Default)]
struct Pairs {
    merged: Vec<Map>,
    own: Vec<(String, Node)>,
    key: Option<Key>,
}

enum Key {
    Merge,
    Text(String),
}

/// Reads a file; `is_json`: by the rules of JSON.
///
/// # Errors
/// The line of what is no YAML, as far as it is known. What stands there is told nobody: it may be a secret.
pub(super) fn read(text: &str, is_json: bool) -> Result<Node, Option<usize>> {
    let mut reader = Reader { is_json, root: None, levels: Vec::new(), anchors: HashMap::new(), n_nodes: 0 };
    let mut n_documents = 0;
    // JSON may stand in a file of YAML.
    let text = match is_json || text.trim_start().starts_with('{') {
        true => with_pairs(text),
        false => Cow::Borrowed(text),
    };
    for parsed in Parser::new_from_str(&text) {
        let (event, span) = parsed.map_err(|error| Some(error.marker().line()))?;
        let here = Some(span.start.line());
        if matches!(event, Event::DocumentStart(_)) {
            n_documents += 1;
        }
        if n_documents > 1 {
            return Err(here);
        }
        reader.take(event).ok_or(here)?;
    }
    Ok(reader.root.unwrap_or(Node::Null))
}

/// The text with characters beyond U+FFFF where JSON writes two halves, `\ud83d\ude00`.
fn with_pairs(text: &str) -> Cow<'_, str> {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut whole, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        whole.push_str(before);
        let halves = [unit(escape), escape.get(6..).and_then(unit)];
        let both =
            || char::decode_utf16(halves.into_iter().flatten()).next()?.ok().filter(|c| c.len_utf16() == 2);
        let n_bytes = match both() {
            Some(c) => {
                whole.push(c);
                12
            }
            None => {
                // What is escaped belongs to the backslash.
                let n_bytes = 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
                whole.push_str(&escape[..n_bytes]);
                n_bytes
            }
        };
        rest = &escape[n_bytes..];
    }
    if whole.is_empty() {
        return Cow::Borrowed(text);
    }
    whole.push_str(rest);
    Cow::Owned(whole)
}

struct Reader {
    is_json: bool,
    root: Option<Node>,
    levels: Vec<Level>,
    anchors: HashMap<usize, Node>,
    n_nodes: usize,
}

impl Reader {
    /// `None`: it is wrong.
    fn take(&mut self, event: Event<'_>) -> Option<()> {
        let (anchor, node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                if let Some(Level::Map(_, pairs)) = self.levels.last_mut()
                    && is_plain
                    && pairs.key.is_none()
                    && text == "<<"
                    && !self.is_json
                {
                    pairs.key = Some(Key::Merge);
                    return Some(());
                }
                (anchor, self.scalar(&text, is_plain, tag.as_deref())?)
            }
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor)?.clone();
                self.n_nodes += node.n_nodes();
                (0, node)
            }
            Event::SequenceStart(anchor, tag) => {
                is_of(tag.as_deref(), "seq").then_some(())?;
                self.levels.push(Level::List(anchor, Vec::new()));
                return Some(());
            }
            Event::MappingStart(anchor, tag) => {
                is_of(tag.as_deref(), "map").then_some(())?;
                self.levels.push(Level::Map(anchor, Pairs::default()));
                return Some(());
            }
            Event::SequenceEnd | Event::MappingEnd => match self.levels.pop()? {
                Level::List(anchor, all) => (anchor, Node::List(all)),
                Level::Map(anchor, pairs) => (anchor, Node::Map(pairs.flat())),
            },
            _ => return Some(()),
        };
        self.n_nodes += 1;
        (self.n_nodes <= N_NODES_MAX).then_some(())?;
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.levels.last_mut() {
            None => self.root = Some(node),
            Some(Level::List(_, all)) => all.push(node),
            Some(Level::Map(_, pairs)) => pairs.take(node)?,
        }
        Some(())
    }

    fn scalar(&self, text: &str, is_plain: bool, tag: Option<&Tag>) -> Option<Node> {
        match tag {
            None if !is_plain => Some(Node::Text(text.to_owned())),
            None if self.is_json => Some(plain_json(text)),
            None => Some(plain(text)),
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => Some(Node::Text(text.to_owned())),
            Some(tag) => match name_of(tag)?.as_str() {
                "str" => Some(Node::Text(text.to_owned())),
                "float" => {
                    let number = float(text).or_else(|| text.replace('_', "").parse().ok().map(python_float));
                    number.map(Node::Text)
                }
                "int" | "bool" | "null" => Some(plain(text)),
                _ => None,
            },
        }
    }
}

impl Pairs {
    /// A key, or what belongs to it. `None`: it cannot be a key, or not be merged.
    fn take(&mut self, node: Node) -> Option<()> {
        match (self.key.take(), node) {
            (None, Node::Text(key)) => self.key = Some(Key::Text(key)),
            (None, Node::Bool(key)) => self.key = Some(Key::Text(python_bool(key).to_owned())),
            (None, Node::Null) => self.key = Some(Key::Text("None".to_owned())),
            (None, Node::List(_) | Node::Map(_)) => return None,
            (Some(Key::Text(key)), node) => self.own.push((key, node)),
            (Some(Key::Merge), Node::Map(map)) => self.merged.push(map),
            // Of those of a list the first one counts, as YAML says, and PyYAML until 6.0.3. With 6.0.4 it depends on
            // how Python keeps a key's text.
            (Some(Key::Merge), Node::List(all)) => {
                for node in all.into_iter().rev() {
                    let Node::Map(map) = node else { return None };
                    self.merged.push(map);
                }
            }
            (Some(Key::Merge), _) => return None,
        }
        Some(())
    }

    fn flat(mut self) -> Map {
        let merged = mem::take(&mut self.merged).into_iter().flat_map(|map| map.0);
        let mut map = Map::default();
        merged.chain(self.own).for_each(|(key, node)| map.set(key, node));
        map
    }
}

/// The name of a tag of YAML's own.
fn name_of(tag: &Tag) -> Option<String> {
    let whole = format!("{}{}", tag.handle, tag.suffix);
    whole.strip_prefix(CORE).or_else(|| whole.strip_prefix("!!")).map(str::to_owned)
}

fn is_of(tag: Option<&Tag>, name: &str) -> bool {
    tag.is_none_or(|tag| name_of(tag).is_some_and(|found| found == name))
}

/// `True` and `False`.
pub(super) fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn plain_json(text: &str) -> Node {
    match text {
        "null" => Node::Null,
        "true" | "false" => Node::Bool(text == "true"),
        _ if text.contains(['.', 'e', 'E']) => {
            Node::Text(text.parse().map_or_else(|_| text.to_owned(), python_float))
        }
        _ => Node::Text(text.to_owned()),
    }
}

/// What a scalar without quotes means.
fn plain(text: &str) -> Node {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Node::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Node::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Node::Bool(false),
        _ => Node::Text(float(text).or_else(|| int(text)).unwrap_or_else(|| text.to_owned())),
    }
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn int(text: &str) -> Option<String> {
    let (is_negative, digits) = signed(text);
    let of = |digits: &str, radix: u32| -> Option<String> {
        let is_digit = |c: char| c == '_' || c.is_digit(radix);
        (!digits.is_empty() && digits.chars().all(is_digit)).then(|| digits.replace('_', ""))
    };
    let in_radix = |digits: &str, radix: u32| -> Option<String> {
        u128::from_str_radix(&of(digits, radix)?, radix).ok().map(|n| n.to_string())
    };
    let value = if digits == "0" {
        "0".to_owned()
    } else if let Some(rest) = digits.strip_prefix("0b") {
        in_radix(rest, 2)?
    } else if let Some(rest) = digits.strip_prefix("0x") {
        in_radix(rest, 16)?
    } else if digits.starts_with('0') {
        in_radix(digits, 8)?
    } else if digits.contains(':') {
        parts_of_sixty(digits)?
            .try_fold(0_u128, |n, part| n.checked_mul(60)?.checked_add(part?.parse().ok()?))?
            .to_string()
    } else if digits.starts_with(|c: char| c.is_ascii_digit()) {
        // However long it is.
        of(digits, 10)?
    } else {
        return None;
    };
    Some(if is_negative && value != "0" { format!("-{value}") } else { value })
}

/// The parts of `1:30`; `None` is one that is wrong.
fn parts_of_sixty(text: &str) -> Option<impl Iterator<Item = Option<String>>> {
    text.starts_with(|c: char| c.is_ascii_digit()).then_some(())?;
    let part = |(n, part): (usize, &str)| {
        let is_digit = |c: char| c.is_ascii_digit() || (n == 0 && c == '_');
        let is_small = n == 0 || (part.len() <= 2 && part.parse().is_ok_and(|value: u32| value < 60));
        (!part.is_empty() && part.chars().all(is_digit) && is_small).then(|| part.replace('_', ""))
    };
    Some(text.split(':').enumerate().map(part))
}

fn float(text: &str) -> Option<String> {
    let (is_negative, number) = signed(text);
    let is_signed = number.len() < text.len();
    match number {
        ".inf" | ".Inf" | ".INF" => return Some(if is_negative { "-inf" } else { "inf" }.to_owned()),
        ".nan" | ".NaN" | ".NAN" if !is_signed => return Some("nan".to_owned()),
        _ => {}
    }
    let (before, after) = number.split_once('.')?;
    let is_digits = |text: &str| text.chars().all(|c| c == '_' || c.is_ascii_digit());
    let (fraction, exponent) = match after.find(['e', 'E']) {
        Some(at) => (&after[..at], Some(&after[at + 1..])),
        None => (after, None),
    };
    let is_exponent = |text: &str| {
        let digits = text.strip_prefix(['-', '+']);
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if !is_digits(fraction) || !exponent.is_none_or(is_exponent) {
        return None;
    }
    let fraction = fraction.replace('_', "");
    let is_bare = before.is_empty();
    if before.contains(':') && exponent.is_none() {
        let mut parts = parts_of_sixty(before)?.collect::<Option<Vec<String>>>()?;
        // As Python adds them: the last digits depend on it.
        parts.last_mut()?.push_str(&format!(".{fraction}0"));
        let (mut value, mut base) = (0.0_f64, 1.0_f64);
        for part in parts.iter().rev() {
            value += part.parse::<f64>().ok()? * base;
            base *= 60.0;
        }
        return Some(python_float(if is_negative { -value } else { value }));
    }
    // `.5` has no sign, and `.` is a text.
    let is_right = match is_bare {
        true => !is_signed && after.starts_with(|c: char| c.is_ascii_digit()),
        false => before.starts_with(|c: char| c.is_ascii_digit()) && is_digits(before),
    };
    is_right.then_some(())?;
    let exponent = exponent.map(|text| format!("e{text}")).unwrap_or_default();
    let value: f64 =
        format!("{}.{fraction}0{exponent}", if is_bare { "0".to_owned() } else { before.replace('_', "") })
            .parse()
            .ok()?;
    Some(python_float(if is_negative { -value } else { value }))
}

/// As Python writes it.
fn python_float(value: f64) -> String {
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    match exponent {
        -4..=15 => {
            let plain = format!("{value}");
            if plain.contains('.') || !value.is_finite() { plain } else { format!("{plain}.0") }
        }
        _ => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Node {
        let read = read(&format!("a: {text}"), false).expect(text);
        read.map().and_then(|map| map.get("a")).cloned().unwrap_or(Node::Null)
    }

    /// As PyYAML says, and openstacksdk makes texts of it.
    #[test]
    fn scalars_are_what_python_makes_of_them() {
        for (text, expected) in [
            ("1e5", "1e5"),
            ("1.e+5", "100000.0"),
            ("1.5e5", "1.5e5"),
            ("1.5e-7", "1.5e-07"),
            ("12345678901234567890123456789012", "12345678901234567890123456789012"),
            ("0123", "83"),
            ("0189", "0189"),
            ("0o17", "0o17"),
            ("0x1F", "31"),
            ("0b101", "5"),
            ("1_000", "1000"),
            ("-0", "0"),
            ("+7", "7"),
            ("1:30", "90"),
            ("1:75", "1:75"),
            ("0:30.5", "30.5"),
            ("-0:00:30.25", "-30.25"),
            ("0:30", "0:30"),
            ("!!float 1", "1.0"),
            ("!!float 1_0e2", "1000.0"),
            ("!!float '.5'", "0.5"),
            ("1.10", "1.1"),
            (".5", "0.5"),
            ("-.5", "-.5"),
            ("1.", "1.0"),
            ("100000000000000000.0", "1e+17"),
            (".inf", "inf"),
            ("p@ss:word", "p@ss:word"),
            ("\"0123\"", "0123"),
            ("'yes'", "yes"),
            ("!!str 0123", "0123"),
            ("2020-01-01", "2020-01-01"),
        ] {
            assert_eq!(value(text), Node::Text(expected.to_owned()), "{text}");
        }
        for (text, expected) in [("yes", true), ("Off", false), ("TRUE", true)] {
            assert_eq!(value(text), Node::Bool(expected), "{text}");
        }
        assert_eq!((value("~"), value("")), (Node::Null, Node::Null));
        assert_eq!(value("y"), Node::Text("y".into()));
    }

    #[test]
    fn what_is_merged_counts_less_than_what_stands_there() {
        let text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc: {<<: [*a, *b], z: 3}\nd: {z: 3, <<: *b}\n\
            e: {'<<': 1}\n";
        let read = read(text, false).expect("YAML");
        let of = |key: &str, field: &str| match read.map().and_then(|map| map.get(key)?.map()?.get(field)) {
            Some(Node::Text(text)) => text.clone(),
            other => panic!("{key}.{field}: {other:?}"),
        };
        assert_eq!(["x", "y", "z"].map(|field| of("c", field)), ["1", "1", "3"]);
        assert_eq!(["y", "z"].map(|field| of("d", field)), ["2", "3"]);
        assert_eq!(of("e", "<<"), "1");
    }

    /// The expected values are those that PyYAML 6.0.2 and 6.0.3 read from the same text.
    #[test]
    fn maps_are_merged_in_the_order_of_pyyaml() {
        let text = "a: &a {name: a, old: a}\nb: &b {name: b, new: b}\n\
            list: {<<: [*a, *b]}\nback: {<<: [*b, *a]}\ntwice: {<<: *a, <<: *b}\nagain: {<<: *b, <<: *a}\n\
            n: &n {<<: [*a, *b], name: n}\nnested: {<<: [*n, *b]}\nlast: {<<: [*b, *n]}\n\
            both: {<<: *n, <<: [*a, *b]}\n";
        let read = read(text, false).expect("YAML");
        for (key, expected) in [
            ("list", ["a", "a", "b"]),
            ("back", ["b", "a", "b"]),
            ("twice", ["b", "a", "b"]),
            ("again", ["a", "a", "b"]),
            ("nested", ["n", "a", "b"]),
            ("last", ["b", "a", "b"]),
            ("both", ["a", "a", "b"]),
        ] {
            let map = read.map().and_then(|map| map.get(key)?.map()).expect("a map");
            let found = ["name", "old", "new"].map(|field| map.get(field).cloned());
            assert_eq!(found, expected.map(|text| Some(Node::Text(text.to_owned()))), "{key}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_told_by_its_line() {
        for (text, line) in [
            ("a: b\nc: [hush", 2),
            ("a: b: c", 1),
            ("a: *nobody", 1),
            ("a: !python/object {}", 1),
            ("a: 1\n---\nb: 1", 2),
            ("a: {<<: 1}", 1),
            ("? [a]\n: b", 1),
        ] {
            let found = read(text, false).expect_err(text);
            assert!(found.is_some_and(|found| (line..=line + 1).contains(&found)), "{text}: {found:?}");
        }
        // A file that grows with each alias.
        let line = |n: usize| {
            format!("a{n}: &a{n} [*a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}, *a{m}]\n", m = n - 1)
        };
        let laughs: String = (1..9).map(line).collect();
        assert!(read(&format!("a0: &a0 ha\n{laughs}"), false).is_err());
    }

    #[test]
    fn json_writes_characters_in_two_halves() {
        for (written, expected) in [
            (r"\ud83d\ude00x", Some("😀x")),
            (r"ä\\\ud83D\uDe00\\ud83d", Some("ä\\😀\\ud83d")),
            (r"\\ud83d\\ude00", Some(r"\ud83d\ude00")),
            (r"\u00e9\n", Some("é\n")),
            // Halves that stand alone are no character.
            (r"\ud83d", None),
            (r"\ude00\ud83d", None),
            (r"\ud83d\u00e9", None),
        ] {
            let text = format!("{{\"a\": \"{written}\"}}");
            for is_json in [true, false] {
                let read = read(&text, is_json).ok();
                let found = read.as_ref().and_then(|read| read.map()?.get("a").cloned());
                assert_eq!(found, expected.map(|text| Node::Text(text.to_owned())), "{written} {is_json}");
            }
        }
        // Where no quotes of JSON are, they are other characters.
        assert_eq!(value(r"\ud83d\ude00"), Node::Text(r"\ud83d\ude00".to_owned()));
    }

    #[test]
    fn json_has_its_own_numbers() {
        let text = "{\"a\": 1e5, \"b\": 12345678901234567890123456789012, \"c\": null, \"d\": true, \"e\": \"x\\/y\"}";
        let read = read(text, true).expect("JSON");
        let map = read.map().expect("a map");
        let texts = ["a", "b", "e"].map(|key| map.get(key).cloned());
        let expected = ["100000.0", "12345678901234567890123456789012", "x/y"];
        assert_eq!(texts, expected.map(|text| Some(Node::Text(text.to_owned()))));
        assert_eq!((map.get("c"), map.get("d")), (Some(&Node::Null), Some(&Node::Bool(true))));
    }
}
