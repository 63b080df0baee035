//! What tasks write, for those who follow it: what runs from memory, what has ended from the store.

use std::time::Instant;

use axum::{extract::State, http::StatusCode, response::Response};
use protocol::follow::{EndedOutput, FollowQuery, Followed, TaskRange, Written};
use scheduler::{
    engine::interface::{Event, TaskFilter, views::JobView},
    ids::JobId,
    ranges::TaskSet,
};

use crate::api::{
    Context, Shared, blocking,
    http::{
        error::{ApiError, json},
        extract::{InPath, InQuery, User},
    },
    jobs::parse_tasks,
    output::live::{Fresh, Look},
    tasks::OUTPUT_BYTES_MAX,
};
use crate::store::Arrived;

/// What has come since. Three looks, in this order: at what runs, whether all is over, and at what has ended. So
/// of an attempt whose pieces are in the answer none before it can be missing, and where all is over all is there.
/// While more has ended than fits into an answer, what runs waits for the last of these.
pub(in crate::api) async fn follow(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InQuery(query): InQuery<FollowQuery>,
) -> Result<Response, ApiError> {
    let view = context.own_job(&user, id).await?;
    let tasks = query.tasks.as_deref().map(parse_tasks).transpose().map_err(ApiError::bad_request)?;
    if let Some(beyond) = tasks.as_ref().and_then(|tasks| tasks.iter().last()).map(|last| last.end - 1)
        && beyond >= view.counts.total
    {
        let last = view.counts.total.saturating_sub(1);
        return Err(ApiError::bad_request(format!("job {id} has tasks 0 to {last}, not {beyond}")));
    }
    let fresh = context.live.follow(id, tasks.as_ref(), query.since, Instant::now());
    let Fresh { pieces, since, look } = fresh.ok_or_else(ApiError::crowded)?;
    if let Some(Look { tasks, except }) = look {
        context.state.handle.tell(Event::TailsWanted { job: id, tasks, except }).await?;
    }
    let is_over = context.is_over(&view, tasks.as_ref()).await?;
    let reader = context.state.reader.clone();
    let arrivals =
        blocking(move || Ok(reader.arrivals(id, tasks.as_ref(), query.after, OUTPUT_BYTES_MAX)?)).await?;
    let (pieces, since) = if arrivals.is_more { (Vec::new(), query.since) } else { (pieces, since) };
    let ended = |arrived: Arrived| EndedOutput {
        index: arrived.output.index,
        pilot: arrived.pilot,
        failed_attempt: arrived.failed_attempt,
        is_final_failure: arrived.is_final_failure,
        stdout: Written::of(arrived.output.stdout),
        stderr: Written::of(arrived.output.stderr),
    };
    let followed = Followed {
        pieces,
        since,
        after: arrivals.after,
        is_more: arrivals.is_more,
        damaged: arrivals.damaged.into_iter().map(|(first, last)| TaskRange { first, last }).collect(),
        ended: arrivals.arrived.into_iter().map(ended).collect(),
        is_over,
        limit_bytes: Some(context.facts(id).await?.compiled.spec().results.limit_bytes),
    };
    Ok(json(StatusCode::OK, &followed))
}

impl Context {
    /// Whether no task of a job, or none of these, is open any more.
    async fn is_over(&self, view: &JobView, tasks: Option<&TaskSet>) -> Result<bool, ApiError> {
        let (Some(tasks), None) = (tasks, view.ended_at) else { return Ok(view.ended_at.is_some()) };
        let mut closed = TaskSet::new();
        for state in [TaskFilter::Done, TaskFilter::Failed, TaskFilter::Cancelled] {
            closed.insert_all(&self.tasks_in(view.id, state).await?);
        }
        Ok(closed.intersection(tasks).len() == tasks.len())
    }
}
