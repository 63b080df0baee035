//! `pilotfish simulate --faults`: faults drawn from seeds, with an auditor.

use std::{
    collections::BTreeMap,
    fmt, panic,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::json;
use simulator::faults::{self, Violation};

use super::{SimulateArgs, progress, until_interrupted};
use crate::{
    failure::{Failure, Outcome},
    show::{
        self,
        format::{count, counted},
    },
};

/// Which seeds.
#[derive(Clone, Copy)]
struct Seeds {
    first: u64,
    n: u64,
}

/// What they came to, as far as they are done.
#[derive(Clone, Default)]
struct Sums {
    n_done: u64,
    total: faults::Outcome,
    /// What each seed came to that broke no rule, where that is asked for.
    each: BTreeMap<u64, faults::Outcome>,
    violations: Vec<(u64, Violation)>,
}

/// Does it.
///
/// # Errors
/// Standard output cannot be written.
pub async fn run(args: &SimulateArgs) -> Result<Outcome, Failure> {
    let _quiet = PanicsAreToldWithSeeds::begin();
    let seeds = Seeds { first: args.seed.unwrap_or(0), n: args.seeds };
    if args.trace {
        trace(seeds.first)?;
    }
    let Some(end) = seeds.first.checked_add(seeds.n) else {
        return Err(Failure::bad_input(format!(
            "--seed {} and --seeds {}: there are no such seeds",
            seeds.first, seeds.n
        )));
    };
    let sums = Arc::new(Mutex::new(Sums::default()));
    let (shared, bar) = (Arc::clone(&sums), progress::of_runs(seeds.n, "seeds"));
    let (told, began, is_each_told) = (bar.clone(), seeds.first, args.hashes);
    let work = move || {
        faults::run_many(began..end, |seed, result| {
            told.inc(1);
            let mut sums = shared.lock().unwrap_or_else(PoisonError::into_inner);
            sums.n_done += 1;
            match result {
                Ok(outcome) => {
                    add(&mut sums.total, &outcome);
                    if is_each_told {
                        sums.each.insert(seed, outcome);
                    }
                }
                Err(violation) => {
                    told.suspend(|| eprintln!("seed {seed}: {violation}"));
                    sums.violations.push((seed, violation));
                }
            }
        });
    };
    let is_finished = until_interrupted(work).await?.is_some();
    progress::end(&bar);
    let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner).clone();
    sums.violations.sort_by_key(|(seed, _)| *seed);
    show::print(&match args {
        SimulateArgs { json: true, .. } => as_json(seeds, &sums)?,
        SimulateArgs { hashes: true, .. } => hashes(&sums),
        _ => words(seeds, &sums),
    })?;
    if !is_finished {
        show::say(&format!("interrupted after {} of {} seeds", sums.n_done, seeds.n));
        return Ok(Outcome::Interrupted);
    }
    Ok(if sums.violations.is_empty() { Outcome::Fine } else { Outcome::TasksFailed })
}

/// What panics among faults is an invariant of the engine that does not hold: the simulator catches it, and it is told
/// with its seed. The hook of this program would end it before.
struct PanicsAreToldWithSeeds(Option<PanicHook>);

type PanicHook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync>;

impl PanicsAreToldWithSeeds {
    fn begin() -> PanicsAreToldWithSeeds {
        let before = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        PanicsAreToldWithSeeds(Some(before))
    }
}

impl Drop for PanicsAreToldWithSeeds {
    fn drop(&mut self) {
        if let Some(before) = self.0.take().filter(|_| !std::thread::panicking()) {
            panic::set_hook(before);
        }
    }
}

fn trace(seed: u64) -> Result<(), Failure> {
    let mut text = String::new();
    let mut line = |line: fmt::Arguments<'_>| text += &format!("{line}\n");
    // What it came to is said below.
    let _ = faults::run(seed, Some(&mut line));
    show::print(&text)
}

