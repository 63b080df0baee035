//! Names of files that begin like an address which means nothing there, and outputs that cannot go where they would. What
//! is not refused here would become a folder called `http:` or `~` without a word.

use std::path::{Component, Path, PathBuf};

use crate::job::compile::{StreamTemplate, Templates, WorkDirTemplate};
use crate::job::files::path::{FILE_SCHEME, STORE_SCHEME, Source, kind_of, strip_scheme};
use crate::job::files::{combination, names, scope};
use crate::job::{JobSpec, Output};
use crate::net::address;
use crate::problem::{Problem, quoted};
use crate::sweep::Values;
use crate::template::{Source as Slot, Template};

/// Schemes that mean something in job files. They are told also if the slashes behind the colon were forgotten.
const SCHEMES: [&str; 5] = ["file", "http", "https", "store", "stage"];

/// The folder in which a manager keeps what is its own.
const MANAGER_FOLDER: &str = ".pilotfish";

/// Values that are looked at in the templates of a job.
const N_LOOKED_AT: usize = 1_000_000;

const OF_INPUTS: &str = "inputs come from the job's folder, file:///… that nodes see, https://…, and store://NAME/… of a \
                         store that the manager knows (`pilotfish stores`)";
const OF_OUTPUTS: &str = "outputs go to the job's folder, file:///… that nodes see, and store://NAME/… of a store that the \
                          manager knows (`pilotfish stores`)";
const OF_TASK: &str = "a path below the task's folder is right";
const OF_HOST: &str = "a path is right; a relative one starts from the job file's folder";

/// What was found, and what would be right.
type Wrong = (String, String);

/// The first folder of a path that is a manager's own, by its path. No file is brought there.
pub fn manager_folder(path: &Path) -> Option<PathBuf> {
    let at = path.components().position(|part| part.as_os_str() == MANAGER_FOLDER)?;
    Some(path.components().take(at + 1).collect())
}

/// What is wrong with a name below a folder that begins as addresses do.
pub(in crate::job) fn address_for_name(text: &str, expected: &str) -> Option<Wrong> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let has_slashes = rest.starts_with("//");
    let is_known = SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !is_scheme || !(has_slashes || is_known) {
        return None;
    }
    // The rest may be a password.
    Some(match has_slashes {
        true => (format!("the scheme {scheme}://"), expected.to_owned()),
        false => {
            let found = format!("the scheme {scheme}: without `//`");
            (found, format!("{expected}; of a file whose name has a colon write ./{scheme}:…"))
        }
    })
}

/// The path without `.` and `..`, as far as names tell; `None`: it leads above the root.
fn without_dots(path: &str) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if !plain.pop() => return None,
            Component::ParentDir => {}
            other => plain.push(other),
        }
    }
    Some(plain)
}

impl JobSpec {
    /// Names of files that begin like an address which means nothing there, and outputs that cannot go where they would.
    /// Of the values of parameters, if they are known, each is looked at.
    pub(in crate::job) fn wrong_places(&self, knows_values: bool) -> Vec<Problem> {
        let Ok(templates) = Templates::parse(self) else { return Vec::new() };
        let mut look = Look { job: self, knows_values, n_left: N_LOOKED_AT, problems: Vec::new() };
        for (n, input) in self.inputs.iter().enumerate() {
            let Some(source) = templates.files.source(n) else { continue };
            if let Some(from) = templates.files.path_of(n) {
                let check = |text: &str| wrong_source(text, source, &input.from);
                look.at(format!("inputs[{n}].from"), (from, input.lines), check);
            }
            // What is said of `from` need not be said again.
            if let Some(to) = templates.files.name_of(n).filter(|_| input.to != input.from) {
                look.at(format!("inputs[{n}].to"), (to, input.lines), |text| address_for_name(text, OF_TASK));
            }
        }
        for (n, output) in self.outputs.iter().enumerate() {
            if let Some(to) = templates.files.target_of(n) {
                look.at(format!("outputs[{n}].to"), (to, output.lines), |text| wrong_target(text, output));
            }
            if let Some(from) = templates.files.left_of(n).filter(|_| output.to != output.from) {
                let check = |text: &str| address_for_name(text, OF_TASK);
                look.at(format!("outputs[{n}].from"), (from, output.lines), check);
            }
        }
        let streams =
            [("stdin", &templates.stdin), ("stdout", &templates.stdout), ("stderr", &templates.stderr)];
        for (name, stream) in streams {
            if let StreamTemplate::File(path) = stream {
                let check = |text: &str| address_for_name(text, OF_HOST);
                look.at(format!("stdio.{name}"), (path, false), check);
            }
        }
        if let WorkDirTemplate::Path(path) = &templates.workdir {
            let check = |text: &str| address_for_name(text, OF_HOST);
            look.at("workdir.path".to_owned(), (path, false), check);
        }
        look.problems
    }
}

/// Looks at what templates say, for all values of parameters.
struct Look<'j> {
    job: &'j JobSpec,
    knows_values: bool,
    n_left: usize,
    problems: Vec<Problem>,
}

