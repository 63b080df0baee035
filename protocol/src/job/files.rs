//! Files that come to a task and go from it: what the job says of them, and what that means for one task.
//!
//! What the submitter has is named by its contents. The digests of an input's files are a column by the
//! dimensions that its template names, so that a million tasks that take one of a hundred files each have a
//! hundred digests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scheduler::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::address::{has_user, shown_alone};
use crate::job::limits::{N_OBJECTS_MAX, N_TEXTS_MAX};
use crate::job::places::{FILE_SCHEME, kind_of, strip_scheme};
use crate::job::store_place::{STORE_SCHEME, StorePlace, store_of, store_place};
use crate::job::taken::{fixed_folder, fixed_part, folder, is_pattern, matches, may_match, plain};
use crate::job::{JobSpec, Problem, TakenFiles, WorkDirPolicy};
use crate::sweep::{Value, Values};
use crate::template::{Scope, Source as Slot, Template};

/// A file, or one for each task, that is in a task's folder before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Where it is; a template: a path from the base folder, `file:///…`, `http(s)://…`, or `store://NAME/…`. Of what
    /// other tasks leave, where it goes below their base folder; with `*` or `?`, all that match.
    pub from: String,
    /// Tasks that this one waits for leave it: by these entries of its stage's `after`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
    /// `from` and `to` are one parameter: its values name files, a line each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lines: bool,
    /// `from` is a folder: the files in it, by their names below it, a line each; a text for each place of a
    /// [`Keying`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A task may begin without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Where it goes; a template of a path below the task's folder.
    pub to: String,
    /// What it must hold, where the submitter's program does not find that out itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// `from` is a path that all nodes see: it is linked, never copied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Tasks get a copy of their own, which they may change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
    /// What the submitter's files hold.
    #[serde(default, skip_serializing_if = "Objects::is_empty")]
    pub objects: Objects,
}

/// What files hold that the manager keeps: one for each place of a [`Keying`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// Their digests.
    pub sha256: Vec<Digest>,
    /// Their sizes.
    pub bytes: Vec<u64>,
    /// Which of them their owner may execute, by their places from 0, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub executable: Vec<u64>,
}

/// A file that a task leaves, and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// A template of a path below the task's folder. With `*` or `?` all files that match; with a slash at its end all
    /// files of the folder.
    pub from: String,
    /// A template: a path below the base folder, `file:///…`, which nodes see, or `store://NAME/…`. Of several files the
    /// folder in which they keep their names.
    pub to: String,
    /// `from` and `to` are one parameter: its values name files, a line each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lines: bool,
    /// A task may succeed without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// Where inputs of a kind come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The submitter's folder, by the manager.
    Home,
    /// A path that nodes see.
    Shared,
    /// An address of HTTP.
    Url,
    /// A store that the manager knows: [`StorePlace`].
    Store,
    /// Other tasks leave it.
    Tasks,
}

/// What one task needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInput {
    /// Where it goes, below the task's folder.
    pub to: PathBuf,
    /// Where it is.
    pub from: String,
    /// What kind of place that is.
    pub source: Source,
    /// What it must hold.
    pub sha256: Option<Digest>,
    /// How much that is, where it is known.
    pub bytes: Option<u64>,
    /// The task may change it.
    pub writable: bool,
    /// It is known that its owner may execute it. Tasks may execute all that they are given.
    pub executable: bool,
}

/// What one task leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutputFile {
    /// Where it is, below the task's folder. Of several files the folder before anything in their paths may differ, which
    /// may be the task's own (an empty path).
    pub from: PathBuf,
    /// Which files of that folder and those below it, where they are several.
    pub several: Option<Several>,
    /// Where it goes; several go into this folder.
    pub to: OutputTarget,
    /// The task may succeed without it.
    pub optional: bool,
}

/// Files of a task that are named together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Several {
    /// All in a folder.
    Folder,
    /// Those whose path below the task's folder matches: `*` is any characters of a name, `?` is one of them, and `**`
    /// any characters; a backslash makes the next character stand for itself.
    Pattern(String),
}

/// Where a file of a task goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// Below the submitter's folder, by the manager.
    Home(PathBuf),
    /// A path that nodes see.
    File(PathBuf),
    /// A store that the manager knows.
    Store(StorePlace),
}

/// A file of the submitter's that an input needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    /// Which input.
    pub input: usize,
    /// Absolute.
    pub path: PathBuf,
}

/// By what the files of a template differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keying {
    /// By the positions in these dimensions, the last one fastest, each with its length.
    Dimensions(Vec<(usize, u64)>),
    /// By the task.
    Task,
}

impl TaskInput {
    /// Which file comes from where, for messages: without user names and passwords.
    pub fn shown(&self) -> String {
        let to = self.to.to_string_lossy();
        match self.source {
            Source::Home | Source::Tasks => format!("input {to} from the manager"),
            Source::Shared | Source::Url | Source::Store => {
                format!("input {to} from {}", crate::address::shown(&self.from))
            }
        }
    }
}

impl TaskOutputFile {
    /// Of several files: the name that one keeps, by its path below the task's folder; `None`: it is not meant.
    pub fn name_of(&self, path: &str) -> Option<PathBuf> {
        let is_meant = match &self.several {
            None => false,
            Some(Several::Folder) => true,
            Some(Several::Pattern(pattern)) => matches(pattern, path),
        };
        let name = Path::new(path).strip_prefix(&self.from).ok().filter(|_| is_meant)?;
        (!name.as_os_str().is_empty()).then(|| name.to_owned())
    }

