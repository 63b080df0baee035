//! What must hold of the engine, one behaviour a test, all through `Scene`, which checks the
//! invariants and that replayed records give the live state after every event.

use super::{
    Engine,
    durable::Durable,
    interface::*,
    record::{Record, Verdict},
    settings::Settings,
};
use crate::{
    explain::Reason,
    ids::{JobId, PilotId, TaskId},
    pull::{NodeFacts, PilotCommand, Pull, PullAnswer, Registration, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    results::{Failure, FailureKind, JobReport, Report, Successes, Usage},
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
        needs: TaskNeeds { resources: Resources::cores(1), time_limit: None, success_codes: vec![0] },
        priority: 0,
        retries: 0,
        retry_delay: Span::ZERO,
        crash_limit: 2,
        max_failures: None,
        submission_key: None,
        spec: "{}".into(),
    }
}

fn platform(n_pilots_max: u32, cores: u32) -> PlatformSpec {
    PlatformSpec {
        name: "here".into(),
        adapter: "local".into(),
        capacity: Resources::cores(cores),
        n_pilots_min: 0,
        n_pilots_max,
        idle_timeout: Span::from_secs(10),
        walltime: None,
        poll_interval: Span::from_secs(5),
    }
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

    /// As time really passes: every timer fires when it is due.
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
        let registration =
            Box::new(Registration { tag: tag.into(), nonce: 1, node, uptime: Span::from_millis(10) });
        match self.say(|request| Event::PilotRegistered { request, registration }) {
            Some(Answer::Registered(registered)) => registered.pilot,
            other => panic!("registration was answered by {other:?}"),
        }
    }

    /// A pilot with so many cores, by way of a platform of its own demand.
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

    /// Asks at once; gives the tasks of each job in the newest part.
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

fn bundles(answer: &PullAnswer) -> Vec<(u64, String)> {
    let last = answer.parts.last();
    last.map_or_else(Vec::new, |part| part.bundles.iter().map(|b| (b.job.0, b.tasks.to_string())).collect())
}

fn commands(answer: &PullAnswer) -> Vec<PilotCommand> {
    answer.parts.iter().flat_map(|part| part.commands.clone()).collect()
}

#[test]
fn a_job_runs_from_submission_to_its_end() {
    let mut scene = Scene::new();
    let job = scene.submit(job(5));
    let pilot = scene.pilot(2);
    assert_eq!(scene.take(pilot), [(1, "0-1".into())]);
    assert_eq!(bundles(&scene.done(pilot, job, "0-1")), [(1, "2-3".into())]);
    assert_eq!(scene.counts(job), "active w1 p2 d2 f0 c0");
    scene.done(pilot, job, "2-3");
    scene.done(pilot, job, "4");
    assert_eq!(scene.counts(job), "done w0 p0 d5 f0 c0");
}

#[test]
fn a_billion_tasks_cost_as_much_as_one() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1_000_000_000));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.done(pilot, job, "0-1");
    assert_eq!(scene.counts(job), "active w999999996 p2 d2 f0 c0");
    assert_eq!(scene.engine.durable().jobs()[&job].open.n_ranges(), 1);
}

#[test]
fn a_repeated_report_counts_once() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.done(pilot, job, "0");
    *scene.seqs.entry(pilot).or_default() -= 1;
    let answer = scene.done(pilot, job, "0-1");
    assert_eq!(answer.acknowledged, 1);
    assert_eq!(scene.engine.durable().jobs()[&job].n_done(), 1);
}

#[test]
fn a_report_out_of_order_is_not_taken() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.seqs.insert(pilot, 3);
    assert_eq!(scene.done(pilot, job, "0").acknowledged, 0);
    assert_eq!(scene.engine.durable().jobs()[&job].n_done(), 0);
}

#[test]
fn lost_pilot_returns_its_leases() {
    let mut scene = Scene::new();
    let job = scene.submit(job(2));
    let gone = scene.pilot(2);
    scene.take(gone);
    scene.wait_awake(200);
    let here = scene.pilot(2);
    assert!(!scene.engine.durable().pilots()[&gone].is_live());
    assert_eq!(scene.take(here), [(1, "0-1".into())]);
    assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0");
}

