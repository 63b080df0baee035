//! A stream to another pilot that fails if the pilot stops reading, so that it cannot hold a connection and a
//! file here.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream that fails if no byte could be written for too long.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// The time limit of a blocked write.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Patient<S> {
        Patient { stream, patience, end: None }
    }

    /// Returns the outcome of a write, or an error after too long a wait.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if outcome.is_ready() {
            self.end = None;
            return outcome;
        }
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        ready!(end.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing of what is sent is read any more")))
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
        self.judge(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A socket does not buffer, so these calls do not block.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, time::Duration};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::Patient;

    #[tokio::test]
    async fn who_reads_no_more_is_not_waited_for() {
        let (near, mut far) = duplex(64);
        let mut near = Patient::new(near, Duration::from_millis(20));
        let reading = async {
            far.read_exact(&mut [0; 100]).await.unwrap();
        };
        let (written, ()) = tokio::join!(near.write_all(&[7; 1000]), reading);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::TimedOut);
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
}
