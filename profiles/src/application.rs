//! Application profiles: the properties of an application that are declared before it has run.

use std::collections::BTreeMap;

use scheduler::{
    engine::interface::declared_profile::{COUNTS_AS, Declared, JobType},
    time::Span,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::quantity::{Duration, Quantity};

/// Longest name of an application or a platform, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
/// The most platforms that a profile may name.
const N_PLATFORMS_MAX: usize = 1000;
/// The most tasks that a declared value may count for.
pub const COUNTS_AS_MAX: u32 = 10_000;

/// The declared properties of an application.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "ApplicationForm")]
pub struct ApplicationProfile {
    /// The application's name in jobs.
    pub application: String,
    /// Its declared properties.
    pub declared: Declared,
}

/// The fields of a profile's file.
pub const FIELDS: [&str; 6] = ["application", "job_type", "cpu_share", "times", "counts_as", "source"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplicationForm {
    application: String,
    job_type: Option<JobType>,
    #[serde(default, deserialize_with = "share")]
    cpu_share: Option<f64>,
    #[serde(default)]
    times: BTreeMap<String, Duration>,
    #[serde(default = "counts_as", deserialize_with = "n_tasks")]
    counts_as: u32,
    source: Option<String>,
}

impl TryFrom<ApplicationForm> for ApplicationProfile {
    type Error = String;

    fn try_from(form: ApplicationForm) -> Result<ApplicationProfile, String> {
        let ApplicationForm { application, job_type, cpu_share, times, counts_as, source } = form;
        let times = times.into_iter().map(|(platform, time)| (platform, time.0)).collect();
        let declared = Declared { job_type, cpu_share, times, counts_as, source };
        check(&application, &declared)?;
        Ok(ApplicationProfile { application, declared })
    }
}

/// Checks the declared properties of an application.
///
/// # Errors
/// A text that says what was found and how to write it.
pub fn check(application: &str, declared: &Declared) -> Result<(), String> {
    let is_name =
        |name: &str| !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\n');
    if !is_name(application) {
        return Err(format!(
            "found application `{application}`; write 1 to {NAME_BYTES_MAX} bytes in a line"
        ));
    }
    if let Some(share) = declared.cpu_share.filter(|share| !is_share(*share)) {
        return Err(format!("found cpu_share {share}; write a number from 0 to 1, like 0.95"));
    }
    if !(1..=COUNTS_AS_MAX).contains(&declared.counts_as) {
        let found = declared.counts_as;
        return Err(format!(
            "found counts_as {found}; write how many measured tasks it outweighs, 1 to {COUNTS_AS_MAX}"
        ));
    }
    if declared.times.len() > N_PLATFORMS_MAX {
        let found = declared.times.len();
        return Err(format!("found times of {found} platforms; {N_PLATFORMS_MAX} is the most"));
    }
    let is_wrong = |(platform, time): &(&String, &Span)| !is_name(platform) || **time == Span::ZERO;
    match declared.times.iter().find(is_wrong) {
        Some((platform, time)) => {
            Err(format!("found times of `{platform}`: {time}; write how long a task takes there, like 12s"))
        }
        None => Ok(()),
    }
}

fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

fn counts_as() -> u32 {
    COUNTS_AS
}

fn n_tasks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let wanted = format!("how many measured tasks it outweighs, 1 to {COUNTS_AS_MAX}");
    let n = u32::deserialize(deserializer)?;
    let is_fine = (1..=COUNTS_AS_MAX).contains(&n);
    if is_fine { Ok(n) } else { Err(D::Error::custom(format!("found `{n}`; write {wanted}"))) }
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let wanted = "a number from 0 to 1, like 0.95";
    let parse = |text: &str| text.trim().parse().map_err(|_| format!("write {wanted}"));
    let share = deserializer.deserialize_any(Quantity { wanted, parse })?;
    if is_share(share) {
        Ok(Some(share))
    } else {
        Err(D::Error::custom(format!("found `{share}`; write {wanted}")))
    }
}

/// Profiles that come with Pilotfish, by name: values of the papers, with their sources.
pub const SHIPPED: [(&str, &str); 8] = [
    ("autodock", include_str!("../applications/autodock.yaml")),
    ("autodock-vina", include_str!("../applications/autodock-vina.yaml")),
    ("blast", include_str!("../applications/blast.yaml")),
    ("cachebench", include_str!("../applications/cachebench.yaml")),
    ("condensed-matter", include_str!("../applications/condensed-matter.yaml")),
    ("montage", include_str!("../applications/montage.yaml")),
    ("pythia", include_str!("../applications/pythia.yaml")),
    ("threekaonomega", include_str!("../applications/threekaonomega.yaml")),
];

/// The form in which a profile is written to a file that is read again.
#[derive(Serialize)]
pub struct Written<'a> {
    /// The application's name in jobs.
    pub application: &'a str,
    /// Its job type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_type: Option<JobType>,
    /// Part of the time that a task keeps its cores busy, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share: Option<f64>,
    /// Runtime of a task by platform, with a unit.
    pub times: BTreeMap<&'a str, String>,
    /// Number of measured tasks that a declared value counts for.
    pub counts_as: u32,
    /// Source of the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{ApplicationProfile, COUNTS_AS, JobType, SHIPPED, Span};

    #[test]
    fn shipped_profiles_are_read_and_name_their_sources() {
        for (name, text) in SHIPPED {
            let profile: ApplicationProfile =
                serde_yaml::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(profile.application, name);
            assert!(profile.declared.source.is_some(), "{name}");
        }
    }

    #[test]
    fn the_form_is_checked() {
        let read = |text: &str| {
            let read: Result<ApplicationProfile, _> = serde_yaml::from_str(text);
            read.map_err(|error| error.to_string())
        };
        let fine = read("{application: x, job_type: io-bound, cpu_share: 0.3, times: {a: 1m 30s}}").unwrap();
        assert_eq!((fine.declared.job_type, fine.declared.counts_as), (Some(JobType::IoBound), COUNTS_AS));
        assert_eq!(fine.declared.times["a"], Span::from_secs(90));
        for (text, expected) in [
            ("{application: ''}", "found application ``; write 1 to 200 bytes in a line"),
            ("{application: x, cpu_share: 1.5}", "found `1.5`; write a number from 0 to 1"),
            ("{application: x, cpu_share: much}", "write a number from 0 to 1"),
            ("{application: x, counts_as: 0}", "found `0`; write how many measured tasks"),
            ("{application: x, times: {a: 0s}}", "found times of `a`: 0"),
            ("{application: x, times: {a: 5}}", "give it a unit"),
            (
                "{application: x, job_type: gpu-bound}",
                "expected one of `cpu-bound`, `io-bound`, `memory-bound`",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
