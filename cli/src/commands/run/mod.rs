//! `pilotfish run`: manager, pilot and client in one process and one folder, for one job.

mod company;
mod key;
mod session;
mod workflow;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;

use manager::config::{Config, Elsewhere};
use protocol::{
    api::{SubmitRequest, WorkflowRequest},
    job::{JobSpec, Problem, WorkflowSpec},
    text::units::show_bytes,
};
use scheduler::{engine::interface::views::JobView, resources::Resources, time::Span};

use crate::{
    access::{
        self, Standing,
        folders::{RUN_FOLDER, STORE_FILE, show_path},
    },
    client::{Client, EventStream},
    commands::job::wait,
    failure::{Failure, Outcome},
    in_process,
    input::JobInput,
    progress::{Progress, Verbosity},
    show::{
        self, Screen,
        format::{count, counted},
        job::{end_line, summary, warn_of_lost_output},
        quote::quoted,
        units::json_with_units,
    },
    staging::{self, Claims, Fetching, Sources},
    sys::{interrupts::Interrupts, logging},
};
use company::Latecomers;
use session::{End, Session};

const EXAMPLES: &str = "\
Examples:
  pilotfish run job.yaml
  pilotfish run job.yaml --set seed=7 -j 4
  pilotfish run -- echo {1} {2} ::: a b c ::: 1 2 3  all combinations
  pilotfish run -- cp {1} {2} ::: a b :::+ c d       a with c, b with d
  pilotfish run -- 'gzip -c {} > {/}.gz' ::: *.txt   one word is a shell line
  pilotfish run --each-line seeds.txt -- ./sim --seed {}
  pilotfish run --array 1-1000 --time-limit 10m -- ./sim {array}

In commands {} is the value, {.} without its extension, {/} its file name, {//}
its folder, {/.} its file name without extension; {2} is the second value; {#}
and {number} count tasks from 1, {index} from 0. Values that the command does
not mention become its last arguments.

The same command again goes on with what was left; what failed stays failed
unless --retry-failed is given, and --fresh starts anew. Ctrl-C lets running
tasks finish, a second Ctrl-C stops them; both lose nothing. Results stay in
the folder: see `pilotfish tasks`, `logs` and `export`.

Other unfinished jobs of the folder stay paused. But jobs that `pilotfish
submit` adds to this run meanwhile, and jobs that `pilotfish resume` continues,
are finished before the run ends.

Exit codes: 0 all tasks succeeded, 1 tasks failed or were cancelled, or failed
in such another job, 2 what was given cannot be used, 3 a manager, a file or
the machine did not do its part, 130 interrupted.";

/// A pilot of `run` waits as long as its manager lives.
const IDLE_TIMEOUT: Span = Span::from_secs(366 * 24 * 3600);
/// A pilot that was killed is noticed so soon.
const POLL_INTERVAL: Span = Span::from_secs(2);
/// No pilot outlives its `run`, so there is none to wait for.
const GRACE: Span = Span::ZERO;
/// An answer within this process.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Which job, and how it is run here.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(
    override_usage = "pilotfish run [OPTIONS] JOB.yaml\n       pilotfish run [OPTIONS] -- COMMAND [::: VALUES]"
)]
pub struct RunArgs {
    #[command(flatten)]
    input: JobInput,
    /// Use this many cores [default: all this process may use]
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, help_heading = "This run")]
    jobs: Option<u32>,
    /// The folder for results and state
    #[arg(long, value_name = "FOLDER", default_value = RUN_FOLDER, help_heading = "This run")]
    dir: PathBuf,
    /// Begin anew instead of going on with the same job
    #[arg(long, conflicts_with = "retry_failed", help_heading = "This run")]
    fresh: bool,
    /// Let output files replace files here that Pilotfish did not write
    #[arg(long)]
    overwrite: bool,
    /// Run tasks again that failed or were cancelled last time
    #[arg(long, help_heading = "This run")]
    retry_failed: bool,
    /// How much of another resource tasks here share; may be repeated
    #[arg(long, value_name = "NAME=N", help_heading = "This run")]
    offer: Vec<String>,
    /// Print the job at its end as JSON, for programs
    #[arg(long)]
    json: bool,
    /// Show failures only, and whether nothing runs because all is done
    #[arg(short, long)]
    quiet: bool,
}

