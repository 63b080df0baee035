//! `pilotfish profile`: what applications take alone and beside each other, measured on nodes that are nobody else's
//! (paper 000, section 4).

mod stages;
mod tables;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use clap::Args;
use protocol::job::nearest;
use scheduler::{
    engine::interface::{
        PlatformMode,
        views::{JobView, PlatformView},
    },
    ids::JobId,
};
use tokio::task::JoinSet;

use crate::{
    access,
    client::{Client, ClientError},
    failure::{Failure, Outcome},
    show,
    sys::interrupts::Interrupts,
    view::ViewArgs,
};
use stages::{End, Measurement, Site, Subject};

/// Applications in one run at most: with each more there are as many more pairs.
const N_SUBJECTS_MAX: usize = 6;

const EXAMPLES: &str = "\
Examples:
  pilotfish profile vina                  by itself, on all platforms
  pilotfish profile vina blastn --platforms cluster
      # and beside each other
  pilotfish profile 3 7 --tasks 8 --json  what jobs 3 and 7 run

The first tasks of each application's newest job (or of the job that you name)
run once more, on one node of each platform, where nothing else runs meanwhile:
one alone (OneCore), as many as fit (AllCore), then two and four applications
side by side. They write the same files again. The times are kept with those of
all other tasks (`pilotfish profiles show`), and policies use them. Ctrl-C ends
the run; what was measured stays.

TASKS/H is for one task alone on a node. EPA compares a platform with the
application's other platforms, RPA also with the other applications of the run:
above 1 is better than elsewhere. DEGREE: how many tasks at a time a node gains
from.";

/// Tasks of each combination at most.
const N_TASKS_MAX: u64 = 10_000;

/// What is to be measured.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ProfileArgs {
    /// Which: applications whose jobs the manager knows, or numbers of jobs
    #[arg(value_name = "APPLICATION", required = true)]
    subjects: Vec<String>,
    /// On these platforms [default: all active ones]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    platforms: Vec<String>,
    /// How many tasks of each to measure in each combination
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_n_tasks)]
    tasks: u64,
    #[command(flatten)]
    view: ViewArgs,
}

fn parse_n_tasks(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=N_TASKS_MAX).contains(number));
    number.ok_or_else(|| format!("write a whole number from 1 to {N_TASKS_MAX}"))
}

/// Measures.
///
/// # Errors
/// Nothing is known of an application or a platform, a refusal, or no manager.
pub async fn run(args: ProfileArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let (client, folder) = access::find_for_jobs(&args.view.place).await?;
    let jobs = client.jobs().await?;
    let subjects = Arc::new(subjects(&client, &jobs, &args.subjects).await?);
    let sites = sites(&client, &args.platforms).await?;
    check_alone(&jobs, &sites)?;
    access::last::remember_manager(&folder);
    let (open, stop) = (Arc::new(Mutex::new(BTreeSet::new())), Arc::new(AtomicBool::new(false)));
    let mut runs = JoinSet::new();
    for site in &sites {
        let measurement = Measurement {
            client: client.clone(),
            site: site.clone(),
            subjects: Arc::clone(&subjects),
            n_tasks: args.tasks,
            is_quiet: args.view.quiet,
            open: Arc::clone(&open),
            stop: Arc::clone(&stop),
        };
        runs.spawn(measurement.run());
    }
    let ended = tokio::select! {
        ended = all(&mut runs) => ended,
        _ = interrupts.next() => Ok(None),
    };
    // Whatever it was that ended it: nothing of it goes on. No run is cut off between a job and its number.
    stop.store(true, Ordering::Relaxed);
    let rest = async {
        while runs.join_next().await.is_some() {}
        cancel(&client, &open).await;
    };
    tokio::select! {
        () = rest => {}
        _ = interrupts.next() => {}
    }
    for job in open.lock().map(|open| open.clone()).unwrap_or_default() {
        show::say(&format!("job {job} may go on; `pilotfish cancel {job}` ends it"));
    }
    match ended? {
        Some(End::Measured) => {}
        Some(End::Failed(what)) => {
            show::say(&what);
            return Ok(Outcome::TasksFailed);
        }
        Some(End::Stopped) | None => {
            show::say("interrupted; what was measured so far is kept");
            return Ok(Outcome::Interrupted);
        }
    }
    let profiles = client.profiles().await?.profiles;
    let names: Vec<&str> = subjects.iter().map(|subject| subject.application.as_str()).collect();
    let places: Vec<&str> = sites.iter().map(|site| site.platform.as_str()).collect();
    let rows = tables::rows(&profiles, &names, &places);
    show::print(&if args.view.json { show::json(&rows)? } else { tables::render(&rows) })?;
    Ok(Outcome::Fine)
}