#[test]
fn the_first_result_wins_when_a_lost_pilot_comes_back() {
    let mut scene = Scene::new();
    let job = scene.submit(job(1));
    let slow = scene.pilot(1);
    scene.take(slow);
    scene.wait_awake(200);
    let quick = scene.pilot(1);
    assert_eq!(scene.take(quick), [(1, "0".into())]);
    let asked = scene.pull(slow, hungry()).and_then(|answer| answer.resync);
    let holdings =
        crate::pull::Holdings { asked: asked.expect("it is asked"), tasks: vec![], templates: vec![] };
    scene.pull(slow, Pull { holds: Some(holdings), ..hungry() });
    scene.done(slow, job, "0");
    let told = scene.pull(quick, hungry()).unwrap_or_default();
    assert!(commands(&told).contains(&PilotCommand::Kill { job, tasks: set("0") }));
    scene.done(quick, job, "0");
    assert_eq!(scene.counts(job), "done w0 p0 d1 f0 c0");
    assert_eq!(scene.engine.durable().jobs()[&job].totals.n, 1, "the second result is not even kept");
}

#[test]
fn a_stall_of_our_own_is_not_the_pilots_fault() {
    let mut scene = Scene::new();
    scene.submit(job(2));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.wait(3600);
    assert!(scene.engine.durable().pilots()[&pilot].is_live());
}

#[test]
fn only_the_programs_own_failures_use_the_users_retries() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 1, ..job(1) });
    let pilot = scene.pilot(1);
    for kind in [FailureKind::Preempted, FailureKind::Walltime, FailureKind::Node { what: "full".into() }] {
        scene.take(pilot);
        scene.fail(pilot, job, 0, kind);
        scene.wait_awake(5);
    }
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 3 });
    assert!(scene.counts(job).starts_with("active"));
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::TimeLimit { limit: Span::from_secs(1) });
    assert_eq!(scene.counts(job), "failed w0 p0 d0 f1 c0");
    let attempts = scene.engine.durable().jobs()[&job].n_failed_attempts;
    assert_eq!(attempts, 5);
}

#[test]
fn a_retry_waits_twice_as_long_each_time() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 3, retry_delay: Span::from_secs(4), ..job(1) });
    let pilot = scene.pilot(1);
    for wait in [4, 8, 16] {
        assert_eq!(scene.take(pilot), [(1, "0".into())]);
        scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
        scene.wait_awake(wait - 1);
        assert_eq!(scene.take(pilot), [], "it came back before {wait} s");
        let left = Reason::JobBacksOff { n_tasks: 1, left: Span::from_secs(1) };
        assert_eq!(scene.explain(Query::ExplainJob(job))[0], left);
        scene.wait_awake(1);
    }
    let answer = scene.pull(pilot, hungry()).unwrap_or_default();
    assert_eq!(bundles(&answer), [(1, "0".into())]);
    let mut tried = answer.parts.iter().flat_map(|part| &part.bundles).map(|bundle| bundle.tried.clone());
    assert_eq!(tried.next_back(), Some(vec![(0, 4)]), "the pilot is told that it is the fourth attempt");
}

#[test]
fn a_task_that_takes_pilots_down_is_quarantined_at_the_crash_limit() {
    let mut scene = Scene::new();
    let job = scene.submit(job(3));
    for _ in 0..2 {
        let pilot = scene.pilot(1);
        assert_eq!(scene.take(pilot), [(1, "0".into())]);
        scene.pull(pilot, Pull { running: vec![(job, set("0"))], ..hungry() });
        scene.wait_awake(200);
    }
    assert_eq!(scene.counts(job), "active w2 p0 d0 f1 c0");
    let reasons = scene.explain(Query::ExplainTask(TaskId { job, index: 0 }));
    assert_eq!(reasons, [Reason::TaskFailed { kind: FailureKind::PilotLost, n_attempts: 2 }]);
}

