//! `pilotfish import`: workflows that others have written down, as job files.

mod wfcommons;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};

use protocol::job::{Problem, load_file_text, stands_in_yaml, unreadable};

use self::wfcommons::Emulation;
use crate::{
    failure::{Failure, Outcome, utf8},
    show,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish import wfcommons montage.json -o montage.yaml
  pilotfish import wfcommons montage.json --emulate --speedup 100 -o \\
      montage.yaml && pilotfish run montage.yaml";

/// `import` tells at most so many faults of an instance: each of its tasks may have the same one.
const N_PROBLEMS_MAX: usize = 10;

/// From what.
#[derive(Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    from: From,
}

/// What can be read.
#[derive(Subcommand)]
enum From {
    /// An instance of WfCommons (WfFormat 1.3 to 1.6, JSON)
    Wfcommons(WfcommonsArgs),
}

/// Which instance, and what becomes of its commands.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct WfcommonsArgs {
    /// The instance; `-`: standard input
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    /// Emulate the tasks: each reads what those before it wrote, takes as long as recorded and writes files as large
    #[arg(long)]
    emulate: bool,
    /// Make emulated tasks this many times faster
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "emulate")]
    speedup: f64,
    /// Make emulated files this many times smaller
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "emulate")]
    shrink: f64,
    /// Write it here; `-` or none: standard output
    #[arg(short, long, value_name = "JOB.yaml")]
    output: Option<PathBuf>,
}

/// Reads, and writes a job file.
///
/// # Errors
/// A file that is none, or cannot be read or written.
pub fn run(args: &ImportArgs) -> Result<Outcome, Failure> {
    let From::Wfcommons(args) = &args.from;
    for (option, n) in [("speedup", args.speedup), ("shrink", args.shrink)] {
        if !(n.is_finite() && n > 0.0) {
            return Err(Failure::bad_input(format!("--{option}: found {n}; give a number above 0")));
        }
    }
    let is_stdin = args.file == Path::new("-");
    let file = if is_stdin { Path::new("stdin") } else { &args.file };
    let mut bytes = Vec::new();
    let read = match is_stdin {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
        false => fs::read(file),
    };
    let bytes = read.map_err(|error| Failure::from(vec![unreadable(file, &error)]))?;
    let shown = file.display();
    let text = text_of(bytes, file)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let instance = wfcommons::parse(text).map_err(|what| Failure::bad_input(format!("{shown}: {what}")))?;
    let stem = file.file_stem().and_then(|stem| stem.to_str()).filter(|_| !is_stdin).unwrap_or("workflow");
    let emulation = Emulation { speedup: args.speedup, shrink: args.shrink };
    if !args.emulate && wfcommons::names_processes(&instance) {
        show::say(
            "warning: this instance is of Nextflow: what is no script is the name of a process, and may be no program; --emulate needs none",
        );
    }
    let job = wfcommons::job_file(&instance, stem, args.emulate.then_some(emulation))
        .map_err(|what| Failure::bad_input(format!("{shown}: {what}")))?;
    let text = as_yaml(&show::json(&job)?);
    let base_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if let Err(problems) = load_file_text(&text, "-", &base_dir) {
        let refused = refused(&problems, &shown.to_string());
        if !refused.is_empty() {
            return Err(Failure::BadInput(refused));
        }
    }
    let same = |path: &Path| fs::canonicalize(path).ok() == fs::canonicalize(file).ok() && path.exists();
    if let Some(path) = args.output.as_deref().filter(|path| !is_stdin && same(path)) {
        let path = path.display();
        return Err(Failure::bad_input(format!(
            "--output: found {path}, which is the instance; name another file"
        )));
    }
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => fs::write(path, text).map_err(|error| Failure::file("write", path, &error))?,
        None => show::print(&text)?,
    }
    Ok(Outcome::Fine)
}

/// JSON as YAML has it: without characters that cannot stand there as they are. In JSON all of these belong to texts.
fn as_yaml(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match stands_in_yaml(character) {
            true => text.push(character),
            false => text.push_str(&format!("\\u{:04x}", u32::from(character))),
        }
    }
    text
}

/// Why no job can be made of the instance: what would be said of its job file later. `shown`: how the instance is called.
fn refused(problems: &[Problem], shown: &str) -> Vec<String> {
    // Programs may come later, with other line ends.
    let lasting = problems.iter().filter(|problem| !problem.found.ends_with("\\r"));
    let said = lasting.take(N_PROBLEMS_MAX).map(|problem| {
        let is_of_all = problem.path.is_empty() || problem.found.starts_with("a circle");
        let field = if is_of_all { String::new() } else { format!("{}: ", problem.path) };
        format!("{shown}: {field}{}; {}", problem.sentence(), problem.expected)
    });
    said.collect()
}

