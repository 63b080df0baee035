//! What tasks of other applications on a node cost one that runs beside them: the co-runner affinities of paper 000
//! (section 4.2), measured as tasks end.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Turn,
    durable::Durable,
    experience::Experience,
    record::{JobResult, Record},
    runtimes::mean,
    volatile::{PilotState, Timer, Volatile},
};
use crate::{
    ids::{PilotId, PlatformId},
    time::{Span, Time},
};

/// Successes that count as much as all before them.
const MEMORY: f64 = 200.0;
/// Companies of an application that are known on a platform at most; those of the least weight are forgotten.
const N_COMPANIES_MAX: usize = 64;
/// What a task takes in a company that was never tried, of what it takes alone.
const UNTRIED: f64 = 0.99;
/// What was measured is written down after so long, …
pub(super) const KEPT_AFTER: Span = Span::from_secs(10);
/// … and of a company that nothing was known of, or in a profiling run: somebody waits for that.
const NEW_AFTER: Span = Span::from_secs(1);
/// How many applications may share a node by policies of mapping (the paper's AllCore, TwoApp and FourApp): what others
/// cost is not learned.
pub(super) const N_MEMBERS: [usize; 3] = [1, 2, 4];

/// Beside whom a task runs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Company {
    /// On a node where nothing else runs: the paper's OneCore.
    Nobody,
    /// On a node whose cores are in use, by these other applications and maybe its own, in order. None of them: the
    /// paper's AllCore.
    Full(Vec<String>),
}

impl Company {
    /// Whether tasks of that other application are in it.
    pub fn has(&self, application: &str) -> bool {
        matches!(self, Company::Full(others) if others.iter().any(|other| other == application))
    }
}

/// Successes of an application on a platform that had the same company from their beginning to their end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Beside {
    /// Which application.
    pub application: String,
    /// Its company.
    pub company: Company,
    /// How many.
    pub n: u64,
    /// Their wall time together, microseconds.
    pub wall_us: u64,
}

/// A mean that forgets.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Known {
    /// Successes, all of them.
    pub n: u64,
    weight: f64,
    wall_s: f64,
}

