//! Files that come to a task and go from it: what the templates that the job has of them mean for one task.
//!
//! What the submitter has is named by its contents. The digests of an input's files are a column by the
//! dimensions that its template names, so that a million tasks that take one of a hundred files each have a
//! hundred digests.

pub(crate) mod flow;
pub(crate) mod meeting;
pub(crate) mod path;
pub(crate) mod pattern;
pub(crate) mod places;
pub(crate) mod store_place;
pub(crate) mod streams;
pub(crate) mod taken;
pub(super) mod task;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scheduler::digest::Digest;

use crate::job::files::path::{FILE_SCHEME, STORE_SCHEME, Source, kind_of, safe_relative, strip_scheme};
use crate::job::files::pattern::{fixed_part, folder, is_pattern, plain};
use crate::job::files::store_place::{store_of, store_place};
use crate::job::files::taken::TakenFiles;
use crate::job::files::task::{OutputTarget, Several, TaskInput, TaskOutputFile};
use crate::job::limits::{N_OBJECTS_MAX, N_TEXTS_MAX};
use crate::job::spec::{Input, JobSpec, Keying, Output, WorkDirPolicy};
use crate::net::address::{has_user, shown_alone};
use crate::problem::{Problem, quoted};
use crate::sweep::{Value, Values};
use crate::template::{Scope, Source as Slot, Template};

/// A file of the submitter's that an input needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    /// Which input.
    pub input: usize,
    /// Absolute.
    pub path: PathBuf,
}

impl Keying {
    fn of(spec: &JobSpec, template: &Template) -> Keying {
        let mut dimensions: Vec<usize> = Vec::new();
        for slot in template.slots() {
            match slot.source {
                Slot::Index | Slot::Number => return Keying::Task,
                Slot::Parameter(place) => dimensions.extend(spec.sweep.dimension_of(place)),
                Slot::JobId | Slot::JobName | Slot::Cores => {}
            }
        }
        dimensions.sort_unstable();
        dimensions.dedup();
        let long: Vec<(usize, u64)> =
            dimensions.into_iter().map(|n| (n, spec.sweep.dimensions[n].len())).collect();
        let n_places = long.iter().try_fold(1_u64, |n, (_, len)| n.checked_mul(*len));
        // Of a sample few combinations may be left.
        match n_places.is_some_and(|n| n <= spec.sweep.n_tasks()) {
            true => Keying::Dimensions(long),
            false => Keying::Task,
        }
    }

    /// How many files differ.
    pub fn n_places(&self, spec: &JobSpec) -> u64 {
        match self {
            Keying::Dimensions(dimensions) => dimensions.iter().map(|(_, len)| len).product(),
            Keying::Task => spec.sweep.n_tasks(),
        }
    }

    fn place(&self, spec: &JobSpec, index: u64) -> u64 {
        match self {
            Keying::Dimensions(dimensions) if dimensions.is_empty() => 0,
            Keying::Dimensions(dimensions) => {
                let positions = spec.sweep.positions(index);
                dimensions.iter().fold(0, |place, (n, len)| place * len + positions[*n])
            }
            Keying::Task => index,
        }
    }
}

/// The templates of a job's files.
#[derive(Clone, Debug)]
pub(super) struct FileTemplates {
    inputs: Vec<InputTemplate>,
    outputs: Vec<(Template, Template)>,
}

#[derive(Clone, Debug)]
struct InputTemplate {
    from: Template,
    to: Template,
    source: Source,
    keying: Keying,
    /// Of a list or folder: where the files of each place begin among its objects, and where the last ones end.
    starts: Vec<u64>,
}

impl InputTemplate {
    fn n_objects(&self, spec: &JobSpec) -> u64 {
        self.starts.last().copied().unwrap_or_else(|| self.keying.n_places(spec))
    }

    /// What it names at a place of its keying.
    fn text_at(&self, spec: &JobSpec, place: u64) -> String {
        match &self.keying {
            Keying::Task => render(&self.from, spec, 0, place),
            Keying::Dimensions(dimensions) => {
                let values = spec.sweep.values_of(combination(spec, dimensions, place));
                self.from.render(&scope(spec, 0, 0, &values))
            }
        }
    }
}

