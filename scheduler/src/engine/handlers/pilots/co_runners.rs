//! Records the runtimes of tasks beside co-runners.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    engine::{
        live::{
            Live,
            pilots::{node_applications::NodeApplications, pilot_state::PilotState},
            timers::Timer,
        },
        record::{JobResult, Record, co_runners::CoRunTimes},
        state::{
            durable::Durable,
            learned::{
                interference::{KEPT_AFTER, N_MEMBERS, NEW_AFTER},
                statistics::Statistics,
            },
        },
        turn::Turn,
    },
    ids::{PilotId, PlatformId},
    time::{Span, Time},
};

impl Turn<'_> {
    /// Records the measurements, one record per platform; a mapping policy then gets a new plan.
    pub(in crate::engine) fn keep_measured(&mut self) {
        self.live.measured_due_at = None;
        self.keep_efforts();
        let mut by_platform = BTreeMap::<PlatformId, Vec<CoRunTimes>>::new();
        for ((platform, application, company), (n, wall_us)) in std::mem::take(&mut self.live.measured) {
            by_platform.entry(platform).or_default().push(CoRunTimes { application, company, n, wall_us });
        }
        for (platform, beside) in by_platform {
            self.record(Record::BesideMeasured { platform, beside, at: self.now });
            if self.policies().mapping.is_some() {
                self.want_plan();
            }
        }
    }
}

/// Returns the applications of the tasks that a pilot holds, and whether it holds a single task; `None` if
/// nothing can be measured there, as on a node that has several tasks and is not full.
fn crew<'a>(durable: &'a Durable, state: &PilotState) -> Option<(BTreeSet<&'a str>, bool)> {
    let is_alone = state.n_leased() == 1;
    let is_full = u64::from(state.used.cores) * 4 >= u64::from(state.capacity.cores) * 3;
    // Runtimes on shared cores cannot be compared.
    let has_slots = state.capacity.widest > 0;
    if state.capacity.cores < 2 || has_slots || !is_alone && !is_full {
        return None;
    }
    let of_job = |job| durable.jobs().get(job).map(|job| job.request.application.as_str());
    let applications: BTreeSet<&str> = state.leases.keys().filter_map(of_job).collect();
    N_MEMBERS.contains(&applications.len()).then_some((applications, is_alone))
}

impl Live {
    /// Notes the applications on the pilot's node after its leases have changed.
    pub fn note_crew(&mut self, durable: &Durable, id: PilotId, now: Time) {
        let Some(state) = self.pilots.get_mut(&id) else { return };
        let Some((applications, is_alone)) = crew(durable, state) else {
            state.crew = None;
            return;
        };
        let is_same = |held: &NodeApplications| {
            held.is_alone == is_alone && held.applications.iter().eq(applications.iter().copied())
        };
        if !state.crew.as_deref().is_some_and(is_same) {
            let applications = applications.into_iter().map(str::to_owned).collect();
            state.crew = Some(Box::new(NodeApplications { applications, is_alone, since: now }));
        }
    }

    /// Measures successes that had the same co-runners all the time; but only after these have been together
    /// for twice the mean runtime, or only the shortest tasks would count.
    pub fn note_beside(&mut self, durable: &Durable, id: PilotId, results: &[JobResult], now: Time) {
        let crew = self.pilots.get(&id).and_then(|state| state.crew.as_deref());
        let (Some(crew), Some(pilot)) = (crew, durable.pilots().get(&id)) else { return };
        let together = now.since(crew.since);
        let beside = |result: &JobResult| {
            let application = &durable.jobs().get(&result.job)?.request.application;
            let walls = &result.successes.wall_us;
            let mean = durable.facts().known(pilot.platform, application).measured.and_then(Statistics::mean);
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

    pub(in crate::engine) fn arm_measured(&mut self, at: Time) {
        if self.measured_due_at.is_none_or(|due_at| at < due_at) {
            if let Some(due_at) = self.measured_due_at.replace(at) {
                self.timers.remove(&(due_at, Timer::Measured));
            }
            self.timers.insert((at, Timer::Measured));
        }
    }
}
