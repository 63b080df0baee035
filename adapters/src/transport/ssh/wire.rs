//! A session of libssh2 and its socket. It mixes up packets if another call comes between the halves of one
//! that could not send all: so what sends does so to its end, and only what receives gives way.

use std::{
    io::{ErrorKind, Write},
    os::fd::{AsFd, OwnedFd},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use ssh2::{BlockDirections, Channel, ErrorCode, Session};

/// For so long a call waits for the other side.
pub(super) const CALL_LIMIT_MS: u16 = 30_000;

pub(crate) struct Wire {
    pub(super) session: Session,
    pub(super) socket: OwnedFd,
}

/// `LIBSSH2_ERROR_CHANNEL_CLOSED`
const CHANNEL_CLOSED: ErrorCode = ErrorCode::Session(-26);

impl Wire {
    /// Runs what sends, to its end.
    pub(super) fn sending<T>(
        &self,
        call: impl FnOnce(&Session) -> Result<T, ssh2::Error>,
    ) -> Result<T, ssh2::Error> {
        self.session.set_blocking(true);
        call(&self.session)
    }

    /// Sends what the other side has room for, and says how many bytes: to wait for more room would let all
    /// others wait. `None`: the other side takes nothing more.
    pub(super) fn writing(&self, channel: &mut Channel, bytes: &[u8]) -> std::io::Result<Option<usize>> {
        self.session.set_blocking(true);
        let room = usize::try_from(channel.write_window().remaining).unwrap_or(usize::MAX);
        match &bytes[..bytes.len().min(room)] {
            [] => Ok(Some(0)),
            bytes => match channel.write(bytes) {
                Err(error) if is_closed(&error) => Ok(None),
                result => result.map(Some),
            },
        }
    }

    /// Runs what receives. Error `WouldBlock`: there is nothing yet.
    pub(super) fn receiving<T>(&self, mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
        self.session.set_blocking(false);
        loop {
            let result = call();
            // To receive may mean to send that there is room again.
            let is_half_sent = || {
                !matches!(self.session.block_directions(), BlockDirections::None | BlockDirections::Inbound)
            };
            match &result {
                Err(error) if error.kind() == ErrorKind::WouldBlock && is_half_sent() => {
                    self.until_writable()?
                }
                _ => return result,
            }
        }
    }

    fn until_writable(&self) -> std::io::Result<()> {
        let mut socket = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut socket, PollTimeout::from(CALL_LIMIT_MS)) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ssh2::Error>());
    inner.is_some_and(|inner| inner.code() == CHANNEL_CLOSED)
}
