//! `pilotfish submit`: hands a job to the manager.

pub(crate) mod workflow;

use std::{pin::pin, time::Duration};

use clap::Args;

use protocol::{
    api::{SubmitRequest, WorkflowRequest},
    job::{JobSpec, WorkflowSpec},
};

use crate::{
    access::{self, Living, last},
    client::retry::until_answered,
    commands::{explain, job::wait, submit::workflow::Manner},
    failure::{Failure, Outcome},
    follow::follow,
    input::JobInput,
    progress::{Progress, Verbosity},
    show::{
        self, Screen,
        format::counted,
        job::{end_line, warn_of_lost_output},
        preview,
        units::json_with_units,
    },
    staging::{self, Claims, Fetching, Sources},
    sys::interrupts::unless_interrupted,
    view::ViewArgs,
};

const EXAMPLES: &str = "\
Examples:
  pilotfish submit job.yaml
  pilotfish submit job.yaml --set seed=7 --priority 10
  pilotfish submit --cores 2 --memory 4GiB -- ./sim {} ::: *.in
  job=$(pilotfish submit -q job.yaml) && pilotfish wait $job
  pilotfish submit job.yaml --wait --progress";

/// Who waits for a job that is over by then is not kept with asking whether it can begin at all.
const SOON: Duration = Duration::from_millis(100);
/// Tasks shown by a dry run.
const N_TASKS_SHOWN: u64 = 3;

/// Which job, to which manager.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "pilotfish submit [OPTIONS] JOB.yaml\n       pilotfish submit [OPTIONS] -- COMMAND [::: VALUES]"
)]
pub struct SubmitArgs {
    #[command(flatten)]
    input: JobInput,
    /// Wait until the job is over; the exit code says whether all tasks succeeded
    #[arg(long)]
    wait: bool,
    /// With --wait: let files that tasks leave replace those that are here and that Pilotfish has not brought
    #[arg(long)]
    overwrite: bool,
    /// Wait, and show how it goes
    #[arg(long)]
    progress: bool,
    /// Check the job and show its first tasks; submit nothing
    #[arg(long, conflicts_with_all = ["wait", "progress"])]
    dry_run: bool,
    #[command(flatten)]
    view: ViewArgs,
}

/// Submits.
///
/// # Errors
/// Everything that is wrong with the job, or no manager.
pub async fn run(args: SubmitArgs) -> Result<Outcome, Failure> {
    if let Some(workflow) = args.input.workflow()? {
        return run_workflow(&args, workflow).await;
    }
    let mut spec = args.input.resolve_for_others()?;
    if let Some(line) = JobInput::left_out([&spec]).filter(|_| !args.view.quiet) {
        show::say(&line);
    }
    if args.dry_run {
        return dry_run(&spec, args.view.json);
    }
    let Living { client, folder, place } = access::find_live_for_jobs(&args.view.place).await?;
    Sources::read(&mut spec)?.bring(&client).await?;
    let request = SubmitRequest { spec, submission_key: Some(random_key()?) };
    let submitted = until_answered(async || client.submit(&request).await).await?;
    last::remember(&folder, Some(submitted.job));
    if args.view.json && !args.wait && !args.progress {
        show::print(&show::json(&submitted)?)?;
    } else if args.view.quiet {
        show::print(&format!("{}\n", submitted.job))?;
    } else if !args.view.json {
        let tasks = counted(submitted.n_tasks, "task");
        show::print(&format!("job {} ({tasks})\n", submitted.job))?;
    }
    let verbosity = match (args.progress, args.view.quiet) {
        (true, _) => Verbosity::All,
        (false, false) => Verbosity::Failures,
        (false, true) => Verbosity::Nothing,
    };
    let progress = Progress::new(verbosity);
    let voice = progress.voice();
    let warned = explain::warn_of_nowhere(&client, submitted.job, &voice);
    if !args.wait && !args.progress {
        warned.await;
        return Ok(Outcome::Fine);
    }
    let over = async {
        // With Ctrl-C its bar goes before anything else is said.
        let mut progress = progress;
        let job = warned_unless_soon(follow(&client, submitted.job, &mut progress), warned).await;
        progress.finish(&place.flags());
        let job = job?;
        let is_quiet = args.view.quiet || args.view.json;
        let how = Fetching { is_quiet, overwrites: args.overwrite, claims: &Claims::default() };
        let fetched = staging::fetch_home(&client, job.id, &request.spec, how).await;
        Ok((job, fetched))
    };
    let again = wait::goes_on(&submitted.job.to_string(), &place.flags());
    let Some((job, fetched)) = unless_interrupted(over, &again).await? else {
        return Ok(Outcome::Interrupted);
    };
    if !args.view.quiet {
        warn_of_lost_output(&job);
    }
    if args.view.json {
        show::print(&json_with_units(&job)?)?;
    } else if !args.view.quiet {
        show::print(&format!("{}\n", end_line(&job)))?;
    }
    fetched?;
    Ok(wait::outcome(&[job]))
}

async fn warned_unless_soon<T>(followed: impl Future<Output = T>, warned: impl Future<Output = ()>) -> T {
    let mut followed = pin!(followed);
    match tokio::time::timeout(SOON, &mut followed).await {
        Ok(job) => job,
        Err(_) => tokio::join!(followed, warned).0,
    }
}

async fn run_workflow(args: &SubmitArgs, mut workflow: WorkflowSpec) -> Result<Outcome, Failure> {
    let jobs = workflow.stages.iter().map(|stage| &stage.job);
    if let Some(line) = JobInput::left_out(jobs).filter(|_| !args.view.quiet) {
        show::say(&line);
    }
    if args.dry_run {
        return workflow::preview(&workflow, args.view.json);
    }
    let Living { client, folder, place } = access::find_live_for_jobs(&args.view.place).await?;
    workflow::match_by_names(&client, &mut workflow).await?;
    for stage in &mut workflow.stages {
        Sources::read(&mut stage.job)?.bring(&client).await?;
    }
    let request = WorkflowRequest { workflow, submission_key: Some(random_key()?) };
    let manner = Manner {
        waits: args.wait || args.progress,
        has_progress: args.progress,
        json: args.view.json,
        quiet: args.view.quiet,
        overwrites: args.overwrite,
        place: &place.flags(),
    };
    workflow::submit((&client, &folder), &request, manner).await
}

fn dry_run(spec: &JobSpec, as_json: bool) -> Result<Outcome, Failure> {
    let job = spec.compile()?;
    let shown = 0..job.n_tasks().min(N_TASKS_SHOWN);
    let text = match as_json {
        true => show::json(&preview::json(&job, shown))?,
        false => preview::text(&job, shown, &Screen::stdout()),
    };
    show::print(&text)?;
    Ok(Outcome::Fine)
}

/// A key that no other submission has.
fn random_key() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes)
        .map_err(|_| Failure::infrastructure("the system gives no random numbers"))?;
    Ok(format!("submit-{:032x}", u128::from_be_bytes(bytes)))
}
