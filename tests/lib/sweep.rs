//! A sweep whose tasks leave a trace of their own: each execution appends its index and its pilot to
//! a file, so that what really ran is known whatever the manager believes.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Sandbox, api::Api, hang_limit, until};

/// What a task appends its line to.
const EXECUTIONS: &str = "executions";
/// A sweep without any execution or result for so long hangs: the grace period and the longest wait before a pilot
/// tries again are over by then.
const PATIENCE: Duration = Duration::from_secs(300);

/// Writes the job file of so many tasks.
pub fn write_job(sandbox: &Sandbox, n_tasks: u64) {
    let text = format!(
        "name: crowd\ncommand: 'echo {{n}} $PILOTFISH_PILOT_ID >> $PILOTFISH_SUBMIT_DIR/{EXECUTIONS}'\n\
         sweep: {{n: {{range: [0, {}]}}}}\nretries: 0\ncrash_limit: 100\n",
        n_tasks - 1
    );
    sandbox.write("job.yaml", &text);
}

/// What has been executed, read as it grows.
#[derive(Clone)]
pub struct Trace {
    path: PathBuf,
    n_bytes: u64,
    n_lines: u64,
    heard: Instant,
}

impl Trace {
    /// Of the sweep in this sandbox.
    pub fn new(sandbox: &Sandbox) -> Trace {
        Trace { path: sandbox.path().join(EXECUTIONS), n_bytes: 0, n_lines: 0, heard: Instant::now() }
    }

    /// How many executions there have been.
    pub fn count(&mut self) -> u64 {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.n_bytes))?;
            file.read_to_end(&mut bytes)
        });
        // Before the first task there is no file.
        self.n_bytes += read.unwrap_or(0) as u64;
        let n_new = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        if n_new > 0 {
            self.heard = Instant::now();
        }
        self.n_lines += n_new;
        self.n_lines
    }

    /// Waits for so many more, or until nothing is executed any more for so long.
    pub fn waits(&mut self, n_more: u64, or_silent_for: Duration) {
        self.waits_at_most(n_more, or_silent_for, hang_limit(PATIENCE));
    }

    /// The same, and no longer than that.
    pub fn waits_at_most(&mut self, n_more: u64, or_silent_for: Duration, limit: Duration) {
        let (n, begun) = (self.count() + n_more, Instant::now());
        self.heard = begun;
        while self.count() < n && self.heard.elapsed() < or_silent_for && begun.elapsed() < limit {
            pause();
        }
    }

    /// Waits for what must come of the sweep's going on.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        self.heard = Instant::now();
        while !is_so() {
            self.count();
            assert!(
                self.heard.elapsed() < hang_limit(PATIENCE),
                "nothing happens any more, in vain waited until {what}"
            );
            pause();
        }
    }
}

/// Leaves the machine to those who work between two looks.
pub fn pause() {
    std::thread::park_timeout(Duration::from_millis(5));
}

/// What became of a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub struct Audit {
    /// Executions beyond the first of a task.
    pub n_again: u64,
    /// As many as the faults allow.
    pub n_again_max: u64,
}

/// A pilot that was killed or kept away: what it held may run again.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    /// Its number.
    pub pilot: u64,
    /// What it held then: executed and not reported yet, running, or sent ahead.
    pub n_held: u64,
}

/// Checks that every task has exactly one accepted result, that somebody has earned it, and that what
/// was executed more than once was in flight when a pilot was hit.
pub fn audit(sandbox: &Sandbox, rows: &[Value], n_tasks: u64, hits: &[Hit]) -> Audit {
    let mut executed: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in sandbox.read(EXECUTIONS).lines() {
        let (index, pilot) = line.split_once(' ').expect("an index and a pilot");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        executed.entry(number(index)).or_default().push(number(pilot));
    }
    let indices: Vec<u64> = rows.iter().filter_map(|row| row["index"].as_u64()).collect();
    assert!(indices.iter().copied().eq(0..n_tasks), "results of {} tasks, not one of each", indices.len());
    let (mut n_again, mut unexplained) = (0, Vec::new());
    for row in rows {
        let index = row["index"].as_u64().expect("an index");
        assert_eq!((&row["state"], &row["exit_code"]), (&"done".into(), &0.into()), "{row}");
        let by = executed.get(&index).map_or(&[][..], Vec::as_slice);
        let pilot = row["pilot"].as_u64().expect("who ran it");
        assert!(by.contains(&pilot), "{row}: pilots {by:?} have executed the task");
        n_again += by.len() as u64 - 1;
        if by.len() - 1 > hits.iter().filter(|hit| by.contains(&hit.pilot)).count() {
            unexplained.push(format!("task {index} by pilots {by:?}"));
        }
    }
    assert_eq!(executed.len() as u64, n_tasks, "tasks that are none were executed");
    assert!(unexplained.is_empty(), "executed again without a reason: {unexplained:?}; {hits:?}");
    let n_again_max = hits.iter().map(|hit| hit.n_held).sum();
    assert!(n_again <= n_again_max, "{n_again} executions beyond one; {n_again_max} in flight: {hits:?}");
    Audit { n_again, n_again_max }
}

/// Rows of all tasks, page by page; each is asked for until it comes.
pub fn rows(api: &Api, job: u64) -> Vec<Value> {
    let (mut rows, mut from) = (Vec::new(), Some(0));
    while let Some(first) = from {
        let mut page = None;
        until("a page of tasks comes", || {
            page = api.get(&format!("/jobs/{job}/tasks?from={first}&limit=1000"));
            page.is_some()
        });
        let page = page.unwrap_or_default();
        rows.extend(page["tasks"].as_array().expect("rows").iter().cloned());
        from = page["next"].as_u64();
    }
    rows
}
