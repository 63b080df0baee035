//! The script that begins a pilot on a platform.

use profiles::site::Site;

use crate::command::{AllocationRequest, JOB_LOG};

/// The document's end in the script: nothing of a JSON document is this line.
pub(crate) const END: &str = "PILOTFISH-JOIN";

/// The script of an allocation: site's lines, then one agent on each node, begun by `launcher` where it
/// stands for itself. The join document comes by standard input, which the shell takes from the script, so
/// that it is in no argument and no file of ours.
pub(crate) fn script(
    site: &Site,
    agent: &[String],
    launcher: &[String],
    request: &AllocationRequest,
) -> Vec<u8> {
    script_after(site, agent, launcher, &[], request)
}

/// The same with lines of the batch system's own after those of the site.
pub(crate) fn script_after(
    site: &Site,
    agent: &[String],
    launcher: &[String],
    before: &[String],
    request: &AllocationRequest,
) -> Vec<u8> {
    let words: Vec<String> = launcher.iter().chain(program(site, agent)).cloned().collect();
    with_document(site, before, &begin(&words, &request.tag), request)
}

/// The same for batch systems that show scripts to everybody: the join document is in the file, which is
/// gone when the agent begins. `join_file`: a word of the shell.
pub(crate) fn script_without_secret(
    site: &Site,
    agent: &[String],
    request: &AllocationRequest,
    join_file: &str,
) -> String {
    let take = format!("exec 3<{join_file} && rm -f {join_file} || exit 1");
    lines_of(site, request, &[take, format!("{} <&3 3<&-", begin(program(site, agent), &request.tag))])
}

/// The same where the launcher gives no standard input on: the document is in a file that only its owner
/// reads, in the pilots' folder or at home, which all nodes see. It goes when the last node has read it, at the
/// signal that ends the job, and with the script; [`JOIN_FILE`] is its name for whoever looks for one that a script
/// which was killed has left. `find_launcher`: lines after which `$launcher` is the launcher.
pub(crate) fn script_by_file(
    site: &Site,
    agent: &[String],
    find_launcher: &str,
    request: &AllocationRequest,
) -> Vec<u8> {
    let tag = &request.tag;
    let folder = site.folder.as_deref().map_or("\"$HOME\"".to_owned(), quoted);
    let before = [
        find_launcher.to_owned(),
        format!("join={folder}/{JOIN_FILE}{}", quoted(tag)),
        "remove() { rm -f \"$join\" \"$join\".*; }".to_owned(),
        "trap remove EXIT".to_owned(),
        // Agents get the signal, too, and have a while to bring their results home: the script outlives them.
        "trap 'remove; code=143' TERM".to_owned(),
    ];
    // The launcher gives the nodes nothing of this shell: the site's lines are for them.
    let here = Site { setup: Vec::new(), ..site.clone() };
    let mut script = with_document(&here, &before, "(umask 077; cat > \"$join\")", request);
    let take = format!(
        "exec 3< \"$1\" || exit 1\n(umask 077; : > \"$1.$(hostname).$$\")\nset -- \"$1\" \"$1\".*\n\
         [ $# -le {} ] || rm -f \"$@\"",
        request.n_nodes
    );
    let there = lines_of(site, request, &[take, format!("{} <&3 3<&-", begin(program(site, agent), tag))]);
    script.extend_from_slice(format!("$launcher /bin/sh -c {} sh \"$join\" &\n", quoted(&there)).as_bytes());
    // A shell hears a signal at once only while it waits, and goes on waiting then.
    script.extend_from_slice(b"pid=$! code=\nwait $pid\nended=$?\n");
    script.extend_from_slice(b"while [ -n \"$code\" ] && kill -0 $pid 2>/dev/null; do\n");
    script.extend_from_slice(b"wait $pid || [ $? -ne 127 ] || break\ndone\nexit ${code:-$ended}\n");
    script
}

/// The same on several nodes: `everywhere`, lines that begin this script again on each of them, there with the
/// step's id, by a launcher that gives no standard input on. They take the document away at their end.
pub(crate) fn script_on_each(
    site: &Site,
    agent: &[String],
    everywhere: &str,
    request: &AllocationRequest,
    join_file: &str,
) -> String {
    let agent = begin(program(site, agent), &request.tag);
    let on_a_node = format!("export LOADL_STEP_ID=\"$1\"\n{agent} < {}", quoted(join_file));
    let rest = lines_of(site, request, &[on_a_node]);
    let (first, rest) = rest.split_once('\n').unwrap_or((&rest, ""));
    format!("{first}\nif [ $# -eq 0 ]; then\n{everywhere}\nfi\n{rest}")
}

/// The beginning of the name of a join document's file; the tag follows.
pub const JOIN_FILE: &str = ".join-";

/// How the agent is run on the platform.
fn program<'a>(site: &'a Site, agent: &'a [String]) -> &'a [String] {
    site.agent.as_ref().map_or(agent, std::slice::from_ref)
}

fn begin(words: &[String], tag: &str) -> String {
    let words = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    format!("exec {words} run --tag {} --join -", quoted(tag))
}

/// The site's lines, some of ours, and one that reads the document.
fn with_document(site: &Site, before: &[String], reader: &str, request: &AllocationRequest) -> Vec<u8> {
    let lines: Vec<String> = before.iter().cloned().chain([format!("{reader} <<'{END}'")]).collect();
    let mut script = lines_of(site, request, &lines).into_bytes();
    script.extend_from_slice(&request.join);
    script.extend_from_slice(format!("\n{END}\n").as_bytes());
    script
}

fn lines_of(site: &Site, request: &AllocationRequest, lines: &[String]) -> String {
    let first = ["#!/bin/sh".to_owned(), keep_what_is_written(&request.folder)];
    let all = first.into_iter().chain(site.setup.iter().chain(lines).cloned());
    all.map(|line| line + "\n").collect()
}

/// From now on what is written is kept in the pilot's folder, for whoever asks why no pilot came. Where that
/// cannot be the job goes on without.
fn keep_what_is_written(folder: &str) -> String {
    let (folder, log) = (quoted(folder), quoted(&format!("{folder}/{JOB_LOG}")));
    format!("(umask 077; mkdir -p {folder} && : >> {log}) && exec >> {log} 2>&1")
}

/// A word for `/bin/sh`.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