impl FileTemplates {
    pub(super) fn parse(spec: &JobSpec, parse: &mut dyn FnMut(&str, &str) -> Template) -> FileTemplates {
        let inputs = spec.inputs.iter().enumerate().map(|(n, input)| {
            let from = parse(&format!("inputs[{n}].from"), &input.from);
            let to = parse(&format!("inputs[{n}].to"), &input.to);
            let (source, keying) = (source(spec, &from, input), Keying::of(spec, &from));
            let mut template = InputTemplate { from, to, source, keying, starts: Vec::new() };
            let n_places = template.keying.n_places(spec);
            let is_several = input.lines || !input.files.is_empty();
            // More are refused.
            if is_several && source == Source::Home && n_places <= N_TEXTS_MAX as u64 {
                let mut starts = vec![0];
                for place in 0..n_places {
                    let n_before = starts.last().copied().unwrap_or(0);
                    let text = template.text_at(spec, place);
                    starts.push(n_before + places(input, place, &text, &text).count() as u64);
                }
                template.starts = starts;
            }
            template
        });
        let inputs = inputs.collect();
        let outputs = spec.outputs.iter().enumerate().map(|(n, output)| {
            let from = parse(&format!("outputs[{n}].from"), &output.from);
            (from, parse(&format!("outputs[{n}].to"), &output.to))
        });
        FileTemplates { inputs, outputs: outputs.collect() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (String, &Template)> {
        let inputs = self.inputs.iter().enumerate().flat_map(|(n, input)| {
            [(format!("inputs[{n}].from"), &input.from), (format!("inputs[{n}].to"), &input.to)]
        });
        let outputs = self.outputs.iter().enumerate().flat_map(|(n, (from, to))| {
            [(format!("outputs[{n}].from"), from), (format!("outputs[{n}].to"), to)]
        });
        inputs.chain(outputs)
    }

    pub(super) fn source(&self, input: usize) -> Option<Source> {
        self.inputs.get(input).map(|input| input.source)
    }

    /// How many places an input has.
    pub(super) fn n_places(&self, spec: &JobSpec, input: usize) -> u64 {
        self.inputs.get(input).map_or(0, |input| input.keying.n_places(spec))
    }

    /// How many different files an input names.
    pub(super) fn n_objects(&self, spec: &JobSpec, input: usize) -> u64 {
        self.inputs.get(input).map_or(0, |input| input.n_objects(spec))
    }

    pub(super) fn path_of(&self, input: usize) -> Option<&Template> {
        self.inputs.get(input).map(|input| &input.from)
    }

    pub(super) fn name_of(&self, input: usize) -> Option<&Template> {
        self.inputs.get(input).map(|input| &input.to)
    }

    pub(super) fn left_of(&self, output: usize) -> Option<&Template> {
        self.outputs.get(output).map(|(from, _)| from)
    }

    pub(super) fn target_of(&self, output: usize) -> Option<&Template> {
        self.outputs.get(output).map(|(_, to)| to)
    }

    pub(super) fn inputs(&self, spec: &JobSpec, job_id: u64, index: u64) -> Result<Vec<TaskInput>, Problem> {
        Ok(self.inputs_by_entry(spec, job_id, index)?.into_iter().map(|(_, input)| input).collect())
    }

    /// The same, each with the number of the job's input that it is of: lists and folders have more than one.
    pub(super) fn inputs_by_entry(
        &self,
        spec: &JobSpec,
        job_id: u64,
        index: u64,
    ) -> Result<Vec<(usize, TaskInput)>, Problem> {
        let mut all = Vec::with_capacity(self.inputs.len());
        for (n, (template, input)) in self.inputs.iter().zip(&spec.inputs).enumerate() {
            if template.source == Source::Tasks {
                continue;
            }
            let (from, to) =
                (render(&template.from, spec, job_id, index), render(&template.to, spec, job_id, index));
            let place = template.keying.place(spec, index);
            let first = usize::try_from(place).ok().and_then(|place| template.starts.get(place));
            let first = first.copied().unwrap_or(place);
            for (at, (from, to)) in (first..).zip(places(input, place, &from, &to)) {
                let to = safe_relative(&to).ok_or_else(|| outside(format!("inputs[{n}].to"), &to))?;
                let (sha256, bytes) = match template.source {
                    Source::Home => {
                        let object = input.objects.at(at);
                        object.map_or((None, None), |(sha256, bytes)| (Some(sha256), Some(bytes)))
                    }
                    Source::Shared | Source::Url | Source::Store | Source::Tasks => (input.sha256, None),
                };
                let from = match template.source {
                    Source::Store => {
                        store_place(&from, &input.from, || format!("inputs[{n}].from"))?.to_string()
                    }
                    _ => strip_scheme(&from, FILE_SCHEME).map(str::to_owned).unwrap_or(from),
                };
                let (source, writable) = (template.source, input.writable);
                let executable =
                    source == Source::Home && input.objects.executable.binary_search(&at).is_ok();
                all.push((n, TaskInput { to, from, source, sha256, bytes, writable, executable }));
            }
        }
        Ok(all)
    }

    /// What the task takes of what others leave.
    pub(super) fn taken(&self, spec: &JobSpec, job_id: u64, index: u64) -> Result<Vec<TakenFiles>, Problem> {
        let mut all = Vec::new();
        for (n, (template, input)) in self.inputs.iter().zip(&spec.inputs).enumerate() {
            if template.source != Source::Tasks {
                continue;
            }
            let from = render_source(&template.from, &input.from, spec, job_id, index);
            let to = render(&template.to, spec, job_id, index);
            for (from, to) in names(input.lines, &from).into_iter().zip(names(input.lines, &to)) {
                let taken = TakenFiles::new(n, input, from, to);
                all.push(taken.map_err(|(field, found)| outside(format!("inputs[{n}].{field}"), &found))?);
            }
        }
        Ok(all)
    }

    pub(super) fn takes(&self) -> bool {
        self.inputs.iter().any(|input| input.source == Source::Tasks)
    }

    pub(super) fn outputs(
        &self,
        spec: &JobSpec,
        job_id: u64,
        index: u64,
    ) -> Result<Vec<TaskOutputFile>, Problem> {
        let mut all = Vec::with_capacity(self.outputs.len());
        for (n, ((from, to), output)) in self.outputs.iter().zip(&spec.outputs).enumerate() {
            let from = render_source(from, &output.from, spec, job_id, index);
            let to = render(to, spec, job_id, index);
            if output.is_several() {
                all.push(several(n, output, &from, &to)?);
                continue;
            }
            for (from, to) in names(output.lines, &from).into_iter().zip(names(output.lines, &to)) {
                let from = safe_relative(from).ok_or_else(|| outside(format!("outputs[{n}].from"), from))?;
                let target = target_of(to, &output.to, || format!("outputs[{n}].to"))?;
                all.push(TaskOutputFile { from, several: None, to: target, optional: output.optional });
            }
        }
        Ok(all)
    }

    /// The submitter's files, by input and place: [`Objects`] say in this order what they hold.
    pub(super) fn local_files(&self, spec: &JobSpec) -> Vec<LocalFile> {
        let mut files = Vec::new();
        for (n, (input, of_spec)) in self.inputs.iter().zip(&spec.inputs).enumerate() {
            let is_home = input.source == Source::Home;
            // More are refused.
            if !is_home || input.n_objects(spec) > N_OBJECTS_MAX {
                continue;
            }
            for place in 0..input.keying.n_places(spec) {
                let text = input.text_at(spec, place);
                let paths = places(of_spec, place, &text, &text).map(|(from, _)| spec.base_dir.join(from));
                files.extend(paths.map(|path| LocalFile { input: n, path }));
            }
        }
        files
    }
}

/// Files that a task leaves by a pattern, or by their folder.
fn several(n: usize, output: &Output, from: &str, to: &str) -> Result<TaskOutputFile, Problem> {
    let wrong_from = || outside(format!("outputs[{n}].from"), from);
    let (base, several) = if is_pattern(&output.from) {
        let pattern = safe_relative(from).ok_or_else(wrong_from)?.to_string_lossy().into_owned();
        let base = PathBuf::from(&*plain(fixed_part(&pattern)));
        (base, Several::Pattern(pattern))
    } else {
        (folder(from).ok_or_else(wrong_from)?, Several::Folder)
    };
    let field = || format!("outputs[{n}].to");
    let trimmed = to.trim_end_matches('/');
    let target = match folder(to).filter(|_| !to.contains("://")) {
        Some(folder) => OutputTarget::Home(folder),
        None if trimmed.contains("://") => target_of(trimmed, &output.to, field)?,
        None => return Err(outside(field(), to)),
    };
    Ok(TaskOutputFile { from: base, several: Some(several), to: target, optional: output.optional })
}

/// Where a file goes that a task leaves, by what a template has come to.
fn target_of(to: &str, template: &str, field: impl Fn() -> String) -> Result<OutputTarget, Problem> {
    if let Some(path) = strip_scheme(to, FILE_SCHEME) {
        return Ok(OutputTarget::File(PathBuf::from(path)));
    }
    if strip_scheme(to, STORE_SCHEME).is_some() {
        return store_place(to, template, field).map(OutputTarget::Store);
    }
    safe_relative(to).map(OutputTarget::Home).ok_or_else(|| outside(field(), to))
}

/// The first combination of the whole product that has this place in these dimensions.
pub(super) fn combination(spec: &JobSpec, dimensions: &[(usize, u64)], place: u64) -> u64 {
    let mut rest = place;
    let mut positions = vec![0; spec.sweep.dimensions.len()];
    for (n, len) in dimensions.iter().rev() {
        positions[*n] = rest % (*len).max(1);
        rest /= (*len).max(1);
    }
    let lengths = spec.sweep.dimensions.iter().map(|dimension| dimension.len());
    positions
        .iter()
        .zip(lengths)
        .fold(0_u64, |all, (position, len)| all.wrapping_mul(len).wrapping_add(*position))
}

fn source(spec: &JobSpec, from: &Template, input: &Input) -> Source {
    if !input.after.is_empty() {
        return Source::Tasks;
    }
    if input.shared {
        return Source::Shared;
    }
    // A whole address may be a parameter; those of other tasks are checked to be of the same kind.
    kind_of(&render(from, spec, 0, 0))
}

/// The files of an input at a place: where each is, and where it goes.
fn places<'i>(
    input: &'i Input,
    place: u64,
    from: &'i str,
    to: &'i str,
) -> Box<dyn Iterator<Item = (String, String)> + 'i> {
    if input.files.is_empty() {
        let both = names(input.lines, from).into_iter().zip(names(input.lines, to));
        return Box::new(both.map(|(from, to)| (from.to_owned(), to.to_owned())));
    }
    let of_place = usize::try_from(place).ok().and_then(|place| input.files.get(place));
    let files = of_place.map(|list| names(true, list)).unwrap_or_default();
    Box::new(files.into_iter().map(move |file| (format!("{from}/{file}"), format!("{to}/{file}"))))
}

