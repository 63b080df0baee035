//! Estimates of tasks: how large one task of a job is compared with another, in any unit. Bin packing uses
//! them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Estimates are stored in millionths of their unit, so that jobs can be compared.
const MILLIONTHS: f64 = 1e6;

/// An estimate for each task. Consecutive tasks may share one, and the list of estimates repeats from its
/// start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskEstimates {
    /// Number of consecutive tasks that share an estimate; at least 1.
    every: u64,
    /// The estimates, repeated as often as necessary; never empty.
    millionths: Arc<[u64]>,
}

impl TaskEstimates {
    /// The largest estimate.
    pub const MAX: f64 = 1e12;

    /// Makes the estimates. `None`: there is none, or one is negative, larger than [`TaskEstimates::MAX`] or
    /// not a number.
    pub fn new(every: u64, estimates: impl IntoIterator<Item = f64>) -> Option<TaskEstimates> {
        let millionths = |estimate: f64| {
            (0.0..=TaskEstimates::MAX).contains(&estimate).then_some((estimate * MILLIONTHS) as u64)
        };
        let all: Option<Arc<[u64]>> = estimates.into_iter().map(millionths).collect();
        let millionths = all.filter(|all| !all.is_empty())?;
        Some(TaskEstimates { every: every.max(1), millionths })
    }

    /// Returns the estimate of the task at `index`, in millionths.
    pub fn millionths(&self, index: u64) -> u64 {
        let n = self.millionths.len().max(1) as u64;
        self.millionths.get((index / self.every.max(1) % n) as usize).copied().unwrap_or(0)
    }

    /// Returns the estimates of these tasks alone, numbered anew in this order; `None` if there are none.
    pub fn of_tasks(&self, indices: impl Iterator<Item = u64>) -> Option<TaskEstimates> {
        let millionths: Arc<[u64]> = indices.map(|index| self.millionths(index)).collect();
        (!millionths.is_empty()).then_some(TaskEstimates { every: 1, millionths })
    }
}

/// Converts an estimate from millionths to its unit.
pub fn in_units(millionths: u64) -> f64 {
    millionths as f64 / MILLIONTHS
}

#[cfg(test)]
mod tests {
    use super::{TaskEstimates, in_units};

    #[test]
    fn tasks_have_theirs_by_their_index() {
        let two = TaskEstimates::new(2, [1.5, 0.0, 3.0]).unwrap();
        let of = |index| in_units(two.millionths(index));
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(of), [1.5, 1.5, 0.0, 0.0, 3.0, 3.0, 1.5]);
        let some = two.of_tasks([1, 4, 6].into_iter()).unwrap();
        assert_eq!([0, 1, 2].map(|index| in_units(some.millionths(index))), [1.5, 3.0, 1.5]);
        assert_eq!(two.of_tasks(std::iter::empty()), None);
    }

    #[test]
    fn what_is_no_estimate_is_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, 2e12] {
            assert_eq!(TaskEstimates::new(1, [1.0, bad]), None, "{bad}");
        }
        assert_eq!(TaskEstimates::new(1, []), None);
    }
}