impl Known {
    /// Seconds of a task.
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

/// What is known of companies, by platform and application.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Neighbours(BTreeMap<PlatformId, BTreeMap<String, BTreeMap<Company, Known>>>);

impl Neighbours {
    /// Takes in what was measured on a platform.
    pub fn learn(&mut self, platform: PlatformId, all: &[Beside]) {
        for Beside { application, company, n, wall_us } in all.iter().filter(|one| one.n > 0) {
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

    /// Nothing is known of an application any more, nor of what it does to others.
    pub fn forget(&mut self, application: &str) {
        for known in self.0.values_mut() {
            known.remove(application);
            known.values_mut().for_each(|companies| companies.retain(|company, _| !company.has(application)));
        }
    }

    /// What is known of an application on a platform.
    pub fn of(&self, platform: PlatformId, application: &str) -> Option<&BTreeMap<Company, Known>> {
        self.0.get(&platform)?.get(application)
    }

    /// Seconds of a task beside these others, in order, on a full node: as measured.
    pub fn measured_s(&self, platform: PlatformId, application: &str, others: &[&str]) -> Option<f64> {
        let known = self.of(platform, application)?;
        let others = others.iter().map(|one| (*one).to_owned()).collect();
        known.get(&Company::Full(others)).map(Known::mean_s)
    }

    /// The same, measured or guessed: as beside each of them alone, in the mean over those that are known; else a
    /// little less than alone, so that it is tried.
    pub fn beside_s(&self, platform: PlatformId, application: &str, others: &[&str]) -> Option<f64> {
        let one_by_one =
            || mean(others.iter().filter_map(|one| self.measured_s(platform, application, &[one])));
        let untried = || Some(self.alone_s(platform, application)? * UNTRIED);
        self.measured_s(platform, application, others).or_else(one_by_one).or_else(untried)
    }

    /// What beside its like a task loses of its pace, 0 to 1; `None`: it was not measured both alone and so.
    pub fn loss_beside_its_like(&self, platform: PlatformId, application: &str) -> Option<f64> {
        let known = self.of(platform, application)?;
        let alone_s = known.get(&Company::Nobody)?.mean_s();
        let together_s = self.measured_s(platform, application, &[])?;
        Some(1.0 - (alone_s / together_s).clamp(0.0, 1.0)).filter(|loss| loss.is_finite())
    }

    /// Seconds of a task that nothing runs beside; where none has run so, as it takes in the best company.
    pub fn alone_s(&self, platform: PlatformId, application: &str) -> Option<f64> {
        let known = self.of(platform, application)?;
        let best = || known.values().map(Known::mean_s).reduce(f64::min);
        known.get(&Company::Nobody).map(Known::mean_s).or_else(best)
    }
}

/// Whose tasks are on a node, where something is to be learned from that: one task alone, or a full node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crew {
    /// In order.
    applications: Vec<String>,
    is_alone: bool,
    since: Time,
}

impl Crew {
    /// What one of its applications has for company.
    fn company_of(&self, application: &str) -> Company {
        match self.is_alone {
            true => Company::Nobody,
            false => Company::Full(
                self.applications.iter().filter(|other| *other != application).cloned().collect(),
            ),
        }
    }
}

/// Whose tasks a pilot holds, and whether it is one alone; `None`: neither that nor is its node full.
fn crew<'a>(durable: &'a Durable, state: &PilotState) -> Option<(BTreeSet<&'a str>, bool)> {
    let is_alone = state.n_leased() == 1;
    let is_full = u64::from(state.used.cores) * 4 >= u64::from(state.capacity.cores) * 3;
    // What tasks take on shared cores is another matter.
    let has_slots = state.capacity.widest > 0;
    if state.capacity.cores < 2 || has_slots || !is_alone && !is_full {
        return None;
    }
    let of_job = |job| durable.jobs().get(job).map(|job| job.request.application.as_str());
    let applications: BTreeSet<&str> = state.leases.keys().filter_map(of_job).collect();
    N_MEMBERS.contains(&applications.len()).then_some((applications, is_alone))
}

impl Volatile {
    /// Notes whose tasks are on the pilot's node, once its leases have changed.
    pub fn note_crew(&mut self, durable: &Durable, id: PilotId, now: Time) {
        let Some(state) = self.pilots.get_mut(&id) else { return };
        let Some((applications, is_alone)) = crew(durable, state) else {
            state.crew = None;
            return;
        };
        let is_same = |held: &Crew| {
            held.is_alone == is_alone && held.applications.iter().eq(applications.iter().copied())
        };
        if !state.crew.as_deref().is_some_and(is_same) {
            let applications = applications.into_iter().map(str::to_owned).collect();
            state.crew = Some(Box::new(Crew { applications, is_alone, since: now }));
        }
    }

    /// Successes that had the same company all the time tell what that costs; but not before it has lasted for twice
    /// as long as they take, or only the shortest of them would.
    pub fn note_beside(&mut self, durable: &Durable, id: PilotId, results: &[JobResult], now: Time) {
        let crew = self.pilots.get(&id).and_then(|state| state.crew.as_deref());
        let (Some(crew), Some(pilot)) = (crew, durable.pilots().get(&id)) else { return };
        let together = now.since(crew.since);
        let beside = |result: &JobResult| {
            let application = &durable.jobs().get(&result.job)?.request.application;
            let walls = &result.successes.wall_us;
            let mean = durable.facts().known(pilot.platform, application).measured.and_then(Experience::mean);
            let mean = mean.or_else(|| walls.iter().max().map(|us| Span(*us)))?;
            if together < mean.times(2) || !crew.applications.contains(application) {
                return None;
            }
            let all_the_time = walls.iter().filter(|us| **us <= together.0);
            let sums = all_the_time.fold((0_u64, 0_u64), |(n, sum), us| (n + 1, sum.saturating_add(*us)));
            Some(((pilot.platform, application.clone(), crew.company_of(application)), sums))
        };
        let all: Vec<_> = results.iter().filter_map(beside).collect();
        for (of, (n, wall_us)) in all {
            let (platform, application, company) = &of;
            let known = durable.neighbours().of(*platform, application);
            let is_known = known.is_some_and(|companies| companies.contains_key(company));
            let is_awaited = !is_known || self.profiling_at(id).is_some();
            self.arm_measured(now + if is_awaited { NEW_AFTER } else { KEPT_AFTER });
            let sums = self.measured.entry(of).or_default();
            *sums = (sums.0.saturating_add(n), sums.1.saturating_add(wall_us));
        }
    }

