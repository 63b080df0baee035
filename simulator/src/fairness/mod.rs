//! The world of paper 000 (Hwang, Kim and Choi, "Achieving Fairness-Aware Two-Level Scheduling for
//! Heterogeneous Distributed Systems"): its applications and platforms, and the interference of tasks on one
//! node.

mod claims;
pub mod published;
mod runs;
pub mod scenario;
pub mod simulation;
mod tables;
mod variants;

use scheduler::policy::mapping::Combination;

use crate::report::{Effort, Progress, Report};

use published::{ALONE, CORES_PER_NODE, MORE, PRESSURE, SCARCITY};

/// The largest slowdown by co-runners that the paper names (section 2.3).
const SLOWDOWN_MAX: f64 = 3.28;
/// Number of halvings of an interval: beyond the resolution of a float.
const N_HALVINGS: u32 = 100;

/// Regenerates the paper's tables and the claims of section 6: 100 runs of each of the 23 scenarios.
pub fn reproduce(effort: Effort, seed: u64, progress: &dyn Progress) -> Report {
    let interference = Interference::new();
    let scenarios = runs::scenarios(effort);
    let runs = runs::all(&scenarios, &interference, seed, progress);
    let mut parts = tables::parts();
    parts.extend(claims::parts(&scenarios, &runs));
    parts.extend(variants::parts(effort, &scenarios, &interference, seed, progress));
    Report {
        name: "fairness",
        paper: "Hwang, Kim and Choi, \"Achieving Fairness-Aware Two-Level Scheduling for Heterogeneous Distributed \
                Systems\", IEEE Transactions on Services Computing, 2018/2021 (paper 000)",
        effort,
        parts,
    }
}

/// Returns the combinations of applications that may share a node of this platform: each application alone,
/// two, or four of them with equal numbers of cores; not four on nodes of two cores. Members are in ascending
/// order.
pub fn combinations(platform: usize) -> Vec<Vec<usize>> {
    let n = ALONE.len();
    let mut all: Vec<Vec<usize>> = (0..n).map(|one| vec![one]).collect();
    all.extend((0..n).flat_map(|one| (one + 1..n).map(move |other| vec![one, other])));
    if CORES_PER_NODE[platform] >= 4 {
        all.extend((0..n).rev().map(|absent| (0..n).filter(|one| *one != absent).collect()));
    }
    all
}

/// Runtimes beside co-runners. Only averages are published. The model distributes them over the combinations
/// by the pressure of the co-runners on the resources that a task needs and that the platform is short of,
/// and keeps the averages.
#[derive(Clone, Debug)]
pub struct Interference {
    exponent: f64,
    /// The mean weight of the combinations, for each application (row) on each platform.
    mean_weights: [[f64; 4]; 5],
}

impl Interference {
    /// Finds the exponent for which the largest slowdown is the one in the paper.
    pub fn new() -> Interference {
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..N_HALVINGS {
            let exponent = f64::midpoint(low, high);
            if Interference::with_exponent(exponent).largest_slowdown() < SLOWDOWN_MAX {
                low = exponent;
            } else {
                high = exponent;
            }
        }
        Interference::with_exponent(f64::midpoint(low, high))
    }

    fn with_exponent(exponent: f64) -> Interference {
        let mean_weight = |application: usize, platform: usize| {
            let all = combinations(platform);
            let with = all.iter().filter(|members| members.contains(&application));
            let weights = with
                .map(|members| pressure_on(application, platform, &mix(platform, members)).powf(exponent));
            let (sum, n) = weights.fold((0.0, 0.0), |(sum, n), weight| (sum + weight, n + 1.0));
            sum / n
        };
        let row = |application| std::array::from_fn(|platform| mean_weight(application, platform));
        Interference { exponent, mean_weights: std::array::from_fn(row) }
    }

    /// Returns the seconds of a task of this application on a node. `mix`: the cores that run tasks of each
    /// application, its own included.
    pub fn runtime(&self, application: usize, platform: usize, mix: &[u64; 5]) -> f64 {
        let weight = pressure_on(application, platform, mix).powf(self.exponent);
        let share = weight / self.mean_weights[application][platform];
        ALONE[application][platform] + MORE[application][platform] * share
    }

    /// Returns all combinations of these applications, ascending, as users: the first application is user 0.
    pub fn combinations(&self, platform: usize, applications: &[usize]) -> Vec<Combination> {
        let user_of = |application: &usize| applications.iter().position(|other| other == application);
        let all = combinations(platform).into_iter();
        let of_users = all.filter_map(|applications| {
            let members = applications.iter().map(user_of).collect::<Option<Vec<_>>>()?;
            let mix = mix(platform, &applications);
            let runtimes = applications.iter().map(|one| self.runtime(*one, platform, &mix)).collect();
            Some(Combination { members, runtimes })
        });
        of_users.collect()
    }

    fn largest_slowdown(&self) -> f64 {
        let slowdowns = (0..CORES_PER_NODE.len()).flat_map(|platform| {
            combinations(platform).into_iter().flat_map(move |members| {
                let mix = mix(platform, &members);
                let slowdown = move |one: usize| self.runtime(one, platform, &mix) / ALONE[one][platform];
                members.into_iter().map(slowdown)
            })
        });
        slowdowns.fold(0.0, f64::max)
    }
}

impl Default for Interference {
    fn default() -> Interference {
        Interference::new()
    }
}

/// Returns the cores of each application on a node of this combination.
fn mix(platform: usize, members: &[usize]) -> [u64; 5] {
    let piece = CORES_PER_NODE[platform] / members.len() as u64;
    std::array::from_fn(|application| if members.contains(&application) { piece } else { 0 })
}

/// Returns the pressure of the other cores' tasks on the resources that a task of this application needs.
fn pressure_on(application: usize, platform: usize, mix: &[u64; 5]) -> f64 {
    let n_others = mix.iter().sum::<u64>().saturating_sub(1).max(1) as f64;
    let of_resource = |resource: usize| {
        let all: f64 = mix.iter().zip(&PRESSURE).map(|(n, pressure)| *n as f64 * pressure[resource]).sum();
        let mean_of_others = (all - PRESSURE[application][resource]) / n_others;
        SCARCITY[platform][resource] * PRESSURE[application][resource] * mean_of_others
    };
    (0..PRESSURE[0].len()).map(of_resource).sum()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_runs;
