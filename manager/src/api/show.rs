//! The manager itself, its pilots and platforms, and why things are as they are.

use std::time::{Duration, Instant};

use axum::{extract::State, http::StatusCode, response::Response};
use protocol::{
    api::{
        self, Explanation, LeftBehind, LeftQuery, Pilots, PilotsQuery, Platforms, Profiles, ReasonRow,
        ShutDown, ShutdownRequest, Status, VersionInfo,
    },
    pilot,
    text::kept::beginning,
};
use scheduler::{
    engine::interface::{Answer, Event, Query, views::CutOutputs},
    explain::Reason,
    ids::{AllocationId, JobId, PilotId, TaskId},
    results::OutputFile,
};
use tokio::time::timeout;

use super::{Context, Shared, blocking, tasks::OUTPUT_BYTES_MAX};
use crate::api::http::{
    error::{ApiError, json},
    extract::{InBody, InPath, InQuery, User},
};

/// How long a request to end waits for the end; below the 60 s after which proxies cut idle connections.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(20);

/// Files of a task that were left out and are told at most.
const N_LEFT_OUT: usize = 100;

/// Who answers.
pub(super) async fn version() -> Response {
    let version = VersionInfo {
        manager: env!("CARGO_PKG_VERSION").to_owned(),
        api: api::VERSION,
        pilot_protocol: pilot::VERSION,
    };
    json(StatusCode::OK, &version)
}

/// Totals.
pub(super) async fn status(State(context): State<Shared>, user: User) -> Result<Response, ApiError> {
    let totals = match context.query(Query::Status).await? {
        Answer::Status(view) => *view,
        other => return Err(ApiError::unexpected(&other)),
    };
    let reader = context.state.reader.clone();
    let store_bytes = blocking(move || Ok(reader.size_bytes()?)).await?;
    let stores = context.state.stores.waiting(user.name_unless_operator()).await.into_iter();
    let status = Status {
        totals,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        folder: context.state.folder.display().to_string(),
        config: context.state.config_file.as_ref().map(|file| file.display().to_string()),
        pid: std::process::id(),
        started_at: context.state.started_at,
        store_bytes,
        low_disk_bytes: context.state.reserve.free_when_low(),
        stores_waiting_for_person: stores.filter(|(_, waits)| *waits).map(|(name, _)| name).collect(),
        user: user.name,
    };
    Ok(json(StatusCode::OK, &status))
}

