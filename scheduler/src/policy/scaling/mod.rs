//! Scaling: how many vCPUs are run on each core of a cloud platform (paper 003, r_v/p).
//!
//! More of them fill cores whose tasks wait for input or output; too many make tasks fail. Asked at the end
//! of each interval, of what was seen in it. A pilot can keep to a number for one application without any
//! change to its VM: it counts each of its tasks as that part of a core.

mod adaptive;
mod adaptive_2016;
mod measured;
mod scalers;

use std::{fmt, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

pub use scalers::{Scalers, Scope};

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// One vCPU a core, always.
    Fixed,
    /// One more or one fewer at each interval, as published: see `adaptive_2016.rs`.
    #[serde(rename = "adaptive-2016")]
    Adaptive2016,
    /// Up by small steps while work waits, down by half on errors: see `adaptive.rs`.
    Adaptive,
    /// As many as the CPU time of tasks leaves room for, for each application: see `measured.rs`.
    #[default]
    Measured,
}

impl Scaling {
    /// The word of the `policies:` block.
    pub fn word(self) -> &'static str {
        match self {
            Scaling::Fixed => "fixed",
            Scaling::Adaptive2016 => "adaptive-2016",
            Scaling::Adaptive => "adaptive",
            Scaling::Measured => "measured",
        }
    }
}

/// Constants of the laws. The paper gives none of them; these are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Share of attempts that may fail (the paper's epsilon).
    pub errors_max: f64,
    /// vCPUs of a core at most (the paper's C); below 1 counts as 1.
    pub ratio_max: f64,
    /// vCPUs of a core that are added at a time.
    pub step: f64,
    /// For how long none are added after too many attempts failed.
    pub hold: Span,
    /// The part of a core's time that [`Scaling::Measured`] wants to be used.
    pub cpu_goal: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        let hold = Span::from_secs(4 * 300);
        Settings { errors_max: 0.05, ratio_max: 4.0, step: 0.5, hold, cpu_goal: 1.0 }
    }
}

/// What was seen of a cloud platform in an interval, of one application or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Seen {
    /// Attempts that ended in it, well or not.
    pub n_ended: u64,
    /// Those that failed.
    pub n_failed: u64,
    /// Tasks that are there at its end and not finished.
    pub n_queued: u64,
    /// CPU time that attempts used.
    pub cpu: Span,
    /// Time for which vCPUs were taken by them.
    pub wall: Span,
}

impl Seen {
    /// The share of attempts that failed; `None` when none ended.
    fn errors(&self) -> Option<f64> {
        (self.n_ended > 0).then(|| self.n_failed as f64 / self.n_ended as f64)
    }

    /// Whether more tasks are there than vCPUs, of which a core has so many.
    fn has_demand(&self, ratio: f64, n_cores: u64) -> bool {
        self.n_queued as f64 > ratio * n_cores as f64
    }
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.n_ended = self.n_ended.saturating_add(other.n_ended);
        self.n_failed = self.n_failed.saturating_add(other.n_failed);
        self.n_queued = self.n_queued.saturating_add(other.n_queued);
        self.cpu = self.cpu + other.cpu;
        self.wall = self.wall + other.wall;
    }
}

/// When and for what is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its end.
    pub at: Time,
    /// Cores of the platform (the paper's pCPU).
    pub n_cores: u64,
}

/// Why there are as many vCPUs as there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The policy does not change them.
    Fixed,
    /// No attempt ended: nothing is known.
    NothingEnded,
    /// Too many attempts failed: fewer, if there is more than one.
    Errors,
    /// Neither more nor fewer are called for.
    InBand,
    /// Too many failed not long ago.
    Held,
    /// Those that there are have no more tasks than they can run.
    NoDemand,
    /// Cores are short of CPU time: fewer.
    CoresFull,
    /// More, if the maximum is not reached.
    Room,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Fixed => "the policy keeps it",
            Why::NothingEnded => "nothing ended",
            Why::Errors => "too many attempts failed",
            Why::InBand => "it is as it should be",
            Why::Held => "too many attempts failed not long ago",
            Why::NoDemand => "no more tasks wait than can run",
            Why::CoresFull => "tasks are short of CPU time",
            Why::Room => "tasks leave CPU time unused, or few failed, and more wait",
        })
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// vCPUs of a core before.
    pub before: f64,
    /// And from now on.
    pub after: f64,
    /// The reason.
    pub why: Why,
}

impl Decision {
    /// Whether there are more now.
    pub fn has_risen(&self) -> bool {
        self.after > self.before
    }

    /// Whether there are more or fewer now.
    pub fn has_changed(&self) -> bool {
        self.after.total_cmp(&self.before).is_ne()
    }
}

/// The vCPUs of a core: the policy with its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    policy: Scaling,
    settings: Settings,
    ratio: f64,
    held_until: Time,
    has_failed: bool,
}

impl Scaler {
    /// With one vCPU a core.
    pub fn new(policy: Scaling, settings: Settings) -> Scaler {
        Scaler { policy, settings, ratio: 1.0, held_until: Time::default(), has_failed: false }
    }

    /// As it was when there were so many vCPUs a core; `failed_at`: when too many attempts failed the last time.
    pub fn resumed(policy: Scaling, settings: Settings, ratio: f64, failed_at: Option<Time>) -> Scaler {
        let ratio = ratio.min(settings.ratio_max).max(1.0);
        let held_until = failed_at.map_or(Time::default(), |at| at + settings.hold);
        Scaler { policy, settings, ratio, held_until, has_failed: failed_at.is_some() }
    }

    /// vCPUs of a core, from 1 to the most allowed. A platform has this times its cores, rounded.
    pub fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Decides at the end of an interval.
    pub fn decide(&mut self, interval: &Interval, seen: &Seen) -> Decision {
        let before = self.ratio;
        let (ratio, why) = match self.policy {
            Scaling::Fixed => (1.0, Why::Fixed),
            Scaling::Adaptive2016 => adaptive_2016::decide(self, seen),
            Scaling::Adaptive => adaptive::decide(self, interval, seen),
            Scaling::Measured => measured::decide(self, interval, seen),
        };
        self.ratio = ratio.min(self.settings.ratio_max).max(1.0);
        if why == Why::Errors {
            self.held_until = interval.at + self.settings.hold;
            self.has_failed = true;
        }
        Decision { before, after: self.ratio, why }
    }
}

#[cfg(test)]
mod tests;
