//! A simulation of the two levels of paper 000: cores take tasks of the user to whom they are assigned. When
//! a user has no queued tasks left, or submits, all cores are assigned anew. Running tasks are not stopped
//! for that.

use std::{cmp::Reverse, collections::BinaryHeap};

use scheduler::{
    engine::read::fairness::fairness,
    policy::{
        affinity::{Affinity, corunner::CorunnerAffinity},
        allocation::{Allocation, Demand},
        mapping::{Combination, Mapping, Placed, Site},
        table::Table,
    },
    rng::Rng,
};

use super::{
    Interference,
    published::{ALONE, CORES_PER_NODE},
    scenario::Scenario,
};

/// The policies of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// The first level.
    pub allocation: Allocation,
    /// The affinity metric of the first level.
    pub affinity: Affinity,
    /// The second level.
    pub mapping: Mapping,
    /// The affinity metric of the second level.
    pub corunner: CorunnerAffinity,
    /// The seed of random numbers.
    pub seed: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When each user's last task ended, in seconds.
    pub ends: Vec<f64>,
    /// 1 minus the coefficient of variation of the users' speeds relative to their fastest (section 6.1).
    pub fairness: f64,
    /// When the last task ended, in seconds.
    pub makespan: f64,
    /// Number of times that cores were assigned.
    pub n_sharings: u64,
}

/// Runs a scenario to its end. Deterministic.
pub fn run(scenario: &Scenario, sharing: Sharing, interference: &Interference) -> Outcome {
    let mut world = World::new(scenario, sharing, interference);
    for user in 0..scenario.n_tasks.len() {
        world.enter(scenario.submitted_at[user], Happening::Submission(user));
    }
    while let Some(Reverse((at, happening))) = world.agenda.pop() {
        world.now = f64::from_bits(at);
        match happening {
            Happening::End(core) => world.task_ends(core),
            Happening::Submission(user) => {
                world.queued[user] = scenario.n_tasks[user];
                world.is_due = true;
            }
        }
        // Users that submit at the same moment take part.
        if world.is_due && !world.is_next_at_once() {
            world.share();
        }
    }
    world.outcome()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Submission(usize),
    End(usize),
}

struct Core {
    node: usize,
    /// The user whose tasks it takes.
    user: Option<usize>,
    /// The user whose task it runs.
    runs: Option<usize>,
}

struct Node {
    first_core: usize,
    /// Its place among the platform's combinations; `None`: filled at random, or empty.
    combination: Option<usize>,
    /// Seconds of a task of each user on this node.
    runtimes: Vec<f64>,
}

struct Platform {
    /// Its index in the published tables.
    which: usize,
    nodes: std::ops::Range<usize>,
    combinations: Vec<Combination>,
    alone: Vec<f64>,
}

