//! Templates: text with `{name}` placeholders, parsed once and rendered for every task.
//!
//! A brace group is a placeholder only when it has the form `{name}`, `{name.part}`, `{name:format}`
//! or `{name.part:format}`. Everything else stays as it is (`{print $1}`, `${HOME}`, `{"a": 1}`),
//! so shell, awk and JSON need no escapes. `{{` stands for `{`, and the `}}` that closes it for `}`.

mod format;
mod shell;

use std::fmt;

pub use format::NumberFormat;
pub use shell::{Reading, ShellText};

use crate::problem::nearest;
use crate::sweep::Value;
use crate::template::shell::{Place, QuotingTracker};

/// The names that stand for something in every template, apart from the sweep's parameters.
pub const BUILT_IN_NAMES: [&str; 3] = ["index", "job", "cores"];

/// The task's number from 1. A parameter of this name goes before it: the word is too common to reserve.
const NUMBER_NAME: &str = "number";

/// A parsed template. The default is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
    /// Braces that begin with a parameter and are no placeholder.
    almost: Vec<String>,
}

/// How a template's result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As it is: an argument, a path, a variable.
    Plain,
    /// By a shell: values are quoted as their place in the line demands.
    Shell,
}

/// What templates are rendered with.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The parameters' values, in the order of the names given to `parse`.
    pub values: &'a [Value<'a>],
    /// The task's index.
    pub index: u64,
    /// The job's id.
    pub job_id: u64,
    /// The job's name.
    pub job_name: &'a str,
    /// Cores of the task.
    pub cores: u32,
}

/// A placeholder that cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// No parameter of that name.
    UnknownName {
        /// What stands in the braces before any part or format.
        name: String,
        /// What would be right.
        expected: String,
    },
    /// A part that paths do not have.
    UnknownPart {
        /// The parameter.
        name: String,
        /// What follows the dot.
        part: String,
    },
    /// A format that numbers do not have.
    BadFormat {
        /// The parameter.
        name: String,
        /// What follows the colon.
        format: String,
    },
    /// `raw` where nothing is quoted anyway.
    RawOutsideShell {
        /// The parameter.
        name: String,
    },
}

impl std::error::Error for TemplateError {}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, expected) = self.found_and_expected();
        write!(f, "found {found}; {expected}")
    }
}

impl TemplateError {
    /// What was found and what would be right, as in `Problem`.
    pub fn found_and_expected(&self) -> (String, String) {
        match self {
            TemplateError::UnknownName { name, expected } => {
                (format!("unknown parameter `{name}`"), expected.clone())
            }
            TemplateError::UnknownPart { name, part } => (
                format!("unknown part `{part}` of `{name}`"),
                "the parts are stem, name, ext and parent".to_owned(),
            ),
            TemplateError::BadFormat { name, format } => {
                (format!("format `{format}` of `{name}`"), format::FORMAT_HELP.to_owned())
            }
            TemplateError::RawOutsideShell { name } => (
                format!("format `raw` of `{name}`"),
                "only shell lines quote values; leave `:raw` out".to_owned(),
            ),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Literal(String),
    Slot(Slot),
}

/// A parsed placeholder.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// What fills it.
    pub source: Source,
    /// Which part of the value, when it is read as a path.
    pub part: PathPart,
    /// How a number is written; `None`: as it is.
    pub format: Option<NumberFormat>,
    place: Place,
}

/// What fills a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The parameter at this place of the names.
    Parameter(usize),
    /// The task's index, from 0.
    Index,
    /// The task's number, from 1.
    Number,
    /// The job's id.
    JobId,
    /// The job's name.
    JobName,
    /// Cores of the task.
    Cores,
}

/// Which part of a value is put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// All of it.
    Whole,
    /// The file name without its last extension.
    Stem,
    /// The file name.
    Name,
    /// The last extension, without the dot.
    Ext,
    /// The folder.
    Parent,
}

impl Template {
    /// Parses a template against the names of the sweep's parameters. O(length × names).
    ///
    /// # Errors
    /// All placeholders that name nothing known or ask for an unknown part or format.
    pub fn parse(text: &str, mode: Mode, names: &[&str]) -> Result<Template, Vec<TemplateError>> {
        let mut parser = Parser {
            mode,
            names,
            parts: Vec::new(),
            almost: Vec::new(),
            literal: String::new(),
            errors: Vec::new(),
        };
        parser.parse(text);
        match parser.errors.is_empty() {
            true => Ok(Template { parts: parser.parts, almost: parser.almost }),
            false => Err(parser.errors),
        }
    }

