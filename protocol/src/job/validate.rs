//! Checks of a resolved job, wherever it came from: the manager trusts no client, a pilot no manager.

pub(crate) mod validate_files;

use std::collections::BTreeSet;

use crate::job::compile::Templates;
use crate::job::{CommandLine, JobSpec, Stream, WorkDirPolicy, limits};
use crate::problem::{Problem, quoted};
use crate::sweep::{Column, Dimension, IntegerRange, Values};
use crate::template::{BUILT_IN_NAMES, Slot, Source, Template, is_parameter_name};
use crate::text::units::{show_bytes, show_duration};

/// Variables that begin so are the agent's.
const ENV_PREFIX_RESERVED: &str = "PILOTFISH_";

impl JobSpec {
    /// Everything that is wrong with this job; nothing: it can be run. O(size of the job).
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = self.validate_fields();
        problems.extend(self.validate_templates());
        problems
    }

    /// What can be said without looking into templates.
    pub(super) fn validate_fields(&self) -> Vec<Problem> {
        let mut check = Check::default();
        check.name("name", &self.name);
        check.name("application", &self.application);
        check.command(&self.command);
        check.sweep(self);
        check.env(self);
        if !self.base_dir.is_absolute() || self.base_dir.to_str().is_none() {
            check.add(
                "base_dir",
                quoted(&self.base_dir.to_string_lossy()),
                "the folder of the job file must be an absolute path whose name is UTF-8",
            );
        }
        if let WorkDirPolicy::Path(path) = &self.workdir {
            check.path("workdir.path", path);
        }
        check.resources(self);
        check.policy(self);
        // What is wrong with the sweep is told alone.
        if check.problems.is_empty() {
            check.problems.extend(self.estimates().err());
        }
        check.stdio(self);
        check.results(self);
        check.n_files(self);
        check.files(self);
        check.problems
    }

    /// What the templates ask for that the job does not have.
    pub(super) fn validate_templates(&self) -> Vec<Problem> {
        let templates = match Templates::parse(self) {
            Ok(templates) => templates,
            Err(mut problems) => {
                // What the command lacks says nothing of the files.
                if !problems.iter().any(Problem::is_of_files) {
                    problems.extend(self.with_files_only().validate_templates());
                }
                return problems;
            }
        };
        let mut check = Check::default();
        let columns: Vec<&Column> = self.sweep.columns().collect();
        for (path, template) in templates.all() {
            for slot in template.slots() {
                check.format(&path, slot, &columns);
                check.place(&path, slot, &columns);
            }
            if self.resident && path != "stdio.stdin" && !template.is_same_for_all_tasks() {
                let found = "a value of one task in a resident program's start".to_owned();
                check.add(
                    &path,
                    found,
                    "it is started once for many tasks and reads each task's parameters from its input",
                );
            }
            check.shared_output(self, &path, template);
        }
        if !check.problems.iter().any(Problem::is_of_files) {
            check.file_templates(self, &templates);
        }
        check.problems
    }
}

#[derive(Default)]
pub(super) struct Check {
    pub(super) problems: Vec<Problem>,
}

impl Check {
    pub(super) fn add(
        &mut self,
        path: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) {
        self.problems.push(Problem::new(path, found, expected));
    }

    fn name(&mut self, path: &str, name: &str) {
        if name.trim().is_empty() {
            self.add(path, "an empty name", "give it at least one letter");
        } else if name.len() > limits::NAME_BYTES_MAX {
            let expected = format!("at most {} are allowed", limits::NAME_BYTES_MAX);
            self.add(path, format!("{} bytes", name.len()), expected);
        } else if name.chars().any(char::is_control) {
            self.add(path, quoted(name), "a name has no line ends or other control characters");
        }
    }

    fn text(&mut self, path: &str, text: &str) {
        if text.len() > limits::TEXT_BYTES_MAX {
            let expected = format!("the system takes at most {}", show_bytes(limits::TEXT_BYTES_MAX as u64));
            self.add(path, format!("a text of {} bytes", text.len()), expected);
        } else if text.contains('\0') {
            self.add(path, "a NUL character", "programs cannot be given that one");
        }
    }

    pub(super) fn path(&mut self, path: &str, file: &str) {
        self.text(path, file);
        if file.is_empty() {
            self.add(path, "an empty path", "name a file or folder");
        } else if file.len() > limits::PATH_BYTES_MAX {
            let expected = format!("a path has at most {}", limits::PATH_BYTES_MAX);
            self.add(path, format!("{} bytes", file.len()), expected);
        }
    }

