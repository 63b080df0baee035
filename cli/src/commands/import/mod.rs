//! `pilotfish import`: workflows that others have written down, as job files.

mod wfcommons;

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};

use protocol::job::{load_file_text, unreadable};

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
    // JSON is YAML.
    let text = show::json(&job)?;
    let base_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    if let Err(problems) = load_file_text(&text, "-", &base_dir) {
        // The files that it reads may come later; that tasks wait for each other in a circle never goes.
        let circle = problems.iter().find(|problem| problem.found.starts_with("a circle"));
        if let Some(circle) = circle {
            return Err(Failure::bad_input(format!("{shown}: {}; {}", circle.sentence(), circle.expected)));
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

    use super::text_of;

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
