//! Sends the output of running tasks to the manager while somebody follows it there.
//!
//! This is separate from reports and pulls: nothing waits for it, and it may be lost. It begins at the
//! manager's request and ends when an answer wants no more output, so it costs nothing while nobody follows.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use protocol::pilot::{N_TAILS_MAX, TAILS_BYTES_MAX, Tail, TailsAnswer, TailsRequest, Wanted};
use scheduler::results::TaskOutput;
use tokio::sync::mpsc::unbounded_channel;

use super::{Driver, News, Running};
use crate::spawn::{Peek, Peeked};

/// Interval between two messages.
const INTERVAL: Duration = Duration::from_millis(300);
/// The interval while there is more output than one message holds.
const INTERVAL_BUSY: Duration = Duration::from_millis(100);
/// The most bytes of one stream in a message.
const PIECE_BYTES_MAX: usize = 64 << 10;
/// The longest character of UTF-8.
const CHAR_BYTES_MAX: usize = 4;

/// The state of sending output.
#[derive(Default)]
pub(super) struct Tails {
    is_telling: bool,
    wanted: Vec<Wanted>,
    /// Number of bytes of each running task's streams that the manager knows, with the watch that they are
    /// for; by token.
    known: HashMap<u64, (u64, [u64; 2])>,
    /// The last task that was looked at: with many tasks, each has its turn.
    last_token: u64,
    /// Tasks whose output did not fit the last message; they come first.
    left_out: HashSet<u64>,
    n_reports: u64,
}

/// The outcome of one message.
pub(super) struct Told {
    /// Number of bytes that the manager knows afterwards, unless its answer says that they are void.
    known: HashMap<u64, (u64, [u64; 2])>,
    /// The manager's answer; `None`: there was no usable answer.
    answer: Option<TailsAnswer>,
    left_out: HashSet<u64>,
    is_more: bool,
}

impl Tails {
    /// Notes the number of a report on ended tasks.
    pub(super) fn note_report(&mut self, seq: u64) {
        self.n_reports = self.n_reports.max(seq);
    }

    /// Forgets an ended task.
    pub(super) fn forget(&mut self, token: u64) {
        self.known.remove(&token);
    }

    /// Returns the watch that wants the task's output.
    fn watch_of(&self, running: &Running) -> Option<u64> {
        let is_meant = |wanted: &&Wanted| {
            let tasks = wanted.tasks.as_ref();
            wanted.job == running.task.job && tasks.is_none_or(|tasks| tasks.contains(running.task.index))
        };
        self.wanted.iter().find(is_meant).map(|wanted| wanted.watch)
    }

    /// Returns the number of bytes of the task's streams that the watch knows.
    fn known_of(&self, token: u64, watch: u64) -> [u64; 2] {
        let known = self.known.get(&token).filter(|(of, _)| *of == watch);
        known.map_or([0; 2], |(_, known)| *known)
    }
}

impl Driver {
    /// Begins to send output at the manager's request. The manager's answer says which tasks.
    pub(super) fn show(&mut self) {
        if !self.tails.is_telling {
            self.tails.is_telling = true;
            self.tell_tails();
        }
    }

