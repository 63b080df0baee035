//! Checks of a job's inputs and outputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::job::compile::Templates;
use crate::job::files::path::{FILE_SCHEME, STAGE_SCHEME, Source, kind_of, strip_scheme};
use crate::job::files::pattern::{fixed_part, is_pattern};
use crate::job::validate::Check;
use crate::job::{
    CommandLine, JobSpec, Output, OutputTarget, Several, TaskInput, TaskOutputFile, WorkDirPolicy, limits,
};
use crate::net::address;
use crate::problem::{Problem, quoted};
use crate::sweep::Column;
use crate::template::{self, Slot, Template};

/// Names of so many files, of all tasks together, are made to be compared. What tasks beyond them would
/// write is compared by the parameters in the template alone.
pub(in crate::job) const N_COMPARED: u64 = 100_000;

impl JobSpec {
    /// The job without anything but its tasks and their files.
    pub(in crate::job) fn with_files_only(&self) -> JobSpec {
        let JobSpec { sweep, inputs, outputs, base_dir, .. } = self.clone();
        let command = CommandLine::Args(vec!["true".to_owned()]);
        let workdir = WorkDirPolicy::Scratch;
        JobSpec { sweep, inputs, outputs, workdir, ..JobSpec::new(command, base_dir) }
    }
}

impl Problem {
    /// Whether it is one of files, or of the parameters that their names are made of.
    pub(in crate::job) fn is_of_files(&self) -> bool {
        ["inputs", "outputs", "sweep"].iter().any(|field| self.path.starts_with(field))
    }
}

impl Check {
    /// What can be said without looking into templates.
    pub(in crate::job) fn files(&mut self, job: &JobSpec) {
        self.count("inputs", job.inputs.len(), limits::N_FILES_MAX, "inputs");
        self.count("outputs", job.outputs.len(), limits::N_FILES_MAX, "outputs");
        let inputs = job.inputs.iter().enumerate().map(|(n, i)| (format!("inputs[{n}]"), &i.from, &i.to));
        let outputs = job.outputs.iter().enumerate().map(|(n, o)| (format!("outputs[{n}]"), &o.from, &o.to));
        let lists = job.inputs.iter().map(|i| i.lines).chain(job.outputs.iter().map(|o| o.lines));
        for ((path, from, to), is_list) in inputs.chain(outputs).zip(lists) {
            if is_list && (from != to || bare_parameter(from).is_none()) {
                let expected = "a list of files is one parameter, in `from` and in `to`";
                self.add(&path, format!("{} with `lines`", quoted(from)), expected);
            }
            if strip_scheme(from, STAGE_SCHEME).is_some() {
                let expected = "only stages take files from others; name a file";
                self.add(&path, quoted(from), expected);
            }
            self.path(&format!("{path}.from"), from);
            self.path(&format!("{path}.to"), to);
        }
        for (n, output) in job.outputs.iter().enumerate().filter(|(_, output)| !output.lines) {
            self.output_names(n, output);
        }
        if job.inputs.is_empty() && job.outputs.is_empty() {
            return;
        }
        if job.workdir != WorkDirPolicy::Scratch {
            let expected = "files come to a task's private folder and go from it: write scratch, or nothing";
            self.add("workdir", "another folder than scratch beside inputs or outputs", expected);
        }
        if job.resident {
            let expected = "its tasks share one folder; take inputs and outputs out";
            self.add("resident", "true beside inputs or outputs", expected);
        }
    }

