//! Deserializers of text fields that end up in command lines and scripts.

use serde::{Deserialize, Deserializer, de::Error};

/// Reads the name of a queue or an account for a command line.
pub(crate) fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:+,".contains(c);
    match !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        true => Ok(Some(word)),
        false => Err(D::Error::custom(format!(
            "found `{}`; write letters, digits and `-_.@:+,`, not beginning with `-`",
            word.escape_debug()
        ))),
    }
}

pub(crate) fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let lines = Vec::<String>::deserialize(deserializer)?;
    match lines.iter().find(|line| line.chars().any(|c| c.is_control() && c != '\t')) {
        Some(line) => Err(D::Error::custom(format!(
            "found `{}`; write each line of shell as an entry of its own",
            line.escape_debug()
        ))),
        None => Ok(lines),
    }
}

pub(crate) fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let path = String::deserialize(deserializer)?;
    match path.starts_with('/') && !path.chars().any(char::is_control) {
        true => Ok(Some(path)),
        false => Err(D::Error::custom(format!("found `{}`; write an absolute path", path.escape_debug()))),
    }
}