#[test]
fn tasks_that_had_not_begun_are_not_blamed_for_a_lost_pilot() {
    let mut scene = Scene::new();
    let job = scene.submit(job(3));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.pull(pilot, Pull { running: vec![(job, set("1"))], ..hungry() });
    scene.wait_awake(200);
    let troubled: Vec<u64> = scene.engine.durable().jobs()[&job].troubled.keys().copied().collect();
    assert_eq!(troubled, [1]);
}

#[test]
fn cancel_kills_what_runs_and_ignores_what_still_comes() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    assert_eq!(scene.change(job, JobChange::Cancel(None)), Some(Answer::Changed { n_tasks: 4 }));
    let told = commands(&scene.pull(pilot, hungry()).unwrap_or_default());
    assert!(told.contains(&PilotCommand::Kill { job, tasks: set("0-1") }), "{told:?}");
    scene.done(pilot, job, "0");
    assert_eq!(scene.counts(job), "cancelled w0 p0 d0 f0 c4");
}

#[test]
fn single_tasks_can_be_cancelled_and_tried_again() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    scene.change(job, JobChange::Cancel(Some(set("1-2"))));
    assert_eq!(scene.counts(job), "active w2 p0 d0 f0 c2");
    assert_eq!(scene.change(job, JobChange::Retry(Some(set("0-3")))), Some(Answer::Changed { n_tasks: 2 }));
    assert_eq!(scene.counts(job), "active w4 p0 d0 f0 c0");
}

#[test]
fn a_paused_job_gives_nothing_out_until_it_is_resumed() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    scene.change(job, JobChange::Pause);
    let told = scene.pull(pilot, hungry()).unwrap_or_default();
    assert_eq!(commands(&told), [PilotCommand::Return { job, tasks: set("0") }]);
    assert_eq!(bundles(&scene.done(pilot, job, "0")), []);
    scene.change(job, JobChange::Resume);
    assert_eq!(scene.take(pilot), [(1, "1".into())]);
}

#[test]
fn another_users_job_is_not_yours_to_change() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let caller = Caller { user: "bob".into(), is_operator: false };
    let answer =
        scene.say(|request| Event::JobChangeAsked { request, caller, job, change: JobChange::Pause });
    assert!(matches!(answer, Some(Answer::Refused(Refusal::NotYours { .. }))), "{answer:?}");
}

#[test]
fn a_job_with_too_many_failures_is_ended() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { max_failures: Some(1), ..job(100) });
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Exit { code: 1 });
    assert!(scene.counts(job).starts_with("active"));
    scene.fail(pilot, job, 1, FailureKind::Exit { code: 1 });
    assert_eq!(scene.counts(job), "cancelled w0 p0 d0 f2 c98");
}

#[test]
fn a_repeated_submission_is_the_same_job() {
    let mut scene = Scene::new();
    let keyed = || JobRequest { submission_key: Some("k".into()), ..job(1) };
    assert_eq!(scene.submit(keyed()), scene.submit(keyed()));
    assert_eq!(scene.engine.durable().jobs().len(), 1);
}

#[test]
fn priority_goes_first_and_users_take_turns() {
    let mut scene = Scene::new();
    scene.submit(job(50));
    scene.submit(JobRequest { user: "bob".into(), ..job(50) });
    let pilots: Vec<PilotId> = (0..4).map(|_| scene.pilot(1)).collect();
    let jobs: Vec<u64> = pilots.iter().map(|pilot| scene.take(*pilot)[0].0).collect();
    assert_eq!(jobs, [1, 2, 1, 2]);
    scene.submit(JobRequest { priority: 5, ..job(1) });
    let pilot = scene.pilot(1);
    assert_eq!(scene.take(pilot)[0].0, 3);
}

#[test]
fn tasks_go_only_where_they_fit() {
    let mut scene = Scene::new();
    let wide = Resources { gpus: 1, ..Resources::cores(2) };
    let needs = TaskNeeds { resources: wide.clone(), ..job(1).needs };
    let job = scene.submit(JobRequest { needs, ..job(3) });
    let small = scene.pilot(8);
    assert_eq!(scene.take(small), []);
    let reasons = scene.explain(Query::ExplainJob(job));
    assert!(matches!(&reasons[0], Reason::FitsNowhere { needs, .. } if *needs == wide), "{reasons:?}");
    let capacity = Resources { gpus: 2, ..Resources::cores(8) };
    let large = scene.pilot_on(NodeFacts { capacity, ..NodeFacts::default() });
    assert_eq!(scene.take(large), [(1, "0-1".into())]);
}

