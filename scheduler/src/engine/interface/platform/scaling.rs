//! The vCPU ratio: settings, answers of clouds and changes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    policy::scaling::{Seen, Why},
    time::{Span, Time},
};

/// The settings of a platform's vCPU ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingSpec {
    /// The way in which the ratio is applied.
    pub by: ScalingWay,
    /// The highest vCPU ratio, in thousandths (paper 003's C).
    pub ratio_max: Ratio,
    /// The part of attempts that may fail, in thousandths (paper 003's epsilon).
    pub errors_max_permille: u32,
    /// The interval between decisions.
    pub interval: Span,
}

/// The way in which a vCPU ratio is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScalingWay {
    /// Pilots offer that many slots per core.
    Slots,
    /// The cloud's hosts offer that many vCPUs per core, so that more servers fit on them.
    Placement,
}

/// A vCPU ratio in thousandths, so that records hold it exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Ratio(pub u32);

impl Ratio {
    /// One vCPU per core.
    pub const ONE: Ratio = Ratio(1000);

    /// Returns the ratio nearest to a number; at least 1.
    pub fn of(number: f64) -> Ratio {
        Ratio((number * 1000.0).round().min(f64::from(u32::MAX)) as u32).max(Ratio::ONE)
    }

    /// Returns the ratio as a number.
    pub fn number(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// Returns the number of vCPUs of `n_cores` cores, rounded; at least 1 if there is a core.
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

/// A host of a cloud, as the cloud's Placement service describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Provider {
    /// The id in Placement.
    pub id: String,
    /// The host's name.
    pub name: String,
    /// The vCPU ratio, as Placement writes it.
    pub ratio: String,
}

impl Provider {
    pub(in crate::engine) fn has(&self, ratio: Ratio) -> bool {
        self.ratio.parse().is_ok_and(|number: f64| (number - ratio.number()).abs() < 0.001)
    }
}

/// A host of a cloud, as the manager found it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundProvider {
    /// The host with the ratio that it had.
    pub provider: Provider,
    /// Whether the host now has the ratio that was requested; only hosts that were known before get it.
    pub is_set: bool,
}

/// The reason why the ratios of a cloud's hosts could not be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScaleTrouble {
    /// The cloud refuses, until somebody changes something.
    Refused(String),
    /// It is unknown whether they are set.
    Unknown(String),
}

/// A change of a platform's vCPU ratio.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScalingChange {
    /// The time of the change.
    pub at: Time,
    /// The vCPU ratio before, in thousandths.
    pub before: Ratio,
    /// The vCPU ratio since then, in thousandths.
    pub after: Ratio,
    /// The way in which it is applied.
    pub by: ScalingWay,
    /// The reason.
    pub why: Why,
    /// The measurements of the interval before the change.
    pub seen: Seen,
    /// Number of cores of the platform at that time.
    pub n_cores: u64,
}

impl ScalingChange {
    /// Returns the reason with the measurements, for people.
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
