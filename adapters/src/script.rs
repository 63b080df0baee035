//! The script that begins a pilot on a platform.

use profiles::site::Site;

/// The document's end in the script: nothing of a JSON document is this line.
const END: &str = "PILOTFISH-JOIN";

/// The script of an allocation: site's lines, then one agent on each node, begun by `launcher` where it
/// stands for itself. The join document comes by standard input, which the shell takes from the script, so
/// that it is in no argument and no file of ours.
pub(crate) fn script(site: &Site, agent: &[String], launcher: &[String], tag: &str, join: &[u8]) -> Vec<u8> {
    let lines = [format!("{} <<'{END}'", begin(site, agent, launcher, tag))];
    let mut script = lines_of(site, &lines).into_bytes();
    script.extend_from_slice(join);
    script.extend_from_slice(format!("\n{END}\n").as_bytes());
    script
}

/// The same for batch systems that show scripts to everybody: the join document is in the file, which is
/// gone when the agent begins.
pub(crate) fn script_without_secret(site: &Site, agent: &[String], tag: &str, join_file: &str) -> String {
    let file = quoted(join_file);
    let take = format!("exec 3<{file} && rm -f {file} || exit 1");
    lines_of(site, &[take, format!("{} <&3 3<&-", begin(site, agent, &[], tag))])
}

fn begin(site: &Site, agent: &[String], launcher: &[String], tag: &str) -> String {
    let agent = match &site.agent {
        Some(program) => vec![program.clone()],
        None => agent.to_vec(),
    };
    let words = launcher.iter().chain(&agent).map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!("exec {words} run --tag {} --join -", quoted(tag))
}

fn lines_of(site: &Site, lines: &[String]) -> String {
    let all = ["#!/bin/sh".to_owned()].into_iter().chain(site.setup.iter().chain(lines).cloned());
    all.map(|line| line + "\n").collect()
}

/// A word for `/bin/sh`.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
