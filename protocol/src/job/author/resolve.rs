//! From the form of a job file to a job that needs no file any more.

use std::collections::BTreeMap;
use std::path::Path;

use crate::job::author::environment;
use crate::job::author::files;
use crate::job::author::form::{CsvForm, JobForm, NamedSource, Source, SweepEntry, SweepForm};
use crate::job::author::sources::{self, SourceError};
use crate::job::author::{pattern, sources::table};
use crate::job::{CommandLine, JobSpec, LineEnds, Results, WorkDirPolicy};
use crate::problem::{Problem, quoted};
use crate::sweep::{Column, Dimension, IntegerRange, Sample, Sweep, Values};
use crate::template::{BUILT_IN_NAMES, is_parameter_name};

/// The job and everything that is wrong with it. The job may only be used when nothing is.
pub(super) fn resolve(form: JobForm, file_name: &str, base_dir: &Path) -> (JobSpec, Vec<Problem>) {
    let mut resolver =
        Resolver { base_dir, problems: Vec::new(), origins: BTreeMap::new(), gaps: Gaps::default() };
    let sweep = form.sweep.map(|sweep| resolver.sweep(sweep)).unwrap_or_default();
    let resources = form.resources.unwrap_or_default();
    let results = form.results.unwrap_or_default();
    let stages = form.inputs.is_some() || form.outputs.is_some();
    let absent = JobSpec::new(form.command, base_dir.to_owned());
    let absent_results = Results::default();
    let stem = Path::new(file_name).file_stem().and_then(|stem| stem.to_str());
    let environment::Taken { mut env, mut left_out, problems } =
        environment::taken(&form.env_from.unwrap_or_default(), std::env::vars_os());
    resolver.problems.extend(problems);
    env.extend(form.env.unwrap_or_default());
    left_out.retain(|name| !env.contains_key(name));
    let spec = JobSpec {
        env_left_out: left_out,
        name: form.name.or_else(|| stem.map(str::to_owned)).unwrap_or(absent.name),
        application: form.application.unwrap_or(absent.application),
        command: absent.command,
        sweep,
        env,
        base_dir: absent.base_dir,
        workdir: form.workdir.unwrap_or(if stages { WorkDirPolicy::Scratch } else { absent.workdir }),
        cores: resources.cores.unwrap_or(absent.cores),
        memory_bytes: resources.memory_bytes.unwrap_or(absent.memory_bytes),
        gpus: resources.gpus.unwrap_or(absent.gpus),
        generic: resources.generic.unwrap_or_default(),
        time_limit_ms: form.time_limit_ms,
        estimate: form.estimate,
        priority: form.priority.unwrap_or(absent.priority),
        retries: form.retries.unwrap_or(absent.retries),
        success_codes: form.success_codes.unwrap_or(absent.success_codes),
        crash_limit: form.crash_limit.unwrap_or(absent.crash_limit),
        max_failures: form.max_failures,
        stdio: form.stdio.unwrap_or(absent.stdio),
        results: Results {
            keep: results.keep.unwrap_or(absent_results.keep),
            limit_bytes: results.limit_bytes.unwrap_or(absent_results.limit_bytes),
            budget_bytes: results.budget_bytes.unwrap_or(absent_results.budget_bytes),
            files: results.files.unwrap_or(absent_results.files),
            extract: results.extract.unwrap_or_default(),
        },
        resident: form.resident.unwrap_or(absent.resident),
        inputs: Vec::new(),
        outputs: Vec::new(),
        is_taken: false,
        drawn: 0,
    };
    let (inputs, outputs) = (form.inputs.unwrap_or_default(), form.outputs.unwrap_or_default());
    let mut spec = files::with_files(spec, inputs, outputs, &mut resolver.problems);
    resolver.program(&spec);
    if !spec.inputs.is_empty() && resolver.knows_files() {
        files::fill_folders(&mut spec, &mut resolver.problems);
    }
    let problems = resolver.finish(&spec);
    (spec, problems)
}

/// What is missing of the sweep, so that nothing is reported that only follows from it.
#[derive(Clone, Copy, Default)]
struct Gaps {
    /// Some values could not be read: sizes mean nothing.
    has_unknown_values: bool,
    /// Some names could not be read: an unknown name may be one of them.
    has_unknown_names: bool,
    /// A table has a column that can be no parameter: another character may part its values.
    has_unfit_columns: bool,
}

