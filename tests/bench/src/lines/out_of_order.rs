//! A million tasks that end in any order, some of them only at a second attempt: whether sets of ranges
//! stand that. The engine alone, without sockets and disk: what it costs is nearly all theirs.

use std::{collections::BTreeMap, time::Duration};

use scheduler::{
    engine::{
        Engine, Step,
        interface::{Answer, Effect, Event, RequestId, SubmitOutcome, settings::Settings},
    },
    ids::{JobId, PilotId},
    pull::{NodeFacts, Pull, PullAnswer, Registration},
    results::{Failure, FailureKind, JobReport, Report, Successes, Usage},
    time::{Span, Time},
};

use crate::{
    Trouble,
    figure::{Figure, Goal},
    measure, plain, serve,
};

pub const LINE: &str = "out-of-order";

const N_TASKS: u64 = 1_000_000;
const N_PILOTS: u32 = 64;
const CORES: u32 = 4;
/// Results in a report.
const N_RESULTS: usize = 256;

/// How a million tasks end.
struct Case {
    words: &'static str,
    /// Of the tasks that a pilot holds any may end next, not the one that came first.
    is_shuffled: bool,
    /// One of so many attempts fails; 0: none.
    fails_one_in: u64,
    /// How long a task takes: the shorter, the more are held at a time.
    wall: Span,
}

const CASES: [Case; 4] = [
    Case { words: "in order", is_shuffled: false, fails_one_in: 0, wall: Span::from_millis(1) },
    Case { words: "shuffled", is_shuffled: true, fails_one_in: 0, wall: Span::from_millis(1) },
    Case {
        words: "shuffled, 1 in 20 fails",
        is_shuffled: true,
        fails_one_in: 20,
        wall: Span::from_millis(1),
    },
    Case { words: "shuffled, nearly all held at a time", is_shuffled: true, fails_one_in: 0, wall: Span(1) },
];

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    for case in CASES {
        let outcome = Scene::new(&case)?.run()?;
        let figure = |what: &str, value, unit, goal| {
            Figure::new(LINE, format!("{}: {what}", case.words), value, unit, goal)
        };
        let each = outcome.cpu.as_secs_f64() * 1e6 / N_TASKS as f64;
        figures.push(figure("engine CPU a task", each, "µs", Goal::AtMost(1.0)));
        figures.push(figure("most ranges of open tasks", outcome.n_ranges_max as f64, "", Goal::None));
        let memory = outcome.memory_bytes as f64 / N_TASKS as f64;
        figures.push(figure("engine memory a task, half done", memory, "bytes", Goal::AtMost(8.0)));
    }
    Ok(figures)
}

struct Outcome {
    cpu: Duration,
    n_ranges_max: usize,
    memory_bytes: u64,
}

/// What a pilot holds, in the order in which it came, and how far its numbers are.
#[derive(Default)]
struct Held {
    tasks: std::collections::VecDeque<u64>,
    part_seen: u64,
    seq: u64,
}

struct Scene<'a> {
    case: &'a Case,
    engine: Engine,
    now: Time,
    cpu: Duration,
    n_requests: u64,
    dice: u64,
    job: JobId,
    pilots: BTreeMap<PilotId, Held>,
}