/// The files that a text names: itself, or a line each.
pub(super) fn names(is_list: bool, text: &str) -> Vec<&str> {
    match is_list {
        true => text.split('\n').filter(|line| !line.is_empty()).collect(),
        false => vec![text],
    }
}

fn render(template: &Template, spec: &JobSpec, job_id: u64, index: u64) -> String {
    template.render(&scope(spec, job_id, index, &spec.sweep.values(index)))
}

/// A path, or where its template is a pattern, a pattern in which values stand for themselves.
fn render_source(template: &Template, from: &str, spec: &JobSpec, job_id: u64, index: u64) -> String {
    let render = if is_pattern(from) { Template::render_pattern } else { Template::render };
    render(template, &scope(spec, job_id, index, &spec.sweep.values(index)))
}

pub(super) fn scope<'a>(spec: &'a JobSpec, job_id: u64, index: u64, values: &'a [Value<'a>]) -> Scope<'a> {
    Scope { values, index, job_id, job_name: &spec.name, cores: spec.cores }
}

fn outside(path: String, found: &str) -> Problem {
    let expected = "a path below the folder is right: not absolute, without `..`, and with a file's name";
    Problem::new(path, quoted(found), expected)
}

impl JobSpec {
    /// What is wrong with what the job says of its files' contents; before they were read, they are missing.
    pub fn validate_objects(&self) -> Vec<Problem> {
        // Most jobs have none, and compiling a large one takes a while.
        if self.inputs.is_empty() {
            return Vec::new();
        }
        let Ok(compiled) = self.compile() else { return Vec::new() };
        let mut problems = Vec::new();
        for (n, input) in self.inputs.iter().enumerate() {
            let is_home = compiled.source(n) == Some(Source::Home);
            let n_wanted = if is_home { compiled.n_objects(n) } else { 0 };
            let n_found = (input.objects.sha256.len() as u64, input.objects.bytes.len() as u64);
            if n_found != (n_wanted, n_wanted) {
                let found = format!("{} digests and {} sizes", n_found.0, n_found.1);
                let expected =
                    format!("{n_wanted} of each, of the files in the submitter's folder, are right");
                problems.push(Problem::new(format!("inputs[{n}].objects"), found, expected));
            }
        }
        problems
    }

