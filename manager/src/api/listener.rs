//! Connections: accepted, bounded in number and time, ended gracefully. HTTP/1.1, with or without TLS.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
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

use super::{ApiState, Context, Shared, routes};

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
    let slots = Arc::new(Semaphore::new(limits.n_connections_max));
    let mut connections = JoinSet::new();
    let mut stopped = pin!(context.stopped());
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => break,
            accepted = accept(&listener, &slots) => accepted,
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
    let Some(tls) = tls else { return converse(stream, router, context).await };
    let limit = context.state.limits.handshake;
    match timeout(limit, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, router, context).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(stream: S, router: Router, context: &Context) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(context.state.limits.header)
        .max_buf_size(BUFFER_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
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
