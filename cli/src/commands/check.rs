//! `pilotfish check`: whether a job is right, and what it would run. Needs no manager.

use std::ops::Range;

use clap::Args;

use protocol::job::{Compiled, JobSpec};
use scheduler::resources::Resources;

use crate::{
    commands::submit::workflow,
    failure::{Failure, Outcome},
    in_process,
    input::JobInput,
    show::{self, Screen, format::count, preview},
};

const EXAMPLES: &str = "\
Examples:
  pilotfish check job.yaml
  pilotfish check job.yaml --task 999999
  pilotfish check -- gzip -k {} ::: *.txt

The job has no number yet: {job} is shown as 0.";

/// So many of the first tasks are shown unless the user says otherwise.
const N_SHOWN: u64 = 3;

/// Which job, and which of its tasks.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "pilotfish check [OPTIONS] JOB.yaml\n       pilotfish check [OPTIONS] -- COMMAND [::: VALUES]"
)]
pub struct CheckArgs {
    #[command(flatten)]
    input: JobInput,
    /// Show this task
    #[arg(long, value_name = "INDEX", allow_negative_numbers = true, conflicts_with = "limit")]
    task: Option<u64>,
    /// Show this many of the first tasks (0: none) [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<u64>,
    /// Show JSON, for programs
    #[arg(long)]
    json: bool,
    /// Show nothing when all is well
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// What is said of the first job of which no task fits on this host; which may be meant for others.
fn beyond_this_host<'s>(jobs: impl Iterator<Item = &'s JobSpec>) -> Option<String> {
    let needs = |job: &JobSpec| Resources {
        memory_bytes: job.memory_bytes,
        gpus: job.gpus,
        generic: job.generic.clone(),
        ..Resources::cores(job.cores)
    };
    let mut jobs = jobs.filter(|job| needs(job) != Resources::cores(1)).peekable();
    jobs.peek()?;
    let host = in_process::host_capacity();
    jobs.map(|job| (job, needs(job))).find(|(_, needs)| !needs.fits_in(&host)).map(|(job, needs)| {
        let without_names = Resources { generic: Default::default(), ..needs.clone() };
        let way = match needs.generic.keys().next() {
            // Only the user knows how much of a named resource this host has.
            Some(name) if without_names.fits_in(&host) => format!("here without `--offer {name}=N`"),
            Some(_) | None => "here, only a platform with more".to_owned(),
        };
        format!(
            "note: a task of {} needs {needs}, and this host has {host}: `pilotfish run` cannot begin it {way}",
            job.name
        )
    })
}

/// Checks.
///
/// # Errors
/// Everything that is wrong with the job, a line each.
pub fn run(args: CheckArgs) -> Result<Outcome, Failure> {
    let tell = |line: Option<String>| line.iter().for_each(|line| show::say(line));
    if let Some(workflow) = args.input.workflow()? {
        refuse_tasks_of_stages(&args)?;
        tell(JobInput::left_out(workflow.stages.iter().map(|stage| &stage.job)));
        tell(beyond_this_host(workflow.stages.iter().map(|stage| &stage.job)));
        return if args.quiet { Ok(Outcome::Fine) } else { workflow::preview(&workflow, args.json) };
    }
    let job = args.input.resolve_for_others()?.compile()?;
    tell(JobInput::left_out([job.spec()]));
    tell(beyond_this_host([job.spec()].into_iter()));
    for doubt in args.input.doubts(&job) {
        show::say(&format!("warning: {doubt}"));
    }
    let indices = indices(&job, args.task, args.limit.unwrap_or(N_SHOWN))?;
    if args.json {
        show::print(&show::json(&preview::json(&job, indices))?)?;
    } else if !args.quiet {
        show::print(&preview::text(&job, indices, &Screen::stdout()))?;
    }
    Ok(Outcome::Fine)
}

/// A number of a task says nothing of which stage it is.
fn refuse_tasks_of_stages(args: &CheckArgs) -> Result<(), Failure> {
    let flags = [("--task", args.task), ("--limit", args.limit)];
    match flags.into_iter().find_map(|(flag, n)| Some((flag, n?))) {
        None => Ok(()),
        Some((flag, n)) => Err(Failure::bad_input(format!(
            "{flag}: found {n} together with a file of several jobs, of which `check` shows the first command each; \
             give a file with one job"
        ))),
    }
}

fn indices(job: &Compiled, task: Option<u64>, limit: u64) -> Result<Range<u64>, Failure> {
    let n_tasks = job.n_tasks();
    match task {
        None => Ok(0..limit.min(n_tasks)),
        Some(index) if index < n_tasks => Ok(index..index + 1),
        Some(index) => {
            let last = count(n_tasks.saturating_sub(1));
            Err(Failure::bad_input(format!("--task: found {index}; the tasks are 0 to {last}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use protocol::job::{CommandLine, JobSpec};

    use super::beyond_this_host;

    #[test]
    fn a_job_that_no_task_of_fits_on_this_host_is_told() {
        let job = |cores| {
            let job = JobSpec::new(CommandLine::Args(vec!["true".to_owned()]), PathBuf::from("/"));
            JobSpec { cores, ..job }
        };
        let told = beyond_this_host([job(1), job(1 << 20)].iter()).unwrap_or_default();
        assert!(told.contains("needs 1048576 cores, and this host has "), "{told}");
        let licensed = JobSpec { generic: [("licence".to_owned(), 1)].into(), ..job(1) };
        let told = beyond_this_host([licensed].iter()).unwrap_or_default();
        assert!(told.contains("needs 1 core, 1 licence, and this host has "), "{told}");
        assert!(told.ends_with("cannot begin it here without `--offer licence=N`"), "{told}");
        assert_eq!(beyond_this_host([job(1)].iter()), None);
    }
}