    pub(super) fn count(&mut self, path: &str, found: usize, max: usize, what: &str) {
        if found > max {
            self.add(path, format!("{found} {what}"), format!("at most {max} are allowed"));
        }
    }

    fn command(&mut self, command: &CommandLine) {
        let args = match command {
            CommandLine::Shell(line) if line.trim().is_empty() => {
                return self.add("command", "an empty shell line", "write what is to be run");
            }
            CommandLine::Shell(line) => return self.text("command", line),
            CommandLine::Args(args) => args,
        };
        match args.first() {
            None => self.add("command", "an empty list", "write [program, argument, …] or a shell line"),
            Some(program) if program.is_empty() => {
                self.add("command[0]", "an empty text", "name the program to be run");
            }
            Some(_) => {}
        }
        self.count("command", args.len(), limits::N_ARGS_MAX, "arguments");
        for (i, arg) in args.iter().enumerate() {
            self.text(&format!("command[{i}]"), arg);
        }
    }

    fn sweep(&mut self, job: &JobSpec) {
        let sweep = &job.sweep;
        self.count("sweep", sweep.dimensions.len(), limits::N_DIMENSIONS_MAX, "dimensions");
        self.count("sweep", sweep.columns().count(), limits::N_COLUMNS_MAX, "parameters");
        let mut names = BTreeSet::new();
        let mut n_bytes = 0;
        for column in sweep.columns() {
            let path = format!("sweep.{}", column.name);
            self.parameter_name(&path, &column.name);
            if !names.insert(&column.name) {
                self.add(
                    &path,
                    format!("two parameters of the name `{}`", column.name),
                    "name them differently",
                );
            }
            self.values(&path, &column.values);
            if let Values::Texts(texts) = &column.values {
                n_bytes += texts.iter().map(str::len).sum::<usize>();
            }
        }
        if n_bytes > limits::SWEEP_BYTES_MAX {
            let expected = format!("at most {} are allowed", show_bytes(limits::SWEEP_BYTES_MAX as u64));
            self.add("sweep", format!("{n_bytes} bytes of values"), expected);
        }
        for dimension in &sweep.dimensions {
            self.dimension(dimension);
        }
        self.size(job);
    }

    fn parameter_name(&mut self, path: &str, name: &str) {
        if !is_parameter_name(name) || name.len() > limits::NAME_BYTES_MAX {
            let expected = "a parameter's name is a letter or _, then letters, digits and _";
            self.add(path, format!("the name {}", quoted(name)), expected);
        } else if BUILT_IN_NAMES.contains(&name) {
            let expected =
                format!("it already stands for something in templates ({})", BUILT_IN_NAMES.join(", "));
            self.add(path, format!("the reserved name `{name}`"), expected);
        }
    }

    fn values(&mut self, path: &str, values: &Values) {
        match values {
            Values::Texts(texts) => {
                self.count(path, texts.len(), limits::N_TEXTS_MAX, "values");
                for text in texts.iter() {
                    self.text(path, text);
                }
            }
            Values::Integers(ranges) => {
                self.count(path, ranges.len(), limits::N_RANGES_MAX, "ranges");
                for range in ranges {
                    self.range(path, range);
                }
            }
            Values::Linspace { from, to, .. } if !(from.is_finite() && to.is_finite()) => {
                self.add(path, format!("ends {from} and {to}"), "both must be finite numbers");
            }
            Values::Linspace { .. } => {}
        }
        if values.is_empty() {
            self.add(path, "no value", "give at least one, or leave the parameter out");
        }
    }

    fn range(&mut self, path: &str, range: &IntegerRange) {
        if range.step == 0 {
            self.add(path, "step 0", "the step must not be 0");
        } else if !range.fits() {
            let found = format!("{} numbers from {} in steps of {}", range.n, range.from, range.step);
            self.add(path, found, "the last must be below 2^63");
        }
    }

    fn dimension(&mut self, dimension: &Dimension) {
        let Some(first) = dimension.columns.first() else {
            return self.add("sweep", "a dimension without parameters", "give it at least one");
        };
        for column in &dimension.columns {
            if column.values.len() != first.values.len() {
                let n = column.values.len();
                let plural = if n == 1 { "" } else { "s" };
                let found = format!("{n} value{plural} where `{}` has {}", first.name, first.values.len());
                self.add(
                    format!("sweep.{}", column.name),
                    found,
                    "parameters in step need equally many values",
                );
            }
        }
    }

