//! Workflows: several jobs of which some wait for others, kept as a whole or not at all.

use std::collections::BTreeSet;

use axum::{body::Bytes, extract::State, http::StatusCode, response::Response};
use protocol::{
    api::{StageSubmitted, WorkflowRequest, WorkflowSubmitted},
    codec::Format,
    job::{AfterSpec, OnSpec, Problem, StageSpec},
};
use scheduler::engine::interface::{Answer, Event, JobRequest, On, Stage};

use crate::api::http::{
    census,
    error::{ApiError, json},
    extract::{LargeBody, User},
};
use crate::api::{
    Context, Shared,
    admission::Addition,
    blocking,
    jobs::{check_files, check_key, request_of, to_keep},
};
use crate::files::{objects::Objects, stores::Stores};

/// Keeps all jobs of a workflow. Costs the size of the jobs and of listed edges, not of sweeps.
pub(in crate::api) async fn submit(
    State(context): State<Shared>,
    user: User,
    LargeBody(body): LargeBody,
) -> Result<Response, ApiError> {
    let files = (context.objects.clone(), context.state.stores.clone());
    let name = user.name.clone();
    let Submission { names, paths, mut stages } =
        blocking(move || read_submission(&body.bytes, &name, &files)).await?;
    check_awaited(&context, &user, &paths, &stages).await?;
    let key = stages.first().and_then(|stage| stage.job.submission_key.as_deref());
    let _admitted = context.admit(&user, Addition::of(stages.iter().map(|stage| &stage.job)), key).await?;
    let priority_over_all = context.state.quotas.of(&user).is_priority_over_all;
    stages.iter_mut().for_each(|stage| stage.job.priority_over_all = priority_over_all);
    let sizes: Vec<u64> = stages.iter().map(|stage| stage.job.n_tasks).collect();
    let event = |request| Event::WorkflowSubmitted { request, stages };
    match context.state.handle.ask(event).await? {
        Answer::WorkflowSubmitted { jobs, is_repeat } => {
            if !is_repeat {
                tracing::info!(n_jobs = jobs.len(), n_tasks = sizes.iter().sum::<u64>(), "workflow accepted");
            }
            let stages = names.into_iter().zip(jobs).zip(sizes);
            let stages = stages.map(|((name, job), n_tasks)| StageSubmitted { name, job, n_tasks }).collect();
            Ok(json(StatusCode::CREATED, &WorkflowSubmitted { stages, is_repeat }))
        }
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// Who waits for a job learns how each of its tasks ends: it must be the user's own. Another's is answered as one
/// that is not there.
async fn check_awaited(
    context: &Context,
    user: &User,
    paths: &[String],
    stages: &[Stage],
) -> Result<(), ApiError> {
    let mut awaited = BTreeSet::new();
    for (path, stage) in paths.iter().zip(stages) {
        for (on, _) in &stage.after {
            let On::Job(id) = *on else { continue };
            if !awaited.insert(id) {
                continue;
            }
            match context.own_job(user, id).await {
                Ok(_) => {}
                Err(error) if matches!(error.code, "no-such-job" | "not-yours") => {
                    let found = format!("job {id}, which is none of yours");
                    let expected = "name a job of your own: `pilotfish jobs` lists everybody's";
                    let problem = Problem::new(path.as_str(), found, expected);
                    return Err(ApiError::bad_job(&[problem]));
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A workflow after all checks.
struct Submission {
    /// The names of its stages.
    names: Vec<String>,
    /// The paths of their fields `after` in the user's file.
    paths: Vec<String>,
    /// The stages as the engine takes them.
    stages: Vec<Stage>,
}

/// The stages as the engine takes them, after all checks.
fn read_submission(body: &Bytes, user: &str, files: &(Objects, Stores)) -> Result<Submission, ApiError> {
    census::check(body)?;
    let WorkflowRequest { mut workflow, submission_key } = Format::Json.decode(body)?;
    check_key(submission_key.as_deref())?;
    let problems = workflow.validate();
    if !problems.is_empty() {
        return Err(ApiError::bad_job(&problems));
    }
    workflow.stages.iter().try_for_each(|stage| check_files(&stage.job, user, files))?;
    workflow.mark_taken();
    let names = workflow.stages.iter().map(|stage| stage.name.clone()).collect();
    let paths = (0..workflow.stages.len()).map(|at| workflow.after_path(at)).collect();
    let key = |at: usize| submission_key.as_ref().map(|key| format!("{user}\n{key}\n{at}"));
    let stages = workflow.stages.into_iter().enumerate();
    let stages = stages.map(|(at, stage)| read_stage(stage, user, key(at)));
    Ok(Submission { names, paths, stages: stages.collect::<Result<_, _>>()? })
}

fn read_stage(stage: StageSpec, user: &str, submission_key: Option<String>) -> Result<Stage, ApiError> {
    let StageSpec { job, after, on_failed_dependency, .. } = stage;
    let (job, text) = to_keep(job)?;
    let job = request_of(job, user.to_owned(), text);
    let edges = |AfterSpec { on, edges }| match on {
        OnSpec::Stage(at) => (On::Stage(at), edges),
        OnSpec::Job(job) => (On::Job(job), edges),
    };
    let after = after.into_iter().map(edges).collect();
    Ok(Stage { job: JobRequest { submission_key, on_failed_dependency, ..job }, after })
}
