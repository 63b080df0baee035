//! A round of real faults: a sweep by a real manager and real pilots, killed and stopped at moments
//! that a seed draws, and an audit of what came of it.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    pilots::{PilotProcesses, signal_all},
    plan::{Aim, Blow, Fault, Part, Plan},
    site::Site,
    sweep::{Audit, Hit},
    until,
};

/// Nobody works any more when nothing was executed for so long.
const SILENCE: Duration = Duration::from_millis(300);
/// A stop that is to cost nothing is far shorter than it takes to be given up.
const STOP_MAX: Duration = Duration::from_secs(2);
const HEARTBEAT_LIMIT: &str = "8s";
/// For pilots to say what they hold after a start.
const GRACE: &str = "20s";
/// A manager that stands still for so long has outslept both.
const STALL: Duration = Duration::from_secs(25);
/// One core each, so that one can be hit and another goes on.
const N_PILOTS: u64 = 2;

/// What a round came to.
#[derive(Debug)]
pub struct Outcome {
    /// Executions beyond one, and how many there might have been.
    pub audit: Audit,
    /// How many pilots were killed or given up.
    pub n_hits: u64,
    /// How many finished tasks the witness was shown while the round went on.
    pub n_shown: u64,
}

/// What a pilot held when it was hit.
struct Blame {
    allocation: u64,
    n_held: u64,
}

struct Round<'a> {
    plan: &'a Plan,
    site: &'a mut Site,
    blames: Vec<Blame>,
}

/// A site for rounds of this plan.
pub fn site(plan: &Plan, n_tasks: u64) -> Site {
    let yaml = format!(
        "platforms:\n  - {{name: here, adapter: local, cores: 1, pilots_max: {N_PILOTS}, poll_interval: 1s}}\n\
         limits: {{heartbeat_limit: {HEARTBEAT_LIMIT}, grace: {GRACE}, poll_wait_max: 1s, prefetch_tasks_max: {}}}\n",
        plan.prefetch_tasks_max
    );
    Site::new("state", n_tasks, &yaml)
}

/// Runs a round. Panics with the first rule that does not hold.
pub fn run(plan: &Plan, site: &mut Site) -> Outcome {
    site.serve();
    site.submit(plan.seed);
    let mut round = Round { plan, site, blames: Vec::new() };
    for fault in &plan.faults {
        round.strike(fault);
    }
    round.finish()
}

