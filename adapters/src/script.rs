//! The script that begins a pilot on a platform.

use profiles::site::Site;

/// The document's end in the script: nothing of a JSON document is this line.
const END: &str = "PILOTFISH-JOIN";

/// The script of an allocation: site's lines, then one agent on each node, begun by `launcher` where it
/// stands for itself. The join document comes by standard input, which the shell takes from the script, so
/// that it is in no argument and no file of ours.
pub(crate) fn script(site: &Site, agent: &[String], launcher: &[String], tag: &str, join: &[u8]) -> Vec<u8> {
    let mut lines = vec!["#!/bin/sh".to_owned()];
    lines.extend(site.setup.iter().cloned());
    let agent = match &site.agent {
        Some(program) => vec![program.clone()],
        None => agent.to_vec(),
    };
    let words = launcher.iter().chain(&agent).map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    lines.push(format!("exec {words} run --tag {} --join - <<'{END}'", quoted(tag)));
    let mut script = lines.join("\n").into_bytes();
    script.push(b'\n');
    script.extend_from_slice(join);
    script.extend_from_slice(format!("\n{END}\n").as_bytes());
    script
}

/// A word for `/bin/sh`.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