#[test]
fn no_task_is_sent_that_cannot_end_before_the_walltime() {
    let mut scene = Scene::new();
    let needs = TaskNeeds { time_limit: Some(Span::from_secs(600)), ..job(1).needs };
    let job = scene.submit(JobRequest { needs, ..job(3) });
    let node = |left| NodeFacts {
        capacity: Resources::cores(1),
        walltime_left: Some(Span::from_secs(left)),
        ..NodeFacts::default()
    };
    let short = scene.pilot_on(node(620));
    assert_eq!(scene.take(short), []);
    let reasons = scene.explain(Query::ExplainJob(job));
    assert!(matches!(reasons[0], Reason::PilotsTooShort { n_pilots: 1, .. }), "{reasons:?}");
    let long = scene.pilot_on(node(640));
    assert_eq!(scene.take(long), [(1, "0".into())]);
}

#[test]
fn short_tasks_are_sent_ahead_and_long_ones_are_not() {
    let mut scene = Scene::new();
    let id = scene.submit(job(10_000));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    let usage = Usage { wall_us: 1000, ..Usage::default() };
    let successes = Successes::from_attempts(vec![(0, 0, usage)]);
    let answer = scene.report(pilot, JobReport { successes, ..JobReport::new(id) });
    let n_sent: u64 = answer.parts.iter().flat_map(|part| &part.bundles).map(|b| b.tasks.len()).sum();
    assert_eq!(n_sent, 251, "a quarter of a second of work, and one to run");
}

#[test]
fn a_parked_pilot_is_answered_the_moment_there_is_work() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(2);
    assert_eq!(scene.pull(pilot, Pull { wait: Span::from_secs(20), ..hungry() }), None);
    scene.submit(job(1));
    let answered = scene.effects.iter().any(|effect| {
        matches!(effect, Effect::Answer { answer: Answer::Pull(answer), .. } if !answer.parts.is_empty())
    });
    assert!(answered, "{:?}", scene.effects);
}

#[test]
fn a_lost_answer_is_sent_again_until_it_is_confirmed() {
    let mut scene = Scene::new();
    scene.submit(job(1));
    let pilot = scene.pilot(1);
    let first = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    let again = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    assert_eq!(first.parts, again.parts);
    let part_seen = first.parts[0].number;
    let after = scene.pull(pilot, Pull { part_seen, ..hungry() }).unwrap_or_default();
    assert_eq!(after.parts, []);
}

#[test]
fn pilots_are_asked_for_by_demand_and_sent_away_when_idle() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 2));
    assert_eq!(scene.submissions(), []);
    let job = scene.submit(job(3));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 2, "three tasks on pilots of two cores");
    for (allocation, _) in &asked {
        let (allocation, outcome) = (*allocation, SubmitOutcome::Accepted(allocation.to_string()));
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    let pilot = scene.register(&asked[0].1, node);
    scene.take(pilot);
    scene.done(pilot, job, "0-1");
    scene.done(pilot, job, "2");
    for _ in 0..4 {
        scene.wait_awake(5);
        scene.take(pilot);
    }
    let reasons = scene.explain(Query::ExplainPilot(pilot));
    assert!(matches!(reasons[0], Reason::PilotDrains { .. }), "{reasons:?}");
}

