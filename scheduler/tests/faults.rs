//! The engine and pilots in simulated time with faults drawn from a seed: messages lost, delayed and
//! doubled, pilots killed and stalled, the manager killed between any two events. An auditor that
//! knows only records and what was asked checks that nothing is lost and nothing counted twice.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use scheduler::{
    engine::{
        Engine,
        durable::Durable,
        interface::{
            Answer, Effect, Event, JobRequest, ListedAllocation, PlatformSpec, RequestId, Step, SubmitOutcome,
        },
        record::Record,
        settings::Settings,
    },
    ids::{JobId, PilotId, PlatformId, TaskId},
    pilot::{Ending, Lane, PilotAction, PilotCore, PilotEvent, PilotLimits},
    pull::{NodeFacts, Pull, Registration, TaskNeeds},
    resources::Resources,
    results::{FailureKind, Report, TaskOutput, Usage},
    time::{Span, Time},
};

const N_SEEDS: u64 = 300;
const FAULTS_END: Time = Time(120_000_000);
const THE_END: Time = Time(24 * 3600 * 1_000_000);

/// SplitMix64: small, seeded, good enough to draw faults.
struct Luck(u64);

impl Luck {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct SimPilot {
    core: PilotCore,
    id: Option<PilotId>,
    tag: String,
    born: Time,
    kept: BTreeMap<u64, Report>,
    alive: bool,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    ToEngine(usize),
    ToPilot(usize, usize),
    TaskEnds(usize, TaskId),
    PilotKilled(usize),
    ManagerKilled,
    Wakeup,
}

struct World {
    luck: Luck,
    now: Time,
    queue: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    n_queued: u64,
    engine: Engine,
    epoch: u64,
    records: Vec<Record>,
    events: Vec<Option<Event>>,
    pilot_events: Vec<Option<PilotEvent>>,
    asked: BTreeMap<RequestId, (usize, Option<Lane>)>,
    n_requests: u64,
    pilots: Vec<SimPilot>,
    capacity: Resources,
    alarm: Option<Time>,
}

fn settings() -> Settings {
    // Shorter than the longest delay, so that pilots are given up while they live, and come back.
    Settings { store_id: 7, heartbeat_limit: Span::from_secs(8), ..Settings::default() }
}

fn job(n_tasks: u64, luck: &mut Luck) -> JobRequest {
    JobRequest {
        user: ["ada", "bob"][luck.below(2) as usize].into(),
        name: "sweep".into(),
        application: "sim".into(),
        n_tasks,
        needs: TaskNeeds {
            resources: Resources::cores(1 + luck.below(2) as u32),
            time_limit: None,
            success_codes: vec![0],
        },
        priority: luck.below(3) as i32,
        retries: 2,
        retry_delay: Span::from_millis(luck.below(3000)),
        crash_limit: 50,
        max_failures: None,
        submission_key: None,
        spec: "{}".into(),
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut luck = Luck(seed);
        let cores = 1 + luck.below(4) as u32;
        let mut world = World {
            engine: Engine::restore(settings(), 1, Time(1_000_000), []),
            luck,
            now: Time(1_000_000),
            queue: BinaryHeap::new(),
            n_queued: 0,
            epoch: 1,
            records: Vec::new(),
            events: Vec::new(),
            pilot_events: Vec::new(),
            asked: BTreeMap::new(),
            n_requests: 0,
            pilots: Vec::new(),
            capacity: Resources::cores(cores + 1),
            alarm: None,
        };
        world.attach();
        for _ in 0..1 + world.luck.below(3) {
            let n_tasks = 1 + world.luck.below(300);
            let request = world.request();
            let job = Box::new(job(n_tasks, &mut world.luck));
            world.event_at(Span(0), Event::JobSubmitted { request, job });
        }
        for _ in 0..world.luck.below(6) {
            let at = Span(world.luck.below(FAULTS_END.0));
            world.at(at, Happening::ManagerKilled);
        }
        world
    }

    fn attach(&mut self) {
        let spec = PlatformSpec {
            name: "sim".into(),
            adapter: "sim".into(),
            capacity: self.capacity.clone(),
            n_pilots_min: 0,
            n_pilots_max: 1 + 3,
            idle_timeout: Span::from_secs(20),
            walltime: None,
            poll_interval: Span::from_secs(5),
        };
        let request = self.request();
        self.event_at(Span(0), Event::PlatformAttached { request, spec });
    }

    fn request(&mut self) -> RequestId {
        self.n_requests += 1;
        RequestId(self.n_requests)
    }

    fn at(&mut self, after: Span, happening: Happening) {
        self.n_queued += 1;
        self.queue.push(Reverse((self.now + after, self.n_queued, happening)));
    }

    fn event_at(&mut self, after: Span, event: Event) {
        self.events.push(Some(event));
        self.at(after, Happening::ToEngine(self.events.len() - 1));
    }

    fn pilot_event_at(&mut self, after: Span, pilot: usize, event: PilotEvent) {
        self.pilot_events.push(Some(event));
        self.at(after, Happening::ToPilot(pilot, self.pilot_events.len() - 1));
    }

    fn faults(&self) -> bool {
        self.now < FAULTS_END
    }

    fn delay(&mut self) -> Span {
        let slow = self.faults() && self.luck.one_in(20);
        Span(if slow { self.luck.below(20_000_000) } else { 100 + self.luck.below(5_000) })
    }

    fn run(&mut self) {
        while let Some(Reverse((at, _, happening))) = self.queue.pop() {
            assert!(at < THE_END, "not finished after a simulated day");
            self.now = self.now.max(at);
            match happening {
                Happening::ToEngine(n) => {
                    let Some(event) = self.events[n].take() else { continue };
                    self.handle(event);
                }
                Happening::Wakeup if self.alarm == Some(at) => {
                    self.alarm = None;
                    self.handle(Event::TimerFired);
                }
                Happening::Wakeup => {}
                Happening::ToPilot(pilot, n) => {
                    let Some(event) = self.pilot_events[n].take() else { continue };
                    self.pilot_handles(pilot, event);
                }
                Happening::TaskEnds(pilot, task) => self.task_ends(pilot, task),
                Happening::PilotKilled(pilot) => self.pilots[pilot].alive = false,
                Happening::ManagerKilled => self.restart_manager(),
            }
            if !self.faults() && self.is_over() {
                return;
            }
        }
        assert!(self.is_over(), "nothing left to happen and yet not finished");
    }

    fn is_over(&self) -> bool {
        let jobs = self.engine.durable().jobs();
        !jobs.is_empty() && jobs.values().all(|job| job.ended_at.is_some())
    }

    fn handle(&mut self, event: Event) {
        let Step { records, effects } = self.engine.handle(self.now, event);
        self.engine.check_invariants();
        self.records.extend(records);
        // The manager may die after the commit and before any effect.
        if self.faults() && self.luck.one_in(3000) {
            return self.restart_manager();
        }
        for effect in effects {
            self.perform(effect);
        }
        self.set_alarm();
    }

    fn set_alarm(&mut self) {
        let Some(due) = self.engine.next_wakeup() else { return };
        if self.alarm.is_none_or(|alarm| due < alarm) {
            self.alarm = Some(due);
            self.at(due.since(self.now), Happening::Wakeup);
        }
    }

    fn restart_manager(&mut self) {
        self.epoch += 1;
        let mut replayed = Durable::default();
        for record in &self.records {
            replayed.apply(record);
        }
        assert_eq!(&replayed, self.engine.durable(), "live state is not what its records say");
        self.engine = Engine::restore(settings(), self.epoch, self.now, self.records.clone());
        self.engine.check_invariants();
        // Whoever was waiting for an answer sees a broken connection.
        for (pilot, lane) in std::mem::take(&mut self.asked).into_values() {
            self.failed(pilot, lane);
        }
        self.alarm = None;
        self.attach();
    }

    fn failed(&mut self, pilot: usize, lane: Option<Lane>) {
        let after = Span(500_000 + self.luck.below(2_000_000));
        match lane {
            Some(lane) => self.pilot_event_at(after, pilot, PilotEvent::PullFailed { lane }),
            None => self.register(pilot, after),
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Answer { request, answer } => self.deliver(request, answer),
            Effect::Submit { allocation, tag, .. } => {
                let after = self.delay();
                if self.faults() && self.luck.one_in(5) {
                    let outcome = SubmitOutcome::Refused("queue closed".into());
                    return self.event_at(after, Event::AllocationAnswered { allocation, outcome });
                }
                let pilot = self.pilots.len();
                let limits = PilotLimits {
                    capacity: self.capacity.clone(),
                    walltime_end: None,
                    walltime_margin: Span::ZERO,
                    poll_wait: Span::from_secs(20),
                };
                let core = PilotCore::new(limits);
                let born = self.now;
                self.pilots.push(SimPilot { core, id: None, tag, born, kept: BTreeMap::new(), alive: true });
                let outcome = if self.faults() && self.luck.one_in(4) {
                    SubmitOutcome::Unknown("timed out".into())
                } else {
                    SubmitOutcome::Accepted(format!("batch-{pilot}"))
                };
                self.event_at(after, Event::AllocationAnswered { allocation, outcome });
                let after = self.delay();
                self.register(pilot, after);
                if self.faults() && self.luck.one_in(2) {
                    let after = Span(self.luck.below(60_000_000));
                    self.at(after, Happening::PilotKilled(pilot));
                }
            }
            Effect::Cancel { batch_ids, .. } => {
                for (n, pilot) in self.pilots.iter_mut().enumerate() {
                    pilot.alive &= !batch_ids.contains(&format!("batch-{n}"));
                }
            }
            Effect::List { platform } => self.list(platform),
            Effect::Notify(_) => {}
        }
    }

    fn list(&mut self, platform: PlatformId) {
        let asked_at = self.now;
        let alive = self.pilots.iter().enumerate().filter(|(_, pilot)| pilot.alive);
        let listed = alive.map(|(n, pilot)| ListedAllocation {
            tag: pilot.tag.clone(),
            batch_id: format!("batch-{n}"),
            is_ended: false,
        });
        let result =
            if self.faults() && self.luck.one_in(4) { Err("busy".into()) } else { Ok(listed.collect()) };
        let after = self.delay();
        self.event_at(after, Event::PlatformListed { platform, asked_at, result });
    }

    fn register(&mut self, pilot: usize, after: Span) {
        let request = self.request();
        let tag = self.pilots[pilot].tag.clone();
        let node =
            NodeFacts { hostname: "node".into(), capacity: self.capacity.clone(), ..NodeFacts::default() };
        let registration = Registration { tag, nonce: pilot as u64, node, uptime: Span(1000) };
        self.asked.insert(request, (pilot, None));
        self.event_at(after, Event::PilotRegistered { request, registration: Box::new(registration) });
    }

    /// An answer of the engine on its way to a pilot: may be lost.
    fn deliver(&mut self, request: RequestId, answer: Answer) {
        let Some((pilot, lane)) = self.asked.remove(&request) else { return };
        if self.faults() && self.luck.one_in(15) {
            return self.failed(pilot, lane);
        }
        let after = self.delay();
        match (answer, lane) {
            (Answer::Registered(registered), _) => {
                self.pilots[pilot].id = Some(registered.pilot);
                let acknowledged = registered.acknowledged;
                self.pilot_event_at(after, pilot, PilotEvent::Registered { acknowledged });
            }
            (Answer::Pull(answer), Some(lane)) => {
                self.pilot_event_at(after, pilot, PilotEvent::Answered { lane, answer: Box::new(answer) });
            }
            (Answer::Left | Answer::Refused(_), _) => self.pilots[pilot].alive = false,
            (other, _) => panic!("a pilot got {other:?}"),
        }
    }

    fn pilot_handles(&mut self, pilot: usize, event: PilotEvent) {
        if !self.pilots[pilot].alive {
            return;
        }
        let clock = Time(self.now.since(self.pilots[pilot].born).0);
        for action in self.pilots[pilot].core.handle(clock, event) {
            self.pilot_acts(pilot, action);
        }
    }

    fn pilot_acts(&mut self, pilot: usize, action: PilotAction) {
        match action {
            PilotAction::Start { task, .. } => {
                let after = Span(1_000 + self.luck.below(3_000_000));
                self.at(after, Happening::TaskEnds(pilot, task));
            }
            PilotAction::Kill { task } => {
                let usage = Usage::default();
                let event = PilotEvent::Ended { task, ending: Ending::Killed, usage, output: None };
                self.pilot_event_at(Span(1000), pilot, event);
            }
            PilotAction::Keep(report) => {
                self.pilots[pilot].kept.insert(report.seq, report);
            }
            PilotAction::Drop { acknowledged } => {
                self.pilots[pilot].kept.retain(|seq, _| *seq > acknowledged)
            }
            PilotAction::Pull { lane, pull, report } => self.send_pull(pilot, lane, *pull, report),
            PilotAction::Leave { reason } => {
                let (request, Some(id)) = (self.request(), self.pilots[pilot].id) else { return };
                self.asked.insert(request, (pilot, None));
                let after = self.delay();
                self.event_at(after, Event::PilotLeft { request, pilot: id, report: None, reason });
            }
            PilotAction::Learn(_) | PilotAction::Forget { .. } => {}
        }
    }

    fn send_pull(&mut self, pilot: usize, lane: Lane, mut pull: Pull, report: Option<u64>) {
        pull.report = report.and_then(|seq| self.pilots[pilot].kept.get(&seq).cloned());
        let Some(id) = self.pilots[pilot].id else { return };
        if self.faults() && self.luck.one_in(15) {
            return self.failed(pilot, Some(lane));
        }
        if self.faults() && self.luck.one_in(15) {
            // A copy that arrives later, answered to nobody.
            let (request, after) = (self.request(), Span(self.luck.below(30_000_000)));
            self.event_at(after, Event::Pulled { request, pilot: id, pull: Box::new(pull.clone()) });
        }
        let (request, after) = (self.request(), self.delay());
        self.asked.insert(request, (pilot, Some(lane)));
        self.event_at(after, Event::Pulled { request, pilot: id, pull: Box::new(pull) });
    }

    fn task_ends(&mut self, pilot: usize, task: TaskId) {
        let ending = match self.luck.below(40) {
            0 => Ending::Exited(1),
            1 => Ending::Failed(FailureKind::Node { what: "no fork".into() }),
            _ => Ending::Exited(0),
        };
        let output = Some(TaskOutput { index: task.index, stdout: b"x".to_vec(), stderr: Vec::new() });
        let usage = Usage { started_us: 1, wall_us: 2, cpu_us: 3, memory_bytes: 4 };
        self.pilot_handles(pilot, PilotEvent::Ended { task, ending, usage, output });
    }

    /// What the records say, read without the engine.
    fn audit(&self) {
        let mut n_tasks: BTreeMap<JobId, u64> = BTreeMap::new();
        let mut done: BTreeSet<TaskId> = BTreeSet::new();
        let mut failed: BTreeSet<TaskId> = BTreeSet::new();
        let mut seqs: BTreeMap<PilotId, u64> = BTreeMap::new();
        for record in &self.records {
            match record {
                Record::JobAccepted { job, request, .. } => {
                    n_tasks.insert(*job, request.n_tasks);
                }
                Record::Reported { pilot, seq, results, .. } => {
                    let before = seqs.insert(*pilot, *seq).unwrap_or(0);
                    assert_eq!(*seq, before + 1, "report {seq} of pilot {pilot} after {before}");
                    for result in results {
                        for index in result.successes.tasks.indices() {
                            let task = TaskId { job: result.job, index };
                            assert!(done.insert(task), "task {task} was counted twice");
                            assert!(!failed.contains(&task), "task {task} had failed before");
                        }
                        for failure in &result.failures {
                            let task = TaskId { job: result.job, index: failure.index };
                            assert!(!done.contains(&task), "task {task} failed after it was done");
                            if failure.verdict == scheduler::engine::record::Verdict::Final {
                                assert!(failed.insert(task), "task {task} failed for good twice");
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        for (job, n_tasks) in n_tasks {
            for index in 0..n_tasks {
                let task = TaskId { job, index };
                assert!(done.contains(&task) || failed.contains(&task), "task {task} was lost");
            }
        }
    }
}

#[test]
fn under_any_faults_every_task_ends_exactly_once() {
    for seed in 0..N_SEEDS {
        let outcome = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run();
            world.audit();
            world.restart_manager();
        });
        assert!(outcome.is_ok(), "seed {seed} failed: see above");
    }
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let records = |seed| {
        let mut world = World::new(seed);
        world.run();
        world.records
    };
    assert_eq!(records(11), records(11));
    assert_ne!(records(11), records(12));
}
