//! Parked pulls outside of HTTP, so that ten thousand pilots that wait do not hold ten thousand pairs of
//! buffers. A handler that has waited for a moment puts what it waits for into its connection's [`Lot`].
//! The connection forgets its HTTP state and waits with nothing but the socket; then it begins anew, as if
//! the request had come again without its body, and answers that with what was waited for.

use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Bytes,
    extract::Request,
    http::{Version, header},
    response::Response,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf},
    sync::mpsc,
    time::timeout,
};

/// A wait that is over sooner is not worth the change.
const PARKED_AFTER: Duration = Duration::from_millis(20);
/// Stands for the request whose answer was waited for. It reaches no handler.
const STAND_IN: &[u8] = b"POST / HTTP/1.1\r\nhost: parked\r\ncontent-length: 0\r\n\r\n";
/// A client that speaks before it was answered is heard again only after that. Kept small: it is part of
/// what a parked pull costs.
const EARLY_BYTES_MAX: usize = 16;

/// When so many pulls were parked, what they gave back lies between what is still used, and only the
/// allocator can give it on.
const PARKED_SINCE_MIN: usize = 256;

/// How many pulls were parked since memory was last given back.
#[derive(Default)]
pub(in crate::api) struct Freed(AtomicUsize);

impl Freed {
    /// One more was parked.
    pub(in crate::api) fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether so much may have become free that it is worth the look.
    pub(in crate::api) fn is_much(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= PARKED_SINCE_MIN
    }

    /// Gives free memory back to the system. Takes milliseconds.
    pub(in crate::api) fn give_back(&self) {
        self.0.store(0, Ordering::Relaxed);
        #[cfg(target_env = "gnu")]
        // SAFETY: it touches only memory that the allocator holds free.
        unsafe {
            nix::libc::malloc_trim(0);
        }
    }
}

/// What a handler waits for.
pub(in crate::api) type Waiting = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A connection's place for what its request waits for.
#[derive(Clone)]
pub(in crate::api) struct Lot(mpsc::Sender<Waiting>);

impl Lot {
    /// A place, and where the connection finds what was put there.
    pub(in crate::api) fn new() -> (Lot, mpsc::Receiver<Waiting>) {
        let (lot, parked) = mpsc::channel(1);
        (Lot(lot), parked)
    }

    /// The place of a request that its connection can answer later: it stays open after it.
    pub(in crate::api) fn of(request: &Request) -> Option<Lot> {
        let closes = request.headers().get(header::CONNECTION).is_some_and(|said| said != "keep-alive");
        let is_kept = request.version() == Version::HTTP_11 && !closes;
        request.extensions().get::<Lot>().filter(|_| is_kept).cloned()
    }

    /// The answer, if it comes soon. Else the connection takes over, and this never ends.
    pub(in crate::api) async fn wait(self, mut waiting: Waiting) -> Response {
        if let Ok(answer) = timeout(PARKED_AFTER, &mut waiting).await {
            return answer;
        }
        match self.0.try_send(waiting) {
            Ok(()) => std::future::pending().await,
            // The connection is ending.
            Err(error) => error.into_inner().await,
        }
    }
}

/// A stream, and what is read before it.
pub(in crate::api) struct Rewound<S> {
    early: Bytes,
    stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Rewound<S> {
    /// Nothing comes before it.
    pub(in crate::api) fn new(stream: S) -> Rewound<S> {
        Rewound { early: Bytes::new(), stream }
    }

    /// Waits for an answer; `None`: the peer has hung up. After it, the stand-in of the request is read
    /// first, then what the peer has said already.
    pub(in crate::api) async fn wait(&mut self, mut waiting: Waiting, heard: &[u8]) -> Option<Box<Response>> {
        let mut said = [STAND_IN, heard, &self.early[..]].concat();
        let mut bytes = [0; EARLY_BYTES_MAX];
        let answer = tokio::select! {
            answer = &mut waiting => Box::new(answer),
            n = self.stream.read(&mut bytes) => {
                let n = n.ok().filter(|n| *n > 0)?;
                said.extend_from_slice(bytes.get(..n)?);
                Box::new(waiting.await)
            }
        };
        self.early = said.into();
        Some(answer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let n = buffer.remaining().min(self.early.len());
        buffer.put_slice(&self.early.split_to(n));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        sync::oneshot,
    };

    use super::*;

    /// Waits for an answer that comes when it is sent.
    fn waiting() -> (oneshot::Sender<Response>, Waiting) {
        let (send, answer) = oneshot::channel();
        (send, Box::pin(async { answer.await.unwrap_or_default() }))
    }

    #[tokio::test]
    async fn what_was_said_before_the_answer_is_heard_after_the_stand_in() {
        let (ours, mut theirs) = duplex(64);
        let mut stream = Rewound::new(ours);
        theirs.write_all(b"more, and ").await.unwrap();
        let (send, answer) = waiting();
        let (answer, ()) = tokio::join!(stream.wait(answer, b"some, "), async {
            theirs.write_all(b"more").await.unwrap();
            send.send(Response::default()).unwrap();
        });
        assert!(answer.is_some());
        drop(theirs);
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        let stand_in = String::from_utf8_lossy(STAND_IN).into_owned();
        assert_eq!(heard, stand_in + "some, more, and more");
    }

    #[tokio::test]
    async fn who_hangs_up_is_waited_for_no_longer() {
        let (ours, theirs) = duplex(64);
        let (send, answer) = waiting();
        drop(theirs);
        assert!(Rewound::new(ours).wait(answer, b"").await.is_none());
        assert!(send.is_closed(), "its answer is still waited for");
    }

    #[tokio::test]
    async fn a_long_wait_moves_to_the_connection_and_a_short_one_does_not() {
        let (lot, mut parked) = Lot::new();
        let short: Waiting = Box::pin(async { Response::default() });
        lot.clone().wait(short).await;
        let (send, long) = waiting();
        let moved = tokio::select! {
            _ = lot.wait(long) => None,
            moved = parked.recv() => moved,
        };
        send.send(Response::default()).unwrap();
        moved.expect("the wait is the connection's now").await;
    }
}
