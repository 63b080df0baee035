//! Where each field of a YAML text stands, and how its value is spelled.
//!
//! The parser that gives values gives no positions. This second pass over the same text keeps the
//! positions and nothing else; where it has none, a field is located by the nearest one around it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};

use crate::job::author::yaml::characters::with_whole_characters;
use crate::job::author::yaml::excess::excess;

/// A position, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::job::author) struct Mark {
    pub line: u32,
    pub column: u32,
}

/// The positions of a YAML text's fields, by paths like `sweep.seed.range[2]`.
#[derive(Debug, Default)]
pub struct Locator {
    marks: HashMap<String, Mark>,
    plain: HashMap<String, String>,
    repeated: Vec<Repeated>,
    tags: Vec<Tagged>,
    /// The first key of a mapping that is no text, by the mapping's path.
    keys_of_no_text: HashMap<String, Mark>,
    /// Paths of the plain values in their order.
    order: Vec<String>,
    /// Where the value of an anchor stands, and which of `order` are in it.
    anchors: HashMap<usize, (String, Range<usize>)>,
}

/// Values that aliases repeat are located as long as there are no more than so many of them.
const N_PLAIN_MAX: usize = 4 << 20;

/// The key whose value is merged into the mapping in which it stands.
pub(in crate::job::author) const MERGE: &str = "<<";

/// A key that stands in its mapping a second time.
#[derive(Debug)]
pub(in crate::job::author) struct Repeated {
    pub path: String,
    pub first: Mark,
    pub second: Mark,
}

/// A value or a key with a tag that says more than what is written.
#[derive(Debug)]
pub(in crate::job::author) struct Tagged {
    pub path: String,
    pub mark: Mark,
    /// As it is written.
    pub shown: String,
}

/// What a tag stands at.
enum Kind<'t> {
    Scalar(&'t str, ScalarStyle),
    Sequence,
    Mapping,
}

/// What the pass is inside of.
enum Level {
    Mapping { path: String, key: Option<String>, anchor: Anchor },
    Sequence { path: String, n_items: usize, anchor: Anchor },
}

/// The anchor of what a level is, 0 if it has none, its path, and how many plain values are before it.
type Anchor = (usize, String, usize);

impl Locator {
    /// Reads positions as far as the text can be parsed.
    pub fn read(text: &str) -> Locator {
        let (locator, is_whole) = Locator::read_as_far_as_possible(text);
        match with_whole_characters(text) {
            // The parser does not know two escapes for one character.
            Cow::Owned(whole) if !is_whole => Locator::read_as_far_as_possible(&whole).0,
            Cow::Owned(_) | Cow::Borrowed(_) => locator,
        }
    }

    /// The positions, and whether they are all.
    fn read_as_far_as_possible(text: &str) -> (Locator, bool) {
        let mut locator = Locator::default();
        if excess(text).is_some() {
            return (locator, false);
        }
        let mut levels: Vec<Level> = Vec::new();
        for parsed in Parser::new_from_str(text) {
            let Ok((event, span)) = parsed else { return (locator, false) };
            if event == Event::DocumentEnd {
                break;
            }
            locator.take(event, span, &mut levels);
        }
        (locator, true)
    }

