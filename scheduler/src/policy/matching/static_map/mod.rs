//! Matching ahead of time: assigns every task to a machine before the first begins, by the time of each task
//! on each machine (the task-level heuristics with which paper 002, section 4, compares; Braun et al., JPDC
//! 61, 2001). A machine runs one task at a time.

mod max_std;
mod min_min;
mod sufferage;

use serde::{Deserialize, Serialize};

use super::super::table::Table;

/// The policies that map tasks ahead of time, by their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StaticMap {
    /// The task that can end first goes first: see `min_min.rs`.
    MinMin,
    /// The task whose times differ most between machines goes first: see `max_std.rs`.
    MaxStd,
    /// The task that loses most elsewhere keeps its machine: see `sufferage.rs`.
    Sufferage,
}

impl StaticMap {
    /// Assigns each task to a machine.
    ///
    /// `times`: seconds of each task (row) on each machine (column), overhead included; not negative and
    /// never NaN. Ties go to the lowest task, then to the lowest machine. Without machines nothing is
    /// assigned. O(tasks × machines) for MaxStd and in most cases for MinMin; multiplied by the number of
    /// rounds for Sufferage.
    pub fn assign(self, times: &Table<f64>) -> Vec<Assignment> {
        let floor = Floor::new(times);
        if times.n_columns() == 0 {
            return Vec::new();
        }
        match self {
            StaticMap::MinMin => min_min::assign(floor),
            StaticMap::MaxStd => max_std::assign(floor),
            StaticMap::Sufferage => sufferage::assign(floor),
        }
    }
}

/// A task on a machine. The assignments of a machine are in the order in which it runs them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assignment {
    /// The row of the task.
    pub task: usize,
    /// The column of the machine.
    pub machine: usize,
    /// When it ends, in seconds after the first tasks begin.
    pub end: f64,
}

/// The state of the machines during the assignment.
struct Floor<'a> {
    times: &'a Table<f64>,
    /// When each machine has run all tasks assigned to it.
    free_at: Vec<f64>,
    given: Vec<Assignment>,
}

impl<'a> Floor<'a> {
    fn new(times: &'a Table<f64>) -> Floor<'a> {
        Floor { times, free_at: vec![0.0; times.n_columns()], given: Vec::with_capacity(times.n_rows()) }
    }

    /// Returns the machine where the task would end first, that end, and the end on the best other machine.
    fn best(&self, task: usize) -> Best {
        let mut best = Best { machine: 0, end: f64::INFINITY, second: f64::INFINITY };
        let ends = self.times.row(task).iter().zip(&self.free_at).map(|(time, free_at)| free_at + time);
        for (machine, end) in ends.enumerate() {
            if end < best.end {
                best = Best { machine, end, second: best.end };
            } else if end < best.second {
                best.second = end;
            }
        }
        best
    }

    fn give(&mut self, task: usize, best: Best) {
        self.free_at[best.machine] = best.end;
        self.given.push(Assignment { task, machine: best.machine, end: best.end });
    }
}

#[derive(Clone, Copy)]
struct Best {
    machine: usize,
    end: f64,
    second: f64,
}

#[cfg(test)]
mod tests;
