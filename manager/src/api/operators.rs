//! What operators ask of platforms and allocations.

use axum::{extract::State, http::StatusCode, response::Response};
use profiles::{platform::N_PILOTS_MAX, price::amount, quantity::core_hours};
use protocol::api::{
    Allocations, AllocationsQuery, CancelRequest, DeclareRequest, ForgetRequest, LimitsRequest, Profiles,
    ReloadRequest, Reloaded,
};
use scheduler::{
    engine::interface::{
        Answer, Event, PlatformChange, PlatformLimits, PlatformMode, Query, Refusal, views::PlatformView,
    },
    ids::AllocationId,
    time::Span,
};
use tokio::sync::oneshot;

use super::{Context, Shared};
use crate::api::http::{
    error::{ApiError, json},
    extract::{InBody, InPath, InQuery, User},
};
use crate::{config::Reload, engine_loop::handle::Ended};

/// All allocations.
pub(super) async fn allocations(
    State(context): State<Shared>,
    _user: User,
    InQuery(query): InQuery<AllocationsQuery>,
) -> Result<Response, ApiError> {
    match context.query(Query::Allocations { with_ended: query.ended }).await? {
        Answer::Allocations(allocations) => Ok(json(StatusCode::OK, &Allocations { allocations })),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// One allocation.
pub(super) async fn allocation(
    State(context): State<Shared>,
    _user: User,
    InPath(id): InPath<AllocationId>,
) -> Result<Response, ApiError> {
    match context.query(Query::Allocation(id)).await? {
        Answer::Allocation(view) => Ok(json(StatusCode::OK, &*view)),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// An allocation is not wanted any more.
pub(super) async fn cancel(
    State(context): State<Shared>,
    user: User,
    InPath(allocation): InPath<AllocationId>,
    InBody(CancelRequest { now: is_urgent }): InBody<CancelRequest>,
) -> Result<Response, ApiError> {
    check_operator(&user)?;
    tracing::info!(user = user.name, %allocation, is_urgent, "cancellation of an allocation asked for");
    let event = |request| Event::AllocationCancelAsked { request, allocation, is_urgent };
    match context.state.handle.ask(event).await? {
        Answer::Allocation(view) => Ok(json(StatusCode::OK, &*view)),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// What was learned of an application counts no more.
pub(super) async fn forget(
    State(context): State<Shared>,
    user: User,
    InBody(ForgetRequest { application }): InBody<ForgetRequest>,
) -> Result<Response, ApiError> {
    check_operator(&user)?;
    tracing::info!(user = user.name, application, "its profile is to be forgotten");
    let event = |request| Event::ForgetAsked { request, application };
    match context.state.handle.ask(event).await? {
        Answer::Profiles(profiles) if profiles.len() == 1 => Ok(json(StatusCode::OK, &profiles[0])),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// What an application is like.
pub(super) async fn declare(
    State(context): State<Shared>,
    user: User,
    InBody(DeclareRequest { application, declared }): InBody<DeclareRequest>,
) -> Result<Response, ApiError> {
    check_operator(&user)?;
    if let Some(declared) = &declared {
        profiles::application::check(&application, declared).map_err(ApiError::bad_request)?;
    }
    tracing::info!(user = user.name, application, "its profile is declared");
    let declared = declared.map(Box::new);
    let event = |request| Event::DeclareAsked { request, application, declared };
    match context.state.handle.ask(event).await? {
        Answer::Profiles(profiles) => Ok(json(StatusCode::OK, &Profiles { profiles })),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// Platforms that are new in the configuration.
pub(super) async fn reload(
    State(context): State<Shared>,
    user: User,
    InBody(request): InBody<ReloadRequest>,
) -> Result<Response, ApiError> {
    check_operator(&user)?;
    let Some(file) = context.state.config_file.as_ref().map(|file| file.display().to_string()) else {
        return Err(ApiError::bad_request(
            "this manager was started without --config; stop it, and start it by `pilotfish serve --config manager.yaml`",
        ));
    };
    if let Some(found) = request.config.filter(|found| *found != file) {
        return Err(ApiError::bad_request(format!("this manager was started with {file}, not with {found}")));
    }
    let (answer, answered) = oneshot::channel();
    // Whoever serves no more has ended, too.
    let _ = context.state.reload.send(Reload { answer }).await;
    let reloaded = answered.await.map_err(|_| Ended)?.map_err(ApiError::bad_request)?;
    let what = words_of(&reloaded);
    tracing::info!(user = user.name, file, what, "the configuration was read again");
    Ok(json(StatusCode::OK, &reloaded))
}

/// No more allocations.
pub(super) async fn pause(
    State(context): State<Shared>,
    user: User,
    InPath(name): InPath<String>,
) -> Result<Response, ApiError> {
    change(&context, &user, name, PlatformChange::Mode(PlatformMode::Paused)).await
}

/// As at the beginning.
pub(super) async fn resume(
    State(context): State<Shared>,
    user: User,
    InPath(name): InPath<String>,
) -> Result<Response, ApiError> {
    change(&context, &user, name, PlatformChange::Mode(PlatformMode::Active)).await
}

/// No more allocations, and those that are there end.
pub(super) async fn drain(
    State(context): State<Shared>,
    user: User,
    InPath(name): InPath<String>,
) -> Result<Response, ApiError> {
    change(&context, &user, name, PlatformChange::Mode(PlatformMode::Draining)).await
}

/// Nothing more at all: nothing of ours is there.
pub(super) async fn detach(
    State(context): State<Shared>,
    user: User,
    InPath(name): InPath<String>,
) -> Result<Response, ApiError> {
    change(&context, &user, name, PlatformChange::Mode(PlatformMode::Detached)).await
}

/// Other limits.
pub(super) async fn limits(
    State(context): State<Shared>,
    user: User,
    InPath(name): InPath<String>,
    InBody(request): InBody<LimitsRequest>,
) -> Result<Response, ApiError> {
    let platforms = match context.query(Query::Platforms).await? {
        Answer::Platforms(platforms) => platforms,
        other => return Err(ApiError::unexpected(&other)),
    };
    let no_platform = || Refusal::NoPlatform(name.clone());
    let held = platforms.iter().find(|platform| platform.name == name).ok_or_else(no_platform)?;
    let wanted = changed(held, &request).map_err(ApiError::bad_request)?;
    change(&context, &user, name, wanted).await
}

/// The limits that come of a request.
fn changed(held: &PlatformView, request: &LimitsRequest) -> Result<PlatformChange, String> {
    let positive = |field: &str, said: Option<Option<u32>>, now: Option<u32>| match said {
        Some(Some(0)) => Err(format!("{field}: found 0; write 1 or more, or `none`")),
        Some(said) => Ok(said),
        None => Ok(now),
    };
    let budget = |field: &str, said: Option<Option<f64>>, now: Option<Span>| match said {
        Some(Some(hours)) => match core_hours(&hours.to_string()) {
            Ok(core_time) => Ok(Some(core_time)),
            Err(what) => Err(format!("{field}: found `{hours}`; {what}")),
        },
        Some(None) => Ok(None),
        None => Ok(now),
    };
    let cost_max = match request.budget {
        Some(Some(_)) if held.cost.is_none() => {
            return Err(format!("budget: {} has no price; give it one in manager.yaml", held.name));
        }
        Some(Some(number)) => Some(amount(number).map_err(|what| format!("budget: {what}"))?),
        Some(None) => None,
        None => held.limits.cost_max,
    };
    let wants_end = [("core_hours", request.core_hours), ("budget", request.budget)]
        .into_iter()
        .find(|(_, said)| matches!(said, Some(Some(_))));
    if let (Some((field, _)), None) = (wants_end, held.walltime) {
        return Err(format!(
            "{field}: {} has no walltime, so nobody knows what a pilot costs; give it one in manager.yaml",
            held.name
        ));
    }
    if let Some(found) = request.pilots_max.filter(|n| !(1..=N_PILOTS_MAX).contains(n)) {
        return Err(format!("pilots_max: found {found}; write 1 to {N_PILOTS_MAX}, or drain the platform"));
    }
    if let Some(found) = request.pilots_max.filter(|n| *n < held.n_nodes) {
        return Err(format!(
            "pilots_max: found {found}; an allocation of {} brings {} pilots, so allow as many or more, or drain it",
            held.name, held.n_nodes
        ));
    }
    Ok(PlatformChange::Limits {
        n_pilots_max: request.pilots_max.unwrap_or(held.n_pilots_max),
        limits: PlatformLimits {
            n_queued_max: positive("queued_max", request.queued_max, held.limits.n_queued_max)?,
            n_submissions_per_minute: positive(
                "submissions_per_minute",
                request.submissions_per_minute,
                held.limits.n_submissions_per_minute,
            )?,
            core_time_max: budget("core_hours", request.core_hours, held.limits.core_time_max)?,
            user_core_time_max: budget(
                "user_core_hours",
                request.user_core_hours,
                held.limits.user_core_time_max,
            )?,
            cost_max,
        },
    })
}

async fn change(
    context: &Context,
    user: &User,
    platform: String,
    change: PlatformChange,
) -> Result<Response, ApiError> {
    check_operator(user)?;
    let asked = change_in_words(&change);
    tracing::info!(user = user.name, platform, asked, "change of a platform asked for");
    let event = |request| Event::PlatformChangeAsked { request, platform, change };
    match context.state.handle.ask(event).await? {
        Answer::PlatformChanged(view) => Ok(json(StatusCode::OK, &*view)),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

pub(super) fn check_operator(user: &User) -> Result<(), ApiError> {
    if user.is_operator { Ok(()) } else { Err(ApiError::not_operator(&user.name)) }
}

/// What became of a configuration that was read again, as the log has it: what is not so is left out.
fn words_of(reloaded: &Reloaded) -> String {
    let Reloaded {
        attached,
        changed,
        waiting,
        fields: _,
        detached,
        without_tls,
        quotas,
        unlisted,
        others_wait: _,
        others,
    } = reloaded;
    let lists = [
        ("attached", attached),
        ("changed", changed),
        ("changed with the next start", waiting),
        ("still detached", detached),
        ("not attached without TLS", without_tls),
        ("not in the file any more", unlisted),
        ("settings of the next start", others),
    ];
    let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let mut told: Vec<String> = lists.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect();
    told.extend(quotas.then(|| "quotas of users changed".to_owned()));
    if told.is_empty() { "nothing changed".to_owned() } else { told.join("; ") }
}

/// What is wanted of a platform, as the log has it.
fn change_in_words(change: &PlatformChange) -> String {
    match change {
        PlatformChange::Mode(PlatformMode::Active) => "active".to_owned(),
        PlatformChange::Mode(PlatformMode::Paused) => "paused".to_owned(),
        PlatformChange::Mode(PlatformMode::Draining) => "draining".to_owned(),
        PlatformChange::Mode(PlatformMode::Detached) => "detached".to_owned(),
        PlatformChange::Limits { n_pilots_max, limits } => {
            let number = |most: Option<u32>| most.map(|most| most.to_string());
            let hours = |most: Option<Span>| most.map(|most| format!("{:.2}", most.as_secs_f64() / 3600.0));
            let named = [
                ("pilots_max", Some(n_pilots_max.to_string())),
                ("queued_max", number(limits.n_queued_max)),
                ("submissions_per_minute", number(limits.n_submissions_per_minute)),
                ("core_hours", hours(limits.core_time_max)),
                ("user_core_hours", hours(limits.user_core_time_max)),
                ("budget", limits.cost_max.map(|most| most.to_string())),
            ];
            let named = named.into_iter().filter_map(|(name, most)| Some(format!("{name} {}", most?)));
            named.collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PlatformChange, PlatformLimits, PlatformMode, Reloaded, Span, change_in_words, words_of};

    #[test]
    fn the_log_has_changes_in_words() {
        assert_eq!(words_of(&Reloaded::default()), "nothing changed");
        let reloaded = Reloaded {
            attached: vec!["a".to_owned(), "b".to_owned()],
            others: vec!["limits.grace".to_owned()],
            quotas: true,
            ..Reloaded::default()
        };
        let told = "attached: a, b; settings of the next start: limits.grace; quotas of users changed";
        assert_eq!(words_of(&reloaded), told);
        assert_eq!(change_in_words(&PlatformChange::Mode(PlatformMode::Paused)), "paused");
        let limits =
            PlatformLimits { core_time_max: Some(Span::from_secs(5400)), ..PlatformLimits::default() };
        let change = PlatformChange::Limits { n_pilots_max: 4, limits };
        assert_eq!(change_in_words(&change), "pilots_max 4, core_hours 1.50");
    }
}
