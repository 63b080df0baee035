//! A job as the command line gives it: a job file, or a command with its values, and what the flags
//! say of it. The result is the same resolved job either way.

mod environment;
pub mod overrides;
mod parallel;
mod program;
mod shell_line;
mod sources;
mod standard_input;
mod unread;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use clap::Args;

use protocol::job::{
    CommandLine, Compiled, JobFile, JobSpec, Keep, LineEnds, Places, Problem, StageSpec, Stream,
    WorkflowSpec, env_from_refusal, is_secret_value, load_file, refuse_not_utf8,
};
use protocol::net::address::shown;
use protocol::sweep::Values;

use crate::{
    failure::Failure,
    input::{
        overrides::{Overrides, SetArg},
        parallel::Command,
        sources::{ARRAY, LINE, Sources},
    },
    show::{self, format::count},
};

/// Doubts of one kind that are told; a table can have hundreds of columns.
const N_DOUBTS_MAX: usize = 5;

/// What is to be run: `JOB.yaml`, or `-- COMMAND ::: VALUES`.
#[derive(Args, Clone, Debug, Default)]
pub struct JobInput {
    /// A job file (see `pilotfish schema job`); `-` is standard input
    #[arg(value_name = "JOB.yaml")]
    pub files: Vec<String>,
    /// A command; its values follow `:::` (see the examples below)
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// A task for each line of this file (`-`: standard input); {} or {line} is the line, which is appended otherwise
    #[arg(long, value_name = "FILE", help_heading = "Values")]
    pub each_line: Option<PathBuf>,
    /// A task for each of these numbers, like 1-1000,2000-3000:2; {} or {array} is the number
    #[arg(long, value_name = "RANGES", help_heading = "Values")]
    pub array: Option<String>,
    /// Give a parameter this value instead of those in the file; repeat for several
    #[arg(long, value_name = "PARAMETER=VALUE", help_heading = "Values")]
    pub set: Vec<String>,
    /// Run the words of the command as one shell line
    #[arg(long)]
    pub shell: bool,
    #[command(flatten)]
    overrides: Overrides,
    /// What the job file holds: a pipe can be read once.
    #[arg(skip)]
    loaded: OnceLock<(JobFile, Places)>,
}

/// What tasks will not have of what the command reads, and what others will see of it: a line each.
/// A command has no fields: what goes along with it is said with flags.
fn doubts_of(spec: &JobSpec, is_command: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    let missed = environment::missed(spec, |name| std::env::var_os(name).is_some());
    for name in missed.iter().take(N_DOUBTS_MAX) {
        let refusal = std::env::var_os(name).and_then(|value| env_from_refusal(name, &value));
        let way = match refusal {
            Some((what, way)) => format!("it {what}; {way}"),
            None if is_command => format!("`--env {name}=\"${name}\"` takes it"),
            None => format!("`env_from: [{name}]` takes it"),
        };
        doubts.push(format!("the command reads ${name}, which is set here and does not go along; {way}"));
    }
    let n_threads = std::env::var_os("OMP_NUM_THREADS");
    doubts.extend(environment::missed_threads(spec, n_threads.as_deref(), is_command));
    let words: Vec<&str> = match &spec.command {
        CommandLine::Args(args) => args.iter().map(String::as_str).collect(),
        CommandLine::Shell(line) => vec![line],
    };
    let values = spec.env.iter().map(|(name, value)| (format!("env.{name}"), value.as_str()));
    let texts = words.into_iter().map(|word| ("command".to_owned(), word)).chain(values);
    let is_exposed = |text: &str| text.contains("://") && shown(text) != text;
    let parameters = spec.sweep.columns().filter_map(|column| match &column.values {
        Values::Texts(texts) => {
            Some((format!("parameter `{}`", column.name), texts.iter().find(|text| is_exposed(text))?))
        }
        Values::Integers(_) | Values::Linspace { .. } => None,
    });
    let texts = texts.chain(parameters);
    let is_secret =
        |field: &str, text: &str| is_exposed(text) || (field.starts_with("env.") && is_secret_value(text));
    // Each word of a command is of one field.
    let mut told = BTreeSet::new();
    let secrets = texts.filter(|(field, text)| is_secret(field, text));
    for (field, text) in secrets.filter(|(field, _)| told.insert(field.clone())).take(N_DOUBTS_MAX) {
        let what = match is_exposed(text) {
            true => "has an address with a password or a token",
            false => "looks like a secret",
        };
        doubts.push(format!(
            "{field} {what}, which all see who see the job; let tasks read it \
             from a file that only you can read"
        ));
    }
    doubts
}

/// Tells of what tasks need and this host has not.
fn warn_of_absent(problem: &Problem) {
    let told = match problem.found.ends_with("\\r") {
        // The file is here, and what is wrong with it is wrong everywhere.
        true => problem.to_string(),
        false => format!("{}: {} here; tasks need it where they run", problem.path, problem.sentence()),
    };
    show::say(&format!("warning: {told}"));
}

