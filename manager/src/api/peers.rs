//! Where pilots learn of each other.

use std::time::Instant;

use axum::{
    extract::{Request, State},
    response::Response,
};
use protocol::peers::{N_TOLD_MAX, PeersRequest};
use scheduler::engine::interface::{Answer, Query};

use super::{
    Shared,
    error::ApiError,
    pilots::{answer, check_session, decode, session_body},
};

/// A longer address is no pilot's; it would be told to all others.
const URL_BYTES_MAX: usize = 300;

/// A pilot says where it is and what it has, and is told of the others of its platform.
pub(super) async fn exchange(State(context): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let (session, format, body) = session_body(&context, request).await?;
    let request: PeersRequest = decode(format, body).await?;
    let pilot = request.me.pilot;
    let nonce = check_session(session, pilot)?;
    let PeersRequest { gained, lost, fetching, wanted, asked, .. } = &request;
    let n_told = [gained, lost, fetching, wanted, asked].map(Vec::len);
    if n_told.iter().any(|n| *n > N_TOLD_MAX) {
        return Err(ApiError::bad_request(format!(
            "found {n_told:?} objects; at most {N_TOLD_MAX} are taken"
        )));
    }
    if !request.me.url.starts_with("https://") || request.me.url.len() > URL_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "found an address of {} bytes; others reach a pilot at https:// and at most {URL_BYTES_MAX} bytes",
            request.me.url.len()
        )));
    }
    let platform = match context.query(Query::PlatformOf(pilot, nonce)).await? {
        Answer::Attached(platform) => platform,
        other => return Err(ApiError::unexpected(&other)),
    };
    let told = context.peers.exchange(platform, request, Instant::now());
    answer(
        format,
        &told.map_err(|_| ApiError::broken(&std::io::Error::other("the system gives no random numbers")))?,
    )
}
