//! Thousands of jobs: what a pull costs the engine while they wait, and what 10,000 in the store cost a manager's start
//! and those who look at them.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use scheduler::{
    engine::{
        Engine, Step,
        interface::{Answer, Effect, Event, JobRequest, RequestId, SubmitOutcome, settings::Settings},
    },
    ids::{JobId, PilotId},
    pull::{NodeFacts, Pull, PullAnswer, Registration},
    results::{JobReport, Report, Successes, Usage},
    time::{Span, Time},
};
use tokio::task::JoinSet;

use super::out_of_order::answer;
use crate::{
    Trouble, api,
    figure::{Figure, Goal},
    measure,
    place::{Expected, Place, program},
    plain, serve,
};

pub const LINE: &str = "many-jobs";

const N_WAITING: u64 = 5_000;
const N_PULLS: u64 = 5_000;
const N_USERS: u64 = 20;
const N_STORED: u64 = 10_000;
/// Submissions at a time.
const N_CLIENTS: u64 = 16;
const N_CALLS: usize = 9;

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    for n_users in [1, N_USERS] {
        let mut pulls = pulls(n_users)?;
        pulls.sort_unstable();
        let us = |span: Duration| span.as_secs_f64() * 1e6;
        let mean = us(pulls.iter().sum::<Duration>()) / pulls.len().max(1) as f64;
        let figure = |what: &str, value, goal| {
            let name = format!("5,000 jobs of one task wait, users: {n_users}: {what}");
            Figure::new(LINE, name, value, "µs", goal)
        };
        figures.push(figure("engine CPU a pull", mean, Goal::AtMost(100.0)));
        figures.push(figure("a pull, p99", us(pulls[pulls.len() * 99 / 100]), Goal::None));
    }
    figures.extend(stored().await?);
    Ok(figures)
}

/// What each pull takes that brings the result of a task and asks for another one, while so many jobs wait.
fn pulls(n_users: u64) -> Result<Vec<Duration>, Trouble> {
    let mut scene = Scene::new()?;
    for n in 0..N_WAITING + N_PULLS {
        let user = format!("user{}", n % n_users);
        let job = Box::new(JobRequest { user, ..plain::job(1) });
        match answer(scene.say(|request| Event::JobSubmitted { request, job }))? {
            Answer::Submitted { .. } => {}
            other => return Err(format!("a submission was answered by {other:?}").into()),
        }
    }
    (0..N_PULLS).map(|_| scene.pull()).collect()
}

struct Scene {
    engine: Engine,
    now: Time,
    n_requests: u64,
    took: Duration,
    pilot: PilotId,
    held: std::collections::VecDeque<(JobId, u64)>,
    part_seen: u64,
    seq: u64,
}

impl Scene {
    /// A manager with one pilot of two cores.
    fn new() -> Result<Scene, Trouble> {
        let now = Time(1_000_000_000);
        let engine = Engine::restore(Settings { grace: Span::ZERO, ..Settings::default() }, 1, now, []);
        let held = std::collections::VecDeque::new();
        let (pilot, took) = (PilotId(0), Duration::ZERO);
        let mut scene = Scene { engine, now, n_requests: 0, took, pilot, held, part_seen: 0, seq: 0 };
        let spec = plain::platform(1, 2);
        let step = scene.say(|request| Event::PlatformAttached { request, spec });
        for effect in step.effects {
            let Effect::Submit { allocation, tag, .. } = effect else { continue };
            let outcome = SubmitOutcome::Accepted(tag.clone());
            let _ = scene.say(|_| Event::AllocationAnswered { allocation, outcome });
            let node = NodeFacts { capacity: serve::capacity(2), ..NodeFacts::default() };
            let registration =
                Box::new(Registration { tag, nonce: 1, node, uptime: Span::ZERO, predecessor: None });
            match answer(scene.say(|request| Event::PilotRegistered { request, registration }))? {
                Answer::Registered(registered) => scene.pilot = registered.pilot,
                other => return Err(format!("a registration was answered by {other:?}").into()),
            }
        }
        Ok(scene)
    }

