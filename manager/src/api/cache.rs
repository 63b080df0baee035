//! Compiled jobs, kept for those that are asked for often.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::job::{Compiled, Extractor, JobSpec, Problem};
use scheduler::ids::JobId;

/// Jobs kept at most, and
const N_JOBS_MAX: usize = 256;
/// bytes of their specs together, beyond the one used last.
const BYTES_MAX: usize = 64 << 20;

/// A job's spec, ready for use.
pub(super) struct JobFacts {
    pub(super) compiled: Compiled,
    pub(super) extractor: Extractor,
    n_bytes: usize,
}

impl JobFacts {
    /// Compiles a spec whose JSON has `n_bytes`. Errors: its problems in a line, when it is not valid.
    pub(super) fn new(spec: &JobSpec, n_bytes: usize) -> Result<JobFacts, String> {
        let line =
            |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ");
        let compiled = spec.compile().map_err(line)?;
        let extractor = Extractor::new(&spec.results.extract).map_err(line)?;
        Ok(JobFacts { compiled, extractor, n_bytes })
    }
}

/// The jobs asked for last, the last one at the end.
#[derive(Default)]
pub(super) struct JobCache {
    jobs: Mutex<Vec<(JobId, Arc<JobFacts>)>>,
}

impl JobCache {
    pub(super) fn find(&self, id: JobId) -> Option<Arc<JobFacts>> {
        let mut jobs = self.lock();
        let at = jobs.iter().position(|(kept, _)| *kept == id)?;
        let found = jobs.remove(at);
        let facts = found.1.clone();
        jobs.push(found);
        Some(facts)
    }

    pub(super) fn keep(&self, id: JobId, facts: JobFacts) -> Arc<JobFacts> {
        let facts = Arc::new(facts);
        let mut jobs = self.lock();
        jobs.retain(|(kept, _)| *kept != id);
        jobs.push((id, facts.clone()));
        let n_bytes =
            |jobs: &[(JobId, Arc<JobFacts>)]| jobs.iter().map(|(_, job)| job.n_bytes).sum::<usize>();
        while jobs.len() > N_JOBS_MAX || (jobs.len() > 1 && n_bytes(&jobs) > BYTES_MAX) {
            jobs.remove(0);
        }
        facts
    }

    /// The list is whole at any time, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Vec<(JobId, Arc<JobFacts>)>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use protocol::job::{CommandLine, JobSpec};
    use scheduler::ids::JobId;

    use super::{BYTES_MAX, JobCache, JobFacts, N_JOBS_MAX};

    fn facts(n_bytes: usize) -> JobFacts {
        let spec = JobSpec::new(CommandLine::Args(vec!["true".to_owned()]), "/".into());
        JobFacts::new(&spec, n_bytes).unwrap()
    }

    #[test]
    fn the_jobs_asked_for_last_are_kept() {
        let cache = JobCache::default();
        for n in 0..N_JOBS_MAX as u64 {
            cache.keep(JobId(n), facts(1));
        }
        assert!(cache.find(JobId(0)).is_some());
        cache.keep(JobId(1000), facts(1));
        assert!(cache.find(JobId(0)).is_some() && cache.find(JobId(1)).is_none());
    }

    #[test]
    fn large_jobs_push_others_out_but_not_themselves() {
        let cache = JobCache::default();
        cache.keep(JobId(1), facts(1));
        cache.keep(JobId(2), facts(BYTES_MAX + 1));
        assert!(cache.find(JobId(1)).is_none() && cache.find(JobId(2)).is_some());
    }
}
