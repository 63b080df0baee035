//! MATRIX in simulated time: nodes with the real queues and policies, a network, and running tasks.
//!
//! A task is dealt to a node at the start. When its inputs are written, that node gets a message and queues
//! the task by Algorithm 1. A thread begins the first ready task of its node, fetches missing inputs, runs
//! it, and leaves the output where it ran.

use scheduler::{
    policy::stealing::{
        Input, Pace, Ready, Spot,
        hunt::{victim, whom_to_ask},
    },
    rng::Rng,
    time::{Span, Time},
};

use super::{
    machine::{Outcome, Placement, Setting, Traffic},
    node::Node,
    workload::{Shape, Workload},
};
use crate::agenda::Agenda;

/// The interval at which FLDS checks a pilot's own queue (paper 004).
const RELIEF_INTERVAL: Span = Span::from_secs(1);
/// The purposes of random numbers.
const DEALING: u64 = 1;
const FILES: u64 = 2;
const HUNTS: u64 = 3;

/// An event. Nodes and tasks are given by their numbers.
#[derive(Debug)]
enum Event {
    /// A task with inputs of `bytes` bytes enters a queue of a node.
    Enters {
        node: u32,
        task: u32,
        bytes: u64,
        is_own: bool,
    },
    Finishes {
        node: u32,
        task: u32,
    },
    /// An idle node asks others how many tasks they have.
    Asks {
        node: u32,
    },
    /// It takes half of the tasks of the node with most.
    Takes {
        node: u32,
        from: u32,
    },
    /// The stolen tasks arrive.
    Gets {
        node: u32,
        tasks: Vec<(u64, u32)>,
    },
    /// All nodes check their own queues.
    Relief,
}

/// Runs a workload to its end. O(tasks log tasks).
///
/// # Panics
/// More than 2^32 tasks.
pub fn run(workload: &Workload, setting: &Setting) -> Outcome {
    let mut world = World::new(workload, setting);
    (0..world.n_tasks).for_each(|task| {
        if workload.inputs(task.into()).next().is_none() || workload.shape == Shape::AllPairs {
            world.becomes_ready(Time(0), task, false);
        }
    });
    if world.nodes[0].relief.is_some() {
        world.agenda.enter(Time(0) + RELIEF_INTERVAL, Event::Relief);
    }
    (0..setting.n_nodes).for_each(|node| world.begin_what_can(Time(0), node));
    let mut now = Time(0);
    while world.n_done < world.n_tasks {
        let Some((at, event)) = world.agenda.next() else { break };
        now = at;
        world.handle(now, event);
    }
    world.outcome(now)
}

struct World<'a> {
    workload: &'a Workload,
    setting: &'a Setting,
    nodes: Vec<Node>,
    /// The node of each object (the output of a task, or a file).
    places: Vec<u32>,
    /// Number of inputs of each task that are not written yet.
    n_missing: Vec<u8>,
    /// Nodes that have stopped stealing.
    resigned: Vec<u32>,
    /// The pace of every node.
    pace: Pace,
    agenda: Agenda<Event>,
    luck: Rng,
    n_tasks: u32,
    n_done: u32,
    run_us: u64,
    traffic: Traffic,
}

