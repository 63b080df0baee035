//! `pilotfish import`: workflows that others have written down, as job files.

mod wfcommons;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};

use protocol::job::load_file_text;

use self::wfcommons::Emulation;
use crate::{
    failure::{Failure, Outcome},
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
    /// The instance
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    /// Instead of its command, let each task read what those before it have written, take as long as it took then and
    /// write files of the same sizes
    #[arg(long)]
    emulate: bool,
    /// Take so many times less long
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "emulate")]
    speedup: f64,
    /// Write files so many times smaller
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
    let text = fs::read_to_string(&args.file).map_err(|error| Failure::file("read", &args.file, &error))?;
    let shown = args.file.display();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let instance = wfcommons::parse(text).map_err(|what| Failure::bad_input(format!("{shown}: {what}")))?;
    let stem = args.file.file_stem().and_then(|stem| stem.to_str()).unwrap_or("workflow");
    let emulation = Emulation { speedup: args.speedup, shrink: args.shrink };
    if !args.emulate && wfcommons::names_processes(&instance) {
        show::say(
            "warning: this instance is of Nextflow, whose programs are names of processes and may be no programs; --emulate needs none",
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
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => fs::write(path, text).map_err(|error| Failure::file("write", path, &error))?,
        None => show::print(&text)?,
    }
    Ok(Outcome::Fine)
}
