//! Reports: the first success of a task counts, each kind of failure has its own retries, and crashes lead to
//! quarantine.

use std::collections::BTreeSet;

use crate::{
    engine::{
        handlers::pilots::ends::EndOfPilot,
        interface::notice::Notice,
        record::{CancelCause, DrainCause, FailedAttempt, JobResult, Record, Totals, Verdict},
        state::{job::Trouble, learned::statistics::Statistics},
        turn::Turn,
    },
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::{Blame, Failure, FailureKind, JobReport, Report},
    time::Span,
};

impl Turn<'_> {
    /// Takes a report, once: a report that was taken before is dropped, and a report that does not follow the
    /// last one is refused, unless the store has forgotten the reports between. The tasks of forgotten
    /// reports run again, because the pilot no longer says that it holds them. Returns whether the number was
    /// right.
    pub(in crate::engine) fn take_report(&mut self, pilot: PilotId, report: Report) -> bool {
        let Some(acknowledged) = self.durable.pilots().get(&pilot).map(|pilot| pilot.acknowledged) else {
            return true;
        };
        if report.seq <= acknowledged {
            return true;
        }
        if !self.is_next_report(pilot, report.seq, acknowledged) {
            return false;
        }
        let is_ended = |failure: &&Failure| failure.kind == FailureKind::Preempted;
        let ended = |part: &JobReport| -> Vec<TaskId> {
            let of_job = |failure: &Failure| TaskId { job: part.job, index: failure.index };
            part.failures.iter().filter(is_ended).map(of_job).collect()
        };
        let ended: BTreeSet<TaskId> = report.jobs.iter().flat_map(ended).collect();
        let mut results = Vec::new();
        let mut returned = Vec::new();
        let mut answered = Vec::new();
        let mut given = Vec::new();
        let mut seen = BTreeSet::new();
        for mut part in report.jobs {
            if !part.is_well_formed() || !seen.insert(part.job) {
                // The pilot is faulty: it is not believed, and the job is taken from it.
                returned.push((part.job, TaskSet::from(0..u64::MAX)));
                answered.push((part.job, TaskSet::from(0..u64::MAX)));
                continue;
            }
            self.strip(pilot, &mut part);
            let mut back = part.returned.clone();
            back.insert_all(&self.doubtful_failures(pilot, &part));
            returned.push((part.job, back));
            answered.push((part.job, part.tasks()));
            given.extend(part.given.iter().map(|(to, tasks)| (*to, part.job, tasks.clone())));
            results.extend(self.judge(pilot, part, &ended));
        }
        let jobs: Vec<JobId> = results.iter().map(|result| result.job).collect();
        let closed: Vec<(JobId, TaskSet)> =
            results.iter().map(|r| (r.job, r.successes.tasks.clone())).collect();
        let failed: Vec<(JobId, Vec<FailedAttempt>)> =
            results.iter().map(|r| (r.job, r.failures.clone())).collect();
        let n_done: u64 = closed.iter().map(|(_, tasks)| tasks.len()).sum();
        let outdone = self.outdone(&results, pilot);
        self.live.note_beside(self.durable, pilot, &results, self.now);
        self.note_seen(pilot, &results);
        self.record(Record::Reported { pilot, seq: report.seq, results, at: self.now });
        self.note_news(pilot, &failed, &returned);
        self.judge_pilot(pilot, n_done, &failed);
        self.note_useful(pilot, n_done, &failed);
        outdone.into_iter().for_each(|other| self.drain_if_proved(other));
        for (job, tasks) in closed {
            self.follow_successes(pilot, job, &tasks);
        }
        for (job, failures) in failed {
            self.follow_failures(pilot, job, failures);
        }
        for (job, tasks) in returned {
            let taken = self.unlease(pilot, job, &tasks);
            self.make_ready(job, &taken);
        }
        let gifts = self.take_gifts(pilot, given);
        for (job, tasks) in answered {
            self.note_answered(pilot, job, &tasks);
        }
        // Measured and expected runtimes may leave room in the budget of the tasks' user.
        let platform =
            self.durable.pilots().get(&pilot).and_then(|p| self.durable.platforms().get(&p.platform));
        if platform.is_some_and(|spec| spec.limits.user_core_time_max.is_some()) {
            self.live.stir_all();
        }
        for job in jobs {
            self.live.recount(self.settings, self.durable, job);
            self.stop_failing_job(job);
            self.close_if_over(job);
            self.notify(Notice::JobChanged(job));
        }
        self.hand_over(pilot, gifts);
        // Tasks that these results unblock may go to this pilot at once.
        self.settle_graph();
        true
    }

    /// Requests a new plan if the report may change it: by failures, returned tasks, or an application of
    /// which little is known.
    fn note_news(
        &mut self,
        pilot: PilotId,
        failed: &[(JobId, Vec<FailedAttempt>)],
        returned: &[(JobId, TaskSet)],
    ) {
        let is_any_back = returned.iter().any(|(_, tasks)| !tasks.is_empty());
        let is_news = |(job, failures): &(JobId, Vec<FailedAttempt>)| {
            !failures.is_empty() || self.is_young(pilot, *job)
        };
        if is_any_back || failed.iter().any(is_news) {
            self.want_plan();
        }
    }

    /// Returns whether little is known yet of the job's application on the pilot's platform.
    fn is_young(&self, pilot: PilotId, job: JobId) -> bool {
        let known = self.durable.pilots().get(&pilot).and_then(|p| self.durable.learned().get(&p.platform));
        let application = self.durable.jobs().get(&job).map(|job| &job.request.application);
        let known = known.zip(application).and_then(|(known, application)| known.get(application));
        known.is_none_or(Statistics::is_young)
    }

    /// Returns tasks whose failures may be from before they were reopened: each is to be tried once more.
    fn doubtful_failures(&self, pilot: PilotId, part: &JobReport) -> TaskSet {
        let state = self.live.pilots.get(&pilot);
        let is_doubtful = |index: &u64| {
            state.is_some_and(|state| state.is_doubtful(TaskId { job: part.job, index: *index }))
        };
        part.failures.iter().map(|failure| failure.index).filter(is_doubtful).collect()
    }

    /// Returns the accepted part of a job's report: first successes, and failures of tasks that the pilot
    /// holds.
    fn judge(&self, pilot: PilotId, part: JobReport, ended: &BTreeSet<TaskId>) -> Option<JobResult> {
        let job = self.durable.jobs().get(&part.job)?;
        let accepted = part.successes.tasks.intersection(&job.open);
        let successes = part.successes.restricted_to(&accepted);
        let state = self.live.pilots.get(&pilot);
        let mut seen = TaskSet::new();
        let failures: Vec<FailedAttempt> = part
            .failures
            .into_iter()
            .filter(|failure| {
                let task = TaskId { job: part.job, index: failure.index };
                let is_held = state.is_some_and(|state| state.holds(task));
                let is_doubtful = state.is_some_and(|state| state.is_doubtful(task));
                let is_open = job.open.contains(failure.index) && !accepted.contains(failure.index);
                is_held && is_open && !is_doubtful
            })
            .filter(|failure| seen.insert(failure.index))
            .map(|failure| self.judge_failure(pilot, part.job, failure, ended))
            .collect();
        // A task that was killed after a cancellation has output too, and no other result.
        let is_kept = |index| {
            let was_killed = || job.cancelled.contains(index) && part.returned.contains(index);
            accepted.contains(index) || seen.contains(index) || was_killed()
        };
        let outputs: Vec<_> = part.outputs.into_iter().filter(|output| is_kept(output.index)).collect();
        if accepted.is_empty() && failures.is_empty() && outputs.is_empty() {
            return None;
        }
        let mut has_files = TaskSet::new();
        let mut is_kept = |index| accepted.contains(index) && has_files.insert(index);
        let files: Vec<_> = part.files.into_iter().filter(|files| is_kept(files.index)).collect();
        Some(JobResult { job: part.job, totals: Totals::of(&successes), successes, failures, outputs, files })
    }

    /// Returns the failed attempt with its verdict. `ended`: the tasks that the report says were ended with
    /// their batch job.
    fn judge_failure(
        &self,
        pilot: PilotId,
        job: JobId,
        failure: Failure,
        ended: &BTreeSet<TaskId>,
    ) -> FailedAttempt {
        let Failure { index, kind, usage } = failure;
        let n_before = self.trouble(TaskId { job, index }).map_or(0, Trouble::n_attempts);
        let held = self.durable.pilots().get(&pilot);
        let is_cut_short =
            kind == FailureKind::Walltime && !held.is_some_and(|pilot| pilot.had_its_chance(&usage));
        let verdict = match kind {
            _ if is_cut_short => Verdict::Retry { at: self.now },
            FailureKind::Preempted => {
                let task = TaskId { job, index };
                let end = EndOfPilot { is_signalled: true, is_alone: self.ran_alone(pilot, task, ended) };
                self.verdict_of_end(pilot, task, end)
            }
            _ => self.verdict(TaskId { job, index }, &kind),
        };
        FailedAttempt { index, attempt: n_before + 1, kind, usage, verdict }
    }

    pub(in crate::engine) fn trouble(&self, task: TaskId) -> Option<&Trouble> {
        self.durable.jobs().get(&task.job)?.troubled.get(&task.index)
    }

    /// Returns the verdict on one more failure of this kind: each kind has retries of its own.
    pub(in crate::engine) fn verdict(&self, task: TaskId, kind: &FailureKind) -> Verdict {
        let Some(job) = self.durable.jobs().get(&task.job) else { return Verdict::Final };
        let none = Trouble::default();
        let trouble = job.troubled.get(&task.index).unwrap_or(&none);
        let (n_before, budget, first_delay) = match kind.blame() {
            Blame::Program => (trouble.n_program, job.request.retries, job.request.retry_delay),
            Blame::Node => {
                let can_elsewhere = matches!(kind, FailureKind::Node { .. });
                let budget =
                    if can_elsewhere { self.settings.node_retries } else { self.settings.start_retries };
                (trouble.n_node, budget, self.settings.node_retry_delay)
            }
            Blame::Walltime => (trouble.n_walltime, self.settings.walltime_retries, Span::ZERO),
            // `verdict_of_end` weighs these kinds.
            Blame::Nobody | Blame::Ended | Blame::Crash => (0, u32::MAX, Span::ZERO),
            Blame::Transfer => {
                (trouble.n_transfer, self.settings.transfer_retries, self.settings.node_retry_delay)
            }
        };
        if n_before >= budget {
            return Verdict::Final;
        }
        let delay = first_delay.times(1 << n_before.min(20)).min(self.settings.retry_delay_max);
        Verdict::Retry { at: self.now + delay }
    }

    fn follow_successes(&mut self, pilot: PilotId, job: JobId, tasks: &TaskSet) {
        let taken = self.unlease(pilot, job, tasks);
        if taken.len() < tasks.len() {
            // Tasks that it no longer held may be ready, or leased to another pilot.
            self.revoke(job, tasks, Some(pilot));
        }
        if !tasks.is_empty() {
            self.live.clear_suspects(job, tasks);
            self.live.clear_last_chances(job, tasks);
            if self.live.n_crash_most.get(&job).is_some_and(|n_crash| *n_crash > 1) {
                self.note_last_chances(job);
            }
            self.note_node_success(pilot);
        }
    }

    /// Ends leases, schedules retries, notifies watchers and drains black holes after failures.
    fn follow_failures(&mut self, pilot: PilotId, job: JobId, failures: Vec<FailedAttempt>) {
        for failure in failures {
            let one = TaskSet::from(failure.index..failure.index + 1);
            self.unlease(pilot, job, &one);
            self.live.is_patient_again(job, failure.index);
            self.clear_unblamed(job, &one);
            if failure.kind == FailureKind::Preempted {
                self.suspect_ended(job, failure.index);
            }
            if failure.verdict == Verdict::Final {
                self.live.clear_last_chances(job, &one);
            }
            self.make_ready(job, &one);
            self.note_node_failure(pilot, job, &failure.kind);
            let task = TaskId { job, index: failure.index };
            let is_final = failure.verdict == Verdict::Final;
            self.notify(Notice::TaskFailed { task, kind: failure.kind, is_final, pilot });
        }
    }

    fn note_node_success(&mut self, pilot: PilotId) {
        if let Some(state) = self.live.pilots.get_mut(&pilot) {
            state.n_node_failures = 0;
        }
    }

    /// Counts a failure of the node. A node that fails, again and again, tasks that others can run is
    /// drained.
    fn note_node_failure(&mut self, pilot: PilotId, job: JobId, kind: &FailureKind) {
        let Some(state) = self.live.pilots.get_mut(&pilot) else { return };
        if kind.blame() != Blame::Node {
            state.n_node_failures = 0;
            return;
        }
        state.n_node_failures += 1;
        let n_failures = state.n_node_failures;
        let others_can = self.durable.jobs().get(&job).is_some_and(|job| job.n_done() > 0);
        if n_failures >= self.settings.black_hole_limit && others_can {
            self.drain_pilot(pilot, DrainCause::BlackHole { n_failures });
        }
    }

    /// Cancels the rest of a job in which more tasks have failed than it allows.
    pub(in crate::engine) fn stop_failing_job(&mut self, id: JobId) {
        let Some(job) = self.durable.jobs().get(&id) else { return };
        let Some(limit) = job.request.max_failures else { return };
        let n_failed = job.failed.len().saturating_sub(job.n_failed_before);
        if n_failed > limit && !job.open.is_empty() {
            let open = job.open.clone();
            self.cancel_tasks(id, open, CancelCause::MaxFailures { n_failed, limit });
        }
    }

    /// Returns how many tasks of the job the whole pilot could run at a time.
    pub(in crate::engine) fn n_slots(&self, pilot: PilotId, job: JobId) -> u64 {
        let Some(pilot) = self.durable.pilots().get(&pilot) else { return 0 };
        let Some(job) = self.durable.jobs().get(&job) else { return 0 };
        job.request.needs.resources.how_often_in(&pilot.node.capacity)
    }
}
