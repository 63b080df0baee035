//! The workloads of table 4, on five and on ten clusters.

use std::{fs, io, path::Path};

use super::size::Size;
use crate::{
    report::Effort,
    tla::{
        models::Model,
        published::{Row, TABLE_4},
        swf::{self, Trouble},
        workload::Workload,
    },
};

/// Processors of each cluster for generated workloads. The paper's numbers for E and F could not be read;
/// chosen equal to D.
pub const GENERATED_CORES: u64 = 128;
/// The number of jobs after which a log is cut.
const LOG_JOBS_MAX: usize = 50_000;

/// A workload and its clusters.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of its row.
    pub name: String,
    /// Its origin.
    pub origin: String,
    /// Processors of each cluster.
    pub cluster_cores: u64,
    /// Number of clusters.
    pub n_clusters: usize,
    /// The workload; no job is larger than a cluster.
    pub workload: Workload,
}

impl Source {
    /// Returns the published row of table 4.
    pub fn row(&self) -> Option<&'static Row> {
        TABLE_4.iter().find(|row| row.name == self.name)
    }

    /// Returns the number of processors of all clusters.
    pub fn n_cores(&self) -> u64 {
        self.cluster_cores * self.n_clusters as u64
    }
}

/// Returns the workloads D, E and F.
pub fn generated(size: Size, seed: u64) -> Vec<Source> {
    let of_model = |(letter, model): (&str, Model)| {
        let workload = model.generate(size.n_jobs, GENERATED_CORES, seed);
        pair(letter, &format!("{model:?}"), GENERATED_CORES, workload)
    };
    [("D", Model::Lublin99), ("E", Model::Feitelson96), ("F", Model::Jann97)]
        .into_iter()
        .flat_map(of_model)
        .collect()
}

/// Returns D1 with the length for the sweeps.
pub fn for_sweeps(size: Size, seed: u64) -> Source {
    let workload = Model::Lublin99.generate(size.n_sweep_jobs, GENERATED_CORES, seed);
    let [five, _] = pair("D", "Lublin99", GENERATED_CORES, workload);
    five
}

/// Returns the same workload on five clusters and on ten.
fn pair(letter: &str, origin: &str, cluster_cores: u64, workload: Workload) -> [Source; 2] {
    [(1, 5), (2, 10)].map(|(number, n_clusters)| Source {
        name: format!("{letter}{number}"),
        origin: origin.to_owned(),
        cluster_cores,
        n_clusters,
        workload: workload.clone(),
    })
}

/// Reads all logs of a directory.
pub fn of_folder(folder: &Path, effort: Effort) -> Result<Vec<Source>, Trouble> {
    let unopened = |cause: io::Error| Trouble::Unopened { path: folder.to_owned(), cause };
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(unopened)?.collect();
    let mut paths: Vec<_> = entries.map_err(unopened)?.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(stem) = name.strip_suffix(".gz").unwrap_or(&name).strip_suffix(".swf") else { continue };
        sources.extend(of_log(stem, swf::read(&path)?, effort));
    }
    Ok(sources)
}

fn of_log(stem: &str, log: swf::Log, effort: Effort) -> [Source; 2] {
    let largest = log.workload.jobs().iter().map(|job| job.cores).max().unwrap_or(1);
    let cores = log.n_cores.filter(|n_cores| *n_cores > 0).unwrap_or(largest);
    let n_jobs = match effort {
        Effort::Quick => Size::of(effort).n_jobs,
        Effort::Full => LOG_JOBS_MAX,
    };
    let fitting = log.workload.up_to(cores);
    let workload = Workload::new(fitting.jobs().iter().take(n_jobs).copied().collect());
    let papers = [("SDSC-SP2", "A"), ("ANL-Intrepid", "B"), ("DAS2", "C")];
    let letter = papers.iter().find(|(start, _)| stem.starts_with(start)).map(|(_, letter)| *letter);
    match letter {
        Some(letter) => pair(letter, stem, cores, workload),
        None => pair(&format!("{stem} "), "a log", cores, workload),
    }
}
