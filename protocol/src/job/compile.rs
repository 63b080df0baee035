//! From a job and an index to what is run: templates parsed once, rendered for every task.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::job::files::FileTemplates;
use crate::job::{
    CommandLine, JobSpec, LocalFile, Problem, Source as FileSource, Stream, TakenFiles, TaskInput,
    TaskOutputFile, WorkDirPolicy,
};
use crate::template::{Mode, Scope, Source, Template};

/// A job ready to make command lines: valid, with its templates parsed.
#[derive(Clone, Debug)]
pub struct Compiled {
    spec: JobSpec,
    templates: Templates,
}

/// What is to be run for one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskCommand {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// Variables the job asks for, by name.
    pub env: Vec<(String, String)>,
    /// Where it runs.
    pub workdir: WorkDir,
    /// `Discard` (nothing to read) or a file; never `Archive`.
    pub stdin: Sink,
    /// Standard output.
    pub stdout: Sink,
    /// Standard error; may be the same file as standard output.
    pub stderr: Sink,
    /// The sweep's parameters as text, in its order.
    #[serde(with = "crate::text::parameters")]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, String>"))]
    pub parameters: Vec<(String, String)>,
}

/// Where a task runs. Paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkDir {
    /// In the folder the job was submitted from; it must exist.
    Submit(PathBuf),
    /// In a private folder that the agent makes and removes.
    Scratch,
    /// In this folder, made when absent.
    Path(PathBuf),
}

/// Where a standard stream leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sink {
    /// Into the pilot's archive.
    Archive,
    /// `/dev/null`.
    Discard,
    /// This file (absolute); its folder is made when absent.
    File(PathBuf),
}

impl JobSpec {
    /// Checks the job and parses its templates. The values of the sweep are shared, not copied.
    ///
    /// # Errors
    /// Everything `validate` finds.
    pub fn compile(&self) -> Result<Compiled, Vec<Problem>> {
        let problems = self.validate();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Compiled { spec: self.clone(), templates: Templates::parse(self)? })
    }
}

impl Compiled {
    /// The job this was made from.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// The number of tasks; their indices count from 0.
    pub fn n_tasks(&self) -> u64 {
        self.spec.sweep.n_tasks()
    }

    /// The parameters that are in no template, in the sweep's order: tasks that differ only in them run
    /// the same. A resident program is told all of its parameters, so that none is unused.
    pub fn unused_parameters(&self) -> Vec<&str> {
        if self.spec.resident {
            return Vec::new();
        }
        let templates = self.templates.all();
        let is_used = |place: usize| {
            let mut slots = templates.iter().flat_map(|(_, template)| template.slots());
            slots.any(|slot| slot.source == Source::Parameter(place))
        };
        let names = self.spec.sweep.names().enumerate();
        let estimate = self.spec.estimate.as_deref();
        names
            .filter(|(place, name)| !is_used(*place) && estimate != Some(*name))
            .map(|(_, name)| name)
            .collect()
    }

    /// Braces that are perhaps meant as placeholders and are none, each with its field.
    pub fn almost_placeholders(&self) -> Vec<(String, &str)> {
        let templates = self.templates.all().into_iter();
        let almost = templates.flat_map(|(path, template)| {
            template.almost().iter().map(move |text| (path.clone(), text.as_str()))
        });
        almost.collect()
    }

