//! Reads recordings of real systems, in `transcripts/`, for the adapters' tests.

use std::path::Path;

use crate::command::Output;

/// A command of a recording and how it ended.
#[derive(Debug)]
pub struct Step {
    /// The command line as typed.
    pub command: String,
    /// Its output; the code is `None` where the recording was cut.
    pub output: Output,
}

/// All steps of a recording.
pub fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.trim().to_owned(), output: Output::default() });
        }
        let Some(Step { output, .. }) = steps.last_mut() else { continue };
        let said = |mark: &str| line.strip_prefix(mark).map(|rest| rest.strip_prefix(' ').unwrap_or(rest));
        if let Some(line) = said("out|") {
            output.stdout.push_str(&format!("{line}\n"));
        } else if let Some(line) = said("err|") {
            output.stderr.push_str(&format!("{line}\n"));
        } else if let Some(rest) = line.strip_prefix("exit: ") {
            output.code = rest.split_whitespace().next().and_then(|code| code.parse().ok());
        }
    }
    steps
}

/// The recordings of a system: names of files, and what they tell.
pub fn files_of(system: &str) -> Vec<(String, Vec<Step>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(system);
    let files = folder.read_dir().expect("recordings").map(|entry| entry.expect("a recording"));
    let read = |path| steps(&std::fs::read_to_string(path).expect("a recording"));
    files.map(|file| (file.file_name().to_string_lossy().into_owned(), read(file.path()))).collect()
}

/// The steps of all recordings of a system.
pub fn all_of(system: &str) -> Vec<Step> {
    files_of(system).into_iter().flat_map(|(_, steps)| steps).collect()
}

/// The steps of a recording whose commands begin so.
pub fn of<'s>(steps: &'s [Step], beginning: &str) -> Vec<&'s Step> {
    steps.iter().filter(|step| step.command.starts_with(beginning)).collect()
}
