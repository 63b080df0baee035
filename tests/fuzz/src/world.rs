//! A manager's engine in the middle of its life: a platform, two pilots, a job half done. What it
//! records is kept, what it asks of the platform is granted.

use protocol::job::{CommandLine, Extract, JobSpec};
use scheduler::{
    engine::{
        Engine,
        interface::{
            Answer, Effect, Event, JobRequest, PlatformLimits, PlatformSpec, RequestId, SubmitOutcome,
            settings::Settings,
        },
        record::Record,
        state::durable::Durable,
    },
    ids::{JobId, PilotId},
    pull::{NodeFacts, Pull, Registration, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    results::{Failure, FailureKind, JobReport, Report, Successes, TaskOutput, Usage},
    time::{Span, Time},
};

/// Tasks of the job: too many to be counted one by one.
pub(crate) const N_TASKS: u64 = 1_000_000_000_000;
/// Whose it is.
pub(crate) const USER: &str = "ann";

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) records: Vec<Record>,
    /// Of allocations, as they are asked for.
    pub(crate) tags: Vec<String>,
    pub(crate) now: Time,
    epoch: u64,
    n_requests: u64,
}

/// The job that the world begins with.
pub(crate) fn spec() -> JobSpec {
    let command = ["awk", "BEGIN { print {x:.3f}, \"energy {x}\" }", "{index}", "--seed={x}"];
    let args = CommandLine::Args(command.map(str::to_owned).to_vec());
    let sweep = serde_json::json!({
        "dimensions": [
            {"columns": [{"name": "x", "values": {"integers": [{"from": 1, "step": 1, "n": N_TASKS / 2}]}}]},
            {"columns": [
                {"name": "y", "values": {"texts": ["a b", "c.txt"]}},
                {"name": "z", "values": {"linspace": {"from": 0.5, "to": 2.5, "n": 2}}},
            ]},
        ],
        "sample": null,
    });
    let mut spec = JobSpec::new(args, "/data".into());
    spec.sweep = serde_json::from_value(sweep).expect("a sweep");
    spec.results.extract = vec![Extract { name: "energy".into(), pattern: "energy ([0-9.]+)".into() }];
    spec
}

fn job() -> JobRequest {
    JobRequest {
        user: USER.into(),
        name: "sweep".into(),
        application: "shell".into(),
        n_tasks: N_TASKS,
        needs: TaskNeeds {
            resources: Resources::cores(1),
            time_limit: None,
            success_codes: vec![0],
            ..TaskNeeds::default()
        },
        priority: 0,
        priority_over_all: false,
        retries: 1,
        retry_delay: Span::from_secs(5),
        crash_limit: 2,
        max_failures: Some(50),
        submission_key: Some("ann\nkey".into()),
        estimates: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: serde_json::to_string(&spec()).expect("JSON").into(),
    }
}

fn platform() -> PlatformSpec {
    PlatformSpec {
        name: "cluster".into(),
        adapter: "local".into(),
        site: None,
        capacity: Resources::cores(4),
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: 2,
        n_pilots_max: 4,
        idle_timeout: Span::from_secs(60),
        walltime: None,
        poll_interval: Span::from_secs(10),
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    }
}

pub(crate) fn registration(tag: &str, nonce: u64) -> Registration {
    let node = NodeFacts {
        hostname: "node7".into(),
        capacity: Resources::cores(4),
        walltime_left: Some(Span::from_secs(3600)),
        ..NodeFacts::default()
    };
    Registration { tag: tag.into(), nonce, node, uptime: Span::from_millis(20), predecessor: None }
}