    /// What is to be run for the task at `index` of the job with this id. O(size of the result).
    pub fn task(&self, job_id: u64, index: u64) -> TaskCommand {
        let spec = &self.spec;
        let values = spec.sweep.values(index);
        let scope = Scope { values: &values, index, job_id, job_name: &spec.name, cores: spec.cores };
        let templates = &self.templates;
        let env = templates.env.iter().map(|(name, template)| (name.clone(), template.render(&scope)));
        let parameters = spec.sweep.names().zip(&values);
        TaskCommand {
            argv: self.argv(&scope),
            env: env.collect(),
            workdir: match &templates.workdir {
                WorkDirTemplate::Submit => WorkDir::Submit(spec.base_dir.clone()),
                WorkDirTemplate::Scratch => WorkDir::Scratch,
                WorkDirTemplate::Path(template) => WorkDir::Path(self.path(template, &scope)),
            },
            stdin: self.sink(&templates.stdin, &scope),
            stdout: self.sink(&templates.stdout, &scope),
            stderr: self.sink(&templates.stderr, &scope),
            parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_string())).collect(),
        }
    }

    /// The files that the task at `index` needs.
    ///
    /// # Errors
    /// One that would be outside of the task's folder, or that nobody has said the contents of.
    pub fn inputs(&self, job_id: u64, index: u64) -> Result<Vec<TaskInput>, Problem> {
        self.templates.files.inputs(&self.spec, job_id, index)
    }

    /// Whether its tasks may want something of the store of that name.
    pub fn names_store(&self, name: &str) -> bool {
        self.spec.stores().contains(name)
    }

    /// What the task at `index` takes of what tasks leave that it waits for.
    ///
    /// # Errors
    /// One that would be outside of the task's folder.
    pub fn taken(&self, job_id: u64, index: u64) -> Result<Vec<TakenFiles>, Problem> {
        self.templates.files.taken(&self.spec, job_id, index)
    }

    /// Whether tasks take anything of that.
    pub fn takes(&self) -> bool {
        self.templates.files.takes()
    }

    /// The files of the submitter's that the job needs, input by input, in the order of its objects.
    pub fn local_files(&self) -> Vec<LocalFile> {
        self.templates.files.local_files(&self.spec)
    }

    pub(super) fn source(&self, input: usize) -> Option<FileSource> {
        self.templates.files.source(input)
    }

    /// How many different files an input names.
    pub(super) fn n_objects(&self, input: usize) -> u64 {
        self.templates.files.n_objects(&self.spec, input)
    }

    /// The files that the task at `index` leaves.
    ///
    /// # Errors
    /// One that would be outside of the task's folder, or of the submitter's.
    pub fn outputs(&self, job_id: u64, index: u64) -> Result<Vec<TaskOutputFile>, Problem> {
        self.templates.files.outputs(&self.spec, job_id, index)
    }

    fn argv(&self, scope: &Scope<'_>) -> Vec<String> {
        let mut argv: Vec<String> = match &self.templates.command {
            CommandTemplate::Args(args) => args.iter().map(|arg| arg.render(scope)).collect(),
            CommandTemplate::Shell(line) => {
                return vec!["/bin/sh".to_owned(), "-c".to_owned(), line.render(scope)];
            }
        };
        // `./dock.sh` means the one beside the job file, also where tasks run elsewhere.
        let runs_elsewhere = self.spec.workdir != WorkDirPolicy::Submit;
        if let Some(program) = argv.first_mut()
            && runs_elsewhere
            && program.contains('/')
            && Path::new(program).is_relative()
            && !self.spec.brings_program(program)
        {
            *program = self.spec.base_dir.join(&*program).to_string_lossy().into_owned();
        }
        argv
    }

    fn path(&self, template: &Template, scope: &Scope<'_>) -> PathBuf {
        self.spec.base_dir.join(template.render(scope))
    }

    fn sink(&self, stream: &StreamTemplate, scope: &Scope<'_>) -> Sink {
        match stream {
            StreamTemplate::Archive => Sink::Archive,
            StreamTemplate::Discard => Sink::Discard,
            StreamTemplate::File(template) => Sink::File(self.path(template, scope)),
        }
    }
}

/// All templates of a job, parsed.
#[derive(Clone, Debug)]
pub(super) struct Templates {
    pub(super) command: CommandTemplate,
    pub(super) env: Vec<(String, Template)>,
    pub(super) workdir: WorkDirTemplate,
    pub(super) stdin: StreamTemplate,
    pub(super) stdout: StreamTemplate,
    pub(super) stderr: StreamTemplate,
    pub(super) files: FileTemplates,
}

#[derive(Clone, Debug)]
pub(super) enum CommandTemplate {
    Args(Vec<Template>),
    Shell(Template),
}

#[derive(Clone, Debug)]
pub(super) enum WorkDirTemplate {
    Submit,
    Scratch,
    Path(Template),
}

