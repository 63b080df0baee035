//! `pilotfish reproduce`: the papers' tables and figures, made again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use simulator::report::{Effort, Progress, Report, Source, verdict::RULE};

use crate::{
    failure::{Failure, Outcome},
    show,
    sys::{interrupts::Interrupts, whole},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish reproduce all  all five papers: papers.md and the folder papers
  pilotfish reproduce fairness --quick
      # the first one, with few and small runs, in seconds
  pilotfish reproduce tla --logs swf/
      # also with the workload logs of this folder (*.swf, *.swf.gz)

Writes a page and, in a folder beside it with a folder for each paper, tables
(CSV) and figures (SVG). Each published number stands beside what came out
here, with a verdict: exact, within tolerance, same order, direction only, or
not reproducible and why; sentences hold or not. The page begins with the
meaning of each word. Verdicts of --quick come from few and small runs, and say
so. The same seed writes the same bytes.";

/// Which paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Two-level fair sharing (Hwang, Kim and Choi)
    Fairness,
    /// Temporal look-ahead for allocations (Shih et al.)
    Tla,
    /// Application-level scheduling with bundles (Xiao et al.)
    Alstb,
    /// Adaptive weights and vCPU/pCPU scaling (Kim, Choi and Kim)
    Adaptive,
    /// Work stealing near data (Wang et al., MATRIX)
    Matrix,
    /// All of them
    All,
}

impl Paper {
    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// What to reproduce.
#[derive(Args, Clone)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArgs {
    /// The paper
    #[arg(value_enum)]
    paper: Paper,
    /// The page; tables and figures go into the folder of the same name without .md
    #[arg(long, value_name = "PAGE.md", default_value = "papers.md")]
    out: PathBuf,
    /// Few and small runs: seconds instead of minutes, coarse figures
    #[arg(long)]
    quick: bool,
    /// The seed of all random numbers
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1)]
    seed: u64,
    /// A folder with workload logs in SWF, for tla
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    /// Print the claims as JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// A file cannot be written, or a log not read.
pub async fn run(args: ReproduceArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    // What cannot be written is better known before the minutes of work.
    let folder = folder_of(&args.out)?;
    create_folder(&folder)?;
    let mut reports = Vec::new();
    for paper in Paper::value_variants().iter().copied() {
        if args.paper != paper && args.paper != Paper::All {
            continue;
        }
        let (wish, bar) = (args.clone(), Bar::new(paper));
        let told = bar.clone();
        let report = interrupts.unless(move || reproduce(paper, &wish, &told)).await?;
        bar.0.finish_and_clear();
        let Some(report) = report else {
            if reports.is_empty() {
                // What was there before is not empty, and stays.
                _ = fs::remove_dir(&folder);
            }
            show::say(&interrupted(paper, &reports, &args.out));
            return Ok(Outcome::Interrupted);
        };
        if let Some(report) = report? {
            write_files(&folder, &report)?;
            reports.push(report);
        }
    }
    write(&args.out, &page_of(&args, &folder, &reports))?;
    show::print(&if args.json { as_json(&reports)? } else { words(&reports, &args.out) })?;
    Ok(Outcome::Fine)
}

/// What is there when Ctrl-C came during a paper.
fn interrupted(during: Paper, reports: &[Report], page: &Path) -> String {
    let (during, page) = (during.word(), page.display());
    match reports.iter().map(|report| report.name).collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => format!("interrupted during {during}; nothing was written"),
        names => format!(
            "interrupted during {during}; tables and figures of {names} are written, the page {page} is not"
        ),
    }
}

/// Beside the page, with its name.
fn folder_of(page: &Path) -> Result<PathBuf, Failure> {
    match page.extension() {
        Some(ending) if ending == "md" && page.file_stem().is_some() => Ok(page.with_extension("")),
        _ => Err(Failure::bad_input(format!(
            "--out: found `{}`; name a page whose name ends in .md, like papers.md",
            page.display()
        ))),
    }
}

fn reproduce(paper: Paper, args: &ReproduceArgs, bar: &Bar) -> Result<Option<Report>, Failure> {
    let (effort, seed) = (if args.quick { Effort::Quick } else { Effort::Full }, args.seed);
    Ok(Some(match paper {
        Paper::Fairness => simulator::fairness::reproduce(effort, seed, bar),
        Paper::Adaptive => simulator::adaptive::reproduce(effort, seed, bar),
        Paper::Matrix => simulator::matrix::reproduce(effort, seed, bar),
        Paper::Tla => {
            let report = simulator::tla::reproduce_with_logs(effort, seed, bar, args.logs.as_deref());
            report.map_err(|trouble| Failure::bad_input(trouble.to_string()))?
        }
        Paper::Alstb => simulator::alstb::reproduce(effort, seed, bar),
        // The others one by one.
        Paper::All => return Ok(None),
    }))
}

/// How far one paper is.
#[derive(Clone)]
struct Bar(ProgressBar);

impl Bar {
    fn new(paper: Paper) -> Bar {
        let style = ProgressStyle::with_template("{prefix} {pos} of {len} runs {wide_bar} {eta} left");
        let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(paper.word());
        Bar(bar)
    }
}

impl Progress for Bar {
    fn expect(&self, n: u64) {
        self.0.inc_length(n);
    }

    fn done(&self) {
        self.0.inc(1);
    }
}

fn write_files(folder: &Path, report: &Report) -> Result<(), Failure> {
    let folder = folder.join(report.name);
    create_folder(&folder)?;
    report.files().iter().try_for_each(|(name, text)| write(&folder.join(name), text))
}

fn create_folder(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("make the folder", folder, &error))
}

/// Whoever looks finds the file that was there before, or all of the new one.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    whole::write(path, text.as_bytes()).map_err(|error| Failure::file("write", path, &error))
}

fn page_of(args: &ReproduceArgs, folder: &Path, reports: &[Report]) -> String {
    let folder = folder.file_name().unwrap_or_default().to_string_lossy();
    let effort = match args.quick {
        true => {
            "\n\n**A quick run (`--quick`): few and small draws. Numbers are coarse, and verdicts are of this run \
             alone; the full run may come to others.**"
        }
        false => "",
    };
    let mut text = format!(
        "# The papers, reproduced\n\nWritten by `pilotfish reproduce`, seed {}.{effort}\n\nEach number and sentence of a \
         paper stands beside what came out here. Verdicts are worked out from the numbers by one rule:\n\n{RULE}\n\
         Tables are beside this page as CSV. Figures name the paper and its figure, table or section, where it was at \
         hand; what is ours says so.\n",
        args.seed
    );
    for report in reports {
        text += &format!("\n{}", report.to_markdown(&format!("{folder}/{}", report.name)));
    }
    text
}

fn words(reports: &[Report], page: &Path) -> String {
    let mut text = String::new();
    for report in reports {
        text += &format!("{}: {}\n", report.name, report.summary());
    }
    text + &format!("written: {}\n", page.display())
}

fn as_json(reports: &[Report]) -> Result<String, Failure> {
    let claims = reports.iter().flat_map(|report| {
        let of_report =
            report.parts.iter().flat_map(|part| part.claims.iter().map(move |claim| (part, claim)));
        of_report.map(|(part, claim)| {
            json!({
                "paper": report.name,
                "part": part.title,
                "claim": claim.what,
                "is_of_paper": claim.source == Source::Paper,
                "published": claim.published,
                "here": claim.ours,
                "verdict": claim.verdict.word.text(),
                "note": claim.verdict.note,
                "is_quick": report.effort == Effort::Quick,
            })
        })
    });
    show::json(&json!({ "claims": claims.collect::<Vec<_>>() }))
}
