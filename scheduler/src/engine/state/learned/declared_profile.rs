//! The measurements of an application together with its declared profile.

use crate::engine::{
    interface::declared_profile::{COUNTS_AS, Declared},
    state::learned::statistics::Statistics,
};

/// The factor by which a declared runtime may be wrong. Beyond it, the declaration loses weight by the square
/// of the excess, unless it says how many tasks it counts as.
const OFF: f64 = 2.0;

/// Means of declared and measured values, weighted by the numbers of tasks that they count as.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The declared profile.
    pub declared: Option<&'a Declared>,
    /// The measurements.
    pub measured: Option<&'a Statistics>,
}

impl Known<'_> {
    /// Returns the runtime of a task on the platform of that name in seconds; `None`: neither declared nor
    /// measured.
    pub fn runtime_s(&self, platform: &str) -> Option<f64> {
        let declared = self.declared.and_then(|declared| declared.times.get(platform));
        let measured = self.measured.and_then(|known| known.mean());
        let (declared, measured) =
            (declared.map(|time| time.as_secs_f64()), measured.map(|time| time.as_secs_f64()));
        // A declaration with a number of its own keeps its weight, however wrong it is.
        let is_default = self.declared.is_none_or(|declared| declared.counts_as == COUNTS_AS);
        let both = declared.zip(measured).filter(|_| is_default);
        let trust = both.map_or(1.0, |(declared, measured)| trust(declared, measured));
        self.mean(declared, measured, trust).filter(|runtime_s| *runtime_s > 0.0)
    }

    /// Returns the part of the time for which a task keeps its cores busy there, 0 to about 1.
    pub fn cpu_share(&self) -> Option<f64> {
        let declared = self.declared.and_then(|declared| declared.cpu_share);
        self.mean(declared, self.measured.and_then(Statistics::cpu_share), 1.0)
    }

    /// Returns the declared and the measured runtime in seconds, if they differ by more than a factor of two.
    pub fn off(&self, platform: &str) -> Option<(f64, f64)> {
        let declared = self.declared?.times.get(platform)?.as_secs_f64();
        let measured = self.measured?.mean()?.as_secs_f64();
        (trust(declared, measured) < 1.0).then_some((declared, measured))
    }

    fn mean(&self, declared: Option<f64>, measured: Option<f64>, trust: f64) -> Option<f64> {
        let n_declared = self.declared.map_or(0.0, |declared| f64::from(declared.counts_as)) * trust;
        // All attempts count, although the measured mean weights recent ones more.
        let n_measured = self.measured.map_or(0.0, |measured| measured.n_done as f64);
        match (declared, measured) {
            (Some(declared), Some(measured)) => {
                Some((declared * n_declared + measured * n_measured) / (n_declared + n_measured))
            }
            (declared, measured) => measured.or(declared),
        }
    }
}

/// Returns the part of its weight that a declared runtime keeps beside a measured one.
fn trust(declared: f64, measured: f64) -> f64 {
    let ratio = (declared / measured).max(measured / declared);
    if ratio.is_finite() && ratio > OFF { (OFF / ratio).powi(2) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::{Declared, Known, Statistics};
    use crate::{
        engine::{interface::declared_profile::JobType, record::Totals},
        time::Span,
    };

    fn measured(n: u64, each_s: u64) -> Statistics {
        let mut known = Statistics::default();
        let wall_us = n * each_s * 1_000_000;
        known.learn(1, &Totals { n, wall_us, cpu_us: wall_us / 4, ..Totals::default() }, &[]);
        known
    }

    #[test]
    fn measurements_outweigh_what_was_declared() {
        let times = [("here".to_owned(), Span::from_secs(10))].into();
        let declared = Declared { cpu_share: Some(1.0), times, ..Declared::default() };
        let known = |n: u64| {
            let measured = measured(n, 20);
            let known = Known { declared: Some(&declared), measured: (n > 0).then_some(&measured) };
            (known.runtime_s("here"), known.cpu_share())
        };
        assert_eq!(known(0), (Some(10.0), Some(1.0)));
        assert_eq!(known(10), (Some(15.0), Some(0.625)), "as many were measured");
        assert_eq!(known(30), (Some(17.5), Some(0.4375)));
        let mut many = measured(29_999, 20);
        many.learn(1, &Totals { n: 1, wall_us: 20_000_000, ..Totals::default() }, &[]);
        let sure = Declared { counts_as: 10_000, ..declared.clone() };
        let known = Known { declared: Some(&sure), measured: Some(&many) };
        assert_eq!(known.runtime_s("here"), Some(17.5), "also where a mean forgets");
        let nothing = Known { declared: Some(&declared), measured: None };
        assert_eq!(nothing.runtime_s("there"), None);
        assert_eq!(Known { declared: None, measured: Some(&measured(1, 20)) }.runtime_s("there"), Some(20.0));
        assert_eq!(Known::default().cpu_share(), None);
    }

    #[test]
    fn what_was_declared_far_off_is_outweighed_by_the_first_tasks() {
        let times = [("here".to_owned(), Span::from_secs(400))].into();
        let declared = Declared { times, ..Declared::default() };
        let runtime_s = |n: u64, each_s: u64| {
            let measured = measured(n, each_s);
            let known = Known { declared: Some(&declared), measured: Some(&measured) };
            (known.runtime_s("here").unwrap(), known.off("here"))
        };
        let (after_one, off) = runtime_s(1, 10);
        assert!(after_one < 20.0, "{after_one}");
        assert_eq!(off, Some((400.0, 10.0)));
        assert!(runtime_s(3, 10).0 < 14.0);
        assert!(runtime_s(1, 16_000).0 > 15_000.0, "also where it was too short");
        assert_eq!(runtime_s(10, 200), (300.0, None), "by a factor of two it counts as was said");
        let declared = Declared { counts_as: 10_000, ..declared.clone() };
        let measured = measured(10, 10);
        let known = Known { declared: Some(&declared), measured: Some(&measured) };
        assert!(known.runtime_s("here").unwrap() > 399.0, "somebody has said how many tasks it counts for");
        assert_eq!(known.off("here"), Some((400.0, 10.0)), "it is named all the same");
    }

    #[test]
    fn the_type_is_what_it_waits_for() {
        for (cpu_share, memory_share, expected) in [
            (0.99, None, JobType::CpuBound),
            (0.75, Some(0.1), JobType::CpuBound),
            (0.74, Some(0.74), JobType::IoBound),
            (0.99, Some(0.75), JobType::MemoryBound),
        ] {
            assert_eq!(JobType::of(cpu_share, memory_share, None), expected, "{cpu_share} {memory_share:?}");
        }
        for (cpu_share, io_rate, expected) in [
            (0.42, Some(10.0), JobType::CpuBound),
            (0.42, Some(1e6), JobType::IoBound),
            (0.42, None, JobType::IoBound),
            (0.99, Some(1e9), JobType::CpuBound),
            (0.01, Some(0.0), JobType::IoBound),
        ] {
            assert_eq!(JobType::of(cpu_share, None, io_rate), expected, "{cpu_share} {io_rate:?}");
        }
    }
}
