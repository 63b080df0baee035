//! How many vCPUs a core of a cloud stands for: settings, answers of clouds and changes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    policy::scaling::{Seen, Why},
    time::{Span, Time},
};

/// How a platform's cores may stand for more vCPUs than one each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingSpec {
    /// Who sees to it.
    pub by: ScalingWay,
    /// vCPUs of a core at most, in thousandths (paper 003's C).
    pub ratio_max: Ratio,
    /// The share of attempts that may fail, in thousandths (its epsilon).
    pub errors_max_permille: u32,
    /// How often it is decided.
    pub interval: Span,
}

/// Who sees to it that a core stands for more vCPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScalingWay {
    /// Pilots: they offer as many slots.
    Slots,
    /// The cloud: its hosts have as many, so that more servers fit on them.
    Placement,
}

/// vCPUs of a core in thousandths, so that records say it exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Ratio(pub u32);

impl Ratio {
    /// As many as there are cores.
    pub const ONE: Ratio = Ratio(1000);

    /// The nearest to a number; 1 at least.
    pub fn of(number: f64) -> Ratio {
        Ratio((number * 1000.0).round().min(f64::from(u32::MAX)) as u32).max(Ratio::ONE)
    }

    /// As a number.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// What so many cores stand for, rounded; 1 at least, where there is one.
    pub fn of_cores(self, n_cores: u32) -> u32 {
        let n = (u64::from(n_cores) * u64::from(self.0) + 500) / 1000;
        u32::try_from(n).unwrap_or(u32::MAX).max(n_cores.min(1))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// A host of a cloud, as its Placement knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Provider {
    /// Placement's id.
    pub id: String,
    /// The host's name.
    pub name: String,
    /// How many vCPUs it has a core, as Placement writes it.
    pub ratio: String,
}

impl Provider {
    pub(in crate::engine) fn has(&self, ratio: Ratio) -> bool {
        self.ratio.parse().is_ok_and(|number: f64| (number - ratio.number()).abs() < 0.001)
    }
}

/// A host as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundProvider {
    /// What it had.
    pub provider: Provider,
    /// Whether it has now what was asked for: it was known before.
    pub is_set: bool,
}

/// Why a cloud's hosts could not be given other numbers of vCPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScaleTrouble {
    /// They cannot, as long as nobody changes something.
    Refused(String),
    /// Nobody knows.
    Unknown(String),
}

/// A platform's vCPUs a core have changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingChange {
    /// When.
    pub at: Time,
    /// vCPUs of a core before, in thousandths.
    pub before: Ratio,
    /// And since.
    pub after: Ratio,
    /// How it is carried out.
    pub by: ScalingWay,
    /// The reason.
    pub why: Why,
    /// What was seen in the interval before.
    pub seen: Seen,
    /// Cores of the platform then.
    pub n_cores: u64,
}

impl ScalingChange {
    /// Why, with the numbers.
    pub fn told(&self) -> String {
        let Seen { n_ended, n_failed, n_queued, cpu, wall } = self.seen;
        let share = (wall > Span::ZERO).then(|| cpu.as_secs_f64() / wall.as_secs_f64());
        let busy =
            share.map_or_else(String::new, |share| format!(", its CPUs {:.0} % of the time", share * 100.0));
        format!(
            "{} ({n_ended} attempts ended, {n_failed} of them failed{busy}; tasks for {n_queued} slots, {} cores)",
            self.why, self.n_cores
        )
    }
}
