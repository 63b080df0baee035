//! Files that come to a task and go from it: what the job says of them, and what that means for one task.
//!
//! What the submitter has is named by its contents. The digests of an input's files are a column by the
//! dimensions that its template names, so that a million tasks that take one of a hundred files each have a
//! hundred digests.

use std::path::PathBuf;

use scheduler::digest::Digest;
use serde::{Deserialize, Serialize};

use crate::job::limits::N_OBJECTS_MAX;
use crate::job::{JobSpec, Problem};
use crate::sweep::Value;
use crate::template::{Scope, Source as Slot, Template};

/// A file, or one for each task, that is in a task's folder before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Where it is; a template: a path from the base folder, `file:///…`, or `http(s)://…`.
    pub from: String,
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
}

/// A file that a task leaves, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// A template of a path below the task's folder.
    pub from: String,
    /// A template: a path below the base folder, or `file:///…`, which nodes see.
    pub to: String,
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
}

/// What one task leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutputFile {
    /// Where it is, below the task's folder.
    pub from: PathBuf,
    /// Where it goes.
    pub to: OutputTarget,
    /// The task may succeed without it.
    pub optional: bool,
}

/// Where a file of a task goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputTarget {
    /// Below the submitter's folder, by the manager.
    Home(PathBuf),
    /// A path that nodes see.
    File(PathBuf),
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
}