/// Runs.
///
/// # Errors
/// A job that is wrong or needs more than there is, or a folder that cannot be used.
pub async fn run(args: RunArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let stages = args.input.workflow()?;
    let spec = match stages {
        Some(_) => None,
        None => Some(args.input.resolve_here()?),
    };
    let capacity = capacity(&args)?;
    if let Some(spec) = &spec {
        let problems = what_cannot_run(spec, &capacity);
        if !problems.is_empty() {
            return Err(args.input.placed(problems).into());
        }
    }
    access::refuse_folder_of_user(&args.dir)?;
    refuse_company(&args.dir).await?;
    let is_new = args.dir.symlink_metadata().is_err();
    logging::start(None)?;
    let result = run_in_folder(&args, (spec, stages), &capacity, &mut interrupts).await;
    if is_new && result.is_err() {
        remove_unused(&args.dir).await;
    }
    result
}

/// Removes the folder that this run has made, if it has got no job: later commands would take it for that of a run.
/// What cannot be removed does no harm.
async fn remove_unused(folder: &Path) {
    if !folder.join(STORE_FILE).exists() {
        let _ = std::fs::remove_file(folder.join(".gitignore"));
        let _ = std::fs::remove_dir(folder);
        return;
    }
    let Ok((manager, client)) = in_process::open_store(folder.to_owned()).await else { return };
    if client.jobs().await.is_ok_and(|jobs| jobs.is_empty()) {
        // Nobody else can begin to use it before the manager is closed.
        let _ = std::fs::remove_dir_all(folder);
    }
    manager.close().await;
}

async fn run_in_folder(
    args: &RunArgs,
    (spec, stages): (Option<JobSpec>, Option<WorkflowSpec>),
    capacity: &Resources,
    interrupts: &mut Interrupts,
) -> Result<Outcome, Failure> {
    let config = config(&args.dir, capacity.clone())?;
    let work = match (spec, stages) {
        (Some(mut spec), _) => {
            let sources = Sources::read(&mut spec)?;
            let submission_key = Some(key::submission_key(&spec, &config.folder, args.fresh)?);
            Work::Job(Box::new(SubmitRequest { submission_key, spec }), sources)
        }
        (None, Some(stages)) => Work::Workflow(workflow::request(args, stages, capacity)?),
        (None, None) => return Err(Failure::bad_input("found nothing to run")),
    };
    // Until the pilot has something to do, an interruption has nothing to save.
    let starting = tokio::time::timeout(START_LIMIT, in_process::start(config));
    let (mut manager, client) = tokio::select! {
        started = starting => match started {
            Ok(started) => started?,
            Err(_) => return Err(Failure::infrastructure("the manager does not start")),
        },
        _ = interrupts.next() => return Ok(Outcome::Interrupted),
    };
    let mut session = Session { client: &client, manager: &mut manager, interrupts };
    let result = match &work {
        Work::Job(request, sources) => in_session(args, (request, sources), capacity, &mut session).await,
        Work::Workflow(request) => workflow::in_session(args, request, &mut session).await,
    };
    Session::end(manager, &client, interrupts).await;
    result
}

/// What is run.
enum Work {
    Job(Box<SubmitRequest>, Sources),
    Workflow((WorkflowRequest, Vec<Sources>)),
}

async fn in_session(
    args: &RunArgs,
    (request, sources): (&SubmitRequest, &Sources),
    capacity: &Resources,
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let (before, news, mut latecomers) = tokio::select! {
        before = submit(args, (request, sources), session.client) => before?,
        _ = session.interrupts.next() => return Ok(Outcome::Interrupted),
    };
    let how_on = "the same command goes on, --fresh begins anew";
    let Some(job) = follow(args, session, (&before, news), how_on).await? else {
        return Ok(Outcome::Interrupted);
    };
    let how = Fetching {
        is_quiet: args.quiet || args.json,
        overwrites: args.overwrite,
        claims: &Claims::default(),
    };
    let fetched = staging::fetch_home(session.client, job.id, &request.spec, how).await;
    report(args, &before, &job, Span(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)));
    fetched?;
    let mut outcome = wait::outcome(&[job]);
    while let Some(late) = latecomers.next(session.client, capacity).await? {
        let how_on = format!("go on with `pilotfish resume {}{}` during another run", late.id, place(args));
        let job = if late.ended_at.is_some() {
            Some(late)
        } else {
            follow(args, session, (&late, None), &how_on).await?
        };
        let Some(job) = job else { return Ok(Outcome::Interrupted) };
        if !args.quiet || job.counts.failed > 0 {
            show::say(&end_line(&job));
        }
        if !args.quiet {
            warn_of_lost_output(&job);
        }
        if job.counts.failed > 0 {
            // It has no `run` of its own that could be given again.
            show::say(&format!(
                "what failed of job {} runs again by `pilotfish retry-failed {}{}` while another run works, or `pilotfish serve --dir {}`",
                job.id,
                job.id,
                place(args),
                quoted(&args.dir.display().to_string())
            ));
            outcome = Outcome::TasksFailed;
        }
    }
    Ok(outcome)
}

