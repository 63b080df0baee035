//! Resident programs: started once, sent one line for each task, restarted when they fail.
//!
//! Lines are sent before the last answer has come, so that a program with tasks of microseconds need not
//! wait. The program works only on the first unanswered task, which fails if the program does; the other
//! tasks are sent to the next process.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    mem,
    os::fd::AsRawFd,
    time::{Duration, Instant},
};

use super::{
    Exit, Launch, Outcome, Output,
    capture::HeadTail,
    child::{Child, Ended, Ending, Role},
    ending::Then,
    prepare::{Failed, Prepared, Target},
    processes::{Processes, Watched},
    resident::{Ask, Asked, Resident, Running},
};
use crate::{
    resident::read_reply,
    sys::pipe::{pipe, set_nonblocking},
};

/// The longest answer; a program that writes more without a line end is broken.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Time for a program to end after its input was closed.
const STOP_GRACE: Duration = Duration::from_secs(2);

impl Processes {
    /// Gives a task to a resident program.
    pub(super) fn ask(&mut self, ask: Ask) {
        let asked = Asked {
            token: ask.token,
            question: ask.question,
            time_limit: ask.time_limit,
            is_cancelled: false,
        };
        let resident = self.residents.entry(ask.resident).or_insert_with(|| Resident {
            launch: ask.launch,
            running: None,
            queue: VecDeque::new(),
            is_lingering: false,
        });
        let is_first = resident.queue.is_empty();
        resident.queue.push_back(asked);
        let Some(running) = &mut resident.running else {
            if !resident.is_lingering {
                self.start_resident(ask.resident);
            }
            return;
        };
        let asked = &resident.queue[resident.queue.len() - 1];
        running.unsent.extend_from_slice(asked.question.as_bytes());
        running.unsent.push(b'\n');
        let pid = running.pid;
        if is_first {
            running.since = Instant::now();
            let deadline = asked.time_limit.and_then(|limit| running.since.checked_add(limit));
            if let Some(child) = self.children.get_mut(&pid) {
                child.deadline = deadline;
            }
        }
        self.asked.push(pid);
    }

    /// Sends the new lines.
    pub(super) fn send_questions(&mut self) {
        for pid in mem::take(&mut self.asked) {
            self.on_room(pid);
        }
    }

    /// Withdraws a task from a resident program that does not work on it yet.
    pub(super) fn withdraw_asked(&mut self, token: u64) {
        for resident in self.residents.values_mut() {
            let Some(position) = resident.queue.iter().position(|asked| asked.token == token) else {
                continue;
            };
            let Some(running) = &mut resident.running else { return };
            if position > 0 {
                resident.queue.remove(position);
                running.knows_withdrawn = true;
                self.exits.push(Exit::new(token, Outcome::Killed, Instant::now()));
            }
            return;
        }
    }

    /// Ends a resident program that is no longer needed; its tasks are killed.
    pub(super) fn stop_resident(&mut self, number: u64) {
        let Some(resident) = self.residents.remove(&number) else { return };
        for asked in resident.queue {
            self.exits.push(Exit::new(asked.token, Outcome::Killed, Instant::now()));
        }
        // Dropping `running` closes the program's input: a correct program ends by itself.
        let child = resident.running.and_then(|running| self.children.get_mut(&running.pid));
        if let Some(child) = child {
            child.deadline = Instant::now().checked_add(STOP_GRACE);
        }
    }

    /// Cancels one task of a resident program.
    pub(super) fn kill_asked(&mut self, token: u64) {
        for resident in self.residents.values_mut() {
            let Some(position) = resident.queue.iter().position(|asked| asked.token == token) else {
                continue;
            };
            match &resident.running {
                Some(running) if position == 0 => {
                    if let Some(child) = self.children.get_mut(&running.pid) {
                        child.end(Ending::Killed, Duration::ZERO);
                    }
                }
                // Its line was already sent: the answer will be ignored.
                _ => resident.queue[position].is_cancelled = true,
            }
            return;
        }
    }

    /// Starts the program and sends it all tasks of its queue.
    fn start_resident(&mut self, number: u64) {
        let Some(resident) = self.residents.get(&number) else { return };
        let launch = Launch { time_limit: None, ..(*resident.launch).clone() };
        let result = self.try_start_resident(number, &launch);
        let Some(resident) = self.residents.get_mut(&number) else { return };
        match result {
            Ok(mut running) => {
                for asked in &resident.queue {
                    running.unsent.extend_from_slice(asked.question.as_bytes());
                    running.unsent.push(b'\n');
                }
                let pid = running.pid;
                let limit = resident.queue.front().and_then(|asked| asked.time_limit);
                if let Some(child) = self.children.get_mut(&pid) {
                    child.deadline = limit.and_then(|limit| running.since.checked_add(limit));
                }
                resident.running = Some(running);
                self.on_room(pid);
            }
            Err(failed) => {
                let outcome = Outcome::from(failed);
                for asked in resident.queue.drain(..) {
                    self.exits.push(Exit::new(asked.token, outcome.clone(), Instant::now()));
                }
                self.residents.remove(&number);
            }
        }
    }

