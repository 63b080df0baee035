//! The workloads of paper 004 as rules: the runtime, output and inputs of a task follow from its number and
//! the seed, so no graph is stored, however many tasks there are.

use scheduler::rng::Rng;

use super::published::{ALL_PAIRS_RUN_S, DEGREE, FILE_BYTES, RUN_S};

/// Largest output of a task in bytes; each is drawn between 0 and this.
const OUTPUT_BYTES_MAX: u64 = 10_000_000;
const MICROSECONDS: f64 = 1e6;

/// The dependencies between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A bag: no task needs another.
    Bot,
    /// Pipes of ten tasks, each needs the one before it.
    Pipeline,
    /// A tree from the root: each task has ten children, which read its output.
    FanOut,
    /// The same tree towards the root: each task reads the outputs of ten.
    FanIn,
    /// Each file is compared with each: tasks need files and no other task.
    AllPairs,
}

/// The workloads, in the order of all rows.
pub const SHAPES: [Shape; 4] = [Shape::Bot, Shape::Pipeline, Shape::FanOut, Shape::FanIn];

impl Shape {
    /// Returns the name that the paper uses.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Bot => "BOT",
            Shape::Pipeline => "Pipeline",
            Shape::FanOut => "Fan-Out",
            Shape::FanIn => "Fan-In",
            Shape::AllPairs => "all-pairs",
        }
    }
}

/// A workload: its tasks are numbered from 0. The root of a tree is 0; the children of task v are 10 v + 1 to
/// 10 v + 10.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The dependencies between tasks.
    pub shape: Shape,
    /// Number of tasks.
    pub n_tasks: u64,
    /// The seed of runtimes and outputs.
    pub seed: u64,
}

/// The runtime and the output of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Runtime in microseconds.
    pub run_us: u64,
    /// Bytes of output.
    pub bytes: u64,
}

impl Workload {
    /// Draws the runtime and output of a task. For all-pairs the runtime is fixed, and the bytes are those of
    /// an input file.
    pub fn draw(&self, task: u64) -> Drawn {
        if self.shape == Shape::AllPairs {
            return Drawn { run_us: (ALL_PAIRS_RUN_S * MICROSECONDS) as u64, bytes: FILE_BYTES };
        }
        let mut luck = Rng::of(self.seed, &[task]);
        let run_us = luck.below((2.0 * RUN_S * MICROSECONDS) as u64 + 1);
        Drawn { run_us, bytes: luck.below(OUTPUT_BYTES_MAX + 1) }
    }

    /// Returns the mean runtime of a task in seconds, which a pilot expects.
    pub fn mean_run_s(&self) -> f64 {
        if self.shape == Shape::AllPairs { ALL_PAIRS_RUN_S } else { RUN_S }
    }

    /// Returns the tasks (for all-pairs: files) whose output a task reads.
    pub fn inputs(&self, task: u64) -> impl Iterator<Item = u64> {
        let (from, n, pair) = match self.shape {
            Shape::Bot => (0, 0, None),
            Shape::Pipeline => (task.wrapping_sub(1), u64::from(!task.is_multiple_of(DEGREE)), None),
            Shape::FanOut => (task.wrapping_sub(1) / DEGREE, u64::from(task > 0), None),
            Shape::FanIn => (DEGREE * task + 1, self.n_children(task), None),
            Shape::AllPairs => (task / self.n_files(), 1, Some(task % self.n_files())),
        };
        (from..from + n).chain(pair)
    }

    /// Returns the tasks that read the output of this one.
    pub fn dependents(&self, task: u64) -> std::ops::Range<u64> {
        let (from, n) = match self.shape {
            Shape::Bot | Shape::AllPairs => (0, 0),
            Shape::Pipeline => {
                let is_last = (task + 1).is_multiple_of(DEGREE) || task + 1 == self.n_tasks;
                (task + 1, u64::from(!is_last))
            }
            Shape::FanOut => (DEGREE * task + 1, self.n_children(task)),
            Shape::FanIn => (task.wrapping_sub(1) / DEGREE, u64::from(task > 0)),
        };
        from..from + n
    }

    /// Returns the number of children of a task in a tree.
    fn n_children(&self, task: u64) -> u64 {
        self.n_tasks.saturating_sub(DEGREE * task + 1).min(DEGREE)
    }

    /// Returns the number of files that exist from the start: those of all-pairs, whose tasks are all pairs
    /// of them.
    pub fn n_files(&self) -> u64 {
        if self.shape == Shape::AllPairs { self.n_tasks.isqrt() } else { 0 }
    }

    /// Returns the seconds of all tasks together. Draws every task: O(tasks).
    pub fn work_s(&self) -> f64 {
        let us: u64 = (0..self.n_tasks).map(|task| self.draw(task).run_us).sum();
        us as f64 / MICROSECONDS
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Workload};

    #[test]
    fn inputs_and_dependents_are_the_same_arrows() {
        for shape in [Shape::Bot, Shape::Pipeline, Shape::FanOut, Shape::FanIn] {
            for n_tasks in [1, 2, 9, 10, 11, 25, 111, 237] {
                let workload = Workload { shape, n_tasks, seed: 1 };
                let tasks = || 0..n_tasks;
                let mut down: Vec<(u64, u64)> =
                    tasks().flat_map(|task| workload.dependents(task).map(move |to| (task, to))).collect();
                let mut up: Vec<(u64, u64)> =
                    tasks().flat_map(|task| workload.inputs(task).map(move |from| (from, task))).collect();
                down.sort_unstable();
                up.sort_unstable();
                assert_eq!(down, up, "{shape:?}, {n_tasks}");
                assert!(down.iter().all(|(from, to)| *from < n_tasks && *to < n_tasks));
            }
        }
    }

    #[test]
    fn trees_have_ten_children_and_pipes_ten_tasks() {
        let of = |shape| Workload { shape, n_tasks: 1000, seed: 1 };
        assert_eq!(of(Shape::FanOut).dependents(3), 31..41);
        assert_eq!(of(Shape::FanIn).inputs(3).collect::<Vec<_>>(), (31..41).collect::<Vec<_>>());
        assert_eq!(of(Shape::Pipeline).dependents(19), 20..20);
        assert_eq!(of(Shape::Pipeline).inputs(19).collect::<Vec<_>>(), [18]);
        let pairs = Workload { n_tasks: 25, ..of(Shape::AllPairs) };
        assert_eq!(pairs.inputs(13).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn tasks_run_fifty_milliseconds_on_average() {
        let workload = Workload { shape: Shape::Bot, n_tasks: 100_000, seed: 1 };
        assert!((workload.work_s() / 100_000.0 - 0.05).abs() < 2e-4, "{}", workload.work_s());
    }
}
