//! The simulation of paper 002: nodes ask for tasks, get bundles, and run them.
//!
//! There is an event for each bundle and none for a task: a bundle's tasks go, the largest first, to the
//! processor that is free next, which is computed when the bundle arrives.

use std::{cmp::Reverse, collections::BinaryHeap};

use scheduler::policy::{
    bundling::by_estimate::{ByEstimate, Estimates},
    matching::application::{ByApplication, Open, Requests},
};

use super::{
    outcome::Outcome,
    scene::{Scene, TRANSFER_S},
};

/// The policies of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policies {
    /// Chooses the application that a node serves.
    pub matching: ByApplication,
    /// Chooses the tasks of a job that go to the node.
    pub bundling: ByEstimate,
}

/// Runs all jobs of the scene to their end. O(tasks log tasks), and O(applications) for each bundle.
pub fn run(scene: &Scene, policies: Policies) -> Outcome {
    let mut world = World::new(scene, policies);
    let mut asking = Vec::new();
    while let Some(Reverse((at, node))) = world.agenda.pop() {
        asking.push(node);
        // All nodes that ask at one instant are served together.
        if world.agenda.peek().is_none_or(|Reverse((next, _))| *next > at) {
            world.serve(f64::from_bits(at), &mut asking);
        }
    }
    world.outcome
}

struct World<'a> {
    scene: &'a Scene,
    policies: Policies,
    nodes: Vec<Node>,
    /// Waiting tasks, by job.
    waiting: Vec<Estimates>,
    /// Number of processors that work on each job.
    n_sharing: Vec<u64>,
    /// Jobs of each application that have waiting tasks.
    open_jobs: Vec<Vec<usize>>,
    /// Applications that have such jobs, in ascending order.
    open: Vec<Open>,
    /// When each node asks next; seconds as bits, which have the same order.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    outcome: Outcome,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The job that it serves, and when it started with it.
    job: Option<(usize, f64)>,
    /// When each processor in use has run all its tasks.
    free_at: Vec<f64>,
}

impl Node {
    fn all_free_at(&self) -> f64 {
        self.free_at.iter().copied().fold(0.0, f64::max)
    }

    fn first_free_at(&self) -> f64 {
        self.free_at.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Gives a task to the processor that is free first.
    fn run(&mut self, seconds: f64) {
        let first = self.free_at.iter_mut().reduce(|a, b| if *b < *a { b } else { a });
        if let Some(free_at) = first {
            *free_at += seconds;
        }
    }
}

impl<'a> World<'a> {
    fn new(scene: &'a Scene, policies: Policies) -> World<'a> {
        let n_applications = scene.importance.n_applications();
        let mut open_jobs = vec![Vec::new(); n_applications];
        for (id, job) in scene.jobs.iter().enumerate().filter(|(_, job)| !job.tasks.is_empty()) {
            open_jobs[job.application].push(id);
        }
        let mut world = World {
            scene,
            policies,
            nodes: vec![Node::default(); scene.n_processors.len()],
            n_sharing: vec![0; scene.jobs.len()],
            waiting: scene.jobs.iter().map(|job| job.tasks.clone()).collect(),
            open: Vec::new(),
            open_jobs,
            agenda: (0..scene.n_processors.len()).map(|node| Reverse((0, node))).collect(),
            outcome: Outcome::new(scene),
        };
        world.open = (0..n_applications).filter_map(|one| world.as_open(one)).collect();
        world
    }

    /// Returns the application, if it has waiting tasks.
    fn as_open(&self, application: usize) -> Option<Open> {
        let works = self.open_jobs[application].iter().map(|job| self.waiting[*job].work());
        let work = works.reduce(f64::min)?;
        // Jobs are in the order of their submission.
        Some(Open { application, work, oldest: *self.open_jobs[application].first()? })
    }

    fn serve(&mut self, now: f64, asking: &mut Vec<usize>) {
        if let [node] = asking[..] {
            asking.clear();
            // A node that keeps its job needs no choice.
            let (policy, importance) = (self.policies.matching, &self.scene.importance);
            let is_choosing = !self.keeps_job(node);
            let application = is_choosing.then(|| policy.choose(importance, node, &self.open)).flatten();
            return self.answer(now, node, application);
        }
        let (scene, policy) = (self.scene, self.policies.matching);
        let mut requests = Requests::new(policy, &scene.importance, asking.iter().copied(), &self.open);
        let mut is_served = vec![false; self.nodes.len()];
        while let Some((application, node)) = requests.next(&self.open) {
            is_served[node] = true;
            self.answer(now, node, Some(application));
        }
        for node in asking.drain(..).filter(|node| !is_served[*node]) {
            self.answer(now, node, None);
        }
    }

    fn keeps_job(&self, node: usize) -> bool {
        self.nodes[node].job.is_some_and(|(job, _)| !self.waiting[job].is_empty())
    }

    /// Gives the node tasks of its job, else of the application's; a node whose processors have not all ended
    /// its job's tasks asks again when they have.
    fn answer(&mut self, now: f64, node: usize, application: Option<usize>) {
        if let Some((job, since)) = self.nodes[node].job {
            if !self.waiting[job].is_empty() {
                return self.give(now, node, job);
            }
            let all_free_at = self.nodes[node].all_free_at();
            if all_free_at > now {
                return self.agenda.push(Reverse((all_free_at.to_bits(), node)));
            }
            self.n_sharing[job] -= self.nodes[node].free_at.len() as u64;
            self.nodes[node].job = None;
            self.outcome.flowtime += f64::from(self.scene.n_processors[node]) * (now - since);
        }
        let jobs = application.iter().flat_map(|one| &self.open_jobs[*one]);
        let jobs = jobs.map(|job| (*job, self.waiting[*job].work()));
        let Some(job) = self.policies.matching.job_of(jobs) else { return };
        let application = self.scene.jobs[job].application;
        let n_bins = self.scene.importance.degree(application, node);
        let ready_at = now + self.scene.environment_s[application] + TRANSFER_S;
        let node_state = &mut self.nodes[node];
        node_state.job = Some((job, now));
        node_state.free_at.clear();
        node_state.free_at.resize(n_bins as usize, ready_at);
        self.n_sharing[job] += u64::from(n_bins);
        self.outcome.n_changes += 1;
        self.give(now, node, job);
    }

    fn give(&mut self, now: f64, node: usize, job: usize) {
        let application = self.scene.jobs[job].application;
        let taker = self.scene.taker(application, node, self.n_sharing[job]);
        let bundle = self.policies.bundling.take(&mut self.waiting[job], &taker);
        let state = &mut self.nodes[node];
        for free_at in &mut state.free_at {
            // Other processors still run during the transfer.
            *free_at = free_at.max(now + taker.transfer_s);
        }
        for estimate in &bundle {
            state.run(estimate / taker.rate);
        }
        let (next, end) = (state.first_free_at(), state.all_free_at());
        self.agenda.push(Reverse((next.to_bits(), node)));
        self.outcome.n_bundles += 1;
        self.outcome.n_tasks += bundle.len() as u64;
        self.outcome.end(job, end);
        self.note_taken(job, application);
    }

    /// Updates the open jobs after tasks of the job were taken.
    fn note_taken(&mut self, job: usize, application: usize) {
        let Some(at) = self.open.iter().position(|one| one.application == application) else { return };
        if !self.waiting[job].is_empty() {
            self.open[at].work = self.open[at].work.min(self.waiting[job].work());
            return;
        }
        self.open_jobs[application].retain(|other| *other != job);
        match self.as_open(application) {
            Some(open) => self.open[at] = open,
            None => drop(self.open.remove(at)),
        }
    }
}