#[test]
fn a_refusing_platform_is_tried_again_later_with_one_allocation() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    let job = scene.submit(job(9));
    for (allocation, _) in scene.submissions() {
        let outcome = SubmitOutcome::Refused("no such queue".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    let reasons = scene.explain(Query::ExplainJob(job));
    assert!(matches!(&reasons[0], Reason::PlatformFails { n_failures: 3, .. }), "{reasons:?}");
    assert_eq!(scene.submissions(), []);
    scene.wait(60);
    assert_eq!(scene.submissions().len(), 1);
}

#[test]
fn an_unknown_outcome_is_resolved_by_the_listing() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, tag) = scene.submissions().remove(0);
    let outcome = SubmitOutcome::Unknown("timed out".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    scene.wait(5);
    let listed = vec![
        ListedAllocation { tag, batch_id: "77".into(), is_ended: false },
        ListedAllocation { tag: "pf0-99".into(), batch_id: "78".into(), is_ended: false },
    ];
    let asked_at = scene.now;
    let platform = crate::ids::PlatformId(1);
    scene.say(|_| Event::PlatformListed { platform, asked_at, result: Ok(listed) });
    assert_eq!(scene.engine.durable().allocations()[&allocation].batch_id.as_deref(), Some("77"));
    let cancelled = Effect::Cancel { platform, batch_ids: vec!["78".into()] };
    assert!(scene.effects.contains(&cancelled), "an orphan is cancelled: {:?}", scene.effects);
}

#[test]
fn a_black_hole_is_drained_and_its_tasks_run_elsewhere() {
    let mut scene = Scene::new();
    let job = scene.submit(job(100));
    let (good, bad) = (scene.pilot(1), scene.pilot(1));
    scene.take(good);
    scene.done(good, job, "0");
    let mut given = scene.take(bad);
    for _ in 0..10 {
        let index = given.first().and_then(|(_, tasks)| set(tasks).first()).expect("it is still given tasks");
        given = bundles(&scene.fail(bad, job, index, FailureKind::Node { what: "no disk".into() }));
    }
    assert_eq!(given, []);
    let drained = scene.engine.durable().pilots()[&bad].drain.clone();
    assert!(drained.is_some(), "ten node failures in a row, and another pilot can do it");
    assert_eq!(scene.engine.durable().jobs()[&job].failed.len(), 0);
}

#[test]
fn after_a_restart_pilots_bring_their_leases_back() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let (there, other) = (scene.pilot(2), scene.pilot(2));
    scene.take(there);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(scene.take(other), [], "tasks are withheld until all have said what they hold");
    let mut answers = Vec::new();
    for (pilot, held) in [(other, ""), (there, "0-1")] {
        let asked = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).and_then(|a| a.resync).unwrap_or(0);
        let running = if held.is_empty() { TaskSet::new() } else { set(held) };
        let held = crate::pull::Held { job, queued: TaskSet::new(), running, unreported: TaskSet::new() };
        let holdings = crate::pull::Holdings { asked, tasks: vec![held], templates: vec![] };
        let pull = Pull { epoch: 2, part_seen: 0, holds: Some(holdings), ..hungry() };
        answers.push(bundles(&scene.pull(pilot, pull).unwrap_or_default()));
    }
    assert_eq!(scene.counts(job), "active w2 p2 d0 f0 c0");
    let pull = Pull { epoch: 2, part_seen: 0, ..hungry() };
    assert_eq!(bundles(&scene.pull(other, pull).unwrap_or_default()), [(1, "2-3".into())]);
}

#[test]
fn a_drained_shutdown_waits_for_pilots_to_leave() {
    let mut scene = Scene::new();
    scene.submit(job(4));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    assert_eq!(scene.say(|request| Event::ShutdownAsked { request, is_urgent: false }), None);
    let asked = RequestId(scene.n_requests);
    let told = scene.pull(pilot, hungry()).unwrap_or_default();
    assert_eq!(commands(&told), [PilotCommand::Drain]);
    let reason = crate::pull::LeaveReason::Told;
    scene.say(|request| Event::PilotLeft { request, pilot, report: None, reason });
    assert_eq!(scene.answer_to(asked), Some(Answer::ShutDown));
}

#[test]
fn a_failed_attempt_is_recorded_with_its_verdict() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 1, ..job(1) });
    let pilot = scene.pilot(1);
    scene.take(pilot);
    scene.fail(pilot, job, 0, FailureKind::Signal { signal: 11 });
    let Some(Record::Reported { results, .. }) = scene.records.last() else {
        panic!("no report was recorded")
    };
    assert_eq!(results[0].failures[0].verdict, Verdict::Retry { at: scene.now });
    assert_eq!(results[0].failures[0].attempt, 1);
}