impl Round<'_> {
    fn strike(&mut self, fault: &Fault) {
        self.site.until_executed(fault.at);
        let targets = fault.aim.map(|aim| self.targets(aim)).unwrap_or_default();
        match fault.blow {
            Blow::Kill | Blow::KillStopped => self.kill(fault, &targets),
            Blow::Stop | Blow::StopForLong => self.stop(fault, &targets),
        }
    }

    /// Pilots that are there, waited for: none where the sweep has ended meanwhile.
    fn targets(&mut self, aim: Aim) -> Vec<PilotProcesses> {
        let mut found = self.site.until_pilots();
        found.truncate(if aim.is_at_all { found.len() } else { 1 });
        found
    }

    fn kill(&mut self, fault: &Fault, targets: &[PilotProcesses]) {
        let whole: Vec<u32> = processes(targets, Part::Whole);
        let n_held = match fault.blow {
            Blow::KillStopped => {
                signal_all(&whole, Signal::SIGSTOP);
                self.n_held(targets)
            }
            _ => vec![self.plan.prefetch_tasks_max; targets.len()],
        };
        self.blame(targets, &n_held);
        if fault.hits_manager {
            signal_all(&[self.site.manager_pid()], Signal::SIGKILL);
        }
        if let Some(aim) = fault.aim {
            signal_all(&processes(targets, aim.part), Signal::SIGKILL);
        }
        // Of those that were killed nobody listens.
        signal_all(&whole, Signal::SIGCONT);
        if fault.hits_manager {
            self.site.kill_manager();
            self.site.trace.waits(fault.absence, SILENCE);
            self.site.serve();
            // Some pilots may not have said yet what they hold.
            if fault.absence == 0 {
                self.stall();
            }
        }
    }

    /// The manager stands still for longer than its limits: that costs nothing.
    fn stall(&mut self) {
        let (manager, begun) = ([self.site.manager_pid()], Instant::now());
        signal_all(&manager, Signal::SIGSTOP);
        until("the manager has stood still for long enough", || begun.elapsed() > STALL);
        signal_all(&manager, Signal::SIGCONT);
    }

    fn stop(&mut self, fault: &Fault, targets: &[PilotProcesses]) {
        if fault.blow == Blow::StopForLong && fault.hits_manager && fault.aim.is_none() {
            return self.stall();
        }
        let part = fault.aim.map_or(Part::Whole, |aim| aim.part);
        let mut stopped = processes(targets, part);
        stopped.extend(fault.hits_manager.then(|| self.site.manager_pid()));
        signal_all(&stopped, Signal::SIGSTOP);
        let is_given_up = fault.blow == Blow::StopForLong && !fault.hits_manager && part != Part::Guard;
        if is_given_up {
            self.await_loss(targets);
        } else {
            self.site.trace.waits_at_most(fault.absence, SILENCE, STOP_MAX);
        }
        signal_all(&stopped, Signal::SIGCONT);
    }

    /// Waits until pilots that stand still are given up; what they held most of all may run again.
    fn await_loss(&mut self, targets: &[PilotProcesses]) {
        let mut most = vec![0; targets.len()];
        loop {
            let held = self.n_held(targets);
            for (most, held) in most.iter_mut().zip(held) {
                *most = held.max(*most);
            }
            let views = self.site.pilots();
            let is_lost = |target: &PilotProcesses| of(&views, target).all(|view| view["state"] == "ended");
            if targets.iter().all(is_lost) {
                break;
            }
            self.site.trace.waits(100, SILENCE);
        }
        self.blame(targets, &most);
    }

    /// What the manager believes each of them to hold. One that has not told it yet since the manager's
    /// start may hold as much as a pilot may.
    fn n_held(&mut self, targets: &[PilotProcesses]) -> Vec<u64> {
        let views = self.site.pilots();
        let held = |view: &Value| match view["state"].as_str() {
            Some("awaited") => self.plan.prefetch_tasks_max,
            _ => view["n_running"].as_u64().unwrap_or(0) + view["n_queued"].as_u64().unwrap_or(0),
        };
        let n_held: Vec<u64> =
            targets.iter().map(|target| of(&views, target).map(held).max().unwrap_or(0)).collect();
        let limit = self.plan.prefetch_tasks_max;
        assert!(n_held.iter().all(|n| *n <= limit), "pilots hold {n_held:?} tasks; the limit is {limit}");
        n_held
    }

    fn blame(&mut self, targets: &[PilotProcesses], n_held: &[u64]) {
        let blame = |(target, n_held): (&PilotProcesses, &u64)| Blame {
            allocation: target.allocation,
            n_held: *n_held,
        };
        self.blames.extend(targets.iter().zip(n_held).map(blame));
    }

    fn finish(self) -> Outcome {
        self.site.until_done();
        let views = self.site.pilots();
        let hits: Vec<Hit> = self.blames.iter().flat_map(|blame| hits(blame, &views)).collect();
        let (audit, testimony) = self.site.close(&hits);
        Outcome { audit, n_hits: self.blames.len() as u64, n_shown: testimony.n_shown() }
    }
}

fn processes(targets: &[PilotProcesses], part: Part) -> Vec<u32> {
    let of = |target: &PilotProcesses| match part {
        Part::Guard => vec![target.guard],
        Part::Worker => vec![target.worker],
        Part::Whole => vec![target.guard, target.worker],
    };
    targets.iter().flat_map(of).collect()
}

fn of<'a>(views: &'a [Value], target: &PilotProcesses) -> impl Iterator<Item = &'a Value> {
    let allocation = target.allocation;
    views.iter().filter(move |view| view["allocation"] == allocation)
}

/// An agent may have been several pilots to its manager; what they held counts once.
fn hits(blame: &Blame, views: &[Value]) -> Vec<Hit> {
    let of_it = views.iter().filter(|view| view["allocation"] == blame.allocation);
    let pilots = of_it.filter_map(|view| view["id"].as_u64());
    pilots
        .enumerate()
        .map(|(n, pilot)| Hit { pilot, n_held: if n == 0 { blame.n_held } else { 0 } })
        .collect()
}
