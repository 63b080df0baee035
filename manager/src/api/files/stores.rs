//! Files of stores, for pilots: a signed address, or the file itself where the store signs none.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use adapters::transport::SftpError;
use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use protocol::{
    files::objects::{StoreAccess, StoreQuery, StoreWay, Stores as StoreList},
    job::{Source, StorePlace},
};
use reqwest::Url;
use scheduler::ranges::TaskSet;
use tokio::sync::mpsc;

use crate::api::{
    Context, Shared, blocking,
    files::objects::{Piece, Side, a_place, announced, feed},
    http::{
        error::{ApiError, json},
        extract::{InQuery, User},
    },
    pilots::{places::Place, sessions::Session},
};
use crate::files::{
    stores::{Store, StoreWaits},
    web_store::{self, Web, WebError},
};

/// Pieces of a file that wait to be taken.
const N_PIECES: usize = 4;

/// The stores that the user's jobs may name.
pub(in crate::api) async fn list(State(context): State<Shared>, user: User) -> Response {
    json(StatusCode::OK, &StoreList { stores: context.state.stores.views(&user.name) })
}

/// How a pilot reaches a file.
pub(in crate::api) async fn way(
    State(context): State<Shared>,
    session: Session,
    InQuery(query): InQuery<StoreQuery>,
) -> Result<Response, ApiError> {
    let (store, place) = find(&context, &session, &query).await?;
    // Before a file is sent for nothing.
    store.ready().await?;
    let url = store.signed(&place.path, query.way).await.map_err(ApiError::store_broken)?;
    Ok(json(StatusCode::OK, &StoreWay { url }))
}

/// A pilot fetches a file that its tasks need.
pub(in crate::api) async fn read(
    State(context): State<Shared>,
    session: Session,
    InQuery(query): InQuery<StoreQuery>,
) -> Result<Response, ApiError> {
    let (store, place) = through_here(&context, &session, &query, StoreAccess::Read).await?;
    let transfer = a_place(&context, &Side::Pilot(session.pilot)).await?;
    if let Some((web, url)) = store.web(&place.path) {
        return read_web(web, url, transfer).await;
    }
    let (pieces, mut taken) = mpsc::channel::<Result<Bytes, ApiError>>(N_PIECES);
    tokio::task::spawn_blocking(move || {
        let Some(host) = store.host() else { return };
        let gone = |_| io::Error::other("nobody takes it any more");
        let path = store.path_on_host(&place.path);
        let read = host.read(&path, |piece| pieces.blocking_send(Ok(piece.into())).map_err(gone));
        if let Err(error) = read {
            // Who asked has gone, or hears why.
            let _ = pieces.blocking_send(Err(of_host(&store, error)));
        }
    });
    // What is not there is said before anything is sent.
    let first = taken.recv().await.transpose()?;
    let rest = futures_util::stream::unfold((taken, transfer), |(mut taken, transfer)| async move {
        let piece = taken.recv().await?;
        Some((piece.map_err(|error| io::Error::other(error.message)), (taken, transfer)))
    });
    let first = futures_util::stream::iter(first.map(Ok));
    let body = Body::from_stream(futures_util::StreamExt::chain(first, rest));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// A pilot delivers a file that a task has left.
pub(in crate::api) async fn write(
    State(context): State<Shared>,
    session: Session,
    InQuery(query): InQuery<StoreQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    let (store, place) = through_here(&context, &session, &query, StoreAccess::Write).await?;
    let _transfer = a_place(&context, &Side::Pilot(session.pilot)).await?;
    if let Some((web, url)) = store.web(&place.path) {
        return write_web(&context, web, url, request).await;
    }
    let mode = if query.executable { 0o777 } else { 0o666 };
    let (pieces, mut taken) = mpsc::channel(N_PIECES);
    let writing = tokio::task::spawn_blocking(move || {
        let host = store.host().ok_or_else(ApiError::no_host)?;
        let next = || match taken.blocking_recv() {
            Some(Piece::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Piece::End) => Ok(None),
            None => Err(io::Error::other("the file was cut off on its way")),
        };
        let written = host.write(&store.path_on_host(&place.path), mode, next);
        written.map_err(|error| of_host(&store, error))
    });
    let fed = feed(request.into_body(), pieces, context.state.limits.body).await;
    let written = writing.await.unwrap_or_else(|error| Err(ApiError::broken(&error)));
    // A writer that has given up knows why; who is read from does not.
    let bytes = match (fed, written) {
        (Ok(()) | Err(None), written) => written?,
        (Err(Some(error)), _) => return Err(error),
    };
    tracing::debug!(place = query.place, bytes, "brought to a store");
    Ok(json(StatusCode::CREATED, &bytes))
}

/// A file of a server of HTTP, as it comes.
async fn read_web(web: &Web, url: Url, transfer: Place) -> Result<Response, ApiError> {
    let response = web.read(url).await?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    if let Some(length) = response.headers().get(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, length.clone());
    }
    let pieces = futures_util::stream::unfold((response, transfer), |(mut response, transfer)| async move {
        let piece = response.chunk().await.map_err(|error| web_store::broken_off(&error)).transpose()?;
        Some((piece, (response, transfer)))
    });
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// A file for a server of HTTP. What is cut off on its way is cut off there, too.
async fn write_web(context: &Context, web: &Web, url: Url, request: Request) -> Result<Response, ApiError> {
    let n_bytes = announced(request.headers());
    let (pieces, taken) = mpsc::channel(N_PIECES);
    let n_taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&n_taken);
    let pieces_out = futures_util::stream::unfold(Some((taken, count)), |state| async move {
        let (mut taken, count) = state?;
        match taken.recv().await {
            Some(Piece::Bytes(bytes)) => {
                count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                Some((Ok(bytes), Some((taken, count))))
            }
            Some(Piece::End) => None,
            None => Some((Err(io::Error::other("the file was cut off on its way")), None)),
        }
    });
    let fed = feed(request.into_body(), pieces, context.state.limits.body);
    let written = web.write(url, n_bytes, reqwest::Body::wrap_stream(pieces_out), &n_taken);
    match tokio::join!(fed, written) {
        // A server that has given up knows why; who is read from does not.
        (Ok(()) | Err(None), written) => written?,
        (Err(Some(error)), _) => return Err(error),
    }
    tracing::debug!(bytes = n_bytes, "brought to a store");
    Ok(json(StatusCode::CREATED, &n_bytes.unwrap_or(0)))
}