/// What the tasks of stages need and this host has not. Files of stages that wait may come from those that go before.
fn absent_of(stages: &[StageSpec]) -> Vec<Problem> {
    let mut told = BTreeSet::new();
    let absent = stages.iter().flat_map(|stage| {
        let (job, is_first) = (&stage.job, stage.after.is_empty());
        let program = program::missing(job).or_else(|| program::missing_of_line(job));
        let program = program.filter(|_| is_first || !program::is_path(job));
        let input = standard_input::missing(job).filter(|_| is_first);
        program.into_iter().chain(input).map(|problem| stage.problem(problem))
    });
    absent.filter(|problem| told.insert(problem.found.clone())).take(N_DOUBTS_MAX).collect()
}

/// Values of `env` that are hardly meant as they stand.
fn literals_of(spec: &JobSpec) -> Vec<Problem> {
    let mut literals = environment::taken_literally(spec, |name| std::env::var_os(name));
    literals.truncate(N_DOUBTS_MAX);
    literals
}

/// ``parameters `y`, `z` are used nowhere``
fn unused_line(names: &[&str]) -> Option<String> {
    let quoted: Vec<String> = names.iter().take(N_DOUBTS_MAX).map(|name| format!("`{name}`")).collect();
    let more = match names.len().saturating_sub(N_DOUBTS_MAX) {
        0 => String::new(),
        n => format!(" and {} more", count(n as u64)),
    };
    match names {
        [] => None,
        [name] => Some(format!("parameter `{name}` is used nowhere")),
        _ => Some(format!("parameters {}{more} are used nowhere", quoted.join(", "))),
    }
}

impl JobInput {
    /// The resolved job.
    ///
    /// # Errors
    /// Everything that is wrong with it, a line each.
    fn resolve(&self) -> Result<JobSpec, Failure> {
        let mut spec = self.base()?;
        let mut problems = SetArg::apply_all(&self.set, &mut spec.sweep);
        if !self.command.is_empty() {
            problems.extend(LineEnds::default().of_command("command", &spec.command, &spec.base_dir));
            problems.extend(self.overrides.refuse_replacement_strings(spec.sweep.names().next()));
        }
        problems.extend(self.overrides.apply(&mut spec));
        // Otherwise the same mistake is named twice.
        if problems.is_empty() {
            problems = spec.validate();
            problems.extend(spec.validate_to_submit());
        }
        if problems.is_empty() { Ok(spec) } else { Err(self.placed(problems).into()) }
    }

    /// The problems of a job, each with its place: the flag that says it, or else the line of the job file.
    pub fn placed(&self, problems: Vec<Problem>) -> Vec<Problem> {
        let loaded = self.loaded.get();
        let stages = match loaded {
            Some((JobFile::Workflow(workflow), _)) => &workflow.stages[..],
            Some((JobFile::Job(_), _)) | None => &[],
        };
        let with_flag = problems.into_iter().map(|problem| {
            let field = stages.iter().find_map(|stage| stage.field(&problem.path));
            match self.flag_of(field.unwrap_or(&problem.path)) {
                Some(path) => Problem { path, ..problem },
                None => problem,
            }
        });
        let (mut placed, others): (Vec<_>, Vec<_>) =
            with_flag.partition(|problem| problem.path.starts_with("--"));
        placed.dedup();
        placed.extend(match loaded {
            Some((_, places)) if !others.is_empty() => places.of(others, stages),
            _ => others,
        });
        placed
    }

    /// The flag that was given for a field.
    fn flag_of(&self, field: &str) -> Option<String> {
        let parameter = field.strip_prefix("sweep.");
        let is_set =
            |name: &str| self.set.iter().any(|set| set.split_once('=').is_some_and(|(set, _)| set == name));
        match parameter.is_some_and(is_set) {
            true => Some("--set".to_owned()),
            false => self.flag_of_values(field).or_else(|| self.overrides.flag_of(field)),
        }
    }

    /// The flag that the values of a command come from, which is a sweep with or without that parameter in it.
    fn flag_of_values(&self, field: &str) -> Option<String> {
        let parameter = field.strip_prefix("sweep")?.trim_start_matches('.');
        let name = parameter.split(['.', '[']).next().unwrap_or_default();
        let flags =
            [("--array", ARRAY, self.array.is_some()), ("--each-line", LINE, self.each_line.is_some())];
        let is_meant =
            |(_, of_flag, is_given): &&(&str, &str, bool)| *is_given && (name.is_empty() || name == *of_flag);
        flags.iter().find(is_meant).map(|(flag, ..)| (*flag).to_owned())
    }

