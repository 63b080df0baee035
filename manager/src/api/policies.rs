//! The policies: shown, and set while the manager runs.

use axum::{extract::State, http::StatusCode, response::Response};
use protocol::{
    api::{LayerChange, PoliciesAnswer, PolicyRequest},
    policies,
};
use scheduler::engine::interface::{
    Answer, Event, Query,
    views::policies::{PoliciesView, PolicyChange},
};

use super::{Context, Shared, operators::check_operator};
use crate::api::http::{
    error::{ApiError, json},
    extract::{InBody, User},
};

/// The policy of each layer, and their history.
pub(super) async fn show(State(context): State<Shared>, _user: User) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &answer(&view(&context).await?)))
}

/// Another policy for a layer.
pub(super) async fn set(
    State(context): State<Shared>,
    user: User,
    InBody(PolicyRequest { layer, policy }): InBody<PolicyRequest>,
) -> Result<Response, ApiError> {
    check_operator(&user)?;
    let before = view(&context).await?.policies;
    let policies = policies::with(before, &layer, &policy)
        .map_err(|refused| ApiError::bad_request(refused.to_string()))?;
    tracing::info!(user = user.name, layer, policy, "a policy is set");
    let event = |request| Event::PoliciesAsked { request, by: user.name.clone(), before, policies };
    match context.state.handle.ask(event).await? {
        Answer::Policies(view) => Ok(json(StatusCode::OK, &answer(&view))),
        Answer::Refused(refusal) => Err(refusal.into()),
        other => Err(ApiError::unexpected(&other)),
    }
}

async fn view(context: &Context) -> Result<PoliciesView, ApiError> {
    match context.query(Query::Policies).await? {
        Answer::Policies(view) => Ok(*view),
        other => Err(ApiError::unexpected(&other)),
    }
}

fn answer(view: &PoliciesView) -> PoliciesAnswer {
    let of_change = |change: &PolicyChange| {
        let PolicyChange { at, by, before, policies, configured } = change.clone();
        let is_over = configured != view.configured;
        let one =
            move |(layer, before, policy)| LayerChange { at, by: by.clone(), layer, before, policy, is_over };
        policies::differences(before, policies).map(one).collect::<Vec<_>>()
    };
    PoliciesAnswer {
        layers: policies::layer_views(view.policies, view.configured),
        history: view.changes.iter().flat_map(of_change).collect(),
    }
}
