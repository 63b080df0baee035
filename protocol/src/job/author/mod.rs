//! Reading job files: YAML in, a resolved `JobSpec` or all its problems out.
//!
//! In three steps: `yaml` parses the text, `read_job` and `read_sweep` check its form into `form`'s
//! types, `resolve` looks at the files it names. Then the job is validated like any other. Every
//! step goes on after a problem, so that an author sees all of them at once.

mod by_name;
mod environment;
mod files;
mod form;
mod pattern;
mod read;
mod resolve;
mod schema;
mod sources;
mod stages;
mod tasks;
mod yaml;

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

pub use crate::job::author::yaml::characters::stands_in_yaml;
pub use crate::job::author::yaml::locate::Locator;
pub use by_name::same_tasks;
pub use environment::{env_from_refusal, is_secret_value};
pub use read::{Fields, Node, Reader};
pub use schema::job_schema;
pub use yaml::parse as parse_yaml;

use serde_yaml::Value;

use crate::job::author::read::read_job::JOB_FIELDS;
use crate::job::author::sources::SourceError;
use crate::job::author::stages::{Common, STAGE_FIELDS};
use crate::job::{JobSpec, Problem, StageSpec, WorkflowSpec, limits};

/// The name that stands for standard input.
const STDIN: &str = "-";

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub enum JobFile {
    /// One job.
    Job(Box<JobSpec>),
    /// Several, of which some wait for others.
    Workflow(WorkflowSpec),
}

/// Reads and resolves a job file. Relative paths in it start from its folder.
///
/// # Errors
/// Everything that is wrong with it, in the order of its lines.
pub fn load_job_file(path: &Path) -> Result<JobSpec, Vec<Problem>> {
    let (text, shown, base_dir) = open(path)?;
    load_job_text(&text, &shown, &base_dir)
}

/// Reads and resolves a file of one job, or of several of which some wait for others.
///
/// # Errors
/// Everything that is wrong with it, in the order of its lines.
pub fn load_file(path: &Path) -> Result<(JobFile, Places), Vec<Problem>> {
    let (text, name, base_dir) = open(path)?;
    let file = load_file_text(&text, &name, &base_dir)?;
    Ok((file, Places { name, text }))
}

/// Where the fields of a job file stand, for problems that are found after it was read.
#[derive(Clone, Debug)]
pub struct Places {
    name: String,
    text: String,
}

impl Places {
    /// The problems with the file and their lines, in the order of the lines. The text is parsed again for it.
    pub fn of(&self, problems: Vec<Problem>, stages: &[StageSpec]) -> Vec<Problem> {
        let locator = Locator::read(&self.text);
        let placed = problems.into_iter().map(|problem| {
            let of_stage = stages.iter().find_map(|stage| stage.field(&problem.path));
            // A stage may have it from the top of the file.
            match of_stage.filter(|field| !locator.has(&problem.path) && locator.has(field)) {
                Some(field) => Problem { path: field.to_owned(), ..problem },
                None => problem,
            }
        });
        let mut placed = in_file(placed.collect(), &self.name, &locator);
        // What stands at the top is said of each stage.
        placed.dedup();
        placed
    }
}

/// The text of a job file, what its problems call it, and where relative paths start.
fn open(path: &Path) -> Result<(String, String, PathBuf), Vec<Problem>> {
    if is_stream(path) {
        return open_stream(path);
    }
    let text = load_text(path)?;
    let shown = path.display().to_string();
    let absolute = std::path::absolute(path).map_err(|error| {
        let found = format!("no current folder ({error})");
        vec![Problem { file: Some(shown.clone()), ..Problem::new("", found, "change to one that exists") }]
    })?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    // One folder has one name, so that the same job is known again by whatever path it is given.
    let base_dir = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    match refuse_not_utf8("the folder of the job file", &base_dir) {
        Some(problem) => Err(vec![Problem { file: Some(shown), ..problem }]),
        None => Ok((text, shown, base_dir)),
    }
}

/// What is wrong with a folder whose path is to stand in a job, and is not UTF-8. `what` says whose folder it is.
pub fn refuse_not_utf8(what: &str, folder: &Path) -> Option<Problem> {
    folder.to_str().is_none().then(|| {
        let shown = folder.as_os_str().as_encoded_bytes().escape_ascii();
        let expected = "a job keeps the path as text: rename the folder, or use another one";
        Problem::new("", format!("{what} `{shown}`, which is not UTF-8"), expected)
    })
}

