//! Many seeds on all cores.

use std::{
    num::NonZero,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use super::{Outcome, Violation, run};

/// Runs each seed; tells `done` of each as it ends, in no particular order, from one thread at a time.
pub fn run_many(seeds: Range<u64>, done: impl FnMut(u64, Result<Outcome, Violation>) + Send) {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new(done);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let result = run(seed, None);
            let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            done(seed, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
}
