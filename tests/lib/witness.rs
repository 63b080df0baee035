//! Somebody who asks all the time and never forgets what he was told: what was said to be done must
//! stay done, by the same pilot at the same time, whatever happens to the manager meanwhile.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

use crate::{api::Api, luck::Luck, until};

/// Rows in one question.
const N_ROWS: u64 = 50;
/// Between two questions: it must not be the manager's only work.
const PAUSE: Duration = Duration::from_millis(20);

/// What was told so far.
#[derive(Default)]
pub struct Testimony {
    /// The most tasks that were said to be done.
    pub n_done: u64,
    /// Finished tasks as they were shown first.
    rows: BTreeMap<u64, Value>,
    /// Questions that were answered.
    pub n_answers: u64,
    /// What was told otherwise later on.
    contradictions: Vec<String>,
}

/// One that asks in the background.
pub struct Witness {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Testimony>>,
}

impl Witness {
    /// Begins to ask for the first job, of so many tasks.
    pub fn start(api: Api, n_tasks: u64, seed: u64) -> Witness {
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let thread = std::thread::spawn(move || {
            let (mut testimony, mut luck) = (Testimony::default(), Luck::new(seed));
            while !flag.load(Ordering::Relaxed) {
                testimony.ask(&api, luck.between(0, n_tasks));
                std::thread::park_timeout(PAUSE);
            }
            testimony
        });
        Witness { is_over, thread: Some(thread) }
    }

    /// What was told.
    pub fn stop(mut self) -> Testimony {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the witness has not failed")
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Testimony {
    /// Asks for the count, for tasks from this one on, and for something that was told long ago.
    pub fn ask(&mut self, api: &Api, from: u64) {
        if let Some(job) = api.get("/jobs/1") {
            let n_done = job["counts"]["done"].as_u64().unwrap_or(0);
            if n_done < self.n_done {
                self.contradictions.push(format!("{n_done} are done after {} were", self.n_done));
            }
            self.n_done = self.n_done.max(n_done);
            self.n_answers += 1;
        }
        let page = api.get(&format!("/jobs/1/tasks?state=done&from={from}&limit={N_ROWS}"));
        if let Some(page) = page {
            page["tasks"].as_array().into_iter().flatten().for_each(|row| self.hear(row));
            self.n_answers += 1;
        }
        let Some(first) = self.rows.range(from..).next().map(|(index, _)| *index) else { return };
        if let Some(page) = api.get(&format!("/jobs/1/tasks?from={first}&limit=1")) {
            page["tasks"].as_array().into_iter().flatten().for_each(|row| self.hear_again(row));
        }
    }

    /// The same until both questions are answered, however busy the machine is.
    pub fn ask_until_answered(&mut self, api: &Api, from: u64) {
        until("the count and tasks are told", || {
            let before = self.n_answers;
            self.ask(api, from);
            self.n_answers == before + 2
        });
    }

    fn hear(&mut self, row: &Value) {
        let Some(index) = row["index"].as_u64() else { return };
        let known = self.rows.entry(index).or_insert_with(|| row.clone());
        if known != row {
            self.contradictions.push(format!("{row} after {known}"));
        }
    }

    fn hear_again(&mut self, row: &Value) {
        if row["index"].as_u64().is_some_and(|index| self.rows.contains_key(&index)) {
            self.hear(row);
        }
    }

    /// Checks that nothing was ever taken back, in the end neither.
    pub fn holds(mut self, rows: &[Value]) -> Testimony {
        rows.iter().for_each(|row| self.hear_again(row));
        assert!(self.contradictions.is_empty(), "told otherwise later: {:?}", self.contradictions);
        self
    }

    /// How many finished tasks were shown.
    pub fn n_shown(&self) -> u64 {
        self.rows.len() as u64
    }
}
