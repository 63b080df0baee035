//! Reading job files: YAML in, a resolved `JobSpec` or all its problems out.
//!
//! In three steps: `yaml` parses the text, `read_job` and `read_sweep` check its form into `form`'s
//! types, `resolve` looks at the files it names. Then the job is validated like any other. Every
//! step goes on after a problem, so that an author sees all of them at once.

mod files;
mod form;
mod locate;
mod read;
mod read_files;
mod read_job;
mod read_sweep;
mod resolve;
mod schema;
mod sources;
mod yaml;

use std::path::Path;

pub use locate::Locator;
pub use read::{Fields, Node, Reader};
pub use schema::job_schema;
pub use yaml::parse as parse_yaml;

use crate::job::author::sources::SourceError;
use crate::job::{JobSpec, Problem, limits};

/// Reads and resolves a job file. Relative paths in it start from its folder.
///
/// # Errors
/// Everything that is wrong with it, in the order of its lines.
pub fn load_job_file(path: &Path) -> Result<JobSpec, Vec<Problem>> {
    let text = load_text(path)?;
    let shown = path.display().to_string();
    let absolute = std::path::absolute(path).map_err(|error| {
        let found = format!("no current folder ({error})");
        vec![Problem { file: Some(shown.clone()), ..Problem::new("", found, "change to one that exists") }]
    })?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    // One folder has one name, so that the same job is known again by whatever path it is given.
    let base_dir = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    load_job_text(&text, &shown, &base_dir)
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

/// Resolves the text of a job file. `name` is what its problems call the file, and its stem the
/// job's default name; relative paths start from `base_dir`, which must be absolute.
///
/// # Errors
/// Everything that is wrong with it, in the order of its lines.
pub fn load_job_text(text: &str, name: &str, base_dir: &Path) -> Result<JobSpec, Vec<Problem>> {
    let value = yaml::parse(text).map_err(|problems| in_file(problems, name, &Locator::default()))?;
    let locator = Locator::read(text);
    let mut reader = Reader::new(&locator);
    let form = reader.job(&value);
    let mut problems = reader.into_problems();
    let resolved = form.map(|form| resolve::resolve(form, name, base_dir));
    match resolved {
        Some((spec, found)) if found.is_empty() && problems.is_empty() => return Ok(spec),
        Some((_, found)) => problems.extend(found),
        None => {}
    }
    Err(in_file(problems, name, &locator))
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