/// The store of a place, if the job names it and its user may.
async fn find(
    context: &Context,
    session: &Session,
    query: &StoreQuery,
) -> Result<(Arc<Store>, StorePlace), ApiError> {
    let place = StorePlace::parse(&query.place).ok_or_else(|| {
        ApiError::bad_request(format!("place: found `{}`; write store://NAME/PATH", query.place))
    })?;
    if !context.facts(query.job).await?.compiled.names_store(&place.store) {
        return Err(ApiError::no_such_store(&place.store, &format!("job {} does not name it", query.job)));
    }
    check_declared(context, session, query).await?;
    let user = context.job(query.job).await?.user;
    let store = context.state.stores.find(&place.store, &user);
    let store = store.ok_or_else(|| {
        ApiError::no_such_store(
            &place.store,
            &format!("the manager's configuration has none of that name for {user}"),
        )
    })?;
    Ok((store, place))
}

/// Whether a task that the pilot has reads the place, or leaves a file there. Of a pilot that does not say which task it
/// means, all its tasks of the job are looked at.
async fn check_declared(context: &Context, session: &Session, query: &StoreQuery) -> Result<(), ApiError> {
    let refusal = || ApiError::not_leased(&format!("no task of job {} with {}", query.job, query.place));
    let held = session.tasks(query.job)?;
    let tasks = match query.task {
        Some(index) if held.contains(index) => TaskSet::from(index..index + 1),
        Some(_) => return Err(refusal()),
        None => held.clone(),
    };
    let (facts, query) = (context.facts(query.job).await?, query.clone());
    let is_declared = move || {
        let (compiled, job, place) = (&facts.compiled, query.job.0, query.place.as_str());
        let reads = |index| {
            let inputs = compiled.inputs(job, index).unwrap_or_default();
            inputs.iter().any(|input| input.source == Source::Store && input.from == place)
        };
        let leaves = |index| {
            let outputs = compiled.outputs(job, index).unwrap_or_default();
            outputs.iter().any(|output| output.may_go_to(place))
        };
        tasks.indices().any(|index| match query.way {
            StoreAccess::Read => reads(index),
            StoreAccess::Write => leaves(index),
        })
    };
    match blocking(move || Ok(is_declared())).await? {
        true => Ok(()),
        false => Err(refusal()),
    }
}

