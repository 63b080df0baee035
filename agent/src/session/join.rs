//! Reads the join document: from a file or standard input, never from arguments, which other users can see.

use std::{
    fs, io,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use protocol::pilot::JoinDocument;
use serde_json::Value;

use crate::session::client::{ClientError, address_pin};

/// Longest join document.
const BYTES_MAX: u64 = 1 << 20;

/// The reason why there is no valid join document.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The file cannot be read.
    #[error("the join document {path:?} cannot be read: {source}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users can read the token in it.
    #[error(
        "the join document {path:?} has mode {mode:03o}, so others may read its token: use chmod 600 {path:?}"
    )]
    Open {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A field has an invalid value.
    #[error("the join document {path:?}: {field}: found {found}; expected {expected}")]
    Field {
        /// Its path.
        path: PathBuf,
        /// The field.
        field: String,
        /// The value that was found; for a token only the fact that it is wrong.
        found: String,
        /// A description of valid values.
        expected: String,
    },
    /// The file is not a join document.
    #[error("the join document {path:?} is not what `serve` writes: {what}")]
    Format {
        /// Its path.
        path: PathBuf,
        /// The fault, without any value of the file.
        what: String,
    },
}

/// Reads the join document at `path`; `-` is standard input.
///
/// # Errors
/// The file cannot be read, other users can read it, or it is not a join document. Messages never show its
/// contents.
pub fn read(path: &Path) -> Result<JoinDocument, JoinError> {
    let on_read = |source| JoinError::Read { path: path.into(), source };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(BYTES_MAX).read_to_end(&mut bytes).map_err(on_read)?;
    } else {
        let file = fs::File::open(path).map_err(on_read)?;
        let mode = file.metadata().map_err(on_read)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(JoinError::Open { path: path.into(), mode });
        }
        file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(on_read)?;
    }
    let mut join: JoinDocument =
        serde_json::from_slice(&bytes).map_err(|error| wrong(path, &bytes, &error))?;
    check(path, &join)?;
    if join.folder.is_empty() {
        join.folder = default_folder(&join.tag);
    }
    Ok(join)
}

/// Returns the error of an invalid join document: the first invalid field, if it has fields.
fn wrong(path: &Path, bytes: &[u8], error: &serde_json::Error) -> JoinError {
    let format = || JoinError::Format { path: path.into(), what: discreet(error) };
    let Ok(Value::Object(document)) = serde_json::from_slice(bytes) else { return format() };
    let Ok(Value::Object(sound)) = serde_json::to_value(JoinDocument::default()) else { return format() };
    for (field, value) in document.into_iter().filter(|(field, _)| sound.contains_key(field)) {
        let mut other = sound.clone();
        let found = shape(&value);
        other.insert(field.clone(), value);
        if let Err(error) = serde_json::from_value::<JoinDocument>(Value::Object(other)) {
            let text = discreet(&error);
            let expected = match text.split_once("expected ") {
                Some((_, expected)) => expected.to_string(),
                None => text,
            };
            return JoinError::Field { path: path.into(), field, found: found.into(), expected };
        }
    }
    format()
}

/// Returns a value's kind. The value itself may be a secret in the wrong field.
fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Checks the values.
fn check(path: &Path, join: &JoinDocument) -> Result<(), JoinError> {
    let bad = |field: &str, found: &str, expected: &str| JoinError::Field {
        path: path.into(),
        field: field.into(),
        found: found.into(),
        expected: expected.into(),
    };
    if let Err(ClientError::BadJoin { field, found, expected }) =
        address_pin(&join.url, join.certificate_sha256.as_deref())
    {
        return Err(bad(field, &format!("{found:?}"), expected));
    }
    if join.token.is_empty() {
        return Err(bad("token", "nothing", "the allocation's join token"));
    }
    if join.tag.is_empty() {
        return Err(bad("tag", "nothing", "the allocation's tag"));
    }
    if join.capacity.as_ref().is_some_and(|capacity| capacity.cores == 0) {
        return Err(bad("capacity.cores", "0", "1 or more"));
    }
    if join.walltime.is_some_and(|walltime| walltime.0 == 0) {
        return Err(bad("walltime", "0", "microseconds, 1 or more"));
    }
    Ok(())
}

/// Returns an error's text without quoted values: one of them may be the token.
fn discreet(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split('"').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "\"…\"" }).collect()
}

/// Returns the default folder of a pilot's files.
fn default_folder(tag: &str) -> String {
    let base = ["SLURM_TMPDIR", "TMPDIR"].into_iter().find_map(|name| std::env::var(name).ok());
    // SAFETY: no memory is passed.
    let user = unsafe { libc::getuid() };
    format!("{}/pilotfish-{user}/{tag}", base.unwrap_or_else(|| "/tmp".into()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::{JoinError, read};

    #[test]
    fn join_document_is_read_and_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("join");
        assert!(matches!(read(&path), Err(JoinError::Read { .. })));
        let text = r#"{"url":"http://127.0.0.1:1","certificate_sha256":null,"token":"secret","tag":"pf1",
            "folder":"","capacity":null,"walltime":null,"watch_pid":null}"#;
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("mode 644") && error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let join = read(&path).unwrap();
        assert!(join.folder.ends_with("/pf1") && join.token == "secret", "{join:?}");
        fs::write(&path, "\"secret\"").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("invalid type") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn wrong_field_is_named_with_what_was_found_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("join");
        let error = |field: &str, value: &str| {
            let mut document = serde_json::json!({
                "url": "http://127.0.0.1:1", "certificate_sha256": null, "token": "secret", "tag": "pf1",
                "folder": "/f", "capacity": null, "walltime": null, "watch_pid": null,
            });
            document[field] = serde_json::from_str(value).unwrap();
            fs::write(&path, document.to_string()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = read(&path).unwrap_err().to_string();
            let (begin, rest) = error.split_once("\": ").unwrap();
            assert!(begin.starts_with("the join document"), "{error}");
            rest.to_string()
        };
        assert_eq!(error("url", "7"), "url: found a number; expected a string");
        assert_eq!(error("token", "[\"secret\"]"), "token: found a list; expected a string");
        assert_eq!(error("watch_pid", "-1"), "watch_pid: found a number; expected u32");
        let url = "url: found \"ftp://h\"; expected http://HOST:PORT or https://HOST:PORT";
        assert_eq!(error("url", "\"ftp://h\""), url);
        assert_eq!(error("tag", "\"\""), "tag: found nothing; expected the allocation's tag");
        assert_eq!(error("walltime", "0"), "walltime: found 0; expected microseconds, 1 or more");
    }
}
