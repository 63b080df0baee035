//! What an operator says of an account on a platform: which queue, who pays, what a node needs first.

use serde::{Deserialize, Deserializer, de::Error};

/// How pilots of an account are asked for. Every field may be absent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// The partition, queue or class; `None`: the platform's default.
    pub queue: Option<String>,
    /// Who pays.
    pub account: Option<String>,
    /// More options of the submission, each a word of its own, like `--constraint=avx512`.
    pub options: Vec<String>,
    /// Lines of shell that stand before the agent in the script: modules to load, folders to make.
    pub setup: Vec<String>,
    /// Where the agent is on the platform's nodes; `None`: as on this host.
    pub agent: Option<String>,
    /// Where pilots keep their files, seen by all nodes; `None`: in the manager's folder.
    pub folder: Option<String>,
}

/// The name of a queue or an account, as it goes into a command line.
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

pub(crate) fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    for word in &words {
        if !word.starts_with('-') || word.chars().any(char::is_control) {
            return Err(D::Error::custom(format!(
                "found `{}`; write options, each as one word, like `--constraint=avx512`",
                word.escape_debug()
            )));
        }
    }
    Ok(words)
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
        false => Err(D::Error::custom(format!("found `{}`; write a path from `/` on", path.escape_debug()))),
    }
}