    fn size(&mut self, job: &JobSpec) {
        let n_combinations = job.sweep.n_combinations();
        match &job.sweep.sample {
            Some(sample) if sample.n == 0 => {
                self.add("sweep.sample.n", "0", "draw at least one combination");
            }
            Some(sample) if n_combinations.is_some_and(|n| n > 0 && sample.n > n) => {
                let n = n_combinations.unwrap_or_default();
                let expected = format!("draw at most {n}, the number of combinations");
                self.add("sweep.sample.n", sample.n.to_string(), expected);
            }
            _ => {}
        }
        if n_combinations.is_none_or(|n| n > limits::N_TASKS_MAX) {
            let found = n_combinations
                .map_or("more than 2^64 combinations".to_owned(), |n| format!("{n} combinations"));
            self.add("sweep", found, "at most 10^18 are allowed");
        }
    }

    fn env(&mut self, job: &JobSpec) {
        self.count("env", job.env.len(), limits::N_ENV_MAX, "variables");
        for (name, value) in &job.env {
            let path = format!("env.{name}");
            if name.is_empty() || name.contains(['=', '\0']) || name.len() > limits::NAME_BYTES_MAX {
                self.add(
                    &path,
                    format!("the name {}", quoted(name)),
                    "a variable's name is not empty and has no `=`",
                );
            }
            if name.starts_with(ENV_PREFIX_RESERVED) {
                let expected =
                    format!("variables that begin with {ENV_PREFIX_RESERVED} are set by the pilot");
                self.add(&path, format!("the reserved name `{name}`"), expected);
            }
            self.text(&path, value);
        }
    }

    fn resources(&mut self, job: &JobSpec) {
        if job.cores == 0 || job.cores > limits::CORES_MAX {
            self.add("resources.cores", job.cores.to_string(), format!("write 1 to {}", limits::CORES_MAX));
        }
        if job.memory_bytes > limits::MEMORY_BYTES_MAX {
            let expected = format!("at most {} are allowed", show_bytes(limits::MEMORY_BYTES_MAX));
            self.add("resources.memory", show_bytes(job.memory_bytes), expected);
        }
        if job.gpus > limits::GPUS_MAX {
            self.add("resources.gpus", job.gpus.to_string(), format!("write 0 to {}", limits::GPUS_MAX));
        }
        self.count("resources.generic", job.generic.len(), limits::N_GENERIC_MAX, "kinds of resources");
        for name in job.generic.keys() {
            self.name(&format!("resources.generic.{name}"), name);
        }
    }

    fn policy(&mut self, job: &JobSpec) {
        let duration_max = || format!("at most {} are allowed", show_duration(limits::DURATION_MS_MAX));
        match job.time_limit_ms {
            Some(0) => self.add("time_limit", "0", "a task needs time; leave the field out for no limit"),
            Some(limit) if limit > limits::DURATION_MS_MAX => {
                self.add("time_limit", show_duration(limit), duration_max());
            }
            _ => {}
        }
        if job.retries.count > limits::RETRIES_MAX {
            let expected = format!("at most {} are allowed", limits::RETRIES_MAX);
            self.add("retries", job.retries.count.to_string(), expected);
        }
        if job.retries.delay_ms > limits::DURATION_MS_MAX {
            self.add("retries.delay", show_duration(job.retries.delay_ms), duration_max());
        }
        if job.success_codes.is_empty() {
            self.add("success_codes", "an empty list", "name at least one exit code, usually 0");
        }
        for (i, code) in job.success_codes.iter().enumerate() {
            if !(0..=255).contains(code) {
                self.add(format!("success_codes[{i}]"), code.to_string(), "exit codes are 0 to 255");
            }
        }
        if job.crash_limit == 0 || job.crash_limit > limits::CRASH_LIMIT_MAX {
            let expected = format!("write 1 to {}", limits::CRASH_LIMIT_MAX);
            self.add("crash_limit", job.crash_limit.to_string(), expected);
        }
    }

    fn stdio(&mut self, job: &JobSpec) {
        let streams =
            [("stdin", &job.stdio.stdin), ("stdout", &job.stdio.stdout), ("stderr", &job.stdio.stderr)];
        for (name, stream) in streams {
            if let Stream::File(file) = stream {
                self.path(&format!("stdio.{name}"), file);
            }
            if job.resident && name != "stderr" && matches!(stream, Stream::File(_)) {
                let expected = "a resident program's input and output carry its tasks and answers";
                self.add(format!("stdio.{name}"), "a file", expected);
            }
        }
        if job.stdio.stdin == Stream::Archive {
            self.add("stdio.stdin", "archive", "input comes from a file, or write discard for none");
        }
    }

