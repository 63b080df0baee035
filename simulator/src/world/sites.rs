//! Batch systems: they queue, start, list and cancel batch jobs; they refuse, stay silent, answer twice or
//! late.

use std::collections::{BTreeSet, VecDeque};

use scheduler::{
    engine::interface::{Event, ListedAllocation, SubmitOutcome},
    ids::{AllocationId, PlatformId},
    time::{Span, Time},
};

use super::{Happening, Held, SLOW_MAX, World, nodes::Node, plan::SitePlan};
use crate::auditor::Violation;

/// The longest time that a platform worker waits for an answer.
const TIME_LIMIT: Span = Span(60_000_000);
/// The longest time that a submission goes on without the manager that had just begun it: less than managers
/// allow for.
const GOES_ON_MAX: Span = Span(50_000_000);

/// The longest time from the start of a batch job's agent on its first node to that on another.
const LAUNCH: Span = Span(30_000_000);

/// A request of a platform worker to a site.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Submit { allocation: AllocationId, tag: String, walltime: Option<Span> },
    Cancel { batch_ids: Vec<String> },
    List { asked_at: Time },
}

/// A platform worker of the manager.
#[derive(Debug, Default)]
pub(super) struct Worker {
    is_busy: bool,
    waiting: VecDeque<(PlatformId, Wish)>,
}

impl Worker {
    /// Returns the next request; of several listings only the last one, which answers all.
    fn next(&mut self) -> Option<(PlatformId, Wish)> {
        while let Some((platform, wish)) = self.waiting.pop_front() {
            let is_list = |wish: &Wish| matches!(wish, Wish::List { .. });
            if !is_list(&wish) || !self.waiting.iter().any(|(_, other)| is_list(other)) {
                return Some((platform, wish));
            }
        }
        None
    }

    /// Removes the waiting submissions of these allocations on a platform.
    fn take_back(&mut self, of: PlatformId, unwanted: &[AllocationId]) -> Vec<AllocationId> {
        let mut taken = Vec::new();
        self.waiting.retain(|(platform, wish)| match wish {
            Wish::Submit { allocation, .. } if *platform == of && unwanted.contains(allocation) => {
                taken.push(*allocation);
                false
            }
            _ => true,
        });
        taken
    }
}

#[derive(Debug)]
pub(super) struct Site {
    pub(super) plan: SitePlan,
    jobs: Vec<BatchJob>,
    /// Batch jobs that have not ended, by position.
    live: BTreeSet<usize>,
}

#[derive(Debug)]
struct BatchJob {
    tag: String,
    accepted_at: Time,
    /// The nodes on which it runs; empty: it waits.
    nodes: Vec<usize>,
    started_at: Option<Time>,
    ended_at: Option<Time>,
    /// The requested walltime.
    walltime: Option<Span>,
    /// The period in which no listing shows it.
    hidden: Option<(Time, Time)>,
}

impl BatchJob {
    /// Returns whether it was ever missing in listings: the manager cannot know then that it counts toward
    /// limits.
    fn was_hidden(&self, now: Time) -> bool {
        self.hidden.is_some_and(|(from, _)| from <= now)
    }

    fn is_hidden(&self, now: Time) -> bool {
        self.was_hidden(now) && self.hidden.is_some_and(|(_, until)| now < until)
    }
}

impl Site {
    pub(super) fn new(plan: SitePlan) -> Site {
        Site { plan, jobs: Vec::new(), live: BTreeSet::new() }
    }

    pub(super) fn n_live(&self) -> usize {
        self.live.len()
    }

    pub(super) fn nodes_of(&self, job: usize) -> &[usize] {
        &self.jobs[job].nodes
    }