/// Pilots.
pub(super) async fn pilots(
    State(context): State<Shared>,
    _user: User,
    InQuery(query): InQuery<PilotsQuery>,
) -> Result<Response, ApiError> {
    match context.query(Query::Pilots { with_ended: query.ended }).await? {
        Answer::Pilots(pilots) => Ok(json(StatusCode::OK, &Pilots { pilots })),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// Platforms.
pub(super) async fn platforms(State(context): State<Shared>, _user: User) -> Result<Response, ApiError> {
    match context.query(Query::Platforms).await? {
        Answer::Platforms(platforms) => Ok(json(StatusCode::OK, &Platforms { platforms })),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// What was learned of applications.
pub(super) async fn profiles(State(context): State<Shared>, _user: User) -> Result<Response, ApiError> {
    match context.query(Query::Profiles).await? {
        Answer::Profiles(profiles) => Ok(json(StatusCode::OK, &Profiles { profiles })),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// Weights.
pub(super) async fn weights(State(context): State<Shared>, _user: User) -> Result<Response, ApiError> {
    match context.query(Query::Weights).await? {
        Answer::Weights(weights) => Ok(json(StatusCode::OK, &*weights)),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// Why a job is where it is.
pub(super) async fn explain_job(
    State(context): State<Shared>,
    user: User,
    InPath(job): InPath<JobId>,
) -> Result<Response, ApiError> {
    let view = context.own_job(&user, job).await?;
    let mut reasons = context.reasons(Query::ExplainJob(job)).await?;
    context.waits.tell_cores_kept(&mut reasons, Instant::now());
    if view.ended_at.is_none() {
        let waits = context.waits.of_job(job, Instant::now());
        let waits = waits.map(|(pilot, n_tasks, what)| Reason::JobWaitsForFile { pilot, n_tasks, what });
        reasons.splice(0..0, context.disk_full().into_iter().chain(waits));
    }
    let spent = context.output_budget_spent(job).await?;
    reasons.extend(spent.map(|n_bytes| Reason::OutputBudgetSpent { n_bytes }));
    let spent = context.output_quota_spent(&view.user);
    reasons.extend(spent.map(|n_bytes| Reason::OutputQuotaSpent { user: view.user, n_bytes }));
    let cut = context.cut_outputs(job).await?;
    reasons
        .extend(cut.map(|CutOutputs { n_tasks, limit_bytes }| Reason::OutputsCut { n_tasks, limit_bytes }));
    Ok(explanation(reasons))
}

/// Why a task is where it is.
pub(super) async fn explain_task(
    State(context): State<Shared>,
    user: User,
    InPath((job, index)): InPath<(JobId, u64)>,
) -> Result<Response, ApiError> {
    context.own_job(&user, job).await?;
    let task = TaskId { job, index };
    let mut reasons = context.reasons(Query::ExplainTask(task)).await?;
    context.waits.tell_cores_kept(&mut reasons, Instant::now());
    let is_over = |reason: &Reason| {
        matches!(reason, Reason::TaskDone | Reason::TaskFailed { .. } | Reason::TaskCancelled { .. })
    };
    if !reasons.iter().any(is_over) {
        reasons.splice(0..0, context.disk_full());
    }
    let at = reasons.iter().find_map(|reason| match reason {
        Reason::TaskQueued { pilot, .. } | Reason::TaskRuns { pilot } => Some(*pilot),
        _ => None,
    });
    let waits = at.and_then(|pilot| Some((pilot, context.waits.of(pilot, task, Instant::now())?)));
    reasons.extend(waits.map(|(pilot, what)| Reason::TaskWaitsForFile { pilot, what }));
    if reasons.iter().any(|reason| matches!(reason, Reason::TaskDone)) {
        let reader = context.state.reader.clone();
        let left_out = blocking(move || Ok(reader.left_out(task, N_LEFT_OUT)?)).await?;
        let reason =
            |file: OutputFile| Reason::FileLeftOut { file: file.to, why: file.left_out.unwrap_or_default() };
        reasons.extend(left_out.into_iter().map(reason));
    }
    let facts = context.facts(job).await?;
    let results = &facts.compiled.spec().results;
    if !results.extract.is_empty() && reasons.iter().any(is_over) {
        let (reader, limit_bytes) = (context.state.reader.clone(), results.limit_bytes);
        let outputs = blocking(move || Ok(reader.outputs(job, index..index + 1, OUTPUT_BYTES_MAX)?)).await?;
        let is_cut = outputs.iter().any(|(_, output)| beginning(&output.stdout, limit_bytes).is_cut);
        reasons.extend(is_cut.then_some(Reason::OutputCut { limit_bytes }));
    }
    Ok(explanation(reasons))
}

/// Why a pilot does what it does.
pub(super) async fn explain_pilot(
    State(context): State<Shared>,
    _user: User,
    InPath(pilot): InPath<PilotId>,
) -> Result<Response, ApiError> {
    let mut reasons = context.reasons(Query::ExplainPilot(pilot)).await?;
    if !reasons.iter().any(|reason| matches!(reason, Reason::PilotEnded { .. })) {
        reasons.splice(0..0, context.disk_full());
    }
    Ok(explanation(reasons))
}

/// Why an allocation is there.
pub(super) async fn explain_allocation(
    State(context): State<Shared>,
    _user: User,
    InPath(id): InPath<AllocationId>,
) -> Result<Response, ApiError> {
    explain(&context, Query::ExplainAllocation(id)).await
}

/// Why an application's tasks are divided among platforms as they are.
pub(super) async fn explain_weight(
    State(context): State<Shared>,
    _user: User,
    InPath(application): InPath<String>,
) -> Result<Response, ApiError> {
    explain(&context, Query::ExplainWeight(application)).await
}

/// Why a platform has the pilots it has.
pub(super) async fn explain_platform(
    State(context): State<Shared>,
    _user: User,
    InPath(name): InPath<String>,
) -> Result<Response, ApiError> {
    explain(&context, Query::ExplainPlatform(name)).await
}

/// Ends the manager: pilots first.
pub(super) async fn shutdown(
    State(context): State<Shared>,
    user: User,
    InBody(request): InBody<ShutdownRequest>,
) -> Result<Response, ApiError> {
    if !user.is_operator {
        return Err(ApiError::not_operator(&user.name));
    }
    tracing::info!(user = user.name, is_urgent = request.now, "shutdown asked for");
    let is_urgent = request.now;
    let leave_limit_seconds = context.state.leave_limit.as_secs_f64();
    let shut_down = |is_over| ShutDown { is_over, leave_limit_seconds };
    let ended = context.state.handle.ask(|request| Event::ShutdownAsked { request, is_urgent });
    match timeout(SHUTDOWN_WAIT, ended).await {
        // The engine has gone: that is what was asked for.
        Ok(Ok(Answer::ShutDown(_)) | Err(_)) => Ok(json(StatusCode::OK, &shut_down(true))),
        Ok(Ok(Answer::Refused(refusal))) => Err(refusal.into()),
        Ok(Ok(other)) => Err(ApiError::unexpected(&other)),
        Err(_) => Ok(json(StatusCode::ACCEPTED, &shut_down(false))),
    }
}

/// What a manager that was shut down leaves on platforms.
pub(super) async fn left(
    State(context): State<Shared>,
    user: User,
    InQuery(query): InQuery<LeftQuery>,
) -> Result<Response, ApiError> {
    if !user.is_operator {
        return Err(ApiError::not_operator(&user.name));
    }
    let (mut left, mut stop) = (context.state.left_there.clone(), context.state.stop.clone());
    let known = async {
        tokio::select! {
            // Without a manager nobody knows.
            _ = left.wait_for(Option::is_some) => {}
            _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        }
    };
    let wait = Duration::from_secs(query.wait_seconds).min(SHUTDOWN_WAIT);
    // It may not be known in time.
    let _ = timeout(wait, known).await;
    let left = context.state.left_there.borrow().clone();
    Ok(json(StatusCode::OK, &LeftBehind { is_known: left.is_some(), left: left.unwrap_or_default() }))
}

async fn explain(context: &Context, query: Query) -> Result<Response, ApiError> {
    Ok(explanation(context.reasons(query).await?))
}

fn explanation(reasons: Vec<Reason>) -> Response {
    let row = |reason: Reason| ReasonRow { text: reason.to_string(), reason };
    json(StatusCode::OK, &Explanation { reasons: reasons.into_iter().map(row).collect() })
}

impl Context {
    /// Said first of all that stands still by it.
    fn disk_full(&self) -> Option<Reason> {
        self.state.reserve.free_when_low().map(|free_bytes| Reason::DiskFull { free_bytes })
    }

    async fn reasons(&self, query: Query) -> Result<Vec<Reason>, ApiError> {
        match self.query(query).await? {
            Answer::Reasons(reasons) => Ok(reasons),
            other => Err(ApiError::unexpected(&other)),
        }
    }
}