    /// Names of outputs that people write for other tools and that mean nothing here: a task would only say that there is
    /// no such file.
    fn output_names(&mut self, n: usize, output: &Output) {
        let path = format!("outputs[{n}].from");
        let from = &output.from;
        let class = from.split_once('[').is_some_and(|(_, rest)| rest.contains(']'));
        if class {
            let expected = "patterns know `*`, `?` and `**`; `?` stands for any character, `[` too";
            self.add(&path, format!("brackets in {}", quoted(from)), expected);
        }
        let has_choice = from.split('{').skip(1).any(|rest| {
            rest.split_once('}').is_some_and(|(inside, _)| inside.contains(',') || inside.contains(".."))
        });
        if has_choice {
            let expected = "patterns know `*`, `?` and `**`; write an output for each name";
            self.add(&path, format!("braces with several names in {}", quoted(from)), expected);
        }
        if from.starts_with('~') || from.starts_with("$") {
            let expected = "nothing is expanded here: write a path below the task's folder";
            self.add(&path, quoted(from), expected);
        }
        if output.is_several() && is_pattern(&output.to) {
            let expected = "several files keep their names: write the folder that they go to";
            self.add(format!("outputs[{n}].to"), format!("a pattern ({})", quoted(&output.to)), expected);
        }
        if !output.is_several() && output.to.contains('*') {
            let expected =
                "it would be a part of the file's name: write the name, or a pattern in `from`, too";
            self.add(format!("outputs[{n}].to"), format!("`*` in {}", quoted(&output.to)), expected);
        }
    }

    /// What the templates of files say for the job's tasks.
    pub(in crate::job) fn file_templates(&mut self, job: &JobSpec, templates: &Templates) {
        if job.inputs.is_empty() && job.outputs.is_empty() {
            return;
        }
        let before = self.problems.len();
        self.input_sources(job, templates);
        self.output_targets(job, templates);
        if self.problems.len() > before {
            return;
        }
        let n_files = (job.inputs.len() + job.outputs.len()).max(1) as u64;
        let n_compared = job.sweep.n_tasks().min(N_COMPARED / n_files + 1);
        let mut written = BTreeMap::new();
        // Lists and folders have more.
        let mut n_names = 0;
        for index in 0..n_compared {
            match self.task_files(job, templates, index, &mut written) {
                Some(n) if n_names < N_COMPARED => n_names += n,
                _ => return,
            }
        }
    }

    fn input_sources(&mut self, job: &JobSpec, templates: &Templates) {
        let mut n_objects = 0_u64;
        for (n, input) in job.inputs.iter().enumerate() {
            let path = format!("inputs[{n}]");
            let Some(source) = templates.files.source(n) else { continue };
            let names_job =
                |template: &Template| template.slots().any(|slot| slot.source == template::Source::JobId);
            let n_places = if source == Source::Home { templates.files.n_places(job, n) } else { 0 };
            if !input.files.is_empty() && (input.files.len() as u64 != n_places || input.lines) {
                let expected =
                    format!("{n_places}, of the folders that the submitter's input names, are right");
                self.add(format!("{path}.files"), format!("{} lists of files", input.files.len()), expected);
            }
            if source == Source::Home {
                n_objects = n_objects.saturating_add(templates.files.n_objects(job, n));
                if templates.files.path_of(n).is_some_and(names_job) {
                    let expected = "files are read before the job has a number: leave {job} out";
                    self.add(format!("{path}.from"), "{job} in a path of the submitter's", expected);
                }
                if input.sha256.is_some() {
                    let expected = "it is found out by reading the file; leave the field out";
                    self.add(format!("{path}.sha256"), "a digest of a file of the submitter's", expected);
                }
            }
            if source == Source::Tasks {
                if templates.files.path_of(n).is_some_and(names_job) {
                    let expected = "it is the number of the job that takes the file: leave {job} out";
                    self.add(format!("{path}.from"), "{job} in the path of another task's file", expected);
                }
                if input.shared || input.sha256.is_some() {
                    let expected = "what tasks leave is known by what they leave: take it out";
                    self.add(&path, "`shared` or `sha256` beside another task's file", expected);
                }
            } else if input.optional {
                let expected = "only what other tasks leave may be missing: take it out";
                self.add(format!("{path}.optional"), "true of a file that is no other task's", expected);
            }
            let is_one = templates.files.path_of(n).is_some_and(Template::is_same_for_all_tasks);
            if matches!(source, Source::Url | Source::Store)
                && input.sha256.is_some()
                && !is_one
                && job.sweep.n_tasks() > 1
            {
                let expected = "one digest is of one file: take the parameter out of `from`, or leave it out";
                self.add(format!("{path}.sha256"), "one digest for several files", expected);
            }
            if source == Source::Shared && input.writable {
                let expected = "what nodes share is linked, not copied: take one of them out";
                self.add(format!("{path}.writable"), "true beside a shared path", expected);
            }
            let shown = strip_scheme(&input.from, FILE_SCHEME).unwrap_or(&input.from);
            if source == Source::Shared && !shown.starts_with(['/', '{']) {
                let expected = "nodes know no base folder: write an absolute path";
                self.add(format!("{path}.from"), quoted(&input.from), expected);
            }
        }
        if n_objects > limits::N_OBJECTS_MAX {
            let expected = format!("at most {} are brought; pack them, or share them", limits::N_OBJECTS_MAX);
            self.add("inputs", format!("{n_objects} files of the submitter's"), expected);
        }
    }