    fn results(&mut self, job: &JobSpec) {
        let results = &job.results;
        if results.limit_bytes == 0 || results.limit_bytes > limits::RESULT_LIMIT_BYTES_MAX {
            let max = show_bytes(limits::RESULT_LIMIT_BYTES_MAX);
            let expected = format!("write 1B to {max}, or keep: none to keep nothing");
            self.add("results.limit", show_bytes(results.limit_bytes), expected);
        }
        if results.budget_bytes == 0 || results.budget_bytes > limits::RESULT_BUDGET_BYTES_MAX {
            let max = show_bytes(limits::RESULT_BUDGET_BYTES_MAX);
            let expected = format!("write 1B to {max}, or keep: none to keep nothing");
            self.add("results.budget", show_bytes(results.budget_bytes), expected);
        }
        self.count("results.extract", results.extract.len(), limits::N_EXTRACT_MAX, "columns");
        let mut names = BTreeSet::new();
        for extract in &results.extract {
            let path = format!("results.extract.{}", extract.name);
            self.name(&path, &extract.name);
            self.text(&path, &extract.pattern);
            if !names.insert(&extract.name) {
                self.add(
                    &path,
                    format!("two columns of the name `{}`", extract.name),
                    "name them differently",
                );
            }
            self.pattern(&path, &extract.pattern);
        }
        let discards = job.stdio.stdout != Stream::Archive;
        if !results.extract.is_empty() && discards && !job.resident {
            let expected = "extract reads the archived output; set stdio.stdout to archive";
            self.add("results.extract", "standard output that is not archived", expected);
        }
    }

    /// Nobody's file system gets millions of files by surprise.
    fn n_files(&mut self, job: &JobSpec) {
        let is_file = |stream: &&Stream| matches!(stream, Stream::File(path) if !path.starts_with("/dev/"));
        let streams = [&job.stdio.stdout, &job.stdio.stderr].into_iter().filter(is_file).count();
        let n_each = (streams + job.outputs.len()) as u128;
        let n_tasks = u128::from(job.sweep.n_tasks());
        let n = n_each * n_tasks;
        if n > u128::from(job.results.files) {
            let expected = format!(
                "at most {} are allowed; archived output needs none; if all are meant, write `results: {{files: {n}}}`",
                job.results.files
            );
            self.add("results.files", format!("{n} files ({n_tasks} tasks × {n_each})"), expected);
        }
    }

    #[cfg(feature = "author")]
    fn pattern(&mut self, path: &str, pattern: &str) {
        if let Err(cause) = crate::job::extract::compile_pattern(pattern) {
            self.add(path, quoted(pattern), format!("this is not a regular expression: {cause}"));
        }
    }

    #[cfg(not(feature = "author"))]
    fn pattern(&mut self, _path: &str, _pattern: &str) {}

    fn format(&mut self, path: &str, slot: &Slot, columns: &[&Column]) {
        let (Some(format), Source::Parameter(place)) = (slot.format, slot.source) else { return };
        let Some(column) = columns.get(place) else { return };
        let bad = match &column.values {
            Values::Texts(texts) => {
                let bad =
                    texts.iter().find(|text| !format.takes(crate::sweep::Value::Text(slot.part.of(text))));
                bad.map(|text| quoted(slot.part.of(text)))
            }
            Values::Integers(_) => None,
            Values::Linspace { from, .. } => {
                (!format.takes(crate::sweep::Value::Float(*from))).then(|| "fractions".to_owned())
            }
        };
        if let Some(bad) = bad {
            let expected = format!("this format needs {}", format.demand());
            self.add(path, format!("{bad} among the values of `{}`", column.name), expected);
        }
    }

    /// What cannot be written into a here-document.
    fn place(&mut self, path: &str, slot: &Slot, columns: &[&Column]) {
        let Source::Parameter(place) = slot.source else { return };
        let Some(Column { name, values: Values::Texts(texts), .. }) = columns.get(place) else { return };
        if let Some((text, why)) = texts.iter().find_map(|text| Some((text, slot.refusal(text)?))) {
            self.add(path, format!("{} among the values of `{name}`", quoted(text)), why);
        }
    }

    fn shared_output(&mut self, job: &JobSpec, path: &str, template: &Template) {
        let is_output = path == "stdio.stdout" || path == "stdio.stderr";
        let is_device = matches!(template.render_constant(), Some(text) if text.starts_with("/dev/"));
        if is_output && !is_device && job.sweep.n_tasks() > 1 && template.is_same_for_all_tasks() {
            let found = format!("one file for {} tasks", job.sweep.n_tasks());
            self.add(
                path,
                found,
                "they would overwrite each other; put {index} or a parameter into the name",
            );
        }
    }
}
