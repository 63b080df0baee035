//! The pilots' routes: register, pull, leave, and what tasks write. Bodies are postcard or JSON by their content type, and
//! are answered in kind; refusals are always JSON.

pub(crate) mod declared;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod sessions;
pub(crate) mod taken;
pub(crate) mod waits;

use std::time::{Duration, Instant};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use protocol::{
    codec::{Format, MESSAGE_BYTES_MAX},
    pilot::{
        LeaveAnswer, LeaveRequest, N_TAILS_MAX, PullRequest, RegisterAnswer, RegisterRequest,
        TAILS_BYTES_MAX, TailsRequest, VERSION,
    },
};
use scheduler::{
    engine::interface::{Answer, Event, RequestId},
    ids::PilotId,
    pull::Pull,
    results::Report,
    time::Span,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{Context, Shared, blocking};
use crate::api::{
    http::{
        error::ApiError,
        extract::{Received, SMALL_BYTES_MAX, bearer, read_body},
        parking::Lot,
    },
    pilots::{declared::hold_to_outputs, sessions::Session},
};
use crate::security::tokens::Bearer;

/// A larger body is decoded beside the loop that serves connections.
const DECODE_HERE_BYTES_MAX: usize = 256 << 10;

/// Before a pilot is answered whose output finds no room on the disk.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(1);

/// The first field of a registration in every version.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// A pilot presents itself, by the join token of its allocation.
pub(super) async fn register(State(context): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let Bearer::Join { tag } = bearer(request.headers(), request.extensions(), &context)? else {
        return Err(ApiError::unauthorized("found another token where a pilot's join token is needed"));
    };
    let format = format_of(request.headers());
    let limits = &context.state.limits;
    let body = read_body(request.into_body(), SMALL_BYTES_MAX, limits, &context.from_pilots).await?;
    let found = format.decode::<Version>(&body.bytes)?.version;
    if found != VERSION {
        return Err(ApiError::wrong_version("pilot protocol", &found.to_string(), VERSION));
    }
    let registration = format.decode::<RegisterRequest>(&body.bytes)?.registration;
    if registration.tag != tag {
        return Err(ApiError::unauthorized("found a join token of another allocation's tag"));
    }
    let event = |request| Event::PilotRegistered { request, registration: Box::new(registration) };
    let registered = match ask(&context, event).await? {
        Answer::Registered(registered) => registered,
        other => return Err(ApiError::unexpected(&other)),
    };
    let session = context.state.tokens.session(registered.pilot, registered.session);
    let (platform, poll_wait) = (registered.platform.clone(), context.state.poll_wait);
    answer(format, &RegisterAnswer { registered, session, poll_wait, platform })
}

/// A pilot reports and asks; parked by the engine while there is nothing to say.
pub(super) async fn pull(State(context): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let lot = Lot::of(&request);
    let (session, format, body) = session_body(&context, request).await?;
    let PullRequest { pilot, mut pull } = decode_of(&context, session, format, body).await?;
    pull.session_nonce = Some(check_session(session, pilot)?);
    if hold_back(&context, &mut pull) {
        // It asks again soon, and has the same report then.
        tokio::time::sleep(FULL_DISK_PAUSE).await;
        pull.wait = Span::ZERO;
    }
    if let Some(report) = &mut pull.report {
        hold_to_outputs(&context, report).await?;
    }
    if let Some(report) = &pull.report {
        context.live.note_report(pilot, report, Instant::now());
    }
    let lot = lot.filter(|_| pull.wait > Span::ZERO);
    // What waits is kept small: see the figure for idle pilots in docs/performance.md.
    let pull = Box::new(pull);
    let answered = async move {
        let event = |request| Event::Pulled { request, pilot, pull };
        let response = match ask(&context, event).await? {
            Answer::Pull(pull) => answer(format, &pull),
            other => Err(ApiError::unexpected(&other)),
        };
        Box::pin(context.to_pilots.send(response?)).await
    };
    match lot {
        Some(lot) => Ok(lot.wait(Box::pin(answered.map(IntoResponse::into_response))).await),
        None => answered.await,
    }
}

/// While the disk is full, a report with output is not taken: the pilot keeps it, with what it holds, and gets nothing
/// new. Says whether that is so.
fn hold_back(context: &Context, pull: &mut Pull) -> bool {
    if !context.state.reserve.is_low() {
        return false;
    }
    pull.is_hungry = false;
    let has_output = |report: &mut Report| report.jobs.iter().any(|job| !job.outputs.is_empty());
    pull.report.take_if(has_output).is_some()
}

/// A pilot leaves.
pub(super) async fn leave(State(context): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let (session, format, body) = session_body(&context, request).await?;
    let LeaveRequest { pilot, mut report, reason } = decode_of(&context, session, format, body).await?;
    let session_nonce = Some(check_session(session, pilot)?);
    if let Some(report) = &mut report {
        hold_to_outputs(&context, report).await?;
    }
    let event = |request| Event::PilotLeft { request, pilot, session_nonce, report, reason };
    match ask(&context, event).await? {
        Answer::Left => {
            context.peers.forget(pilot);
            context.granted.forget(pilot);
            answer(format, &LeaveAnswer {})
        }
        other => Err(ApiError::unexpected(&other)),
    }
}

/// A pilot shows what its tasks write; nothing is kept of it.
pub(super) async fn tails(State(context): State<Shared>, request: Request) -> Result<Response, ApiError> {
    let (session, format, body) = session_body(&context, request).await?;
    let mut request: TailsRequest = decode_of(&context, session, format, body).await?;
    let nonce = check_session(session, request.pilot)?;
    let session = Session::of(&context, request.pilot, nonce).await?;
    let n_bytes: usize =
        request.tails.iter().map(|tail| tail.written.stdout.len() + tail.written.stderr.len()).sum();
    if request.tails.len() > N_TAILS_MAX || n_bytes > TAILS_BYTES_MAX {
        let found = request.tails.len();
        return Err(ApiError::bad_request(format!(
            "found {n_bytes} bytes of {found} tasks; {TAILS_BYTES_MAX} of {N_TAILS_MAX} are the most at a time"
        )));
    }
    request.tails.retain(|tail| session.holds(tail.job, tail.written.index));
    answer(format, &context.live.take(request, Instant::now()))
}

/// Asks the engine until the API ends: then nobody stays parked, and the pilot asks the next manager.
pub(super) async fn ask(
    context: &Context,
    event: impl FnOnce(RequestId) -> Event,
) -> Result<Answer, ApiError> {
    tokio::select! {
        biased;
        answer = context.state.handle.ask(event) => match answer? {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        },
        () = context.stopped() => Err(ApiError::ending()),
    }
}

pub(super) async fn session_body(
    context: &Context,
    request: Request,
) -> Result<((PilotId, u64), Format, Received), ApiError> {
    let Bearer::Session { pilot, nonce } = bearer(request.headers(), request.extensions(), context)? else {
        return Err(ApiError::unauthorized("found another token where a pilot's session is needed"));
    };
    let format = format_of(request.headers());
    let limits = &context.state.limits;
    let body = read_body(request.into_body(), MESSAGE_BYTES_MAX, limits, &context.from_pilots).await?;
    Ok(((pilot, nonce), format, body))
}

/// Whether the session is this pilot's; gives its nonce.
pub(super) fn check_session((session, nonce): (PilotId, u64), pilot: PilotId) -> Result<u64, ApiError> {
    if session == pilot {
        return Ok(nonce);
    }
    Err(ApiError::unauthorized(format!("found the session of pilot {session} in a message of pilot {pilot}")))
}

fn format_of(headers: &HeaderMap) -> Format {
    Format::of_content_type(headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()))
}

/// The message of a pilot. A session that has ended is told so, whatever it sent: the engine says it of what is
/// understood.
pub(super) async fn decode_of<T: DeserializeOwned + Send + 'static>(
    context: &Context,
    (pilot, nonce): (PilotId, u64),
    format: Format,
    body: Received,
) -> Result<T, ApiError> {
    match decode(format, body).await {
        Ok(message) => Ok(message),
        Err(error) => Err(Session::of(context, pilot, nonce).await.err().unwrap_or(error)),
    }
}

async fn decode<T: DeserializeOwned + Send + 'static>(format: Format, body: Received) -> Result<T, ApiError> {
    if body.bytes.len() <= DECODE_HERE_BYTES_MAX {
        return Ok(format.decode(&body.bytes)?);
    }
    blocking(move || Ok(format.decode(&body.bytes)?)).await
}

pub(super) fn answer<T: Serialize>(format: Format, message: &T) -> Result<Response, ApiError> {
    Ok(([(header::CONTENT_TYPE, format.content_type())], format.encode(message)?).into_response())
}
