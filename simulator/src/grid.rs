//! Runs the same computation on many inputs, on all cores.

use std::{
    num::NonZero,
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::report::Progress;

/// Computes each number and passes the result to `done`, in no particular order, from one thread at a time.
pub fn each<R>(numbers: Range<u64>, work: impl Fn(u64) -> R + Sync, done: impl FnMut(u64, R) + Send) {
    // Counted from 0: a counter that begins near the largest number would wrap around.
    let n_all = numbers.end.saturating_sub(numbers.start);
    let next = AtomicU64::new(0);
    let done = Mutex::new(done);
    let some_of_them = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= n_all {
                return;
            }
            let result = work(numbers.start + n);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done(numbers.start + n, result);
        }
    };
    let n_cores = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_cores.min(n_all)).map(|_| scope.spawn(some_of_them)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

/// Returns the result of `work` for each input, in their order; the same on any number of cores.
pub fn map<T: Sync, R: Send>(inputs: &[T], progress: &dyn Progress, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    progress.expect(inputs.len() as u64);
    let mut results = Vec::with_capacity(inputs.len());
    each(
        0..inputs.len() as u64,
        |n| work(&inputs[n as usize]),
        |n, result| {
            results.push((n, result));
            progress.done();
        },
    );
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::panic;

    #[test]
    fn each_number_is_worked_on_once_up_to_the_largest() {
        for numbers in [3..1003, 5..5, u64::MAX - 1000..u64::MAX] {
            let mut told = Vec::new();
            let work = |n| {
                assert!(numbers.contains(&n), "{n} is not of {numbers:?}");
                n / 2
            };
            super::each(numbers.clone(), work, |n, half| told.push((n, half)));
            told.sort_unstable();
            assert_eq!(told, numbers.map(|n| (n, n / 2)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_of_the_work_comes_through_with_its_words() {
        let work = || super::each(0..10, |n| assert!(n != 7, "number {n}"), |_, ()| {});
        let words = panic::catch_unwind(work).unwrap_err().downcast::<String>();
        assert_eq!(*words.expect("it has words"), "number 7");
    }

    #[test]
    fn results_keep_the_order_of_the_inputs() {
        let inputs: Vec<u64> = (0..1000).collect();
        assert_eq!(super::map(&inputs, &(), |n| n * n), inputs.iter().map(|n| n * n).collect::<Vec<_>>());
        assert_eq!(super::map(&[], &(), |n: &u64| *n), Vec::<u64>::new());
    }
}
