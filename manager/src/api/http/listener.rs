//! Connections: accepted, bounded in number and time, ended gracefully. HTTP/1.1, with or without TLS.

use std::{
    convert::Infallible,
    io,
    pin::{self, pin},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
};
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::api::{
    ApiState, Context, Shared,
    http::{
        crowd::{Crowd, Guest},
        doors,
        error::ApiError,
        parking::{Lot, Rewound, Waiting},
        patience::Patient,
    },
    routes,
};
use crate::doors::Arrival;

/// Bytes of a request's header and of a portion of its body at most.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// How often freed memory is given back to the system.
const HOUSE_KEEPING: Duration = Duration::from_secs(5);
/// After accepting failed, as it does when the process has no file left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections, those of `arrivals` as pilots of the platforms through whose doors they came, until
/// `state.stop`; then lets answers in flight finish. Parked pulls and event streams are ended at once.
pub async fn serve(
    listener: TcpListener,
    mut arrivals: mpsc::Receiver<Arrival>,
    tls: Option<Arc<ServerConfig>>,
    state: ApiState,
) {
    let limits = state.limits;
    let context: Shared = Arc::new(Context::new(state));
    let router = routes::router(context.clone());
    let behind_doors = router.clone().layer(from_fn_with_state(context.clone(), doors::guarded));
    let tls = tls.map(TlsAcceptor::from);
    let mut crowd = Crowd::new(limits.n_connections_max);
    let mut connections = JoinSet::new();
    let mut stopped = pin!(context.stopped());
    let mut house_keeping = tokio::time::interval(HOUSE_KEEPING);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            accepted = listener.accept() => accepted.map(|(stream, _)| (stream, None)),
            Some(Arrival { stream, platform }) = arrivals.recv() => Ok((stream, Some(platform))),
            _ = house_keeping.tick() => {
                if context.freed.is_much() {
                    let context = context.clone();
                    // Nobody waits for it.
                    drop(tokio::task::spawn_blocking(move || context.freed.give_back()));
                }
                continue;
            }
        };
        // Those that have ended are forgotten here, so that the set stays as small as the crowd.
        while connections.try_join_next().is_some() {}
        let (stream, platform) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                after_failed_accept(&error, &mut crowd).await;
                continue;
            }
        };
        let router = if platform.is_some() { &behind_doors } else { &router };
        let Some(guest) = crowd.admit(platform) else { continue };
        let seat = Arc::downgrade(&guest);
        let connection =
            connections.spawn(attend(stream, tls.clone(), router.clone(), guest, context.clone()));
        crowd.seat(seat, connection);
    }
    drop((listener, arrivals));
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.farewell, all_ended).await.is_err() {
        tracing::warn!("connections were cut that took too long to end");
    }
}

/// Without a file left, a stranger's is the next one to be had; else only waiting helps.
async fn after_failed_accept(error: &io::Error, crowd: &mut Crowd) {
    if is_of_one_connection(error) {
        return;
    }
    if crowd.send_stranger_away() {
        // Its file is free when its task has been dropped.
        return tokio::task::yield_now().await;
    }
    tracing::warn!(%error, "failed to accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// Whether the peer had gone before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn attend(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    guest: Arc<Guest>,
    context: Shared,
) {
    // Small answers must not wait for each other. A socket that refuses it is about to fail anyway.
    let _ = stream.set_nodelay(true);
    let limits = &context.state.limits;
    let stream = Patient::new(stream, limits.answer);
    let Some(tls) = tls else { return converse(Box::new(stream), &router, &guest, &context).await };
    // In a box of its own: connections without TLS do not pay for the room that it takes.
    let conversation = Box::pin(async {
        match timeout(limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => converse(Box::new(stream), &router, &guest, &context).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake took too long"),
        }
    });
    conversation.await;
}

/// What it holds while a pull is parked is most of what an idle pilot costs, so all is in boxes that is large.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: Box<S>,
    router: &Router,
    guest: &Arc<Guest>,
    context: &Context,
) {
    let (mut stream, mut answer) = (Rewound::new(stream), None);
    loop {
        let (lot, parked) = Lot::new();
        let service = answering(answer, lot, guest.clone(), router.clone());
        // In a box, and gone while a pull is parked.
        let served = Box::pin(serve_until_parked(stream, service, parked, !guest.is_surplus, context)).await;
        let Some(parked) = served else { return };
        context.freed.note();
        stream = parked.stream;
        answer = stream.wait(parked.waiting, &parked.heard).await;
        if answer.is_none() {
            return;
        }
    }
}

/// What is left of a connection while a pull is parked.
struct ParkedConnection<S> {
    stream: Rewound<S>,
    heard: Vec<u8>,
    waiting: Waiting,
}

/// Speaks HTTP until the connection has ended (`None`) or a pull is parked.
async fn serve_until_parked<S: AsyncRead + AsyncWrite + Unpin>(
    stream: Rewound<S>,
    service: impl Service<Request<Incoming>, Response = Response, Error = Infallible> + Unpin,
    mut parked: mpsc::Receiver<Waiting>,
    keeps_alive: bool,
    context: &Context,
) -> Option<Box<ParkedConnection<S>>> {
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.state.limits.header)
        .keep_alive(keeps_alive)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        // An answer that is there already is on its way before a stop is seen.
        biased;
        ended = &mut connection => ended,
        Some(waiting) = parked.recv() => {
            let parts = connection.into_parts();
            let (stream, heard) = (parts.io.into_inner(), parts.read_buf.to_vec());
            return Some(Box::new(ParkedConnection { stream, heard, waiting }));
        }
        () = context.stopped() => {
            pin::Pin::new(&mut connection).graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
    None
}

/// Serves a connection's requests; the first one, where its answer is there already, with that.
fn answering(
    answer: Option<Box<Response>>,
    lot: Lot,
    guest: Arc<Guest>,
    router: Router,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Unpin {
    let (answer, router) = (Mutex::new(answer), TowerToHyperService::new(router));
    service_fn(move |mut request: Request<Incoming>| {
        let there = answer.lock().ok().and_then(|mut answer| answer.take());
        let there = there.or_else(|| guest.is_surplus.then(|| Box::new(ApiError::crowded().into_response())));
        // So that a right token is noted where it counts.
        request.extensions_mut().insert(guest.clone());
        request.extensions_mut().insert(lot.clone());
        let answering = router.call(request.map(Body::new));
        async move {
            match there {
                Some(answer) => Ok(*answer),
                None => answering.await,
            }
        }
    })
}
