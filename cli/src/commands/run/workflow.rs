//! `pilotfish run` of several jobs of which some wait for others.

use std::collections::BTreeSet;

use protocol::{
    api::WorkflowRequest,
    job::{Problem, StageSpec, WorkflowSpec},
};
use scheduler::{engine::interface::views::JobView, ids::JobId};

use super::{RunArgs, company, follow, key, n_ended, place, retries, session::Session, what_cannot_run};
use crate::{
    access::last,
    client::Client,
    commands::{
        job::wait,
        submit::workflow::{match_by_names, tell_unfetched},
    },
    failure::{Failure, Outcome},
    show::{
        self,
        format::{count, counted},
        job::{end_line, warn_of_lost_output},
        units::json_with_units,
    },
    staging::{self, Claims, Fetching, Sources},
};
use scheduler::resources::Resources;

/// The workflow as it is submitted, if all of it can run here.
///
/// # Errors
/// A stage that needs more than there is, or a folder that cannot be used.
pub(super) fn request(
    args: &RunArgs,
    mut workflow: WorkflowSpec,
    capacity: &Resources,
) -> Result<(WorkflowRequest, Vec<Sources>), Failure> {
    let of_stage = |stage: &StageSpec| {
        what_cannot_run(&stage.job, capacity)
            .into_iter()
            .map(|problem| stage.problem(problem))
            .collect::<Vec<_>>()
    };
    let problems: Vec<Problem> = workflow.stages.iter().flat_map(of_stage).collect();
    if !problems.is_empty() {
        return Err(args.input.placed(problems).into());
    }
    let mut sources = Vec::new();
    for stage in &mut workflow.stages {
        sources.push(Sources::read(&mut stage.job)?);
    }
    let submission_key = Some(key::submission_key(&workflow, &args.dir, args.fresh)?);
    Ok((WorkflowRequest { workflow, submission_key }, sources))
}

/// Submits the workflow, or finds it again, and follows its stages until all are over.
pub(super) async fn in_session(
    args: &RunArgs,
    (request, sources): &(WorkflowRequest, Vec<Sources>),
    session: &mut Session<'_>,
) -> Result<Outcome, Failure> {
    let jobs = tokio::select! {
        jobs = submit(args, (request, sources), session.client) => jobs?,
        _ = session.interrupts.next() => return Ok(Outcome::Interrupted),
    };
    let how_on = "the same command goes on, --fresh begins anew";
    let mut ended: Vec<JobView> = Vec::new();
    let (claims, mut unfetched) = (Claims::default(), None);
    for (id, stage) in jobs.into_iter().zip(&request.workflow.stages) {
        let before = session.client.job(id).await?;
        let Some(job) = follow(args, session, (&before, None), how_on).await? else {
            return Ok(Outcome::Interrupted);
        };
        let is_quiet = args.quiet || args.json;
        let how = Fetching { is_quiet, overwrites: args.overwrite, claims: &claims };
        if let Err(failure) = staging::fetch_home(session.client, id, &stage.job, how).await {
            // The stages behind it go on all the same.
            tell_unfetched(unfetched.replace(failure));
        }
        if !args.quiet {
            warn_of_lost_output(&job);
        }
        if !args.json && (!args.quiet || job.counts.failed > 0) {
            show::say(&format!("{}: {}", job.name, end_line(&job)));
        }
        ended.push(job);
    }
    if args.json {
        show::print(&json_with_units(&ended)?)?;
    }
    let n_failed: u64 = ended.iter().map(|job| job.counts.failed).sum();
    if n_failed > 0 && !args.quiet {
        let (which, place) =
            (ended.iter().find(|job| job.counts.failed > 0).map_or(0, |j| j.id.0), place(args));
        let failed = counted(n_failed, "task");
        show::say(&format!(
            "{failed} failed; see `pilotfish tasks {which}{place} --failed`; --retry-failed runs them again, and what waited for them"
        ));
    }
    match unfetched {
        Some(failure) => Err(failure),
        None => Ok(wait::outcome(&ended)),
    }
}

/// The numbers of its jobs, in order, which go on.
async fn submit(
    args: &RunArgs,
    (request, sources): (&WorkflowRequest, &[Sources]),
    client: &Client,
) -> Result<Vec<JobId>, Failure> {
    company::pause_all(client).await?;
    for sources in sources {
        sources.bring(client).await?;
    }
    let mut request = request.clone();
    match_by_names(client, &mut request.workflow).await?;
    let submitted = client.submit_workflow(&request).await?;
    let jobs: Vec<JobId> = submitted.stages.iter().map(|stage| stage.job).collect();
    last::remember_run(&args.dir, jobs.iter().copied().max());
    let own: BTreeSet<JobId> = jobs.iter().copied().collect();
    let place = (!args.quiet).then(|| place(args));
    company::tell_paused(client, &own, place.as_deref()).await?;
    if !submitted.is_repeat {
        if !args.fresh && args.retry_failed {
            for id in &jobs {
                if company::tell_changed(client, &client.job(*id).await?, retries(args)).await? {
                    break;
                }
            }
        }
        return Ok(jobs);
    }
    let (mut n_done, mut n_all, mut n_lost, mut n_stale) = (0, 0, 0, 0);
    for id in &jobs {
        let before = client.job(*id).await?;
        n_all += before.counts.total;
        n_done += n_ended(&before);
        n_lost += before.counts.failed + before.counts.cancelled;
        if before.state == "paused" {
            client.change(*id, "resume", None).await?;
        }
        // Stages before it come first: what waited for them is opened with them.
        let counts = client.job(*id).await?.counts;
        if args.retry_failed && counts.failed + counts.cancelled > 0 {
            let all = format!("0-{}", counts.total.saturating_sub(1));
            n_stale = n_stale.max(client.change(*id, "retry", Some(all)).await?.n_stale);
        }
    }
    if n_stale > 0 {
        let (stay, anew) = match n_stale {
            1 => ("stays as it is", "it"),
            _ => ("stay as they are", "them"),
        };
        show::say(&format!(
            "{} that ran without what failed {stay}; --fresh runs {anew} again, with all others",
            counted(n_stale, "done task")
        ));
    }
    // That nothing runs, and results are those of before, is no news of progress.
    if n_done > 0 && (!args.quiet || n_lost > 0 || n_done == n_all) {
        let first = jobs.first().map_or(0, |id| id.0);
        let lost = match (n_lost, args.retry_failed) {
            // Those run again.
            (n, true) => {
                n_done -= n;
                String::new()
            }
            (0, false) if n_done == n_all => "; --fresh runs them again".to_owned(),
            (0, false) => String::new(),
            (n, false) => format!(", {} failed or cancelled; --retry-failed runs those again", count(n)),
        };
        show::say(&format!(
            "going on with the workflow of job {first}: {} of {} tasks are over{lost}",
            count(n_done),
            count(n_all)
        ));
    }
    Ok(jobs)
}
