//! The measured and declared properties of applications, as readers see them.

use std::collections::BTreeMap;

use crate::{
    engine::{
        interface::views::profile::{BesideView, ExperienceView, ProfileView},
        read::views::Reader,
        record::co_runners::CoRunners,
        state::learned::{interference::Known, statistics::Statistics},
    },
    ids::PlatformId,
    policy::affinity::corunner::CorunnerAffinity,
    time::Span,
};

impl Reader<'_> {
    /// Returns the measured and declared properties of all applications, by name.
    pub(in crate::engine) fn profiles(&self) -> Vec<ProfileView> {
        let mut found = BTreeMap::<&String, Vec<ExperienceView>>::new();
        for (platform, known) in self.durable.learned() {
            let Some(spec) = self.durable.platforms().get(platform) else { continue };
            for (application, known) in known.iter() {
                let beside = self.beside(*platform, application);
                let degree = self.durable.facts().degree(
                    *platform,
                    application,
                    self.durable.offered(*platform).cores,
                );
                let view = ExperienceView { degree, beside, ..experience(&spec.name, known) };
                found.entry(application).or_default().push(view);
            }
        }
        for application in self.durable.declared().keys() {
            found.entry(application).or_default();
        }
        let profile = |(application, mut platforms): (&String, Vec<ExperienceView>)| {
            platforms.sort_by(|a, b| a.platform.cmp(&b.platform));
            ProfileView {
                application: application.clone(),
                job_type: self.durable.facts().job_type(application).map(|(job_type, _)| job_type),
                platforms,
                declared: self.durable.declared().get(application).cloned(),
            }
        };
        found.into_iter().map(profile).collect()
    }
}

impl Reader<'_> {
    fn beside(&self, platform: PlatformId, application: &str) -> Vec<BesideView> {
        let known = self.durable.neighbours().of(platform, application);
        let alone = known.and_then(|known| known.get(&CoRunners::Nobody)).map(Known::mean_s);
        let view = |(company, held): (&CoRunners, &Known)| BesideView {
            others: match company {
                CoRunners::Nobody => None,
                CoRunners::Full(others) => Some(others.clone()),
            },
            n: held.n,
            mean: Span::from_secs_f64(held.mean_s()),
            difference: alone
                .filter(|alone| *alone > 0.0)
                .map(|alone| CorunnerAffinity::Normalized.difference(held.mean_s(), alone)),
        };
        known.into_iter().flatten().map(view).collect()
    }
}

fn experience(platform: &str, known: &Statistics) -> ExperienceView {
    ExperienceView {
        platform: platform.to_owned(),
        n_done: known.n_done,
        n_failed: known.n_failed,
        mean: known.mean(),
        deviation: known.deviation(),
        cpu_share: known.cpu_share(),
        error_rate: known.error_rate(),
        memory_bytes_max: known.memory_bytes_max,
        io_rate: known.io_rate(),
        prepared: known.prepared(),
        degree: 0,
        beside: Vec::new(),
    }
}
