//! A file that a task has left, as pilots report it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::Digest;

/// A file that a task left, delivered; or one that was left out, and why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputFile {
    /// Where it goes: below the submitter's folder, or an address.
    pub to: String,
    /// What it holds.
    pub sha256: Digest,
    /// How much that is.
    pub bytes: u64,
    /// Its owner may execute it.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub executable: bool,
    /// Why it was not delivered. Its contents are not known then.
    #[cfg_attr(feature = "schema", schemars(default))]
    pub left_out: Option<String>,
}

/// The form with names of fields. Readers of former versions know the first three.
#[derive(Serialize, Deserialize)]
#[serde(rename = "OutputFile")]
struct Named {
    to: String,
    sha256: Digest,
    bytes: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

/// The form without names, whose fields can be neither added nor left out since it stands in the middle of a message.
/// The two highest bits of the size, which no file needs, are [`EXECUTABLE`] and [`LEFT_OUT`]; the reason for the latter
/// is behind a line break in `to`, which no name has.
#[derive(Serialize, Deserialize)]
#[serde(rename = "OutputFile")]
struct Unnamed {
    to: String,
    sha256: Digest,
    bytes: u64,
}

const EXECUTABLE: u64 = 1 << 63;
const LEFT_OUT: u64 = 1 << 62;

impl OutputFile {
    /// Where it goes and its size, with all else that is known of it but what it holds: see [`OutputFile::from_packed`].
    pub fn packed(&self) -> (Cow<'_, str>, u64) {
        let bytes = self.bytes & !(EXECUTABLE | LEFT_OUT);
        let bytes = if self.executable { bytes | EXECUTABLE } else { bytes };
        match &self.left_out {
            None => (Cow::Borrowed(&self.to), bytes),
            Some(why) => (Cow::Owned(format!("{}\n{why}", self.to)), bytes | LEFT_OUT),
        }
    }

    /// The file of which [`OutputFile::packed`] says this.
    pub fn from_packed(to: String, sha256: Digest, bytes: u64) -> OutputFile {
        let (to, left_out) = match to.split_once('\n') {
            Some((to, why)) if bytes & LEFT_OUT != 0 => (to.to_owned(), Some(why.to_owned())),
            _ => (to, None),
        };
        let executable = bytes & EXECUTABLE != 0;
        OutputFile { to, sha256, bytes: bytes & !(EXECUTABLE | LEFT_OUT), executable, left_out }
    }
}

impl Serialize for OutputFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let OutputFile { to, sha256, bytes, executable, left_out } = self.clone();
            return Named { to, sha256, bytes, executable, left_out }.serialize(serializer);
        }
        let (to, bytes) = self.packed();
        Unnamed { to: to.into_owned(), sha256: self.sha256, bytes }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OutputFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OutputFile, D::Error> {
        if deserializer.is_human_readable() {
            let Named { to, sha256, bytes, executable, left_out } = Named::deserialize(deserializer)?;
            return Ok(OutputFile { to, sha256, bytes, executable, left_out });
        }
        let Unnamed { to, sha256, bytes } = Unnamed::deserialize(deserializer)?;
        Ok(OutputFile::from_packed(to, sha256, bytes))
    }
}