fn add(total: &mut faults::Outcome, one: &faults::Outcome) {
    total.n_jobs += one.n_jobs;
    total.n_tasks += one.n_tasks;
    total.n_executions += one.n_executions;
    total.n_repeated += one.n_repeated;
    total.n_given += one.n_given;
    total.n_passed_on += one.n_passed_on;
    total.n_starts += one.n_starts;
    total.n_pilots += one.n_pilots;
    total.n_events += one.n_events;
    total.ended_at = total.ended_at.max(one.ended_at);
}

fn words(seeds: Seeds, sums: &Sums) -> String {
    let total = &sums.total;
    let mut text = format!(
        "{} of {}, {} ({} of a task begun before), {}, {} of the manager, {}\n",
        counted(total.n_tasks, "task"),
        counted(total.n_jobs, "job"),
        counted(total.n_executions, "execution"),
        count(total.n_repeated),
        counted(total.n_pilots, "pilot"),
        counted(total.n_starts, "start"),
        counted(total.n_events, "event"),
    );
    match &sums.violations[..] {
        [] if sums.n_done < seeds.n => text += "every rule held in those\n",
        [] if seeds.n == 1 => text += &format!("seed {}: every rule held\n", seeds.first),
        [] => text += &format!("seeds {} to {}: every rule held\n", seeds.first, seeds.first + seeds.n - 1),
        some => {
            let seeds: Vec<String> = some.iter().map(|(seed, _)| seed.to_string()).collect();
            text += &format!(
                "{} of {} seeds broke a rule: {}\nTo see how: pilotfish simulate --faults --seed {} --trace\n",
                some.len(),
                sums.n_done,
                seeds.join(", "),
                seeds[0]
            );
        }
    }
    text
}

/// A line for each seed.
fn hashes(sums: &Sums) -> String {
    sums.each.iter().map(|(seed, outcome)| format!("{seed} {}\n", outcome.fingerprint())).collect()
}

fn as_json(seeds: Seeds, sums: &Sums) -> Result<String, Failure> {
    let total = &sums.total;
    let violations: Vec<_> =
        sums.violations.iter().map(|(seed, what)| json!({ "seed": seed, "what": what.0 })).collect();
    show::json(&json!({
        "first_seed": seeds.first,
        "n_seeds": sums.n_done,
        "n_jobs": total.n_jobs,
        "n_tasks": total.n_tasks,
        "n_executions": total.n_executions,
        "n_repeated": total.n_repeated,
        "n_given": total.n_given,
        "n_passed_on": total.n_passed_on,
        "n_manager_starts": total.n_starts,
        "n_pilots": total.n_pilots,
        "n_events": total.n_events,
        "violations": violations,
    }))
}

#[cfg(test)]
mod tests {
    use std::{panic, thread};

    use simulator::faults;

    use super::{PanicsAreToldWithSeeds, Seeds, Sums, words};

    #[test]
    fn hashes_come_by_seed() {
        let outcome = |decisions| faults::Outcome { decisions, n_events: 5, ..faults::Outcome::default() };
        let sums = Sums { each: [(10, outcome(7)), (9, outcome(u64::MAX))].into(), ..Sums::default() };
        assert_eq!(super::hashes(&sums), "9 ffffffffffffffff 5 0\n10 0000000000000007 5 0\n");
    }

    #[test]
    fn one_of_a_kind_is_no_plural() {
        let total = faults::Outcome { n_jobs: 1, n_tasks: 1200, n_starts: 1, ..faults::Outcome::default() };
        let sums = Sums { n_done: 1, total, ..Sums::default() };
        assert_eq!(
            words(Seeds { first: 7, n: 1 }, &sums),
            "1,200 tasks of 1 job, 0 executions (0 of a task begun before), 0 pilots, 1 start of the manager, 0 \
             events\nseed 7: every rule held\n"
        );
    }

    #[test]
    fn a_panic_among_faults_does_not_end_the_program_before_its_seed_is_told() {
        crate::report_bugs_briefly();
        let quiet = PanicsAreToldWithSeeds::begin();
        let result = thread::spawn(|| panic::catch_unwind(|| panic!("an invariant"))).join();
        assert!(result.is_ok_and(|caught| caught.is_err()));
        drop(quiet);
    }
}