    /// Where a field stands, or else the nearest field around it.
    pub(in crate::job::author) fn mark(&self, path: &str) -> Option<Mark> {
        let mut path = path;
        loop {
            if let Some(mark) = self.marks.get(path) {
                return Some(*mark);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// Whether that very field is there.
    pub(in crate::job::author) fn has(&self, path: &str) -> bool {
        self.marks.contains_key(path)
    }

    /// The value of a field as it is written, when it has no quotes: `1.10` and not `1.1`.
    pub(in crate::job::author) fn spelling(&self, path: &str) -> Option<&str> {
        self.plain.get(path).map(String::as_str)
    }

    /// The keys that stand in their mapping more than once.
    pub(in crate::job::author) fn repeated(&self) -> &[Repeated] {
        &self.repeated
    }

    /// The tags that say more than what is written.
    pub(in crate::job::author) fn tags(&self) -> &[Tagged] {
        &self.tags
    }

    /// Where the first key that is no text stands in the mapping of this path.
    pub(in crate::job::author) fn key_of_no_text(&self, path: &str) -> Option<Mark> {
        self.keys_of_no_text.get(path).copied()
    }

    fn take(&mut self, event: Event<'_>, span: Span, levels: &mut Vec<Level>) {
        let mark = Mark { line: span.start.line() as u32, column: span.start.col() as u32 + 1 };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref().and_then(|tag| shown(tag, &Kind::Scalar(&text, style)));
                if let Some(Level::Mapping { path, key: key @ None, .. }) = levels.last_mut() {
                    if style == ScalarStyle::Plain && NULLS.contains(&&*text) {
                        self.keys_of_no_text.entry(path.clone()).or_insert(mark);
                    }
                    let path = join(path, &text);
                    *key = Some(text.into_owned());
                    self.key(path.clone(), mark);
                    return self.tagged(path, mark, tag);
                }
                let path = self.value(levels, mark);
                self.tagged(path.clone(), mark, tag);
                let n_before = self.order.len();
                if style == ScalarStyle::Plain {
                    self.spelled(&path, text.into_owned());
                }
                self.anchored((anchor, path, n_before));
            }
            Event::Alias(anchor) => {
                let path = self.value(levels, mark);
                self.again(anchor, &path);
            }
            Event::SequenceStart(anchor, tag) => {
                let path = self.value(levels, mark);
                let tag = tag.as_deref().and_then(|tag| shown(tag, &Kind::Sequence));
                self.tagged(path.clone(), mark, tag);
                let anchor = (anchor, path.clone(), self.order.len());
                levels.push(Level::Sequence { path, n_items: 0, anchor });
            }
            Event::MappingStart(anchor, tag) => {
                let path = self.value(levels, mark);
                let tag = tag.as_deref().and_then(|tag| shown(tag, &Kind::Mapping));
                self.tagged(path.clone(), mark, tag);
                let anchor = (anchor, path.clone(), self.order.len());
                levels.push(Level::Mapping { path, key: None, anchor });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Level::Mapping { anchor, .. } | Level::Sequence { anchor, .. }) = levels.pop() {
                    self.anchored(anchor);
                }
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
    }

    /// A plain value, which is also one of the mapping that it is merged into, unless that has its own.
    fn spelled(&mut self, path: &str, text: String) {
        if let Some(merged) = merged(path) {
            self.plain.entry(merged).or_insert_with(|| text.clone());
        }
        self.plain.insert(path.to_owned(), text);
        self.order.push(path.to_owned());
    }

    /// A tag stands where its field does: what it is of may begin in a later line.
    fn tagged(&mut self, path: String, mark: Mark, tag: Option<String>) {
        let Some(shown) = tag else { return };
        let mark = self.marks.get(&path).copied().unwrap_or(mark);
        self.tags.push(Tagged { path, mark, shown });
    }

    fn anchored(&mut self, (anchor, path, n_before): Anchor) {
        if anchor > 0 {
            self.anchors.insert(anchor, (path, n_before..self.order.len()));
        }
    }

    /// The value of an anchor stands here, too, spelled alike.
    fn again(&mut self, anchor: usize, path: &str) {
        let Some((of_anchor, values)) = self.anchors.get(&anchor).cloned() else { return };
        if self.order.len() + values.len() > N_PLAIN_MAX {
            return;
        }
        for at in values {
            let before = &self.order[at];
            let Some(rest) = before.strip_prefix(of_anchor.as_str()) else { continue };
            let here = if path.is_empty() {
                rest.trim_start_matches('.').to_owned()
            } else {
                format!("{path}{rest}")
            };
            if let Some(text) = self.plain.get(before).cloned() {
                self.spelled(&here, text);
            }
        }
    }

    fn key(&mut self, path: String, mark: Mark) {
        if let Some(merged) = merged(&path) {
            self.marks.entry(merged).or_insert(mark);
        }
        match self.marks.get(&path) {
            Some(first) => self.repeated.push(Repeated { path, first: *first, second: mark }),
            None => {
                self.marks.insert(path, mark);
            }
        }
    }

    /// The path of the value that begins here. A value behind a key keeps the key's position.
    fn value(&mut self, levels: &mut [Level], mark: Mark) -> String {
        match levels.last_mut() {
            None => String::new(),
            Some(Level::Mapping { path, key, .. }) => match key.take() {
                Some(key) => join(path, &key),
                // A key that is a list or a mapping itself: no field of ours has one.
                None => {
                    self.keys_of_no_text.entry(path.clone()).or_insert(mark);
                    *key = Some("?".to_owned());
                    join(path, "?")
                }
            },
            Some(Level::Sequence { path, n_items, .. }) => {
                let item = format!("{path}[{n_items}]");
                *n_items += 1;
                self.marks.insert(item.clone(), mark);
                item
            }
        }
    }
}

/// What `null` may be written as.
const NULLS: [&str; 5] = ["", "~", "null", "Null", "NULL"];

/// The tags that YAML itself knows.
const CORE: &str = "tag:yaml.org,2002:";

/// The tag as it is written, if it says more than what it stands at.
fn shown(tag: &Tag, of: &Kind<'_>) -> Option<String> {
    let whole = format!("{}{}", tag.handle, tag.suffix);
    let Some(word) = whole.strip_prefix(CORE) else {
        let is_short = whole.starts_with('!');
        return Some(if is_short { whole } else { format!("!<{whole}>") });
    };
    let means_nothing = match (word, of) {
        ("str", Kind::Scalar(..)) | ("seq", Kind::Sequence) | ("map", Kind::Mapping) => true,
        ("int", Kind::Scalar(text, ScalarStyle::Plain)) => {
            text.parse::<i64>().is_ok_and(|number| number.to_string() == *text)
        }
        ("float", Kind::Scalar(text, ScalarStyle::Plain)) => {
            text.contains('.') && text.parse::<f64>().is_ok_and(f64::is_finite)
        }
        ("bool", Kind::Scalar(text, ScalarStyle::Plain)) => matches!(*text, "true" | "false"),
        ("null", Kind::Scalar(text, ScalarStyle::Plain)) => matches!(*text, "~" | "null"),
        (_, Kind::Scalar(..) | Kind::Sequence | Kind::Mapping) => false,
    };
    if means_nothing { None } else { Some(format!("!!{word}")) }
}

/// The path of a field after mappings were merged into those around them; `None`: it is not in one that is.
fn merged(path: &str) -> Option<String> {
    if !path.contains(MERGE) {
        return None;
    }
    let is_merge = |part: &&str| {
        part.strip_prefix(MERGE)
            .is_some_and(|rest| rest.is_empty() || (rest.starts_with('[') && rest.ends_with(']')))
    };
    let parts: Vec<&str> = path.split('.').filter(|part| !is_merge(part)).collect();
    (parts.len() < path.split('.').count() && !parts.is_empty()).then(|| parts.join("."))
}

/// The line in which the second document of a text begins, counted from 1.
pub(in crate::job::author) fn second_document(text: &str) -> Option<u32> {
    let starts = Parser::new_from_str(text).map_while(Result::ok);
    let mut starts = starts.filter(|(event, _)| matches!(event, Event::DocumentStart(_)));
    starts.nth(1).map(|(_, span)| span.start.line() as u32)
}

/// The path of a field of a mapping.
pub(in crate::job::author) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::{Locator, Mark, second_document};

    const TEXT: &str = "\
name: a
sweep:
  seed: {range: [1,
    2]}
  box:
    - 1.10
    - \"1.20\"
&k key: *k
name: b
";

    #[test]
    fn fields_are_found_where_they_stand() {
        let locator = Locator::read(TEXT);
        for (path, line, column) in [
            ("name", 1, 1),
            ("sweep", 2, 1),
            ("sweep.seed", 3, 3),
            ("sweep.seed.range", 3, 10),
            ("sweep.seed.range[1]", 4, 5),
            ("sweep.box[1]", 7, 7),
            ("sweep.seed.unknown.field", 3, 3),
        ] {
            assert_eq!(locator.mark(path), Some(Mark { line, column }), "{path}");
        }
        assert_eq!(locator.mark("nowhere"), None);
    }

    #[test]
    fn the_second_document_is_found_where_it_begins() {
        for (text, line) in [
            ("a: 1\n---\nb: 2\n", Some(2)),
            ("# c\n---\na: 1\n\n--- # next\nb: 2\n", Some(5)),
            ("---\n---\na: 1\n", Some(2)),
            ("a: 1\n...\n", None),
            ("---\na: |\n  ---\n", None),
        ] {
            assert_eq!(second_document(text), line, "{text}");
        }
    }

    #[test]
    fn plain_values_keep_their_spelling() {
        let locator = Locator::read(TEXT);
        assert_eq!(locator.spelling("sweep.box[0]"), Some("1.10"));
        assert_eq!(locator.spelling("sweep.box[1]"), None);
    }

    #[test]
    fn spelling_is_kept_behind_characters_of_two_escapes() {
        let locator = Locator::read("{\"a\": \"\\ud83d\\ude00\",\n\"b\": 1.10}");
        assert_eq!(locator.spelling("b"), Some("1.10"));
        assert_eq!(locator.mark("b"), Some(Mark { line: 2, column: 1 }));
    }

    #[test]
    fn values_that_aliases_repeat_keep_their_spelling_too() {
        let text = "a: &a {v: 1.10, list: &l [1e5, {w: 0x10}]}\nb: *a\nc: {x: *l, <<: *a, v: 2.0}\nd: {<<: [*a, {u: 1_0}]}\n";
        let locator = Locator::read(text);
        for (path, spelling) in [
            ("b.v", Some("1.10")),
            ("b.list[1].w", Some("0x10")),
            ("c.x[0]", Some("1e5")),
            ("c.list[0]", Some("1e5")),
            ("c.v", Some("2.0")),
            ("d.v", Some("1.10")),
            ("d.u", Some("1_0")),
            ("d.x", None),
        ] {
            assert_eq!(locator.spelling(path), spelling, "{path}");
        }
        assert_eq!(locator.mark("d.u").map(|mark| mark.line), Some(4));
        assert_eq!(locator.repeated().len(), 0);
    }

    #[test]
    fn repeated_keys_are_found() {
        let locator = Locator::read(TEXT);
        let repeated: Vec<_> = locator.repeated().iter().map(|r| (r.path.as_str(), r.second.line)).collect();
        assert_eq!(repeated, [("name", 9)]);
    }
}