fn text_of(bytes: Vec<u8>, file: &Path) -> Result<String, Failure> {
    if bytes.starts_with(b"\x1f\x8b") {
        return Err(Failure::bad_input(format!(
            "{}: found a file of gzip; unpack it, like `gunzip -c FILE | pilotfish import wfcommons -`",
            file.display()
        )));
    }
    utf8(bytes, file)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use protocol::job::{load_file_text, parse_yaml};
    use serde_json::{Value, json};

    use super::{as_yaml, refused, text_of, wfcommons};

    /// The job file of an instance of one task.
    fn job_file(name: &str, arguments: &[&str], needs: Value) -> Result<String, String> {
        let mut task = json!({"name": "a", "command": {"program": "printf", "arguments": arguments}});
        let fields = needs.as_object().cloned().unwrap_or_default();
        fields.into_iter().for_each(|(field, value)| task[field] = value);
        let instance = json!({"name": name, "workflow": {"tasks": [task]}});
        let job = wfcommons::job_file(&instance, "w", None)?;
        Ok(as_yaml(&serde_json::to_string_pretty(&job).unwrap()))
    }

    #[test]
    fn every_argument_that_is_imported_comes_back_as_it_was() {
        let others = ["\u{7f}", "x\u{85}y", "\u{9b}", "a \u{2028} b", "\u{2029}", "\u{fffe}\u{ffff}"];
        let arguments = [&others[..], &["\u{1}\t\n\r", "\u{feff}", "\u{1f600}", "\\u0085", " é"]].concat();
        let text = job_file("w", &arguments, Value::Null).unwrap();
        let value = parse_yaml(&text).unwrap();
        let words = value["tasks"][0]["command"].as_sequence().unwrap();
        let words: Vec<&str> = words.iter().filter_map(|word| word.as_str()).collect();
        assert_eq!(words[1..], arguments[..]);
        assert!(load_file_text(&text, "w.yaml", Path::new("/")).is_ok(), "{text}");
    }

    #[test]
    fn instance_whose_job_file_would_be_refused_is_refused_with_its_field() {
        let said = |arguments: &[&str], needs: Value| job_file("w", arguments, needs).unwrap_err();
        let nul = "task `a`: command: found a NUL character; programs cannot be given that one";
        assert_eq!(said(&["a\0b"], Value::Null), nul);
        let cores = "task `a`: coreCount: found 10000000000; write at most 65536";
        assert_eq!(said(&[], json!({"coreCount": 1e10})), cores);
        let memory = "task `a`: memoryInBytes: found 10000000000000000000; write at most 1125899906842624";
        assert_eq!(said(&[], json!({"memoryInBytes": 1e19})), memory);
        let most = job_file("w", &[], json!({"coreCount": 65536, "memoryInBytes": 1_u64 << 50})).unwrap();
        assert!(load_file_text(&most, "-", Path::new("/")).is_ok(), "{most}");
        let text = job_file("a\nb", &[], Value::Null).unwrap();
        let problems = load_file_text(&text, "-", Path::new("/")).unwrap_err();
        let told = refused(&problems, "w.json");
        let told_name =
            "w.json: application: found `a\\nb`; a name has no line ends or other control characters";
        assert!(told.iter().any(|line| line == told_name), "{told:?}");
    }

    #[test]
    fn files_in_other_encodings_are_bad_input_and_told_by_their_line() {
        for (bytes, said) in [
            (&b"\xff\xfe{\0"[..], "a.json: found bytes in line 1 that are not UTF-8; save it as UTF-8"),
            (b"{\n\"n\": \"\xe4\"}", "a.json: found bytes in line 2 that are not UTF-8; save it as UTF-8"),
            (
                b"\x1f\x8b\x08\0",
                "a.json: found a file of gzip; unpack it, like `gunzip -c FILE | pilotfish import wfcommons -`",
            ),
        ] {
            let failure = text_of(bytes.to_vec(), Path::new("a.json")).unwrap_err();
            assert_eq!((failure.message().as_str(), failure.code()), (said, 2));
        }
        assert_eq!(text_of("ä".into(), Path::new("a.json")).unwrap(), "ä");
    }
}