/// Whether a path names standard input or another stream: it can be read once, and lies in no folder of its author's.
fn is_stream(path: &Path) -> bool {
    path == Path::new(STDIN)
        || sources::is_of_system(path)
        || path.metadata().is_ok_and(|facts| facts.file_type().is_fifo())
}

/// The text of a stream; relative paths in it start from the current folder.
fn open_stream(path: &Path) -> Result<(String, String, PathBuf), Vec<Problem>> {
    let is_stdin =
        [STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].iter().any(|name| path == Path::new(name));
    let shown = match path.metadata() {
        _ if is_stdin => "stdin".to_owned(),
        Ok(facts) if facts.file_type().is_fifo() => "pipe".to_owned(),
        _ => path.display().to_string(),
    };
    let failed = |found: String, expected: &str| {
        vec![Problem { file: Some(shown.clone()), ..Problem::new("", found, expected) }]
    };
    let text = match is_stdin {
        true => sources::text_of(&mut std::io::stdin().lock(), limits::JOB_FILE_BYTES_MAX),
        false => sources::read_stream(path, limits::JOB_FILE_BYTES_MAX),
    };
    let text = text.map_err(|error| failed(error.found(), error.expected()))?;
    if text.trim().is_empty() {
        return Err(failed("nothing to read".to_owned(), "write a job file to it"));
    }
    let folder = std::env::current_dir();
    let folder = folder.and_then(|folder| folder.canonicalize());
    let folder = folder
        .map_err(|error| failed(format!("no current folder ({error})"), "change to one that exists"))?;
    match refuse_not_utf8("the working folder", &folder) {
        Some(problem) => Err(failed(problem.found, &problem.expected)),
        None => Ok((text, shown, folder)),
    }
}

/// The text of a file that people write, at most as long as a job file.
///
/// # Errors
/// It is missing, unreadable, too long or not UTF-8.
pub fn load_text(path: &Path) -> Result<String, Vec<Problem>> {
    sources::read_text(path, limits::JOB_FILE_BYTES_MAX).map_err(|error| {
        let (found, expected) = match &error {
            SourceError::Missing => ("no such file".to_owned(), "check the path"),
            other => (other.found(), other.expected()),
        };
        vec![Problem { file: Some(path.display().to_string()), ..Problem::new("", found, expected) }]
    })
}

/// What is wrong with a file that people name and that cannot be opened or read.
pub fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    use std::io::ErrorKind;
    let (found, expected) = match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ("no such file".to_owned(), "check the path"),
        ErrorKind::IsADirectory => ("a folder".to_owned(), "name a file"),
        kind => {
            let is_permission = kind == ErrorKind::PermissionDenied;
            let expected = if is_permission { "check its permissions" } else { "check the path" };
            (format!("a file that cannot be read ({})", sources::words(error)), expected)
        }
    };
    Problem { file: Some(path.display().to_string()), ..Problem::new("", found, expected) }
}

/// Resolves the text of a job file. `name` is what its problems call the file, and its stem the
/// job's default name; relative paths start from `base_dir`, which must be absolute.
///
/// # Errors
/// Everything that is wrong with it, in the order of its lines.
pub fn load_job_text(text: &str, name: &str, base_dir: &Path) -> Result<JobSpec, Vec<Problem>> {
    let value = yaml::parse(text).map_err(|problems| in_file(problems, name, &Locator::default()))?;
    load_one(&value, (text, name), base_dir, &[])
}

/// The one job of a file of this text; `others`: fields that such a file could have beside those of a job.
fn load_one(
    value: &Value,
    (text, name): (&str, &str),
    base_dir: &Path,
    others: &[&str],
) -> Result<JobSpec, Vec<Problem>> {
    let locator = Locator::read(text);
    let mut reader = Reader::new(&locator);
    let form = reader.job(value, others);
    let mut problems = reader.into_problems();
    let resolved = form.map(|form| resolve::resolve(form, name, base_dir));
    match resolved {
        Some((spec, found)) if found.is_empty() && problems.is_empty() => return Ok(spec),
        Some((_, found)) => problems.extend(found),
        None => {}
    }
    Err(in_file(problems, name, &locator))
}

