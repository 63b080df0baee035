//! Data-aware stealing (paper 004): the queues in which tasks with inputs wait, the tasks that an idle pilot
//! steals, and the tasks that a victim gives. The shell finds out whom to ask and which pilot has a file.

use super::{
    PilotAction, PilotCore,
    interface::{Hunted, ReadBy},
    queue::JobQueue,
};
use crate::{
    ids::{JobId, PilotId},
    policy::stealing::{
        Input, Pace, PilotStealing, Ready, Spot, Stealing, hunt::Hunt, queues::Place, relief::Relief,
    },
    ranges::TaskSet,
    time::{Span, Time},
};

/// Tasks that begin within this time stay with the victim: stealing them would take as long.
const MARGIN: Span = Span::from_millis(10);
/// The time for which promised tasks are awaited, …
const ON_THEIR_WAY: Span = Span::from_secs(1);
/// … and tasks of another pilot that the manager asks.
const PASSED_ON: Span = Span::from_millis(100);
/// The longest pause between steal requests: another pilot may have got tasks meanwhile. (The paper's pilots
/// give up, because all their tasks are there from the beginning.)
const PAUSE_LONGEST: Span = Span::from_secs(8);
/// The interval at which the length of the queues is checked (paper 004: every second).
const RELIEF: Span = Span::from_secs(1);

/// The state of stealing, as thief and as victim.
#[derive(Clone, Debug, Default)]
pub(super) struct Hunting {
    policy: PilotStealing,
    hunt: Hunt,
    /// When to ask other pilots next, while there is nothing to do.
    due_at: Option<Time>,
    /// Whether a steal request is open.
    is_out: bool,
    /// No steal request is sent before this time.
    not_before: Time,
    relief_at: Option<Time>,
    /// When more tasks can be stolen here, though no event happens until then.
    more_at: Option<Time>,
    /// Bytes per second at which this pilot fetches files from others.
    bytes_per_s: u64,
}

impl Hunting {
    /// Returns when [`PilotCore::handle`] is needed next for stealing.
    pub(super) fn wakeup(&self) -> Option<Time> {
        [self.due_at, self.relief_at, self.more_at].into_iter().flatten().min()
    }

    /// Notes that tasks have come.
    pub(super) fn work_came(&mut self, now: Time, is_given: bool) {
        self.hunt.work_came();
        if is_given {
            self.not_before = now;
        }
    }

    fn law(&self) -> Stealing {
        self.policy.law()
    }
}

fn tasks_per_s(n_slots: u64, mean_us: u64) -> f64 {
    n_slots.max(1) as f64 * 1e6 / mean_us.max(1) as f64
}

impl PilotCore {
    /// Returns the expected runtime of a task of the job: the mean of its own tasks here, else of all tasks.
    /// The next task of a workflow is often the first of its job.
    fn expected_us(&self, queue: &JobQueue) -> Option<u64> {
        queue.mean_us.or(self.mean_us)
    }

    fn tasks_per_s(&self, queue: &JobQueue) -> Option<f64> {
        let n_slots = queue.needs.resources.how_often_in(&self.limits.capacity);
        self.expected_us(queue).map(|mean_us| tasks_per_s(n_slots, mean_us))
    }

    /// Returns when running tasks are expected to end, by the mean runtime of their jobs, and how many cores
    /// each frees.
    fn ends_expected(&self) -> impl Iterator<Item = (Time, u64)> {
        let mean_us =
            |job: &JobId| self.jobs.get(job).and_then(|queue: &JobQueue| queue.mean_us).or(self.mean_us);
        let running = self.running.iter();
        running.filter_map(move |(task, running)| {
            let end = running.since + Span(mean_us(&task.job)?);
            Some((end, u64::from(running.needs.cores)))
        })
    }

    /// Returns the number of cores that come free in a moment. A task that has outrun its expected end by
    /// more than the margin may still run for long and does not count.
    fn n_cores_soon(&self, now: Time) -> u64 {
        let soon = self.ends_expected().filter(|(end, _)| end.0.abs_diff(now.0) < MARGIN.0);
        soon.map(|(_, n_cores)| n_cores).sum()
    }