    pub(super) fn arm_measured(&mut self, at: Time) {
        if self.measured_due_at.is_none_or(|due_at| at < due_at) {
            if let Some(due_at) = self.measured_due_at.replace(at) {
                self.timers.remove(&(due_at, Timer::Measured));
            }
            self.timers.insert((at, Timer::Measured));
        }
    }
}

impl Turn<'_> {
    /// What was measured is written down, a record for each platform; whoever maps by it looks again.
    pub(super) fn keep_measured(&mut self) {
        self.volatile.measured_due_at = None;
        self.keep_efforts();
        let mut by_platform = BTreeMap::<PlatformId, Vec<Beside>>::new();
        for ((platform, application, company), (n, wall_us)) in std::mem::take(&mut self.volatile.measured) {
            by_platform.entry(platform).or_default().push(Beside { application, company, n, wall_us });
        }
        for (platform, beside) in by_platform {
            self.record(Record::BesideMeasured { platform, beside, at: self.now });
            if self.policies().mapping.is_some() {
                self.want_guide();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Beside, Company, N_COMPANIES_MAX, Neighbours};
    use crate::ids::PlatformId;

    const HERE: PlatformId = PlatformId(1);

    fn full(others: &[&str]) -> Company {
        Company::Full(others.iter().map(|one| (*one).to_owned()).collect())
    }

    fn beside(company: Company, n: u64, seconds: u64) -> Beside {
        Beside { application: "docking".into(), company, n, wall_us: n * seconds * 1_000_000 }
    }

    #[test]
    fn what_was_not_measured_is_guessed_from_what_was() {
        let mut known = Neighbours::default();
        assert_eq!((known.alone_s(HERE, "docking"), known.beside_s(HERE, "docking", &[])), (None, None));
        known.learn(HERE, &[beside(full(&[]), 4, 20), beside(full(&["search"]), 2, 10)]);
        assert_eq!(known.beside_s(HERE, "docking", &[]), Some(20.0));
        assert_eq!(known.beside_s(HERE, "docking", &["search"]), Some(10.0));
        // Of `sort` nothing is known: as beside the other alone. Of neither: a little less than alone.
        assert_eq!(known.beside_s(HERE, "docking", &["search", "sort"]), Some(10.0));
        assert_eq!(known.beside_s(HERE, "docking", &["sort"]), Some(9.9));
        assert_eq!(known.measured_s(HERE, "docking", &["sort"]), None);
        assert_eq!(known.alone_s(HERE, "docking"), Some(10.0), "the best company");
        known.learn(HERE, &[beside(Company::Nobody, 1, 8)]);
        assert_eq!(known.alone_s(HERE, "docking"), Some(8.0));
        assert_eq!(known.alone_s(PlatformId(2), "docking"), None);
        // 8 s alone and 20 s with its like: five cores do as much as two.
        assert_eq!(known.loss_beside_its_like(HERE, "docking"), Some(0.6));
        assert_eq!(known.loss_beside_its_like(HERE, "search"), None);
    }

    #[test]
    fn what_is_new_counts_more_and_what_is_forgotten_nothing() {
        let mut known = Neighbours::default();
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
        let mut known = Neighbours::default();
        known.learn(HERE, &[beside(full(&[]), 100, 5)]);
        for n in 0..2 * N_COMPANIES_MAX as u64 {
            known.learn(HERE, &[beside(full(&[&format!("app{n:03}")]), n + 1, 10)]);
        }
        let held = known.of(HERE, "docking").unwrap();
        assert_eq!(held.len(), N_COMPANIES_MAX);
        assert!(held.contains_key(&full(&["app127"])) && held.contains_key(&full(&[])));
    }
}
