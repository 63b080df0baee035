//! Data-aware stealing (paper 004): where queued tasks wait that read files, what an idle pilot takes from others, and
//! what it leaves to those who ask. Whom to ask, and where files are, the shell finds out.

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

/// What is begun so soon stays with who is asked: to take it would take as long.
const MARGIN: Span = Span::from_millis(10);
/// Tasks that were promised are waited for so long, …
const ON_THEIR_WAY: Span = Span::from_secs(1);
/// … and what another pilot may give that the manager asks.
const PASSED_ON: Span = Span::from_millis(100);
/// Others are asked after this time at the latest: tasks may have come to one of them meanwhile. (The paper's pilots
/// give up: all their tasks are there from the beginning.)
const PAUSE_LONGEST: Span = Span::from_secs(8);
/// How often it is looked whether a queue has grown too long (paper 004: every second).
const RELIEF: Span = Span::from_secs(1);

/// What a pilot takes from others and they from it.
#[derive(Clone, Debug, Default)]
pub(super) struct Hunting {
    policy: PilotStealing,
    hunt: Hunt,
    /// When others are asked next, while there is nothing to do.
    due_at: Option<Time>,
    /// Others are being asked.
    is_out: bool,
    /// Not before this time.
    not_before: Time,
    relief_at: Option<Time>,
    /// When more can be taken here, though nothing happens until then.
    more_at: Option<Time>,
    /// What is fetched in a second from others.
    bytes_per_s: u64,
}

impl Hunting {
    /// When something is to be done.
    pub(super) fn wakeup(&self) -> Option<Time> {
        [self.due_at, self.relief_at, self.more_at].into_iter().flatten().min()
    }

    /// Tasks have come.
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
    /// How long a task of the job takes: as others of it did here, else as any did. What waits next of a graph is often
    /// the first of its job.
    fn expected_us(&self, queue: &JobQueue) -> Option<u64> {
        queue.mean_us.or(self.mean_us)
    }

    fn tasks_per_s(&self, queue: &JobQueue) -> Option<f64> {
        let n_slots = queue.needs.resources.how_often_in(&self.limits.capacity);
        self.expected_us(queue).map(|mean_us| tasks_per_s(n_slots, mean_us))
    }

    /// When running tasks are expected to end, by what others of their jobs took, and how many cores that frees.
    fn ends_expected(&self) -> impl Iterator<Item = (Time, u64)> {
        let mean_us =
            |job: &JobId| self.jobs.get(job).and_then(|queue: &JobQueue| queue.mean_us).or(self.mean_us);
        let running = self.running.iter();
        running.filter_map(move |(task, running)| {
            let end = running.since + Span(mean_us(&task.job)?);
            Some((end, u64::from(running.needs.cores)))
        })
    }

    /// Cores that come free in a moment. Who runs on though its like have ended may do so for long.
    fn n_cores_soon(&self, now: Time) -> u64 {
        let soon = self.ends_expected().filter(|(end, _)| end.0.abs_diff(now.0) < MARGIN.0);
        soon.map(|(_, n_cores)| n_cores).sum()
    }

    /// When the next of those has run on for so long that what waits for its cores may be taken.
    fn more_at(&self, now: Time) -> Option<Time> {
        let is_any_to_take = self.hunting.law().steals() && self.has_queued();
        let ends = is_any_to_take.then(|| self.ends_expected()).into_iter().flatten();
        ends.map(|(end, _)| end + MARGIN).filter(|at| *at > now).min()
    }

    /// Tasks that are begun on the cores that come free soon, before another pilot could have taken them: on each slot
    /// the next one, and those that end meanwhile.
    fn n_margin(&self, queue: &JobQueue, n_cores_soon: u64) -> u64 {
        let needs = &queue.needs.resources;
        let free = u64::from(self.free.cores);
        // What has cores enough waits for something else.
        let n_cores = if u64::from(needs.cores) > free { n_cores_soon + free } else { n_cores_soon };
        let n_slots =
            (n_cores / u64::from(needs.cores.max(1))).min(needs.how_often_in(&self.limits.capacity));
        let margin = |mean_us: u64| n_slots + n_slots.saturating_mul(MARGIN.0) / mean_us.max(1);
        self.expected_us(queue).map_or(0, margin)
    }

    /// What others may take goes by this policy from now on.
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

    /// Tasks that have come and read files are looked at: who has those is where they are to wait. What another pilot
    /// gave is too: else nobody could take it any more, and who took half of everything would be the last to end.
    pub(super) fn look_at(&mut self, job: JobId, tasks: &TaskSet, actions: &mut Vec<PilotAction>) {
        let law = self.hunting.law();
        let Some(queue) = self.jobs.get_mut(&job).filter(|queue| queue.needs.staging.inputs) else { return };
        if law.steals() && !tasks.is_empty() {
            queue.is_asked_of(tasks);
            queue.relief = queue.relief.take().or_else(|| Relief::of(law));
            actions.push(PilotAction::Look { job, tasks: tasks.clone() });
        }
    }

    /// It is known who has what these tasks read (paper 004, Algorithm 1).
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

    /// A queue of tasks that stay with their files may have grown too long (paper 004, FLDS).
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

    /// Asks others for tasks, when there has been nothing to begin for long enough.
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

    /// Others were asked for tasks.
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

    /// How many tasks another pilot could take here, or somewhat more; 0 only if none.
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

    /// Tasks that another pilot may take although their files are here or on their way, in their order: where no core
    /// is free they wait, and with them all that comes after them in a graph.
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

    /// Gives a pilot half of what it may take, one of one: those that it costs least. Returns how many.
    pub(super) fn give_half(&mut self, now: Time, thief: PilotId, actions: &mut Vec<PilotAction>) -> u64 {
        let (n_all, soon) = (self.n_to_take(now), self.n_cores_soon(now));
        let mut n_left = n_all.div_ceil(2);
        let jobs: Vec<JobId> = self.order.iter().rev().copied().collect();
        // Those first whose turn comes last.
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

    /// Tasks of those whose files are known, so many at most; they are queued by nothing else any more.
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

/// The last so many.
fn last_of(queue: &JobQueue, n: u64) -> TaskSet {
    let mut tasks = queue.queued.clone();
    tasks.take_first(tasks.len().saturating_sub(n));
    tasks
}

/// Files as the policies see them: this pilot is 0, the others are numbered from 1.
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