/// Shows how a job goes until it is over; `None` when the user stopped it before, who is then told
/// how to go on.
async fn follow(
    args: &RunArgs,
    session: &mut Session<'_>,
    (before, news): (&JobView, Option<EventStream>),
    how_on: &str,
) -> Result<Option<JobView>, Failure> {
    let mut progress = Progress::new(if args.quiet { Verbosity::Failures } else { Verbosity::All });
    let end = session.follow(before.id, news, &mut progress).await;
    progress.finish(&place(args));
    match end? {
        // News of all jobs do not say what of their output was kept.
        End::Over(job) => Ok(Some(session.client.job(before.id).await.unwrap_or(*job))),
        End::Stopped => {
            let last = progress.last().unwrap_or(before);
            let n_left = last.counts.total.saturating_sub(n_ended(last));
            show::say(&format!("interrupted with {} left; {how_on}", counted(n_left, "task")));
            Ok(None)
        }
    }
}

fn capacity(args: &RunArgs) -> Result<Resources, Failure> {
    let mut capacity = in_process::host_capacity();
    match args.jobs {
        Some(0) => return Err(Failure::bad_input("--jobs: found 0; give at least 1 core")),
        Some(n_cores) => capacity.cores = n_cores,
        None => {}
    }
    capacity.generic.extend(in_process::offered("--offer", &args.offer)?);
    Ok(capacity)
}

/// What would wait for ever, or is not here.
fn what_cannot_run(spec: &JobSpec, capacity: &Resources) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut compare = |path: &str, needed: u64, there: u64, shown: &str, hint: &str| {
        if needed > there {
            problems.push(Problem::new(path, shown, hint));
        }
    };
    let (cores, gpus) = (capacity.cores, capacity.gpus);
    compare(
        "resources.cores",
        spec.cores.into(),
        cores.into(),
        &counted(spec.cores.into(), "core"),
        &format!("a task can have at most {cores} here; -j N allows more"),
    );
    compare(
        "resources.gpus",
        spec.gpus.into(),
        gpus.into(),
        &counted(spec.gpus.into(), "GPU"),
        &format!("this machine has {gpus}"),
    );
    let memory = capacity.memory_bytes;
    let found = show_bytes(spec.memory_bytes);
    let hint = format!("a task can have at most {} here", show::format::bytes(memory));
    // 0: how much there is could not be found out.
    compare(
        "resources.memory",
        spec.memory_bytes,
        if memory == 0 { u64::MAX } else { memory },
        &found,
        &hint,
    );
    for (name, amount) in &spec.generic {
        let there = capacity.generic.get(name).copied().unwrap_or(0);
        let hint = format!("there are {there} here; say how many there are with --offer {name}=N");
        compare(&format!("resources.generic.{name}"), *amount, there, &amount.to_string(), &hint);
    }
    for (field, place) in spec.places_in_stores() {
        let hint = "a `run` has no stores; submit the job to a manager whose configuration names the store";
        problems.push(Problem::new(field, format!("`{place}`"), hint));
    }
    problems
}

/// Two managers cannot have one folder.
async fn refuse_company(folder: &Path) -> Result<(), Failure> {
    let Standing::Live(client) = access::standing(folder).await else { return Ok(()) };
    Err(Failure::infrastructure(format!(
        "a manager is running in {} (process {}); wait for it, give it this job with `pilotfish submit`, or use another folder with --dir",
        show_path(folder),
        client.access().pid
    )))
}