    /// Returns when the next running task will have outrun its expected end for so long that tasks that wait
    /// for its cores may be stolen.
    fn more_at(&self, now: Time) -> Option<Time> {
        let is_any_to_take = self.hunting.law().steals() && self.has_queued();
        let ends = is_any_to_take.then(|| self.ends_expected()).into_iter().flatten();
        ends.map(|(end, _)| end + MARGIN).filter(|at| *at > now).min()
    }

    /// Returns the number of tasks that will begin on the cores that come free soon, before another pilot
    /// could have stolen them: the next one on each slot, and the ones that follow within the margin.
    fn n_margin(&self, queue: &JobQueue, n_cores_soon: u64) -> u64 {
        let needs = &queue.needs.resources;
        let free = u64::from(self.free.cores);
        // A task that fits into the free cores waits for something else.
        let n_cores = if u64::from(needs.cores) > free { n_cores_soon + free } else { n_cores_soon };
        let n_slots =
            (n_cores / u64::from(needs.cores.max(1))).min(needs.how_often_in(&self.limits.capacity));
        let margin = |mean_us: u64| n_slots + n_slots.saturating_mul(MARGIN.0) / mean_us.max(1);
        self.expected_us(queue).map_or(0, margin)
    }

    /// Sets the stealing policy.
    pub(super) fn obey_stealing(&mut self, policy: PilotStealing, actions: &mut Vec<PilotAction>) {
        if self.hunting.policy == policy {
            return;
        }
        let (before, law) = (self.hunting.law().steals(), policy.law());
        self.hunting = Hunting { policy, is_out: self.hunting.is_out, ..Hunting::default() };
        for queue in self.jobs.values_mut() {
            queue.relief = Relief::of(law);
        }
        if law.steals() != before {
            actions.push(PilotAction::Meet { is_wanted: law.steals() });
        }
    }

    /// Asks the shell where the inputs of new tasks are, to choose the queue in which they wait. Tasks that
    /// another pilot gave are included: otherwise no pilot could steal them again, and a pilot that stole
    /// half of all tasks would be the last to end.
    pub(super) fn look_at(&mut self, job: JobId, tasks: &TaskSet, actions: &mut Vec<PilotAction>) {
        let law = self.hunting.law();
        let Some(queue) = self.jobs.get_mut(&job).filter(|queue| queue.needs.staging.inputs) else { return };
        if law.steals() && !tasks.is_empty() {
            queue.is_asked_of(tasks);
            queue.relief = queue.relief.take().or_else(|| Relief::of(law));
            actions.push(PilotAction::Look { job, tasks: tasks.clone() });
        }
    }

    /// Queues tasks now that the pilots with their inputs are known (paper 004, Algorithm 1).
    pub(super) fn seen(
        &mut self,
        (job, tasks): (JobId, &TaskSet),
        read: Vec<(u64, Vec<ReadBy>)>,
        bytes_per_s: u64,
        actions: &mut Vec<PilotAction>,
    ) {
        self.hunting.bytes_per_s = bytes_per_s.max(1);
        let (law, mut gifts) = (self.hunting.law(), Vec::<(PilotId, u64)>::new());
        let expected_us = self.jobs.get(&job).and_then(|queue| self.expected_us(queue));
        let Some(queue) = self.jobs.get_mut(&job) else { return };
        let mut left = queue.are_seen(tasks);
        if !law.steals() {
            return;
        }
        let run_s = expected_us.map_or(0.0, |mean_us| mean_us as f64 / 1e6);
        for (index, read) in read {
            if !left.remove(index) {
                continue;
            }
            let (inputs, others) = places(&read);
            let task = Ready { inputs: &inputs, run_s, bytes_per_s: bytes_per_s.max(1) as f64 };
            match law.spot(&task, 0) {
                Spot::Shared => queue.ready.share(law.weight(&task), index),
                Spot::Own(at) => match others.get(at.wrapping_sub(1)) {
                    Some(other) if queue.may_go_to_its_files(index) => gifts.push((*other, index)),
                    _ => queue.ready.keep(law.weight(&task), index),
                },
            }
        }
        left.indices().for_each(|index| queue.ready.share(0, index));
        for (to, index) in gifts {
            self.give(to, job, &TaskSet::from(index..index + 1), actions);
        }
    }