    /// Two tasks of which one would overwrite what the other has left: those that differ only in a parameter
    /// that the target does not name.
    fn output_targets(&mut self, job: &JobSpec, templates: &Templates) {
        for n in 0..job.outputs.len() {
            let Some(to) = templates.files.target_of(n) else { continue };
            let output = &job.outputs[n];
            let names: Vec<&str> = job.sweep.names().collect();
            // Of several files the names differ that they keep.
            let kept = Template::parse(output.kept_part(), template::Mode::Plain, &names).unwrap_or_default();
            if let Some(column) = unnamed(job, to.slots().chain(kept.slots())) {
                let (what, expected) = match output.is_several() {
                    false => (
                        "file",
                        "they would overwrite each other; put {index} or the parameter into the name",
                    ),
                    true => (
                        "folder",
                        "tasks would overwrite each other's files; put {index} or the parameter into `to`, the folder",
                    ),
                };
                let found = format!("one {what} for all values of `{}`", column.name);
                self.add(format!("outputs[{n}]"), found, expected);
            }
        }
    }

    /// Whether what a task leaves goes to places where nothing else goes; if not, that is told.
    fn are_apart(
        &mut self,
        outputs: Vec<TaskOutputFile>,
        index: u64,
        written: &mut BTreeMap<OutputKey, Writer>,
    ) -> bool {
        for (n, output) in outputs.into_iter().enumerate() {
            let is_file = output.several.is_none();
            let pattern = match &output.several {
                None => None,
                Some(Several::Folder) => Some("**".to_owned()),
                Some(Several::Pattern(pattern)) => Some(pattern[fixed_part(pattern).len()..].to_owned()),
            };
            let target = pattern.and_then(|name| output.to.join(Path::new(&name)));
            let key = match target.unwrap_or(output.to) {
                OutputTarget::Home(path) => OutputKey { is_home: true, path },
                OutputTarget::File(path) => OutputKey { is_home: false, path },
                OutputTarget::Store(place) => OutputKey { is_home: false, path: place.to_string().into() },
            };
            let shown = quoted(&key.path.to_string_lossy());
            if let Some((above, other)) = below_a_file(&key, is_file, written) {
                let of = match other.task == index {
                    true => format!("outputs[{}]", other.output),
                    false => format!("task {}", other.task),
                };
                let found = format!("{shown} beside {}, of {of}", quoted(&above.to_string_lossy()));
                let expected = "a file is no folder: give them different names";
                self.add(format!("outputs[{n}]"), found, expected);
                return false;
            }
            let writer = Writer { output: n, task: index, is_file };
            if let Some(other) = written.insert(key, writer) {
                let found = match other.task == index {
                    true => format!("{shown} also of outputs[{}]", other.output),
                    false => format!("{shown} for tasks {} and {index}", other.task),
                };
                let expected = "one would overwrite the other; give them different names";
                self.add(format!("outputs[{n}]"), found, expected);
                return false;
            }
        }
        true
    }