impl Look<'_> {
    /// Takes note of the first of a template's texts that is wrong. Lists name a file a line.
    fn at(
        &mut self,
        field: String,
        (template, is_list): (&Template, bool),
        check: impl Fn(&str) -> Option<Wrong>,
    ) {
        if !self.knows_values && !template.is_same_for_all_tasks() {
            return;
        }
        let (job, mut n_looked_at) = (self.job, 0);
        let render = |combination: u64| {
            n_looked_at += 1;
            template.render(&scope(job, 0, 0, &job.sweep.values_of(combination)))
        };
        let is_seen = |text: String| {
            // Names in lists are below a folder in any case, and `./` before them was dropped.
            let is_looked_at = |name: &&str| !is_list || name.contains("://") || !name.contains(':');
            names(is_list, &text).into_iter().filter(is_looked_at).find_map(&check)
        };
        let wrong = combinations(job, template).take(self.n_left).map(render).find_map(is_seen);
        self.n_left -= n_looked_at;
        self.problems.extend(wrong.map(|(found, expected)| Problem::new(field, found, expected)));
    }
}

/// Combinations with each value of each parameter of a template that may lead to another place: of the first values, and of
/// those in which one of them is another. Numbers lead to no other.
fn combinations<'j>(job: &'j JobSpec, template: &Template) -> impl Iterator<Item = u64> + 'j {
    let columns: Vec<_> = job.sweep.columns().collect();
    let is_text = |place: usize| columns.get(place).is_some_and(|c| matches!(c.values, Values::Texts(_)));
    let of_slot = |slot: Slot| match slot {
        Slot::Parameter(place) if is_text(place) => job.sweep.dimension_of(place),
        Slot::Parameter(_) | Slot::Index | Slot::Number | Slot::JobId | Slot::JobName | Slot::Cores => None,
    };
    let mut named: Vec<usize> = template.slots().filter_map(|slot| of_slot(slot.source)).collect();
    named.sort_unstable();
    named.dedup();
    let others = named.into_iter().flat_map(move |n| {
        let len = job.sweep.dimensions.get(n).map_or(0, crate::sweep::Dimension::len);
        (1..len).map(move |place| combination(job, &[(n, len)], place))
    });
    std::iter::once(0).chain(others)
}

/// What is wrong with where an input comes from. `template`: the text that this one was made of.
fn wrong_source(text: &str, source: Source, template: &str) -> Option<Wrong> {
    match source {
        Source::Shared => {
            let path = |text| strip_scheme(text, FILE_SCHEME).unwrap_or(text);
            // A relative path in letters is refused anyway.
            let is_relative = !path(text).starts_with('/') && path(template).starts_with('{');
            is_relative.then(|| {
                (
                    quoted(&address::shown(text)),
                    "nodes know no base folder: write an absolute path".to_owned(),
                )
            })
        }
        // Those of other kinds among addresses are told by themselves.
        Source::Home if kind_of(text) == Source::Home => address_for_name(text, OF_INPUTS),
        Source::Home | Source::Url | Source::Store | Source::Tasks => None,
    }
}

/// What is wrong with where an output goes.
fn wrong_target(text: &str, output: &Output) -> Option<Wrong> {
    if let Some(path) = strip_scheme(text, FILE_SCHEME) {
        let expected = wrong_shared_path(path, output)?;
        return Some((quoted(&address::shown(text)), expected));
    }
    if strip_scheme(text, STORE_SCHEME).is_some() {
        return None;
    }
    if let Some(wrong) = address_for_name(text, OF_OUTPUTS) {
        return Some(wrong);
    }
    if text.starts_with("~/") || output.to.starts_with('$') {
        return Some((quoted(text), format!("nothing is expanded here: {OF_OUTPUTS}")));
    }
    let kept = output.kept_part();
    let is_refused = [text, kept].iter().any(|part| manager_folder(Path::new(part)).is_some());
    is_refused.then(|| {
        let shown = match kept {
            "" => text.to_owned(),
            kept => format!("{}/{kept}", text.trim_end_matches('/')),
        };
        let expected = format!(
            "a folder called {MANAGER_FOLDER} is a manager's own, and nothing is brought there: give it another \
             name"
        );
        (quoted(&shown), expected)
    })
}

/// What would be right instead of a path that nodes are to write to.
fn wrong_shared_path(path: &str, output: &Output) -> Option<String> {
    if !path.starts_with('/') {
        return Some(
            "write an absolute path, file:///…: nodes know no base folder, and no host is named".to_owned(),
        );
    }
    let is_folder = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end));
    if is_folder && !output.is_several() {
        return Some("write the file's name, too".to_owned());
    }
    // Values of parameters are below the folder that is written before them.
    let literal = strip_scheme(&output.to, FILE_SCHEME).unwrap_or("");
    let literal = &literal[..literal.find('{').unwrap_or(literal.len())];
    let folder = literal.rfind('/').map_or("", |end| &literal[..end]);
    let is_below = match (without_dots(path), without_dots(folder)) {
        (Some(path), Some(folder)) => path.starts_with(folder),
        _ => false,
    };
    let folder = if folder.is_empty() { "/" } else { folder };
    (!is_below).then(|| format!("`..` in it must not lead out of {folder}"))
}

#[cfg(test)]
mod tests;
