//! How much output of a job is kept: until its budget is used up, and nothing after that. Tasks never hear of it.
//!
//! Nothing is kept of this but the outputs themselves: a job's budget is used up when they take as much as that.

use std::collections::HashMap;

use protocol::job::limits::RESULT_BUDGET_BYTES_DEFAULT;
use scheduler::{engine::record::Record, ids::JobId, results::TaskOutput, size::Size};
use serde::Deserialize;

use crate::store::{Store, StoreError, packed_len};

/// Stands in each spec that says something else than the default.
const FIELD: &str = "\"budget_bytes\"";

/// See the module.
#[derive(Default)]
pub(crate) struct Budgets {
    /// Those that are not the default, in bytes.
    said: HashMap<JobId, u64>,
    /// What is kept of jobs that have brought something since the start, in bytes.
    kept: HashMap<JobId, u64>,
}

/// What of a job's spec is looked at.
#[derive(Deserialize)]
struct Spec {
    results: Results,
}

#[derive(Deserialize)]
struct Results {
    #[serde(default = "default")]
    budget_bytes: u64,
}

/// Where the words stand elsewhere in the spec.
fn default() -> u64 {
    RESULT_BUDGET_BYTES_DEFAULT
}

impl Budgets {
    /// Takes note of what jobs say.
    pub(crate) fn note(&mut self, record: &Record) {
        let Record::JobAccepted { job, request, .. } = record else { return };
        let n_bytes = budget_of(&request.spec);
        if n_bytes != RESULT_BUDGET_BYTES_DEFAULT {
            self.said.insert(*job, n_bytes);
        }
    }

    /// Takes output out of records for which there is no room in its job's budget any more.
    ///
    /// Errors: those of the store, which is asked for what it has of a job.
    pub(crate) fn cut(&mut self, records: &mut [Record], store: &Store) -> Result<(), StoreError> {
        for record in records {
            self.note(record);
            let Record::Reported { results, .. } = record else { continue };
            for result in results.iter_mut().filter(|result| !result.outputs.is_empty()) {
                let budget = self.said.get(&result.job).copied().unwrap_or(RESULT_BUDGET_BYTES_DEFAULT);
                let mut kept = match self.kept.get(&result.job) {
                    Some(kept) => *kept,
                    None => store.output_bytes(result.job)?,
                };
                result.outputs.retain_mut(|output| {
                    let has_room = kept < budget;
                    if has_room {
                        fit(output, budget, budget - kept);
                        kept = kept.saturating_add(packed_len(output));
                    }
                    has_room
                });
                self.kept.insert(result.job, kept);
            }
        }
        Ok(())
    }
}

/// The budget that a job's spec says, in bytes.
pub(crate) fn budget_of(spec: &str) -> u64 {
    // Most say nothing, and need not be read.
    let said = spec.contains(FIELD).then(|| serde_json::from_str::<Spec>(spec).ok()).flatten();
    said.map_or(RESULT_BUDGET_BYTES_DEFAULT, |spec| spec.results.budget_bytes)
}

/// Cuts an output that is the last one for which there is room, and says so in it.
fn fit(output: &mut TaskOutput, budget: u64, n_left: u64) {
    if packed_len(output) <= n_left {
        return;
    }
    let n_left = usize::try_from(n_left).unwrap_or(usize::MAX);
    output.stdout.truncate(n_left);
    output.stderr.truncate(n_left - output.stdout.len());
    let line = format!(
        "\n[pilotfish: the job's budget for output ({}, results.budget) is used up: nothing more is kept]\n",
        Size(budget)
    );
    let shortened = if output.stderr.is_empty() { &mut output.stdout } else { &mut output.stderr };
    shortened.extend_from_slice(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(n_out: usize, n_err: usize) -> TaskOutput {
        TaskOutput { index: 3, stdout: vec![b'o'; n_out], stderr: vec![b'e'; n_err] }
    }

    #[test]
    fn the_last_one_for_which_there_is_room_is_cut_and_says_so() {
        let mut whole = output(10, 10);
        fit(&mut whole, 1000, 100);
        assert_eq!(whole, output(10, 10));
        for (n_out, n_err, n_left) in [(200, 50, 100), (20, 500, 100), (0, 101, 100), (5, 5, 1)] {
            let mut cut = output(n_out, n_err);
            fit(&mut cut, 2048, n_left);
            let text = String::from_utf8([cut.stdout.clone(), cut.stderr.clone()].concat()).unwrap();
            let line = "[pilotfish: the job's budget for output (2.0 KiB, results.budget) is used up";
            assert_eq!(text.matches(line).count(), 1, "{text}");
            let kept = text.split("\n[pilotfish").next().unwrap_or_default();
            assert!(kept.len() as u64 <= n_left, "{text}");
            assert!(packed_len(&cut) >= n_left, "the budget is used up then");
        }
    }
}
