//! One vCPU ratio for a whole platform, or one for each application.

use serde::{Deserialize, Serialize};

use super::{Decision, Interval, Scaler, Scaling, Seen, Settings};

/// The scope of a vCPU ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The whole platform, whatever runs on it (as in the paper).
    Platform,
    /// Each application on the platform.
    Application,
}

impl Scaling {
    /// Returns the scope for which the policy is made.
    pub fn scope(self) -> Scope {
        match self {
            Scaling::Fixed | Scaling::Adaptive2016 | Scaling::Adaptive => Scope::Platform,
            Scaling::Measured => Scope::Application,
        }
    }
}

/// The vCPU ratios of one platform, for each application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scalers {
    scope: Scope,
    scalers: Vec<Scaler>,
}

impl Scalers {
    /// Starts with one vCPU per core.
    pub fn new(policy: Scaling, scope: Scope, settings: Settings, n_applications: usize) -> Scalers {
        let n_scalers = match scope {
            Scope::Platform => 1,
            Scope::Application => n_applications,
        };
        Scalers { scope, scalers: vec![Scaler::new(policy, settings); n_scalers] }
    }

    /// Returns the vCPU ratio for an application.
    ///
    /// # Panics
    /// There is no such application.
    pub fn ratio(&self, application: usize) -> f64 {
        match self.scope {
            Scope::Platform => self.scalers[0].ratio(),
            Scope::Application => self.scalers[application].ratio(),
        }
    }

    /// Decides at the end of an interval, from the observations of each application. Returns one decision for
    /// the platform, or one for each application.
    pub fn decide(&mut self, interval: &Interval, seen: &[Seen]) -> Vec<Decision> {
        let of_all = || {
            let mut sum = Seen::default();
            seen.iter().for_each(|seen| sum += *seen);
            vec![sum]
        };
        let seen = match self.scope {
            Scope::Platform => of_all(),
            Scope::Application => seen.to_vec(),
        };
        self.scalers.iter_mut().zip(&seen).map(|(scaler, seen)| scaler.decide(interval, seen)).collect()
    }
}
