//! Tests of the engine, one behaviour per test. All use `Scene`, which checks after each event that the
//! invariants hold and that replayed records give the live state.

mod agreement;
mod alone;
mod attempts;
mod causes;
mod dividing;
mod elsewhere;
mod ends;
mod failing;
mod forsaken;
mod gifts;
mod graphs;
mod hostile;
mod jobs;
mod keeping;
mod limits;
mod limits_of_users;
mod lineups;
mod mapping;
mod nodes;
mod packing;
mod pilots;
mod placing;
mod platform_failures;
mod profiling;
mod replanning;
mod scaling;
mod serving;
mod sharing;
mod short_lives;
mod shortlists;
mod submitting;
mod suspects;
mod suspending;
mod unlisted;

use super::Engine;
use crate::engine::{
    interface::{settings::Settings, *},
    record::{Record, Verdict},
    state::durable::Durable,
};
use crate::{
    explain::Reason,
    ids::{JobId, PilotId, TaskId},
    pull::{MovedBytes, NodeFacts, PilotCommand, Pull, PullAnswer, Registration, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    results::{Failure, FailureKind, JobReport, Report, Successes, TaskOutput, Usage},
    time::{Span, Time},
};

struct Scene {
    engine: Engine,
    now: Time,
    records: Vec<Record>,
    effects: Vec<Effect>,
    n_requests: u64,
    seqs: std::collections::BTreeMap<PilotId, u64>,
}

const SECOND: u64 = 1_000_000;

fn job(n_tasks: u64) -> JobRequest {
    JobRequest {
        user: "ada".into(),
        name: "sweep".into(),
        application: "test".into(),
        n_tasks,
        needs: TaskNeeds {
            resources: Resources::cores(1),
            time_limit: None,
            success_codes: vec![0],
            ..TaskNeeds::default()
        },
        priority: 0,
        priority_over_all: false,
        retries: 0,
        retry_delay: Span::ZERO,
        crash_limit: 2,
        max_failures: None,
        submission_key: None,
        estimates: None,
        after: vec![],
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: "{}".into(),
    }
}

pub(super) fn platform(n_pilots_max: u32, cores: u32) -> PlatformSpec {
    PlatformSpec {
        name: "here".into(),
        adapter: "local".into(),
        site: None,
        capacity: Resources::cores(cores),
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: 0,
        n_pilots_max,
        idle_timeout: Span::from_secs(10),
        walltime: None,
        poll_interval: Span::from_secs(5),
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    }
}

/// Returns the request to remove a job and no other.
fn purge() -> JobChange {
    JobChange::Purge(Default::default())
}

fn ada() -> Caller {
    Caller { user: "ada".into(), is_operator: false }
}

fn set(text: &str) -> TaskSet {
    text.split(',')
        .map(|part| part.split_once('-').unwrap_or((part, part)))
        .flat_map(|(from, to)| from.parse().unwrap_or(0)..=to.parse::<u64>().unwrap_or(0))
        .collect()
}

impl Scene {
    fn new() -> Scene {
        let now = Time(1000 * SECOND);
        let engine = Engine::restore(Settings::default(), 1, now, []);
        Scene { engine, now, records: vec![], effects: vec![], n_requests: 0, seqs: Default::default() }
    }

    fn say(&mut self, event: impl FnOnce(RequestId) -> Event) -> Option<Answer> {
        self.n_requests += 1;
        let request = RequestId(self.n_requests);
        let step = self.engine.handle(self.now, event(request));
        self.engine.check_invariants();
        self.records.extend(step.records);
        self.effects = step.effects;
        let mut replayed = Durable::default();
        self.records.iter().for_each(|record| replayed.apply(record));
        assert_eq!(&replayed, self.engine.durable(), "live state is not what its records say");
        self.answer_to(request)
    }

    fn answer_to(&self, wanted: RequestId) -> Option<Answer> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Answer { request, answer } if *request == wanted => Some(answer.clone()),
            _ => None,
        })
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now + Span::from_secs(seconds);
        self.say(|_| Event::TimerFired);
    }

    /// Lets time pass: every timer fires when it is due.
    fn wait_awake(&mut self, seconds: u64) {
        let end = self.now + Span::from_secs(seconds);
        while let Some(due) = self.engine.next_wakeup().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.say(|_| Event::TimerFired);
        }
        self.now = end;
    }

    fn submit(&mut self, job: JobRequest) -> JobId {
        match self.say(|request| Event::JobSubmitted { request, job: Box::new(job) }) {
            Some(Answer::Submitted { job, .. }) => job,
            other => panic!("submission was answered by {other:?}"),
        }
    }

    fn attach(&mut self, spec: PlatformSpec) {
        self.say(|request| Event::PlatformAttached { request, spec });
    }

    fn submissions(&self) -> Vec<(crate::ids::AllocationId, String)> {
        let submitted = self.effects.iter().filter_map(|effect| match effect {
            Effect::Submit { allocation, tag, .. } => Some((*allocation, tag.clone())),
            _ => None,
        });
        submitted.collect()
    }

    fn register(&mut self, tag: &str, node: NodeFacts) -> PilotId {
        let nonce = u64::from(node.rank) + 1;
        let registration = Box::new(Registration {
            tag: tag.into(),
            nonce,
            node,
            uptime: Span::from_millis(10),
            predecessor: None,
        });
        match self.say(|request| Event::PilotRegistered { request, registration }) {
            Some(Answer::Registered(registered)) => registered.pilot,
            other => panic!("registration was answered by {other:?}"),
        }
    }

    /// Registers a pilot with this many cores on a platform made for it.
    fn pilot(&mut self, cores: u32) -> PilotId {
        self.pilot_on(NodeFacts { capacity: Resources::cores(cores), ..NodeFacts::default() })
    }

    fn pilot_on(&mut self, node: NodeFacts) -> PilotId {
        let n = self.engine.durable().allocations().len() as u32 + 1;
        self.attach(PlatformSpec {
            n_pilots_min: n,
            n_pilots_max: n,
            capacity: node.capacity.clone(),
            ..platform(n, 1)
        });
        let (allocation, tag) = self.submissions().pop().expect("a minimum of pilots is asked for");
        let outcome = SubmitOutcome::Accepted(format!("b{n}"));
        self.say(|_| Event::AllocationAnswered { allocation, outcome });
        self.register(&tag, node)
    }

    fn pull(&mut self, pilot: PilotId, pull: Pull) -> Option<PullAnswer> {
        match self.say(|request| Event::Pulled { request, pilot, pull: Box::new(pull) }) {
            Some(Answer::Pull(answer)) => Some(answer),
            None => None,
            other => panic!("a pull was answered by {other:?}"),
        }
    }

    /// Pulls at once; returns the tasks of each job in the newest part.
    fn take(&mut self, pilot: PilotId) -> Vec<(u64, String)> {
        bundles(&self.pull(pilot, hungry()).unwrap_or_default())
    }

    fn report(&mut self, pilot: PilotId, report: JobReport) -> PullAnswer {
        let seq = self.seqs.entry(pilot).or_default();
        *seq += 1;
        let report = Some(Report { seq: *seq, jobs: vec![report] });
        self.pull(pilot, Pull { report, ..hungry() }).expect("a report is answered at once")
    }

    fn done(&mut self, pilot: PilotId, job: JobId, tasks: &str) -> PullAnswer {
        let usage = Usage { started_us: 1, wall_us: SECOND, cpu_us: 1, memory_bytes: 1 };
        let attempts = set(tasks).indices().map(|index| (index, 0, usage)).collect();
        let successes = Successes::from_attempts(attempts);
        self.report(pilot, JobReport { successes, ..JobReport::new(job) })
    }

    fn fail(&mut self, pilot: PilotId, job: JobId, index: u64, kind: FailureKind) -> PullAnswer {
        let failures = vec![Failure { index, kind, usage: Usage::default() }];
        self.report(pilot, JobReport { failures, ..JobReport::new(job) })
    }

    fn change(&mut self, job: JobId, change: JobChange) -> Option<Answer> {
        self.say(|request| Event::JobChangeAsked { request, caller: ada(), job, change })
    }

    fn counts(&mut self, job: JobId) -> String {
        match self.say(|request| Event::Asked { request, query: Query::Job(job) }) {
            Some(Answer::Job(view)) => {
                let c = view.counts;
                let n_on_pilots = c.queued + c.running;
                format!(
                    "{} w{} p{} d{} f{} c{}",
                    view.state, c.waiting, n_on_pilots, c.done, c.failed, c.cancelled
                )
            }
            other => panic!("{other:?}"),
        }
    }

    fn explain(&mut self, query: Query) -> Vec<Reason> {
        match self.say(|request| Event::Asked { request, query }) {
            Some(Answer::Reasons(reasons)) => reasons,
            other => panic!("{other:?}"),
        }
    }
}

fn hungry() -> Pull {
    Pull { epoch: 1, part_seen: u64::MAX / 2, is_hungry: true, ..Pull::default() }
}

/// Returns a pull that waits until there is something to send.
fn parked() -> Pull {
    Pull { wait: Span::from_secs(20), ..hungry() }
}

fn bundles(answer: &PullAnswer) -> Vec<(u64, String)> {
    let last = answer.parts.last();
    last.map_or_else(Vec::new, |part| part.bundles.iter().map(|b| (b.job.0, b.tasks.to_string())).collect())
}

fn commands(answer: &PullAnswer) -> Vec<PilotCommand> {
    answer.parts.iter().flat_map(|part| part.commands.clone()).collect()
}