    /// The template filled in for one task.
    pub fn render(&self, scope: &Scope<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Slot(slot) => slot.render(scope, &mut text),
            }
        }
        text
    }

    /// The same for a pattern of paths: what `*` and `?` of the template may stand for, those of values stand for
    /// themselves. A backslash before a character makes it one that stands for itself.
    pub fn render_pattern(&self, scope: &Scope<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => push_escaped(&mut text, literal, &['\\']),
                Part::Slot(slot) => {
                    let mut value = String::new();
                    slot.render(scope, &mut value);
                    push_escaped(&mut text, &value, &['\\', '*', '?']);
                }
            }
        }
        text
    }

    /// The placeholders, in order.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Slot(slot) => Some(slot),
        })
    }

    /// Braces that begin with a parameter, stay as they are, and are perhaps meant as placeholders.
    pub fn almost(&self) -> &[String] {
        &self.almost
    }

    /// The text, when there is no placeholder.
    pub fn render_constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether every task of a job gets the same text.
    pub fn is_same_for_all_tasks(&self) -> bool {
        self.slots().all(|slot| match slot.source {
            Source::Parameter(_) | Source::Index | Source::Number => false,
            Source::JobId | Source::JobName | Source::Cores => true,
        })
    }
}

/// Puts a backslash before each of these characters.
fn push_escaped(text: &mut String, more: &str, special: &[char]) {
    for found in more.chars() {
        if special.contains(&found) {
            text.push('\\');
        }
        text.push(found);
    }
}

impl Slot {
    /// Why a value of the parameter cannot be written there.
    pub fn refusal(&self, value: &str) -> Option<String> {
        self.place.refusal(self.part.of(value))
    }

    fn render(&self, scope: &Scope<'_>, text: &mut String) {
        let value = self.value(scope);
        let plain = match (self.part, &self.format, value) {
            (PathPart::Whole, Some(format), value) => format.write(value),
            (PathPart::Whole, None, Value::Text(whole)) => {
                return shell::push_quoted(text, whole, &self.place);
            }
            (PathPart::Whole, None, number) => number.to_string(),
            (part, None, Value::Text(path)) => return shell::push_quoted(text, part.of(path), &self.place),
            (part, None, number) => part.of(&number.to_string()).to_owned(),
            (part, Some(format), value) => format.write(Value::Text(part.of(&value.to_string()))),
        };
        shell::push_quoted(text, &plain, &self.place);
    }

    fn value<'a>(&self, scope: &Scope<'a>) -> Value<'a> {
        // Indices and ids stay far below 2^63 (`N_TASKS_MAX`).
        let number = |id: u64| Value::Integer(i64::try_from(id).unwrap_or(i64::MAX));
        match self.source {
            Source::Parameter(place) => scope.values.get(place).copied().unwrap_or(Value::Text("")),
            Source::Index => number(scope.index),
            Source::Number => number(scope.index.saturating_add(1)),
            Source::JobId => number(scope.job_id),
            Source::JobName => Value::Text(scope.job_name),
            Source::Cores => number(scope.cores.into()),
        }
    }
}

impl PathPart {
    fn parse(word: &str) -> Option<PathPart> {
        match word {
            "stem" => Some(PathPart::Stem),
            "name" => Some(PathPart::Name),
            "ext" => Some(PathPart::Ext),
            "parent" => Some(PathPart::Parent),
            _ => None,
        }
    }

    /// This part of a value that is read as a path.
    pub fn of(self, path: &str) -> &str {
        let (parent, name) = match path.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some((parent, name)) => (parent, name),
            None => (".", path),
        };
        // A leading dot hides a file, it does not begin an extension.
        let (stem, ext) = match name.rsplit_once('.') {
            Some((stem, ext)) if !stem.is_empty() => (stem, ext),
            _ => (name, ""),
        };
        match self {
            PathPart::Whole => path,
            PathPart::Stem => stem,
            PathPart::Name => name,
            PathPart::Ext => ext,
            PathPart::Parent => parent,
        }
    }
}

/// A brace group that has the form of a placeholder.
struct Group<'t> {
    name: &'t str,
    part: Option<&'t str>,
    format: Option<&'t str>,
    /// Bytes of the group, braces included.
    len: usize,
}

struct Parser<'n> {
    mode: Mode,
    names: &'n [&'n str],
    parts: Vec<Part>,
    almost: Vec<String>,
    literal: String,
    errors: Vec<TemplateError>,
}

