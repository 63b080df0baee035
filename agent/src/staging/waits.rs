//! The files for which tasks wait. The manager is told about waits of more than a few seconds, for `explain
//! task`. Nothing depends on these messages, and they may be lost.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use protocol::files::objects::{FileWait, N_WAITS_MAX};
use scheduler::{digest::Digest, ids::TaskId, ranges::TaskSet, size::Size};
use tokio::{sync::Notify, time::sleep};

use super::{Mover, lock};

/// Duration of a wait after which the manager is told.
const TOLD_AFTER: Duration = Duration::from_secs(3);
/// Interval between looks at the waits.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval between messages: shorter than the manager keeps them (`protocol::files::objects::WAITS_KEPT_S`).
const TELL_EVERY: Duration = Duration::from_secs(8);
/// Time without data after which the message mentions it.
const QUIET_AFTER: Duration = Duration::from_secs(5);

/// The progress of one file, for all tasks that wait for it.
#[derive(Debug)]
pub struct Progress {
    began_at: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    n_bytes: u64,
    came_at: Instant,
    trouble: Option<String>,
}

impl Progress {
    fn new() -> Progress {
        let now = Instant::now();
        Progress { began_at: now, state: Mutex::new(State { n_bytes: 0, came_at: now, trouble: None }) }
    }

    /// Adds received bytes.
    pub fn add(&self, n_bytes: u64) {
        let mut state = lock(&self.state);
        state.n_bytes += n_bytes;
        state.came_at = Instant::now();
    }

    /// Notes a failed attempt that will be retried.
    pub(super) fn note_trouble(&self, what: &str) {
        let mut state = lock(&self.state);
        (state.trouble, state.n_bytes) = (Some(what.to_owned()), 0);
    }

    fn shown(&self, what: &str, now: Instant) -> String {
        let state = lock(&self.state);
        let mut shown = format!(
            "{what}, which has taken {} s so far",
            now.saturating_duration_since(self.began_at).as_secs()
        );
        if state.n_bytes > 0 {
            shown += &format!("; {} have come", Size(state.n_bytes));
        }
        let quiet = now.saturating_duration_since(state.came_at);
        if quiet > QUIET_AFTER {
            shown += &format!("; nothing has come for {} s", quiet.as_secs());
        }
        if let Some(trouble) = &state.trouble {
            shown += &format!("; the last try: {trouble}");
        }
        shown
    }
}

/// All tasks of this pilot that wait for files.
#[derive(Debug, Default)]
pub(super) struct Waits {
    all: Mutex<All>,
    has_come: Notify,
}

#[derive(Debug, Default)]
struct All {
    n_ever: u64,
    waiting: BTreeMap<u64, Waiting>,
    fetched: HashMap<Digest, Arc<Progress>>,
}

#[derive(Debug)]
struct Waiting {
    task: TaskId,
    what: String,
    since: Instant,
    progress: Arc<Progress>,
}

/// A task's wait for a file; dropping it ends the wait.
pub(super) struct Wait<'w> {
    waits: &'w Waits,
    number: Option<u64>,
    pub(super) progress: Arc<Progress>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            lock(&self.waits.all).waiting.remove(&number);
        }
    }
}

