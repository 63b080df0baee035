//! The reproduction of the tables and figures of paper 001.

mod depth;
mod estimates;
mod example;
mod inner;
mod runs;
mod size;
mod sources;
mod table_4;

use std::path::Path;

use super::swf;
use crate::report::{Effort, Progress, Report};

/// Reproduces the paper's tables and figures with the workloads that its models generate.
pub fn reproduce(effort: Effort, seed: u64, progress: &dyn Progress) -> Report {
    report(effort, seed, progress, Vec::new())
}

/// Reproduces the same, and table 4 for all logs of a directory: files with names that end in `.swf` or
/// `.swf.gz`, in the order of their names. The paper's logs are recognized by their names: `SDSC-SP2…` is A,
/// `ANL-Intrepid…` is B and `DAS2…` is C.
///
/// # Errors
/// The directory or a log cannot be read; the error names file, line and field.
pub fn reproduce_with_logs(
    effort: Effort,
    seed: u64,
    progress: &dyn Progress,
    folder: Option<&Path>,
) -> Result<Report, swf::Trouble> {
    let logs = folder.map_or_else(|| Ok(Vec::new()), |folder| sources::of_folder(folder, effort))?;
    Ok(report(effort, seed, progress, logs))
}

fn report(effort: Effort, seed: u64, progress: &dyn Progress, logs: Vec<sources::Source>) -> Report {
    let size = size::Size::of(effort);
    let mut all = sources::generated(size, seed);
    let sweep = sources::for_sweeps(size, seed);
    all.extend(logs);
    Report {
        name: "tla",
        paper: "Shih et al., \"TLA: Temporal look-ahead processor allocation method for heterogeneous \
                multi-cluster systems\", JPDC 73 (2013) (paper 001)",
        effort,
        parts: vec![
            example::part(),
            table_4::part(&all, size, seed, progress),
            depth::part(&sweep, size, seed, progress),
            estimates::part(&sweep, size, seed, progress),
            inner::part(&sweep, size, seed, progress),
        ],
    }
}

#[cfg(test)]
mod tests;
