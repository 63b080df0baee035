//! The same computation on many inputs, on all cores.

use std::{
    num::NonZero,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::report::Progress;

/// What `work` makes of each input, in their order; the same on any number of cores.
pub fn map<T: Sync, R: Send>(inputs: &[T], progress: &dyn Progress, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    progress.expect(inputs.len() as u64);
    let next = AtomicUsize::new(0);
    let some_of_them = || {
        let mut results = Vec::new();
        while let Some((n, input)) = {
            let n = next.fetch_add(1, Ordering::Relaxed);
            inputs.get(n).map(|input| (n, input))
        } {
            results.push((n, work(input)));
            progress.done();
        }
        results
    };
    let n_threads = thread::available_parallelism().map_or(1, NonZero::get).min(inputs.len().max(1));
    let mut results = thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(some_of_them)).collect();
        let ended = threads.into_iter().flat_map(|thread| match thread.join() {
            Ok(results) => results,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Vec<_>>()
    });
    results.sort_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order_of_the_inputs() {
        let inputs: Vec<u64> = (0..1000).collect();
        assert_eq!(super::map(&inputs, &(), |n| n * n), inputs.iter().map(|n| n * n).collect::<Vec<_>>());
        assert_eq!(super::map(&[], &(), |n: &u64| *n), Vec::<u64>::new());
    }
}
