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

/// All steps of a recording, of whichever of the two forms it is.
pub fn steps(text: &str) -> Vec<Step> {
    if text.lines().any(|line| line == "[stdout]") {
        return sections(text);
    }
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

/// Steps whose outputs stand below `[stdout]` and `[stderr]`, up to `[exit N]`; a command after `#` is root's.
fn sections(text: &str) -> Vec<Step> {
    let (mut steps, mut step, mut into) = (Vec::new(), None::<Step>, "");
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches('\n');
        if let Some(code) = bare.strip_prefix("[exit ") {
            steps.extend(step.take().map(|mut step| {
                step.output.code = code.trim_end_matches(']').parse().ok();
                step
            }));
            into = "";
        } else if matches!(bare, "[stdin]" | "[stdout]" | "[stderr]") {
            into = bare;
        } else if let (Some(step), false) = (&mut step, into.is_empty()) {
            match into {
                "[stdout]" => step.output.stdout.push_str(line),
                "[stderr]" => step.output.stderr.push_str(line),
                _ => {}
            }
        } else if let Some(command) = bare.strip_prefix("$ ").or(bare.strip_prefix("# ")) {
            step = Some(Step { command: command.to_owned(), output: Output::default() });
        }
    }
    steps
}

/// The recordings of a system: names of files, and what they tell.
pub fn files_of(system: &str) -> Vec<(String, Vec<Step>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts").join(system);
    let files = folder.read_dir().expect("recordings").map(|entry| entry.expect("a recording"));
    files.map(|file| (file.file_name().to_string_lossy().into_owned(), steps(&text(&file.path())))).collect()
}

/// The steps of all recordings of a system.
pub fn all_of(system: &str) -> Vec<Step> {
    files_of(system).into_iter().flat_map(|(_, steps)| steps).collect()
}

/// A recording; not all that systems print is UTF-8.
pub fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).expect("a recording")).into_owned()
}

/// The steps of a recording whose commands begin so.
pub fn of<'s>(steps: &'s [Step], beginning: &str) -> Vec<&'s Step> {
    steps.iter().filter(|step| step.command.starts_with(beginning)).collect()
}
