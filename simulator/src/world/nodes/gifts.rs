//! Pilots that others ask for tasks, at any moment: a pilot of the same platform or of another one, one that
//! has left, or one that never existed. Random numbers come from a stream of their own, so that plans without
//! this are unaffected.

use scheduler::{
    engine::interface::Event,
    ids::{JobId, PilotId},
    pilot::{Hunted, PilotEvent, ReadBy},
    policy::stealing::hunt::{victim, whom_to_ask},
    ranges::TaskSet,
    results::Report,
    rng::Rng,
    time::{Span, Time},
};

use super::{
    super::{Asker, Happening, Held, World},
    Process,
};

/// The stream of random numbers for this module.
const STREAM: u64 = 0x9f75;
/// Bytes per second that pilots fetch from each other.
const BYTES_PER_S: u64 = 125_000_000;
/// One of this many reports names a second receiver for given tasks.
const DOUBLES: u64 = 10;
/// In one of this many cases a pilot cannot reach any other, and lets the manager ask.
const CUT_OFF: u64 = 4;

impl World<'_> {
    fn luck_of_gifts(&self, node: usize, n: u64) -> Rng {
        Rng::of(self.seed, &[STREAM, node as u64, self.nodes[node].life, n])
    }

    pub(super) fn is_asked_later(&mut self, node: usize, life: u64, n: u64) {
        if let Some(longest) = self.plan.asks.filter(|_| self.is_faulty()) {
            let span = Span(self.luck_of_gifts(node, 2 * n).below(longest.0));
            self.after(span, Happening::AskedFor { node, life, n });
        }
    }

    pub(in super::super) fn pilot_is_asked(&mut self, node: usize, life: u64, n: u64) -> Held {
        if !self.awake(node, life, || Happening::AskedFor { node, life, n }) {
            return Ok(());
        }
        self.is_asked_later(node, life, n + 1);
        // A process that only delivers reports of an earlier one runs nothing yet.
        if self.nodes[node].process.as_ref().is_none_or(|process| process.is_heir) {
            return Ok(());
        }
        let mut luck = self.luck_of_gifts(node, 2 * n + 1);
        for _ in 0..luck.between(1, 2) {
            let thief = self.any_pilot(&mut luck);
            self.pilot_hears(node, life, PilotEvent::AskedFor { thief })?;
        }
        Ok(())
    }

    /// Returns an existing pilot, most of the time.
    fn any_pilot(&self, luck: &mut Rng) -> PilotId {
        let there = self.nodes.iter().filter(|node| !node.is_over());
        let there: Vec<PilotId> = there.filter_map(|node| node.process.as_ref()?.id).collect();
        match luck.below(5) {
            0 => PilotId(luck.below(40)),
            _ if there.is_empty() => PilotId(1),
            _ => luck.pick(&there),
        }
    }

    /// Lets a faulty pilot give the same tasks twice.
    pub(super) fn with_gifts_doubled(&self, node: usize, mut report: Report) -> Report {
        // Pilots of scenarios make no mistakes unless the scenario says so.
        if self.scene.is_some() {
            return report;
        }
        let mut luck = self.luck_of_gifts(node, u64::MAX - report.seq);
        for job in &mut report.jobs {
            if let Some((_, tasks)) = job.given.first().cloned().filter(|_| luck.one_in(DOUBLES)) {
                job.given.push((self.any_pilot(&mut luck), tasks));
            }
        }
        report
    }

    /// Asks as many pilots of the site as the policy says, and steals half of the tasks of the one with most;
    /// or lets the manager ask.
    pub(super) fn pilot_hunts(&mut self, node: usize, life: u64) -> Held {
        self.gave = 0;
        // The stream differs from that of the attempt itself at this moment.
        let is_cut_off = self.scene.is_none() && self.luck_of_gifts(node, !self.now.0).one_in(CUT_OFF);
        match self.pilot_of(node, life) {
            Some(pilot) if is_cut_off => {
                let hunt = |request| Event::HuntAsked { request, pilot, session_nonce: None };
                self.send(Asker::Nobody, hunt);
            }
            Some(thief) => self.most_laden_is_asked(node, thief)?,
            None => {}
        }
        let hunted = match std::mem::take(&mut self.gave) {
            0 if is_cut_off => Hunted::PassedOn,
            0 => Hunted::InVain,
            _ => Hunted::Promised,
        };
        let event = Box::new(PilotEvent::Hunted(hunted));
        let span = Span(self.luck_of_gifts(node, self.now.0).between(200, 5_000));
        self.after(span, Happening::Heard { node, life, event });
        Ok(())
    }

    fn most_laden_is_asked(&mut self, node: usize, thief: PilotId) -> Held {
        let site = self.nodes[node].batch_job.0;
        let is_of_site = |other: &usize| {
            let held = &self.nodes[*other];
            held.batch_job.0 == site
                && held.process.as_ref().is_some_and(|process| process.id.is_some() && !process.is_heir)
        };
        let pilots: Vec<usize> = (0..self.nodes.len()).filter(is_of_site).collect();
        let here = pilots.iter().position(|other| *other == node);
        let mut luck = self.luck_of_gifts(node, self.now.0);
        let load = |at: usize| {
            let process = self.nodes[pilots[at]].process.as_ref();
            let clock = |process: &Process| Time(self.now.since(process.born).0);
            (at, process.map_or(0, |process| process.core.n_to_take(clock(process)) as usize))
        };
        let asked =
            here.into_iter().flat_map(|here| whom_to_ask(pilots.len(), here, &mut luck).collect::<Vec<_>>());
        let Some(victim) = victim(asked.map(load)).map(|at| pilots[at]) else { return Ok(()) };
        let life = self.nodes[victim].life;
        self.pilot_hears(victim, life, PilotEvent::AskedFor { thief })
    }

    /// Tells the core which pilots have the inputs of tasks: random ones, and for some tasks none are known.
    pub(super) fn pilot_looks(&mut self, node: usize, life: u64, job: JobId, tasks: TaskSet) {
        let mut luck = self.luck_of_gifts(node, self.now.0 ^ job.0);
        let mut read = Vec::new();
        for index in tasks.indices().filter(|index| index % 7 > 0).take(1_000) {
            let file = |luck: &mut Rng| ReadBy {
                at: luck.one_in(2).then(|| self.any_pilot(luck)),
                bytes: luck.pick(&[0, 1_000, 5_000_000, 100_000_000]),
            };
            read.push((index, (0..luck.below(3)).map(|_| file(&mut luck)).collect()));
        }
        let event = Box::new(PilotEvent::Seen { job, tasks, read, bytes_per_s: BYTES_PER_S });
        let span = Span(luck.below(50_000));
        self.after(span, Happening::Heard { node, life, event });
    }
}
