//! Where pilots learn of each other.

use std::time::Instant;

use axum::{
    extract::{Request, State},
    response::Response,
};
use protocol::peers::{HuntAnswer, HuntRequest, N_TOLD_MAX, PeersRequest};
use scheduler::engine::interface::{Answer, Event};

use crate::api::{
    Shared,
    http::error::ApiError,
    pilots::{answer, ask, check_session, decode_of, session_body, sessions::Session},
};

/// A longer address is no pilot's; it would be told to all others.
const URL_BYTES_MAX: usize = 300;

/// A pilot says where it is and what it has, and is told of the others of its platform.
pub(in crate::api) async fn exchange(
    State(context): State<Shared>,
    request: Request,
) -> Result<Response, ApiError> {
    let (session, format, body) = session_body(&context, request).await?;
    let request: PeersRequest = decode_of(&context, session, format, body).await?;
    let pilot = request.me.pilot;
    let nonce = check_session(session, pilot)?;
    let platform = Session::of(&context, pilot, nonce).await?.platform();
    check(&request).map_err(ApiError::bad_request)?;
    let told = context.peers.exchange(platform, request, Instant::now());
    answer(
        format,
        &told.map_err(|_| ApiError::broken(&std::io::Error::other("the system gives no random numbers")))?,
    )
}

/// A pilot that cannot reach all others has one of them asked for tasks.
pub(in crate::api) async fn hunt(
    State(context): State<Shared>,
    request: Request,
) -> Result<Response, ApiError> {
    let (session, format, body) = session_body(&context, request).await?;
    let HuntRequest { pilot } = decode_of(&context, session, format, body).await?;
    let session_nonce = Some(check_session(session, pilot)?);
    match ask(&context, |request| Event::HuntAsked { request, pilot, session_nonce }).await? {
        Answer::HuntPassedOn { is_any_asked } => answer(format, &HuntAnswer { is_any_asked }),
        other => Err(ApiError::unexpected(&other)),
    }
}

/// What others would be told of it must be short.
fn check(request: &PeersRequest) -> Result<(), String> {
    let PeersRequest { me, gained, lost, fetching, wanted, asked, .. } = request;
    let n_told = [gained, lost, fetching, wanted, asked].map(Vec::len);
    if n_told.iter().any(|n| *n > N_TOLD_MAX) {
        return Err(format!("found {n_told:?} objects; at most {N_TOLD_MAX} are taken"));
    }
    let n_bytes = me.url.len();
    if !me.url.starts_with("https://") || n_bytes > URL_BYTES_MAX {
        return Err(format!(
            "found an address of {n_bytes} bytes; others reach a pilot at https:// and at most {URL_BYTES_MAX} bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::peers::{Moved, Peer};
    use scheduler::{digest::Digest, ids::PilotId};

    use super::*;

    fn said(url: &str, n_gained: usize) -> Result<(), String> {
        let none = Vec::new;
        let me = Peer { pilot: PilotId(1), url: url.into(), certificate_sha256: Digest::default() };
        let gained = vec![Digest::default(); n_gained];
        let (lost, fetching, wanted, asked) = (none(), none(), none(), none());
        check(&PeersRequest {
            me,
            is_all: true,
            gained,
            lost,
            fetching,
            wanted,
            asked,
            moved: Moved::default(),
        })
    }

    #[test]
    fn what_others_would_be_told_at_length_is_refused() {
        assert_eq!(said("https://10.0.0.7:40123", N_TOLD_MAX), Ok(()));
        for (url, n_gained) in [
            ("https://10.0.0.7:40123", N_TOLD_MAX + 1),
            ("http://10.0.0.7:40123", 0),
            (&format!("https://{}", "x".repeat(URL_BYTES_MAX)), 0),
        ] {
            assert!(said(url, n_gained).is_err(), "{n_gained} {url}");
        }
    }
}
