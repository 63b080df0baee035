//! Layers at work: shares of users, weights of applications on platforms, matching by global importance; at last all of
//! them. The engine alone, without sockets and disk: what a pull costs it.

use std::{collections::BTreeMap, time::Duration};

use scheduler::{
    engine::{
        Engine, Step,
        interface::{
            Answer, Effect, Event, JobRequest, PlatformSpec, RequestId, ScalingSpec, ScalingWay,
            SubmitOutcome, platform::scaling::Ratio, settings::Settings,
        },
    },
    estimates::TaskEstimates,
    ids::{JobId, PilotId},
    policy::{
        Policies, allocation::Allocation, bundling::Bundling, distribution::Distribution, mapping::Mapping,
        matching::Matching, placement::pilots::PilotPlacement, scaling::Scaling, stealing::PilotStealing,
    },
    pull::{NodeFacts, Pull, PullAnswer, Registration},
    results::{JobReport, Report, Successes, Usage},
    time::{Span, Time},
};

use super::out_of_order::answer;
use crate::{
    Trouble,
    figure::{Figure, Goal},
    measure, plain, serve,
};

pub const LINE: &str = "layers";

const N_APPLICATIONS: u64 = 50;
const N_PLATFORMS: u64 = 20;
const N_USERS: u64 = 100;
const N_PILOTS: u64 = 5000;
const CORES: u32 = 8;
const N_TASKS: u64 = 1_000_000;
/// Pulls that are measured, each with the result of a task and for another one.
const N_PULLS: usize = 20_000;
/// Jobs of each user, and with which layers.
const RUNS: [(u64, Layers); 4] =
    [(1, Layers::Dividing), (2, Layers::Dividing), (10, Layers::Dividing), (1, Layers::All)];

/// Which layers are at work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layers {
    /// Those that say who gets what where.
    Dividing,
    /// Also bundles packed by estimates of all tasks, more slots on half of the platforms, stealing.
    All,
}

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    for (n_jobs, layers) in RUNS {
        let mut scene = Scene::new(n_jobs, layers)?;
        let (mut pulls, others) = scene.run()?;
        pulls.sort_unstable();
        let figure = |what: &str, value, unit, goal| {
            let more = if layers == Layers::All { ", all layers" } else { "" };
            Figure::new(LINE, format!("{} jobs{more}: {what}", n_jobs * N_USERS), value, unit, goal)
        };
        let us = |span: Duration| span.as_secs_f64() * 1e6;
        let mean = us(pulls.iter().sum::<Duration>()) / pulls.len().max(1) as f64;
        // The scale is that of the design: a job or two of each user.
        let goal = if n_jobs <= 2 { Goal::AtMost(50.0) } else { Goal::None };
        figures.push(figure("engine CPU a pull", mean, "µs", goal));
        figures.push(figure("a pull, p99", us(pulls[pulls.len() * 99 / 100]), "µs", Goal::None));
        let longest = pulls.last().copied().unwrap_or_default();
        figures.push(figure("the longest pull", us(longest) / 1e3, "ms", Goal::None));
        let at_most = |all: &[Duration]| us(all.iter().copied().max().unwrap_or_default()) / 1e3;
        figures.push(figure("what else the engine does, at most", at_most(&others), "ms", Goal::None));
        figures.push(figure("policies asked anew", scene.answers.len() as f64, "times", Goal::None));
        figures.push(figure("… beside the engine, at most in", at_most(&scene.answers), "ms", Goal::None));
    }
    Ok(figures)
}

/// What a pilot holds, and how far its numbers are.
struct Held {
    platform: u64,
    tasks: std::collections::VecDeque<(JobId, u64)>,
    part_seen: u64,
    seq: u64,
}

struct Scene {
    engine: Engine,
    now: Time,
    n_requests: u64,
    took: Duration,
    /// What answers of the policies took, and what it took the engine to take them in.
    answers: Vec<Duration>,
    taken_in: Vec<Duration>,
    /// By job: the number of its application.
    applications: BTreeMap<JobId, u64>,
    pilots: BTreeMap<PilotId, Held>,
}

fn settings(layers: Layers) -> Settings {
    let mut policies = Policies {
        allocation: Some(Allocation::PaRr { unit_cores: 1 }),
        distribution: Some(Distribution::Adaptive),
        matching: Matching::Alstb,
        placement: Some(PilotPlacement::Tla),
        mapping: Some(Mapping::default()),
        ..Policies::default()
    };
    if layers == Layers::All {
        policies.bundling = Bundling::BinPacking;
        policies.scaling = Scaling::Measured;
        policies.stealing = PilotStealing::Flds;
    }
    Settings { grace: Span::ZERO, policies, ..Settings::default() }
}

const SCALING: ScalingSpec = ScalingSpec {
    by: ScalingWay::Slots,
    ratio_max: Ratio(3000),
    errors_max_permille: 50,
    interval: Span::from_secs(5),
};

/// Of each task another one than of those beside it.
fn estimates(layers: Layers) -> Option<TaskEstimates> {
    let estimate = |n: u32| f64::from(10 + n * 37 % 91);
    TaskEstimates::new(1, (0..91).map(estimate)).filter(|_| layers == Layers::All)
}

/// Seconds of a task: between 10 and 100, as unlike as can be.
fn wall_s(application: u64, platform: u64) -> u64 {
    10 + (application * 37 + platform * 53 + application * platform * 11) % 91
}

