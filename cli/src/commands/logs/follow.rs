//! `pilotfish logs --follow`: what tasks write, as they write it, until all is over.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{IsTerminal, Write},
    time::{Duration, Instant},
};

use serde::Serialize;

use protocol::follow::{FollowQuery, Followed, StreamName, Written};
use scheduler::{
    engine::interface::TaskFilter,
    ids::{JobId, TaskId},
    ranges::TaskSet,
};

use super::{
    LogsArgs, damage_line,
    feed::{Feed, Said},
    tell_budget, write_output,
};
use crate::{
    client::{Client, state_word},
    failure::{Failure, Outcome},
    show::{self, format::span, harmless::harmless_output, job::end_line},
    sys::interrupts::Interrupts,
    view::Reader,
};

/// How often is looked.
const INTERVAL: Duration = Duration::from_millis(400);
/// How long a manager may be away.
const PATIENCE: Duration = Duration::from_secs(60);
/// What was killed because it was cancelled ends within this time, or is not waited for.
const LAST_WORDS: Duration = Duration::from_secs(8);
/// A line may be so long before its beginning is shown.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What is followed.
pub(super) struct What {
    pub(super) job: JobId,
    pub(super) tasks: Option<TaskSet>,
}

impl What {
    /// The one task, if it is one.
    fn single(&self) -> Option<u64> {
        self.tasks.as_ref().filter(|tasks| tasks.len() == 1).and_then(TaskSet::first)
    }
}

/// Shows it until it is over, or Ctrl-C is pressed.
///
/// # Errors
/// No manager, or one that stays away; output that nobody takes.
pub(super) async fn follow(reader: &Reader, what: &What, args: &LogsArgs) -> Result<Outcome, Failure> {
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        result = show_all(reader, what, args) => result.map(|()| Outcome::Fine),
        _ = interrupts.next() => Ok(Outcome::Interrupted),
    }
}

async fn show_all(reader: &Reader, what: &What, args: &LogsArgs) -> Result<(), Failure> {
    let client = &reader.client;
    let tasks = what.tasks.as_ref().map(TaskSet::to_string);
    let mut query = FollowQuery { tasks, ..FollowQuery::default() };
    let (mut feed, mut printer) = (Feed::default(), Printer::new(what, args));
    let (mut over_since, mut damaged) = (None, BTreeSet::new());
    loop {
        let mut followed = asked(client, what.job, &query).await?;
        (query.since, query.after) = (followed.since, followed.after);
        if args.failed {
            followed.pieces.clear();
            followed.ended.retain(|ended| ended.is_final_failure);
        }
        let Followed { is_more, is_over, .. } = followed;
        for range in followed.damaged.iter().filter(|range| damaged.insert(**range)) {
            show::say(&damage_line(what.job, range));
        }
        for said in feed.take(&mut followed) {
            printer.take(said)?;
        }
        printer.flush()?;
        if is_more {
            continue;
        }
        if is_over {
            let since = *over_since.get_or_insert_with(Instant::now);
            let has_last_words = feed.is_any_open() && is_any_cancelled(client, what).await?;
            if !has_last_words || since.elapsed() >= LAST_WORDS {
                break;
            }
        } else if let Some(left) = &reader.left {
            printer.end()?;
            return Err(left.refusal());
        }
        tokio::time::sleep(INTERVAL).await;
    }
    printer.end()?;
    tell_end(client, what, args).await?;
    tell_budget(&client.job(what.job).await?, args);
    Ok(())
}

/// Asks, again and again while a manager restarts.
async fn asked(client: &Client, job: JobId, query: &FollowQuery) -> Result<Followed, Failure> {
    let begun = Instant::now();
    loop {
        match client.follow(job, query).await {
            Err(error) if error.is_passing() && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(INTERVAL).await;
            }
            other => return Ok(other?),
        }
    }
}

/// What was killed may have something to say yet.
async fn is_any_cancelled(client: &Client, what: &What) -> Result<bool, Failure> {
    Ok(client.job(what.job).await?.counts.cancelled > 0)
}

/// How it ended, on standard error; with `--json` as the last line.
async fn tell_end(client: &Client, what: &What, args: &LogsArgs) -> Result<(), Failure> {
    let job = what.job;
    match what.single() {
        Some(index) => {
            let row = client.task(TaskId { job, index }).await?.row;
            if args.view.json {
                let state = state_word(row.state);
                return line(&TaskEnd { index, state, exit_code: row.exit_code, is_over: true });
            }
            let took = row.wall.map(|wall| format!(", took {}", span(wall))).unwrap_or_default();
            let how = match (row.state, &row.failure) {
                (TaskFilter::Done, _) => {
                    format!("is done: exit code {}{took}", row.exit_code.unwrap_or_default())
                }
                (TaskFilter::Failed, Some(failure)) => format!("has failed: {}{took}", failure.text),
                (state, _) => format!("is {}", state_word(state)),
            };
            say(args, &format!("task {job}.{index} {how}"));
        }
        None => {
            let view = client.job(job).await?;
            if args.view.json {
                return line(&JobEnd { job, state: &view.state, counts: &view.counts, is_over: true });
            }
            say(args, &end_line(&view));
        }
    }
    Ok(())
}