    /// Addresses with a user name or a password in them: the job would stand in the store with the password.
    pub(super) fn exposed_passwords(&self) -> Vec<Problem> {
        let inputs = self.inputs.iter().map(|input| &input.from).enumerate();
        let outputs = self.outputs.iter().map(|output| &output.to).enumerate();
        let inputs = inputs.map(|(n, text)| (format!("inputs[{n}].from"), text));
        let all = inputs.chain(outputs.map(|(n, text)| (format!("outputs[{n}].to"), text)));
        let exposed = all.filter_map(|(field, text)| {
            let address = self.exposed_address(text)?;
            let expected = "an address has no user name and no password, as all who see the job would see them: write them \
                            into ~/.netrc where pilots run (`machine HOST login NAME password …`)";
            Some(Problem::new(field, quoted(&shown_alone(&address)), expected))
        });
        exposed.collect()
    }

    /// An address with a password that this template of one makes for some task.
    fn exposed_address(&self, template: &str) -> Option<String> {
        if has_user(template) {
            return Some(template.to_owned());
        }
        if let Some((_, whole)) = self.texts_of(template).find(|(_, value)| has_user(value)) {
            return Some(whole.to_owned());
        }
        // Of an address that is put together from several values, one may bring the name and the password.
        let head = address_head(template);
        let begins_as_http =
            |text: &str| text.get(..4).is_some_and(|first| first.eq_ignore_ascii_case("http"));
        if !begins_as_http(head) && !self.texts_of(head).any(|(_, value)| begins_as_http(value)) {
            return None;
        }
        let is_user = |value: &str| value.contains('@') && !value.contains("://");
        let (name, value) = self.texts_of(head).find(|(_, value)| is_user(value))?;
        let (_, of_address) = value.rsplit_once('@')?;
        Some(template.replace(&format!("{{{name}}}"), &format!("…@{of_address}")))
    }