    /// Lets others steal tasks that stay with their files, where their queue has grown too long (paper 004,
    /// FLDS).
    pub(super) fn relieve(&mut self, now: Time) {
        let is_any_kept = self.jobs.values().any(|queue| queue.relief.is_some() && queue.ready.n_own() > 0);
        if !is_any_kept {
            self.hunting.relief_at = None;
            return;
        }
        if now < *self.hunting.relief_at.get_or_insert(now + RELIEF) {
            return;
        }
        self.hunting.relief_at = Some(now + RELIEF);
        for queue in self.jobs.values_mut() {
            let n_slots = queue.needs.resources.how_often_in(&self.limits.capacity);
            let mean_us = queue.mean_us.or(self.mean_us);
            let (n_own, per_s) =
                (queue.ready.n_own(), mean_us.map_or(0.0, |mean_us| tasks_per_s(n_slots, mean_us)));
            if let Some(relief) = &mut queue.relief {
                let n = relief.n_to_share(n_own, per_s);
                queue.ready.release(n);
            }
        }
    }

    /// Sends a steal request when there has been nothing to begin for long enough.
    pub(super) fn hunt(&mut self, now: Time, actions: &mut Vec<PilotAction>) {
        self.hunting.more_at = self.more_at(now);
        let listens = self.in_flight[super::Lane::Listen as usize];
        let is_idle = self.leaving.is_none() && self.free.cores > 0 && listens && !self.has_queued();
        let hunting = &mut self.hunting;
        if !is_idle || !hunting.law().steals() || hunting.is_out {
            hunting.due_at = None;
            return;
        }
        let pause = hunting.hunt.pause().map_or(PAUSE_LONGEST, |pause| pause.min(PAUSE_LONGEST));
        let due_at = hunting.due_at.unwrap_or((now + pause).max(hunting.not_before));
        let is_due = now >= due_at;
        hunting.due_at = Some(due_at).filter(|_| !is_due);
        if is_due {
            hunting.is_out = true;
            actions.push(PilotAction::Hunt);
        }
    }

    /// Handles the outcome of a steal request.
    pub(super) fn hunted(&mut self, now: Time, hunted: Hunted) {
        let Hunting { hunt, is_out, not_before, .. } = &mut self.hunting;
        *is_out = false;
        match hunted {
            Hunted::Promised => {
                hunt.succeeded();
                *not_before = now + ON_THEIR_WAY;
            }
            Hunted::PassedOn => {
                hunt.failed();
                *not_before = now + PASSED_ON;
            }
            Hunted::InVain => hunt.failed(),
        }
    }

    /// Returns the number of tasks that another pilot could steal here, or somewhat more; 0 only if there is
    /// none.
    pub fn n_to_take(&self, now: Time) -> u64 {
        if !self.hunting.law().steals() || self.leaving.is_some() {
            return 0;
        }
        let soon = self.n_cores_soon(now);
        let of_job = |(job, queue): (&JobId, &JobQueue)| {
            self.n_to_take_of(queue, soon) + self.staged_to_take(*job, soon).len() as u64
        };
        self.jobs.iter().map(of_job).sum()
    }

    /// Returns the tasks that another pilot may steal although their files are here or in transfer, in their
    /// order: where no core is free they wait, and so do the tasks that depend on them.
    fn staged_to_take(&self, job: JobId, n_cores_soon: u64) -> Vec<u64> {
        let is_full = self.free.cores == 0 && !self.staged.is_empty();
        let Some(queue) = self.jobs.get(&job).filter(|_| is_full) else { return Vec::new() };
        let may_go =
            |n_waiting: usize, place: Place| !place.is_own || self.may_leave(queue, n_waiting, place.bytes);
        let waiting = (1..).zip(self.staged_of(job)).skip(self.n_margin(queue, n_cores_soon) as usize);
        let to_take = waiting.filter(|(n, next)| next.place.is_some_and(|place| may_go(*n, place)));
        to_take.map(|(_, next)| next.index).collect()
    }

