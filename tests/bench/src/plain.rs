//! A platform and a job without anything special, for lines to change what they need.

use scheduler::{
    engine::interface::{JobRequest, PlatformLimits, PlatformSpec},
    pull::TaskNeeds,
    resources::Resources,
    time::Span,
};

use crate::serve::capacity;

/// So many pilots, wanted at all times.
pub fn platform(n_pilots: u32, cores: u32) -> PlatformSpec {
    PlatformSpec {
        name: "simulated".to_owned(),
        adapter: "local".to_owned(),
        site: None,
        capacity: capacity(cores),
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: n_pilots,
        n_pilots_max: n_pilots,
        idle_timeout: Span::from_secs(3600),
        walltime: None,
        poll_interval: Span::from_secs(10),
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    }
}

/// Tasks of one core each.
pub fn job(n_tasks: u64) -> JobRequest {
    JobRequest {
        user: "bench".to_owned(),
        name: "sweep".to_owned(),
        application: "none".to_owned(),
        n_tasks,
        needs: TaskNeeds {
            resources: Resources::cores(1),
            time_limit: None,
            success_codes: vec![0],
            ..TaskNeeds::default()
        },
        priority: 0,
        priority_over_all: false,
        retries: 1000,
        retry_delay: Span::ZERO,
        crash_limit: 2,
        max_failures: None,
        submission_key: None,
        estimates: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: "{}".into(),
    }
}