    fn pull(&mut self) -> Result<Duration, Trouble> {
        self.now = self.now + Span(1250);
        while self.engine.next_wakeup().is_some_and(|due| due <= self.now) {
            let _ = self.say(|_| Event::TimerFired);
        }
        let report = self.held.pop_front().map(|(job, index)| {
            self.seq += 1;
            let usage = Usage { wall_us: 1000, cpu_us: 1000, ..Usage::default() };
            let successes = Successes::from_attempts(vec![(index, 0, usage)]);
            Report { seq: self.seq, jobs: vec![JobReport { successes, ..JobReport::new(job) }] }
        });
        let pull = Pull { epoch: 1, part_seen: self.part_seen, report, is_hungry: true, ..Pull::default() };
        let pilot = self.pilot;
        let step = self.say(|request| Event::Pulled { request, pilot, pull: Box::new(pull) });
        let took = self.took;
        let Answer::Pull(PullAnswer { parts, .. }) = answer(step)? else {
            return Err("a pull was answered by something else".into());
        };
        for part in parts {
            self.part_seen = part.number;
            for bundle in part.bundles {
                self.held.extend(bundle.tasks.indices().map(|index| (bundle.job, index)));
            }
        }
        if self.held.is_empty() {
            return Err("a pull brought nothing while jobs wait".into());
        }
        Ok(took)
    }

    fn say(&mut self, event: impl FnOnce(RequestId) -> Event) -> Step {
        self.n_requests += 1;
        let event = event(RequestId(self.n_requests));
        let began = measure::thread_cpu();
        let step = self.engine.handle(self.now, event);
        self.took = measure::thread_cpu().saturating_sub(began);
        step
    }
}

/// A manager with 10,000 jobs, started again and asked by the command line.
async fn stored() -> Result<Vec<Figure>, Trouble> {
    let expected = Expected::new(1, 1);
    let place = Place::simulated(expected)?;
    let mut clients = JoinSet::new();
    for _ in 0..N_CLIENTS {
        let mut api = place.api()?;
        clients.spawn(async move {
            for _ in 0..N_STORED / N_CLIENTS {
                api.submit(&api::sweep(&["/bin/true"], 1)).await?;
            }
            Ok::<(), Trouble>(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let (place, start) = place.restarted(expected)?;
    let last = (N_STORED / N_CLIENTS * N_CLIENTS).to_string();
    let nothing = command(&place, &["--version"])?;
    let jobs = command(&place, &["jobs"])?;
    let job = command(&place, &["job", &last])?;
    let figure = |what: &str, value, goal| {
        Figure::new(LINE, format!("10,000 jobs in the store: {what}"), value, "s", goal)
    };
    Ok(vec![
        figure("a manager answers after", start.as_secs_f64(), Goal::AtMost(1.0)),
        figure("`pilotfish jobs`", jobs, Goal::AtMost(0.2)),
        figure("`pilotfish job N`", job, Goal::AtMost(0.05)),
        figure("`pilotfish --version`, which asks nobody", nothing, Goal::None),
    ])
}

/// Seconds that a command takes, the middle of some.
fn command(place: &Place, words: &[&str]) -> Result<f64, Trouble> {
    let mut seconds = Vec::new();
    for _ in 0..N_CALLS {
        let mut command = Command::new(program()?);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
        if words != ["--version"] {
            command.arg("--dir").arg(place.folder.path());
        }
        let began = Instant::now();
        let status = command.status()?;
        seconds.push(began.elapsed().as_secs_f64());
        if !status.success() {
            return Err(format!("pilotfish {}: {status}", words.join(" ")).into());
        }
    }
    Ok(measure::percentiles(seconds).0)
}