/// A report of successes, a failure, tasks given back, and output.
pub(crate) fn report(seq: u64, from: u64) -> Report {
    let usage = Usage { started_us: 1000, wall_us: 2_000_000, cpu_us: 1_900_000, memory_bytes: 3 << 20 };
    let kind = FailureKind::Exit { code: 3 };
    let job = JobReport {
        job: JobId(1),
        successes: Successes::from_attempts(vec![(from, 0, usage), (from + 1, 0, usage)]),
        failures: vec![Failure { index: from + 2, kind, usage }],
        returned: TaskSet::from(from + 3..from + 4),
        outputs: vec![TaskOutput { index: from, stdout: b"energy 7.5\n".to_vec(), stderr: b"slow".to_vec() }],
        files: Vec::new(),
        given: vec![(PilotId(2), TaskSet::from(from + 4..from + 5))],
    };
    Report { seq, jobs: vec![job] }
}

pub(crate) fn pull() -> Pull {
    Pull { epoch: 1, part_seen: 1, is_hungry: true, ..Pull::default() }
}

impl World {
    /// An engine that knows nothing.
    fn empty() -> World {
        let now = Time(1_000_000_000);
        let engine = Engine::restore(Settings::default(), 1, now, []);
        World { engine, records: Vec::new(), tags: Vec::new(), now, epoch: 1, n_requests: 0 }
    }

    /// Job 1 and pilots 1 and 2, who hold some of its tasks and have reported some.
    pub(crate) fn new() -> World {
        let mut world = World::empty();
        world.say(|request| Event::PlatformAttached { request, spec: platform() });
        world.say(|request| Event::JobSubmitted { request, job: Box::new(job()) });
        for n in 0..2 {
            let registration = Box::new(registration(&world.tags[n].clone(), n as u64));
            world.say(|request| Event::PilotRegistered { request, registration });
            let pilot = PilotId(n as u64 + 1);
            let first = Box::new(Pull { epoch: 0, part_seen: 0, ..pull() });
            world.say(|request| Event::Pulled { request, pilot, pull: first });
            let report = Some(report(1, 4 * n as u64));
            let second = Box::new(Pull { report, ..pull() });
            world.say(|request| Event::Pulled { request, pilot, pull: second });
        }
        world
    }

    /// As a store says that it was left.
    pub(crate) fn restored(records: Vec<Record>) -> World {
        let mut world = World { records, ..World::empty() };
        world.restart();
        world
    }

    /// Tells the engine something; its rules must hold afterwards.
    pub(crate) fn say(&mut self, event: impl FnOnce(RequestId) -> Event) -> Option<Answer> {
        self.n_requests += 1;
        let request = RequestId(self.n_requests);
        let mut events = vec![event(request)];
        let mut found = None;
        while let Some(event) = events.pop() {
            let step = self.engine.handle(self.now, event);
            self.engine.check_invariants();
            self.records.extend(step.records);
            for effect in step.effects {
                match effect {
                    Effect::Submit { allocation, tag, .. } => {
                        let outcome = SubmitOutcome::Accepted(format!("batch-{allocation}"));
                        events.push(Event::AllocationAnswered { allocation, outcome });
                        self.tags.push(tag);
                    }
                    Effect::Answer { request: answered, answer } if answered == request => {
                        found = Some(answer)
                    }
                    Effect::Plan(question) => {
                        events.push(Event::Planned { plan: question.answer() });
                    }
                    Effect::Answer { .. }
                    | Effect::Notify(_)
                    | Effect::Withdraw { .. }
                    | Effect::Cancel { .. }
                    | Effect::List { .. }
                    | Effect::Load { .. }
                    | Effect::Scale { .. } => {}
                }
            }
        }
        found
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = self.now + Span::from_secs(seconds);
        self.say(|_| Event::TimerFired);
    }

    /// The manager's process is killed and started again.
    pub(crate) fn restart(&mut self) {
        self.epoch += 1;
        self.engine = Engine::restore(Settings::default(), self.epoch, self.now, self.records.clone());
        self.engine.check_invariants();
    }

    /// What is kept says what is so.
    pub(crate) fn check_records(&self) {
        let mut replayed = Durable::default();
        self.records.iter().for_each(|record| replayed.apply(record));
        assert!(replayed == *self.engine.durable(), "live state is not what its records say");
    }
}
