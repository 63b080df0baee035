//! A stream whose other side must take what is written to it: who reads too slowly is cut off, so that
//! nobody holds answers in memory by not reading them. The other side may still read as it likes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use crate::api::http::extract::BODY_BYTES_PER_SECOND_MIN;

/// A stream that fails when writing to it was blocked for longer than `grace` and what its bytes have earned.
pub(in crate::api) struct Patient<S> {
    stream: S,
    grace: Duration,
    /// Since it was blocked first: what the kernel's buffers took before earns nothing.
    n_written: usize,
    was_blocked: bool,
    /// How long writing was blocked so far.
    blocked: Duration,
    /// Since when it is, and until when it may be.
    now_blocked: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Patient<S> {
    pub(in crate::api) fn new(stream: S, grace: Duration) -> Patient<S> {
        Patient {
            stream,
            grace,
            n_written: 0,
            was_blocked: false,
            blocked: Duration::ZERO,
            now_blocked: None,
        }
    }

    /// What became of an attempt to write; an error instead of waiting for ever.
    fn judge<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if let Some((since, _)) = self.now_blocked.take() {
                self.blocked += since.elapsed();
            }
            return outcome;
        }
        if !self.was_blocked {
            (self.was_blocked, self.n_written) = (true, 0);
        }
        let earned = Duration::from_secs_f64(self.n_written as f64 / BODY_BYTES_PER_SECOND_MIN as f64);
        let left = (self.grace + earned).saturating_sub(self.blocked);
        let (_, end) = self.now_blocked.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + left)))
        });
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "what was answered is read too slowly")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(n)) = &outcome {
            self.n_written = self.n_written.saturating_add(*n);
        }
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        if let Poll::Ready(Ok(n)) = &outcome {
            self.n_written = self.n_written.saturating_add(*n);
        }
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, outcome)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, time::Duration};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::Patient;

    #[tokio::test]
    async fn who_does_not_read_is_not_waited_for() {
        let (near, _far) = duplex(64);
        let mut near = Patient::new(near, Duration::from_millis(20));
        let error = near.write_all(&[7; 1000]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_reads_gets_all() {
        let (near, mut far) = duplex(64);
        let mut near = Patient::new(near, Duration::from_secs(20));
        let reading = tokio::spawn(async move {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).await.map(|_| bytes.len())
        });
        near.write_all(&[7; 100_000]).await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 100_000);
    }

    #[tokio::test]
    async fn a_dribble_earns_less_time_than_it_takes() {
        let (near, mut far) = duplex(64);
        let mut near = Patient::new(near, Duration::from_millis(20));
        // A byte every 5 ms are 200 bytes a second.
        let reading = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(5));
            while far.read_u8().await.is_ok() {
                ticks.tick().await;
            }
        });
        assert!(near.write_all(&[7; 100_000]).await.is_err());
        drop(near);
        reading.await.unwrap();
    }
}
