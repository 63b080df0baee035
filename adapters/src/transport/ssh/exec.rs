//! A command that runs at the other end.

use std::{
    io::{ErrorKind, Read},
    time::{Duration, Instant},
};

use ssh2::Channel;

use super::{
    line::reply::{Answer, Broken},
    wire::Wire,
};
use crate::{command::Output, transport::OUTPUT_BYTES_MAX};

/// Longer than a command goes on beyond its limit where the host has `timeout`.
const CLOSING_LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Exec {
    channel: Channel,
    stdin: Vec<u8>,
    n_sent: usize,
    is_all_sent: bool,
    output: [Vec<u8>; 2],
    is_closed: bool,
    pub(super) until: Instant,
    answer: Answer<Output>,
}

impl Exec {
    pub(super) fn new(channel: Channel, stdin: Vec<u8>, until: Instant, answer: Answer<Output>) -> Exec {
        let output = [Vec::new(), Vec::new()];
        Exec { channel, stdin, n_sent: 0, is_all_sent: false, output, is_closed: false, until, answer }
    }

    /// Sends and reads what can be; says whether anything moved. Errors: the connection is lost.
    pub(super) fn step(&mut self, wire: &Wire) -> std::io::Result<bool> {
        let mut moved = self.send(wire)?;
        for (stream, output) in self.output.iter_mut().enumerate() {
            let mut buffer = [0; 16 << 10];
            match wire.receiving(|| self.channel.stream(stream as i32).read(&mut buffer)) {
                Ok(0) => {}
                Ok(n) => {
                    moved = true;
                    output.extend_from_slice(&buffer[..n]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if !moved && self.channel.eof() {
            match wire.receiving(|| Ok(self.channel.wait_close()?)) {
                Ok(()) => self.is_closed = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    fn send(&mut self, wire: &Wire) -> std::io::Result<bool> {
        if self.is_all_sent || self.channel.eof() {
            return Ok(false);
        }
        let sent = wire.writing(&mut self.channel, &self.stdin[self.n_sent..])?;
        self.n_sent = sent.map_or(self.stdin.len(), |n| self.n_sent + n);
        if self.n_sent == self.stdin.len() {
            wire.sending(|_| self.channel.send_eof())?;
            self.is_all_sent = true;
        }
        Ok(sent != Some(0) || self.is_all_sent)
    }

    /// What it came to, once that is known.
    pub(super) fn result(&self) -> Option<Result<Output, Broken>> {
        if self.output.iter().any(|output| output.len() > OUTPUT_BYTES_MAX) {
            return Some(Err(Broken::TooMuch));
        }
        let text = |output: &[u8]| String::from_utf8_lossy(output).into_owned();
        let is_killed = || self.channel.exit_signal().is_ok_and(|signal| signal.exit_signal.is_some());
        self.is_closed.then(|| {
            let code = self.channel.exit_status().ok().filter(|_| !is_killed());
            Ok(Output { code, stdout: text(&self.output[0]), stderr: text(&self.output[1]) })
        })
    }

    /// Answers; what is left of it is to be closed.
    pub(super) fn end(self, result: Result<Output, Broken>) -> Closing {
        // Who asked may be gone.
        let _ = self.answer.send(result);
        Closing { channel: self.channel, until: Instant::now() + CLOSING_LIMIT }
    }
}

/// What is left of a command that is over for us. The host closes it when the command has ended there.
pub(super) struct Closing {
    channel: Channel,
    until: Instant,
}

impl Closing {
    /// Whether it is closed. Errors: the connection is lost, or the command cannot be ended.
    pub(super) fn is_closed(&mut self, wire: &Wire) -> std::io::Result<bool> {
        match wire.receiving(|| Ok(self.channel.close()?)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            Err(_) if Instant::now() < self.until => Ok(false),
            Err(_) => Err(std::io::Error::other("a command there cannot be ended")),
        }
    }
}
