//! Connections: accepted, bounded in number and time, ended gracefully. HTTP/1.1, with or without TLS.

use std::{convert::Infallible, io, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::IntoResponse};
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
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    ApiState, Context, Shared,
    crowd::{Crowd, Guest},
    error::ApiError,
    patience::Patient,
    routes,
};

/// Bytes of a request's header and of a portion of its body at most.
const BUFFER_BYTES_MAX: usize = 128 << 10;
/// After accepting failed, as it does when the process has no file left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `state.stop`, then lets answers in flight finish. Parked pulls and event
/// streams are ended at once.
pub async fn serve(listener: TcpListener, tls: Option<Arc<ServerConfig>>, state: ApiState) {
    let limits = state.limits;
    let context: Shared = Arc::new(Context::new(state));
    let router = routes::router(context.clone());
    let tls = tls.map(TlsAcceptor::from);
    let mut crowd = Crowd::new(limits.n_connections_max);
    let mut connections = JoinSet::new();
    let mut stopped = pin!(context.stopped());
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            accepted = listener.accept() => accepted,
        };
        // Those that have ended are forgotten here, so that the set stays as small as the crowd.
        while connections.try_join_next().is_some() {}
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                after_failed_accept(&error, &mut crowd).await;
                continue;
            }
        };
        let Some(guest) = crowd.admit() else { continue };
        let (tls, router, context) = (tls.clone(), router.clone(), context.clone());
        let seat = Arc::downgrade(&guest);
        let connection = connections.spawn(async move { attend(stream, tls, router, guest, &context).await });
        crowd.seat(seat, connection);
    }
    drop(listener);
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
    context: &Context,
) {
    // Small answers must not wait for each other. A socket that refuses it is about to fail anyway.
    let _ = stream.set_nodelay(true);
    let limits = &context.state.limits;
    let stream = Patient::new(stream, limits.answer);
    let Some(tls) = tls else { return converse(stream, router, guest, context).await };
    match timeout(limits.handshake, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, router, guest, context).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    router: Router,
    guest: Arc<Guest>,
    context: &Context,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(context.state.limits.header)
        .keep_alive(!guest.is_surplus)
        .max_buf_size(BUFFER_BYTES_MAX);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let is_surplus = guest.is_surplus;
        // So that a right token is noted where it counts.
        request.extensions_mut().insert(guest.clone());
        let answering = router.call(request.map(Body::new));
        async move {
            match is_surplus {
                true => Ok::<_, Infallible>(ApiError::crowded().into_response()),
                false => answering.await,
            }
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = context.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