    /// Returns the core time of our batch jobs, each with its tag: the least that the manager can see for
    /// ended ones, the most for others. `late`: the longest delay of a message to the manager.
    fn core_times(&self, late: Span, now: Time) -> impl Iterator<Item = (&str, Span)> {
        let spec = &self.plan.spec;
        let walltime = |job: &BatchJob| job.walltime.unwrap_or(Span(u64::MAX));
        let lasts = move |job: &BatchJob| match (job.started_at, job.ended_at) {
            (_, None) => walltime(job),
            (None, Some(_)) => Span::ZERO,
            // The rest of the walltime tells when it began, except for the delay of that message.
            (Some(began), Some(ended)) => {
                Span(ended.since(began).min(walltime(job)).0.saturating_sub(late.0))
            }
        };
        let cores = u64::from(spec.capacity.cores) * u64::from(spec.n_nodes);
        let seen = self.jobs.iter().filter(move |job| !job.was_hidden(now));
        seen.map(move |job| (job.tag.as_str(), lasts(job).times(cores)))
    }

    fn n_queued(&self) -> usize {
        self.live.iter().filter(|job| self.jobs[**job].nodes.is_empty()).count()
    }
}

/// Returns the number of nodes of a batch job that have not ended: tasks of an array end separately.
fn n_nodes_there(nodes: &[Node], site: &Site, job: usize) -> usize {
    let (spec, ours) = (&site.plan.spec, site.nodes_of(job));
    match spec.is_array && !ours.is_empty() {
        true => ours.iter().filter(|node| !nodes[**node].is_over()).count(),
        false => spec.n_nodes as usize,
    }
}

