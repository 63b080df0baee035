//! A job's files as far as its author's machine knows them: where they go if nothing is said, and whether
//! those that are to come from here are there.

use std::path::Path;

use crate::job::author::form::{InputForm, OutputForm};
use crate::job::author::pattern::is_unfinished;
use crate::job::files::pattern::{fixed_folder, is_pattern};
use crate::job::{Input, JobSpec, LocalFile, Objects, Output, limits};
use crate::problem::{Problem, quoted};

/// Problems told of files that are not there: who has a wrong folder wants no thousand lines.
const N_MISSING_TOLD: usize = 5;
const NO_FILE: &str = "no such file";

/// The job with its files.
pub(super) fn with_files(
    mut spec: JobSpec,
    inputs: Vec<InputForm>,
    outputs: Vec<OutputForm>,
    problems: &mut Vec<Problem>,
) -> JobSpec {
    let names: Vec<String> = spec.sweep.names().map(str::to_owned).collect();
    for (n, form) in inputs.into_iter().enumerate() {
        let InputForm { from, to, sha256, shared, writable, optional, after, lines } = form;
        // A folder is meant with it and without.
        let from = if from.contains("://") { from } else { without_slash(from) };
        let to = to.map(without_slash);
        let target = to.or_else(|| match after.is_empty() {
            true => default_target(&from, shared, &names),
            false => default_target_of_taken(&from, &names),
        });
        let to = match target {
            Some(to) => to,
            None => {
                let expected = "its name in the task's folder does not follow from that: set `to`";
                problems.push(Problem::new(format!("inputs[{n}]"), quoted(&from), expected));
                continue;
            }
        };
        let objects = Objects::default();
        spec.inputs.push(Input {
            from,
            to,
            sha256,
            shared,
            writable,
            optional,
            after,
            lines,
            objects,
            files: Vec::new(),
        });
    }
    for OutputForm { from, to, optional, lines } in outputs {
        let to = to.unwrap_or_else(|| match fixed_folder(&from) {
            _ if !is_pattern(&from) => from.clone(),
            "" => ".".to_owned(),
            folder => folder.to_owned(),
        });
        spec.outputs.push(Output { from, to, optional, lines });
    }
    spec
}

/// Finds out which inputs are folders, and what is in them.
pub(super) fn fill_folders(spec: &mut JobSpec, problems: &mut Vec<Problem>) {
    let mut plain = spec.with_files_only();
    for (n, input) in plain.inputs.iter_mut().enumerate().filter(|(_, input)| !input.lines) {
        // Of a folder it may be the task's own, which no file may be.
        input.to = format!("input{n}");
    }
    let Ok(compiled) = plain.compile() else { return };
    let mut lists: Vec<Vec<Option<String>>> = vec![Vec::new(); spec.inputs.len()];
    let mut n_left = limits::N_OBJECTS_MAX;
    for LocalFile { input, path } in compiled.local_files() {
        if spec.inputs[input].lines || !path.is_dir() {
            lists[input].push(None);
            continue;
        }
        match list_folder(&path, &mut n_left) {
            Ok(names) => lists[input].push(Some(names)),
            Err((found, expected)) => {
                problems.push(Problem::new(format!("inputs[{input}]"), found, expected));
                return;
            }
        }
    }
    for (n, (input, lists)) in spec.inputs.iter_mut().zip(lists).enumerate() {
        let n_folders = lists.iter().flatten().count();
        if n_folders > 0 && n_folders < lists.len() {
            let expected = "all values of a parameter here are folders, or none is";
            let found = format!("{n_folders} folders among {} files", lists.len() - n_folders);
            problems.push(Problem::new(format!("inputs[{n}].from"), found, expected));
        }
        input.files = lists.into_iter().flatten().collect();
    }
}

/// Without the slash that a folder may end with.
fn without_slash(path: String) -> String {
    match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed.to_owned(),
    }
}

