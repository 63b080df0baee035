//! Reading YAML values of a certain kind; what is of another kind is a problem, and reading goes on.
//! For job files, and for other files that are to complain alike.

pub(crate) mod read_files;
pub(crate) mod read_job;
pub(crate) mod read_sweep;

use serde_yaml::{Mapping, Value};

use crate::job::author::yaml::locate::{Locator, join};
use crate::problem::{Problem, called_elsewhere, nearest, quoted};
use crate::text::units::UnitError;

/// A value and the path of its field.
#[derive(Clone, Debug)]
pub struct Node<'v> {
    /// As it was parsed.
    pub value: &'v Value,
    /// Like `sweep.seed.range[2]`; empty for the file as a whole.
    pub path: String,
}

/// The fields of a mapping whose names are known.
#[derive(Clone, Default)]
pub struct Fields<'v> {
    found: Vec<(String, Node<'v>)>,
    /// The known names that unknown fields were taken for.
    meant: Vec<String>,
}

/// Collects problems while values are read. Each method gives `None` after it has reported one.
pub struct Reader<'l> {
    locator: &'l Locator,
    problems: Vec<Problem>,
}

impl<'v> Node<'v> {
    /// An item of this list.
    pub fn item(&self, i: usize, value: &'v Value) -> Node<'v> {
        Node { value, path: format!("{}[{i}]", self.path) }
    }

    /// The items of this list; what is no list is the only item.
    pub fn one_or_more(&self) -> Vec<Node<'v>> {
        match self.value {
            Value::Sequence(items) => {
                items.iter().enumerate().map(|(i, value)| self.item(i, value)).collect()
            }
            _ => vec![self.clone()],
        }
    }
}

impl<'v> Fields<'v> {
    /// The names of those that are there.
    pub fn names(&self) -> Vec<String> {
        self.found.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Takes over those that are not there.
    pub fn inherit(&mut self, others: &Fields<'v>) {
        let own = self.names();
        let new = others.found.iter().filter(|(name, _)| !own.contains(name));
        self.found.extend(new.cloned());
    }

    /// The field of that name, once.
    pub fn take(&mut self, name: &str) -> Option<Node<'v>> {
        let place = self.found.iter().position(|(known, _)| known == name)?;
        Some(self.found.swap_remove(place).1)
    }
}