/// The same of a store whose files pass through the manager.
async fn through_here(
    context: &Context,
    session: &Session,
    query: &StoreQuery,
    way: StoreAccess,
) -> Result<(Arc<Store>, StorePlace), ApiError> {
    if query.way != way {
        return Err(ApiError::bad_request("way: GET reads and PUT writes"));
    }
    let found = find(context, session, query).await?;
    if found.0.is_through_manager() { Ok(found) } else { Err(ApiError::no_host()) }
}

impl From<WebError> for ApiError {
    fn from(error: WebError) -> ApiError {
        let (status, code) = match &error {
            WebError::None { .. } => (StatusCode::NOT_FOUND, "not-in-store"),
            WebError::Denied { .. } | WebError::Refused { .. } => (StatusCode::FORBIDDEN, "not-allowed"),
            WebError::Broken { .. } => (StatusCode::BAD_GATEWAY, "store-broken"),
        };
        ApiError { status, code, message: error.to_string(), problems: Vec::new() }
    }
}

/// Why the host of a store has not given or taken a file. If it asks for a person, pilots wait: nobody has failed.
fn of_host(store: &Store, error: SftpError) -> ApiError {
    match &error {
        SftpError::NotConnected(why) => store.waits(why).map_or_else(|| error.into(), ApiError::from),
        _ => error.into(),
    }
}

impl From<StoreWaits> for ApiError {
    fn from(waits: StoreWaits) -> ApiError {
        let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, "store-waits");
        ApiError { status, code, message: waits.to_string(), problems: Vec::new() }
    }
}

impl From<SftpError> for ApiError {
    fn from(error: SftpError) -> ApiError {
        let (status, code) = match &error {
            SftpError::None { .. } => (StatusCode::NOT_FOUND, "not-in-store"),
            SftpError::Denied { .. } => (StatusCode::FORBIDDEN, "not-allowed"),
            SftpError::GivenUp(_) => (StatusCode::BAD_REQUEST, "bad-request"),
            SftpError::NotConnected(_) | SftpError::Broken { .. } => {
                (StatusCode::BAD_GATEWAY, "store-broken")
            }
        };
        ApiError { status, code, message: error.to_string(), problems: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use adapters::transport::{Nobody, SftpError, SshError};
    use axum::http::StatusCode;

    use super::of_host;
    use crate::files::stores::Stores;

    #[test]
    fn a_host_that_asks_for_a_person_is_waited_for_and_the_command_is_named() {
        let profiles = serde_yaml::from_str::<Vec<_>>("[{name: fs, kind: sftp, ssh: far}]").unwrap();
        let store = Stores::open(&profiles, &(Arc::new(Nobody) as _)).unwrap().find("fs", "ann").unwrap();
        let (host, user, port) = ("far".to_owned(), "ann".to_owned(), 22);
        let why = "the code".to_owned();
        let needs_person = SshError::NeedsPerson { host: host.clone(), user, why: why.clone() };
        let new_key = SshError::UnknownHostKey {
            host: host.clone(),
            port,
            fingerprint: "SHA256:x".into(),
            by_hand: "ssh far".into(),
        };
        for error in [needs_person, new_key] {
            let said = error.to_string();
            let refusal = of_host(&store, SftpError::NotConnected(error));
            // Pilots wait for a manager that says so, and use up no attempt.
            assert_eq!((refusal.status, refusal.code), (StatusCode::SERVICE_UNAVAILABLE, "store-waits"));
            let words = refusal.message;
            assert!(words.contains("`pilotfish platform login fs`") && words.contains(&said), "{words}");
        }
        let away = SshError::NotConnected { host, port, why };
        let refusal = of_host(&store, SftpError::NotConnected(away));
        assert_eq!((refusal.status, refusal.code), (StatusCode::BAD_GATEWAY, "store-broken"));
    }
}
