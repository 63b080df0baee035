//! Checks of the manager's answers: confirmations to users, and commands and tasks for pilots. Each is
//! checked at the moment of sending, against the state that was durable then.

use scheduler::{
    engine::interface::JobChange,
    ids::{JobId, PilotId, TaskId},
    pull::{Bundle, Part, PilotCommand},
    ranges::TaskSet,
    time::Time,
};

use super::{Auditor, Book, Violation};

impl Auditor {
    /// Checks a confirmed submission. Rule 1: the job is durable, and a submission makes only one job.
    pub(crate) fn acknowledged(&mut self, key: &str, job: JobId) -> Result<(), Violation> {
        ensure!(self.books.contains_key(&job), "job {job} was acknowledged before it was durable");
        let known = *self.keys.entry(key.to_owned()).or_insert(job);
        ensure!(known == job, "submission {key} became job {known} and job {job}");
        Ok(())
    }

    /// Checks a confirmed change of a job. Rule 1: the change is durable.
    pub(crate) fn changed(&self, job: JobId, change: &JobChange) -> Result<(), Violation> {
        let Some(book) = self.books.get(&job) else { return Ok(()) };
        match change {
            JobChange::Cancel(tasks) => {
                let all = TaskSet::from(0..book.n_tasks);
                let mut open = tasks.as_ref().map_or(all.clone(), |tasks| tasks.intersection(&all));
                open.remove_all(&book.closed());
                ensure!(open.is_empty(), "tasks {open} of job {job} are open after they were cancelled");
            }
            JobChange::Retry(None) => {
                ensure!(book.failed.is_empty(), "tasks {} of job {job} were not opened again", book.failed);
            }
            JobChange::Retry(Some(tasks)) => {
                let mut closed = tasks.intersection(&book.failed);
                closed.insert_all(&tasks.intersection(&book.cancelled));
                closed.remove_all(&self.in_vain(job, &closed));
                ensure!(closed.is_empty(), "tasks {closed} of job {job} were not opened again");
            }
            JobChange::Pause => ensure!(book.is_paused, "job {job} was said to be paused"),
            JobChange::Purge(_) => {
                ensure!(book.is_over(), "job {job} was said to be purged, and has open tasks");
            }
            JobChange::Resume => ensure!(!book.is_paused, "job {job} was said to be resumed"),
        }
        Ok(())
    }

    /// Checks an acknowledgement of reports up to `seq`. Rule 1: they are durable.
    pub(crate) fn report_acknowledged(&mut self, pilot: PilotId, seq: u64) -> Result<(), Violation> {
        let kept = self.reported.get(&pilot).copied().unwrap_or(0);
        ensure!(seq <= kept, "report {seq} of pilot {pilot} was acknowledged, {kept} is the last one kept");
        Ok(())
    }

    /// Checks a part for a pilot. Tasks that are sent for the first time are open, of a job that is kept and
    /// not paused, and each has the number of the next attempt.
    pub(crate) fn sent(
        &mut self,
        pilot: PilotId,
        epoch: u64,
        part: &Part,
        now: Time,
    ) -> Result<(), Violation> {
        // A pilot that has not confirmed the part may run its tasks from now on.
        let jobs = part.bundles.iter().map(|bundle| (pilot, bundle.job));
        self.given_at.extend(jobs.map(|of| (of, now)));
        let newest = self.newest_part.entry(pilot).or_default();
        if (epoch, part.number) <= *newest {
            return Ok(());
        }
        *newest = (epoch, part.number);
        for command in &part.commands {
            if let PilotCommand::Kill { job, tasks } = command {
                self.taken_away(pilot, *job, tasks);
            }
            self.n_passed_on += u64::from(matches!(command, PilotCommand::Give { .. }));
            let is_for_nobody = *command == PilotCommand::Show && !self.is_followed;
            ensure!(!is_for_nobody, "pilot {pilot} is to tell what tasks write, and nobody follows that");
        }
        self.is_last_chance_alone(&part.bundles)?;
        for bundle in &part.bundles {
            self.bundle_sent(bundle, now)?;
            self.usage.may_send(pilot, bundle.job)?;
            self.given.entry((pilot, bundle.job)).or_default().insert_all(&bundle.tasks);
            self.given_to_another(bundle, now);
            self.n_given += if bundle.is_given { bundle.tasks.len() } else { 0 };
        }
        Ok(())
    }

