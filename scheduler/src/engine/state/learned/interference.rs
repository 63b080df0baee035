//! The slow-down of a task by other applications on its node: the co-runner affinities of paper 000 (section
//! 4.2), measured as tasks end.

use std::collections::BTreeMap;

use crate::{
    engine::record::co_runners::{CoRunTimes, CoRunners},
    ids::PlatformId,
    time::Span,
};

/// Number of attempts that count as much as all before them.
const MEMORY: f64 = 200.0;

/// The most combinations of co-runners kept for an application on a platform; those of the least weight are
/// forgotten.
const N_COMPANIES_MAX: usize = 64;

/// The assumed runtime beside co-runners that were never tried, relative to the runtime alone.
const UNTRIED: f64 = 0.99;

/// The time after which measurements are recorded.
pub(in crate::engine) const KEPT_AFTER: Span = Span::from_secs(10);

/// The same for co-runners without earlier measurements, or in a profiling run, where somebody waits for
/// them.
pub(in crate::engine) const NEW_AFTER: Span = Span::from_secs(1);

/// Numbers of applications that may share a node by mapping policies (the paper's AllCore, TwoApp and
/// FourApp). Other numbers are not measured.
pub(in crate::engine) const N_MEMBERS: [usize; 3] = [1, 2, 4];

/// A mean in which recent attempts count more.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Known {
    /// Number of all successful attempts.
    pub n: u64,
    weight: f64,
    wall_s: f64,
}

impl Known {
    /// Returns the mean runtime in seconds.
    pub fn mean_s(&self) -> f64 {
        self.wall_s / self.weight
    }

    fn learn(&mut self, n: u64, wall_us: u64) {
        let kept = MEMORY / self.weight.max(MEMORY);
        self.n = self.n.saturating_add(n);
        self.weight = self.weight * kept + n as f64;
        self.wall_s = self.wall_s * kept + wall_us as f64 / 1e6;
    }
}

/// The mean runtimes by platform, application and co-runners.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Interference(BTreeMap<PlatformId, BTreeMap<String, BTreeMap<CoRunners, Known>>>);

impl Interference {
    /// Takes in the measurements of a platform.
    pub fn learn(&mut self, platform: PlatformId, all: &[CoRunTimes]) {
        for CoRunTimes { application, company, n, wall_us } in all.iter().filter(|one| one.n > 0) {
            let known = self.0.entry(platform).or_default().entry(application.clone()).or_default();
            known.entry(company.clone()).or_default().learn(*n, *wall_us);
            if known.len() > N_COMPANIES_MAX {
                let others = known.iter().filter(|(held, _)| *held != company);
                let least = others.min_by(|(_, a), (_, b)| a.weight.total_cmp(&b.weight));
                if let Some(least) = least.map(|(company, _)| company.clone()) {
                    known.remove(&least);
                }
            }
        }
    }

    /// Forgets an application, both its runtimes and its effect on others.
    pub fn forget(&mut self, application: &str) {
        for known in self.0.values_mut() {
            known.remove(application);
            known.values_mut().for_each(|companies| companies.retain(|company, _| !company.has(application)));
        }
    }

    /// Returns the measurements of an application on a platform.
    pub fn of(&self, platform: PlatformId, application: &str) -> Option<&BTreeMap<CoRunners, Known>> {
        self.0.get(&platform)?.get(application)
    }

    /// Returns the measured runtime of a task in seconds beside these other applications (sorted) on a full
    /// node.
    pub fn measured_s(&self, platform: PlatformId, application: &str, others: &[&str]) -> Option<f64> {
        let known = self.of(platform, application)?;
        let others = others.iter().map(|one| (*one).to_owned()).collect();
        known.get(&CoRunners::Full(others)).map(Known::mean_s)
    }

    /// Returns the same, measured or guessed: as the mean of the measured runtimes beside each of them alone,
    /// else a little below the runtime alone, so that the combination is tried.
    pub fn beside_s(&self, platform: PlatformId, application: &str, others: &[&str]) -> Option<f64> {
        let one_by_one =
            || mean(others.iter().filter_map(|one| self.measured_s(platform, application, &[one])));
        let untried = || Some(self.alone_s(platform, application)? * UNTRIED);
        self.measured_s(platform, application, others).or_else(one_by_one).or_else(untried)
    }

