//! Past jobs of one workflow: they are submitted together.

use std::{collections::BTreeMap, sync::Arc};

use scheduler::{engine::interface::On, ids::JobId};

use super::past::PastJob;

/// Past jobs that are submitted together.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Together {
    /// The jobs by position, ascending.
    pub(super) jobs: Vec<usize>,
    /// The place of each past job in the order of submission of all past jobs.
    places: Arc<[u64]>,
}

impl Together {
    /// Returns the reference to another job on which one of these depends. `n_before`: number of jobs before
    /// all past ones.
    pub(super) fn on(&self, other: usize, n_before: u64) -> On {
        match self.jobs.binary_search(&other) {
            Ok(at) => On::Stage(at),
            Err(_) => On::Job(JobId(n_before + self.places[other])),
        }
    }
}

/// Groups all past jobs, in the order of their submission.
pub(super) fn together(past: &[PastJob]) -> Vec<Together> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::<JobId, usize>::new();
    for (which, job) in past.iter().enumerate() {
        let at = job.order.workflow.map_or(all.len(), |id| *known.entry(id).or_insert(all.len()));
        match all.get_mut(at) {
            Some(jobs) => jobs.push(which),
            None => all.push(vec![which]),
        }
    }
    let mut places = vec![0; past.len()];
    for (place, which) in (0..).zip(all.iter().flatten()) {
        places[*which] = place;
    }
    let places: Arc<[u64]> = places.into();
    all.into_iter().map(|jobs| Together { jobs, places: Arc::clone(&places) }).collect()
}