fn config(folder: &Path, capacity: Resources) -> Result<Config, Failure> {
    let mut config = in_process::config(folder.to_owned())?;
    let mut platform = in_process::local_platform(capacity, 1, IDLE_TIMEOUT);
    platform.poll_interval = POLL_INTERVAL;
    config.platforms = vec![(platform, Default::default())];
    config.pilots_die_with_us = true;
    // Who copies a folder with its run wants to go on there, and its pilots are none of the copy's.
    config.elsewhere = Elsewhere::Copy;
    config.settings.grace = GRACE;
    Ok(config)
}

/// Submits the job, or finds it again, and sets it going; gives its state before that, news of a new one
/// from its beginning on, and who else is there.
async fn submit(
    args: &RunArgs,
    (request, sources): (&SubmitRequest, &Sources),
    client: &Client,
) -> Result<(JobView, Option<EventStream>, Latecomers), Failure> {
    company::pause_all(client).await?;
    sources.bring(client).await?;
    // What fails at once is over before anybody could ask for news of it.
    let news = client.all_events().await?;
    let submitted = client.submit(request).await?;
    access::last::remember_run(&args.dir, Some(submitted.job));
    let place = (!args.quiet).then(|| place(args));
    let latecomers = company::tell_paused(client, &BTreeSet::from([submitted.job]), place.as_deref()).await?;
    let before = client.job(submitted.job).await?;
    if !submitted.is_repeat {
        if !args.fresh && (!args.quiet || args.retry_failed) {
            company::tell_changed(client, &before, retries(args)).await?;
        }
        return Ok((before, Some(news), latecomers));
    }
    if before.state == "paused" {
        client.change(before.id, "resume", None).await?;
    }
    let counts = &before.counts;
    let n_lost = counts.failed.saturating_add(counts.cancelled);
    if args.retry_failed && n_lost > 0 {
        // Named tasks are opened also when they were cancelled, as they are after too many failures.
        let all = format!("0-{}", counts.total.saturating_sub(1));
        client.change(before.id, "retry", Some(all)).await?;
        return Ok((client.job(before.id).await?, None, latecomers));
    }
    // That nothing runs, and results are those of before, is no news of progress.
    if n_ended(&before) > 0 && (!args.quiet || n_lost > 0 || before.ended_at.is_some()) {
        let hint = match (before.ended_at.is_some(), n_lost) {
            (_, n @ 1..) => format!(", {} failed or cancelled; --retry-failed runs those again", count(n)),
            (true, 0) => "; --fresh runs it again".to_owned(),
            (false, 0) => String::new(),
        };
        let done = format!("{} of {} tasks are done", count(counts.done), count(counts.total));
        show::say(&format!("going on with job {}: {done}{hint}", before.id));
    }
    Ok((before, None, latecomers))
}

fn report(args: &RunArgs, before: &JobView, job: &JobView, elapsed: Span) {
    let n_run = |job: &JobView| job.counts.done.saturating_add(job.counts.failed);
    let n_run_here = n_run(job).saturating_sub(n_run(before));
    let text = match (args.json, args.quiet) {
        (true, _) => json_with_units(job).unwrap_or_default(),
        (false, true) => String::new(),
        (false, false) => summary(job, elapsed, n_run_here, &Screen::stdout()),
    };
    // The exit code tells how the job went, also when nobody reads this any more.
    let _ = show::print(&text);
    if !args.quiet {
        warn_of_lost_output(job);
    }
    if job.counts.failed > 0 && !args.quiet {
        let place = place(args);
        show::say(&format!(
            "{} failed; see `pilotfish tasks {}{place} --failed` and `pilotfish logs {} --failed{place}`",
            counted(job.counts.failed, "task"),
            job.id,
            job.id
        ));
    }
}

/// The flag that other commands need to find this run.
fn place(args: &RunArgs) -> String {
    place_of(&args.dir, access::folder_of_environment())
}

/// The same of a folder, where they look first into a named one.
fn place_of(dir: &Path, named: Option<PathBuf>) -> String {
    if dir == named.unwrap_or_else(|| RUN_FOLDER.into()) {
        String::new()
    } else {
        format!(" --dir {}", quoted(&dir.display().to_string()))
    }
}

/// The folder of this run, if what failed there is to run again.
fn retries(args: &RunArgs) -> Option<&Path> {
    args.retry_failed.then_some(args.dir.as_path())
}

