//! Computes how many tasks a pilot with a long own queue shares with the others (FLDS, paper 004).

use super::Stealing;

/// The largest number of doublings of tt: beyond it no queue is too long.
const N_DOUBLINGS_MAX: u32 = 20;

/// The limit of a pilot's own queue. One for each pilot, evaluated every second.
#[derive(Clone, Debug)]
pub struct Relief {
    tt_s: f64,
    n_doublings: u32,
    is_adaptive: bool,
}

impl Relief {
    /// Makes the limit of this policy; `None` if the policy never moves a task.
    pub fn of(policy: Stealing) -> Option<Relief> {
        match policy {
            Stealing::Flds { tt_ms, is_adaptive, .. } => {
                Some(Relief { tt_s: tt_ms as f64 / 1e3, n_doublings: 0, is_adaptive })
            }
            Stealing::None | Stealing::Mlb | Stealing::Mdl | Stealing::Rlds { .. } | Stealing::Lend => None,
        }
    }

    /// Returns how many tasks of the own queue to share. With `n_own` tasks in it and `tasks_per_s` finished
    /// here, it is est = n_own / tasks_per_s long; beyond tt, the part (est - tt) / est is shared. Returns 0
    /// while no task was finished, because est is unknown.
    pub fn n_to_share(&mut self, n_own: usize, tasks_per_s: f64) -> usize {
        let n_kept = self.limit_s() * tasks_per_s;
        let n = if tasks_per_s > 0.0 { (n_own as f64 - n_kept).max(0.0) as usize } else { 0 };
        if self.is_adaptive {
            // The paper doubles. Halving is ours, so that the effect of one long queue ends.
            let n_doublings = if n > 0 { self.n_doublings + 1 } else { self.n_doublings.saturating_sub(1) };
            self.n_doublings = n_doublings.min(N_DOUBLINGS_MAX);
        }
        n
    }

    fn limit_s(&self) -> f64 {
        self.tt_s * 2_f64.powi(self.n_doublings as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::{Relief, Stealing};

    fn relief(tt_ms: u64, is_adaptive: bool) -> Relief {
        Relief::of(Stealing::Flds { t_percent: 50, tt_ms, is_adaptive }).unwrap()
    }

    #[test]
    fn the_papers_example_moves_two_thousand() {
        // 1000 tasks in 10 s, 5000 waiting: 50 s of work, which is 20 s too much.
        let mut relief = relief(30_000, false);
        assert_eq!([(); 3].map(|()| relief.n_to_share(5000, 1000.0 / 10.0)), [2000; 3], "tt stays");
    }

    #[test]
    fn short_queues_and_unknown_lengths_are_left_alone() {
        let mut relief = relief(30_000, false);
        assert_eq!(relief.n_to_share(3000, 100.0), 0);
        assert_eq!(relief.n_to_share(5000, 0.0), 0);
        assert!(Relief::of(Stealing::Rlds { t_percent: 50 }).is_none());
    }

    #[test]
    fn the_limit_doubles_after_each_move_and_halves_back_to_the_start() {
        let mut relief = relief(10_000, true);
        let limits: Vec<f64> = [5000, 5000, 5000, 0, 0, 0, 0]
            .map(|n_own| {
                relief.n_to_share(n_own, 100.0);
                relief.limit_s()
            })
            .into();
        assert_eq!(limits, [20.0, 40.0, 80.0, 40.0, 20.0, 10.0, 10.0]);
        assert_eq!((relief.n_to_share(1001, 100.0), relief.limit_s()), (1, 20.0), "one is a move too");
        (0..30).for_each(|_| assert!(relief.n_to_share(usize::MAX, 1.0) > 0));
        assert_eq!(relief.limit_s(), 10.0 * f64::from(1 << 20), "not too long ever to come back");
    }
}
