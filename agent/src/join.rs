//! Reading the join document: from a file or standard input, never from arguments, which others see.

use std::{
    fs, io,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use protocol::pilot::JoinDocument;

/// No join document is longer.
const BYTES_MAX: u64 = 1 << 20;

/// Why there is no join document.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// It cannot be read.
    #[error("the join document {path:?} cannot be read: {source}")]
    Read {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Others can read the token in it.
    #[error(
        "the join document {path:?} has mode {mode:03o}, so others may read its token: use chmod 600 {path:?}"
    )]
    Open {
        /// Where it is.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It is something else.
    #[error("the join document {path:?} is not what `serve` writes: {what}")]
    Format {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it, without any of its values.
        what: String,
    },
}

/// Reads the join document at `path`; `-` is standard input.
///
/// # Errors
/// It is not there, open to others, or something else. The message never shows its contents.
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
    let mut join: JoinDocument = serde_json::from_slice(&bytes)
        .map_err(|error| JoinError::Format { path: path.into(), what: discreet(&error) })?;
    if join.folder.is_empty() {
        join.folder = default_folder(&join.tag);
    }
    Ok(join)
}

/// An error's words without the values that they quote: one of them may be the token.
fn discreet(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split('"').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "\"…\"" }).collect()
}

/// Where a pilot keeps its files if nobody says.
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
}