fn n_ended(job: &JobView) -> u64 {
    let counts = &job.counts;
    counts.done.saturating_add(counts.failed).saturating_add(counts.cancelled)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use protocol::job::Input;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RunArgs,
    }

    fn parsed(words: &[&str]) -> RunArgs {
        Line::try_parse_from(["run"].iter().chain(words)).ok().unwrap().args
    }

    #[test]
    fn what_needs_more_than_there_is_is_told_where_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let capacity = Resources { cores: 2, memory_bytes: 1 << 30, ..Resources::default() };
        let refused = |words: &[&str]| -> Vec<String> {
            let args = parsed(words);
            let spec = args.input.resolve_here().unwrap();
            let problems = args.input.placed(what_cannot_run(&spec, &capacity));
            problems.iter().map(ToString::to_string).collect()
        };
        let job = write(
            "job.yaml",
            "command: ['true']\nname: x\nresources:\n  memory: 30GB\n  cores: 4\n  generic: {licence: 1}\n",
        );
        assert_eq!(
            refused(&[&job]),
            [
                format!("{job}:4: resources.memory: found 30GB; a task can have at most 1.0 GiB here"),
                format!(
                    "{job}:5: resources.cores: found 4 cores; a task can have at most 2 here; -j N allows more"
                ),
                format!(
                    "{job}:6: resources.generic.licence: found 1; there are 0 here; say how many there are with \
                     --offer licence=N"
                ),
            ]
        );
        let cores = "--cores: found 99 cores; a task can have at most 2 here; -j N allows more";
        assert_eq!(refused(&["--cores", "99", "--", "true"]), [cores]);
        let said = refused(&[&job, "--cores", "99", "--memory", "1GiB"]);
        assert_eq!((said[0].as_str(), said.len()), (cores, 2), "the flag goes before the file");
        assert!(said[1].starts_with(&format!("{job}:6: ")), "{said:?}");

        let stages = "resources: {gpus: 1}\nstages:\n  a: {command: ['true']}\n  b:\n    command: ['true']\n    \
            resources: {cores: 8}\n    after: a\n";
        let flow = write("flow.yaml", stages);
        let args = parsed(&[&flow]);
        let stages = args.input.workflow().unwrap().unwrap();
        let said = workflow::request(&args, stages, &capacity).map(|_| ()).unwrap_err().message();
        let expected = format!(
            "{flow}:1: resources.gpus: found 1 GPU; this machine has 0; \
             {flow}:6: stages.b.resources.cores: found 8 cores; a task can have at most 2 here; -j N allows more"
        );
        assert_eq!(said, expected);
    }

    #[test]
    fn places_in_stores_are_none_of_a_run() {
        let args = parsed(&["--", "true"]);
        let mut spec = args.input.resolve_here().ok().unwrap();
        spec.inputs.push(Input { from: "store://lab/a.txt".into(), to: "a.txt".into(), ..Input::default() });
        let said: Vec<String> =
            what_cannot_run(&spec, &Resources::cores(2)).iter().map(ToString::to_string).collect();
        let expected = "inputs[0].from: found `store://lab/a.txt`; a `run` has no stores; submit the job to a manager whose \
                        configuration names the store";
        assert_eq!(said, [expected]);
    }

    #[tokio::test]
    async fn a_folder_that_a_run_has_made_goes_if_it_has_got_no_job() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("run");
        // Without a platform no pilot is started.
        let begin = async || {
            let config =
                Config { platforms: Vec::new(), ..config(&folder, Resources::cores(1)).ok().unwrap() };
            in_process::start(config).await.ok().unwrap()
        };
        let (manager, _) = begin().await;
        manager.close().await;
        remove_unused(&folder).await;
        assert!(!folder.exists());
        let (manager, client) = begin().await;
        let spec = parsed(&["--", "true"]).input.resolve_here().ok().unwrap();
        client.submit(&SubmitRequest { submission_key: None, spec }).await.unwrap();
        manager.close().await;
        remove_unused(&folder).await;
        assert!(folder.join(STORE_FILE).is_file());
        let other = base.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("mine"), "").unwrap();
        remove_unused(&other).await;
        assert!(other.join("mine").exists());
    }

    #[test]
    fn a_run_is_named_where_other_commands_look_elsewhere() {
        let named = || Some(PathBuf::from("state"));
        assert_eq!(place_of(Path::new(RUN_FOLDER), None), "");
        assert_eq!(place_of(Path::new(RUN_FOLDER), named()), " --dir .pilotfish");
        assert_eq!(place_of(Path::new("state"), named()), "");
        assert_eq!(place_of(Path::new("state"), None), " --dir state");
    }
}