impl Scene {
    fn new(n_jobs: u64, layers: Layers) -> Result<Scene, Trouble> {
        let now = Time(1_000_000_000);
        let engine = Engine::restore(settings(layers), 1, now, []);
        let (applications, pilots) = (BTreeMap::new(), BTreeMap::new());
        let mut scene = Scene {
            engine,
            now,
            n_requests: 0,
            took: Duration::ZERO,
            answers: Vec::new(),
            taken_in: Vec::new(),
            applications,
            pilots,
        };
        for platform in 0..N_PLATFORMS {
            scene.attach(platform, layers)?;
        }
        for n in 0..n_jobs * N_USERS {
            let application = n % N_APPLICATIONS;
            let job = Box::new(JobRequest {
                user: format!("user{}", n % N_USERS),
                application: format!("application{application}"),
                estimates: estimates(layers),
                ..plain::job(N_TASKS)
            });
            let step = scene.say(|request| Event::JobSubmitted { request, job });
            match answer(step)? {
                Answer::Submitted { job, .. } => _ = scene.applications.insert(job, application),
                other => return Err(format!("a submission was answered by {other:?}").into()),
            }
        }
        Ok(scene)
    }

    fn attach(&mut self, platform: u64, layers: Layers) -> Result<(), Trouble> {
        let n_pilots = (N_PILOTS / N_PLATFORMS) as u32;
        let spec = PlatformSpec {
            name: format!("platform{platform}"),
            // Every other one is a cloud.
            scaling: (layers == Layers::All && platform.is_multiple_of(2)).then_some(SCALING),
            ..plain::platform(n_pilots, CORES)
        };
        let step = self.say(|request| Event::PlatformAttached { request, spec });
        for effect in step.effects {
            let Effect::Submit { allocation, tag, .. } = effect else { continue };
            let outcome = SubmitOutcome::Accepted(tag.clone());
            let _ = self.say(|_| Event::AllocationAnswered { allocation, outcome });
            let node = NodeFacts { capacity: serve::capacity(CORES), ..NodeFacts::default() };
            let registration =
                Box::new(Registration { tag, nonce: 1, node, uptime: Span::ZERO, predecessor: None });
            let step = self.say(|request| Event::PilotRegistered { request, registration });
            let Answer::Registered(registered) = answer(step)? else {
                return Err("a registration was refused".into());
            };
            let held = Held { platform, tasks: std::collections::VecDeque::new(), part_seen: 0, seq: 0 };
            self.pilots.insert(registered.pilot, held);
        }
        Ok(())
    }

    /// What each pull took, and all else that the engine did meanwhile.
    fn run(&mut self) -> Result<(Vec<Duration>, Vec<Duration>), Trouble> {
        let (mut pulls, mut others) = (Vec::new(), Vec::new());
        let ids: Vec<PilotId> = self.pilots.keys().copied().collect();
        // The first time round all cores get their tasks, in the second something is learned.
        let n_first = ids.len() * 2;
        for n in 0..n_first + N_PULLS {
            if n == n_first {
                (self.answers, self.taken_in) = (Vec::new(), Vec::new());
            }
            self.now = self.now + Span(1250);
            while self.engine.next_wakeup().is_some_and(|due| due <= self.now) {
                let _ = self.say(|_| Event::TimerFired);
                if n >= n_first {
                    others.push(self.took);
                }
            }
            let took = self.exchange(ids[n * 7919 % ids.len()])?;
            if n >= n_first {
                pulls.push(took);
            }
        }
        others.append(&mut self.taken_in);
        Ok((pulls, others))
    }

    fn exchange(&mut self, id: PilotId) -> Result<Duration, Trouble> {
        let held = self.pilots.get_mut(&id).ok_or("a pilot is gone")?;
        let report = held.tasks.pop_front().map(|(job, index)| {
            let wall_us = wall_s(self.applications[&job], held.platform) * 1_000_000;
            let usage = Usage { wall_us, cpu_us: wall_us, ..Usage::default() };
            held.seq += 1;
            let successes = Successes::from_attempts(vec![(index, 0, usage)]);
            Report { seq: held.seq, jobs: vec![JobReport { successes, ..JobReport::new(job) }] }
        });
        let pull = Pull { epoch: 1, part_seen: held.part_seen, report, is_hungry: true, ..Pull::default() };
        let step = self.say(|request| Event::Pulled { request, pilot: id, pull: Box::new(pull) });
        let took = self.took;
        let Answer::Pull(PullAnswer { parts, .. }) = answer(step)? else {
            return Err("a pull was answered by something else".into());
        };
        let held = self.pilots.get_mut(&id).ok_or("a pilot is gone")?;
        for part in parts {
            held.part_seen = part.number;
            for bundle in part.bundles {
                held.tasks.extend(bundle.tasks.indices().map(|index| (bundle.job, index)));
            }
        }
        Ok(took)
    }

    fn say(&mut self, event: impl FnOnce(RequestId) -> Event) -> Step {
        self.n_requests += 1;
        let event = event(RequestId(self.n_requests));
        let began = measure::thread_cpu();
        let step = self.engine.handle(self.now, event);
        self.took = measure::thread_cpu().saturating_sub(began);
        for effect in &step.effects {
            let Effect::Plan(question) = effect else { continue };
            let began = measure::thread_cpu();
            let guide = question.answer();
            self.answers.push(measure::thread_cpu().saturating_sub(began));
            let began = measure::thread_cpu();
            let _ = self.engine.handle(self.now, Event::Planned { plan: guide });
            self.taken_in.push(measure::thread_cpu().saturating_sub(began));
        }
        step
    }
}
