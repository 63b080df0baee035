//! The files that a job file names: read, listed, cut into lines and columns.

pub(crate) mod table;

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::job::limits;
use crate::problem::quoted;
use crate::text::units::show_bytes;

/// Why a file cannot be used.
#[derive(Debug)]
pub(super) enum SourceError {
    Missing,
    Folder,
    Unreadable(std::io::Error),
    UnreadableFolder {
        folder: PathBuf,
        error: std::io::Error,
    },
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
    pub(super) fn content(found: impl Into<String>, expected: impl Into<String>) -> SourceError {
        SourceError::Content { found: found.into(), expected: expected.into() }
    }

    pub(super) fn found(&self) -> String {
        match self {
            SourceError::Missing => "no such file".to_owned(),
            SourceError::Folder => "a folder".to_owned(),
            SourceError::Unreadable(error) => format!("a file that cannot be read ({})", words(error)),
            SourceError::UnreadableFolder { folder, error } => {
                let folder = quoted(&folder.to_string_lossy());
                format!("the folder {folder}, which cannot be read ({})", words(error))
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
            SourceError::Unreadable(error) | SourceError::UnreadableFolder { error, .. }
                if error.kind() == ErrorKind::PermissionDenied =>
            {
                "check its permissions"
            }
            SourceError::Unreadable(_) | SourceError::UnreadableFolder { .. } => "check the path",
            SourceError::TooLarge { .. } => "split it",
            SourceError::NotUtf8 { .. } => "save it as UTF-8",
            SourceError::Content { expected, .. } => expected,
        }
    }
}

pub(super) fn words(error: &std::io::Error) -> String {
    let words = error.to_string();
    words.split(" (os error ").next().unwrap_or_default().to_lowercase()
}

/// The text of a file of at most `max` bytes, without a byte order mark. A pipe is none: opened, it would wait for a
/// writer who may never come. Streams that are open already have a name of the system.
pub(super) fn read_text(path: &Path, max: u64) -> Result<String, SourceError> {
    let is_plain = |facts: Metadata| facts.is_file() || facts.is_dir();
    if !is_of_system(path) && std::fs::metadata(path).is_ok_and(|facts| !is_plain(facts)) {
        return Err(SourceError::content("no plain file", "name a plain file"));
    }
    read_stream(path, max)
}

/// Whether the system gives a name to what need not be a file: `/dev/stdin`.
pub(super) fn is_of_system(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

/// The text of a file, a pipe or a device of at most `max` bytes, without a byte order mark.
pub(super) fn read_stream(path: &Path, max: u64) -> Result<String, SourceError> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => SourceError::Missing,
        _ => SourceError::Unreadable(error),
    })?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(SourceError::Folder);
    }
    text_of(&mut &file, max)
}

/// The text of whatever can be read, of at most `max` bytes, without a byte order mark.
pub(super) fn text_of(from: &mut dyn Read, max: u64) -> Result<String, SourceError> {
    let mut bytes = Vec::new();
    from.take(max + 1).read_to_end(&mut bytes).map_err(SourceError::Unreadable)?;
    if bytes.len() as u64 > max {
        return Err(SourceError::TooLarge { max });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let is_end =
            |at: &usize| valid[*at] == b'\n' || valid[*at] == b'\r' && valid.get(at + 1) != Some(&b'\n');
        SourceError::NotUtf8 { line: 1 + (0..valid.len()).filter(is_end).count() }
    })?;
    // Spreadsheets put the mark in front.
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

/// The lines of a file that are not empty, whichever line ends it has.
pub(super) fn read_lines(path: &Path) -> Result<Vec<String>, SourceError> {
    let text = read_text(path, limits::DATA_FILE_BYTES_MAX)?;
    let lines: Vec<String> =
        text.split(['\n', '\r']).filter(|line| !line.trim().is_empty()).map(|line| line.to_owned()).collect();
    if lines.is_empty() {
        return Err(SourceError::content("a file without lines", "write one value a line"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::{is_of_system, read_lines, read_text};

    #[test]
    fn pipe_or_socket_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket] {
            let said = |error: super::SourceError| format!("{}; {}", error.found(), error.expected());
            let expected = "no plain file; name a plain file";
            assert_eq!(read_text(path, 10).map_err(said), Err(expected.to_owned()));
            assert_eq!(read_lines(path).map_err(said), Err(expected.to_owned()));
        }
        assert!(read_text(folder.path(), 10).is_err_and(|error| error.found() == "a folder"));
        assert_eq!(read_text(Path::new("/dev/null"), 10).unwrap(), "");
        assert!(is_of_system(Path::new("/dev/stdin")));
    }
}