    /// Tells of what is right but hardly meant, with its place.
    fn warn(&self, problems: Vec<Problem>) {
        for problem in self.placed(problems) {
            show::say(&format!("warning: {problem}"));
        }
    }

    /// The workflow, if that is what the file holds.
    ///
    /// # Errors
    /// Everything that is wrong with the file, a line each.
    pub fn workflow(&self) -> Result<Option<WorkflowSpec>, Failure> {
        let ([file], true) = (&self.files[..], self.command.is_empty()) else { return Ok(None) };
        if file.is_empty() {
            return Ok(None);
        }
        let JobFile::Workflow(workflow) = self.load(file)? else { return Ok(None) };
        let mut workflow = workflow.clone();
        self.refuse_values_of_commands()?;
        if let Some(set) = self.set.first() {
            return Err(Failure::bad_input(format!(
                "--set: found `{set}` together with a file of several jobs, which have a sweep each; change it there"
            )));
        }
        let mut problems: Vec<Problem> = Vec::new();
        for stage in &mut workflow.stages {
            problems.extend(self.overrides.apply(&mut stage.job));
        }
        problems.dedup();
        if problems.is_empty() {
            problems = workflow.validate();
        }
        if !problems.is_empty() {
            return Err(self.placed(problems).into());
        }
        self.warn_of_unread_input(workflow.stages.iter().map(|stage| &stage.job));
        absent_of(&workflow.stages).iter().for_each(warn_of_absent);
        let doubts: BTreeSet<String> =
            workflow.stages.iter().flat_map(|stage| doubts_of(&stage.job, false)).collect();
        for doubt in doubts {
            show::say(&format!("warning: {doubt}"));
        }
        let literals = workflow
            .stages
            .iter()
            .flat_map(|stage| literals_of(&stage.job).into_iter().map(|problem| stage.problem(problem)));
        self.warn(literals.collect());
        let shared = |stage: &StageSpec| Some(stage.problem(stage.job.folder_of_two_tasks()?));
        self.warn(workflow.stages.iter().filter_map(shared).collect());
        self.warn(workflow.outputs_that_may_meet());
        Ok(Some(workflow))
    }

    /// The resolved job for this host, which must have its program.
    ///
    /// # Errors
    /// As for [`JobInput::resolve`], and a program that is not here.
    pub fn resolve_here(&self) -> Result<JobSpec, Failure> {
        let spec = self.resolve()?;
        match program::missing(&spec) {
            Some(problem) => Err(self.placed(vec![problem]).into()),
            None => {
                self.say_doubts(&spec);
                Ok(spec)
            }
        }
    }

    /// The resolved job for hosts that may have programs which this one has not: that is only told of.
    ///
    /// # Errors
    /// As for [`JobInput::resolve`].
    pub fn resolve_for_others(&self) -> Result<JobSpec, Failure> {
        let spec = self.resolve()?;
        if let Some(problem) = program::missing(&spec) {
            warn_of_absent(&problem);
        }
        self.say_doubts(&spec);
        Ok(spec)
    }

    fn say_doubts(&self, spec: &JobSpec) {
        self.warn_of_unread_input([spec]);
        let absent = program::missing_of_line(spec).into_iter().chain(standard_input::missing(spec));
        absent.for_each(|problem| warn_of_absent(&problem));
        for doubt in doubts_of(spec, !self.command.is_empty()) {
            show::say(&format!("warning: {doubt}"));
        }
        self.warn(literals_of(spec));
        self.warn(spec.folder_of_two_tasks().into_iter().chain(spec.outputs_that_may_meet()).collect());
    }