    fn try_start_resident(&mut self, number: u64, launch: &Launch) -> Result<Running, Failed> {
        let started = Instant::now();
        let no_pipe = |error: io::Error| Failed::on_node("pipe for a resident program", &error);
        let (question_end, stdin) = pipe().map_err(no_pipe)?;
        let (stdout, answer_end) = pipe().map_err(no_pipe)?;
        set_nonblocking(stdin.as_raw_fd()).map_err(no_pipe)?;
        set_nonblocking(stdout.as_raw_fd()).map_err(no_pipe)?;
        let streams = Launch { stdin: None, stdout: Output::Discard, ..launch.clone() };
        let mut prepared = Prepared::new(&streams, &mut self.pipes)?;
        prepared.stdin = Some(question_end);
        prepared.stdout = Target::Own(answer_end);
        let pid = self.begin(streams, prepared, Role::Resident { resident: number }, started)?;
        if let Err(error) = self.poll(stdout.as_raw_fd(), Watched::Answers(pid), libc::EPOLLIN) {
            // It gets no lines and ends by itself or at the deadline; its tasks are reported then.
            tracing::warn!(%error, "a resident program's answers cannot be watched");
        }
        Ok(Running {
            pid,
            stdin: File::from(stdin),
            stdout: File::from(stdout),
            unsent: Vec::new(),
            is_waiting_for_room: false,
            partial: Vec::new(),
            is_mute: false,
            knows_withdrawn: false,
            since: started,
            cpu_us_before: 0,
            memory_bytes: 0,
            memory_seen_at: None,
        })
    }

    fn resident_of(&self, pid: libc::pid_t) -> Option<u64> {
        match self.children.get(&pid)?.role {
            Role::Resident { resident } => Some(resident),
            Role::Task { .. } => None,
        }
    }

    /// Writes as much as the pipe takes.
    pub(super) fn on_room(&mut self, pid: libc::pid_t) {
        let Some(number) = self.resident_of(pid) else { return };
        let Some(running) = self.residents.get_mut(&number).and_then(|resident| resident.running.as_mut())
        else {
            return;
        };
        while !running.unsent.is_empty() {
            match running.stdin.write(&running.unsent) {
                Ok(n) => drop(running.unsent.drain(..n)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Full: continue when there is room. Broken: the program has ended, handled elsewhere.
                Err(error) => {
                    let is_full = error.kind() == io::ErrorKind::WouldBlock;
                    let (fd, was_waiting) = (running.stdin.as_raw_fd(), running.is_waiting_for_room);
                    running.is_waiting_for_room = is_full;
                    if is_full
                        && !was_waiting
                        && self.poll(fd, Watched::Questions(pid), libc::EPOLLOUT).is_err()
                    {
                        tracing::warn!("a resident program's input cannot be watched");
                    }
                    if !is_full && was_waiting {
                        self.unpoll(fd);
                    }
                    return;
                }
            }
        }
        if mem::take(&mut running.is_waiting_for_room) {
            let fd = running.stdin.as_raw_fd();
            self.unpoll(fd);
        }
    }

    /// Reads answers.
    pub(super) fn on_answers(&mut self, pid: libc::pid_t) {
        let Some(number) = self.resident_of(pid) else { return };
        let Some(resident) = self.residents.get_mut(&number) else { return };
        let Some(running) = &mut resident.running else { return };
        if self.children.get(&pid).is_some_and(|child| child.ending.is_some()) {
            // The reason for its end is settled; a later answer would put the blame on the next task.
            let fd = running.stdout.as_raw_fd();
            return self.unpoll(fd);
        }
        let n = match running.stdout.read(&mut self.buffer) {
            Ok(0) => {
                let fd = running.stdout.as_raw_fd();
                if let Some(child) = self.children.get_mut(&pid)
                    && child.ending.is_none()
                {
                    running.is_mute = true;
                    child.deadline = Instant::now().checked_add(STOP_GRACE);
                }
                return self.unpoll(fd);
            }
            Ok(n) => n,
            Err(_) => return,
        };
        let mut text = mem::take(&mut running.partial);
        text.extend_from_slice(self.buffer.get(..n).unwrap_or_default());
        let mut rest = text.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            if !self.on_answer(number, pid, line) {
                return self.end_broken(pid);
            }
        }
        if rest.len() > ANSWER_BYTES_MAX {
            self.on_answer(number, pid, rest);
            return self.end_broken(pid);
        }
        let partial = rest.to_vec();
        if let Some(running) = self.residents.get_mut(&number).and_then(|resident| resident.running.as_mut())
        {
            running.partial = partial;
        }
    }