impl Scene<'_> {
    fn new(case: &Case) -> Result<Scene<'_>, Trouble> {
        let now = Time(1_000_000_000);
        let engine = Engine::restore(Settings { grace: Span::ZERO, ..Settings::default() }, 1, now, []);
        let (cpu, pilots) = (Duration::ZERO, BTreeMap::new());
        let mut scene =
            Scene { case, engine, now, cpu, n_requests: 0, dice: 0x9e37_79b9, job: JobId(1), pilots };
        let step =
            scene.say(|request| Event::PlatformAttached { request, spec: plain::platform(N_PILOTS, CORES) });
        for effect in step.effects {
            let Effect::Submit { allocation, tag, .. } = effect else { continue };
            let outcome = SubmitOutcome::Accepted(tag.clone());
            let _ = scene.say(|_| Event::AllocationAnswered { allocation, outcome });
            let node = NodeFacts { capacity: serve::capacity(CORES), ..NodeFacts::default() };
            let registration =
                Box::new(Registration { tag, nonce: 1, node, uptime: Span::ZERO, predecessor: None });
            let step = scene.say(|request| Event::PilotRegistered { request, registration });
            match answer(step)? {
                Answer::Registered(registered) => _ = scene.pilots.insert(registered.pilot, Held::default()),
                other => return Err(format!("a registration was answered by {other:?}").into()),
            }
        }
        let step = scene.say(|request| Event::JobSubmitted { request, job: Box::new(plain::job(N_TASKS)) });
        match answer(step)? {
            Answer::Submitted { job, .. } => scene.job = job,
            other => return Err(format!("a submission was answered by {other:?}").into()),
        }
        Ok(scene)
    }

    /// Until the job is over. Pilots report in turn.
    fn run(mut self) -> Result<Outcome, Trouble> {
        let (mut n_ranges_max, mut memory_bytes) = (0, None);
        let ids: Vec<PilotId> = self.pilots.keys().copied().collect();
        loop {
            for id in &ids {
                self.exchange(*id)?;
            }
            self.now = self.now + Span::from_millis(1);
            let open = self.engine.durable().jobs().get(&self.job).map(|job| &job.open);
            let open = open.ok_or("the job is gone")?;
            n_ranges_max = n_ranges_max.max(open.n_ranges());
            if open.len() <= N_TASKS / 2 && memory_bytes.is_none() {
                memory_bytes = Some(copy_bytes(&self.engine));
            }
            if open.is_empty() {
                let memory_bytes = memory_bytes.unwrap_or(0);
                return Ok(Outcome { cpu: self.cpu, n_ranges_max, memory_bytes });
            }
        }
    }

    fn exchange(&mut self, id: PilotId) -> Result<(), Trouble> {
        let (report, part_seen) = self.report(id);
        let pull = Pull { epoch: 1, part_seen, report, is_hungry: true, ..Pull::default() };
        let step = self.say(|request| Event::Pulled { request, pilot: id, pull: Box::new(pull) });
        let Answer::Pull(PullAnswer { parts, .. }) = answer(step)? else {
            return Err("a pull was answered by something else".into());
        };
        let held = self.pilots.entry(id).or_default();
        for part in parts {
            held.part_seen = part.number;
            held.tasks.extend(part.bundles.iter().flat_map(|bundle| bundle.tasks.indices()));
        }
        Ok(())
    }

    fn report(&mut self, id: PilotId) -> (Option<Report>, u64) {
        let Case { is_shuffled, fails_one_in, wall, .. } = *self.case;
        let mut dice = self.dice;
        let mut roll = |n: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % n.max(1)
        };
        let held = self.pilots.entry(id).or_default();
        let mut report = JobReport::new(self.job);
        let usage = Usage { wall_us: wall.0, ..Usage::default() };
        let mut attempts = Vec::new();
        for _ in 0..N_RESULTS.min(held.tasks.len()) {
            let at = if is_shuffled { roll(held.tasks.len() as u64) as usize } else { 0 };
            let Some(index) = held.tasks.swap_remove_front(at) else { break };
            match fails_one_in > 0 && roll(fails_one_in) == 0 {
                true => report.failures.push(Failure { index, kind: FailureKind::Exit { code: 1 }, usage }),
                false => attempts.push((index, 0, usage)),
            }
        }
        self.dice = dice;
        if attempts.is_empty() && report.failures.is_empty() {
            return (None, held.part_seen);
        }
        report.successes = Successes::from_attempts(attempts);
        held.seq += 1;
        (Some(Report { seq: held.seq, jobs: vec![report] }), held.part_seen)
    }

    /// Only the engine's own time counts.
    fn say(&mut self, event: impl FnOnce(RequestId) -> Event) -> Step {
        self.n_requests += 1;
        let event = event(RequestId(self.n_requests));
        let began = measure::thread_cpu();
        let step = self.engine.handle(self.now, event);
        self.cpu += measure::thread_cpu().saturating_sub(began);
        step
    }
}

/// What a copy of the engine takes, and so the engine.
fn copy_bytes(engine: &Engine) -> u64 {
    measure::give_back_memory();
    let before = measure::resident_bytes(std::process::id());
    let copy = engine.clone();
    let bytes = measure::resident_bytes(std::process::id()).saturating_sub(before);
    drop(copy);
    bytes
}

/// The answer among what the engine says.
pub(super) fn answer(step: Step) -> Result<Answer, Trouble> {
    let answers = step.effects.into_iter().filter_map(|effect| match effect {
        Effect::Answer { answer, .. } => Some(answer),
        Effect::Submit { .. }
        | Effect::Withdraw { .. }
        | Effect::Cancel { .. }
        | Effect::List { .. }
        | Effect::Load { .. }
        | Effect::Scale { .. }
        | Effect::Plan(_)
        | Effect::Notify(_) => None,
    });
    answers.last().ok_or_else(|| "the engine did not answer".into())
}
