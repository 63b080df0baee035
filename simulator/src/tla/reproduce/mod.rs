//! The tables and figures of paper 001, run anew.

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

/// The paper's tables and figures with the workloads that its models generate.
pub fn reproduce(effort: Effort, seed: u64, progress: &dyn Progress) -> Report {
    report(effort, seed, progress, Vec::new())
}

/// The same, and table 4 for all logs of a folder too: files whose names end in `.swf` or `.swf.gz`, in the
/// order of their names. Those of the paper are told by their names: `SDSC-SP2…` is taken for A, `ANL-Intrepid…`
/// for B and `DAS2…` for C.
///
/// # Errors
/// The folder or a log cannot be read; told with file, line and field.
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