    /// Handles the outcome of a message, or (`None`) sends the next one.
    pub(super) fn on_told(&mut self, told: Option<Told>) {
        let Some(told) = told else { return self.tell_tails() };
        let answer = told.answer.filter(|answer| !answer.wanted.is_empty());
        let Some(TailsAnswer { is_void, wanted }) = answer else {
            // A manager that still wants output asks again.
            self.tails = Tails { n_reports: self.tails.n_reports, ..Tails::default() };
            return;
        };
        self.tails.left_out = told.left_out;
        let is_first = self.tails.wanted.is_empty();
        self.tails.wanted = wanted;
        if !is_void {
            let is_running = |token: &u64| self.running.contains_key(token);
            let known = told.known.into_iter().filter(|(token, _)| is_running(token));
            self.tails.known.extend(known);
        }
        if is_first {
            return self.tell_tails();
        }
        let news = self.news.clone();
        let wait = if told.is_more { INTERVAL_BUSY } else { INTERVAL };
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The receiver is gone only when the pilot has ended.
            let _ = news.send(News::Told(None));
        });
    }

    /// Collects new output of running tasks and sends it.
    fn tell_tails(&mut self) {
        let mut chosen: Vec<(u64, u64)> = self
            .running
            .iter()
            .filter_map(|(token, running)| Some((*token, self.tails.watch_of(running)?)))
            .collect();
        let Tails { last_token: last, left_out, .. } = &self.tails;
        chosen.sort_unstable_by_key(|(token, _)| (!left_out.contains(token), token <= last, *token));
        let mut is_more = chosen.len() > N_TAILS_MAX;
        chosen.truncate(N_TAILS_MAX);
        self.tails.last_token = if is_more { chosen.last().map_or(0, |(token, _)| *token) } else { 0 };
        let (tell, mut peeked) = unbounded_channel::<(u64, u64, Tail)>();
        for (token, watch) in chosen {
            let Some(running) = self.running.get(&token) else { continue };
            let (task, attempt, tell) = (running.task, running.attempt, tell.clone());
            let from = self.tails.known_of(token, watch);
            let tell = Box::new(move |Peeked { streams: [(stdout_at, stdout), (stderr_at, stderr)] }| {
                let written = TaskOutput { index: task.index, stdout, stderr };
                let tail = Tail { job: task.job, attempt, run: token, stdout_at, stderr_at, written };
                // The receiver is gone only when the pilot has ended.
                let _ = tell.send((token, watch, tail));
            });
            self.spawner.peek(Peek { token, slot: running.slot, from, n_max: PIECE_BYTES_MAX, tell });
        }
        drop(tell);
        let (client, news, session) = (self.client.clone(), self.news.clone(), self.session.clone());
        let mut request = TailsRequest { pilot: self.pilot, n_reports: self.tails.n_reports, tails: vec![] };
        tokio::spawn(async move {
            let (mut known, mut left_out, mut n_bytes) = (HashMap::new(), HashSet::new(), 0);
            while let Some((token, watch, mut tail)) = peeked.recv().await {
                is_more |= trim(&mut tail.written.stdout) | trim(&mut tail.written.stderr);
                let n = tail.written.stdout.len() + tail.written.stderr.len();
                if n == 0 || n_bytes + n > TAILS_BYTES_MAX {
                    left_out.extend((n > 0).then_some(token));
                    continue;
                }
                n_bytes += n;
                let end = |at: u64, bytes: &[u8]| at + bytes.len() as u64;
                let ends =
                    [end(tail.stdout_at, &tail.written.stdout), end(tail.stderr_at, &tail.written.stderr)];
                known.insert(token, (watch, ends));
                request.tails.push(tail);
            }
            let answer = client.tails(&session, &request).await;
            let answer = answer.inspect_err(|error| tracing::debug!(%error, "nobody heard what tasks write"));
            // The receiver is gone only when the pilot has ended.
            let is_more = is_more || !left_out.is_empty();
            let _ = news.send(News::Told(Some(Told { known, answer: answer.ok(), left_out, is_more })));
        });
    }
}

/// Cuts off an incomplete character at the end, which the next piece brings; returns whether the piece was
/// full.
fn trim(bytes: &mut Vec<u8>) -> bool {
    let is_full = bytes.len() >= PIECE_BYTES_MAX;
    let from = bytes.len().saturating_sub(CHAR_BYTES_MAX - 1);
    let start = (from..bytes.len()).rev().find(|at| bytes[*at] >= 0xc0);
    if let Some(start) = start.filter(|start| is_begun(&bytes[*start..])) {
        bytes.truncate(start);
    }
    is_full
}

/// Returns whether `bytes` are the beginning of a character.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::trim;

    #[test]
    fn a_character_is_told_as_a_whole_and_what_is_none_goes_as_it_is() {
        let trimmed = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            trim(&mut bytes);
            bytes
        };
        let text = "aé€𝄞".as_bytes();
        let ends = [1, 3, 6, 10];
        for n in 1..=text.len() {
            let whole = ends.iter().copied().filter(|end| *end <= n).max().unwrap();
            assert_eq!(trimmed(&text[..n]), &text[..whole], "{n} bytes");
        }
        assert_eq!(trimmed(b"ab\xff"), b"ab\xff");
        assert_eq!(trimmed(b"\x80\x80\x80\x80"), b"\x80\x80\x80\x80");
    }
}