    /// Warns of standard input that neither the job file came from nor a task gets. Commands have a warning of their own.
    fn warn_of_unread_input<'j>(&self, jobs: impl IntoIterator<Item = &'j JobSpec>) {
        let has_input = jobs.into_iter().any(|job| matches!(job.stdio.stdin, Stream::File(_)));
        // A job file that came from there was read to its end.
        if !self.files.is_empty() && !has_input && unread::is_left() {
            show::say(
                "warning: standard input is not read; tasks read the file that `stdio: {stdin: FILE}` names",
            );
        }
    }

    /// What is to be said of variables that `env_from` has left out of these jobs.
    pub fn left_out<'j>(jobs: impl IntoIterator<Item = &'j JobSpec>) -> Option<String> {
        let names: BTreeSet<&str> =
            jobs.into_iter().flat_map(|job| &job.env_left_out).map(String::as_str).collect();
        let is_text = |name: &&str| std::env::var_os(name).is_none_or(|value| value.to_str().is_some());
        let (secret, other): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_text);
        let told = [("what may be secret", secret), ("what is not UTF-8", other)];
        let told = told.into_iter().filter(|(_, names)| !names.is_empty());
        let told: Vec<String> = told.map(|(why, names)| format!("{why}: {}", names.join(", "))).collect();
        (!told.is_empty()).then(|| format!("env_from leaves out {}", told.join("; and ")))
    }

    /// What is right but hardly meant: a line each.
    pub fn doubts(&self, job: &Compiled) -> Vec<String> {
        let unused = job.unused_parameters();
        // An extension taken off makes a parameter of its own, and the one it is of may stay unused.
        let has_base =
            |name: &str| job.spec().sweep.names().any(|other| other.strip_prefix('_') == Some(name));
        let is_meant = |name: &&str| !self.command.is_empty() && (*name == ARRAY || has_base(name));
        let unused: Vec<&str> = unused.into_iter().filter(|name| !is_meant(name)).collect();
        let mut doubts: Vec<String> = unused_line(&unused).into_iter().collect();
        doubts.extend(job.almost_placeholders().into_iter().take(N_DOUBTS_MAX).map(|(path, text)| {
            format!(
                "{path}: `{text}` is no placeholder and stays as it is; placeholders are like {{x}}, {{x.stem}}, {{x:06}}, {{x:.3}}"
            )
        }));
        let results = &job.spec().results;
        if !results.extract.is_empty() && results.keep != Keep::All {
            doubts.push(
                "results.extract needs the standard output of every task, which is kept therefore; `keep` is about standard error only"
                    .to_owned(),
            );
        }
        doubts
    }

    /// The job before the flags that change it.
    fn base(&self) -> Result<JobSpec, Failure> {
        match (&self.files[..], self.command.is_empty()) {
            ([file], true) if file.is_empty() => {
                Err(Failure::bad_input("found an empty name where a job file is needed; give JOB.yaml"))
            }
            ([file], true) => {
                self.refuse_values_of_commands()?;
                match self.load(file)? {
                    JobFile::Job(spec) => Ok(JobSpec::clone(spec)),
                    JobFile::Workflow(_) => Err(Failure::bad_input(format!(
                        "{file}: found a file of several jobs; give one with a `command`"
                    ))),
                }
            }
            ([], false) => self.shorthand(),
            ([], true) if unread::is_left() => Err(Failure::bad_input(
                "found neither a job file nor a command, and standard input that is not read; for a job file in it write `-`, for values `--each-line - -- COMMAND`",
            )),
            ([], true) => Err(Failure::bad_input(
                "found neither a job file nor a command; give JOB.yaml, or `--` and a command, like `-- echo {} ::: a b c`",
            )),
            ([file], false) => Err(Failure::bad_input(format!(
                "found the job file `{file}` and a command; give one of them"
            ))),
            (words, _) => Err(Failure::bad_input(format!(
                "found `{}`, more than one job file; a command stands after `--`: `-- {}`",
                words.join(" "),
                words.join(" ")
            ))),
        }
    }

    /// What the job file holds.
    fn load(&self, file: &str) -> Result<&JobFile, Failure> {
        if let Some((loaded, _)) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = load_file(Path::new(file))?;
        Ok(&self.loaded.get_or_init(|| loaded).0)
    }

    fn refuse_values_of_commands(&self) -> Result<(), Failure> {
        let given = [
            ("--each-line", self.each_line.is_some()),
            ("--array", self.array.is_some()),
            ("--shell", self.shell),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Failure::bad_input(format!(
                "{flag}: found together with a job file; it is for commands given after `--`, a job file has `sweep`"
            ))),
            None => Ok(()),
        }
    }

    fn shorthand(&self) -> Result<JobSpec, Failure> {
        let split = parallel::split(&self.command).map_err(one)?;
        let sources =
            Sources::read(self.each_line.as_deref(), self.array.as_deref(), split.sources).map_err(one)?;
        if sources.dimensions.is_empty() && self.set.is_empty() && unread::is_left() {
            show::say(
                "warning: standard input is not read; `--each-line -` makes a task for each line of it",
            );
        }
        let command = Command { words: split.command, is_shell: self.shell };
        let (command, sweep) = parallel::translate(&command, sources).map_err(one)?;
        let base_dir = std::env::current_dir()
            .map_err(|error| Failure::file("find", Path::new("the current folder"), &error))?;
        if let Some(problem) = refuse_not_utf8("the working folder", &base_dir) {
            return Err(one(problem));
        }
        let mut spec = JobSpec::new(command, base_dir);
        if let CommandLine::Shell(line) = &spec.command {
            spec.name = first_word(line).unwrap_or(spec.name);
        }
        spec.sweep = sweep;
        Ok(spec)
    }
}

/// The program at the beginning of a shell line, when it is a plain word: a name for the job.
fn first_word(line: &str) -> Option<String> {
    let word = line.split_whitespace().next()?;
    let name = Path::new(word).file_name()?.to_str()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    name.chars().all(is_plain).then(|| name.to_owned())
}

fn one(problem: Problem) -> Failure {
    Failure::from(vec![problem])
}
