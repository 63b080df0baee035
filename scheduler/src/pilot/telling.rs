//! The pilot's messages to the manager: results, gathered into reports, and the tasks that the pilot holds.

use std::collections::BTreeMap;

use super::{Ending, Gathered, Lane, PilotAction, PilotCore, Sealed, sets, staging::Delivering};
use crate::{
    ids::{JobId, TaskId},
    pull::{Held, Holdings, Pull, Tally},
    ranges::TaskSet,
    results::{Failure, FailureKind, JobReport, Report, Successes, TaskOutput, Usage},
    time::{Span, Time},
};

impl PilotCore {
    /// Handles the end of a task's process: the next task gets its slot, and its result is gathered, unless
    /// its output files have to be delivered first.
    pub(super) fn task_ended(
        &mut self,
        now: Time,
        (task, ending, usage): (TaskId, Ending, Usage),
        output: Option<TaskOutput>,
        actions: &mut Vec<PilotAction>,
    ) {
        let killed_for = match self.running.remove(&task) {
            Some(running) => self.next_begins(now, task.job, running),
            None if self.unjudged.contains_key(&task) => self.unjudged.remove(&task).flatten(),
            None if self.ends_unbegun(task, &ending) => None,
            None => return,
        };
        self.note_wall(task.job, usage.wall_us);
        let is_success = |code: &i32| match self.jobs.get(&task.job) {
            Some(queue) => queue.needs.success_codes.contains(code),
            None => *code == 0,
        };
        let leaves_files = self.jobs.get(&task.job).is_some_and(|queue| queue.needs.staging.outputs);
        if let Ending::Exited(code) = ending
            && leaves_files
            && is_success(&code)
        {
            self.delivering.insert(task, Delivering { code, usage, output });
            actions.push(PilotAction::Deliver { task });
            return;
        }
        let gathered = self.gathered.entry(task.job).or_default();
        let kind = match ending {
            Ending::Exited(code) if is_success(&code) => {
                gathered.attempts.push((task.index, code, usage));
                None
            }
            Ending::Exited(code) => Some(FailureKind::Exit { code }),
            Ending::Failed(kind) => Some(kind),
            Ending::Killed if killed_for.is_none() => {
                gathered.returned.insert(task.index);
                return self.gather_output(task.job, output);
            }
            Ending::Killed => killed_for,
        };
        gathered.failures.extend(kind.map(|kind| Failure { index: task.index, kind, usage }));
        self.n_gathered += 1;
        self.gather_output(task.job, output);
    }

    pub(super) fn gather_output(&mut self, job: JobId, output: Option<TaskOutput>) {
        let gathered = self.gathered.entry(job).or_default();
        if let Some(output) = output.filter(|output| output.stdout.len() + output.stderr.len() > 0) {
            self.output_bytes += output.stdout.len() + output.stderr.len();
            gathered.outputs.push(output);
        }
    }

    /// Seals a report of all that was gathered. Its number is never used again.
    pub(super) fn seal(&mut self, actions: &mut Vec<PilotAction>) {
        self.seq += 1;
        let mut tasks = Vec::new();
        let mut jobs = Vec::new();
        for (job, gathered) in std::mem::take(&mut self.gathered) {
            let mut all = gathered.returned.clone();
            let mut report = JobReport::new(job);
            report.successes = Successes::from_attempts(gathered.attempts);
            all.insert_all(&report.successes.tasks);
            all.extend_indices(gathered.failures.iter().map(|failure| failure.index));
            gathered.given.values().for_each(|tasks| all.insert_all(tasks));
            report.given = gathered.given.into_iter().collect();
            report.failures = gathered.failures;
            report.returned = gathered.returned;
            report.outputs = gathered.outputs;
            report.files = gathered.files;
            tasks.push((job, all));
            jobs.push(report);
        }
        (self.n_gathered, self.output_bytes) = (0, 0);
        self.sealed.push_back(Sealed { seq: self.seq, tasks });
        actions.push(PilotAction::Keep(Report { seq: self.seq, jobs }));
    }

