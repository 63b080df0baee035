//! The queue waits of a platform's allocations of one shape, and their relation to the queue load, if the
//! platform reports it.

use crate::time::Span;

/// Number of allocations that count as much as all before them: queues change within hours.
const MEMORY: f64 = 10.0;

/// Means in which recent queue waits count more.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Waits {
    /// Number of queue waits.
    pub n: u64,
    all: Mean,
    /// Queue waits of allocations for which cores were free.
    free: Mean,
    /// Queue waits in seconds of allocations for which a part of the cores had to become free; below, that
    /// part.
    busy: Mean,
    shortage: Mean,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Mean {
    weight: f64,
    sum: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        let kept = MEMORY / (self.weight + 1.0).max(MEMORY);
        self.weight = self.weight * kept + 1.0;
        self.sum = self.sum * kept + value;
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

impl Waits {
    /// Takes in one more queue wait. `shortage`: the part of the platform's cores that had to become free for
    /// the allocation when it was requested, if known
    /// ([`crate::engine::interface::platform::queue_load::QueueLoad::shortage`]).
    pub fn learn(&mut self, wait: Span, shortage: Option<f64>) {
        self.n += 1;
        self.all.add(wait.as_secs_f64());
        match shortage {
            Some(shortage) if shortage > 0.0 => {
                self.busy.add(wait.as_secs_f64());
                self.shortage.add(shortage);
            }
            Some(_) => self.free.add(wait.as_secs_f64()),
            None => {}
        }
    }

    /// Returns the mean queue wait in seconds; `None` before the first.
    pub fn mean_s(&self) -> Option<f64> {
        self.all.value()
    }

    /// Returns the expected queue wait in seconds of a new allocation. If cores are free: the mean of such
    /// waits; else proportional to the part that must become free, by earlier waits for busy cores. Before
    /// the first of these, other users' jobs are assumed to last `walltime`, like ours, and to be half done.
    /// `None`: nothing is known.
    pub fn expected_s(&self, shortage: Option<f64>, walltime: Option<Span>) -> Option<f64> {
        let Some(shortage) = shortage else { return self.mean_s() };
        let free_s = self.free.value().unwrap_or(0.0);
        if shortage <= 0.0 {
            return Some(free_s);
        }
        let turnover_s = match (self.busy.value(), self.shortage.value()) {
            (Some(wait_s), Some(shortage)) => Some(wait_s / shortage),
            _ => walltime.map(|walltime| walltime.as_secs_f64() / 2.0),
        };
        turnover_s.map(|turnover_s| (shortage * turnover_s).max(free_s)).or(self.mean_s())
    }

    /// Returns the remaining queue wait in seconds after a wait of `waited_s`. Beyond the mean it is as long
    /// again: with such varying waits, a long wait is likely to last longer.
    pub fn left_s(&self, waited_s: f64) -> f64 {
        let left_s = self.mean_s().unwrap_or(0.0) - waited_s;
        if left_s > 0.0 { left_s } else { waited_s }
    }
}

#[cfg(test)]
mod tests {
    use super::Waits;
    use crate::{engine::interface::QueueLoad, time::Span};

    #[test]
    fn queues_of_long_ago_count_less() {
        let mut waits = Waits::default();
        assert_eq!((waits.mean_s(), waits.left_s(3.0)), (None, 3.0));
        (0..100).for_each(|_| waits.learn(Span::from_secs(100), None));
        assert!((waits.mean_s().unwrap() - 100.0).abs() < 1e-9);
        assert_eq!((waits.left_s(30.0).round(), waits.left_s(300.0)), (70.0, 300.0));
        (0..20).for_each(|_| waits.learn(Span::from_secs(10), None));
        assert!(waits.mean_s().unwrap() < 25.0, "{waits:?}");
        assert_eq!(waits.n, 120);
    }

    #[test]
    fn what_is_expected_hangs_on_how_busy_the_platform_is() {
        let load = QueueLoad { free_cores: 8, cores: 100, n_waiting: 3, waiting_cores: 24 };
        assert_eq!((load.shortage(4), load.shortage(9)), (0.2, 0.25));
        assert_eq!(QueueLoad { waiting_cores: 0, ..load }.shortage(8), 0.0);

        let hour = Some(Span::from_secs(3600));
        let mut waits = Waits::default();
        assert_eq!(waits.expected_s(None, hour), None);
        assert_eq!(
            (waits.expected_s(Some(0.0), hour), waits.expected_s(Some(0.0), None)),
            (Some(0.0), Some(0.0))
        );
        assert_eq!(
            (waits.expected_s(Some(0.5), hour), waits.expected_s(Some(0.5), None)),
            (Some(900.0), None)
        );
        waits.learn(Span::from_secs(10), Some(0.0));
        waits.learn(Span::from_secs(300), Some(0.5));
        assert_eq!(waits.expected_s(None, hour), Some(155.0));
        assert_eq!(waits.expected_s(Some(0.0), hour), Some(10.0));
        assert_eq!(waits.expected_s(Some(1.0), hour), Some(600.0), "twice as much must come free");
        assert_eq!(waits.expected_s(Some(0.01), hour), Some(10.0), "no sooner than where cores are free");
    }
}
