//! Connections: accepted, bounded in number and time, ended gracefully. HTTP/1.1, with or without TLS.

use std::{
    convert::Infallible,
    io,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, response::Response};
use hyper::{
    Request,
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
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    ApiState, Context, Shared,
    parking::{Lot, Rewound, Waiting},
    routes,
};

/// Bytes of a request's header and of a portion of its body at most.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// How often freed memory is given back to the system.
const HOUSE_KEEPING: Duration = Duration::from_secs(5);
/// After accepting failed, as it does when the process has no file left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `state.stop`, then lets answers in flight finish. Parked pulls and event
/// streams are ended at once.
pub async fn serve(listener: TcpListener, tls: Option<Arc<ServerConfig>>, state: ApiState) {
    let limits = state.limits;
    let context: Shared = Arc::new(Context::new(state));
    let router = routes::router(context.clone());
    let tls = tls.map(TlsAcceptor::from);
    let slots = Arc::new(Semaphore::new(limits.n_connections_max));
    let mut connections = JoinSet::new();
    let mut stopped = pin!(context.stopped());
    let mut house_keeping = tokio::time::interval(HOUSE_KEEPING);
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            accepted = accept(&listener, &slots) => accepted,
            _ = house_keeping.tick() => {
                if context.freed.is_much() {
                    let context = context.clone();
                    // Nobody waits for it.
                    drop(tokio::task::spawn_blocking(move || context.freed.give_back()));
                }
                continue;
            }
        };
        // Those that have ended are forgotten here, so that the set stays as small as the slots.
        while connections.try_join_next().is_some() {}
        let Some((stream, slot)) = accepted else { continue };
        let (tls, router, context) = (tls.clone(), router.clone(), context.clone());
        connections.spawn(async move {
            attend(stream, tls, router, &context).await;
            drop(slot);
        });
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.farewell, all_ended).await.is_err() {
        tracing::warn!("connections were cut that took too long to end");
    }
}

type Slot = tokio::sync::OwnedSemaphorePermit;

async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<(TcpStream, Slot)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, slot)),
        Err(error) if is_of_one_connection(&error) => None,
        Err(error) => {
            tracing::warn!(%error, "failed to accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Whether the peer had gone before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn attend(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, context: &Context) {
    // Small answers must not wait for each other. A socket that refuses it is about to fail anyway.
    let _ = stream.set_nodelay(true);
    match tls {
        None => converse(stream, router, context).await,
        // In a box of its own: connections without TLS do not pay for the room that it takes.
        Some(tls) => Box::pin(attend_tls(stream, tls, router, context)).await,
    }
}

async fn attend_tls(stream: TcpStream, tls: TlsAcceptor, router: Router, context: &Context) {
    let limit = context.state.limits.handshake;
    match timeout(limit, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, router, context).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router, context: &Context) {
    let (mut stream, mut answer) = (Rewound::new(stream), None);
    // In a box, and gone while a pull is parked.
    while let Some(parked) = Box::pin(serve_until_parked(stream, answer, &router, context)).await {
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

/// Speaks HTTP until the connection has ended (`None`) or a pull is parked. With `answer`: begins with that.
async fn serve_until_parked<S: AsyncRead + AsyncWrite + Unpin>(
    stream: Rewound<S>,
    answer: Option<Response>,
    router: &Router,
    context: &Context,
) -> Option<ParkedConnection<S>> {
    let (lot, mut parked) = Lot::new();
    let service = answering(answer, lot, router.clone());
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(context.state.limits.header)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        biased;
        ended = &mut connection => ended,
        Some(waiting) = parked.recv() => {
            let parts = connection.into_parts();
            return Some(ParkedConnection { stream: parts.io.into_inner(), heard: parts.read_buf.to_vec(), waiting });
        }
        () = context.stopped() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
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
    answer: Option<Response>,
    lot: Lot,
    router: Router,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Unpin {
    let (answer, router) = (Mutex::new(answer), TowerToHyperService::new(router));
    service_fn(move |mut request: Request<Incoming>| {
        let answer = answer.lock().ok().and_then(|mut answer| answer.take());
        request.extensions_mut().insert(lot.clone());
        let (router, request) = (router.clone(), request);
        async move {
            match answer {
                Some(answer) => Ok(answer),
                None => router.call(request).await,
            }
        }
    })
}