impl<'l> Reader<'l> {
    /// Reads a text whose positions these are.
    pub fn new(locator: &'l Locator) -> Reader<'l> {
        Reader { locator, problems: Vec::new() }
    }

    /// All that was reported.
    pub fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Reports what a field holds and what it should.
    pub fn refuse<T>(&mut self, node: &Node<'_>, expected: impl Into<String>) -> Option<T> {
        let found = self.describe(node);
        self.report(&node.path, found, expected)
    }

    /// Reports a problem of a field.
    pub fn report<T>(
        &mut self,
        path: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Option<T> {
        self.problems.push(Problem::new(path, found, expected));
        None
    }

    fn describe(&self, node: &Node<'_>) -> String {
        let spelled = |fallback: String| self.locator.spelling(&node.path).map_or(fallback, str::to_owned);
        match node.value {
            Value::Null => "no value".to_owned(),
            Value::Bool(truth) => spelled(truth.to_string()),
            Value::Number(number) => spelled(number.to_string()),
            Value::String(text) => format!("the text {}", quoted(text)),
            Value::Sequence(items) if items.is_empty() => "an empty list".to_owned(),
            Value::Sequence(_) => "a list".to_owned(),
            Value::Mapping(mapping) => match bare_placeholder(mapping) {
                Some(name) => format!("{{{name}}} without quotes, which YAML reads as a mapping"),
                None => "a mapping".to_owned(),
            },
            Value::Tagged(tagged) => format!("the tag {}", tagged.tag),
        }
    }

    /// A text; numbers and truth values as they are written.
    pub fn text(&mut self, node: &Node<'_>) -> Option<String> {
        match node.value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(self.describe(node)),
            Value::Null => self.refuse(node, "write a text"),
            Value::Mapping(mapping) if bare_placeholder(mapping).is_some() => {
                let name = bare_placeholder(mapping).unwrap_or_default();
                self.refuse(node, format!("write \"{{{name}}}\""))
            }
            Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => self.refuse(node, "write a text"),
        }
    }

    /// A text that may be empty.
    pub fn value(&mut self, node: &Node<'_>) -> Option<String> {
        match node.value {
            Value::Null => self.refuse(node, "write a text, or \"\" for an empty one"),
            _ => self.text(node),
        }
    }

    /// What to do with digits that are a text. Without quotes they are one because of zeros in front.
    fn what_makes_it_a_text(&self, node: &Node<'_>) -> &'static str {
        match self.locator.spelling(&node.path) {
            Some(_) => "take the zeros in front away",
            None => "take the quotes away",
        }
    }

    /// A whole number between two limits, both included.
    pub fn integer<N: TryFrom<i128>>(&mut self, node: &Node<'_>, limits: (i128, i128)) -> Option<N> {
        let expected = match limits {
            (i128::MIN, _) => "write a whole number".to_owned(),
            (min, max) if max >= i128::from(u32::MAX) => format!("write a whole number, at least {min}"),
            (min, max) => format!("write a whole number from {min} to {max}"),
        };
        let number = match node.value {
            Value::Number(number) => number,
            Value::String(text) if text.trim().parse::<i128>().is_ok() => {
                return self.refuse(node, format!("{expected}: {}", self.what_makes_it_a_text(node)));
            }
            _ => return self.refuse(node, expected),
        };
        let wide = number.as_u64().map(i128::from).or(number.as_i64().map(i128::from));
        let fitting = wide.filter(|wide| (limits.0..=limits.1).contains(wide));
        match fitting.and_then(|wide| N::try_from(wide).ok()) {
            Some(number) => Some(number),
            None => self.refuse(node, expected),
        }
    }

    /// A finite number.
    pub fn number(&mut self, node: &Node<'_>) -> Option<f64> {
        match node.value {
            Value::Number(number) => match number.as_f64().filter(|number| number.is_finite()) {
                Some(number) => Some(number),
                None => self.refuse(node, "write a finite number"),
            },
            Value::String(text) => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    self.refuse(node, format!("write a number: {}", self.what_makes_it_a_text(node)))
                }
                Ok(_) => self.refuse(node, "write a finite number"),
                Err(_) => self.refuse(node, "write a number"),
            },
            _ => self.refuse(node, "write a number"),
        }
    }

    /// True or false.
    pub fn truth(&mut self, node: &Node<'_>) -> Option<bool> {
        match node.value {
            Value::Bool(truth) => Some(*truth),
            _ => self.refuse(node, "write true or false"),
        }
    }

    /// A duration or size.
    pub fn quantity(&mut self, node: &Node<'_>, parse: fn(&str) -> Result<u64, UnitError>) -> Option<u64> {
        let text = if node.value.is_null() { String::new() } else { self.text(node)? };
        match parse(&text) {
            Ok(quantity) => Some(quantity),
            Err(error) if node.value.is_null() => self.refuse(node, error.to_string()),
            Err(error) => self.report(&node.path, quoted(&text), error.to_string()),
        }
    }

    /// One of a few words. All are named to who writes another: the one that is nearest may mean the opposite.
    pub fn word<T: Copy>(&mut self, node: &Node<'_>, words: &[(&str, T)]) -> Option<T> {
        if let Value::String(text) = node.value
            && let Some((_, meant)) = words.iter().find(|(word, _)| word == text)
        {
            return Some(*meant);
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let named = match known.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
            Some(_) | None => known.join(""),
        };
        self.refuse(node, format!("write {named}"))
    }

