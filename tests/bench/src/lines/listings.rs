//! Thousands of allocations that wait: what the listing of a poll costs, the codec's part and the engine's. No
//! process and no socket: those cost what a `squeue` costs, whoever asks.

use std::time::Duration;

use adapters::{
    Adapter, Surroundings,
    command::{BatchState, Output},
};
use profiles::site::Site;
use scheduler::{
    engine::{
        Engine,
        interface::{
            Effect, Event, ListedAllocation, PlatformSpec, RequestId, SubmitOutcome, settings::Settings,
        },
    },
    ids::PlatformId,
    time::{Span, Time},
};

use crate::{
    Trouble,
    figure::{Figure, Goal},
    measure, plain,
};

pub const LINE: &str = "listings";

const SIZES: [(u32, &str); 2] = [(1_000, "1,000"), (10_000, "10,000")];
const N_LISTINGS: u32 = 50;
const POLL_INTERVAL: Span = Span::from_secs(30);

pub async fn measure() -> Result<Vec<Figure>, Trouble> {
    let mut figures = Vec::new();
    for (n, words) in SIZES {
        let adapter = adapters::adapter("slurm", &Surroundings::default(), &Site::default());
        let cost = cost(n, &*adapter.ok_or("found no adapter `slurm`")?)?;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / f64::from(n * N_LISTINGS);
        let figure = |what: &str, value| {
            Figure::new(LINE, format!("{words} allocations: {what}"), value, "µs", Goal::None)
        };
        figures.push(figure("codec's CPU for each in a listing", each(cost.codec)));
        figures.push(figure("engine's CPU for each in a listing", each(cost.engine)));
    }
    Ok(figures)
}

#[derive(Default)]
struct Cost {
    codec: Duration,
    engine: Duration,
}

/// CPU time of all listings of so many that wait.
fn cost(n: u32, adapter: &dyn Adapter) -> Result<Cost, Trouble> {
    let mut now = Time(1_000_000_000);
    let (mut engine, lines) = waiting(n, now);
    let output = Output { code: Some(0), stdout: lines, stderr: String::new() };
    let mut cost = Cost::default();
    for _ in 0..N_LISTINGS {
        now = now + POLL_INTERVAL;
        let began = measure::thread_cpu();
        let asked = engine.handle(now, Event::TimerFired).effects;
        cost.engine += measure::thread_cpu().saturating_sub(began);
        if !matches!(asked[..], [Effect::List { .. }]) {
            return Err(format!("no listing is asked for, but {asked:?}").into());
        }
        let began = measure::thread_cpu();
        let jobs = adapter.read_list(&output)?;
        cost.codec += measure::thread_cpu().saturating_sub(began);
        let seen = jobs.into_iter().map(|job| ListedAllocation {
            reason: None,
            n_nodes: None,
            is_ended: job.state == BatchState::Ended,
            tag: job.tag,
            batch_id: job.id,
            is_running: false,
            is_suspended: false,
            trouble: None,
            lacks_room: false,
        });
        let result = Ok(seen.collect());
        let listed = Event::PlatformListed { platform: PlatformId(1), asked_at: now, result };
        let began = measure::thread_cpu();
        let step = engine.handle(now, listed);
        cost.engine += measure::thread_cpu().saturating_sub(began);
        if !step.records.is_empty() {
            return Err("a listing of what is known changes something".into());
        }
    }
    Ok(cost)
}

/// An engine that waits for so many allocations, and what `squeue` prints of them.
fn waiting(n: u32, now: Time) -> (Engine, String) {
    let mut engine = Engine::restore(Settings::default(), 1, now, []);
    let spec = PlatformSpec { n_pilots_min: 0, poll_interval: POLL_INTERVAL, ..plain::platform(n, 1) };
    // There is no store to keep records in, here and below.
    let _ = engine.handle(now, Event::PlatformAttached { request: RequestId(1), spec });
    let submitted = Event::JobSubmitted { request: RequestId(2), job: Box::new(plain::job(n.into())) };
    let mut lines = String::new();
    for effect in engine.handle(now, submitted).effects {
        let Effect::Submit { allocation, tag, .. } = effect else { continue };
        lines.push_str(&format!("{}|PENDING|Resources|{tag}\n", 70_000 + allocation.0));
        let outcome = SubmitOutcome::Accepted((70_000 + allocation.0).to_string());
        let _ = engine.handle(now, Event::AllocationAnswered { allocation, outcome });
    }
    (engine, lines)
}
