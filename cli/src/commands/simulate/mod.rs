//! `pilotfish simulate`: the live code in simulated time.

mod compare;
mod faults;
mod progress;
mod scenario;
mod subject;
mod targets;

use std::{ops::RangeInclusive, path::PathBuf};

use clap::{ArgGroup, Args};
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};
use scheduler::time::Time;

use crate::{
    failure::{Failure, Outcome},
    sys::interrupts::Interrupts,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish simulate scenario.yaml  what users would see on those platforms
  pilotfish simulate scenario.yaml --seed 2 --plot busy.svg --csv out/
      # another draw; busy cores as a figure, measures as tables
  pilotfish simulate scenario.yaml --compare matching=turns,fifo \\
      --compare bundling=guided,single
      # all four combinations, a row each
  pilotfish simulate scenario.yaml --compare matching=turns,fifo --seeds 20
      # the means over 20 seeds
  pilotfish simulate --what-if .pilotfish --compare matching=turns,fifo
      # what a run or a manager did, under other policies
  pilotfish simulate --what-if .pilotfish --jobs 3,5-7 --since 2026-11-20 \\
      --until '2026-11-21 18:00'
      # only those of its jobs, submitted in that time
  pilotfish simulate --faults --seed 7
      # one run among faults, with what it came to
  pilotfish simulate --faults --seed 7 --trace
      # … and everything that happened, the same each time
  pilotfish simulate --faults --seeds 10000
      # seeds 0 to 9,999 on all cores

docs/simulate.md explains scenarios, examples/scenarios has some. The same seed
prints the same bytes.

Exit codes: 0 it ran to its end, 1 it got stuck, or broke a rule of the design
(the seed is named), 2 the scenario or an option cannot be used, 3 a file or a
store cannot be read or written, 130 interrupted.";

/// What to simulate.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("subject").args(["scenario", "what_if", "faults"]).required(true))]
pub struct SimulateArgs {
    /// Platforms, users, jobs and policies, as YAML
    #[arg(value_name = "SCENARIO")]
    scenario: Option<PathBuf>,
    /// Repeat what a manager or a run did: its folder, which is only read
    #[arg(long, value_name = "FOLDER")]
    what_if: Option<PathBuf>,
    /// With --what-if: only these jobs
    #[arg(long, value_name = "N,N-M,…", value_delimiter = ',', requires = "what_if", value_parser = numbers)]
    jobs: Vec<RangeInclusive<u64>>,
    /// With --what-if: only jobs submitted then or later; a date, optionally with a time, local or with a zone
    #[arg(long, value_name = "TIME", requires = "what_if", value_parser = moment)]
    since: Option<Time>,
    /// With --what-if: only jobs submitted before then
    #[arg(long, value_name = "TIME", requires = "what_if", value_parser = moment)]
    until: Option<Time>,
    /// Run manager, pilots and batch systems with faults drawn from a seed, and audit them
    #[arg(long)]
    faults: bool,
    /// The seed, or the first of --seeds; default: the scenario's, or 1; 0 for --faults
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// How many seeds; a scenario's measures are means over them
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1, value_parser = at_least_one)]
    seeds: u64,
    /// Run with each of these policies of a layer; repeat for all combinations with other layers
    #[arg(long, value_name = "LAYER=POLICY,…", conflicts_with = "faults")]
    compare: Vec<String>,
    /// Write the measures as CSV into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "faults")]
    csv: Option<PathBuf>,
    /// Draw busy cores over time into this file, FILE.svg or FILE.png; for one run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["faults", "compare", "seeds"])]
    plot: Option<PathBuf>,
    /// Print everything that happens; for one run
    #[arg(long, conflicts_with_all = ["seeds", "compare", "json"])]
    trace: bool,
    /// With --faults: print a hash of what the manager decided, a line a seed, to compare two builds
    #[arg(long, requires = "faults", conflicts_with_all = ["trace", "json"])]
    hashes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `3` or `5-7`.
fn numbers(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wanted = || "write numbers of jobs, like 3 or 5-7".to_owned();
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wanted());
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Ok(first..=last) } else { Err(wanted()) }
}

/// A date, a date and a time of here, or a time with its zone.
fn moment(text: &str) -> Result<Time, String> {
    let local = || {
        let text = text.trim();
        let date = || text.parse::<Date>().map(|date| date.to_datetime(jiff::civil::Time::midnight()));
        let at = text.parse::<DateTime>().or_else(|_| date())?;
        at.to_zoned(TimeZone::system()).map(|zoned| zoned.timestamp())
    };
    let at = text.trim().parse::<Timestamp>().or_else(|_| local());
    let at = at.ok().and_then(|at| u64::try_from(at.as_microsecond()).ok());
    at.map(Time).ok_or_else(|| {
        "write a date or a time, like 2026-11-20, '2026-11-20 18:00' or 2026-11-20T18:00:00Z".into()
    })
}

fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "a whole number from 1 on is needed".into())
}

/// Does it.
///
/// # Errors
/// The scenario's mistakes, or what cannot be written.
pub async fn run(args: SimulateArgs) -> Result<Outcome, Failure> {
    match args.faults {
        true => faults::run(&args).await,
        false if args.compare.is_empty() && args.seeds == 1 => scenario::run(&args).await,
        false => compare::run(&args).await,
    }
}

/// What the work comes to; `None` when Ctrl-C came first. Then it ends with this process.
async fn until_interrupted<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    Interrupts::listen()?.unless(work).await
}

#[cfg(test)]
mod tests {
    use super::{moment, numbers};

    #[test]
    fn jobs_and_times_are_read_and_others_refused() {
        assert_eq!((numbers("3"), numbers("5-7")), (Ok(3..=3), Ok(5..=7)));
        for wrong in ["", "x", "7-5", "1-2-3", "-1"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
        assert_eq!(moment("2026-11-20T18:00:00Z").map(|at| at.0), Ok(1_795_197_600_000_000));
        assert!(moment("2026-11-20") < moment("2026-11-20 18:00"));
        for wrong in ["yesterday", "", "1969-01-01T00:00:00Z"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }
}
