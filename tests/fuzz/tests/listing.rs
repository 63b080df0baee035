//! Ten thousand allocations that wait, listed again and again: what a listing costs grows with its lines
//! and with nothing else, and no listing leaves anything behind.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use adapters::{
    Adapter, Surroundings,
    command::{BatchState, Command},
    transport::{LocalShell, Transport},
};
use fuzz::bound::{Cost, cost_of};
use profiles::site::Site;
use scheduler::{
    engine::{
        Engine, Step,
        interface::{
            Effect, Event, JobRequest, ListedAllocation, PlatformLimits, PlatformSpec, RequestId,
            SubmitOutcome, settings::Settings,
        },
    },
    ids::PlatformId,
    pull::TaskNeeds,
    resources::Resources,
    time::{Span, Time},
};
use tokio::runtime::Runtime;

const PLATFORM: PlatformId = PlatformId(1);
const POLL_INTERVAL: Span = Span::from_secs(30);
/// Allocations of memory for each line of a listing at most, of which one is for the reason why the job waits and one or
/// two are for what the listing is asked with, and bytes held at a time.
const N_PIECES_A_LINE: usize = 7;
const BYTES_A_LINE: usize = 500;
/// For a process, its pipes and the like.
const N_PIECES: usize = 700;
const BYTES: usize = 64 << 10;

/// A manager's engine that waits for so many allocations, and a cluster of which `squeue` shows them.
struct Scene {
    engine: Engine,
    now: Time,
    adapter: Box<dyn Adapter>,
    runtime: Runtime,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(n: u32) -> Scene {
        let now = Time(1_000_000_000);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let mut scene = Scene {
            engine: Engine::restore(Settings::default(), 1, now, []),
            now,
            adapter: adapters::adapter("slurm", &Surroundings::default(), &Site::default()).expect("slurm"),
            runtime: runtime.expect("a runtime"),
            folder: tempfile::tempdir().expect("a folder"),
        };
        // There is no store to keep records in, here and below.
        let _ = scene.say(Event::PlatformAttached { request: RequestId(1), spec: platform(n) });
        let asked = scene.say(Event::JobSubmitted { request: RequestId(2), job: Box::new(job(n.into())) });
        let mut lines = String::new();
        for effect in asked.effects {
            let Effect::Submit { allocation, tag, .. } = effect else { continue };
            lines += &format!("{}|PENDING|Resources|{tag}\n", 70_000 + allocation.0);
            let outcome = SubmitOutcome::Accepted((70_000 + allocation.0).to_string());
            let _ = scene.say(Event::AllocationAnswered { allocation, outcome });
        }
        assert_eq!(lines.lines().count(), n as usize, "as many are asked for as may be");
        pretend(scene.folder.path(), &lines);
        scene
    }

    fn say(&mut self, event: Event) -> Step {
        self.engine.handle(self.now, event)
    }

    /// The time of a poll comes: `squeue` is asked, once, and its answer is heard.
    fn poll(&mut self) {
        self.now = self.now + POLL_INTERVAL;
        let asked = self.say(Event::TimerFired).effects;
        assert!(matches!(asked[..], [Effect::List { .. }]), "{asked:?}");
        let path = std::env::var("PATH").unwrap_or_default();
        let before = ["env".to_owned(), format!("PATH={}:{path}", self.folder.path().display())];
        let list = self.adapter.list("pf");
        let command = Command { argv: before.into_iter().chain(list.argv).collect(), ..list };
        let output = self.runtime.block_on(LocalShell.run(&command)).expect("it runs");
        let jobs = self.adapter.read_list(&output).expect("a listing");
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
        let listed =
            Event::PlatformListed { platform: PLATFORM, asked_at: self.now, result: Ok(seen.collect()) };
        let step = self.say(listed);
        assert!(step.records.is_empty() && step.effects.is_empty(), "all is as it was");
    }
}

/// A `squeue` that prints these lines.
fn pretend(folder: &Path, lines: &str) {
    let (listing, squeue) = (folder.join("listing"), folder.join("squeue"));
    fs::write(&listing, lines).expect("a listing");
    fs::write(&squeue, format!("#!/bin/sh\nexec cat {}\n", listing.display())).expect("a script");
    fs::set_permissions(&squeue, fs::Permissions::from_mode(0o755)).expect("a program");
}

fn platform(n: u32) -> PlatformSpec {
    PlatformSpec {
        name: "cluster".into(),
        adapter: "slurm".into(),
        site: None,
        capacity: Resources::cores(1),
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: 0,
        n_pilots_max: n,
        idle_timeout: Span::from_secs(60),
        walltime: None,
        poll_interval: POLL_INTERVAL,
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    }
}

fn job(n_tasks: u64) -> JobRequest {
    JobRequest {
        user: "ann".into(),
        name: "sweep".into(),
        application: "shell".into(),
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
        retry_delay: Span::from_secs(5),
        crash_limit: 2,
        max_failures: None,
        submission_key: None,
        estimates: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: "{}".into(),
    }
}

/// What a poll costs after some others.
fn costs(scene: &mut Scene, n_polls: usize) -> Vec<Cost> {
    (0..2).for_each(|_| scene.poll());
    (0..n_polls).map(|_| cost_of(|| scene.poll()).1).collect()
}

#[test]
fn a_listing_costs_what_its_lines_cost_and_leaves_nothing() {
    for n in [100, 10_000] {
        let mut scene = Scene::new(n);
        let costs = costs(&mut scene, 20);
        let n = n as usize;
        for cost in &costs {
            assert!(cost.n_pieces <= N_PIECES + N_PIECES_A_LINE * n, "{n} lines: {cost:?}");
            assert!(cost.peak_bytes <= BYTES + BYTES_A_LINE * n, "{n} lines: {cost:?}");
        }
        let left: isize = costs.iter().map(|cost| cost.left_bytes).sum();
        assert!(left < 4096, "{left} bytes are left of {} listings of {n} lines", costs.len());
    }
}