fn say(args: &LogsArgs, text: &str) {
    if !args.view.quiet {
        show::say(text);
    }
}

/// A value as JSON on a line of its own.
fn line(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::infrastructure(format!("cannot write JSON: {error}")))?;
    show::print(&(text + "\n"))
}

#[derive(Serialize)]
struct TaskEnd<'a> {
    index: u64,
    state: &'a str,
    exit_code: Option<i32>,
    is_over: bool,
}

#[derive(Serialize)]
struct JobEnd<'a, C> {
    job: JobId,
    state: &'a str,
    counts: &'a C,
    is_over: bool,
}

#[derive(Serialize)]
struct JsonPiece {
    index: u64,
    stream: StreamName,
    written: Written,
}

/// Puts what is said where it belongs.
struct Printer<'a> {
    args: &'a LogsArgs,
    job: JobId,
    is_single: bool,
    /// Lines that have not ended.
    begun: BTreeMap<(u64, StreamName), Vec<u8>>,
    /// For standard output.
    out: Vec<u8>,
    /// The beginning of a character for standard error.
    begun_error: Vec<u8>,
}

impl Printer<'_> {
    fn new<'a>(what: &What, args: &'a LogsArgs) -> Printer<'a> {
        let is_single = what.single().is_some();
        Printer {
            args,
            job: what.job,
            is_single,
            begun: BTreeMap::new(),
            out: Vec::new(),
            begun_error: Vec::new(),
        }
    }

    fn take(&mut self, said: Said) -> Result<(), Failure> {
        match said {
            Said::Bytes { stream: StreamName::Stdout, .. } if self.args.stderr => {}
            Said::Bytes { stream: StreamName::Stderr, .. } if self.args.stdout => {}
            Said::Bytes { index, stream, bytes } if self.args.view.json => {
                self.flush()?;
                return line(&JsonPiece { index, stream, written: Written::of(bytes) });
            }
            // Each stream where it belongs, unless only one is wanted.
            Said::Bytes { stream: StreamName::Stderr, bytes, .. } if self.is_single && !self.args.stderr => {
                self.flush()?;
                let bytes = [std::mem::take(&mut self.begun_error), bytes].concat();
                self.begun_error = pass_on(std::io::stderr().lock(), &bytes, self.args)?;
            }
            Said::Bytes { bytes, .. } if self.is_single || self.args.raw => self.out.extend(bytes),
            Said::Bytes { index, stream, bytes } => self.lines(index, stream, &bytes),
            Said::Note { index, what } => {
                self.flush()?;
                say(self.args, &format!("task {}.{index}: {what}", self.job));
            }
            Said::Ended { index } => {
                for stream in [StreamName::Stdout, StreamName::Stderr] {
                    self.end_line(index, stream);
                }
            }
        }
        Ok(())
    }

    /// Whole lines, each with its task before it.
    fn lines(&mut self, index: u64, stream: StreamName, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let begun = self.begun.entry((index, stream)).or_default();
            begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || begun.len() >= LINE_BYTES_MAX {
                self.end_line(index, stream);
            }
        }
    }

    fn end_line(&mut self, index: u64, stream: StreamName) {
        let Some(line) = self.begun.remove(&(index, stream)).filter(|line| !line.is_empty()) else { return };
        let word = if stream == StreamName::Stderr && !self.args.stderr { " stderr" } else { "" };
        self.out.extend_from_slice(format!("{}.{index}{word} | ", self.job).as_bytes());
        self.out.extend_from_slice(&line);
        if !line.ends_with(b"\n") {
            self.out.push(b'\n');
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        // What is only begun waits for the rest.
        self.out = pass_on(std::io::stdout().lock(), &self.out, self.args)?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        for (index, stream) in self.begun.keys().copied().collect::<Vec<_>>() {
            self.end_line(index, stream);
        }
        self.flush()?;
        // Nothing more comes: characters that are not whole are shown as bytes.
        for (begun, is_error) in
            [(std::mem::take(&mut self.out), false), (std::mem::take(&mut self.begun_error), true)]
        {
            match is_error {
                false => write_output(std::io::stdout().lock(), &begun, self.args)?,
                true => write_output(std::io::stderr().lock(), &begun, self.args)?,
            }
        }
        Ok(())
    }
}

/// Writes what tasks wrote; gives what waits for more: on a terminal, the beginning of a character.
fn pass_on(to: impl Write + IsTerminal, bytes: &[u8], args: &LogsArgs) -> std::io::Result<Vec<u8>> {
    let n_begun = if to.is_terminal() && !args.raw { harmless_output(bytes).1.len() } else { 0 };
    let (whole, begun) = bytes.split_at(bytes.len() - n_begun);
    if !whole.is_empty() {
        write_output(to, whole, args)?;
    }
    Ok(begun.to_vec())
}