impl Parser<'_> {
    fn parse(&mut self, text: &str) {
        let mut rest = text;
        let mut n_open = 0_usize;
        let mut quoting = QuotingTracker::default();
        while let Some(first) = rest.chars().next() {
            let n_consumed = if first == '$' && rest[1..].starts_with('{') {
                // A shell variable, whatever its name: `$` and `{` go over together.
                self.literal.push_str("${");
                quoting.read("${");
                2
            } else if let Some(group) = read_group(rest) {
                self.push_slot(&group, quoting.here());
                group.len
            } else if rest.starts_with("{{") {
                n_open += 1;
                self.literal.push('{');
                quoting.read("{");
                2
            } else if rest.starts_with("}}") && n_open > 0 {
                n_open -= 1;
                self.literal.push('}');
                quoting.read("}");
                2
            } else {
                self.almost.extend(self.almost_group(rest).map(str::to_owned));
                self.literal.push(first);
                quoting.read(&rest[..first.len_utf8()]);
                first.len_utf8()
            };
            rest = &rest[n_consumed..];
        }
        self.flush();
    }

    /// The braces that `text` begins with, if they begin with a parameter and what follows it is hardly meant for a shell
    /// or for awk.
    fn almost_group<'t>(&self, text: &'t str) -> Option<&'t str> {
        let inside = text.strip_prefix('{')?;
        let inside = &inside[..inside.find('}')?];
        let is_almost = |name: &&str| {
            let rest = inside.trim_start().strip_prefix(*name);
            rest.is_some_and(|rest| rest.trim().is_empty() || rest.starts_with(['.', ':', '!', '[']))
        };
        let is_range = inside.contains("..") || inside.contains('\n');
        (!is_range && self.names.iter().any(is_almost)).then(|| &text[..inside.len() + 2])
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.parts.push(Part::Literal(std::mem::take(&mut self.literal)));
        }
    }

    fn push_slot(&mut self, group: &Group<'_>, place: Place) {
        match self.slot(group, place) {
            Ok(slot) => {
                self.flush();
                self.parts.push(Part::Slot(slot));
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn slot(&self, group: &Group<'_>, place: Place) -> Result<Slot, TemplateError> {
        let name = group.name.to_owned();
        let source = match (group.name, self.names.iter().position(|known| *known == group.name)) {
            (_, Some(place)) => Source::Parameter(place),
            ("index", None) => Source::Index,
            (NUMBER_NAME, None) => Source::Number,
            ("job", None) if group.part == Some("name") => Source::JobName,
            ("job", None) => Source::JobId,
            ("cores", None) => Source::Cores,
            (_, None) => return Err(TemplateError::UnknownName { expected: self.known_names(&name), name }),
        };
        let part = match (source, group.part) {
            (Source::JobName, _) | (_, None) => PathPart::Whole,
            (_, Some(word)) => PathPart::parse(word)
                .ok_or_else(|| TemplateError::UnknownPart { name: name.clone(), part: word.to_owned() })?,
        };
        let place = if self.mode == Mode::Shell { place } else { Place::PLAIN };
        let (format, place) = match group.format {
            None => (None, place),
            Some("raw") if self.mode == Mode::Shell => (None, Place::PLAIN),
            Some("raw") => return Err(TemplateError::RawOutsideShell { name }),
            Some(word) => {
                let format = NumberFormat::parse(word);
                let bad = || TemplateError::BadFormat { name, format: word.to_owned() };
                (Some(format.ok_or_else(bad)?), place)
            }
        };
        Ok(Slot { source, part, format, place })
    }

    fn known_names(&self, name: &str) -> String {
        let known = self.names.iter().copied().chain(BUILT_IN_NAMES).chain([NUMBER_NAME]);
        let hint = match nearest(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`? "),
            None => String::new(),
        };
        // A table can have hundreds of columns; the first say enough.
        let shown: Vec<&str> = known.clone().take(12).collect();
        let more = if known.count() > shown.len() { ", …" } else { "" };
        format!("{hint}known are {}{more}; for literal braces write {{{{{name}}}}}", shown.join(", "))
    }
}

/// The placeholder that `text` begins with.
fn read_group(text: &str) -> Option<Group<'_>> {
    let inside = text.strip_prefix('{')?;
    let inside = &inside[..inside.find('}')?];
    let (head, format) = match inside.split_once(':') {
        Some((head, format)) => (head, Some(format)),
        None => (inside, None),
    };
    let (name, part) = match head.split_once('.') {
        Some((name, part)) => (name, Some(part)),
        None => (head, None),
    };
    let is_format = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let is_placeholder = is_parameter_name(name) && part.is_none_or(is_word) && format.is_none_or(is_format);
    is_placeholder.then_some(Group { name, part, format, len: inside.len() + 2 })
}

/// Whether templates can refer to a parameter of this name: a word, or digits only.
pub fn is_parameter_name(name: &str) -> bool {
    is_word(name) || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_word(word: &str) -> bool {
    let mut bytes = word.bytes();
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    bytes.next().is_some_and(is_start) && bytes.all(|byte| is_start(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