    /// How many names were compared; `None`: one was wrong.
    fn task_files(
        &mut self,
        job: &JobSpec,
        templates: &Templates,
        index: u64,
        written: &mut BTreeMap<OutputKey, Writer>,
    ) -> Option<u64> {
        let n_before = written.len();
        let files = templates.files.inputs_by_entry(job, 0, index);
        let inputs = match files.and_then(|inputs| Ok((inputs, templates.files.outputs(job, 0, index)?))) {
            Ok((inputs, outputs)) => {
                if let Some((field, name)) = with_line_break(&inputs, &outputs) {
                    self.add(field, quoted(&name), "names of files are lines: take the line break out");
                    return None;
                }
                if let Some((field, found, expected)) = inside_another(&outputs) {
                    self.add(field, found, expected);
                    return None;
                }
                if !self.are_apart(outputs, index, written) {
                    return None;
                }
                inputs
            }
            Err(problem) => {
                self.problems.push(problem);
                return None;
            }
        };
        let mut taken: BTreeMap<PathBuf, usize> = BTreeMap::new();
        for (n, input) in inputs {
            let is_kind_kept = input.source == Source::Shared || kind_of(&input.from) == input.source;
            if !is_kind_kept {
                let expected = "all values of a parameter here are addresses, or none is";
                self.add(format!("inputs[{n}].from"), quoted(&input.from), expected);
                return None;
            }
            // One with a password is refused as that, and not shown.
            let is_looked_at = input.source == Source::Url && !address::has_user(&input.from);
            if let Some(what) = address::mistake(&input.from).filter(|_| is_looked_at) {
                let found = format!("{what}, {}", quoted(&input.from));
                self.add(format!("inputs[{n}].from"), found, "write http://HOST/… or http://HOST:PORT/…");
                return None;
            }
            let shown = quoted(&input.to.to_string_lossy());
            if let Some(other) = taken.insert(input.to, n) {
                let expected = "two files cannot have one name; set `to`";
                self.add(format!("inputs[{n}]"), format!("{shown} also of inputs[{other}]"), expected);
                return None;
            }
        }
        let below_a_file = |(path, n): (&PathBuf, &usize)| {
            let above = path.ancestors().skip(1).find_map(|above| Some((above, taken.get(above)?)))?;
            Some((*n, path.clone(), above.0.to_owned(), *above.1))
        };
        if let Some((n, path, above, other)) = taken.iter().find_map(below_a_file) {
            let (path, above) = (quoted(&path.to_string_lossy()), quoted(&above.to_string_lossy()));
            let found = format!("{path} below {above}, a file of inputs[{other}]");
            self.add(format!("inputs[{n}]"), found, "a file is no folder; set `to`");
            return None;
        }
        Some((taken.len() + written.len() - n_before) as u64)
    }
}

/// A parameter whose values do not make a difference to a name with these placeholders; tasks that differ only in it
/// have one name.
pub(in crate::job) fn unnamed<'j>(
    job: &'j JobSpec,
    slots: impl Iterator<Item = &'j Slot>,
) -> Option<&'j Column> {
    let mut named: Vec<usize> = Vec::new();
    for slot in slots {
        match slot.source {
            template::Source::Index | template::Source::Number => return None,
            template::Source::Parameter(place) => named.extend(job.sweep.dimension_of(place)),
            template::Source::JobId | template::Source::JobName | template::Source::Cores => {}
        }
    }
    // A sample may have one task of each.
    let mut dimensions = job.sweep.dimensions.iter().enumerate().filter(|_| job.sweep.sample.is_none());
    let free = dimensions.find(|(n, dimension)| dimension.len() > 1 && !named.contains(n));
    free.and_then(|(_, dimension)| dimension.columns.first())
}

/// The name in `{name}`.
fn bare_parameter(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    crate::template::is_parameter_name(name).then_some(name)
}

