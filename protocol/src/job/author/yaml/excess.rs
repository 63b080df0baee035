//! Texts that are small and would take all memory or time: lists in lists without end, and aliases of aliases. They are
//! found before the parser that gives values reads them.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser};

use crate::job::Problem;

/// Lists and mappings within each other.
const N_LEVELS_MAX: usize = 128;
const NEST_LESS: &str = "nest less deeply";
/// Values that aliases may stand for, all together.
const N_REPEATED_MAX: u64 = 4 << 20;
/// … and the bytes of their texts.
const REPEATED_BYTES_MAX: u64 = 64 << 20;

/// Values and bytes of text.
#[derive(Clone, Copy, Default)]
struct Amount {
    n_values: u64,
    n_bytes: u64,
}

impl Amount {
    fn add(&mut self, other: Amount) {
        self.n_values = self.n_values.saturating_add(other.n_values);
        self.n_bytes = self.n_bytes.saturating_add(other.n_bytes);
    }

    fn since(self, before: Amount) -> Amount {
        Amount { n_values: self.n_values - before.n_values, n_bytes: self.n_bytes - before.n_bytes }
    }
}

/// What of a YAML text is too much, if anything is. O(text).
pub(in crate::job::author) fn excess(text: &str) -> Option<Problem> {
    if !may_have_some(text) {
        return None;
    }
    let (mut all, mut repeated) = (Amount::default(), Amount::default());
    let mut levels: Vec<(usize, Amount)> = Vec::new();
    let mut anchors: HashMap<usize, Amount> = HashMap::new();
    for parsed in Parser::new_from_str(text) {
        let (event, span) = match parsed {
            Ok(parsed) => parsed,
            // The parser has a limit of its own, and says so before it tells of the lists.
            Err(error) if n_brackets_open(text) > N_LEVELS_MAX => {
                let line = Some(error.marker().line() as u32);
                return Some(Problem { line, ..Problem::new("", too_deep(), NEST_LESS) });
            }
            // What is no YAML is explained by who reads it.
            Err(_) => return None,
        };
        let problem = |found: String, expected: &str| {
            let (line, column) = (span.start.line() as u32, span.start.col() as u32 + 1);
            Some(Problem { line: Some(line), column: Some(column), ..Problem::new("", found, expected) })
        };
        match event {
            Event::Scalar(text, _, anchor, _) => {
                let amount = Amount { n_values: 1, n_bytes: text.len() as u64 };
                all.add(amount);
                if anchor > 0 {
                    anchors.insert(anchor, amount);
                }
            }
            Event::Alias(anchor) => {
                // One within its own anchor is refused by who reads it.
                let amount = anchors.get(&anchor).copied().unwrap_or_default();
                all.add(amount);
                repeated.add(amount);
                if repeated.n_values > N_REPEATED_MAX || repeated.n_bytes > REPEATED_BYTES_MAX {
                    let found = format!(
                        "aliases that stand for more than {N_REPEATED_MAX} values or {} MiB",
                        REPEATED_BYTES_MAX >> 20
                    );
                    return problem(
                        found,
                        "repeat less by aliases; ranges and products of a sweep take no room",
                    );
                }
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                levels.push((anchor, all));
                all.add(Amount { n_values: 1, n_bytes: 0 });
                if levels.len() > N_LEVELS_MAX {
                    return problem(too_deep(), NEST_LESS);
                }
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((anchor, before)) = levels.pop().filter(|(anchor, _)| *anchor > 0) {
                    anchors.insert(anchor, all.since(before));
                }
            }
            Event::DocumentEnd => return None,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
    }
    None
}

fn too_deep() -> String {
    format!("more than {N_LEVELS_MAX} lists and mappings within each other")
}

/// The most brackets that are open at one place.
fn n_brackets_open(text: &str) -> usize {
    let (mut n, mut most) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => n += 1,
            b']' | b'}' => n = n.saturating_sub(1),
            _ => {}
        }
        most = most.max(n);
    }
    most
}

/// Whether the text has aliases, or enough of what begins lists and mappings. Most have not, and are read once.
fn may_have_some(text: &str) -> bool {
    let n_opened = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).take(N_LEVELS_MAX + 1).count();
    n_opened > N_LEVELS_MAX
        || text.contains('*')
        || text.contains("- - - - ")
        || text.contains("? ? ? ? ")
        || text.lines().any(|line| line.len() - line.trim_start_matches(' ').len() > N_LEVELS_MAX)
}

#[cfg(test)]
mod tests {
    use super::excess;

    fn found(text: &str) -> String {
        excess(text).map_or_else(String::new, |problem| problem.to_string())
    }

    #[test]
    fn lists_in_lists_without_end_are_refused_where_they_get_too_deep() {
        for text in [
            format!("x: {}{}", "[".repeat(200_000), "]".repeat(200_000)),
            format!("x: {}", "{a: ".repeat(200_000)),
            format!("x:\n  {}a", "- ".repeat(200_000)),
            (0..1000).map(|n| format!("{}a:\n", " ".repeat(n))).collect(),
        ] {
            assert!(
                found(&text).contains("more than 128 lists and mappings within each other"),
                "{:?} in {}",
                found(&text),
                &text[..40]
            );
        }
        let many = format!("x: [{}]", "[1], ".repeat(10_000));
        assert_eq!(found(&many), "", "beside each other there may be many");
        assert_eq!(found(&format!("x: '{}'", "[".repeat(1000))), "", "a text");
    }

    #[test]
    fn aliases_of_aliases_are_counted_and_not_followed() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..30 {
            let before = vec![format!("*a{}", n - 1); 10].join(", ");
            text.push_str(&format!("a{n}: &a{n} [{before}]\n"));
        }
        assert_eq!(excess(&text).and_then(|problem| problem.line), Some(7));
        assert!(found(&text).contains("aliases that stand for more than"), "{}", found(&text));
        let long = format!("a: &a {}\n", "z".repeat(1000));
        let env: String = (0..100_000).map(|n| format!("b{n}: *a\n")).collect();
        assert!(found(&(long.clone() + &env)).contains("64 MiB"));
        assert_eq!(found(&(long + "b: *a\nc: [*a, *a]\n")), "");
        assert_eq!(found("a: &a [1, 2]\nb: *a\n*a : 3\n"), "");
    }
}
