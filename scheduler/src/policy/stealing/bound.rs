//! Lower bounds for every policy: the earliest time at which a workflow can be done (paper 004, section 3).

/// A task whose output another task needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parent {
    /// The earliest time at which it can be finished, in seconds.
    pub finish_s: f64,
    /// Seconds to fetch its output from elsewhere.
    pub fetch_s: f64,
}

/// The properties of a task that the bound uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Seconds that it runs.
    pub run_s: f64,
    /// Seconds to send the task itself to its place; a task without parents does not pay them.
    pub send_s: f64,
    /// Seconds that it waits in a queue (the paper's t_qwait); 0 for a sound bound.
    pub wait_s: f64,
}

/// Returns the earliest time at which a task can be finished (the paper's t_ef).
///
/// With parents it runs where one of them ran (case 2): the output of this parent is there, the others are
/// fetched. Another place (case 1) is never earlier, because all outputs are fetched there. The best place
/// has the output that would come last, so one pass over the parents is enough.
pub fn earliest_finish(step: &Step, parents: impl IntoIterator<Item = Parent>) -> f64 {
    let own = step.wait_s + step.run_s;
    let mut parents = parents.into_iter();
    let Some(first) = parents.next() else { return own };
    let (mut last, mut others) = (first, 0.0_f64);
    for parent in parents {
        let (earlier, later) = if comes(&parent) > comes(&last) { (last, parent) } else { (parent, last) };
        last = later;
        others = others.max(comes(&earlier));
    }
    last.finish_s.max(others) + step.send_s + own
}

fn comes(parent: &Parent) -> f64 {
    parent.finish_s + parent.fetch_s
}

/// Returns the seconds below which no schedule on `n_cores` cores ends: all work, perfectly divided, or the
/// critical path ([`earliest_finish`] without waits).
pub fn sound(work_s: f64, n_cores: u64, critical_path_s: f64) -> f64 {
    (work_s / n_cores.max(1) as f64).max(critical_path_s)
}

/// Returns the mean seconds that each of `n` tasks of `run_s` waits in the queue of a core that gets them all
/// at once. The paper uses it in t_ef as t_qwait of every task (eq. 1), which gives no bound: half of the
/// tasks wait longer, and a chain of tasks would wait in every link.
pub fn mean_wait_s(n: u64, run_s: f64) -> f64 {
    n.saturating_sub(1) as f64 / 2.0 * run_s
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Parent, Step, earliest_finish, mean_wait_s, sound};

    #[test]
    fn a_small_graph_worked_out_by_hand() {
        let run_s = [1.0, 2.0, 3.0, 1.0, 2.0, 1.0];
        let bytes = [100.0, 50.0, 200.0, 10.0, 80.0, 0.0];
        let parents: [&[usize]; 6] = [&[], &[], &[], &[0, 1], &[1, 2], &[3, 4]];
        let mut finishes: Vec<f64> = Vec::new();
        for task in 0..6 {
            let parent = |at: &usize| Parent { finish_s: finishes[*at], fetch_s: bytes[*at] / 100.0 };
            let step = Step { run_s: run_s[task], send_s: 10.0 / 100.0, wait_s: 0.5 };
            finishes.push(earliest_finish(&step, parents[task].iter().map(parent)));
        }
        for (ours, expected) in finishes.iter().zip([1.5, 2.5, 3.5, 4.1, 6.1, 7.7]) {
            assert!((ours - expected).abs() < 1e-9, "{finishes:?}");
        }
    }

    #[test]
    fn the_papers_mean_wait_and_what_it_leads_to() {
        let wait_s = mean_wait_s(1000, 0.05);
        assert!((wait_s - 24.975).abs() < 1e-12);
        // Twice as much work as the cores can do: 50 s of work for each, but 25 s by the paper's bound.
        assert!((sound(131_072.0 * 50.0, 131_072, wait_s + 0.05) - 50.0).abs() < 1e-12);
        assert!((sound(1.0, 0, 7.0) - 7.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn one_pass_finds_the_best_of_all_places(parents in prop::collection::vec((0.0..9.0f64, 0.0..9.0f64), 1..8)) {
            let parents: Vec<Parent> =
                parents.into_iter().map(|(finish_s, fetch_s)| Parent { finish_s, fetch_s }).collect();
            let at = |here: usize| {
                let all = parents.iter().enumerate();
                let comes = all.map(|(n, p)| p.finish_s + if n == here { 0.0 } else { p.fetch_s });
                comes.fold(0.0, f64::max)
            };
            let best = (0..parents.len()).map(at).fold(f64::INFINITY, f64::min);
            let step = Step { run_s: 1.0, send_s: 0.0, wait_s: 0.0 };
            let ours = earliest_finish(&step, parents.iter().copied());
            prop_assert!((ours - best - 1.0).abs() < 1e-12);
        }
    }
}