struct World<'a> {
    scenario: &'a Scenario,
    sharing: Sharing,
    interference: &'a Interference,
    now: f64,
    /// Times as bits: positive floats have the same order.
    agenda: BinaryHeap<Reverse<(u64, Happening)>>,
    platforms: Vec<Platform>,
    nodes: Vec<Node>,
    cores: Vec<Core>,
    queued: Vec<u64>,
    ends: Vec<f64>,
    favourites: Option<Table<bool>>,
    is_due: bool,
    n_sharings: u64,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, sharing: Sharing, interference: &'a Interference) -> World<'a> {
        let n_users = scenario.applications.len();
        let (mut platforms, mut nodes, mut cores) = (Vec::new(), Vec::new(), Vec::new());
        for which in scenario.platforms() {
            let first = nodes.len();
            for _ in 0..scenario.n_nodes[which] {
                let node = nodes.len();
                nodes.push(Node { first_core: cores.len(), combination: None, runtimes: vec![0.0; n_users] });
                cores.extend((0..CORES_PER_NODE[which]).map(|_| Core { node, user: None, runs: None }));
            }
            platforms.push(Platform {
                which,
                nodes: first..nodes.len(),
                combinations: interference.combinations(which, &scenario.applications),
                alone: scenario.applications.iter().map(|one| ALONE[*one][which]).collect(),
            });
        }
        World {
            scenario,
            sharing,
            interference,
            now: 0.0,
            agenda: BinaryHeap::new(),
            platforms,
            nodes,
            cores,
            queued: vec![0; n_users],
            ends: vec![0.0; n_users],
            favourites: None,
            is_due: false,
            n_sharings: 0,
        }
    }

    fn enter(&mut self, at: f64, happening: Happening) {
        self.agenda.push(Reverse((at.to_bits(), happening)));
    }

    fn is_next_at_once(&self) -> bool {
        let next = self.agenda.peek();
        next.is_some_and(|Reverse((at, what))| {
            *at == self.now.to_bits() && matches!(what, Happening::Submission(_))
        })
    }

    fn task_ends(&mut self, core: usize) {
        if let Some(user) = self.cores[core].runs.take() {
            self.ends[user] = self.now;
        }
        self.take(core);
    }

    /// Lets a core without a task take the next one of its user.
    fn take(&mut self, core: usize) {
        let Some(user) = self.cores[core].user.filter(|user| self.queued[*user] > 0) else { return };
        self.queued[user] -= 1;
        self.is_due |= self.queued[user] == 0;
        self.cores[core].runs = Some(user);
        // The runtime of a task is fixed when it begins, by the users of the node at that time.
        let runtime = self.nodes[self.cores[core].node].runtimes[user];
        self.enter(self.now + runtime, Happening::End(core));
    }

    /// Assigns all cores anew, until no user's queue becomes empty by it.
    fn share(&mut self) {
        while std::mem::take(&mut self.is_due) {
            if self.queued.iter().all(|n| *n == 0) {
                return;
            }
            self.n_sharings += 1;
            let shares = self.first_level();
            for place in 0..self.platforms.len() {
                let placed = self.second_level(place, &shares);
                self.settle(place, placed);
            }
            for core in 0..self.cores.len() {
                if self.cores[core].runs.is_none() {
                    self.take(core);
                }
            }
        }
    }

    /// Returns the cores of each platform (column) for each user (row).
    fn first_level(&mut self) -> Table<u64> {
        let n_users = self.queued.len();
        let runtimes = Table::new(n_users, self.platforms.len(), ())
            .map_places(|user, place| self.platforms[place].alone[user]);
        let is_in_need: Vec<bool> = self.queued.iter().map(|n| *n > 0).collect();
        let affinity = self.sharing.affinity.table(&runtimes, &is_in_need);
        let n_cores = |platform: &Platform| platform.nodes.len() as u64 * CORES_PER_NODE[platform.which];
        let shares = self.sharing.allocation.share(&Demand {
            tasks: &self.queued,
            cores: &self.platforms.iter().map(n_cores).collect::<Vec<_>>(),
            affinity: &affinity,
            favourites: self.favourites.as_ref(),
        });
        self.favourites = shares.favourites;
        shares.cores
    }

    fn second_level(&self, place: usize, shares: &Table<u64>) -> Placed {
        let platform = &self.platforms[place];
        let shares: Vec<u64> = (0..self.queued.len()).map(|user| shares.at(user, place)).collect();
        self.sharing.mapping.place(&Site {
            n_nodes: platform.nodes.len() as u64,
            cores_per_node: CORES_PER_NODE[platform.which],
            shares: &shares,
            alone: &platform.alone,
            combinations: &platform.combinations,
            affinity: self.sharing.corunner,
            seed: Rng::of(self.sharing.seed, &[self.n_sharings, platform.which as u64]).draw(),
        })
    }

    /// Assigns nodes: a node keeps its combination while it is still needed; the others take the remaining
    /// ones, in order.
    fn settle(&mut self, place: usize, mut placed: Placed) {
        let nodes = self.platforms[place].nodes.clone();
        let mut others = Vec::new();
        for node in nodes {
            match self.nodes[node].combination {
                Some(combination) if placed.n_nodes[combination] > 0 => placed.n_nodes[combination] -= 1,
                _ => others.push(node),
            }
        }
        let mut combinations = placed.n_nodes.iter().enumerate().flat_map(|(at, n)| (0..*n).map(move |_| at));
        let mut mixed = placed.mixed.into_iter();
        for node in others {
            let combination = combinations.next();
            let of_users = match combination {
                Some(at) => self.cores_of(place, at),
                None => mixed.next().unwrap_or_else(|| vec![0; self.queued.len()]),
            };
            self.nodes[node].combination = combination;
            self.give_cores(place, node, of_users);
        }
    }

    fn cores_of(&self, place: usize, combination: usize) -> Vec<u64> {
        let platform = &self.platforms[place];
        let members = &platform.combinations[combination].members;
        let piece = CORES_PER_NODE[platform.which] / members.len() as u64;
        (0..self.queued.len()).map(|user| if members.contains(&user) { piece } else { 0 }).collect()
    }

    /// Assigns the cores of a node: a core keeps its user while the new mix has room for that user.
    fn give_cores(&mut self, place: usize, node: usize, of_users: Vec<u64>) {
        let which = self.platforms[place].which;
        let mut mix = [0; 5];
        for (user, n) in of_users.iter().enumerate() {
            mix[self.scenario.applications[user]] = *n;
        }
        for (user, application) in self.scenario.applications.iter().enumerate() {
            let runtime =
                if of_users[user] > 0 { self.interference.runtime(*application, which, &mix) } else { 0.0 };
            self.nodes[node].runtimes[user] = runtime;
        }
        let mut left = of_users;
        let first = self.nodes[node].first_core;
        let cores = &mut self.cores[first..first + CORES_PER_NODE[which] as usize];
        for core in &mut *cores {
            core.user = core.user.filter(|user| left[*user] > 0);
            if let Some(user) = core.user {
                left[user] -= 1;
            }
        }
        for core in cores.iter_mut().filter(|core| core.user.is_none()) {
            core.user = left.iter().position(|n| *n > 0);
            if let Some(user) = core.user {
                left[user] -= 1;
            }
        }
    }

    fn outcome(self) -> Outcome {
        let speeds = self
            .ends
            .iter()
            .enumerate()
            .map(|(user, end)| self.scenario.fastest(user) / (end - self.scenario.submitted_at[user]));
        Outcome {
            fairness: fairness(&speeds.collect::<Vec<_>>()),
            makespan: self.ends.iter().copied().fold(0.0, f64::max),
            ends: self.ends,
            n_sharings: self.n_sharings,
        }
    }
}
