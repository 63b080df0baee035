//! Reads jobs of workload logs that a scenario file names.

use std::path::Path;

use protocol::job::{Node, Reader};
use scheduler::time::Span;

use super::{
    Application,
    distribution::span,
    order::Order,
    past::{Coming, Lengths, PastJob},
    read_values::positive,
};
use crate::tla::{swf, workload::Job};

/// Fields that a job entry with `arrivals.swf` must not have, because the log determines them.
pub(super) const SAID_BY_LOG: [&str; 2] = ["tasks", "count"];

/// The part of a log that a scenario file selects.
pub(super) struct Wish<'v> {
    swf: Node<'v>,
    /// Number of jobs to take, from the first.
    first: Option<usize>,
    /// The divisor of the times between submissions.
    compressed: f64,
}

/// The fields beside `swf`, which select a part of the log.
pub(super) const WISH_FIELDS: [&str; 2] = ["first", "compressed"];

/// Reads the fields that select a part of a log.
pub(super) fn wish<'v>(
    reader: &mut Reader<'_>,
    swf: Node<'v>,
    [first, compressed]: [Option<Node<'v>>; 2],
) -> Wish<'v> {
    let first = first.and_then(|node| reader.integer(&node, (1, i128::from(u32::MAX))));
    let compressed = compressed.and_then(|node| positive(reader, &node));
    Wish { swf, first, compressed: compressed.unwrap_or(1.0) }
}

impl Wish<'_> {
    /// Returns the log's jobs that ran, the first at time 0. `folder`: the directory to which its path is
    /// relative.
    pub(super) fn jobs(&self, reader: &mut Reader<'_>, folder: &Path) -> Option<Vec<Job>> {
        let path = folder.join(reader.text(&self.swf)?);
        let log = match swf::read(&path) {
            Ok(log) => log,
            Err(swf::Trouble::Unopened { path, cause }) => {
                let found = format!("`{}`, which cannot be opened ({cause})", path.display());
                return reader.report(&self.swf.path, found, "check the path");
            }
            Err(trouble) => {
                let found = "a log with a mistake";
                return reader.report(&self.swf.path, found, trouble.to_string());
            }
        };
        let mut jobs = log.workload.jobs().to_vec();
        jobs.truncate(self.first.unwrap_or(usize::MAX));
        let begin = jobs.first().map_or(0.0, |job| job.submitted_at);
        for job in &mut jobs {
            job.submitted_at = (job.submitted_at - begin) / self.compressed;
        }
        Some(jobs)
    }
}

/// Converts a job of p processors to one of p / cores tasks, because a pilot is on one node; each task takes
/// the job's runtime.
pub(super) fn past_job(
    logged: &Job,
    (which, application): (usize, &Application),
    (at, priority): (Span, i32),
) -> PastJob {
    let job = Coming {
        user: 0,
        application: which,
        at: at + span(logged.submitted_at),
        n_tasks: logged.cores.div_ceil(u64::from(application.cores)),
        needs: application.needs(),
        retries: application.retries,
        priority,
        priority_over_all: true,
        estimates: None,
    };
    PastJob { job, lengths: Lengths::Alike(span(logged.runtime)), order: Order::default() }
}