    /// The values of parameters that are texts and that a template names, each with its parameter.
    fn texts_of<'j>(&'j self, template: &'j str) -> impl Iterator<Item = (&'j str, &'j str)> {
        let named =
            self.sweep.columns().filter(move |column| template.contains(&format!("{{{}", column.name)));
        named.flat_map(|column| {
            let texts = match &column.values {
                Values::Texts(texts) => Some(texts.iter().flat_map(str::lines)),
                _ => None,
            };
            texts.into_iter().flatten().map(|value| (column.name.as_str(), value))
        })
    }

    /// Whether the program of that path is one that an input brings to the task's folder, where the task runs.
    pub fn brings_program(&self, program: &str) -> bool {
        let Some(program) = safe_relative(program) else { return false };
        let is_in = |input: &Input| {
            let to = Path::new(&input.to);
            let mut files = input.files.first().into_iter().flat_map(|list| list.split('\n'));
            files.any(|file| safe_relative(&to.join(file).to_string_lossy()).as_ref() == Some(&program))
        };
        let is_it = |input: &Input| safe_relative(&input.to).as_ref() == Some(&program);
        self.workdir != WorkDirPolicy::Submit && self.inputs.iter().any(|input| is_it(input) || is_in(input))
    }

    /// The stores that its inputs and outputs name, each once.
    pub fn stores(&self) -> BTreeSet<&str> {
        self.places_in_stores().filter_map(|(_, text)| store_of(text)).collect()
    }

    /// The fields of its inputs and outputs that name places in stores, like `inputs[0].from`, with what they say.
    pub fn places_in_stores(&self) -> impl Iterator<Item = (String, &str)> {
        let inputs = self.inputs.iter().map(|input| input.from.as_str()).enumerate();
        let outputs = self.outputs.iter().map(|output| output.to.as_str()).enumerate();
        let inputs = inputs.map(|(n, text)| (format!("inputs[{n}].from"), text));
        let outputs = outputs.map(|(n, text)| (format!("outputs[{n}].to"), text));
        inputs.chain(outputs).filter(|(_, text)| store_of(text).is_some())
    }

    /// All objects that the job's inputs name, with their sizes.
    pub fn objects(&self) -> impl Iterator<Item = (Digest, u64)> {
        let objects = self.inputs.iter().map(|input| &input.objects);
        objects.flat_map(|objects| objects.sha256.iter().copied().zip(objects.bytes.iter().copied()))
    }
}

/// What of a template of an address may become its scheme, user and host: all up to the first slash behind them.
fn address_head(template: &str) -> &str {
    let begin = template.find("://").map_or(0, |at| at + "://".len());
    let begin = begin + template[begin..].len() - template[begin..].trim_start_matches('/').len();
    let end = template[begin..].find(['/', '?', '#']).map_or(template.len(), |at| begin + at);
    &template[..end]
}

#[cfg(test)]
mod tests;
