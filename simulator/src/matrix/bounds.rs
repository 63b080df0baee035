//! The bounds of paper 004 for its workloads at any size. The graphs are regular, so a walk holds only one
//! path to the root at a time: 131 million tasks need no memory.

use scheduler::policy::stealing::bound::{self, Parent, Step, earliest_finish};

use super::{
    published::{DEGREE, RUN_S, TASKS_PER_CORE},
    workload::{Shape, Workload},
};
use crate::grid;

/// The level below which a tree is cut into parts that are walked in parallel; a workload without tree is cut
/// into as many pieces.
const CUT_LEVEL: u32 = 3;
const MICROSECONDS: f64 = 1e6;

/// The bounds of a workload on a number of cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Number of tasks.
    pub n_tasks: u64,
    /// Seconds of all tasks together.
    pub work_s: f64,
    /// Seconds of the critical path, with the best place for each task and no waiting.
    pub critical_path_s: f64,
    /// Seconds by the paper's eq. 1: the critical path if each task waits as long as the mean task does.
    pub paper_s: f64,
    /// Lower bound of the seconds of any schedule: the larger one of work / cores and the critical path.
    pub sound_s: f64,
}

impl Bounds {
    /// Returns the tasks per second by the paper's eq. 1.
    pub fn paper_eq1(&self) -> f64 {
        self.n_tasks as f64 / self.paper_s
    }

    /// Returns the upper bound of the tasks per second of any schedule.
    pub fn sound(&self) -> f64 {
        self.n_tasks as f64 / self.sound_s
    }
}

/// End of a critical path, computed with the paper's wait and without.
type Finish = [f64; 2];

/// Work and critical paths of a part of a graph.
#[derive(Clone, Copy, Debug, Default)]
struct Walked {
    work_us: u64,
    last: Finish,
}

impl Walked {
    fn and(self, other: Walked) -> Walked {
        Walked { work_us: self.work_us + other.work_us, last: later(self.last, other.last) }
    }
}

fn later(a: Finish, b: Finish) -> Finish {
    [a[0].max(b[0]), a[1].max(b[1])]
}

/// Computes the bounds of a workload on `n_cores` cores, with 1000 tasks for each (paper 004, section 3).
/// Descriptions of tasks are so small that sending them is free here; their size is not published.
pub fn of(workload: &Workload, n_cores: u64, bytes_per_s: f64) -> Bounds {
    let waits_s = [bound::mean_wait_s(TASKS_PER_CORE, RUN_S), 0.0];
    let walk = Walk { workload, waits_s, bytes_per_s };
    let walked = match workload.shape {
        Shape::FanOut => walk.fan_out(),
        Shape::FanIn => walk.fan_in(),
        Shape::Bot | Shape::Pipeline | Shape::AllPairs => walk.chains(),
    };
    let work_s = walked.work_us as f64 / MICROSECONDS;
    let [paper_s, critical_path_s] = walked.last;
    let sound_s = bound::sound(work_s, n_cores, critical_path_s);
    Bounds { n_tasks: workload.n_tasks, work_s, critical_path_s, paper_s, sound_s }
}

struct Walk<'a> {
    workload: &'a Workload,
    waits_s: Finish,
    bytes_per_s: f64,
}

