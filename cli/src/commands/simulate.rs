//! `pilotfish simulate`: the live code in simulated time.

use std::fmt;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use simulator::faults::{self, Violation};

use crate::{
    failure::{Failure, Outcome},
    show,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish simulate --faults --seed 7            one run among faults, with what it came to
  pilotfish simulate --faults --seed 7 --trace    … and everything that happened, the same each time
  pilotfish simulate --faults --seeds 10000       seeds 0 to 9,999 on all cores

Exit codes: 0 every rule held, 1 one did not (the seed is said).";

/// What to simulate.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    /// Manager, pilots and batch systems among faults drawn from a seed, with an auditor
    #[arg(long, required = true)]
    faults: bool,
    /// The seed, or the first of --seeds
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Print everything that happens; for one seed
    #[arg(long, conflicts_with = "seeds")]
    trace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &SimulateArgs) -> Result<Outcome, Failure> {
    if args.trace {
        trace(args.seed)?;
    }
    let Some(end) = args.seed.checked_add(args.seeds) else {
        return Err(Failure::bad_input(format!(
            "--seed {} and --seeds {}: there are no such seeds",
            args.seed, args.seeds
        )));
    };
    let bar = progress(args.seeds);
    let mut violations: Vec<(u64, Violation)> = Vec::new();
    let mut total = faults::Outcome::default();
    faults::run_many(args.seed..end, |seed, result| {
        bar.inc(1);
        match result {
            Ok(outcome) => add(&mut total, &outcome),
            Err(violation) => {
                bar.suspend(|| eprintln!("seed {seed}: {violation}"));
                violations.push((seed, violation));
            }
        }
    });
    bar.finish_and_clear();
    violations.sort_by_key(|(seed, _)| *seed);
    show::print(&if args.json {
        as_json(args, &total, &violations)?
    } else {
        words(args, &total, &violations)
    })?;
    Ok(if violations.is_empty() { Outcome::Fine } else { Outcome::TasksFailed })
}

fn trace(seed: u64) -> Result<(), Failure> {
    let mut text = String::new();
    let mut line = |line: fmt::Arguments<'_>| text += &format!("{line}\n");
    // What it came to is said below.
    let _ = faults::run(seed, Some(&mut line));
    show::print(&text)
}

fn progress(n_seeds: u64) -> ProgressBar {
    if n_seeds == 1 {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{pos} of {len} seeds {wide_bar} {per_sec} {eta} left");
    ProgressBar::new(n_seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn add(total: &mut faults::Outcome, one: &faults::Outcome) {
    total.n_jobs += one.n_jobs;
    total.n_tasks += one.n_tasks;
    total.n_executions += one.n_executions;
    total.n_repeated += one.n_repeated;
    total.n_starts += one.n_starts;
    total.n_pilots += one.n_pilots;
    total.n_events += one.n_events;
    total.ended_at = total.ended_at.max(one.ended_at);
}

fn words(args: &SimulateArgs, total: &faults::Outcome, violations: &[(u64, Violation)]) -> String {
    let faults::Outcome { n_jobs, n_tasks, n_executions, n_repeated, n_starts, n_pilots, n_events, .. } =
        total;
    let mut text = format!(
        "{n_tasks} tasks of {n_jobs} jobs, {n_executions} executions ({n_repeated} of a task begun before), \
         {n_pilots} pilots, {n_starts} starts of the manager, {n_events} events\n"
    );
    match violations {
        [] if args.seeds == 1 => text += &format!("seed {}: every rule held\n", args.seed),
        [] => text += &format!("seeds {} to {}: every rule held\n", args.seed, args.seed + args.seeds - 1),
        some => {
            let seeds: Vec<String> = some.iter().map(|(seed, _)| seed.to_string()).collect();
            text += &format!(
                "{} of {} seeds broke a rule: {}\nTo see how: pilotfish simulate --faults --seed {} --trace\n",
                some.len(),
                args.seeds,
                seeds.join(", "),
                seeds[0]
            );
        }
    }
    text
}

fn as_json(
    args: &SimulateArgs,
    total: &faults::Outcome,
    violations: &[(u64, Violation)],
) -> Result<String, Failure> {
    let violations: Vec<_> =
        violations.iter().map(|(seed, violation)| json!({ "seed": seed, "what": violation.0 })).collect();
    show::json(&json!({
        "first_seed": args.seed,
        "n_seeds": args.seeds,
        "n_jobs": total.n_jobs,
        "n_tasks": total.n_tasks,
        "n_executions": total.n_executions,
        "n_repeated": total.n_repeated,
        "n_manager_starts": total.n_starts,
        "n_pilots": total.n_pilots,
        "n_events": total.n_events,
        "violations": violations,
    }))
}