impl World<'_> {
    pub(super) fn site_asked(&mut self, platform: PlatformId, wish: Wish, epoch: u64) -> Held {
        // A worker that died may have sent its request before, or not.
        if epoch != self.manager.epoch && self.luck.one_in(2) {
            return Ok(());
        }
        let site = platform.0 as usize - 1;
        let has_died = epoch != self.manager.epoch || self.manager.engine.is_none();
        if let Wish::Submit { tag, walltime, .. } = &wish
            && has_died
            && self.sites[site].plan.spec.submits_late
        {
            let span = Span(self.luck.below(GOES_ON_MAX.0));
            self.after(span, Happening::SubmissionGoesOn { site, asked: (tag.clone(), *walltime) });
            return Ok(());
        }
        if has_died || !self.plan.is_asked_in_turn {
            return self.carry_out((site, platform), wish, epoch).map(drop);
        }
        self.manager.workers.entry(site).or_default().waiting.push_back((platform, wish));
        self.works_on(site, epoch)
    }

    /// Withdraws waiting submissions.
    pub(super) fn withdrawn(&mut self, platform: PlatformId, allocations: &[AllocationId]) {
        let epoch = Some(self.manager.epoch);
        let worker = self.manager.workers.get_mut(&(platform.0 as usize - 1));
        for allocation in worker.map_or_else(Vec::new, |worker| worker.take_back(platform, allocations)) {
            let outcome = SubmitOutcome::Withdrawn;
            let event = Box::new(Event::AllocationAnswered { allocation, outcome });
            self.after(Span::ZERO, Happening::Arrives { event, epoch });
        }
    }

    /// Lets a worker begin with its next request, unless it waits for an answer.
    fn works_on(&mut self, site: usize, epoch: u64) -> Held {
        let Some(worker) = self.manager.workers.get_mut(&site).filter(|worker| !worker.is_busy) else {
            return Ok(());
        };
        let Some((platform, mut wish)) = worker.next() else { return Ok(()) };
        worker.is_busy = true;
        if let Wish::List { asked_at } = &mut wish {
            *asked_at = self.now;
        }
        let span = self.carry_out((site, platform), wish, epoch)?;
        self.after(span, Happening::WorkerIsFree { site, epoch });
        Ok(())
    }

    pub(super) fn worker_is_free(&mut self, site: usize, epoch: u64) -> Held {
        if epoch != self.manager.epoch {
            return Ok(());
        }
        self.manager.workers.entry(site).or_default().is_busy = false;
        self.works_on(site, epoch)
    }

    /// Carries out a request; returns the time until the answer comes.
    fn carry_out(
        &mut self,
        (site, platform): (usize, PlatformId),
        wish: Wish,
        epoch: u64,
    ) -> Result<Span, Violation> {
        let is_slow = self.goes_wrong(self.plan.rates.site_slow);
        let span = Span(if is_slow { self.luck.below(TIME_LIMIT.0) } else { self.luck.below(100_000) });
        match wish {
            Wish::Submit { allocation, tag, walltime } => {
                self.submitted(site, (allocation, (tag, walltime)), span, epoch)
            }
            Wish::Cancel { batch_ids } => {
                self.cancelled(site, &batch_ids, span);
                Ok(span)
            }
            Wish::List { asked_at } => {
                let result = self.listing(site);
                let event = Box::new(Event::PlatformListed { platform, asked_at, result });
                self.after(span, Happening::Arrives { event, epoch: Some(epoch) });
                Ok(span)
            }
        }
    }

    fn submitted(
        &mut self,
        site: usize,
        (allocation, asked): (AllocationId, (String, Option<Span>)),
        span: Span,
        epoch: u64,
    ) -> Result<Span, Violation> {
        let rates = self.plan.rates.clone();
        let is_refused = self.goes_wrong(rates.submit_refused);
        let is_unclear = self.goes_wrong(rates.submit_unknown);
        let is_lost = is_unclear && self.luck.one_in(2);
        let is_there = !(is_refused || is_lost);
        self.site_is_asked(site)?;
        let batch_id = if is_there { self.accept(site, asked)? } else { String::new() };
        let (outcome, span) = match (is_refused, is_unclear) {
            (true, _) => (SubmitOutcome::Refused("the queue is closed".into()), span),
            (_, true) => (SubmitOutcome::Unknown("no answer that makes sense".into()), TIME_LIMIT),
            _ => (SubmitOutcome::Accepted(batch_id), span),
        };
        let answer = Event::AllocationAnswered { allocation, outcome };
        if self.goes_wrong(rates.submit_answered_twice) {
            let span = span + Span(self.luck.below(10_000_000));
            self.after(span, Happening::Arrives { event: Box::new(answer.clone()), epoch: Some(epoch) });
        }
        self.after(span, Happening::Arrives { event: Box::new(answer), epoch: Some(epoch) });
        Ok(span)
    }

    /// Checks a request against the limits, by the site's own clock.
    fn site_is_asked(&mut self, site: usize) -> Held {
        let (spec, now) = (&self.sites[site].plan.spec, self.now);
        self.auditor.as_mut().map_or(Ok(()), |auditor| auditor.site_is_asked(spec, now))
    }

    /// Accepts the submission of a manager that is gone.
    pub(super) fn submission_goes_on(&mut self, site: usize, asked: (String, Option<Span>)) -> Held {
        self.site_is_asked(site)?;
        self.accept(site, asked).map(drop)
    }

    fn accept(&mut self, site: usize, (tag, walltime): (String, Option<Span>)) -> Result<String, Violation> {
        let wait = self.queue_wait(site);
        let stalls = self.plan.manager_stalls.iter().map(|(_, span)| *span);
        let late = SLOW_MAX + stalls.max().unwrap_or_default();
        let held = &mut self.sites[site];
        let job = held.jobs.len();
        let (accepted_at, nodes) = (self.now, Vec::new());
        let (started_at, ended_at, hidden) = (None, None, None);
        held.jobs.push(BatchJob { tag, accepted_at, nodes, started_at, ended_at, walltime, hidden });
        held.live.insert(job);
        if let Some(auditor) = &mut self.auditor {
            let seen = held.live.iter().filter(|job| !held.jobs[**job].was_hidden(self.now));
            let n_nodes = seen.map(|job| n_nodes_there(&self.nodes, held, *job)).sum();
            auditor.site_holds(&held.plan.spec, n_nodes, held.n_queued())?;
            auditor.may_take(&held.plan.spec, held.core_times(late, self.now))?;
        }
        self.after(wait, Happening::BatchJobStarts { site, job });
        Ok(format!("{site}.{job}"))
    }

    /// Returns the queue wait of a new batch job.
    fn queue_wait(&mut self, site: usize) -> Span {
        let job = self.sites[site].jobs.len() as u64;
        match &self.scene {
            Some(scene) => scene.model.queue_wait(site, job),
            None => Span(self.luck.below(self.plan.sites[site].queue_wait_max.0)),
        }
    }

    fn cancelled(&mut self, site: usize, batch_ids: &[String], span: Span) {
        if self.goes_wrong(self.plan.rates.cancel_lost) {
            return;
        }
        let number = |id: &String| id.split_once('.').and_then(|(_, number)| number.parse::<usize>().ok());
        // In their own order, each once.
        let jobs: BTreeSet<usize> = batch_ids.iter().filter_map(number).collect();
        for job in jobs {
            self.after(span, Happening::BatchJobEnds { site, job, why: "cancelled" });
        }
    }

    /// Lists all our batch jobs that the site knows, or knew a while ago. Just accepted ones may be missing
    /// for a poll interval, ended ones may be remembered; not in a scenario, where listings would grow for
    /// ever.
    fn listing(&mut self, site: usize) -> Result<Vec<ListedAllocation>, String> {
        if self.goes_wrong(self.plan.rates.list_fails) {
            return Err("slurm_load_jobs error: Unable to contact slurm controller".into());
        }
        let (now, is_faulty) = (self.now, self.is_faulty());
        let mut luck = self.luck.clone();
        self.luck.draw();
        let (lag, late) = (self.sites[site].plan.spec.poll_interval, self.sites[site].plan.lists_late);
        let is_cached = is_faulty && late > Span::ZERO;
        let seen_at = if is_cached { Time(now.0.saturating_sub(late.0)) } else { now };
        let is_past = |at: Option<Time>| at.is_some_and(|at| at <= seen_at);
        let is_shown = |job: &BatchJob, luck: &mut scheduler::rng::Rng| match is_past(job.ended_at) {
            true => luck.one_in(4),
            false if is_cached => job.accepted_at <= seen_at,
            false => {
                !job.nodes.is_empty() || !is_faulty || now.since(job.accepted_at) >= lag || luck.one_in(3)
            }
        };
        let held = &self.sites[site];
        let stands_still = |node: &usize| self.nodes[*node].stands_still(now);
        let entry = |n: usize| {
            let job = &held.jobs[n];
            let has_begun = is_past(job.started_at);
            let is_suspended = self.plan.tells_suspended && has_begun && job.nodes.iter().any(stands_still);
            let n_nodes = match has_begun && job.ended_at.is_none() {
                true => n_nodes_there(&self.nodes, held, n) as u32,
                false => held.plan.spec.n_nodes,
            };
            let listed = || ListedAllocation {
                tag: job.tag.clone(),
                batch_id: format!("{site}.{n}"),
                is_running: self.plan.tells_suspended && has_begun && !is_suspended,
                is_suspended,
                trouble: None,
                lacks_room: false,
                reason: None,
                is_ended: is_past(job.ended_at),
                n_nodes: held.plan.spec.is_array.then_some(n_nodes),
            };
            (is_shown(job, &mut luck) && !(is_faulty && job.is_hidden(now))).then(listed)
        };
        let mut listed: Vec<ListedAllocation> = match self.scene {
            Some(_) => held.live.iter().copied().filter_map(entry).collect(),
            None => (0..held.jobs.len()).filter_map(entry).collect(),
        };
        self.note_unlisted(site);
        if self.goes_wrong(self.plan.rates.list_confused) {
            self.confuse(&mut listed);
        }
        Ok(listed)
    }

    /// Notes that pilots whose batch jobs are not listed may be declared lost.
    fn note_unlisted(&mut self, site: usize) {
        let (now, held) = (self.now, &self.sites[site]);
        let Some(auditor) = self.auditor.as_mut().filter(|_| now < self.faults_end) else { return };
        for job in held.live.iter().map(|job| &held.jobs[*job]).filter(|job| job.is_hidden(now)) {
            job.nodes.iter().for_each(|node| auditor.is_unlisted(self.nodes[*node].place()));
        }
    }

    /// Confuses a listing: names some batch jobs twice, some that do not exist, and some as if they had not
    /// ended, or ran.
    fn confuse(&mut self, listed: &mut Vec<ListedAllocation>) {
        for n in 0..listed.len() {
            let entry = &mut listed[n];
            entry.is_ended &= !self.luck.one_in(3);
            entry.is_running = self.luck.one_in(3);
            if self.luck.one_in(3) {
                let copy = entry.clone();
                listed.push(copy);
            }
        }
        let (tag, batch_id) = (format!("nobodys-{}", self.luck.below(100)), "nonsense".to_owned());
        let nobodys = ListedAllocation { tag, batch_id, ..ListedAllocation::default() };
        listed.push(nobodys);
    }

    pub(super) fn batch_job_starts(&mut self, site: usize, job: usize) {
        let held = &mut self.sites[site];
        if held.jobs[job].ended_at.is_some() {
            return;
        }
        let tag = held.jobs[job].tag.clone();
        let (walltime, is_array) = (held.jobs[job].walltime, held.plan.spec.is_array);
        held.jobs[job].started_at = Some(self.now);
        if self.plan.hides > 0 && self.goes_wrong(self.plan.hides) {
            let from = self.now + Span(self.luck.below(60_000_000));
            let until = from + Span::from_secs(self.luck.pick(&[5, 60, 600]));
            self.sites[site].jobs[job].hidden = Some((from, until));
        }
        let held = &mut self.sites[site];
        let (first, n_nodes) = (self.nodes.len(), held.plan.spec.n_nodes as usize);
        held.jobs[job].nodes = (first..first + n_nodes).collect();
        let capacity = held.plan.spec.capacity.clone();
        let late_max = if is_array { held.plan.queue_wait_max } else { LAUNCH };
        let walltime_end = walltime.map(|walltime| self.now + walltime);
        let waited = self.now.since(held.jobs[job].accepted_at);
        if let Some(scene) = &mut self.scene {
            scene.ledger.batch_job_started(site, waited, self.now);
        }
        for node in first..first + n_nodes {
            self.add_node((site, job), tag.clone(), capacity.clone(), walltime_end);
            let span = if node == first { Span::ZERO } else { Span(self.luck.below(late_max.0)) };
            self.after(span, Happening::AgentStarts { node });
            // It may be taken away while it waits.
            if is_array && node > first && self.is_faulty() && self.luck.one_in(8) {
                let span = Span(self.luck.below(span.0));
                self.after(span, Happening::ArrayTaskEnds { node, why: "taken away" });
            }
            if let Some(walltime) = walltime.filter(|_| is_array) {
                self.nodes[node].walltime_end = Some(self.now + span + walltime);
                self.after(span + walltime, Happening::ArrayTaskEnds { node, why: "walltime" });
            }
        }
        if let Some(walltime) = walltime.filter(|_| !is_array) {
            self.after(walltime, Happening::BatchJobEnds { site, job, why: "walltime" });
        }
    }

    pub(super) fn batch_job_ends(&mut self, site: usize, job: usize, why: &'static str) -> Held {
        let held = &mut self.sites[site];
        if !held.live.remove(&job) {
            return Ok(());
        }
        held.jobs[job].ended_at = Some(self.now);
        let nodes = held.jobs[job].nodes.clone();
        if let Some(scene) = self.scene.as_mut().filter(|_| !nodes.is_empty()) {
            scene.ledger.batch_job_ended(site, self.now);
        }
        nodes.into_iter().try_for_each(|node| self.node_ends(node, why))
    }
}