impl FileTemplates {
    pub(super) fn parse(spec: &JobSpec, parse: &mut dyn FnMut(&str, &str) -> Template) -> FileTemplates {
        let inputs = spec.inputs.iter().enumerate().map(|(n, input)| {
            let from = parse(&format!("inputs[{n}].from"), &input.from);
            let to = parse(&format!("inputs[{n}].to"), &input.to);
            let (source, keying) = (source(spec, &from, input.shared), Keying::of(spec, &from));
            InputTemplate { from, to, source, keying }
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

    pub(super) fn keying(&self, input: usize) -> Option<&Keying> {
        self.inputs.get(input).map(|input| &input.keying)
    }

    pub(super) fn path_of(&self, input: usize) -> Option<&Template> {
        self.inputs.get(input).map(|input| &input.from)
    }

    pub(super) fn target_of(&self, output: usize) -> Option<&Template> {
        self.outputs.get(output).map(|(_, to)| to)
    }

    pub(super) fn inputs(&self, spec: &JobSpec, job_id: u64, index: u64) -> Result<Vec<TaskInput>, Problem> {
        let mut all = Vec::with_capacity(self.inputs.len());
        for (n, (template, input)) in self.inputs.iter().zip(&spec.inputs).enumerate() {
            let (from, to) =
                (render(&template.from, spec, job_id, index), render(&template.to, spec, job_id, index));
            let to = safe_relative(&to).ok_or_else(|| outside(format!("inputs[{n}].to"), &to))?;
            let (sha256, bytes) = match template.source {
                Source::Home => {
                    let object = input.objects.at(template.keying.place(spec, index));
                    object.map_or((None, None), |(sha256, bytes)| (Some(sha256), Some(bytes)))
                }
                Source::Shared | Source::Url => (input.sha256, None),
            };
            let (source, writable) = (template.source, input.writable);
            let from = from.strip_prefix(FILE_SCHEME).map(str::to_owned).unwrap_or(from);
            all.push(TaskInput { to, from, source, sha256, bytes, writable });
        }
        Ok(all)
    }

    pub(super) fn outputs(
        &self,
        spec: &JobSpec,
        job_id: u64,
        index: u64,
    ) -> Result<Vec<TaskOutputFile>, Problem> {
        let mut all = Vec::with_capacity(self.outputs.len());
        for (n, ((from, to), output)) in self.outputs.iter().zip(&spec.outputs).enumerate() {
            let (from, to) = (render(from, spec, job_id, index), render(to, spec, job_id, index));
            let from = safe_relative(&from).ok_or_else(|| outside(format!("outputs[{n}].from"), &from))?;
            let target = match to.strip_prefix(FILE_SCHEME) {
                Some(path) => OutputTarget::File(PathBuf::from(path)),
                None => {
                    let home = safe_relative(&to).ok_or_else(|| outside(format!("outputs[{n}].to"), &to))?;
                    OutputTarget::Home(home)
                }
            };
            all.push(TaskOutputFile { from, to: target, optional: output.optional });
        }
        Ok(all)
    }

    /// The submitter's files, by input and place: [`Objects`] say in this order what they hold.
    pub(super) fn local_files(&self, spec: &JobSpec) -> Vec<LocalFile> {
        let mut files = Vec::new();
        for (n, input) in self.inputs.iter().enumerate() {
            let is_home = input.source == Source::Home;
            let n_places = if is_home { input.keying.n_places(spec) } else { 0 };
            // More are refused.
            for place in 0..n_places.min(N_OBJECTS_MAX) {
                let text = match &input.keying {
                    Keying::Task => render(&input.from, spec, 0, place),
                    Keying::Dimensions(dimensions) => {
                        let values = spec.sweep.values_of(combination(spec, dimensions, place));
                        render_with(&input.from, spec, 0, 0, &values)
                    }
                };
                files.push(LocalFile { input: n, path: spec.base_dir.join(text) });
            }
        }
        files
    }
}

/// The first combination of the whole product that has this place in these dimensions.
fn combination(spec: &JobSpec, dimensions: &[(usize, u64)], place: u64) -> u64 {
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

/// How paths are written that nodes see.
pub(super) const FILE_SCHEME: &str = "file://";

fn source(spec: &JobSpec, from: &Template, is_shared: bool) -> Source {
    if is_shared {
        return Source::Shared;
    }
    // A whole address may be a parameter; those of other tasks are checked to be of the same kind.
    kind_of(&render(from, spec, 0, 0))
}

/// What kind of place a text names.
pub(super) fn kind_of(text: &str) -> Source {
    if text.starts_with(FILE_SCHEME) {
        return Source::Shared;
    }
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    if is_url { Source::Url } else { Source::Home }
}

fn render(template: &Template, spec: &JobSpec, job_id: u64, index: u64) -> String {
    render_with(template, spec, job_id, index, &spec.sweep.values(index))
}

fn render_with(template: &Template, spec: &JobSpec, job_id: u64, index: u64, values: &[Value<'_>]) -> String {
    template.render(&Scope { values, index, job_id, job_name: &spec.name, cores: spec.cores })
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

    /// All objects that the job's inputs name, with their sizes.
    pub fn objects(&self) -> impl Iterator<Item = (Digest, u64)> {
        let objects = self.inputs.iter().map(|input| &input.objects);
        objects.flat_map(|objects| objects.sha256.iter().copied().zip(objects.bytes.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;
    use scheduler::digest::Digest;

    use super::{Input, Objects, Output, OutputTarget, Source, safe_relative};
    use crate::job::{CommandLine, JobSpec, WorkDirPolicy};
    use crate::sweep::{Dimension, IntegerRange, Sample, Sweep, Values};

    fn input(from: &str, to: &str) -> Input {
        Input {
            from: from.to_owned(),
            to: to.to_owned(),
            sha256: None,
            shared: false,
            writable: false,
            objects: Objects::default(),
        }
    }

    fn job(inputs: Vec<Input>, lengths: &[u64]) -> JobSpec {
        let command = CommandLine::Args(vec!["cat".to_owned()]);
        let dimension = |(n, len): (usize, &u64)| {
            let range = IntegerRange { from: 0, step: 1, n: *len };
            Dimension::column(["a", "b", "c"][n], Values::Integers(vec![range]))
        };
        let dimensions = lengths.iter().enumerate().map(dimension).collect();
        JobSpec {
            inputs,
            workdir: WorkDirPolicy::Scratch,
            sweep: Sweep { dimensions, sample: None },
            ..JobSpec::new(command, PathBuf::from("/home/ada"))
        }
    }

    #[test]
    fn files_are_counted_by_what_their_names_mention() {
        let inputs = vec![
            input("receptor", "receptor"),
            input("{b}.txt", "b"),
            input("{c}/{a}", "ca"),
            input("{index}", "index"),
        ];
        let compiled = job(inputs, &[2, 3, 5]).compile().unwrap();
        let counts: Vec<u64> = (0..4).map(|n| compiled.n_objects(n)).collect();
        assert_eq!(counts, [1, 3, 10, 30]);
        assert_eq!(compiled.local_files().len(), 44);
    }

    #[test]
    fn sources_are_told_apart_by_their_beginning() {
        let mut shared = input("/data/{a}", "1");
        shared.shared = true;
        let inputs = vec![
            shared,
            input("file:///data/{a}", "2"),
            input("https://host/{a}", "3"),
            input("http/{a}", "4"),
        ];
        let compiled = job(inputs, &[2]).compile().unwrap();
        let found: Vec<(Source, String)> =
            compiled.inputs(1, 1).unwrap().into_iter().map(|input| (input.source, input.from)).collect();
        let expected = [
            (Source::Shared, "/data/1"),
            (Source::Shared, "/data/1"),
            (Source::Url, "https://host/1"),
            (Source::Home, "http/1"),
        ];
        assert_eq!(found, expected.map(|(source, from)| (source, from.to_owned())));
    }

    #[test]
    fn nothing_is_outside_of_its_folder() {
        let below = |text: &str| safe_relative(text).map(|path| path.to_string_lossy().into_owned());
        assert_eq!(below("./a/./b"), Some("a/b".to_owned()));
        for text in ["", ".", "/a", "..", "a/../b", "a/", "a/.", "a\0b"] {
            assert_eq!(below(text), None, "{text}");
        }
        // A value may lead out where the name that it stands in does not; whoever runs it looks again.
        let mut job = job(vec![input("x", "{a}")], &[2]);
        job.sweep = Sweep::from_lists(vec![("a".to_owned(), vec!["in".to_owned(), "../out".to_owned()])]);
        let problems = job.validate();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().starts_with("inputs[0].to: found `../out`"), "{}", problems[0]);
    }

    #[test]
    fn outputs_go_below_the_folder_or_where_nodes_see_them() {
        let output = |from: &str, to: &str| Output { from: from.into(), to: to.into(), optional: false };
        let mut job = job(Vec::new(), &[2]);
        job.outputs = vec![output("out", "out/{a}"), output("out", "file:///data/{a}")];
        let found = job.compile().unwrap().outputs(1, 1).unwrap();
        assert_eq!(found[0].to, OutputTarget::Home("out/1".into()));
        assert_eq!(found[1].to, OutputTarget::File("/data/1".into()));
    }

    #[test]
    fn a_program_that_is_brought_is_run_where_it_is() {
        let mut job = job(vec![input("dock.sh", "dock.sh")], &[1]);
        job.command = CommandLine::Args(vec!["./dock.sh".to_owned()]);
        assert_eq!(job.compile().unwrap().task(1, 0).argv, ["./dock.sh"]);
        job.inputs[0].to = "other.sh".to_owned();
        assert_eq!(job.compile().unwrap().task(1, 0).argv, ["/home/ada/./dock.sh"]);
    }

    proptest! {
        /// Whatever a name mentions of whatever sweep: the object of a task's input is that of its file.
        #[test]
        fn each_task_gets_the_object_of_its_file(
            lengths in prop::collection::vec(1..5_u64, 0..4),
            mentioned in prop::collection::vec(0..4_usize, 0..4),
            n_sampled in prop::option::of(1..20_u64),
        ) {
            let names: Vec<&str> = ["{a}", "{b}", "{c}"][..lengths.len().min(3)].to_vec();
            let lengths = &lengths[..lengths.len().min(3)];
            let mut from = "f".to_owned();
            for n in mentioned {
                from += "-";
                from += names.get(n).copied().unwrap_or("{index}");
            }
            let mut job = job(vec![input(&from, "in")], lengths);
            let n_all: u64 = lengths.iter().product();
            job.sweep.sample = n_sampled.map(|n| Sample { n: n.min(n_all), seed: 7 });
            let files = job.compile().unwrap().local_files();
            // The digest of each tells its place among them.
            let digest = |n: usize| Digest(std::array::from_fn(|k| (n >> (8 * (k % 4))) as u8));
            job.inputs[0].objects.sha256 = (0..files.len()).map(digest).collect();
            job.inputs[0].objects.bytes = vec![1; files.len()];
            prop_assert_eq!(job.validate_objects(), []);
            let compiled = job.compile().unwrap();
            for index in 0..compiled.n_tasks() {
                let input = &compiled.inputs(9, index).unwrap()[0];
                let place = files.iter().position(|file| file.path == Path::new("/home/ada").join(&input.from));
                let place = place.expect("its file is among them");
                let sha256 = input.sha256.expect("it is known");
                let of_place = files.iter().enumerate().filter(|(n, _)| digest(*n) == sha256);
                prop_assert!(of_place.into_iter().any(|(_, file)| file.path == files[place].path));
            }
        }
    }
}
