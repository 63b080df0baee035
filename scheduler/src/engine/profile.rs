//! What was learned and said of applications, shown and forgotten.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Turn,
    declared::{Declared, JobType},
    experience::Experience,
    interface::{Answer, Refusal, RequestId},
    neighbours::{Company, Known},
    record::Record,
    views::Reader,
};
use crate::{ids::PlatformId, policy::affinity::corunner::CorunnerAffinity, time::Span};

/// What is known of an application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileView {
    /// As jobs name it.
    pub application: String,
    /// What its tasks wait for most: as declared, else as they show.
    pub job_type: Option<JobType>,
    /// Where it has run, by name of the platform.
    pub platforms: Vec<ExperienceView>,
    /// What was said of it; measurements outweigh it.
    pub declared: Option<Declared>,
}

/// What was learned of an application on one platform. Means forget what was long ago.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperienceView {
    /// The platform.
    pub platform: String,
    /// Successes.
    pub n_done: u64,
    /// Attempts that failed by the program's fault.
    pub n_failed: u64,
    /// Mean wall time of a success.
    pub mean: Option<Span>,
    /// Its standard deviation.
    pub deviation: Option<Span>,
    /// How busy a success keeps its cores, 0 to about 1.
    pub cpu_share: Option<f64>,
    /// The part of attempts that fail by the program's fault, 0 to 1.
    pub error_rate: Option<f64>,
    /// The largest peak memory of a success, bytes; 0: not known.
    pub memory_bytes_max: u64,
    /// Bytes a second that a task reads from disks and writes to them, where any has told.
    #[serde(default)]
    pub io_rate: Option<f64>,
    /// How long it takes until a task's program has begun, where any has told.
    #[serde(default)]
    pub prepared: Option<Span>,
    /// How many tasks a node runs well at a time, as far as is known.
    #[serde(default)]
    pub degree: u32,
    /// What it takes in company, on nodes of several cores.
    #[serde(default)]
    pub beside: Vec<BesideView>,
}

/// What an application's tasks take beside others on a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BesideView {
    /// The other applications on a full node; `None`: the task had the node for itself.
    pub others: Option<Vec<String>>,
    /// Successes.
    pub n: u64,
    /// Mean wall time; it forgets what was long ago.
    pub mean: Span,
    /// How much longer that is than alone: 0.5 is half as much again. `None`: none has run alone.
    pub difference: Option<f64>,
}

impl Reader<'_> {
    /// What was learned or said of all applications, by their names.
    pub(super) fn profiles(&self) -> Vec<ProfileView> {
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
        let alone = known.and_then(|known| known.get(&Company::Nobody)).map(Known::mean_s);
        let view = |(company, held): (&Company, &Known)| BesideView {
            others: match company {
                Company::Nobody => None,
                Company::Full(others) => Some(others.clone()),
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

impl Turn<'_> {
    /// What was learned of an application on all platforms is forgotten; answers with what it was.
    pub(super) fn forget(&mut self, request: RequestId, application: String) {
        let Some(profile) = self.profile(&application).filter(|profile| !profile.platforms.is_empty()) else {
            return self.refuse(request, Refusal::NoProfile(application));
        };
        self.volatile.measured.retain(|(_, of, company), _| *of != application && !company.has(&application));
        self.volatile.efforts.retain(|(_, of), _| *of != application);
        self.record(Record::ProfileForgotten { application, at: self.now });
        self.answer(request, Answer::Profiles(vec![profile]));
    }
}

impl Turn<'_> {
    /// Somebody says what an application is like, or takes it back; answers with what is known of it then.
    pub(super) fn declare(&mut self, request: RequestId, application: String, declared: Option<Declared>) {
        if self.durable.declared().get(&application) != declared.as_ref() {
            self.record(Record::ProfileDeclared { application: application.clone(), declared, at: self.now });
            self.stir_platforms();
        }
        self.answer(request, Answer::Profiles(self.profile(&application).into_iter().collect()));
    }

    fn profile(&self, application: &str) -> Option<ProfileView> {
        let reader = Reader::new(self.settings, self.durable, self.volatile, self.now);
        reader.profiles().into_iter().find(|profile| profile.application == application)
    }
}

fn experience(platform: &str, known: &Experience) -> ExperienceView {
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
