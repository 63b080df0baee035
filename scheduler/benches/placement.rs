//! Benchmark of one decision of the temporal look-ahead with 10,000 requests waiting and 1,000 running on 20
//! platforms: `cargo bench -p scheduler --bench placement`. The paper allows a second, the goal is 20 ms.

// The engine reads no clock; its benchmark has to.
#![expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]

use std::{hint::black_box, num::NonZeroU32, time::Instant};

use scheduler::{
    policy::placement::{Placement, Platform, Request, Running, Scene, Tla},
    rng::Rng,
};

const GOAL_MS: f64 = 20.0;
const N_DECISIONS: usize = 15;

fn main() {
    let mut luck = Rng::new(1);
    let running: Vec<Running> = (0..1000)
        .map(|n| Running {
            platform: n % 20,
            cores: luck.between(1, 16),
            ends_at: luck.below(100_000) as f64,
        })
        .collect();
    // All platforms have room for the first request: the worst case, 20 branches.
    let platforms: Vec<Platform> =
        (0..20).map(|n| Platform { n_free: 32, speed: 1.0 + f64::from(n) / 20.0 }).collect();
    let request = |luck: &mut Rng| Request {
        cores: 1 << luck.below(8),
        submitted_at: -(luck.below(100_000) as f64),
        runtime: luck.between(1, 50_000) as f64,
    };
    let mut waiting: Vec<Request> = (0..10_000).map(|_| request(&mut luck)).collect();
    waiting[0].cores = 16;
    let scene = Scene { now: 0.0, platforms: &platforms, running: &running, waiting: &waiting };

    for depth in [NonZeroU32::new(160), Tla::default().simulation_depth, NonZeroU32::new(1280), None] {
        let policy = Placement::Tla(Tla { simulation_depth: depth, ..Tla::default() });
        let mut times: Vec<f64> = (0..N_DECISIONS)
            .map(|_| {
                let began = Instant::now();
                black_box(policy.place(black_box(&scene)));
                began.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let median = times[N_DECISIONS / 2];
        let is_default = depth == Tla::default().simulation_depth;
        let name = match depth {
            Some(depth) => format!("placement tla, depth {depth}, 10,000 waiting"),
            None => "placement tla, depth 10,000, 10,000 waiting".to_owned(),
        };
        let verdict = if median <= GOAL_MS { "ok" } else { "not met" };
        let goal = if is_default { format!("<= {GOAL_MS} ms  {verdict}") } else { String::new() };
        println!("{name:<50} {median:>10.3} ms  {goal}");
    }
}