impl Waits {
    /// Begins a task's wait for a file. Waits with the same `key` are for the same file and share its
    /// progress.
    pub(super) fn begin(&self, task: Option<TaskId>, what: &str, key: Option<&Digest>) -> Wait<'_> {
        let mut all = lock(&self.all);
        let progress = match key {
            Some(key) => {
                all.fetched.retain(|_, progress| Arc::strong_count(progress) > 1);
                Arc::clone(all.fetched.entry(*key).or_insert_with(|| Arc::new(Progress::new())))
            }
            None => Arc::new(Progress::new()),
        };
        let number = task.map(|task| {
            all.n_ever += 1;
            let waiting = Waiting {
                task,
                what: what.to_owned(),
                since: Instant::now(),
                progress: Arc::clone(&progress),
            };
            let number = all.n_ever;
            all.waiting.insert(number, waiting);
            number
        });
        if number.is_some() {
            self.has_come.notify_one();
        }
        Wait { waits: self, number, progress }
    }

    fn is_any(&self) -> bool {
        !lock(&self.all).waiting.is_empty()
    }

    /// Returns the waits to report; tasks that wait for the same file are combined.
    fn told(&self, now: Instant) -> Vec<FileWait> {
        let all = lock(&self.all);
        let is_long = |waiting: &&Waiting| now.saturating_duration_since(waiting.since) >= TOLD_AFTER;
        let mut told: BTreeMap<_, TaskSet> = BTreeMap::new();
        for waiting in all.waiting.values().filter(is_long) {
            let what = waiting.progress.shown(&waiting.what, now);
            told.entry((waiting.task.job, what)).or_default().insert(waiting.task.index);
        }
        let waits = told.into_iter().map(|((job, what), tasks)| FileWait { job, tasks, what });
        waits.take(N_WAITS_MAX).collect()
    }
}

impl Mover {
    /// Reports the files for which tasks wait to the manager, whenever there are any. Never returns.
    pub(super) async fn tell_waits(&self) {
        let (mut told_tasks, mut told_at) = (Vec::new(), Instant::now());
        loop {
            if !self.waits.is_any() && told_tasks.is_empty() {
                self.waits.has_come.notified().await;
            }
            sleep(LOOK_EVERY).await;
            let waits = self.waits.told(Instant::now());
            let tasks: Vec<_> = waits.iter().map(|wait| (wait.job, wait.tasks.clone())).collect();
            if tasks == told_tasks && (tasks.is_empty() || told_at.elapsed() < TELL_EVERY) {
                continue;
            }
            match self.ways.tell_waits(&self.session(), waits).await {
                Ok(()) => (told_tasks, told_at) = (tasks, Instant::now()),
                // An older manager does not know the message; an absent one gets the next message.
                Err(trouble) => {
                    tracing::debug!(?trouble, "the manager does not hear for which files tasks wait");
                    (told_tasks, told_at) = (tasks, Instant::now());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use scheduler::{
        ids::{JobId, TaskId},
        ranges::TaskSet,
    };

    use super::Waits;
    use crate::sys::sha256;

    #[test]
    fn tasks_that_wait_for_a_file_are_told_after_some_seconds_and_until_it_is_here() {
        let waits = Waits::default();
        let key = sha256::of(b"x");
        let task = |index| Some(TaskId { job: JobId(1), index });
        let first = waits.begin(task(3), "http://h/x", Some(&key));
        let second = waits.begin(task(4), "http://h/x", Some(&key));
        let other = waits.begin(task(5), "http://h/y", None);
        let told = |seconds| waits.told(Instant::now() + Duration::from_secs(seconds));
        assert_eq!(told(0), [], "most take no time");
        let words = |seconds| told(seconds).remove(0).what;
        assert_eq!(words(4), "http://h/x, which has taken 4 s so far");
        first.progress.note_trouble("h has sent nothing for 30 s");
        assert_eq!(told(12).len(), 2);
        assert_eq!(told(12)[0].tasks, TaskSet::from_iter([3, 4]));
        assert_eq!(
            words(12),
            "http://h/x, which has taken 12 s so far; nothing has come for 12 s; the last try: h has sent nothing for 30 s"
        );
        second.progress.add(2 << 20);
        assert_eq!(
            words(4),
            "http://h/x, which has taken 4 s so far; 2.0 MiB have come; the last try: h has sent nothing for 30 s"
        );
        drop((first, other));
        assert_eq!(told(12)[0].tasks, TaskSet::from_iter([4]));
        drop(second);
        assert_eq!(told(12), []);
    }
}