struct Resolver<'a> {
    base_dir: &'a Path,
    problems: Vec<Problem>,
    /// Parameters that do not stand at `sweep.NAME`, and where they do.
    origins: BTreeMap<String, String>,
    gaps: Gaps,
}

impl Resolver<'_> {
    fn finish(mut self, spec: &JobSpec) -> Vec<Problem> {
        let mut problems = spec.validate_fields();
        if self.gaps.has_unknown_values {
            problems.retain(|problem| problem.path != "sweep" && problem.path != "sweep.sample.n");
        }
        if !self.gaps.has_unknown_names && !self.gaps.has_unfit_columns {
            problems.extend(spec.validate_templates());
        }
        problems.extend(spec.validate_to_submit_with(!self.gaps.has_unknown_values));
        if !problems.iter().any(Problem::is_of_files) && self.knows_files() {
            problems.extend(files::missing(&spec.with_files_only()));
        }
        for problem in &mut problems {
            let name = problem.path.strip_prefix("sweep.").unwrap_or_default();
            if let Some(origin) = self.origins.get(name) {
                let is_of_table = origin.ends_with(".file") || origin.ends_with(".columns");
                let is_only_column = self.origins.values().filter(|other| *other == origin).count() == 1;
                let is_from_file = origin.ends_with(".file");
                let separators = if is_only_column && is_from_file { "|;:\t " } else { "|;:\t" };
                if is_of_table && name.is_empty() {
                    problem.found = "a column without a name".to_owned();
                    problem.expected =
                        "name it in the line of names, or say which columns are used: `columns: [a, b]`"
                            .to_owned();
                } else if let Some(separator) = name
                    .trim_start_matches(['#', ' '])
                    .chars()
                    .find(|c| separators.contains(*c))
                    .filter(|_| is_of_table)
                {
                    problem.expected = format!(
                        "if that parts the values, say so: `delimiter: {:?}`; otherwise give the column another name: \
                         `columns: {{my_name: {name:?}}}`",
                        separator.to_string()
                    );
                } else if is_of_table && !self.gaps.has_unknown_names && !is_name_of_parameter(name) {
                    problem.expected = format!(
                        "{}; give the column another name: `columns: {{my_name: {name:?}}}`, with all that are used",
                        problem.expected
                    );
                }
                problem.path = origin.clone();
            }
        }
        self.problems.append(&mut problems);
        self.problems
    }

    fn report(&mut self, path: String, error: &SourceError, file: Option<&str>) {
        let found = match (error, file) {
            (SourceError::Content { .. }, _) | (_, None) => error.found(),
            (_, Some(file)) => format!("{}: {}", quoted(file), error.found()),
        };
        self.problems.push(Problem::new(path, found, error.expected()));
    }

    /// A program beside the job file is there and may be run; one of the search path may be
    /// installed on the platforms only, and one that an input brings is in the task's folder.
    fn program(&mut self, spec: &JobSpec) {
        let (field, program) = match &spec.command {
            CommandLine::Args(args) => ("command[0]", args.first()),
            CommandLine::Shell(_) => ("command", None),
        };
        let of_lines = LineEnds::default().of_command(field, &spec.command, self.base_dir);
        let problem = of_lines.or_else(|| {
            let is_beside = |program: &&String| {
                program.contains('/') && !program.starts_with('/') && !program.contains('{')
            };
            let program = program.filter(is_beside).filter(|program| !spec.brings_program(program))?;
            let (found, expected) = self.program_beside(program)?;
            Some(Problem::new(field, found, expected))
        });
        // It is told first.
        self.problems.splice(0..0, problem);
    }

    /// Why a program with a relative path cannot be run: what was found, and what would be right.
    fn program_beside(&self, program: &str) -> Option<(String, String)> {
        match std::fs::metadata(self.base_dir.join(program)) {
            Err(_) => Some((
                format!("no program {}", quoted(program)),
                "relative paths start from the job file's folder".to_owned(),
            )),
            Ok(metadata) if metadata.is_dir() => {
                Some((format!("the folder {}", quoted(program)), "name a program".to_owned()))
            }
            Ok(metadata) if !is_executable(&metadata) => Some((
                format!("{}, which is not executable", quoted(program)),
                format!("make it executable with: chmod +x {program}"),
            )),
            Ok(_) => None,
        }
    }

    fn sweep(&mut self, form: SweepForm) -> Sweep {
        let mut dimensions = Vec::new();
        for entry in form.entries {
            match entry {
                SweepEntry::Parameter(named) => {
                    let column = self.column(named);
                    dimensions.push(Dimension { columns: vec![column] });
                }
                SweepEntry::Zip(group) => dimensions.push(self.zip(group)),
                SweepEntry::Csv { path, csv: Some(csv) } => dimensions.extend(self.csv(&path, &csv)),
                SweepEntry::Csv { csv: None, .. } => self.forget_names(),
            }
        }
        let sample = form.sample.map(|sample| Sample { n: sample.n, seed: sample.seed.unwrap_or(0) });
        Sweep { dimensions, sample }
    }

    fn column(&mut self, named: NamedSource) -> Column {
        let values = match named.source {
            Some(source) => self.values(&named.path, source),
            None => None,
        };
        let values = values.unwrap_or_else(|| {
            self.gaps.has_unknown_values = true;
            stand_in()
        });
        Column { name: named.name, values }
    }

    fn values(&mut self, path: &str, source: Source) -> Option<Values> {
        let (field, file, texts) = match source {
            Source::List(texts) => return Some(Values::Texts(texts.into())),
            Source::Range(numbers) => {
                let step = numbers.get(2).copied().unwrap_or(1);
                let range = match numbers[..] {
                    [from, to, ..] => IntegerRange::between(from, to, step),
                    _ => None,
                };
                if range.is_none() {
                    let problem =
                        Problem::new(format!("{path}.range"), "more than 2^64 numbers", "narrow the range");
                    self.problems.push(problem);
                }
                return Some(Values::Integers(vec![range?]));
            }
            Source::Linspace(points) => {
                return Some(Values::Linspace { from: points.from, to: points.to, n: points.n });
            }
            Source::Files(text) => {
                let files = pattern::list_files(self.base_dir, &text);
                ("files", None, files)
            }
            Source::Lines(file) => {
                let lines = sources::read_lines(&self.base_dir.join(&file));
                ("lines", Some(file), lines)
            }
        };
        match texts {
            Ok(texts) => Some(Values::Texts(texts.into())),
            Err(error) => {
                self.report(format!("{path}.{field}"), &error, file.as_deref());
                None
            }
        }
    }

    fn zip(&mut self, group: Vec<NamedSource>) -> Dimension {
        let had_gaps = std::mem::take(&mut self.gaps.has_unknown_values);
        for named in &group {
            self.origins.insert(named.name.clone(), named.path.clone());
        }
        let mut columns: Vec<Column> = group.into_iter().map(|named| self.column(named)).collect();
        if self.gaps.has_unknown_values {
            // One stand-in would make all others of the group look too long.
            for column in &mut columns {
                column.values = stand_in();
            }
        }
        self.gaps.has_unknown_values |= had_gaps;
        Dimension { columns }
    }

    fn csv(&mut self, path: &str, csv: &CsvForm) -> Option<Dimension> {
        let table = table::read_table(self.base_dir, csv);
        let table = match table {
            Ok(table) => table,
            Err(error) => {
                let is_choice = csv.columns.is_some() && error.found().starts_with("no column");
                let field = if is_choice { "columns" } else { "file" };
                self.report(format!("{path}.{field}"), &error, Some(&csv.file));
                self.forget_names();
                return None;
            }
        };
        self.gaps.has_unfit_columns |= table.iter().any(|(name, _)| !is_name_of_parameter(name));
        let columns = table.into_iter().map(|(name, values)| {
            self.origins.insert(
                name.clone(),
                format!("{path}.{}", if csv.columns.is_some() { "columns" } else { "file" }),
            );
            Column { name, values: Values::Texts(values.into()) }
        });
        Some(Dimension { columns: columns.collect() })
    }

    /// Whether nothing that was found so far is of files or parameters.
    fn knows_files(&self) -> bool {
        let Gaps { has_unknown_values, has_unknown_names, .. } = self.gaps;
        !has_unknown_values && !has_unknown_names && !self.problems.iter().any(Problem::is_of_files)
    }

    fn forget_names(&mut self) {
        self.gaps = Gaps { has_unknown_values: true, has_unknown_names: true, ..self.gaps };
    }
}

/// Whether a parameter may have this name.
fn is_name_of_parameter(name: &str) -> bool {
    is_parameter_name(name) && !BUILT_IN_NAMES.contains(&name)
}

/// Stands for values that could not be read: a number, so that no format complains.
fn stand_in() -> Values {
    Values::Integers(vec![IntegerRange { from: 0, step: 1, n: 1 }])
}

#[cfg(unix)]
fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &std::fs::Metadata) -> bool {
    true
}
