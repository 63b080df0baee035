//! Matching at the level of applications: the application that a node serves when it pulls, and the job of
//! that application (paper 002, sections 3 and 4, Fig. 2).
//!
//! The paper searches the best of all pairs and may thus give tasks to a node that did not ask; here only
//! nodes that have asked take part. A node keeps to its previous job while that job has tasks, so that its
//! environment need not be set up anew.

mod alstb;
mod fifo;
mod importance;
mod max_std;
mod min_min;
mod ni;
mod requests;
mod soonest;
mod sufferage;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

pub use importance::{Importance, degree};
pub use requests::Requests;

/// The policies of this layer that score applications, by their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByApplication {
    /// Global importance: see `alstb.rs`.
    #[default]
    Alstb,
    /// Node importance: see `ni.rs`.
    Ni,
    /// The application that runs fastest on the node: see `min_min.rs`.
    MinMin,
    /// The application whose rates differ most between nodes: see `max_std.rs`.
    MaxStd,
    /// The application that loses most elsewhere: see `sufferage.rs`.
    Sufferage,
    /// Among the applications that suit the node, the one with the job that ends soonest: see `soonest.rs`.
    Soonest,
    /// The application of the oldest job: see `fifo.rs`.
    Fifo,
}

/// An application with waiting tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Open {
    /// The index of the application.
    pub application: usize,
    /// The remaining work of its job with the least remaining work: the sum of the estimates of waiting
    /// tasks.
    pub work: f64,
    /// The submission order, among all jobs and counted from 0, of its oldest job.
    pub oldest: usize,
}

/// The value of an application for a node: the first number, then the second; larger is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score(pub f64, pub f64);

impl Score {
    fn of(first: f64) -> Score {
        Score(first, 0.0)
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Score) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.total_cmp(&other.1))
    }
}

impl ByApplication {
    /// All policies.
    pub const ALL: [ByApplication; 7] = [
        ByApplication::Alstb,
        ByApplication::Ni,
        ByApplication::MinMin,
        ByApplication::MaxStd,
        ByApplication::Sufferage,
        ByApplication::Soonest,
        ByApplication::Fifo,
    ];

    /// Returns the score of the application for the node. O(1).
    ///
    /// # Panics
    /// There is no such application or node.
    pub fn score(self, importance: &Importance, application: usize, node: usize) -> Score {
        let score = match self {
            ByApplication::Alstb => alstb::score,
            ByApplication::Ni => ni::score,
            ByApplication::MinMin => min_min::score,
            ByApplication::MaxStd => max_std::score,
            ByApplication::Sufferage => sufferage::score,
            ByApplication::Soonest => soonest::score,
            ByApplication::Fifo => fifo::score,
        };
        score(importance, application, node)
    }

    /// Returns the application, among those with tasks, that a single pulling node should serve: the one with
    /// the best score (but see `soonest.rs` and `fifo.rs`), of equal ones the first. O(applications with
    /// tasks).
    ///
    /// # Panics
    /// There is no such application or node.
    pub fn choose(self, importance: &Importance, node: usize, open: &[Open]) -> Option<usize> {
        match self {
            ByApplication::Soonest => return soonest::choose(importance, node, open),
            ByApplication::Fifo => return fifo::choose(open),
            _ => {}
        }
        let scored = open.iter().map(|one| (self.score(importance, one.application, node), one.application));
        scored.reduce(|best, other| if other.0 > best.0 { other } else { best }).map(|(_, one)| one)
    }

    /// Returns the job that a node should serve, among its application's jobs with tasks: the one with the
    /// least remaining work, so that jobs end one after the other; of equal ones the first. FIFO returns the
    /// first. `jobs`: in the order of their submission, each with the sum of its undispatched tasks'
    /// estimates. O(jobs of the application).
    pub fn job_of<J>(self, jobs: impl IntoIterator<Item = (J, f64)>) -> Option<J> {
        let is_before = |one: f64, other: f64| self != ByApplication::Fifo && one < other;
        let best = jobs.into_iter().reduce(|best, job| if is_before(job.1, best.1) { job } else { best });
        best.map(|(job, _)| job)
    }
}

#[cfg(test)]
mod tests;
