//! How long allocations have waited for their first pilot: what a platform's queue is like for those of a shape, and
//! how that hangs on how busy the platform is, where it says so.

use crate::time::Span;

/// Allocations that count as much as all before them: queues change within hours.
const MEMORY: f64 = 10.0;

/// Means that forget.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Waits {
    /// How many have come.
    pub n: u64,
    all: Mean,
    /// Of those for which cores were free.
    free: Mean,
    /// Of those for which a part of the cores had to come free: seconds, and that part.
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
    /// One more has come, after so long. `shortage`: of the platform's cores, as a part of all, that had to come free
    /// for it when it was asked for ([`crate::engine::interface::platform::queue_load::QueueLoad::shortage`]), where that is known.
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

    /// Seconds from its intent to its first pilot; `None` before the first.
    pub fn mean_s(&self) -> Option<f64> {
        self.all.value()
    }

    /// Seconds that one waits which is asked for now: where cores are free as long as those for which some were, else in
    /// proportion to what must come free, as those waited for which some had to. Before the first of those, as if others'
    /// jobs last as ours may, `walltime`, and are half through. `None` where nothing is known.
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

    /// Seconds that one waits yet which has waited so long. Beyond the mean nothing is known but that: then as long
    /// again (where waits are of any length, what has waited long is likely to wait longer).
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
