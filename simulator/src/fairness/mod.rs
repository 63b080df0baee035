//! The world of paper 000 (Hwang, Kim and Choi, "Achieving Fairness-Aware Two-Level Scheduling for
//! Heterogeneous Distributed Systems"): its applications and platforms, and what tasks on one node do to
//! each other.

pub mod published;

use scheduler::policy::mapping::Combination;

use published::{ALONE, CORES_PER_NODE, MORE, PRESSURE, SCARCITY};

/// The largest slowdown by co-runners that the paper names (section 2.3).
const SLOWDOWN_MAX: f64 = 3.28;
/// So often an interval is halved: beyond what a float can tell apart.
const N_HALVINGS: u32 = 100;

/// Who may share a node of this platform: each application alone, two, or four of them with the same number
/// of cores each; not four on nodes of two cores. Members in ascending order.
pub fn combinations(platform: usize) -> Vec<Vec<usize>> {
    let n = ALONE.len();
    let mut all: Vec<Vec<usize>> = (0..n).map(|one| vec![one]).collect();
    all.extend((0..n).flat_map(|one| (one + 1..n).map(move |other| vec![one, other])));
    if CORES_PER_NODE[platform] >= 4 {
        all.extend((0..n).rev().map(|absent| (0..n).filter(|one| *one != absent).collect()));
    }
    all
}

/// Runtimes beside others. Only averages are published; the model spreads them over the combinations by how
/// much the other cores' tasks press on what a task needs and the platform is short of, and keeps the averages.
#[derive(Clone, Debug)]
pub struct Interference {
    exponent: f64,
}

impl Interference {
    /// With the exponent for which the largest slowdown is the one that the paper names.
    pub fn new() -> Interference {
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..N_HALVINGS {
            let exponent = f64::midpoint(low, high);
            if (Interference { exponent }).largest_slowdown() < SLOWDOWN_MAX {
                low = exponent;
            } else {
                high = exponent;
            }
        }
        Interference { exponent: f64::midpoint(low, high) }
    }

    /// Seconds of a task of this application beside these, itself among them.
    pub fn runtime(&self, application: usize, platform: usize, members: &[usize]) -> f64 {
        let weight = |members: &[usize]| pressure_on(application, platform, members).powf(self.exponent);
        let all = combinations(platform);
        let weights = all.iter().filter(|members| members.contains(&application)).map(|m| weight(m));
        let (sum, n) = weights.fold((0.0, 0.0), |(sum, n), weight| (sum + weight, n + 1.0));
        ALONE[application][platform] + MORE[application][platform] * weight(members) * n / sum
    }

    /// All combinations with the runtimes of their members.
    pub fn combinations(&self, platform: usize) -> Vec<Combination> {
        let all = combinations(platform).into_iter();
        let with_runtimes = all.map(|members| Combination {
            runtimes: members.iter().map(|one| self.runtime(*one, platform, &members)).collect(),
            members,
        });
        with_runtimes.collect()
    }

    fn largest_slowdown(&self) -> f64 {
        let slowdowns = (0..CORES_PER_NODE.len()).flat_map(|platform| {
            let all = self.combinations(platform).into_iter();
            all.flat_map(move |combination| {
                let both = combination.members.into_iter().zip(combination.runtimes);
                both.map(move |(one, runtime)| runtime / ALONE[one][platform])
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

/// How hard the other cores' tasks press on what a task of this application needs.
fn pressure_on(application: usize, platform: usize, members: &[usize]) -> f64 {
    let piece = CORES_PER_NODE[platform] as f64 / members.len() as f64;
    let n_others = CORES_PER_NODE[platform] as f64 - 1.0;
    let of_resource = |resource: usize| {
        let all: f64 = members.iter().map(|one| PRESSURE[*one][resource] * piece).sum();
        let mean_of_others = (all - PRESSURE[application][resource]) / n_others;
        SCARCITY[platform][resource] * PRESSURE[application][resource] * mean_of_others
    };
    (0..PRESSURE[0].len()).map(of_resource).sum()
}

#[cfg(test)]
mod tests;
