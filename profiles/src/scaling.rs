//! Field `scaling` of a platform: how many vCPUs one core may stand for.

use scheduler::engine::interface::{ScalingSpec, ScalingWay, platform::scaling::Ratio};
use serde::{Deserialize, Deserializer, de::Error};

use crate::quantity::Duration;

/// No platform gains from more vCPUs per core.
const RATIO_MOST: f64 = 16.0;
/// Shortest interval between decisions: a few tasks must have ended in between.
const INTERVAL_LEAST_S: u64 = 1;

/// `scaling:` of a platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// How the vCPU ratio is changed: by slots of pilots, or by the cloud's placement.
    #[serde(default = "slots")]
    pub by: ScalingWay,
    /// The most vCPUs per core (C in paper 003).
    #[serde(deserialize_with = "ratio_max")]
    ratio_max: Ratio,
    /// Part of the attempts that may fail, in thousandths (epsilon in paper 003).
    #[serde(default = "errors_usual", deserialize_with = "errors_max")]
    errors_max: u32,
    /// Time between two decisions.
    #[serde(default = "five_minutes", deserialize_with = "interval")]
    interval: Duration,
}

impl Scaling {
    /// Returns the settings in the engine's form.
    pub fn spec(&self) -> ScalingSpec {
        let Scaling { by, ratio_max, errors_max, interval } = *self;
        ScalingSpec { by, ratio_max, errors_max_permille: errors_max, interval: interval.0 }
    }
}

fn slots() -> ScalingWay {
    ScalingWay::Slots
}

fn errors_usual() -> u32 {
    50
}

fn five_minutes() -> Duration {
    Duration(scheduler::time::Span::from_secs(300))
}

fn ratio_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ratio, D::Error> {
    let number = f64::deserialize(deserializer)?;
    match (1.0..=RATIO_MOST).contains(&number) {
        true => Ok(Ratio::of(number)),
        false => Err(D::Error::custom(format!(
            "found {number}; write how many vCPUs a core may stand for, 1 to {RATIO_MOST}"
        ))),
    }
}

fn errors_max<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.001..=1.0).contains(&share) {
        true => Ok((share * 1000.0).round() as u32),
        false => Err(D::Error::custom(format!(
            "found {share}; write the share of attempts that may fail, 0.001 to 1, like 0.05"
        ))),
    }
}

fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval = Duration::deserialize(deserializer)?;
    match interval.0 >= scheduler::time::Span::from_secs(INTERVAL_LEAST_S) {
        true => Ok(interval),
        false => Err(D::Error::custom(format!("found {}; write {INTERVAL_LEAST_S}s or more", interval.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(text: &str) -> Result<ScalingSpec, String> {
        serde_yaml::from_str(text).map(|scaling: Scaling| scaling.spec()).map_err(|error| error.to_string())
    }

    #[test]
    fn how_many_at_most_is_enough() {
        let spec = scaling("ratio_max: 2.5").expect("a scaling");
        assert_eq!((spec.by, spec.ratio_max, spec.errors_max_permille), (ScalingWay::Slots, Ratio(2500), 50));
        let spec = scaling("{by: placement, ratio_max: 4, errors_max: 0.2, interval: 10m}").expect("another");
        assert_eq!((spec.by, spec.errors_max_permille), (ScalingWay::Placement, 200));
        assert_eq!(spec.interval, scheduler::time::Span::from_secs(600));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, expected) in [
            ("by: slots", "ratio_max"),
            ("ratio_max: 0.5", "1 to 16"),
            ("ratio_max: 17", "1 to 16"),
            ("{ratio_max: 2, errors_max: 0}", "0.001 to 1"),
            ("{ratio_max: 2, interval: 10ms}", "1s or more"),
            ("{ratio_max: 2, by: magic}", "slots"),
            ("{ratio_max: 2, size: 3}", "unknown field `size`"),
        ] {
            let error = scaling(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