/// Until all have measured, or one cannot.
async fn all(runs: &mut JoinSet<Result<End, Failure>>) -> Result<Option<End>, Failure> {
    while let Some(ended) = runs.join_next().await {
        match ended.map_err(|error| Failure::infrastructure(format!("cannot go on: {error}")))?? {
            End::Measured => {}
            failed => return Ok(Some(failed)),
        }
    }
    Ok(Some(End::Measured))
}

async fn cancel(client: &Client, open: &Mutex<BTreeSet<JobId>>) {
    let jobs = open.lock().map(|open| open.clone()).unwrap_or_default();
    for job in jobs {
        if stages::is_cancelled(client, job).await
            && let Ok(mut open) = open.lock()
        {
            open.remove(&job);
        }
    }
}

/// Two runs of a user would be one on a platform, and measure nothing.
fn check_alone(jobs: &[JobView], sites: &[Site]) -> Result<(), Failure> {
    let is_of_run = |job: &&JobView| {
        job.ended_at.is_none()
            && sites
                .iter()
                .any(|site| job.name == format!("profiling {} on {}", job.application, site.platform))
    };
    match jobs.iter().find(is_of_run) {
        None => Ok(()),
        Some(JobView { id, name, .. }) => Err(Failure::bad_input(format!(
            "another run is under way (job {id}, {name}); wait for its end, or `pilotfish cancel {id}` if nobody does"
        ))),
    }
}

async fn subjects(client: &Client, jobs: &[JobView], names: &[String]) -> Result<Vec<Subject>, Failure> {
    if names.len() > N_SUBJECTS_MAX {
        let found = names.len();
        return Err(Failure::bad_input(format!(
            "found {found} applications; name {N_SUBJECTS_MAX} at most in one run"
        )));
    }
    let mut subjects: Vec<Subject> = Vec::new();
    for name in names {
        let user = &client.access().user;
        let job = job_of(jobs, name, user)?;
        // Of others only operators may run something again.
        if job.user != *user {
            client.spec(job.id).await.map_err(|error| match error {
                ClientError::Refused { status, .. } if status == 403 && job.application == *name => {
                    let hint = "submit one, so that there is something to run";
                    Failure::bad_input(format!("{user} has no job of the application `{name}`; {hint}"))
                }
                other => other.into(),
            })?;
        }
        if subjects.iter().any(|subject| subject.application == job.application) {
            return Err(Failure::bad_input(format!("found {} twice; name each once", job.application)));
        }
        subjects.push(Subject {
            application: job.application.clone(),
            job: job.id,
            needs: job.needs.clone(),
        });
    }
    Ok(subjects)
}

/// The job of that number, or the newest of that application: the user's own before those of others.
fn job_of<'a>(jobs: &'a [JobView], name: &str, user: &str) -> Result<&'a JobView, Failure> {
    if let Ok(number) = name.parse() {
        let found = jobs.iter().find(|job| job.id == JobId(number));
        return found.ok_or_else(|| Failure::bad_input(format!("there is no job {number}")));
    }
    let of_application = jobs.iter().filter(|job| job.application == name);
    of_application.max_by_key(|job| (job.user == user, job.id)).ok_or_else(|| {
        let hint = match nearest(name, jobs.iter().map(|job| job.application.as_str())) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "submit one, so that there is something to run".to_owned(),
        };
        Failure::bad_input(format!("no job runs an application `{name}`; {hint}"))
    })
}

async fn sites(client: &Client, names: &[String]) -> Result<Vec<Site>, Failure> {
    let platforms = client.platforms().await?.platforms;
    let known = || platforms.iter().map(|platform| platform.name.as_str());
    let is_off = |platform: &PlatformView| platform.mode != PlatformMode::Active || !platform.is_attached;
    for name in names {
        match platforms.iter().find(|platform| platform.name == *name) {
            None => {
                let hint = match nearest(name, known()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are: {}", known().collect::<Vec<_>>().join(", ")),
                };
                return Err(Failure::bad_input(format!("there is no platform `{name}`; {hint}")));
            }
            Some(platform) if is_off(platform) => {
                let hint = format!("`pilotfish platform resume {name}` lets it go on");
                return Err(Failure::bad_input(format!(
                    "platform {name} is paused, drained or detached; {hint}"
                )));
            }
            Some(_) => {}
        }
    }
    let is_meant = |platform: &&PlatformView| {
        if names.is_empty() { !is_off(platform) } else { names.contains(&platform.name) }
    };
    let site = |platform: &PlatformView| Site {
        platform: platform.name.clone(),
        capacity: platform.capacity.clone(),
    };
    let sites: Vec<Site> = platforms.iter().filter(is_meant).map(site).collect();
    match sites.is_empty() {
        true => Err(Failure::bad_input("all platforms are paused, drained or detached")),
        false => Ok(sites),
    }
}