    /// The items of a list.
    pub fn items<'v>(&mut self, node: &Node<'v>, expected: &str) -> Option<Vec<Node<'v>>> {
        match node.value {
            Value::Sequence(items) => {
                Some(items.iter().enumerate().map(|(i, value)| node.item(i, value)).collect())
            }
            _ => self.refuse(node, expected),
        }
    }

    /// A list of texts; `None` when any of them is none.
    pub fn texts(&mut self, node: &Node<'_>, expected: &str) -> Option<Vec<String>> {
        self.each(node, expected, Self::text)
    }

    /// A list of texts that may be empty; `None` when any of them is none.
    pub fn values(&mut self, node: &Node<'_>, expected: &str) -> Option<Vec<String>> {
        self.each(node, expected, Self::value)
    }

    fn each(
        &mut self,
        node: &Node<'_>,
        expected: &str,
        read: fn(&mut Self, &Node<'_>) -> Option<String>,
    ) -> Option<Vec<String>> {
        let items = self.items(node, expected)?;
        let texts: Vec<Option<String>> = items.iter().map(|item| read(self, item)).collect();
        texts.into_iter().collect()
    }

    /// The entries of a mapping with any keys, in order.
    pub fn entries<'v>(&mut self, node: &Node<'v>, expected: &str) -> Option<Vec<(String, Node<'v>)>> {
        let Value::Mapping(mapping) = node.value else { return self.refuse(node, expected) };
        let mut entries = Vec::new();
        for (key, value) in mapping {
            match key_text(key) {
                Some(key) => {
                    let path = join(&node.path, &key);
                    entries.push((key, Node { value, path }));
                }
                None => {
                    let mark = self.locator.key_of_no_text(&node.path);
                    let found = format!("a key that is not a text ({})", kind_of_key(key));
                    let expected = match key {
                        Value::Mapping(_) => "write `name: value`, and a name with braces in quotes",
                        _ => "write `name: value`",
                    };
                    let (line, column) = mark.map(|mark| (mark.line, mark.column)).unzip();
                    self.problems.push(Problem { line, column, ..Problem::new(&node.path, found, expected) });
                }
            }
        }
        Some(entries)
    }

    /// The fields of a mapping; others than the known ones are reported.
    pub fn fields<'v>(&mut self, node: &Node<'v>, known: &[&str], expected: &str) -> Option<Fields<'v>> {
        let entries = self.entries(node, expected)?;
        let (mut found, mut meant) = (Vec::new(), Vec::new());
        for (key, field) in entries {
            if known.contains(&key.as_str()) {
                found.push((key, field));
                continue;
            }
            if let Some(why) = never_here(&key, known) {
                self.report::<()>(&field.path, "an unknown field", why);
                continue;
            }
            let near = called_elsewhere(&key, known).or_else(|| nearest(&key, known.iter().copied()));
            let expected = match near {
                Some(near) => {
                    meant.push(near.to_owned());
                    format!("did you mean `{near}`?")
                }
                None => format!("the fields here are {}", known.join(", ")),
            };
            self.report::<()>(&field.path, "an unknown field", expected);
        }
        Some(Fields { found, meant })
    }

    /// A field that must be there; one that is only misspelled has been reported.
    pub fn required<'v>(
        &mut self,
        fields: &mut Fields<'v>,
        parent: &Node<'_>,
        name: &str,
        expected: &str,
    ) -> Option<Node<'v>> {
        let field = fields.take(name);
        if field.is_none() && !fields.meant.iter().any(|meant| meant == name) {
            self.report::<()>(&parent.path, format!("no field `{name}`"), expected);
        }
        field
    }
}

/// Why there is no such field, where users of batch systems look for one.
fn never_here(key: &str, known: &[&str]) -> Option<&'static str> {
    let is_of_nodes = matches!(key, "nodes" | "n_nodes" | "num_nodes" | "node_count" | "nnodes");
    let is_of_tasks = known.contains(&"cores") || known.contains(&"resources");
    if known.contains(&"stages") && matches!(key, "command" | "after" | "reduce") {
        return Some("each stage or task has its own: write it there");
    }
    (is_of_nodes && is_of_tasks).then_some(
        "a task runs on one node: take it out, and say in `resources: {cores: …}` how many of that node's cores a task needs",
    )
}

/// The name in a mapping like `{seed}`: a placeholder that was meant as a text.
pub(super) fn bare_placeholder(mapping: &Mapping) -> Option<&str> {
    let (key, value) = mapping.iter().next()?;
    if mapping.len() == 1 && value.is_null() { key.as_str() } else { None }
}

fn kind_of_key(key: &Value) -> &'static str {
    match key {
        Value::Null => "null",
        Value::Sequence(_) => "a list",
        Value::Mapping(_) => "a mapping",
        Value::Tagged(_) => "a tag",
        Value::String(_) | Value::Number(_) | Value::Bool(_) => "a text",
    }
}

fn key_text(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => None,
    }
}
