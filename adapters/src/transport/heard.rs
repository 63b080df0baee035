//! What a command writes, as it comes.

use std::{io, time::Duration};

use tokio::io::{AsyncRead, AsyncReadExt};

use super::OUTPUT_BYTES_MAX;

/// A command that has ended is heard until nothing was written for so long: what a wrapper leads its output through, as
/// `tee`, may end a moment later, and a listing of which the end is missing lacks jobs.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// Room for what is read at once.
const PIECE_BYTES: usize = 16 << 10;

/// What comes through a pipe.
pub(super) struct Heard<P> {
    /// `None`: nobody writes any more.
    pipe: Option<P>,
    pub(super) bytes: Vec<u8>,
}

impl<P: AsyncRead + Unpin> Heard<P> {
    pub(super) fn by(pipe: Option<P>) -> Heard<P> {
        Heard { pipe, bytes: Vec::new() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.pipe.is_none()
    }

    /// Waits for more, unless it is more than any batch system has to say. Nothing is lost if this is dropped.
    pub(super) async fn more(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        self.bytes.reserve(PIECE_BYTES);
        if pipe.read_buf(&mut self.bytes).await? == 0 {
            self.pipe = None;
        }
        match self.bytes.len() > OUTPUT_BYTES_MAX {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(()),
        }
    }

    /// The same of a pipe that is over when it cannot be read any more. Says whether these bytes, if any are sought, have
    /// come now.
    pub(super) async fn more_with(&mut self, sought: Option<&[u8]>) -> io::Result<bool> {
        let before = self.bytes.len();
        match self.more().await {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return Err(error),
            Err(_) => self.pipe = None,
            Ok(()) => {}
        }
        let Some(sought) = sought else { return Ok(false) };
        let new = &self.bytes[before.saturating_sub(sought.len())..];
        Ok(new.windows(sought.len()).any(|window| window == sought))
    }
}