#[derive(Clone, Debug)]
pub(super) enum StreamTemplate {
    Archive,
    Discard,
    File(Template),
}

impl Templates {
    /// Parses all templates of a job.
    ///
    /// # Errors
    /// Every placeholder of every template that cannot be filled.
    pub(super) fn parse(spec: &JobSpec) -> Result<Templates, Vec<Problem>> {
        let mut parser = TemplatesParser { names: spec.sweep.names().collect(), problems: Vec::new() };
        let command = match &spec.command {
            CommandLine::Args(args) => CommandTemplate::Args(
                args.iter()
                    .enumerate()
                    .map(|(i, arg)| parser.parse(&format!("command[{i}]"), arg, Mode::Plain))
                    .collect(),
            ),
            CommandLine::Shell(line) => CommandTemplate::Shell(parser.parse("command", line, Mode::Shell)),
        };
        let env = spec.env.iter();
        let templates = Templates {
            command,
            env: env
                .map(|(name, value)| (name.clone(), parser.parse(&format!("env.{name}"), value, Mode::Plain)))
                .collect(),
            workdir: match &spec.workdir {
                WorkDirPolicy::Submit => WorkDirTemplate::Submit,
                WorkDirPolicy::Scratch => WorkDirTemplate::Scratch,
                WorkDirPolicy::Path(path) => {
                    WorkDirTemplate::Path(parser.parse("workdir.path", path, Mode::Plain))
                }
            },
            stdin: parser.parse_stream("stdio.stdin", &spec.stdio.stdin),
            stdout: parser.parse_stream("stdio.stdout", &spec.stdio.stdout),
            stderr: parser.parse_stream("stdio.stderr", &spec.stdio.stderr),
            files: FileTemplates::parse(spec, &mut |path, text| parser.parse(path, text, Mode::Plain)),
        };
        if parser.problems.is_empty() { Ok(templates) } else { Err(parser.problems) }
    }

    /// All templates, each with the path of its field.
    pub(super) fn all(&self) -> Vec<(String, &Template)> {
        let mut all = Vec::new();
        match &self.command {
            CommandTemplate::Args(args) => {
                all.extend(args.iter().enumerate().map(|(i, arg)| (format!("command[{i}]"), arg)));
            }
            CommandTemplate::Shell(line) => all.push(("command".to_owned(), line)),
        }
        all.extend(self.env.iter().map(|(name, value)| (format!("env.{name}"), value)));
        if let WorkDirTemplate::Path(path) = &self.workdir {
            all.push(("workdir.path".to_owned(), path));
        }
        let streams = [("stdin", &self.stdin), ("stdout", &self.stdout), ("stderr", &self.stderr)];
        for (name, stream) in streams {
            if let StreamTemplate::File(path) = stream {
                all.push((format!("stdio.{name}"), path));
            }
        }
        all.extend(self.files.all());
        all
    }
}

struct TemplatesParser<'a> {
    names: Vec<&'a str>,
    problems: Vec<Problem>,
}