    pub(super) fn send(&mut self, lane: Lane, report: Option<u64>, actions: &mut Vec<PilotAction>) {
        let told = self.must_tell.take();
        self.n_pulls += 1;
        self.told = self.told.max(told.unwrap_or(0));
        let pull = Pull {
            epoch: self.epoch,
            part_seen: self.part_seen,
            report: None,
            holds: told.map(|asked| Holdings {
                asked,
                tasks: self.holds(),
                // The template of an ended job may be forgotten at any moment: it must be sent again.
                templates: self
                    .jobs
                    .iter()
                    .filter(|(_, queue)| !queue.is_over)
                    .map(|(job, _)| *job)
                    .collect(),
            }),
            // If the pilot is killed now, the tasks with unknown result are lost with it.
            running: sets(self.running.keys().chain(self.unjudged.keys())).into_iter().collect(),
            // The shell, which sends the pull, fills this in.
            efforts: Vec::new(),
            moved: Vec::new(),
            is_hungry: self.leaving.is_none(),
            wait: if lane == Lane::Listen { self.limits.poll_wait } else { Span::ZERO },
            session_nonce: None,
            // The shell fills this in, too.
            starved: Vec::new(),
            tally: Some(self.tally()),
        };
        self.in_flight[lane as usize] = true;
        self.is_news_untold = false;
        actions.push(PilotAction::Pull { lane, pull: Box::new(pull), report });
    }

    /// Counts the tasks that [`PilotCore::holds`] lists, without making the sets. Tasks in two sets count
    /// twice.
    fn tally(&self) -> Tally {
        let queued: u64 = self.jobs.values().map(|queue| queue.queued.len()).sum();
        let in_hand = self.ahead.len() + self.staged.len() + self.delivering.len();
        let in_hand = in_hand + self.running.len() + self.unjudged.len();
        let sealed = self.sealed.iter().flat_map(|sealed| &sealed.tasks);
        let sealed: u64 = sealed.map(|(_, tasks)| tasks.len()).sum();
        let gathered = |gathered: &Gathered| {
            let given: u64 = gathered.given.values().map(TaskSet::len).sum();
            let n_ended = gathered.attempts.len() + gathered.failures.len();
            gathered.returned.len() + given + n_ended as u64
        };
        let gathered: u64 = self.gathered.values().map(gathered).sum();
        let acknowledged = self.sealed.front().map_or(self.seq, |sealed| sealed.seq.saturating_sub(1));
        Tally { number: self.n_pulls, acknowledged, n_held: queued + in_hand as u64 + sealed + gathered }
    }

    pub(super) fn holds(&self) -> Vec<Held> {
        let mut held: BTreeMap<JobId, Held> = BTreeMap::new();
        fn entry(held: &mut BTreeMap<JobId, Held>, job: JobId) -> &mut Held {
            let none = || (TaskSet::new(), TaskSet::new(), TaskSet::new());
            let (queued, running, unreported) = none();
            held.entry(job).or_insert(Held { job, queued, running, unreported })
        }
        for (job, queue) in self.jobs.iter().filter(|(_, queue)| !queue.queued.is_empty()) {
            entry(&mut held, *job).queued = queue.queued.clone();
        }
        for (job, ahead) in sets(self.ahead.keys()) {
            entry(&mut held, job).queued.insert_all(&ahead);
        }
        for (job, staged) in sets(self.staged.keys()) {
            entry(&mut held, job).queued.insert_all(&staged);
        }
        // Their processes have ended: they cannot cause a loss of the pilot now.
        for (job, delivering) in sets(self.delivering.keys()) {
            entry(&mut held, job).unreported.insert_all(&delivering);
        }
        for (job, running) in sets(self.running.keys().chain(self.unjudged.keys())) {
            entry(&mut held, job).running = running;
        }
        for (job, tasks) in self.sealed.iter().flat_map(|sealed| &sealed.tasks) {
            entry(&mut held, *job).unreported.insert_all(tasks);
        }
        for (job, gathered) in &self.gathered {
            let unreported = &mut entry(&mut held, *job).unreported;
            unreported.insert_all(&gathered.returned);
            gathered.given.values().for_each(|tasks| unreported.insert_all(tasks));
            unreported.extend_indices(gathered.attempts.iter().map(|(index, ..)| *index));
            unreported.extend_indices(gathered.failures.iter().map(|failure| failure.index));
        }
        held.into_values().collect()
    }
}
