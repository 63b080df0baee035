//! The ids of revoked tokens, in a file beside the store: a store that is put back from a backup does not know which
//! tokens were revoked since, and would let their users in again.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use scheduler::engine::interface::users::TokenId;

/// The file's name in the manager's folder: one id a line.
pub(crate) const FILE: &str = "revoked";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Revoked {
    path: Option<PathBuf>,
    ids: BTreeSet<TokenId>,
}

impl Revoked {
    /// Those of a manager's folder.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub(super) fn open(folder: &Path) -> io::Result<Revoked> {
        let path = folder.join(FILE);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut ids = BTreeSet::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match line.trim().parse() {
                Ok(id) => _ = ids.insert(id),
                // The power failed while it was written: the store has it.
                Err(error) => tracing::warn!(path = %path.display(), line, %error, "found no id of a token"),
            }
        }
        Ok(Revoked { path: Some(path), ids })
    }

    /// Whether this token was revoked.
    pub(super) fn has(&self, id: TokenId) -> bool {
        self.ids.contains(&id)
    }

    /// Adds tokens. They are durable when this returns.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, ids: &[TokenId]) -> io::Result<()> {
        let new: Vec<TokenId> = ids.iter().copied().filter(|id| !self.ids.contains(id)).collect();
        let Some(path) = self.path.as_ref().filter(|_| !new.is_empty()) else { return Ok(()) };
        // A line that was cut off must not run into the next one.
        let lines: String = new.iter().map(|id| format!("\n{id}\n")).collect();
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.write_all(lines.as_bytes())?;
        file.sync_all()?;
        path.parent().map_or(Ok(()), |folder| fs::File::open(folder)?.sync_all())?;
        self.ids.extend(new);
        Ok(())
    }
}