    /// Marks executions as strays: after a restart the first pilot that claims a task keeps it; another that
    /// runs it is ordered to end it.
    fn taken_away(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        let Some(place) = self.pilots.get(&pilot) else { return };
        for range in tasks.iter() {
            let bounds = [range.start, range.end].map(|index| TaskId { job, index });
            let executions = self.executions.range_mut(bounds[0]..bounds[1]).flat_map(|(_, all)| all);
            executions.filter(|one| one.place == *place).for_each(|one| one.is_stray = true);
        }
    }

    /// Marks executions as strays on pilots that had lost a task before it was given to another pilot.
    fn given_to_another(&mut self, bundle: &Bundle, now: Time) {
        for index in bundle.tasks.indices() {
            let task = TaskId { job: bundle.job, index };
            let held = self.executions.get(&task).into_iter().flatten();
            let freed: Vec<bool> = held.map(|one| self.was_freed(task, one, now)).collect();
            let held = self.executions.get_mut(&task).into_iter().flatten();
            held.zip(freed).for_each(|(one, freed)| one.is_stray |= freed);
        }
    }

    fn bundle_sent(&self, bundle: &Bundle, now: Time) -> Result<(), Violation> {
        let Bundle { job, tasks, tried, .. } = bundle;
        let Some(book) = self.books.get(job) else {
            return Err(Violation(format!("tasks of job {job} were sent before it was durable")));
        };
        let mut tasks = tasks.clone();
        // Tasks that timers of the same moment took away are withdrawn with the next part.
        book.revoked.iter().filter(|(at, _)| *at == now).for_each(|(_, taken)| tasks.remove_all(taken));
        let closed = tasks.intersection(&book.closed());
        ensure!(closed.is_empty(), "tasks {closed} of job {job} were sent although they are over");
        let mut beyond = tasks.clone();
        beyond.remove_range(0..book.n_tasks);
        ensure!(beyond.is_empty(), "job {job} has no tasks {beyond}; they were sent");
        ensure!(!book.is_paused, "tasks {tasks} of job {job} were sent although it is paused");
        for range in tasks.iter() {
            let bounds = [range.start, range.end].map(|index| TaskId { job: *job, index });
            let known = self.n_failures.range(bounds[0]..bounds[1]);
            let known: Vec<(u64, u32)> = known.map(|(task, n)| (task.index, n + 1)).collect();
            let told = tried.iter().filter(|(index, _)| range.contains(index));
            let told: Vec<(u64, u32)> = told.copied().collect();
            ensure!(told == known, "attempts {told:?} of job {job} were sent; {known:?} come next");
        }
        Ok(())
    }

    /// Checks the manager's final answer to a reader against the events. Rules 1 and 2.
    pub(crate) fn told(&self, job: JobId, sets: [&TaskSet; 3]) -> Result<(), Violation> {
        let Some(book) = self.books.get(&job) else { return Ok(()) };
        for (word, told, known) in [
            ("done", sets[0], &book.done),
            ("failed", sets[1], &book.failed),
            ("cancelled", sets[2], &book.cancelled),
        ] {
            ensure!(told == known, "job {job}: {told} are said to be {word}; {known} are");
        }
        Ok(())
    }
}

impl Book {
    pub(super) fn is_over(&self) -> bool {
        self.done.len() + self.failed.len() + self.cancelled.len() == self.n_tasks
    }

    pub(super) fn has_ended(&self, index: u64) -> bool {
        [&self.done, &self.failed, &self.cancelled].into_iter().any(|ended| ended.contains(index))
    }

    /// Returns the tasks that have ended.
    fn closed(&self) -> TaskSet {
        let mut closed = self.done.clone();
        closed.insert_all(&self.failed);
        closed.insert_all(&self.cancelled);
        closed
    }
}
