//! Data-aware stealing (paper 004): where queued tasks wait that read files, what an idle pilot takes from others, and
//! what it leaves to those who ask. Whom to ask, and where files are, the shell finds out.

use super::{PilotAction, PilotCore, interface::ReadBy, queue::JobQueue};
use crate::{
    ids::{JobId, PilotId},
    policy::stealing::{
        Input, Pace, PilotStealing, Ready, Spot, Stealing, hunt::Hunt, queues::Place, relief::Relief,
    },
    ranges::TaskSet,
    time::{Span, Time},
};

/// So much work stays with who is asked: to take it would take as long.
const MARGIN: Span = Span::from_millis(10);
/// Tasks that were promised are waited for so long.
const ON_THEIR_WAY: Span = Span::from_secs(1);
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
    /// What is fetched in a second from others.
    bytes_per_s: u64,
}

impl Hunting {
    /// When something is to be done.
    pub(super) fn wakeup(&self) -> Option<Time> {
        self.due_at.into_iter().chain(self.relief_at).min()
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

    /// Tasks that are begun before another pilot could have taken them.
    fn n_margin(&self, queue: &JobQueue) -> u64 {
        self.tasks_per_s(queue).map_or(0, |per_s| (per_s * MARGIN.as_secs_f64()) as u64)
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
        let listens = self.in_flight[super::Lane::Listen as usize];
        let is_idle = self.leaving.is_none() && self.free.cores > 0 && listens && !self.has_queued();
        let hunting = &mut self.hunting;
        if !is_idle || !hunting.law().steals() || hunting.is_out {
            hunting.due_at = None;
            return;
        }
        let due_at = match (hunting.due_at, hunting.hunt.pause()) {
            (Some(due_at), _) => due_at,
            (None, Some(pause)) => (now + pause).max(hunting.not_before),
            (None, None) => return,
        };
        let is_due = now >= due_at;
        hunting.due_at = Some(due_at).filter(|_| !is_due);
        if is_due {
            hunting.is_out = true;
            actions.push(PilotAction::Hunt);
        }
    }

    /// Others were asked for tasks, and so many are on their way.
    pub(super) fn hunted(&mut self, now: Time, n_tasks: u64) {
        self.hunting.is_out = false;
        if n_tasks > 0 {
            self.hunting.hunt.succeeded();
            self.hunting.not_before = now + ON_THEIR_WAY;
        } else {
            self.hunting.hunt.failed();
        }
    }

    /// How many tasks another pilot could take here, or somewhat more; 0 only if none.
    pub fn n_to_take(&self) -> u64 {
        if !self.hunting.law().steals() || self.leaving.is_some() {
            return 0;
        }
        self.jobs
            .iter()
            .map(|(job, queue)| self.n_to_take_of(queue) + self.staged_to_take(*job).len() as u64)
            .sum()
    }

    /// Tasks that another pilot may take although their files are here or on their way, in their order: where no core
    /// is free they wait, and with them all that comes after them in a graph.
    fn staged_to_take(&self, job: JobId) -> Vec<u64> {
        let is_full = self.free.cores == 0 && !self.staged.is_empty();
        let Some(queue) = self.jobs.get(&job).filter(|_| is_full) else { return Vec::new() };
        let may_go =
            |n_waiting: usize, place: Place| !place.is_own || self.may_leave(queue, n_waiting, place.bytes);
        let waiting = (1..).zip(self.staged_of(job)).skip(self.n_margin(queue) as usize);
        let to_take = waiting.filter(|(n, next)| next.place.is_some_and(|place| may_go(*n, place)));
        to_take.map(|(_, next)| next.index).collect()
    }

    fn n_to_take_of(&self, queue: &JobQueue) -> u64 {
        let n_queued = queue.queued.len().saturating_sub(self.n_margin(queue));
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

    /// Gives a pilot half of what it may take, one of one: those that it costs least.
    pub(super) fn asked_for(&mut self, thief: PilotId, actions: &mut Vec<PilotAction>) {
        let n_all = self.n_to_take();
        let mut n_left = n_all.div_ceil(2);
        let jobs: Vec<JobId> = self.order.iter().rev().copied().collect();
        // Those first whose turn comes last.
        for job in jobs.into_iter().filter(|_| n_all > 0) {
            let Some(queue) = self.jobs.get(&job) else { continue };
            let n = self.n_to_take_of(queue).min(n_left);
            let mut tasks = if queue.needs.staging.inputs { self.half_of(job, n) } else { last_of(queue, n) };
            let n_more = usize::try_from(n_left - tasks.len()).unwrap_or(usize::MAX);
            self.staged_to_take(job).into_iter().rev().take(n_more).for_each(|index| _ = tasks.insert(index));
            n_left -= tasks.len();
            self.give(thief, job, &tasks, actions);
            self.forget_if_idle(job, actions);
        }
        actions.push(PilotAction::Gave { thief, n_tasks: n_all.div_ceil(2) - n_left });
    }

    /// Tasks of those whose files are known, so many at most; they are queued by nothing else any more.
    fn half_of(&mut self, job: JobId, n_most: u64) -> TaskSet {
        let mut taken = TaskSet::new();
        let Some(mut ready) = self.jobs.get_mut(&job).map(|queue| std::mem::take(&mut queue.ready)) else {
            return taken;
        };
        let Some(queue) = self.jobs.get(&job) else { return taken };
        let half = ready.give_half(|n, bytes| self.may_leave(queue, n, bytes));
        for (bytes, index) in half {
            match taken.len() < n_most && queue.queued.contains(index) {
                true => _ = taken.insert(index),
                false => ready.share(bytes, index),
            }
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