/// Which output of which task goes to a place, and whether it is one file.
struct Writer {
    output: usize,
    task: u64,
    is_file: bool,
}

/// A file that is written to a place above this one, or below it if this one is a file, and who writes it.
fn below_a_file<'w>(
    key: &OutputKey,
    is_file: bool,
    written: &'w BTreeMap<OutputKey, Writer>,
) -> Option<(PathBuf, &'w Writer)> {
    let file_at = |path: &Path| {
        let writer = written.get(&OutputKey { is_home: key.is_home, path: path.to_owned() })?;
        writer.is_file.then(|| (path.to_owned(), writer))
    };
    let above = key.path.ancestors().skip(1).find_map(file_at);
    above.or_else(|| {
        let (first, writer) = written.range(key..).find(|(other, _)| *other != key)?;
        let is_below = is_file && first.is_home == key.is_home && first.path.starts_with(&key.path);
        is_below.then(|| (first.path.clone(), writer))
    })
}

/// A name of a task's files that is more than a line, with its field.
fn with_line_break(inputs: &[(usize, TaskInput)], outputs: &[TaskOutputFile]) -> Option<(String, String)> {
    let is_broken = |name: &String| name.contains(['\n', '\r']);
    let target = |to: &OutputTarget| match to {
        OutputTarget::Home(path) | OutputTarget::File(path) => path.to_string_lossy().into_owned(),
        OutputTarget::Store(place) => place.to_string(),
    };
    let of_inputs = inputs.iter().flat_map(|(n, input)| {
        let to = input.to.to_string_lossy().into_owned();
        [(format!("inputs[{n}].from"), input.from.clone()), (format!("inputs[{n}].to"), to)]
    });
    let of_outputs = outputs.iter().enumerate().flat_map(|(n, output)| {
        [(format!("outputs[{n}].from"), output.shown()), (format!("outputs[{n}].to"), target(&output.to))]
    });
    of_inputs.chain(of_outputs).find(|(_, name)| is_broken(name))
}

/// An output that is a file within what another output names as a file, or that another output of several files would
/// overwrite with another file: the field, what was found and what would be right.
fn inside_another(outputs: &[TaskOutputFile]) -> Option<(String, String, &'static str)> {
    let files: BTreeMap<&Path, usize> = outputs
        .iter()
        .enumerate()
        .filter(|(_, output)| output.several.is_none())
        .map(|(n, output)| (output.from.as_path(), n))
        .collect();
    for (n, output) in outputs.iter().enumerate() {
        let above = output.from.ancestors().skip(usize::from(output.several.is_none()));
        if let Some((above, other)) = above.filter_map(|above| Some((above, *files.get(above)?))).next() {
            // A folder before a pattern is written with a slash.
            let above = above.to_string_lossy();
            let (from, above) = (quoted(&output.shown()), quoted(above.trim_end_matches('/')));
            let found = format!("{from} in {above}, a file of outputs[{other}]");
            let expected = "a file is no folder: write the folder with a slash at its end, which brings all that is in it";
            return Some((format!("outputs[{n}].from"), found, expected));
        }
    }
    let several = || outputs.iter().enumerate().filter(|(_, output)| output.several.is_some());
    for (n, output) in outputs.iter().enumerate().filter(|(_, output)| output.several.is_none()) {
        for (other, folder) in several() {
            let Some(name) = output.to.below(&folder.to) else { continue };
            let taken = folder.from.join(name);
            if taken != output.from && folder.name_of(&taken.to_string_lossy()).is_some() {
                let found = format!(
                    "{} to where outputs[{other}] brings {}",
                    quoted(&output.shown()),
                    quoted(&taken.to_string_lossy())
                );
                let expected = "one would overwrite the other; give them different names";
                return Some((format!("outputs[{n}].to"), found, expected));
            }
        }
    }
    None
}

/// A place that an output goes to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct OutputKey {
    is_home: bool,
    path: PathBuf,
}
