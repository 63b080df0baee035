//! What is behind a door: the pilots' routes, for who has shown a token of a pilot of the door's platform, and nothing
//! else.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use scheduler::engine::interface::{Answer, Query};

use crate::api::{
    Context, Shared,
    http::{crowd::Guest, error::ApiError, extract::verified},
};
use crate::security::tokens::Bearer;

/// What all routes of pilots begin with.
const PILOT_PREFIX: &str = "/pilot/";

/// Refuses requests of who may not be here. One right token is enough for a connection: whoever has it is behind the
/// door already.
pub(in crate::api) async fn guarded(
    State(context): State<Shared>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let guest = request.extensions().get::<Arc<Guest>>();
    let Some((guest, platform)) = guest.and_then(|guest| Some((guest, guest.platform.as_deref()?))) else {
        return Err(ApiError::unauthorized("found a connection that came through no door"));
    };
    if !guest.is_let_in() {
        let found = platform_of(&context, verified(request.headers(), &context)?).await?;
        if found != platform {
            return Err(ApiError::unauthorized(format!(
                "found a token of a pilot of platform {found}; only those of {platform} come this way"
            )));
        }
        guest.let_in();
    }
    if !request.uri().path().starts_with(PILOT_PREFIX) {
        return Err(ApiError::no_such_path(request.method().as_str(), request.uri().path()));
    }
    Ok(next.run(request).await)
}

/// The name of the platform of a pilot's token.
async fn platform_of(context: &Context, bearer: Bearer) -> Result<String, ApiError> {
    let query = match bearer {
        Bearer::Join { tag } => Query::PlatformOfTag(tag),
        Bearer::Session { pilot, .. } => Query::PlatformOfPilot(pilot),
        Bearer::User(_) => {
            return Err(ApiError::unauthorized("found a user's token where a pilot's is needed"));
        }
    };
    match context.query(query).await? {
        Answer::PlatformName(name) => Ok(name),
        other => Err(ApiError::unexpected(&other)),
    }
}