impl<'a> World<'a> {
    fn new(workload: &'a Workload, setting: &'a Setting) -> World<'a> {
        let n_tasks = u32::try_from(workload.n_tasks).expect("tasks have numbers of 32 bits");
        let is_graph = workload.shape != Shape::AllPairs;
        let n_objects = if is_graph { workload.n_tasks } else { workload.n_files() };
        let place_of_file = |file: u64| match setting.placement {
            _ if is_graph => 0,
            Placement::Even => (file % u64::from(setting.n_nodes)) as u32,
            Placement::Random => {
                Rng::of(workload.seed, &[FILES, file]).below(u64::from(setting.n_nodes)) as u32
            }
        };
        let n_missing = |task: u32| workload.inputs(task.into()).count() as u8;
        World {
            workload,
            setting,
            nodes: (0..setting.n_nodes).map(|_| Node::new(setting.policy, setting.n_threads)).collect(),
            places: (0..n_objects).map(place_of_file).collect(),
            n_missing: if is_graph { (0..n_tasks).map(n_missing).collect() } else { Vec::new() },
            resigned: Vec::new(),
            pace: Pace {
                tasks_per_s: f64::from(setting.n_threads) / workload.mean_run_s(),
                bytes_per_s: setting.bytes_per_s,
            },
            agenda: Agenda::new(),
            luck: Rng::of(workload.seed, &[HUNTS]),
            n_tasks,
            n_done: 0,
            run_us: 0,
            traffic: Traffic::default(),
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Enters { node, task, bytes, is_own } => {
                self.enter(node, task, bytes, is_own);
                self.begin_what_can(now, node);
            }
            Event::Finishes { node, task } => self.finish(now, node, task),
            Event::Asks { node } => self.ask(now, node),
            Event::Takes { node, from } => self.take(now, node, from),
            Event::Gets { node, tasks } => {
                let queues = &mut self.nodes[node as usize].queues;
                tasks.into_iter().for_each(|(bytes, task)| queues.share(bytes, task));
                self.nodes[node as usize].is_hunting = false;
                self.begin_what_can(now, node);
            }
            Event::Relief => self.relieve(now),
        }
    }

    /// Returns the node to which a task is dealt: equal numbers to each, but in another order in each round,
    /// so that neither files nor siblings are in step with tasks.
    fn dealt_to(&self, task: u32) -> u32 {
        let n = u64::from(self.setting.n_nodes);
        let (round, seat) = (u64::from(task) / n, u64::from(task) % n);
        ((seat + Rng::of(self.workload.seed, &[DEALING, round]).below(n)) % n) as u32
    }

    fn bytes_of(&self, object: u64) -> u64 {
        self.workload.draw(object).bytes
    }

    /// Handles a task whose inputs are all written: the node to which it was dealt queues it.
    fn becomes_ready(&mut self, now: Time, task: u32, is_told: bool) {
        let here = self.dealt_to(task);
        let mut inputs = [Input { at: 0, bytes: 0 }; 10];
        let mut n_inputs = 0;
        for object in self.workload.inputs(task.into()) {
            inputs[n_inputs] =
                Input { at: self.places[object as usize] as usize, bytes: self.bytes_of(object) };
            n_inputs += 1;
        }
        let inputs = &inputs[..n_inputs];
        let ready =
            Ready { inputs, run_s: self.workload.mean_run_s(), bytes_per_s: self.setting.bytes_per_s };
        let bytes = self.setting.policy.weight(&ready);
        let (node, is_own) = match self.setting.policy.spot(&ready, here as usize) {
            Spot::Shared => (here, false),
            Spot::Own(node) => (node as u32, true),
        };
        if !is_told {
            return self.enter(node, task, bytes, is_own);
        }
        let n_messages = if node == here { 1 } else { 2 };
        let at = now + self.setting.latency.times(n_messages);
        self.agenda.enter(at, Event::Enters { node, task, bytes, is_own });
    }

    fn enter(&mut self, node: u32, task: u32, bytes: u64, is_own: bool) {
        let queues = &mut self.nodes[node as usize].queues;
        if is_own { queues.keep(bytes, task) } else { queues.share(bytes, task) }
    }

    /// Begins ready tasks on free threads; if a thread stays free, the node tries to steal.
    fn begin_what_can(&mut self, now: Time, node: u32) {
        while self.nodes[node as usize].n_free_threads > 0 {
            let Some((task, _)) = self.nodes[node as usize].queues.begin() else {
                return self.hunt(now, node);
            };
            self.begin(now, node, task);
        }
    }

    fn begin(&mut self, now: Time, node: u32, task: u32) {
        let dispatched = now + self.setting.dispatch;
        let mut all_there = dispatched;
        for object in self.workload.inputs(task.into()) {
            self.traffic.n_inputs += 1;
            if self.places[object as usize] != node {
                let bytes = self.bytes_of(object);
                let taker = &mut self.nodes[node as usize];
                let there = taker.fetch(object as u32, bytes, dispatched, self.setting, &mut self.traffic);
                all_there = all_there.max(there);
            }
        }
        self.nodes[node as usize].n_free_threads -= 1;
        let run_us = self.workload.draw(task.into()).run_us;
        self.run_us += run_us;
        self.agenda.enter(all_there + Span(run_us), Event::Finishes { node, task });
    }

    fn finish(&mut self, now: Time, node: u32, task: u32) {
        self.n_done += 1;
        let here = &mut self.nodes[node as usize];
        here.n_done += 1;
        here.n_free_threads += 1;
        if let Some(place) = self.places.get_mut(task as usize).filter(|_| !self.n_missing.is_empty()) {
            *place = node;
        }
        for dependent in self.workload.dependents(task.into()) {
            let n_missing = &mut self.n_missing[dependent as usize];
            *n_missing -= 1;
            if *n_missing == 0 {
                self.becomes_ready(now, dependent as u32, true);
            }
        }
        self.begin_what_can(now, node);
    }

    /// Schedules the next attempt to steal, unless one is open or too many failed.
    fn hunt(&mut self, now: Time, node: u32) {
        let hunter = &mut self.nodes[node as usize];
        if hunter.is_hunting || !self.setting.policy.steals() || self.setting.n_nodes < 2 {
            return;
        }
        hunter.is_hunting = true;
        match hunter.hunt.pause() {
            // The pause, and the time to ask and to get an answer.
            Some(pause) => {
                self.agenda.enter(now + pause + self.setting.latency.times(2), Event::Asks { node })
            }
            None => self.resigned.push(node),
        }
    }

    fn ask(&mut self, now: Time, node: u32) {
        let hunter = &self.nodes[node as usize];
        if hunter.n_free_threads == 0 {
            // Tasks came meanwhile.
            self.nodes[node as usize].is_hunting = false;
            return;
        }
        self.traffic.n_tries += 1;
        let asked = whom_to_ask(self.nodes.len(), node as usize, &mut self.luck);
        let (policy, pace) = (self.setting.policy, &self.pace);
        let may_leave = |n_waiting, bytes| policy.may_leave(n_waiting, bytes, pace);
        let answers = asked.map(|other| (other, self.nodes[other].queues.n_offered(may_leave)));
        match victim(answers) {
            Some(from) => {
                self.agenda.enter(now + self.setting.latency, Event::Takes { node, from: from as u32 });
            }
            None => self.failed(now, node),
        }
    }

    fn take(&mut self, now: Time, node: u32, from: u32) {
        let (policy, pace) = (self.setting.policy, &self.pace);
        let may_leave = |n_waiting, bytes| policy.may_leave(n_waiting, bytes, pace);
        let tasks = self.nodes[from as usize].queues.give_half(usize::MAX, may_leave);
        if tasks.is_empty() {
            return self.failed(now + self.setting.latency, node);
        }
        self.traffic.n_stolen += tasks.len() as u64;
        self.nodes[node as usize].hunt.succeeded();
        self.agenda.enter(now + self.setting.latency, Event::Gets { node, tasks });
    }

    fn failed(&mut self, now: Time, node: u32) {
        let hunter = &mut self.nodes[node as usize];
        hunter.hunt.failed();
        hunter.is_hunting = false;
        if hunter.n_free_threads > 0 {
            self.hunt(now, node);
        }
    }

    fn relieve(&mut self, now: Time) {
        let mut is_any_shared = false;
        for node in &mut self.nodes {
            let throughput = node.throughput(now);
            let n_own = node.queues.n_own();
            let n = node.relief.as_mut().map_or(0, |relief| relief.n_to_share(n_own, throughput));
            node.queues.release(n);
            is_any_shared |= n > 0;
        }
        if is_any_shared {
            for node in std::mem::take(&mut self.resigned) {
                let hunter = &mut self.nodes[node as usize];
                hunter.hunt.revive();
                hunter.is_hunting = false;
                if hunter.n_free_threads > 0 {
                    self.hunt(now, node);
                }
            }
        }
        self.agenda.enter(now + RELIEF_INTERVAL, Event::Relief);
    }

    fn outcome(&self, now: Time) -> Outcome {
        let makespan_s = now.since(Time(0)).as_secs_f64();
        let work_s = self.run_us as f64 / 1e6;
        let most = self.nodes.iter().map(|node| node.n_done).max().unwrap_or(0);
        Outcome {
            makespan_s,
            work_s,
            efficiency: work_s / (makespan_s * self.setting.n_cores() as f64),
            most_to_mean: most as f64 * self.nodes.len() as f64 / f64::from(self.n_tasks),
            traffic: self.traffic,
        }
    }
}
