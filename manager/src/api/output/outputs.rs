//! What tasks wrote: many as JSON, one as it is.

use std::collections::BTreeSet;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use protocol::{
    api::{OutputRow, Outputs, OutputsQuery},
    follow::TaskRange,
    job::{Keep, Sink},
};
use scheduler::{
    engine::interface::{TaskFilter, views::TaskView},
    ids::{JobId, TaskId},
    ranges::TaskSet,
    results::TaskOutput,
    size::Size,
};

use crate::api::{
    Context, Shared, blocking,
    cache::JobFacts,
    http::{
        error::{ApiError, json},
        extract::{InPath, InQuery, User},
    },
    tasks::{OUTPUT_BYTES_MAX, check_limit},
};
use crate::store::{OutputPage, Reader};

/// Reads of the store for one page: a set of many single tasks takes several pages.
const N_READS_MAX: usize = 2000;

/// A page of a job's outputs.
pub(in crate::api) async fn list(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InQuery(query): InQuery<OutputsQuery>,
) -> Result<Response, ApiError> {
    check_limit(query.limit)?;
    context.own_job(&user, id).await?;
    let tasks = context.tasks_in(id, query.state).await?;
    let reader = context.state.reader.clone();
    let page = blocking(move || page(&reader, id, &tasks, &query)).await?;
    Ok(json(StatusCode::OK, &page))
}

/// A task's standard output, byte by byte.
pub(in crate::api) async fn stdout(
    State(context): State<Shared>,
    user: User,
    InPath(task): InPath<(JobId, u64)>,
) -> Result<Response, ApiError> {
    raw(&context, &user, task, Stream::Stdout).await
}

/// A task's standard error, byte by byte.
pub(in crate::api) async fn stderr(
    State(context): State<Shared>,
    user: User,
    InPath(task): InPath<(JobId, u64)>,
) -> Result<Response, ApiError> {
    raw(&context, &user, task, Stream::Stderr).await
}

#[derive(Clone, Copy)]
enum Stream {
    Stdout,
    Stderr,
}

async fn raw(
    context: &Context,
    user: &User,
    (job, index): (JobId, u64),
    stream: Stream,
) -> Result<Response, ApiError> {
    let owner = context.own_job(user, job).await?.user;
    let spent = context.output_quota_spent(&owner);
    let view = context.task(TaskId { job, index }).await?;
    let facts = context.facts(job).await?;
    let reader = context.state.reader.clone();
    let found = blocking(move || {
        let OutputPage { found, damaged } = reader.outputs_around_damage(job, index..index + 1, u64::MAX)?;
        if !damaged.is_empty() {
            return Err(ApiError::damaged_output(view.id));
        }
        match found.into_iter().next() {
            Some((_, output)) => Ok(output),
            None => nothing_kept(&facts, &view, stream, (reader.output_bytes(job)?, spent)),
        }
    });
    let TaskOutput { stdout, stderr, .. } = found.await?;
    let bytes = match stream {
        Stream::Stdout => stdout,
        Stream::Stderr => stderr,
    };
    let headers =
        [(header::CONTENT_TYPE, "application/octet-stream"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((headers, bytes).into_response())
}

/// Whether that means that the task wrote nothing, or else why there is nothing.
fn nothing_kept(
    facts: &JobFacts,
    view: &TaskView,
    stream: Stream,
    (n_bytes, of_user): (u64, Option<u64>),
) -> Result<TaskOutput, ApiError> {
    let id = view.id;
    let command = facts.compiled.task(id.job.0, id.index);
    let (name, sink) = match stream {
        Stream::Stdout => ("standard output", command.stdout),
        Stream::Stderr => ("standard error", command.stderr),
    };
    if view.n_failed_attempts == 0 {
        match view.state {
            TaskFilter::Done | TaskFilter::Failed => {}
            TaskFilter::Cancelled => {
                let why =
                    format!("task {id} has no output: it was cancelled, and nothing that it wrote was kept");
                return Err(ApiError::no_output(why));
            }
            _ => {
                return Err(ApiError::no_output(format!(
                    "task {id} has no output yet: no attempt of it has ended; `pilotfish logs {id} --follow` \
                     shows what it writes"
                )));
            }
        }
    }
    match sink {
        Sink::Archive => {}
        Sink::Discard => {
            return Err(ApiError::no_output(format!("the {name} of task {id} is discarded (stdio)")));
        }
        Sink::File(path) => {
            let path = path.display();
            return Err(ApiError::no_output(format!(
                "the {name} of task {id} goes to the file {path} (stdio)"
            )));
        }
    }
    let results = &facts.compiled.spec().results;
    if n_bytes >= results.budget_bytes {
        let budget = Size(results.budget_bytes);
        return Err(ApiError::no_output(format!(
            "task {id} has no output that is kept: the job's budget for output ({budget}, results.budget) is used up"
        )));
    }
    if let Some(most) = of_user {
        let most = Size(most);
        return Err(ApiError::no_output(format!(
            "task {id} has no output that is kept: the user's quota of output ({most}, quotas.output) is used up"
        )));
    }
    match results.keep {
        Keep::None => {
            Err(ApiError::no_output(format!("the job keeps no output (results.keep); task {id} has none")))
        }
        Keep::Failed if view.state == TaskFilter::Done => {
            let message = format!(
                "task {id} succeeded, and the job keeps only the output of tasks that fail (results.keep)"
            );
            Err(ApiError::no_output(message))
        }
        Keep::Failed | Keep::All => {
            Ok(TaskOutput { index: id.index, stdout: Vec::new(), stderr: Vec::new() })
        }
    }
}

fn page(reader: &Reader, job: JobId, tasks: &TaskSet, query: &OutputsQuery) -> Result<Outputs, ApiError> {
    let mut outputs = Vec::new();
    let mut damaged = BTreeSet::new();
    let (mut n_bytes, mut n_reads) = (0, 0);
    for range in tasks.iter().filter(|range| range.end > query.from) {
        let mut from = range.start.max(query.from);
        while from < range.end {
            if n_bytes >= OUTPUT_BYTES_MAX || n_reads >= N_READS_MAX || outputs.len() as u64 >= query.limit {
                return Ok(Outputs { outputs, damaged: damaged.into_iter().collect(), next: Some(from) });
            }
            n_reads += 1;
            let read = reader.outputs_around_damage(job, from..range.end, OUTPUT_BYTES_MAX - n_bytes)?;
            let OutputPage { found, damaged: spoilt } = read;
            damaged.extend(spoilt.into_iter().map(|(first, last)| TaskRange { first, last }));
            let Some((last, _)) = found.last() else { break };
            from = *last + 1;
            for (index, output) in found {
                if outputs.len() as u64 >= query.limit {
                    return Ok(Outputs {
                        outputs,
                        damaged: damaged.into_iter().collect(),
                        next: Some(index),
                    });
                }
                n_bytes += (output.stdout.len() + output.stderr.len()) as u64;
                outputs.push(OutputRow::new(index, &output.stdout, &output.stderr));
            }
        }
    }
    Ok(Outputs { outputs, damaged: damaged.into_iter().collect(), next: None })
}
