//! Benchmark of matching by application with 50 applications and 1,000 nodes: a new rate, a new degree, a new
//! node, and the requests of a pull. `cargo bench -p scheduler --bench matching`

// The ban on clocks applies to the code that decides, not to its benchmarks.
#![allow(clippy::disallowed_types)]

use std::{hint::black_box, time::Instant};

use scheduler::{
    policy::matching::application::{ByApplication, Importance, Open, Requests},
    rng::Rng,
};

const N_APPLICATIONS: usize = 50;
const N_NODES: usize = 1000;
const N_ROUNDS: u64 = 2000;
/// The goal for a change of one number and for a pull: 1,000 of each a second then take a fiftieth of the
/// time.
const GOAL_US: f64 = 20.0;
/// The goal for a node that joins or leaves, which changes the averages of every application.
const NODE_GOAL_US: f64 = 1000.0;

fn main() {
    let mut luck = Rng::new(1);
    let rates = rows(|| rate(&mut luck));
    let degrees = rows(|| luck.between(1, 16) as u32);
    let mut importance = Importance::new(&rates, &degrees);
    let mut luck = Rng::new(2);
    let mut place = move || (luck.below(N_APPLICATIONS as u64) as usize, luck.below(N_NODES as u64) as usize);

    measure("GI update, a rate", GOAL_US, N_ROUNDS, |round| {
        let (application, node) = place();
        importance.set_rate(application, node, 0.5 + round as f64 / N_ROUNDS as f64);
    });
    measure("GI update, a degree", GOAL_US, N_ROUNDS, |round| {
        let (application, node) = place();
        importance.set_degree(application, node, 1 + (round % 16) as u32);
    });
    measure("GI update, a node less and one more", 2.0 * NODE_GOAL_US, N_ROUNDS / 20, |_| {
        let (_, node) = place();
        let rates: Vec<f64> = (0..N_APPLICATIONS).map(|one| importance.rate(one, node)).collect();
        let degrees: Vec<u32> = (0..N_APPLICATIONS).map(|one| importance.degree(one, node)).collect();
        importance.remove_node(node);
        importance.add_node(&rates, &degrees);
    });
    let all: Vec<Open> =
        (0..N_APPLICATIONS).map(|application| Open { application, work: 1.0, oldest: application }).collect();
    measure("a pull", GOAL_US, N_ROUNDS, |round| {
        black_box(ByApplication::Alstb.choose(&importance, round as usize % N_NODES, &all));
    });
    measure("1,000 pulls at one instant", GOAL_US * N_NODES as f64, 20, |_| {
        let mut requests = Requests::new(ByApplication::Alstb, &importance, 0..N_NODES, &all);
        while let Some(pair) = requests.next(&all) {
            black_box(pair);
        }
    });
}

fn rows<T>(mut draw: impl FnMut() -> T) -> Vec<Vec<T>> {
    (0..N_APPLICATIONS).map(|_| (0..N_NODES).map(|_| draw()).collect()).collect()
}

fn rate(luck: &mut Rng) -> f64 {
    0.2 + luck.below(1000) as f64 / 250.0
}

fn measure(name: &str, goal_us: f64, n_rounds: u64, mut work: impl FnMut(u64)) {
    let started = Instant::now();
    (0..n_rounds).for_each(&mut work);
    let us = started.elapsed().as_secs_f64() * 1e6 / n_rounds as f64;
    println!("{name}: {us:.2} µs (goal {goal_us} µs)");
}
