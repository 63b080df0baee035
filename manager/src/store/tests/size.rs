//! The size of a success on disk.

use scheduler::{ids::JobId, results::Usage};

use super::{
    open,
    records::{beginning, reported, result},
};

const N_TASKS: u64 = 100_000;
const N_A_REPORT: u64 = 256;

/// Numbers without a pattern, the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, from: u64, to: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        from + self.0 % (to - from)
    }
}

#[test]
fn a_plain_success_costs_eight_bytes_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(N_TASKS)).unwrap();
    let (mut dice, mut slots) = (Dice(7), [0u64; 4]);
    for first in (0..N_TASKS).step_by(N_A_REPORT as usize) {
        let tasks = (first..N_TASKS.min(first + N_A_REPORT)).map(|index| {
            let slot = slots.iter_mut().min().unwrap();
            let wall_us = dice.roll(1_000, 50_000);
            let usage = Usage {
                started_us: *slot,
                wall_us,
                cpu_us: wall_us * dice.roll(80, 99) / 100,
                memory_bytes: dice.roll(3400, 3700) << 10,
            };
            *slot += wall_us + dice.roll(500, 1500);
            (index, 0, usage)
        });
        store.commit(&[reported(1, first + 1, vec![result(1, tasks.collect(), vec![])])]).unwrap();
    }
    let page = store.reader().finished(JobId(1), N_TASKS - 50..N_TASKS, 100).unwrap();
    assert_eq!(page.len(), 50);
    drop(store);
    let n_bytes = std::fs::metadata(folder.path().join(super::super::FILE)).unwrap().len();
    let each = n_bytes as f64 / N_TASKS as f64;
    assert!(each <= 8.0, "{each} bytes a success");
    println!("{each:.2} bytes a success");
}
