//! The declared and measured properties of applications on platforms. A clone costs next to nothing and is a
//! snapshot: parts that change later are copied first.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    engine::{
        interface::{
            declared_profile::{Declared, JobType},
            job_request::JobRequest,
            platform::platform_spec::PlatformSpec,
        },
        record::{JobResult, resource_use::ResourceUse},
        state::learned::{declared_profile::Known, interference::Interference, statistics::Statistics},
    },
    ids::PlatformId,
    policy::matching::application::degree,
    time::Span,
};

/// All declared and measured properties.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Applications {
    pub(in crate::engine) platforms: Arc<BTreeMap<PlatformId, PlatformSpec>>,
    /// The declared profiles.
    pub(in crate::engine) declared: Arc<BTreeMap<String, Declared>>,
    /// The measurements of attempts, by platform and application.
    pub(in crate::engine) learned: Arc<BTreeMap<PlatformId, Arc<Learned>>>,
    /// The slow-down by co-runners.
    pub(in crate::engine) neighbours: Arc<Interference>,
}

/// The measurements of attempts, by application.
pub type Learned = BTreeMap<String, Statistics>;

impl Applications {
    /// Returns the properties of an application on a platform.
    pub fn known(&self, platform: PlatformId, application: &str) -> Known<'_> {
        Known {
            declared: self.declared.get(application),
            measured: self.learned.get(&platform).and_then(|known| known.get(application)),
        }
    }

    /// Returns the seconds that a task of an application takes on a platform; `None`: neither declared nor
    /// measured.
    pub fn runtime_s(&self, platform: PlatformId, application: &str) -> Option<f64> {
        self.known(platform, application).runtime_s(&self.platforms.get(&platform)?.name)
    }

    /// Returns the type of an application, and whether it is declared: the declared type until as many tasks
    /// as it counts for have been measured.
    pub fn job_type(&self, application: &str) -> Option<(JobType, bool)> {
        let shown = self.shown_type(application);
        let declared = self.declared.get(application);
        match declared.and_then(|declared| Some((declared.job_type?, f64::from(declared.counts_as)))) {
            Some((declared, counts_as)) if shown.is_none_or(|(_, n)| n < counts_as) => Some((declared, true)),
            _ => shown.map(|(shown, _)| (shown, false)),
        }
    }

    /// Returns the type measured on the platform with most tasks, and their number.
    fn shown_type(&self, application: &str) -> Option<(JobType, f64)> {
        let known = self.learned.iter().filter_map(|(id, known)| Some((id, known.get(application)?)));
        let (id, known) = known.max_by(|(_, a), (_, b)| a.n_counted().total_cmp(&b.n_counted()))?;
        let memory_share = self.platforms.get(id).and_then(|spec| {
            let of_core = spec.capacity.memory_bytes.checked_div(spec.capacity.cores.into())?;
            let of_task = of_core as f64 * known.cores()?;
            (of_task > 0.0).then(|| known.memory_bytes_max as f64 / of_task)
        });
        Some((JobType::of(known.cpu_share()?, memory_share, known.io_rate()), known.n_done as f64))
    }

    /// Returns the parallel degree of an application on a pilot with `n_cores` cores: by the loss of pace
    /// from one task to a full node, if both were measured; else as if tasks spent the time for which they
    /// keep no core busy on data.
    pub fn degree(&self, platform: PlatformId, application: &str, n_cores: u32) -> u32 {
        let idle = || 1.0 - self.known(platform, application).cpu_share().unwrap_or(1.0).clamp(0.0, 1.0);
        let lost = self.neighbours.loss_beside_its_like(platform, application);
        degree(lost.unwrap_or_else(idle), n_cores.max(1))
    }

    /// Takes in the results of attempts of a job.
    pub(in crate::engine) fn learn(
        &mut self,
        platform: PlatformId,
        request: &JobRequest,
        result: &JobResult,
    ) {
        let known = Arc::make_mut(Arc::make_mut(&mut self.learned).entry(platform).or_default());
        let (application, cores) = (&request.application, request.needs.resources.cores);
        // The name is copied once and not at each report.
        if !known.contains_key(application) {
            known.insert(application.clone(), Statistics::default());
        }
        if let Some(known) = known.get_mut(application) {
            known.learn(cores, &result.totals, &result.failures);
        }
    }

    /// Counts `n` attempts that ended with their pilots; a negative `n` takes them back.
    pub(in crate::engine) fn learn_lost(&mut self, platform: PlatformId, application: &str, n: f64) {
        let known = Arc::make_mut(Arc::make_mut(&mut self.learned).entry(platform).or_default());
        known.entry(application.to_owned()).or_default().learn_lost(n);
    }

    /// Takes in the resources that tasks used beside cores. Applications without results are left out.
    pub(in crate::engine) fn learn_efforts(&mut self, platform: PlatformId, efforts: &[ResourceUse]) {
        let Some(known) = Arc::make_mut(&mut self.learned).get_mut(&platform) else { return };
        let known = Arc::make_mut(known);
        for effort in efforts {
            if let Some(known) = known.get_mut(&effort.application) {
                known.learn_effort(effort.n, effort.io_bytes, effort.prepared_us);
                known.learn_starved(Span(effort.starved_us));
            }
        }
    }

    /// Forgets the measurements of the application.
    pub(in crate::engine) fn forget(&mut self, application: &str) {
        for known in Arc::make_mut(&mut self.learned).values_mut() {
            Arc::make_mut(known).remove(application);
        }
        Arc::make_mut(&mut self.neighbours).forget(application);
    }

    /// Sets or removes the declared profile of the application.
    pub(in crate::engine) fn declare(&mut self, application: &str, declared: Option<&Declared>) {
        let all = Arc::make_mut(&mut self.declared);
        match declared {
            Some(declared) => _ = all.insert(application.to_owned(), declared.clone()),
            None => _ = all.remove(application),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Applications, Arc, JobType, PlatformId, Statistics};
    use crate::{
        engine::{interface::PlatformSpec, record::Totals, tests::platform},
        resources::Resources,
    };

    #[test]
    fn a_task_of_several_cores_has_the_memory_of_several() {
        let type_of = |cores: u32| {
            let capacity = Resources { memory_bytes: 400, ..Resources::cores(4) };
            let spec = PlatformSpec { capacity, ..platform(1, 4) };
            let mut known = Statistics::default();
            let totals = Totals {
                n: 1,
                wall_us: 10,
                cpu_us: 10 * u64::from(cores),
                memory_bytes_max: 90,
                ..Totals::default()
            };
            known.learn(cores, &totals, &[]);
            let learned = [(PlatformId(1), Arc::new([("fold".to_owned(), known)].into()))];
            let facts = Applications {
                platforms: Arc::new([(PlatformId(1), spec)].into()),
                learned: Arc::new(learned.into()),
                ..Applications::default()
            };
            facts.job_type("fold").map(|(found, _)| found)
        };
        assert_eq!(type_of(1), Some(JobType::MemoryBound), "90 of its core's 100");
        assert_eq!(type_of(4), Some(JobType::CpuBound), "90 of its cores' 400");
    }
}
