//! The report's parts, one file each, and their common functions.

pub(super) mod all_pairs;
pub(super) mod bound;
pub(super) mod imbalance;
pub(super) mod laws;
pub(super) mod scaling;

use scheduler::policy::stealing::Stealing;

use super::{
    machine::{Outcome, Setting},
    published::TASKS_PER_CORE,
    workload::{Shape, Workload},
    world,
};
use crate::{
    grid,
    report::{Cell, Draws, Progress, Verdict},
};

/// The settings of the simulation, for the reports' texts.
const SETTING: &str = "Two threads a node, 125 MB/s into each node (not published: chosen, so that t = 0.5 \
    parts light data from heavy), 0.5 ms a message, 1 ms to dispatch a task, fetched data are kept. A task runs \
    0 to 100 ms and writes 0 to 10 MB, both drawn evenly; it is expected to run 50 ms.";

const MLB: Stealing = Stealing::Mlb;
const MDL: Stealing = Stealing::Mdl;
const RLDS: Stealing = Stealing::Rlds { t_percent: 50 };
/// FLDS with the tt of the paper's measurements.
const FLDS: Stealing = flds(10_000);

const fn flds(tt_ms: u64) -> Stealing {
    Stealing::Flds { t_percent: 50, tt_ms, is_adaptive: false }
}

/// Returns the name that the paper uses.
fn name(policy: Stealing) -> String {
    match policy {
        Stealing::None => "none".into(),
        Stealing::Mlb => "MLB".into(),
        Stealing::Mdl => "MDL".into(),
        Stealing::Rlds { .. } => "RLDS".into(),
        FLDS | Stealing::Flds { is_adaptive: true, .. } => "FLDS".into(),
        Stealing::Flds { tt_ms, .. } => format!("FLDS, tt {} s", tt_ms as f64 / 1e3),
        Stealing::Lend => "lend".into(),
    }
}

/// Makes a machine of `n_cores` cores, two for each node.
fn machine(n_cores: u64, policy: Stealing) -> Setting {
    let setting = Setting::default();
    Setting { policy, n_nodes: (n_cores / u64::from(setting.n_threads)) as u32, ..setting }
}

/// Makes a workload with 1000 tasks for each core.
fn workload(shape: Shape, n_cores: u64, seed: u64) -> Workload {
    Workload { shape, n_tasks: n_cores * TASKS_PER_CORE, seed }
}

/// Runs all workloads, the ones with most tasks first, so that no core has a long one alone at the end.
fn run_all(runs: &[(Workload, Setting)], progress: &dyn Progress) -> Vec<Outcome> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(runs[*at].0.n_tasks));
    let outcomes = grid::map(&order, progress, |at| world::run(&runs[*at].0, &runs[*at].1));
    let mut in_order: Vec<(usize, Outcome)> = order.into_iter().zip(outcomes).collect();
    in_order.sort_by_key(|(at, _)| *at);
    in_order.into_iter().map(|(_, outcome)| outcome).collect()
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    Draws::of(values).mean
}

/// Returns the reason why a claim is not checked with little effort.
fn only_full(what: &str) -> Verdict {
    Verdict::not_run(format!("{what} only with the full effort"))
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

fn drawn(draws: Draws, n_digits: usize) -> Cell {
    Cell::Mean(draws, n_digits)
}

fn number(value: f64, n_digits: usize) -> Cell {
    Cell::Number(value, n_digits)
}

fn seeds(n: u64, seed: u64) -> Vec<u64> {
    (0..n).map(|more| seed.wrapping_add(more)).collect()
}