    /// Returns the part of its pace that a task loses beside its like, 0 to 1; `None`: it was not measured
    /// both ways.
    pub fn loss_beside_its_like(&self, platform: PlatformId, application: &str) -> Option<f64> {
        let known = self.of(platform, application)?;
        let alone_s = known.get(&CoRunners::Nobody)?.mean_s();
        let together_s = self.measured_s(platform, application, &[])?;
        Some(1.0 - (alone_s / together_s).clamp(0.0, 1.0)).filter(|loss| loss.is_finite())
    }

    /// Returns the runtime of a task alone on a node in seconds; if that was not measured, beside the best
    /// co-runners.
    pub fn alone_s(&self, platform: PlatformId, application: &str) -> Option<f64> {
        let known = self.of(platform, application)?;
        let best = || known.values().map(Known::mean_s).reduce(f64::min);
        known.get(&CoRunners::Nobody).map(Known::mean_s).or_else(best)
    }
}

/// Returns the mean of the values; `None` if there are none.
pub(in crate::engine) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
mod tests {
    use super::{CoRunTimes, CoRunners, Interference, N_COMPANIES_MAX};
    use crate::ids::PlatformId;

    const HERE: PlatformId = PlatformId(1);

    fn full(others: &[&str]) -> CoRunners {
        CoRunners::Full(others.iter().map(|one| (*one).to_owned()).collect())
    }

    fn beside(company: CoRunners, n: u64, seconds: u64) -> CoRunTimes {
        CoRunTimes { application: "docking".into(), company, n, wall_us: n * seconds * 1_000_000 }
    }

    #[test]
    fn what_was_not_measured_is_guessed_from_what_was() {
        let mut known = Interference::default();
        assert_eq!((known.alone_s(HERE, "docking"), known.beside_s(HERE, "docking", &[])), (None, None));
        known.learn(HERE, &[beside(full(&[]), 4, 20), beside(full(&["search"]), 2, 10)]);
        assert_eq!(known.beside_s(HERE, "docking", &[]), Some(20.0));
        assert_eq!(known.beside_s(HERE, "docking", &["search"]), Some(10.0));
        // Of `sort` nothing is known: as beside the other alone. Of neither: a little less than alone.
        assert_eq!(known.beside_s(HERE, "docking", &["search", "sort"]), Some(10.0));
        assert_eq!(known.beside_s(HERE, "docking", &["sort"]), Some(9.9));
        assert_eq!(known.measured_s(HERE, "docking", &["sort"]), None);
        assert_eq!(known.alone_s(HERE, "docking"), Some(10.0), "the best company");
        known.learn(HERE, &[beside(CoRunners::Nobody, 1, 8)]);
        assert_eq!(known.alone_s(HERE, "docking"), Some(8.0));
        assert_eq!(known.alone_s(PlatformId(2), "docking"), None);
        // 8 s alone and 20 s with its like: five cores do as much as two.
        assert_eq!(known.loss_beside_its_like(HERE, "docking"), Some(0.6));
        assert_eq!(known.loss_beside_its_like(HERE, "search"), None);
    }

    #[test]
    fn what_is_new_counts_more_and_what_is_forgotten_nothing() {
        let mut known = Interference::default();
        known.learn(HERE, &[beside(full(&["search"]), 1_000, 10)]);
        known.learn(HERE, &[beside(full(&["search"]), 200, 30)]);
        assert_eq!(known.beside_s(HERE, "docking", &["search"]), Some(20.0));
        known.learn(HERE, &[beside(full(&[]), 1, 5)]);
        known.forget("search");
        assert_eq!(known.measured_s(HERE, "docking", &["search"]), None, "nor what it did to others");
        known.forget("docking");
        assert_eq!(known.alone_s(HERE, "docking"), None);
    }

    #[test]
    fn of_many_companies_those_of_the_least_weight_are_forgotten() {
        let mut known = Interference::default();
        known.learn(HERE, &[beside(full(&[]), 100, 5)]);
        for n in 0..2 * N_COMPANIES_MAX as u64 {
            known.learn(HERE, &[beside(full(&[&format!("app{n:03}")]), n + 1, 10)]);
        }
        let held = known.of(HERE, "docking").unwrap();
        assert_eq!(held.len(), N_COMPANIES_MAX);
        assert!(held.contains_key(&full(&["app127"])) && held.contains_key(&full(&[])));
    }
}
