//! Models of the workloads of supercomputers. Only proportions matter here: runtimes are scaled to the
//! requested load.

pub mod feitelson96;
pub mod hyper_erlang;
pub mod jann97;
pub mod lublin99;

use super::workload::Workload;

/// The models with which the paper generates workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// See `lublin99.rs`.
    Lublin99,
    /// See `feitelson96.rs`.
    Feitelson96,
    /// See `jann97.rs`.
    Jann97,
}

impl Model {
    /// Generates `n_jobs` jobs of at most `n_cores` processors; the same for the same seed.
    pub fn generate(self, n_jobs: usize, n_cores: u64, seed: u64) -> Workload {
        match self {
            Model::Lublin99 => lublin99::generate(n_jobs, n_cores, seed),
            Model::Feitelson96 => feitelson96::generate(n_jobs, n_cores, seed),
            Model::Jann97 => jann97::generate(n_jobs, n_cores, seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Model;

    #[test]
    fn the_same_seed_makes_the_same_jobs_in_order_and_in_size() {
        for model in [Model::Lublin99, Model::Feitelson96, Model::Jann97] {
            let workload = model.generate(2000, 100, 5);
            assert_eq!(workload, model.generate(2000, 100, 5), "{model:?}");
            assert_ne!(workload, model.generate(2000, 100, 6), "{model:?}");
            assert_eq!(workload.jobs().len(), 2000, "{model:?}");
            assert!(workload.jobs().is_sorted_by(|a, b| a.submitted_at <= b.submitted_at), "{model:?}");
            for job in workload.jobs() {
                assert!(job.runtime > 0.0 && (1..=100).contains(&job.cores), "{model:?}: {job:?}");
                assert_eq!(job.estimate, job.runtime);
            }
        }
    }
}
