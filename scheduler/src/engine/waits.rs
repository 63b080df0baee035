//! How long allocations have waited for their first pilot: what a platform's queue is like for those of our shape.

use crate::time::Span;

/// Allocations that count as much as all before them: queues change within hours.
const MEMORY: f64 = 10.0;

/// A mean that forgets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Waits {
    /// How many have come.
    pub n: u64,
    weight: f64,
    sum_s: f64,
}

impl Waits {
    /// One more has come, after so long.
    pub fn learn(&mut self, wait: Span) {
        let kept = MEMORY / (self.weight + 1.0).max(MEMORY);
        self.n += 1;
        self.weight = self.weight * kept + 1.0;
        self.sum_s = self.sum_s * kept + wait.as_secs_f64();
    }

    /// Seconds from its intent to its first pilot; `None` before the first.
    pub fn mean_s(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum_s / self.weight)
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
    use crate::time::Span;

    #[test]
    fn queues_of_long_ago_count_less() {
        let mut waits = Waits::default();
        assert_eq!((waits.mean_s(), waits.left_s(3.0)), (None, 3.0));
        (0..100).for_each(|_| waits.learn(Span::from_secs(100)));
        assert!((waits.mean_s().unwrap() - 100.0).abs() < 1e-9);
        assert_eq!((waits.left_s(30.0).round(), waits.left_s(300.0)), (70.0, 300.0));
        (0..20).for_each(|_| waits.learn(Span::from_secs(10)));
        assert!(waits.mean_s().unwrap() < 25.0, "{waits:?}");
        assert_eq!(waits.n, 120);
    }
}