    fn n_to_take_of(&self, queue: &JobQueue, n_cores_soon: u64) -> u64 {
        let n_queued = queue.queued.len().saturating_sub(self.n_margin(queue, n_cores_soon));
        let n_most = n_queued.min(queue.n_may_go(self.free.cores > 0));
        if n_most == 0 || !queue.needs.staging.inputs {
            return n_most;
        }
        let n_offered = queue.ready.n_offered(|n, bytes| self.may_leave(queue, n, bytes)) as u64;
        n_most.min(n_offered)
    }

    fn may_leave(&self, queue: &JobQueue, n_waiting: usize, bytes: u64) -> bool {
        let Some(tasks_per_s) = self.tasks_per_s(queue) else { return false };
        let pace = Pace { tasks_per_s, bytes_per_s: self.hunting.bytes_per_s.max(1) as f64 };
        self.hunting.law().may_leave(n_waiting, bytes, &pace)
    }

    /// Gives a pilot half of the tasks that it may steal, or the only one: the tasks that cost the least
    /// transfer. Returns the number of tasks given.
    pub(super) fn give_half(&mut self, now: Time, thief: PilotId, actions: &mut Vec<PilotAction>) -> u64 {
        let (n_all, soon) = (self.n_to_take(now), self.n_cores_soon(now));
        let mut n_left = n_all.div_ceil(2);
        let jobs: Vec<JobId> = self.order.iter().rev().copied().collect();
        // The jobs whose turn comes last are first.
        for job in jobs.into_iter().filter(|_| n_all > 0) {
            let Some(queue) = self.jobs.get(&job) else { continue };
            let n = self.n_to_take_of(queue, soon).min(n_left);
            let mut tasks = if queue.needs.staging.inputs { self.half_of(job, n) } else { last_of(queue, n) };
            let n_more = usize::try_from(n_left - tasks.len()).unwrap_or(usize::MAX);
            self.staged_to_take(job, soon)
                .into_iter()
                .rev()
                .take(n_more)
                .for_each(|index| _ = tasks.insert(index));
            n_left -= tasks.len();
            self.give(thief, job, &tasks, actions);
            self.forget_if_idle(job, actions);
        }
        n_all.div_ceil(2) - n_left
    }

    /// Takes up to `n_most` tasks whose files are known out of `ready`.
    fn half_of(&mut self, job: JobId, n_most: u64) -> TaskSet {
        let mut taken = TaskSet::new();
        let Some(mut ready) = self.jobs.get_mut(&job).map(|queue| std::mem::take(&mut queue.ready)) else {
            return taken;
        };
        if let Some(queue) = self.jobs.get(&job) {
            let n_most = usize::try_from(n_most).unwrap_or(usize::MAX);
            let half = ready.give_half(n_most, |n, bytes| self.may_leave(queue, n, bytes));
            taken.extend_indices(half.into_iter().map(|(_, index)| index));
        }
        if let Some(queue) = self.jobs.get_mut(&job) {
            queue.ready = ready;
        }
        taken
    }
}

/// Returns the last `n` queued tasks.
fn last_of(queue: &JobQueue, n: u64) -> TaskSet {
    let mut tasks = queue.queued.clone();
    tasks.take_first(tasks.len().saturating_sub(n));
    tasks
}

/// Converts files to the form that the policies need: this pilot is 0, the others are numbered from 1.
fn places(read: &[ReadBy]) -> (Vec<Input>, Vec<PilotId>) {
    let mut others = Vec::new();
    let mut number = |at: Option<PilotId>| match at {
        None => 0,
        Some(pilot) => {
            let known = others.iter().position(|other| *other == pilot);
            1 + known.unwrap_or_else(|| {
                others.push(pilot);
                others.len() - 1
            })
        }
    };
    let inputs = read.iter().map(|file| Input { at: number(file.at), bytes: file.bytes }).collect();
    (inputs, others)
}
