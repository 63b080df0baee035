//! Fairness among users (paper 000, section 6.1): 1 less the coefficient of variation of their throughputs.
//! Each throughput is relative to the throughput that the user would have if all tasks ran where they are
//! fastest, on the user's part of the cores.

use std::collections::BTreeMap;

use crate::{
    engine::{plan::runtime_model::RuntimeModel, read::views::Reader},
    ids::PlatformId,
    time::Time,
};

/// Returns 1 less the coefficient of variation, of the population: 1 when all are equal.
pub fn fairness(speeds: &[f64]) -> f64 {
    let n = speeds.len() as f64;
    let mean = speeds.iter().sum::<f64>() / n;
    let variance = speeds.iter().map(|speed| (speed - mean).powi(2)).sum::<f64>() / n;
    1.0 - variance.sqrt() / mean
}

/// The work done for a user with open tasks.
struct Served {
    /// The first submission of the user's open jobs.
    since: Time,
    /// Core-seconds that the tasks done since then would take where they are fastest.
    fastest_s: f64,
}

impl Reader<'_> {
    /// Returns the fairness among all users with open tasks; `None` with fewer than two users, or while
    /// nothing is done. The time of each user starts with the first submission of the user's open jobs.
    pub(in crate::engine) fn fairness(&self) -> Option<f64> {
        let platforms: Vec<PlatformId> = self.durable.platforms().keys().copied().collect();
        let runtimes = RuntimeModel::new(self.durable.facts(), &platforms);
        let mut users = BTreeMap::<&str, Served>::new();
        for id in self.live.jobs.keys() {
            let Some(job) = self.durable.jobs().get(id) else { continue };
            let known = users.entry(&job.request.user);
            let known = known.or_insert(Served { since: job.submitted_at, fastest_s: 0.0 });
            known.since = known.since.min(job.submitted_at);
        }
        if users.len() < 2 {
            return None;
        }
        let mut least = BTreeMap::<&str, f64>::new();
        for job in self.durable.jobs().values() {
            let request = &job.request;
            let user = users.get_mut(request.user.as_str()).filter(|user| user.since <= job.submitted_at);
            let Some(user) = user else { continue };
            let least = least.entry(&request.application);
            let least = *least.or_insert_with(|| fastest_s(&runtimes, &request.application));
            user.fastest_s += job.n_done() as f64 * least * f64::from(request.needs.resources.cores);
        }
        // The number of all cores is the same factor for each user.
        let speed = |user: &Served| user.fastest_s / self.now.since(user.since).as_secs_f64().max(1e-6);
        let speeds: Vec<f64> = users.values().map(speed).collect();
        speeds.iter().any(|speed| *speed > 0.0).then(|| fairness(&speeds))
    }
}

/// Returns the seconds of a task where it is fastest; 0 if there is no platform.
fn fastest_s(runtimes: &RuntimeModel<'_>, application: &str) -> f64 {
    let least = runtimes.guess(application).into_iter().fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}