    /// Of several files: whether one may be meant that is in this folder or below it.
    pub fn may_mean_below(&self, folder: &str) -> bool {
        match &self.several {
            None => false,
            Some(Several::Folder) => Path::new(folder).starts_with(&self.from),
            Some(Several::Pattern(pattern)) => may_match(pattern, &format!("{folder}/"), "**"),
        }
    }

    /// Whether a file that the task left may go there: `to` is a path below the base folder, `file:///…`, or
    /// `store://NAME/…`. In the place of one file the task may have made a folder, whose files keep their names.
    pub fn may_go_to(&self, to: &str) -> bool {
        let target = self.to.shown();
        if self.several.is_none() && to == target {
            return true;
        }
        let Some(name) = below(&target, to) else { return false };
        let is_meant = match (&self.several, self.from.join(&name).to_str()) {
            (Some(Several::Pattern(_)), Some(path)) => self.name_of(path).is_some_and(|kept| kept == name),
            (Some(Several::Pattern(_)), None) => false,
            (Some(Several::Folder) | None, _) => true,
        };
        is_meant && self.to.join(&name).is_some_and(|joined| joined.shown() == to)
    }

    /// Whether that may be told to be left out: what is there or, of a pattern, a folder on the way.
    pub fn may_leave_out(&self, to: &str) -> bool {
        let target = self.to.shown();
        let is_joined = |name: PathBuf| self.to.join(&name).is_some_and(|joined| joined.shown() == to);
        to.strip_suffix('/').unwrap_or(to) == target || below(&target, to).is_some_and(is_joined)
    }

    /// How the job names it, with the task's values.
    pub fn shown(&self) -> String {
        match &self.several {
            None => self.from.to_string_lossy().into_owned(),
            Some(Several::Folder) => format!("{}/", self.from.display()),
            Some(Several::Pattern(pattern)) => pattern.clone(),
        }
    }
}

/// The name below a folder, where both are as shown; `None`: it is elsewhere, or is not written as a name is.
fn below(folder: &str, place: &str) -> Option<PathBuf> {
    let name = match folder {
        "" => Some(place),
        folder => place.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')),
    }?;
    safe_relative(name).filter(|path| path.to_str() == Some(name))
}

impl OutputTarget {
    /// The name of this place below a folder; `None`: it is elsewhere.
    pub fn below(&self, folder: &OutputTarget) -> Option<PathBuf> {
        let below = |place: &Path, folder: &Path| place.strip_prefix(folder).ok().map(Path::to_owned);
        match (self, folder) {
            (OutputTarget::Home(place), OutputTarget::Home(folder))
            | (OutputTarget::File(place), OutputTarget::File(folder)) => below(place, folder),
            (OutputTarget::Store(place), OutputTarget::Store(folder)) => {
                below(Path::new(&place.to_string()), Path::new(&folder.to_string()))
            }
            _ => None,
        }
    }

    /// As it is reported and shown.
    pub fn shown(&self) -> String {
        match self {
            OutputTarget::Home(path) => path.to_string_lossy().into_owned(),
            OutputTarget::File(path) => format!("{FILE_SCHEME}{}", path.to_string_lossy()),
            OutputTarget::Store(place) => place.to_string(),
        }
    }

    /// The place of a file in this folder; `None`: no file of that name can go there.
    pub fn join(&self, name: &Path) -> Option<OutputTarget> {
        match self {
            OutputTarget::Home(folder) => Some(OutputTarget::Home(folder.join(name))),
            OutputTarget::File(folder) => Some(OutputTarget::File(folder.join(name))),
            OutputTarget::Store(folder) => {
                StorePlace::parse(&format!("{folder}/{}", name.to_str()?)).map(OutputTarget::Store)
            }
        }
    }
}

impl Objects {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.sha256.is_empty()
    }

    fn at(&self, place: u64) -> Option<(Digest, u64)> {
        let place = usize::try_from(place).ok()?;
        Some((*self.sha256.get(place)?, *self.bytes.get(place)?))
    }
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

/// The path that a text names below a folder, without `.`; `None` if it is not below it.
pub fn safe_relative(text: &str) -> Option<PathBuf> {
    use std::path::Component;
    let mut path = PathBuf::new();
    for component in std::path::Path::new(text).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    let is_folder = text.ends_with('/') || text.ends_with("/.") || text.contains('\0');
    (!is_folder && path.components().next().is_some()).then_some(path)
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

impl Output {
    /// Whether it names files by a pattern, or a whole folder.
    pub fn is_several(&self) -> bool {
        !self.lines && (is_pattern(&self.from) || self.from.ends_with('/') || self.from == ".")
    }

    /// The part of `from` that names of files keep in the folder that they go to.
    pub(super) fn kept_part(&self) -> &str {
        if is_pattern(&self.from) { &self.from[fixed_folder(&self.from).len()..] } else { "" }
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
    Problem::new(path, crate::job::problem::quoted(found), expected)
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
            Some(Problem::new(field, crate::job::problem::quoted(&shown_alone(&address)), expected))
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