/// The files in a folder and below it, by their names there, a line each, in order. Links to files in the folder are
/// files; others would bring what nobody has named. Folders of Pilotfish itself are left out, and files that it has not
/// finished.
fn list_folder(folder: &Path, n_left: &mut u64) -> Result<String, (String, String)> {
    let failed = |path: &Path, error: std::io::Error| {
        let found = format!("{}: {error}", quoted(&path.to_string_lossy()));
        (found, "make the folder and all in it readable".to_owned())
    };
    let root = folder.canonicalize().map_err(|error| failed(folder, error))?;
    let (mut names, mut waiting) = (Vec::new(), vec![root.clone()]);
    while let Some(within) = waiting.pop() {
        for entry in std::fs::read_dir(&within).map_err(|error| failed(&within, error))? {
            let path = entry.map_err(|error| failed(&within, error))?.path();
            let kind = path.symlink_metadata().map_err(|error| failed(&path, error))?.file_type();
            if kind.is_dir() {
                if !is_of_pilotfish(&path) {
                    waiting.push(path);
                }
                continue;
            }
            if is_unfinished(&path) {
                continue;
            }
            let is_link_within = kind.is_symlink()
                && path.canonicalize().is_ok_and(|target| target.starts_with(&root) && target.is_file());
            let name = path.strip_prefix(&root).ok().and_then(|name| name.to_str());
            let shown = quoted(&path.to_string_lossy());
            let Some(name) = name.filter(|name| !name.contains('\n')) else {
                return Err((
                    format!("{shown} in a folder"),
                    "rename it: names are lines of UTF-8".to_owned(),
                ));
            };
            if !kind.is_file() && !is_link_within {
                let expected = "a folder is brought with its files, and links to these; take it out";
                return Err((format!("{shown}, which is no file of the folder"), expected.to_owned()));
            }
            if *n_left == 0 {
                let expected =
                    format!("at most {} are brought; pack them, or share them", limits::N_OBJECTS_MAX);
                return Err(("more files in folders".to_owned(), expected));
            }
            *n_left -= 1;
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        let found = format!("{}, a folder without any file", quoted(&folder.to_string_lossy()));
        return Err((found, "empty folders are not made: put a file into it, or take it out".to_owned()));
    }
    names.sort_unstable();
    Ok(names.join("\n"))
}

/// Whether a folder is a manager's: what it holds are secrets, and changes while it is read.
fn is_of_pilotfish(folder: &Path) -> bool {
    let holds = |name: &str| folder.join(name).is_file();
    folder.ends_with(".pilotfish") || (holds("secret") && holds("store.sqlite"))
}

/// The name in the task's folder: that from the job's folder, or the file's own name.
fn default_target(from: &str, is_shared: bool, names: &[String]) -> Option<String> {
    let is_parameter = |text: &str| parameter(text, names);
    if let Some(name) = is_parameter(from) {
        // Its values may be absolute, as those of `files` are.
        return Some(format!("{{{name}.name}}"));
    }
    let is_elsewhere = is_shared || from.starts_with('/') || from.contains("://");
    if !is_elsewhere {
        return Some(from.to_owned());
    }
    let last = from.rsplit('/').next().filter(|last| !last.is_empty() && !last.contains(['?', '#']))?;
    match is_parameter(last) {
        Some(name) => Some(format!("{{{name}.name}}")),
        None => Some(last.to_owned()),
    }
}

/// Of what other tasks leave: the same name, or of a pattern the folder before anything in it may differ.
fn default_target_of_taken(from: &str, names: &[String]) -> Option<String> {
    if let Some(name) = parameter(from, names) {
        return Some(format!("{{{name}.name}}"));
    }
    if !is_pattern(from) {
        return Some(from.to_owned());
    }
    match fixed_folder(from) {
        "" => Some(".".to_owned()),
        folder => Some(folder.to_owned()),
    }
}

/// The name in `{name}`, of a parameter.
fn parameter(text: &str, names: &[String]) -> Option<String> {
    let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    name.filter(|name| names.iter().any(|known| known == name)).map(str::to_owned)
}

/// Files of the author's that are not there, are no files, or may not be read.
pub(super) fn missing(spec: &JobSpec) -> Vec<Problem> {
    let Ok(compiled) = spec.compile() else { return Vec::new() };
    let mut problems = Vec::new();
    for LocalFile { input, path } in compiled.local_files() {
        let Some((found, mut expected)) = trouble(&path) else { continue };
        if found == NO_FILE && spec.inputs.get(input).is_some_and(|input| is_pattern(&input.from)) {
            expected = "patterns are for `outputs` and for files of stages (stage:NAME/PATTERN); name the folder, \
                        which is brought whole, or make a parameter of the files: sweep: {file: {files: \"in/*\"}}";
        }
        let found = format!("{}: {found}", quoted(&path.to_string_lossy()));
        problems.push(Problem::new(format!("inputs[{input}]"), found, expected));
        if problems.len() == N_MISSING_TOLD {
            break;
        }
    }
    problems
}

fn trouble(path: &Path) -> Option<(String, &'static str)> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some((NO_FILE.to_owned(), "check the path; it starts from the job file's folder"))
        }
        Err(error) => Some((error.to_string(), "make the file readable")),
        Ok(facts) if facts.is_dir() => Some(("a folder".to_owned(), "in files of tasks name its files")),
        Ok(facts) if !facts.is_file() => Some(("no plain file".to_owned(), "name a plain file")),
        Ok(facts) if facts.len() > limits::OBJECT_BYTES_MAX => {
            Some((format!("{} bytes", facts.len()), "at most 1 TiB is taken; leave it where nodes see it"))
        }
        Ok(_) => None,
    }
}