impl Walk<'_> {
    /// Returns when a task can be finished, and the bytes and microseconds of its output and run. `parents`:
    /// (finish, bytes) of its parents.
    fn step(&self, task: u64, parents: &[(Finish, u64)]) -> (Finish, u64, u64) {
        let drawn = self.workload.draw(task);
        let run_s = drawn.run_us as f64 / MICROSECONDS;
        let finish = [0, 1].map(|lane| {
            let step = Step { run_s, send_s: 0.0, wait_s: self.waits_s[lane] };
            let parent = |(finish, bytes): &(Finish, u64)| Parent {
                finish_s: finish[lane],
                fetch_s: *bytes as f64 / self.bytes_per_s,
            };
            earliest_finish(&step, parents.iter().map(parent))
        });
        (finish, drawn.bytes, drawn.run_us)
    }

    /// Walks tasks alone or one after another.
    fn chains(&self) -> Walked {
        let n_pieces = DEGREE.pow(CUT_LEVEL);
        let n_each = self.workload.n_tasks.div_ceil(n_pieces).next_multiple_of(DEGREE);
        let starts: Vec<u64> = (0..self.workload.n_tasks).step_by(n_each.max(1) as usize).collect();
        let pieces = grid::map(&starts, &(), |start| {
            let mut walked = Walked::default();
            let mut before: Option<(Finish, u64)> = None;
            for task in *start..(start + n_each).min(self.workload.n_tasks) {
                let has_parent = self.workload.shape == Shape::Pipeline && !task.is_multiple_of(DEGREE);
                let parent = before.filter(|_| has_parent);
                let (finish, bytes, run_us) = self.step(task, parent.as_slice());
                before = Some((finish, bytes));
                walked = walked.and(Walked { work_us: run_us, last: finish });
            }
            walked
        });
        pieces.into_iter().fold(Walked::default(), Walked::and)
    }

    /// Returns the numbers of the tasks just below the cut: each is the top of its own tree.
    fn cut(&self) -> std::ops::Range<u64> {
        let from = (DEGREE.pow(CUT_LEVEL) - 1) / (DEGREE - 1);
        from.min(self.workload.n_tasks)..(DEGREE * from + 1).min(self.workload.n_tasks)
    }

    fn fan_out(&self) -> Walked {
        let cut = self.cut();
        let mut above: Vec<(Finish, u64)> = Vec::new();
        let mut walked = Walked::default();
        for task in 0..cut.start {
            let parent: Vec<(Finish, u64)> =
                self.workload.inputs(task).map(|at| above[at as usize]).collect();
            let (finish, bytes, run_us) = self.step(task, &parent);
            above.push((finish, bytes));
            walked = walked.and(Walked { work_us: run_us, last: finish });
        }
        let tops: Vec<u64> = cut.collect();
        let parts = grid::map(&tops, &(), |top| {
            let parent = above[((top - 1) / DEGREE) as usize];
            let mut walked = Walked::default();
            self.down(*top, parent, &mut walked);
            walked
        });
        parts.into_iter().fold(walked, Walked::and)
    }

    /// Walks from a task to the leaves; the recursion is as deep as the tree: ten levels are ten thousand
    /// million tasks.
    fn down(&self, task: u64, parent: (Finish, u64), walked: &mut Walked) {
        let (finish, bytes, run_us) = self.step(task, &[parent]);
        *walked = walked.and(Walked { work_us: run_us, last: finish });
        self.workload.dependents(task).for_each(|child| self.down(child, (finish, bytes), walked));
    }

    fn fan_in(&self) -> Walked {
        let cut = self.cut();
        let tops: Vec<u64> = cut.clone().collect();
        let parts = grid::map(&tops, &(), |top| {
            let mut walked = Walked::default();
            (self.up(*top, &[], 0, &mut walked), walked)
        });
        let mut walked = parts.iter().fold(Walked::default(), |sum, (_, part)| sum.and(*part));
        let known: Vec<(Finish, u64)> = parts.into_iter().map(|(finish, _)| finish).collect();
        if cut.start > 0 {
            self.up(0, &known, cut.start, &mut walked);
        }
        walked
    }

    /// Walks from the leaves to a task; takes the tasks from `first_known` on from `known`.
    fn up(&self, task: u64, known: &[(Finish, u64)], first_known: u64, walked: &mut Walked) -> (Finish, u64) {
        if let Some(at) = task.checked_sub(first_known).filter(|_| !known.is_empty()) {
            return known[at as usize];
        }
        let mut parents = [([0.0; 2], 0); DEGREE as usize];
        let mut n_parents = 0;
        for input in self.workload.inputs(task) {
            parents[n_parents] = self.up(input, known, first_known, walked);
            n_parents += 1;
        }
        let (finish, bytes, run_us) = self.step(task, &parents[..n_parents]);
        *walked = walked.and(Walked { work_us: run_us, last: finish });
        (finish, bytes)
    }
}

#[cfg(test)]
mod tests {
    use scheduler::policy::stealing::bound::{Parent, Step, earliest_finish};

    use super::{MICROSECONDS, of};
    use crate::matrix::workload::{SHAPES, Shape, Workload};

    const BYTES_PER_S: f64 = 125e6;

    /// Computes the bound over a stored graph, in any order that has parents first.
    fn by_storing(workload: &Workload, wait_s: f64) -> f64 {
        let n = workload.n_tasks as usize;
        let mut finishes = vec![0.0; n];
        let order: Vec<usize> = match workload.shape {
            Shape::FanIn => (0..n).rev().collect(),
            _ => (0..n).collect(),
        };
        for task in order {
            let drawn = workload.draw(task as u64);
            let parent = |at: u64| Parent {
                finish_s: finishes[at as usize],
                fetch_s: workload.draw(at).bytes as f64 / BYTES_PER_S,
            };
            let step = Step { run_s: drawn.run_us as f64 / MICROSECONDS, send_s: 0.0, wait_s };
            finishes[task] = earliest_finish(&step, workload.inputs(task as u64).map(parent));
        }
        finishes.into_iter().fold(0.0, f64::max)
    }

    #[test]
    fn the_walks_find_what_a_stored_graph_says() {
        for shape in SHAPES {
            for n_tasks in [1, 7, 111, 1112, 12_345] {
                let workload = Workload { shape, n_tasks, seed: 3 };
                let bounds = of(&workload, 4, BYTES_PER_S);
                assert_eq!(bounds.critical_path_s, by_storing(&workload, 0.0), "{shape:?}, {n_tasks}");
                assert_eq!(bounds.paper_s, by_storing(&workload, 24.975), "{shape:?}, {n_tasks}");
                assert!((bounds.work_s - workload.work_s()).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn eq_1_is_no_bound_for_a_bag_of_tasks() {
        let workload = Workload { shape: Shape::Bot, n_tasks: 200_000, seed: 1 };
        let bounds = of(&workload, 200, BYTES_PER_S);
        assert!(bounds.paper_eq1() > 1.9 * bounds.sound());
        assert!((bounds.sound_s - 50.0).abs() < 0.5);
    }
}