/// Resolves the text of a file of one job or of several; see [`load_job_text`].
///
/// # Errors
/// Everything that is wrong with it, in the order of its lines.
pub fn load_file_text(text: &str, name: &str, base_dir: &Path) -> Result<JobFile, Vec<Problem>> {
    let value = yaml::parse(text).map_err(|problems| in_file(problems, name, &Locator::default()))?;
    let has = |field: &str| value.as_mapping().is_some_and(|fields| fields.contains_key(field));
    let others: Vec<&str> = ["stages", "tasks"].into_iter().chain(STAGE_FIELDS).collect();
    if !others.iter().any(|field| has(field)) {
        let job = load_one(&value, (text, name), base_dir, &others)?;
        return Ok(JobFile::Job(Box::new(job)));
    }
    let locator = Locator::read(text);
    let mut reader = Reader::new(&locator);
    let read = read_workflow(&mut reader, &value, name, base_dir);
    let mut problems = reader.into_problems();
    match read {
        Some((workflow, found)) if found.is_empty() && problems.is_empty() => {
            return Ok(JobFile::Workflow(workflow));
        }
        Some((_, found)) => problems.extend(found),
        None => {}
    }
    let mut problems = in_file(problems, name, &locator);
    // What stands at the top is read for each stage.
    problems.dedup();
    Err(problems)
}

fn read_workflow(
    reader: &mut Reader<'_>,
    value: &Value,
    name: &str,
    base_dir: &Path,
) -> Option<(WorkflowSpec, Vec<Problem>)> {
    let node = Node { value, path: String::new() };
    let has = |field: &str| value.as_mapping().is_some_and(|fields| fields.contains_key(field));
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow").to_owned();
    let is_lone = !has("stages") && !has("tasks");
    let known: Vec<&str> = match is_lone {
        true => JOB_FIELDS.iter().chain(&STAGE_FIELDS).copied().collect(),
        false => {
            let common = JOB_FIELDS.iter().copied().filter(|field| *field != "command" && *field != "sweep");
            common.chain(["stages", "tasks", "on_failed_dependency"]).collect()
        }
    };
    let mut fields = reader.fields(&node, &known, "a job file consists of lines like `command: …`")?;
    let own_name = fields.take("name").and_then(|node| reader.text(&node));
    let name = own_name.unwrap_or(stem);
    if is_lone {
        let common =
            Common { name, fields: Fields::default(), on_failed_dependency: Default::default(), base_dir };
        return Some(reader.lone_stage(&node, &common));
    }
    let on_failed_dependency = reader.on_failed(&mut fields).unwrap_or_default();
    let (stages, tasks) = (fields.take("stages"), fields.take("tasks"));
    let common = Common { name, fields, on_failed_dependency, base_dir };
    match (stages, tasks) {
        (Some(stages), None) => Some(reader.stages(&stages, &common)),
        (None, Some(tasks)) => Some(reader.tasks(&tasks, &common)),
        _ => reader.report("tasks", "`tasks` beside `stages`", "put them into files of their own"),
    }
}

/// The lines of a file that are not empty: the values of a parameter, like `{lines: FILE}` in a job
/// file. `option` is what a problem names as its field.
///
/// # Errors
/// A file that is missing, unreadable, not UTF-8, too large or empty.
pub fn load_lines(path: &Path, option: &str) -> Result<Vec<String>, Problem> {
    sources::read_lines(path).map_err(|error| {
        let found = format!("{}: {}", path.display(), error.found());
        let expected = match &error {
            SourceError::Missing => "check the path",
            other => other.expected(),
        };
        Problem::new(option, found, expected)
    })
}

/// The problems with their file and line, in the order of the lines.
pub fn in_file(problems: Vec<Problem>, name: &str, locator: &Locator) -> Vec<Problem> {
    let mut located: Vec<Problem> = problems
        .into_iter()
        .map(|problem| {
            let mark = locator.mark(&problem.path);
            Problem {
                file: Some(name.to_owned()),
                line: problem.line.or(mark.map(|mark| mark.line)),
                column: problem.column.or(mark.map(|mark| mark.column)),
                ..problem
            }
        })
        .collect();
    located.sort_by_key(|problem| (problem.line, problem.column));
    located
}

#[cfg(test)]
mod tests;
