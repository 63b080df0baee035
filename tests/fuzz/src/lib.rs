//! What others may write, as functions from bytes: each takes any bytes, panics when the program would
//! have misbehaved, and costs no more memory than its target states.
//!
//! The same functions serve libFuzzer (`tests/fuzz/run`, `targets/`) and a fast version that runs with
//! all other tests (`tests/fast.rs`).

pub mod answers;
pub mod api;
pub mod bound;
pub mod frames;
pub mod job_file;
pub mod lives;
pub mod mutate;
pub mod output;
pub mod peers;
pub mod spool;
pub mod steps;
pub mod store;
pub mod sweep;
mod world;

use std::sync::Mutex;

use bound::Bound;

/// Takes any bytes.
pub type Check = Box<dyn FnMut(&[u8]) + Send>;

/// One kind of input.
pub struct Target {
    /// Of its program, seeds and corpus.
    pub name: &'static str,
    /// Valid inputs that mutation begins with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of its language.
    pub words: &'static [&'static str],
    /// Makes what is needed once, and gives the check.
    pub start: fn() -> Check,
    /// What an input may cost.
    pub bound: Bound,
    /// Inputs of the fast version.
    pub n_fast: u32,
}

/// All of them.
pub const TARGETS: [&Target; 9] = [
    &job_file::TARGET,
    &sweep::TARGET,
    &frames::TARGET,
    &answers::TARGET,
    &api::TARGET,
    &store::TARGET,
    &spool::TARGET,
    &output::TARGET,
    &peers::TARGET,
];

/// A target at work: its check, within its bound.
pub struct Running {
    check: Check,
    bound: Bound,
}

impl Running {
    /// Starts a target. What is made once at the first use is made here, so that no input is charged with it.
    pub fn start(target: &Target) -> Running {
        let mut check = (target.start)();
        (target.seeds)().iter().for_each(|seed| check(seed));
        Running { check, bound: target.bound }
    }

    /// Checks one input.
    pub fn check(&mut self, bytes: &[u8]) {
        self.bound.hold(bytes.len(), || (self.check)(bytes));
    }
}

/// One input from libFuzzer.
pub fn fuzz(target: &Target, bytes: &[u8]) {
    static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
    let mut running = RUNNING.lock().expect("a panic ends the process");
    running.get_or_insert_with(|| Running::start(target)).check(bytes);
}