    /// Handles one answer; returns false if the program must be ended because of it.
    fn on_answer(&mut self, number: u64, pid: libc::pid_t, line: &[u8]) -> bool {
        let Some(resident) = self.residents.get_mut(&number) else { return false };
        let (Some(running), Some(child)) = (&mut resident.running, self.children.get_mut(&pid)) else {
            return false;
        };
        let Some(asked) = resident.queue.pop_front() else {
            tracing::warn!(pid, "a resident program answered what was not asked");
            return false;
        };
        let reply = read_reply(line);
        let is_good = reply.is_ok();
        let (outcome, output) = match reply {
            _ if asked.is_cancelled => (Outcome::Killed, String::new()),
            Ok(reply) => (Outcome::Code(reply.exit_code), reply.output),
            Err(what) => (Outcome::BadAnswer { what }, String::new()),
        };
        let mut exit = running.exit(asked.token, outcome);
        (exit.stdout, exit.is_stdout_truncated) = limited(output, &resident.launch.stdout);
        if let Some(stderr) = child.stderr {
            (exit.stderr, exit.is_stderr_truncated) = self.pipes.take_kept(stderr);
        }
        self.exits.push(exit);
        let limit = resident.queue.front().and_then(|asked| asked.time_limit);
        child.deadline = limit.and_then(|limit| running.since.checked_add(limit));
        is_good && !running.knows_withdrawn
    }

    fn end_broken(&mut self, pid: libc::pid_t) {
        if let Some(child) = self.children.get_mut(&pid) {
            child.end(Ending::BadAnswer, Duration::ZERO);
        }
    }

    /// Handles the end of a resident program: the present task has failed, the other tasks are sent again.
    pub(super) fn resident_ended(&mut self, number: u64, pid: libc::pid_t, child: Child, ended: Ended) {
        // Answers before its end count.
        self.children.insert(pid, child);
        self.on_answers(pid);
        let Some(mut child) = self.children.remove(&pid) else { return };
        let is_lingering = child.ending.is_some();
        if is_lingering {
            self.lingering.add(&mut child, Then::Restart { resident: number });
        }
        let stderr = self.finish_output(child.stderr, false);
        let is_of = |running: &mut Running| running.pid == pid;
        let Some(resident) = self.residents.get_mut(&number) else { return };
        let Some(mut running) = resident.running.take_if(is_of) else { return };
        // After a bad answer its task has already failed, and the next one has not begun.
        let failed = if child.ending == Some(Ending::BadAnswer) { None } else { resident.queue.pop_front() };
        if let Some(asked) = failed {
            let outcome = match ended.outcome {
                _ if asked.is_cancelled => Outcome::Killed,
                Outcome::Code(0) => Outcome::BadAnswer { what: "it ended without an answer".into() },
                Outcome::TimeLimit if running.is_mute => {
                    Outcome::BadAnswer { what: "it closed its standard output without an answer".into() }
                }
                outcome => outcome,
            };
            let mut exit = running.exit(asked.token, outcome);
            exit.cpu_us = ended.cpu_us.saturating_sub(running.cpu_us_before);
            exit.peak_memory_bytes = ended.peak_memory_bytes;
            (exit.stderr, exit.is_stderr_truncated) = stderr;
            self.exits.push(exit);
        }
        let Some(resident) = self.residents.get_mut(&number) else { return };
        resident.is_lingering = is_lingering;
        if !is_lingering {
            self.restart_resident(number);
        }
    }

    /// Starts a resident program again if it has tasks.
    pub(super) fn restart_resident(&mut self, number: u64) {
        let Some(resident) = self.residents.get_mut(&number).filter(|resident| resident.running.is_none())
        else {
            return;
        };
        resident.is_lingering = false;
        let (cancelled, wanted): (VecDeque<Asked>, VecDeque<Asked>) =
            mem::take(&mut resident.queue).into_iter().partition(|asked| asked.is_cancelled);
        resident.queue = wanted;
        self.exits
            .extend(cancelled.iter().map(|asked| Exit::new(asked.token, Outcome::Killed, Instant::now())));
        if resident.queue.is_empty() {
            self.residents.remove(&number);
        } else {
            self.start_resident(number);
        }
    }
}

/// Returns the output of an answer within the limit of its stream.
fn limited(output: String, stream: &Output) -> (Vec<u8>, bool) {
    match stream {
        Output::Archive { limit } if output.len() > *limit => {
            let mut kept = HeadTail::new(*limit);
            kept.push(output.as_bytes());
            kept.finish()
        }
        Output::Archive { .. } => (output.into_bytes(), false),
        Output::Discard | Output::File(_) => (Vec::new(), false),
    }
}
