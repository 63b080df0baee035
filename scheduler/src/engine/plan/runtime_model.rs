//! The runtime model: how long a task of an application takes on a platform. The runtime is measured or
//! declared there, or else estimated from runtimes elsewhere and a comparison of the platforms for
//! applications of its type.

use std::collections::BTreeMap;

use crate::{
    engine::{
        interface::declared_profile::JobType,
        state::learned::{applications::Applications, interference::mean},
    },
    ids::PlatformId,
    policy::{distribution::RUNTIME_UNKNOWN_S, table::Table},
};

/// The most applications by which platforms are compared.
const N_COMPARED_MAX: usize = 200;

/// The runtimes on these platforms.
pub struct RuntimeModel<'a> {
    facts: &'a Applications,
    platforms: &'a [PlatformId],
    /// By job type: the sum of the logarithms of how many times longer tasks take on one platform (row) than
    /// on another (column), and the number of applications in that sum.
    ratios: BTreeMap<Option<JobType>, Table<(f64, u32)>>,
}

impl<'a> RuntimeModel<'a> {
    /// Compares the platforms. O(applications × platforms²).
    pub fn new(facts: &'a Applications, platforms: &'a [PlatformId]) -> RuntimeModel<'a> {
        let mut runtimes = RuntimeModel { facts, platforms, ratios: BTreeMap::new() };
        let mut names: Vec<&str> = facts.declared.keys().map(String::as_str).collect();
        names.extend(facts.learned.values().flat_map(|known| known.keys().map(String::as_str)));
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().take(N_COMPARED_MAX) {
            let known: Vec<Option<f64>> =
                (0..platforms.len()).map(|column| runtimes.known(name, column)).collect();
            let of_type = facts.job_type(name).map(|(of_type, _)| of_type);
            runtimes.compare(of_type, &known);
            if of_type.is_some() {
                runtimes.compare(None, &known);
            }
        }
        runtimes
    }

    fn compare(&mut self, of_type: Option<JobType>, known: &[Option<f64>]) {
        let empty = || Table::new(known.len(), known.len(), (0.0, 0));
        let ratios = self.ratios.entry(of_type).or_insert_with(empty);
        let places = known.iter().enumerate().filter_map(|(place, known)| Some((place, (*known)?)));
        for (row, there) in places.clone() {
            for (column, here) in places.clone() {
                let ratio = ratios.at_mut(row, column);
                *ratio = (ratio.0 + (there / here).ln(), ratio.1 + 1);
            }
        }
    }

    /// Returns the measured or declared runtime there, in seconds.
    pub fn known(&self, application: &str, column: usize) -> Option<f64> {
        self.facts.runtime_s(self.platforms[column], application)
    }

    /// Returns the runtime on each platform in seconds: known, or the best guess. If nothing is known of the
    /// application, it is the same everywhere.
    pub fn guess(&self, application: &str) -> Vec<f64> {
        let known: Vec<Option<f64>> =
            (0..self.platforms.len()).map(|column| self.known(application, column)).collect();
        if known.iter().all(Option::is_some) {
            return known.into_iter().flatten().collect();
        }
        let of_type = self.facts.job_type(application).map(|(of_type, _)| of_type);
        let mean = mean(known.iter().flatten().copied()).or_else(|| self.elsewhere(application));
        let guess =
            |column: usize| self.by_ratio(of_type, &known, column).or(mean).unwrap_or(RUNTIME_UNKNOWN_S);
        (0..known.len()).map(|column| known[column].unwrap_or_else(|| guess(column))).collect()
    }

    /// Estimates the runtime from the platforms where it is known, by the ratio of runtimes there and here of
    /// applications of the same type, else of all types.
    fn by_ratio(&self, of_type: Option<JobType>, known: &[Option<f64>], column: usize) -> Option<f64> {
        let of = |of_type: Option<JobType>| {
            let ratios = self.ratios.get(&of_type)?;
            let guesses = known.iter().enumerate().filter_map(|(other, known)| {
                let (sum, n) = ratios.at(column, other);
                (n > 0).then_some((*known)? * (sum / f64::from(n)).exp())
            });
            mean(guesses)
        };
        of(of_type).or_else(|| of(None))
    }

    /// Returns the mean runtime that was declared for platforms that are not in the model.
    fn elsewhere(&self, application: &str) -> Option<f64> {
        let declared = self.facts.declared.get(application)?;
        mean(declared.times.values().map(|time| time.as_secs_f64()).filter(|seconds| *seconds > 0.0))
    }
}