impl TemplatesParser<'_> {
    /// The parsed template; an empty one after a problem, which discards the whole anyway.
    fn parse(&mut self, path: &str, text: &str, mode: Mode) -> Template {
        Template::parse(text, mode, &self.names).unwrap_or_else(|errors| {
            let problems = errors.iter().map(|error| {
                let (found, expected) = error.found_and_expected();
                Problem::new(path, found, expected)
            });
            self.problems.extend(problems);
            Template::default()
        })
    }

    fn parse_stream(&mut self, path: &str, stream: &Stream) -> StreamTemplate {
        match stream {
            Stream::Archive => StreamTemplate::Archive,
            Stream::Discard => StreamTemplate::Discard,
            Stream::File(file) => StreamTemplate::File(self.parse(path, file, Mode::Plain)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Sink, WorkDir};
    use crate::job::{CommandLine, JobSpec, Stream, WorkDirPolicy};
    use crate::sweep::Sweep;

    fn job(command: CommandLine) -> JobSpec {
        let mut job = JobSpec::new(command, PathBuf::from("/home/ada/dock"));
        job.sweep = Sweep::from_lists(vec![
            ("ligand".to_owned(), vec!["/in/a b.pdbqt".to_owned(), "/in/c.pdbqt".to_owned()]),
            ("seed".to_owned(), vec!["1".to_owned(), "2".to_owned(), "3".to_owned()]),
        ]);
        job
    }

    fn args(args: &[&str]) -> CommandLine {
        CommandLine::Args(args.iter().map(|arg| (*arg).to_owned()).collect())
    }

    #[test]
    fn task_has_its_parameters_in_every_template() {
        let mut job = job(args(&["./dock.sh", "--seed={seed}", "{ligand}", "{job}-{index}"]));
        job.env.insert("OMP_NUM_THREADS".to_owned(), "{cores}".to_owned());
        job.workdir = WorkDirPolicy::Path("runs/{index:03}".to_owned());
        job.stdio.stdout = Stream::File("out/{ligand.stem}.{seed}.txt".to_owned());
        job.stdio.stderr = Stream::Discard;
        let task = job.compile().unwrap().task(9, 4);
        assert_eq!(task.argv, ["/home/ada/dock/./dock.sh", "--seed=2", "/in/c.pdbqt", "9-4"]);
        assert_eq!(task.env, [("OMP_NUM_THREADS".to_owned(), "1".to_owned())]);
        assert_eq!(task.workdir, WorkDir::Path(PathBuf::from("/home/ada/dock/runs/004")));
        assert_eq!(task.stdin, Sink::Discard);
        assert_eq!(task.stdout, Sink::File(PathBuf::from("/home/ada/dock/out/c.2.txt")));
        assert_eq!(task.stderr, Sink::Discard);
        assert_eq!(
            task.parameters,
            [("ligand".to_owned(), "/in/c.pdbqt".to_owned()), ("seed".to_owned(), "2".to_owned())]
        );
    }

    #[test]
    fn shell_line_is_run_by_a_shell_with_quoted_values() {
        let job = job(CommandLine::Shell("wc -l < {ligand} | awk '{print $1}'".to_owned()));
        let task = job.compile().unwrap().task(1, 0);
        assert_eq!(task.argv, ["/bin/sh", "-c", "wc -l < '/in/a b.pdbqt' | awk '{print $1}'"]);
        assert_eq!(task.workdir, WorkDir::Submit(PathBuf::from("/home/ada/dock")));
    }

    #[test]
    fn program_of_the_search_path_stays_as_it_is() {
        let mut job = job(args(&["vina", "{seed}", "{ligand}"]));
        job.workdir = WorkDirPolicy::Scratch;
        let task = job.compile().unwrap().task(1, 0);
        assert_eq!((task.argv[0].as_str(), task.workdir), ("vina", WorkDir::Scratch));
    }

    #[test]
    fn parameters_in_no_template_are_found() {
        let unused = |mut change: Box<dyn FnMut(&mut JobSpec)>| {
            let mut job = job(args(&["vina", "{index}"]));
            change(&mut job);
            job.compile().unwrap().unused_parameters().join(" ")
        };
        assert_eq!(unused(Box::new(|_| {})), "ligand seed");
        assert_eq!(
            unused(Box::new(|job| job.stdio.stdout = Stream::File("{ligand.stem}/{index}".to_owned()))),
            "seed"
        );
        let in_env = |job: &mut JobSpec| drop(job.env.insert("A".to_owned(), "{ligand}-{seed}".to_owned()));
        assert_eq!(unused(Box::new(in_env)), "");
        let as_resident = |job: &mut JobSpec| {
            job.command = args(&["vina"]);
            job.resident = true;
        };
        assert_eq!(unused(Box::new(as_resident)), "");
    }

    #[test]
    fn invalid_job_is_not_compiled() {
        let job = job(args(&["vina", "{sead}"]));
        let problems = job.compile().unwrap_err();
        assert!(
            problems[0]
                .to_string()
                .starts_with("command[1]: found unknown parameter `sead`; did you mean `seed`?"),
            "{problems:?}"
        );
    }
}
