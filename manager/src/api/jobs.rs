//! Jobs: submitted, listed, shown, changed.

pub(crate) mod workflows;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
};

use axum::{
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use protocol::{
    api::{Changed, Jobs, ProfilingRequest, PurgeRequest, SubmitRequest, Submitted, TaskSelection},
    codec::Format,
    job::{JobSpec, Problem, limits::SPEC_BYTES_MAX},
};
use scheduler::{
    engine::interface::{Answer, Caller, Event, JobChange, JobRequest, Query},
    ids::JobId,
    pull::{Staging, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    time::Span,
};

use super::{Context, Shared, admission::Addition, blocking};
use crate::api::{
    files::objects::check_objects,
    http::{
        census,
        error::{ApiError, json},
        extract::{InBody, InPath, LargeBody, User},
    },
};
use crate::files::{objects::Objects, stores::Stores};

/// Bytes of a submission key.
const KEY_BYTES_MAX: usize = 200;
/// Ranges in one selection of tasks.
const N_RANGES_MAX: usize = 100_000;

/// Keeps a job. Costs the size of the job, not of its sweep.
pub(super) async fn submit(
    State(context): State<Shared>,
    user: User,
    LargeBody(body): LargeBody,
) -> Result<Response, ApiError> {
    let files = (context.objects.clone(), context.state.stores.clone());
    let (quota, owner) = (context.state.quotas.of(&user), user.clone());
    let job = blocking(move || read_submission(&body.bytes, owner, &files)).await?;
    let _admitted = context.admit(&user, Addition::of([&job]), job.submission_key.as_deref()).await?;
    let job = JobRequest { priority_over_all: quota.is_priority_over_all, ..job };
    let n_tasks = job.n_tasks;
    let event = |request| Event::JobSubmitted { request, job: Box::new(job) };
    match context.state.handle.ask(event).await? {
        Answer::Submitted { job, is_repeat } => {
            if !is_repeat {
                tracing::info!(%job, n_tasks, "job accepted");
            }
            Ok(json(StatusCode::CREATED, &Submitted { job, n_tasks, is_repeat }))
        }
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// All jobs.
pub(super) async fn list(State(context): State<Shared>, _user: User) -> Result<Response, ApiError> {
    match context.query(Query::Jobs).await? {
        Answer::Jobs(jobs) => Ok(json(StatusCode::OK, &Jobs { jobs })),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// One job.
pub(super) async fn show(
    State(context): State<Shared>,
    _user: User,
    InPath(id): InPath<JobId>,
) -> Result<Response, ApiError> {
    let mut view = context.job(id).await?;
    context.tell_output(&mut view).await?;
    Ok(json(StatusCode::OK, &view))
}

/// What the job runs.
pub(super) async fn spec(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
) -> Result<Response, ApiError> {
    context.own_job(&user, id).await?;
    let spec = context.spec(id).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], spec.to_string()).into_response())
}

/// Cancels all that is open, or some tasks.
pub(super) async fn cancel(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InBody(selection): InBody<TaskSelection>,
) -> Result<Response, ApiError> {
    change(&context, user, id, JobChange::Cancel(selected(&selection)?)).await
}

/// Begins nothing more.
pub(super) async fn pause(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
) -> Result<Response, ApiError> {
    change(&context, user, id, JobChange::Pause).await
}

/// Goes on.
pub(super) async fn resume(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
) -> Result<Response, ApiError> {
    change(&context, user, id, JobChange::Resume).await
}

/// Opens failed tasks again, or some that failed or were cancelled.
pub(super) async fn retry(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InBody(selection): InBody<TaskSelection>,
) -> Result<Response, ApiError> {
    let tasks = selected(&selection)?;
    let view = context.own_job(&user, id).await?;
    let n_closed = view.counts.failed.saturating_add(view.counts.cancelled);
    let n_tasks = tasks.as_ref().map_or(view.counts.failed, |tasks| tasks.len().min(n_closed));
    let addition = Addition { n_jobs: u64::from(view.ended_at.is_some()), n_tasks, value_bytes: 0 };
    let _admitted = context.admit(&user, addition, None).await?;
    change(&context, user, id, JobChange::Retry(tasks)).await
}

/// Runs tasks of a job once more, for a profiling run. None is tried twice, and the first failure ends it.
pub(super) async fn profile(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InBody(ProfilingRequest { platform, slots, tasks }): InBody<ProfilingRequest>,
) -> Result<Response, ApiError> {
    for (field, found) in [("slots", slots), ("tasks", tasks)] {
        if found == 0 {
            return Err(ApiError::bad_request(format!("{field}: found 0; write 1 or more")));
        }
    }
    context.own_job(&user, id).await?;
    let text = context.spec(id).await?;
    let spec: JobSpec = serde_json::from_str(&text).map_err(|e| ApiError::damaged(id, &e.to_string()))?;
    if spec.inputs.iter().any(|input| !input.after.is_empty()) {
        let message = format!("the tasks of job {id} take files of others, so they cannot run alone");
        return Err(ApiError::bad_request(message));
    }
    let priority_over_all = context.state.quotas.of(&user).is_priority_over_all;
    let (spec, text) = to_keep(spec)?;
    let job = request_of(spec, user.name.clone(), text);
    let job = JobRequest {
        priority_over_all,
        name: format!("profiling {} on {platform}", job.application),
        n_tasks: job.n_tasks.min(tasks),
        retries: 0,
        max_failures: Some(0),
        ..job
    };
    let _admitted = context.admit(&user, Addition::of([&job]), None).await?;
    let n_tasks = job.n_tasks;
    let event = |request| Event::ProfilingAsked { request, job: Box::new(job), platform, n_slots: slots };
    match context.state.handle.ask(event).await? {
        Answer::Submitted { job, is_repeat } => {
            Ok(json(StatusCode::CREATED, &Submitted { job, n_tasks, is_repeat }))
        }
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// Removes a job that is over.
pub(super) async fn purge(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InBody(PurgeRequest { with }): InBody<PurgeRequest>,
) -> Result<Response, ApiError> {
    change(&context, user, id, JobChange::Purge(with)).await
}

async fn change(context: &Context, user: User, job: JobId, change: JobChange) -> Result<Response, ApiError> {
    let caller = Caller { user: user.name, is_operator: user.is_operator };
    match context.state.handle.ask(|request| Event::JobChangeAsked { request, caller, job, change }).await? {
        Answer::Changed { n_tasks, n_stale } => Ok(json(StatusCode::OK, &Changed { n_tasks, n_stale })),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// The job as the engine takes it, after all checks: no client is trusted.
fn read_submission(body: &Bytes, user: User, files: &(Objects, Stores)) -> Result<JobRequest, ApiError> {
    census::check(body)?;
    let SubmitRequest { spec, submission_key } = Format::Json.decode(body)?;
    check_key(submission_key.as_deref())?;
    let problems = spec.validate();
    if !problems.is_empty() {
        return Err(ApiError::bad_job(&problems));
    }
    if let Some(n) = spec.inputs.iter().position(|input| !input.after.is_empty()) {
        let problem = Problem::new(
            format!("inputs[{n}]"),
            "a file of another task",
            "only the stages of a workflow take such: submit it as one",
        );
        return Err(ApiError::bad_job(&[problem]));
    }
    check_files(&spec, &user.name, files)?;
    // Two users may well draw the same key.
    let submission_key = submission_key.map(|key| format!("{}\n{key}", user.name));
    let (spec, text) = to_keep(spec)?;
    Ok(JobRequest { submission_key, ..request_of(spec, user.name, text) })
}

/// The job as it is kept, and as text.
pub(super) fn to_keep(mut spec: JobSpec) -> Result<(JobSpec, Arc<str>), ApiError> {
    // Not a secret: what the hasher draws will do.
    spec.drawn = match spec.has_unknown_files() {
        true => RandomState::new().build_hasher().finish().max(1),
        false => 0,
    };
    let text = serde_json::to_string(&spec).map_err(|error| ApiError::broken(&error))?;
    if text.len() > SPEC_BYTES_MAX {
        return Err(ApiError::too_large(SPEC_BYTES_MAX));
    }
    Ok((spec, text.into()))
}

/// The files of a job that is right otherwise: those that travel are here, and stores are known.
pub(super) fn check_files(
    spec: &JobSpec,
    user: &str,
    (objects, stores): &(Objects, Stores),
) -> Result<(), ApiError> {
    if let Some(problem) = stores.problem(&spec.stores(), user) {
        return Err(ApiError::bad_request(problem));
    }
    let mut problems = spec.validate_objects();
    problems.extend(spec.validate_to_submit());
    if !problems.is_empty() {
        return Err(ApiError::bad_job(&problems));
    }
    check_objects(objects, spec.objects())
}

/// A submission key is no longer than it may be.
pub(super) fn check_key(key: Option<&str>) -> Result<(), ApiError> {
    match key.map(str::len).filter(|found| *found > KEY_BYTES_MAX) {
        Some(found) => Err(ApiError::bad_request(format!(
            "found a submission_key of {found} bytes; at most {KEY_BYTES_MAX} are allowed"
        ))),
        None => Ok(()),
    }
}

/// The part of a job that decisions use, and the whole as text.
pub(super) fn request_of(spec: JobSpec, user: String, text: Arc<str>) -> JobRequest {
    let staging = Staging { inputs: !spec.inputs.is_empty(), outputs: !spec.outputs.is_empty() };
    JobRequest {
        user,
        // It was checked that there are such numbers.
        estimates: spec.estimates().unwrap_or_default(),
        n_tasks: spec.sweep.n_tasks(),
        needs: TaskNeeds {
            resources: Resources {
                cores: spec.cores,
                memory_bytes: spec.memory_bytes,
                gpus: spec.gpus,
                generic: spec.generic,
                widest: 0,
            },
            time_limit: spec.time_limit_ms.map(Span::from_millis),
            success_codes: spec.success_codes,
            staging,
        },
        name: spec.name,
        application: spec.application,
        priority: spec.priority,
        priority_over_all: false,
        retries: spec.retries.count,
        retry_delay: Span::from_millis(spec.retries.delay_ms),
        crash_limit: spec.crash_limit,
        max_failures: spec.max_failures,
        submission_key: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: text,
    }
}

fn selected(selection: &TaskSelection) -> Result<Option<TaskSet>, ApiError> {
    selection.tasks.as_deref().map(|text| parse_tasks(text).map_err(ApiError::bad_request)).transpose()
}

/// A set of tasks as people write it: `0-9,12,20-29`, both ends included.
pub(super) fn parse_tasks(text: &str) -> Result<TaskSet, String> {
    if text.split(',').count() > N_RANGES_MAX {
        return Err(format!("tasks: found more than {N_RANGES_MAX} ranges; select fewer at a time"));
    }
    let mut tasks = TaskSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            // The end of the last range must be a number too.
            text.trim().parse().ok().filter(|index: &u64| *index < u64::MAX).ok_or_else(|| {
                format!("tasks: found `{}`; write indices and ranges like 0-9,12", part.trim())
            })
        };
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("tasks: found `{}`; a range begins with its smaller end", part.trim()));
        }
        tasks.insert_range(first..last + 1);
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::parse_tasks;

    #[test]
    fn selections_are_read_as_sets_are_shown() {
        for text in ["0", "0-9,12,20-29", "0-999999999999"] {
            assert_eq!(parse_tasks(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_tasks(" 5 - 7 , 6-9").unwrap().to_string(), "5-9");
        assert_eq!(parse_tasks("0-18446744073709551614").unwrap().len(), u64::MAX);
    }

    #[test]
    fn bad_selections_are_refused_with_the_part_that_is_wrong() {
        for text in ["", "a", "1,,2", "-3", "3-", "1-2-3", "18446744073709551615", "1.5"] {
            let error = parse_tasks(text).unwrap_err();
            assert!(error.contains("write indices and ranges like 0-9,12"), "{text}: {error}");
        }
        let error = parse_tasks("1,9-3").unwrap_err();
        assert_eq!(error, "tasks: found `9-3`; a range begins with its smaller end");
        assert!(parse_tasks(&"1,".repeat(200_000)).unwrap_err().contains("more than 100000 ranges"));
    }
}
