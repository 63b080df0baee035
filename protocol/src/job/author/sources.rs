//! The files that a job file names: read, listed, cut into lines and columns.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::job::problem::quoted;
use crate::job::{limits, nearest};
use crate::units::show_bytes;

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum SourceError {
    Missing,
    Folder,
    Unreadable(std::io::Error),
    TooLarge {
        max: u64,
    },
    NotUtf8 {
        line: usize,
    },
    /// Anything else: what was found, and what would be right.
    Content {
        found: String,
        expected: String,
    },
}

impl SourceError {
    fn content(found: impl Into<String>, expected: impl Into<String>) -> SourceError {
        SourceError::Content { found: found.into(), expected: expected.into() }
    }

    pub(super) fn found(&self) -> String {
        match self {
            SourceError::Missing => "no such file".to_owned(),
            SourceError::Folder => "a folder".to_owned(),
            SourceError::Unreadable(error) => {
                let words = error.to_string();
                let words = words.split(" (os error ").next().unwrap_or_default().to_lowercase();
                format!("a file that cannot be read ({words})")
            }
            SourceError::TooLarge { max } => format!("a file of more than {}", show_bytes(*max)),
            SourceError::NotUtf8 { line } => format!("bytes in line {line} of the file that are not UTF-8"),
            SourceError::Content { found, .. } => found.clone(),
        }
    }

    pub(super) fn expected(&self) -> &str {
        match self {
            SourceError::Missing => "relative paths start from the job file's folder",
            SourceError::Folder => "name a file",
            SourceError::Unreadable(error) if error.kind() == ErrorKind::PermissionDenied => {
                "check its permissions"
            }
            SourceError::Unreadable(_) => "check the path",
            SourceError::TooLarge { .. } => "split it",
            SourceError::NotUtf8 { .. } => "save it as UTF-8",
            SourceError::Content { expected, .. } => expected,
        }
    }
}

/// The text of a file of at most `max` bytes, without a byte order mark.
pub(super) fn read_text(path: &Path, max: u64) -> Result<String, SourceError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => SourceError::Missing,
        _ => SourceError::Unreadable(error),
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(SourceError::Folder);
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).map_err(SourceError::Unreadable)?;
    if bytes.len() as u64 > max {
        return Err(SourceError::TooLarge { max });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        SourceError::NotUtf8 { line: 1 + valid.iter().filter(|byte| **byte == b'\n').count() }
    })?;
    // Spreadsheets put the mark in front.
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

/// The lines of a file that are not empty.
pub(super) fn read_lines(path: &Path) -> Result<Vec<String>, SourceError> {
    let text = read_text(path, limits::DATA_FILE_BYTES_MAX)?;
    let lines: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).map(|line| line.to_owned()).collect();
    if lines.is_empty() {
        return Err(SourceError::content("a file without lines", "write one value a line"));
    }
    Ok(lines)
}

/// The files that match a pattern relative to a folder, as absolute paths in order. Folders match
/// only a pattern that ends with a slash.
pub(super) fn list_files(base_dir: &Path, pattern: &str) -> Result<Vec<String>, SourceError> {
    let relative = pattern.strip_prefix("./").unwrap_or(pattern);
    let wants_folders = relative.ends_with('/');
    let base = glob::Pattern::escape(&base_dir.to_string_lossy());
    let absolute = if relative.starts_with('/') { relative.to_owned() } else { format!("{base}/{relative}") };
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
    let matches = glob::glob_with(&absolute, options).map_err(|error| {
        let expected = format!("this is not a pattern: {}", error.msg);
        SourceError::content(quoted(pattern), expected)
    })?;
    let mut files = Vec::new();
    for found in matches {
        let path = found.map_err(|error| SourceError::Unreadable(error.into()))?;
        if path.is_dir() != wants_folders {
            continue;
        }
        let Some(text) = path.to_str() else {
            let found = format!("the name {}, which is not UTF-8", quoted(&path.to_string_lossy()));
            return Err(SourceError::content(found, "rename that file"));
        };
        files.push(text.trim_end_matches('/').to_owned());
    }
    if files.is_empty() {
        let found = format!("no file that matches {}", quoted(pattern));
        let expected = "check the pattern; relative ones start from the job file's folder";
        return Err(SourceError::content(found, expected));
    }
    files.sort_unstable();
    Ok(files)
}

/// The named columns of a CSV file, or all, in the order asked for.
pub(super) fn read_table(
    path: &Path,
    wanted: Option<&[String]>,
) -> Result<Vec<(String, Vec<String>)>, SourceError> {
    let text = read_text(path, limits::DATA_FILE_BYTES_MAX)?;
    let is_tabbed = path.extension().is_some_and(|extension| extension == "tsv" || extension == "tab");
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(if is_tabbed { b'\t' } else { b',' })
        // Names may be aligned; values reach tasks byte for byte.
        .trim(csv::Trim::Headers)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().map_err(table_error)?.iter().map(str::to_owned).collect();
    let places = choose_columns(&header, wanted)?;
    let mut columns: Vec<Vec<String>> = vec![Vec::new(); places.len()];
    for record in reader.records() {
        let record = record.map_err(table_error)?;
        for (column, place) in columns.iter_mut().zip(&places) {
            column.push(record.get(*place).unwrap_or_default().to_owned());
        }
    }
    if columns.iter().any(Vec::is_empty) {
        return Err(SourceError::content("a table without rows", "write at least one below the names"));
    }
    Ok(places.into_iter().map(|place| header[place].clone()).zip(columns).collect())
}

fn choose_columns(header: &[String], wanted: Option<&[String]>) -> Result<Vec<usize>, SourceError> {
    if header.iter().all(String::is_empty) {
        return Err(SourceError::content("a table without columns", "name them in the first line"));
    }
    if let Some(repeated) = header.iter().enumerate().find(|(i, name)| header[..*i].contains(name)) {
        let found = format!("two columns of the name {}", quoted(repeated.1));
        return Err(SourceError::content(found, "name them differently"));
    }
    let Some(wanted) = wanted else { return Ok((0..header.len()).collect()) };
    let place = |name: &String| {
        header.iter().position(|known| known == name).ok_or_else(|| {
            let expected = match nearest(name, header.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the columns are {}", header.join(", ")),
            };
            SourceError::content(format!("no column {}", quoted(name)), expected)
        })
    };
    wanted.iter().map(place).collect()
}

fn table_error(error: csv::Error) -> SourceError {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            let found = format!("a row of {len} in line {line} of the file");
            SourceError::content(found, format!("the first line names {expected_len} columns"))
        }
        _ => SourceError::content(
            format!("a table that cannot be read ({error})"),
            "write comma separated values",
        ),
    }
}
