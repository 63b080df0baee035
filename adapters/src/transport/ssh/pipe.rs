//! A stream through a connection: bytes from a socket here to a channel, and back.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
};

use nix::poll::PollFlags;
use ssh2::Channel;

use super::wire::Wire;

const BUFFER_BYTES: usize = 32 << 10;

/// The end that is here, not blocking.
pub(super) enum Local {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(super) struct Pipe {
    channel: Channel,
    local: Local,
    /// Read here, not yet sent.
    outgoing: Vec<u8>,
    /// Received, not yet written here.
    incoming: Vec<u8>,
    /// Nothing more comes from here, and the other end was told.
    is_out_over: bool,
    is_in_over: bool,
    is_read_out: bool,
}

impl Pipe {
    pub(super) fn new(channel: Channel, local: Local) -> Pipe {
        let (outgoing, incoming) = (Vec::new(), Vec::new());
        Pipe { channel, local, outgoing, incoming, is_out_over: false, is_in_over: false, is_read_out: false }
    }

    /// Moves what can be; says whether anything did. Errors: the connection is lost.
    pub(super) fn step(&mut self, wire: &Wire) -> std::io::Result<bool> {
        let moved_out = self.step_out(wire)?;
        let moved_in = self.step_in(wire)?;
        if self.is_done() {
            wire.sending(|_| self.channel.close())?;
        }
        Ok(moved_out || moved_in)
    }

    fn step_out(&mut self, wire: &Wire) -> std::io::Result<bool> {
        if self.is_out_over {
            return Ok(false);
        }
        let mut moved = false;
        if self.outgoing.is_empty() && !self.is_read_out {
            let mut buffer = [0; BUFFER_BYTES];
            match self.local.read(&mut buffer) {
                Ok(n) => {
                    moved = true;
                    self.is_read_out = n == 0;
                    self.outgoing.extend_from_slice(&buffer[..n]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => self.is_read_out = true,
            }
        }
        match wire.writing(&mut self.channel, &self.outgoing)? {
            Some(n) => {
                self.outgoing.drain(..n);
                moved |= n > 0;
            }
            None => {
                self.outgoing.clear();
                self.is_read_out = true;
            }
        }
        if self.outgoing.is_empty() && self.is_read_out {
            wire.sending(|_| self.channel.send_eof())?;
            self.is_out_over = true;
            moved = true;
        }
        Ok(moved)
    }

    fn step_in(&mut self, wire: &Wire) -> std::io::Result<bool> {
        if self.is_in_over {
            return Ok(false);
        }
        let mut moved = false;
        if self.incoming.is_empty() {
            let mut buffer = [0; BUFFER_BYTES];
            match wire.receiving(|| self.channel.read(&mut buffer)) {
                Ok(0) if self.channel.eof() => self.shut(),
                Ok(n) => {
                    moved = n > 0;
                    self.incoming.extend_from_slice(&buffer[..n]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if !self.incoming.is_empty() {
            match self.local.write(&self.incoming) {
                Ok(n) => {
                    self.incoming.drain(..n);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => {
                    self.incoming.clear();
                    self.is_read_out = true;
                    self.shut();
                }
            }
        }
        Ok(moved)
    }

    fn shut(&mut self) {
        self.is_in_over = true;
        // Its own end may have been first.
        let _ = match &self.local {
            Local::Tcp(local) => local.shutdown(Shutdown::Write),
            Local::Unix(local) => local.shutdown(Shutdown::Write),
        };
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_out_over && self.is_in_over
    }

    /// What of the end here would let it move; `None`: only the other end can.
    pub(super) fn waits_for(&self) -> Option<PollFlags> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, self.outgoing.is_empty() && !self.is_read_out);
        flags.set(PollFlags::POLLOUT, !self.incoming.is_empty());
        (!flags.is_empty()).then_some(flags)
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.local {
            Local::Tcp(local) => local.as_fd(),
            Local::Unix(local) => local.as_fd(),
        }
    }
}

impl Local {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Local::Tcp(local) => local.read(buffer),
            Local::Unix(local) => local.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Local::Tcp(local) => local.write(bytes),
            Local::Unix(local) => local.write(bytes),
        }
    }
}
