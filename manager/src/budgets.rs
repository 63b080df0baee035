//! How much output of a job is kept: until its budget is used up, or its user's quota, and nothing after that. Tasks never
//! hear of it.
//!
//! Nothing is kept of this but the outputs themselves: a job's budget is used up when they take as much as that.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use protocol::{job::limits::RESULT_BUDGET_BYTES_DEFAULT, text::kept::used_up_line};
use scheduler::{digest::Digest, engine::record::Record, ids::JobId, results::TaskOutput, size::Size};
use serde::Deserialize;

use crate::{
    files::objects::owners::Owners,
    quotas::CurrentQuotas,
    security::users::Users,
    store::{Store, StoreError, packed_len},
};

/// Stands in each spec that says something else than the default.
const FIELD: &str = "\"budget_bytes\"";

/// See the module.
#[derive(Default)]
pub(crate) struct Budgets {
    /// Those that are not the default, in bytes.
    said: HashMap<JobId, u64>,
    /// What is kept of jobs that have brought something since the start, in bytes.
    kept: HashMap<JobId, u64>,
    /// Whose jobs are whose.
    owners: HashMap<JobId, Arc<str>>,
    names: HashMap<String, Arc<str>>,
    quotas: Option<OutputQuotas>,
    files: Option<Owners>,
}

/// Bytes by user.
type ByUser = HashMap<Arc<str>, u64>;

/// What is kept of users' output. Cheap to clone.
#[derive(Clone)]
pub struct OutputQuotas {
    quotas: CurrentQuotas,
    users: Arc<Users>,
    /// In bytes; `None`: nobody has asked yet.
    kept: Arc<Mutex<Option<ByUser>>>,
}

impl OutputQuotas {
    /// Nothing is counted yet.
    pub fn new(quotas: CurrentQuotas, users: Arc<Users>) -> OutputQuotas {
        OutputQuotas { quotas, users, kept: Arc::default() }
    }

    /// How much output of a user is kept, in bytes, if that is as much as may be kept.
    pub(crate) fn spent(&self, user: &str) -> Option<u64> {
        let most = self.most(user)?;
        (self.kept(user) >= most).then_some(most)
    }

    /// How much output of a user is kept, in bytes, as far as that was counted.
    pub(crate) fn kept(&self, user: &str) -> u64 {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().and_then(|kept| kept.get(user).copied()).unwrap_or(0)
    }

    fn is_counted(&self) -> bool {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Looks up in the store how much is kept of all users.
    fn count(&self, owners: &HashMap<JobId, Arc<str>>, store: &Store) -> Result<(), StoreError> {
        let mut kept = HashMap::<Arc<str>, u64>::new();
        for (job, n_bytes) in store.all_output_bytes()? {
            if let Some(owner) = owners.get(&job) {
                *kept.entry(owner.clone()).or_default() += n_bytes;
            }
        }
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(())
    }

    fn most(&self, user: &str) -> Option<u64> {
        self.quotas.of_name(user, self.users.is_operator(user)).output_bytes
    }
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
        if let Record::JobPurged { job, .. } = record {
            self.said.remove(job);
            self.kept.remove(job);
            self.owners.remove(job);
        }
        let Record::JobAccepted { job, request, .. } = record else { return };
        let name = match self.names.get(&request.user) {
            Some(name) => name.clone(),
            None => self.names.entry(request.user.clone()).or_insert(request.user.as_str().into()).clone(),
        };
        self.owners.insert(*job, name);
        let n_bytes = budget_of(&request.spec);
        if n_bytes != RESULT_BUDGET_BYTES_DEFAULT {
            self.said.insert(*job, n_bytes);
        }
    }

    /// Files that tasks leave are told here as their users'.
    pub(crate) fn tell(&mut self, files: Owners) {
        self.files = Some(files);
    }

    /// Takes note of the files that tasks have left here, not at an address.
    pub(crate) fn note_files(&self, records: &[Record]) {
        let Some(owners) = &self.files else { return };
        let mut left = HashMap::<&str, Vec<(Digest, u64)>>::new();
        for record in records {
            let Record::Reported { results, .. } = record else { continue };
            for result in results.iter().filter(|result| !result.files.is_empty()) {
                let Some(owner) = self.owners.get(&result.job) else { continue };
                let files = result.files.iter().flat_map(|task| &task.files);
                let here = files.filter(|file| file.left_out.is_none() && !file.to.contains("://"));
                left.entry(owner).or_default().extend(here.map(|file| (file.sha256, file.bytes)));
            }
        }
        for (owner, files) in left {
            if let Err(error) = owners.add(owner, &files) {
                tracing::warn!(user = owner, %error, "failed to write down whose files these are");
            }
        }
    }

    /// Holds output to users' quotas, too.
    ///
    /// Errors: those of the store, which is asked for what it has.
    pub(crate) fn hold_to(&mut self, quotas: OutputQuotas, store: &Store) -> Result<(), StoreError> {
        if !quotas.users.untrusted().is_empty() {
            quotas.count(&self.owners, store)?;
        }
        self.quotas = Some(quotas);
        Ok(())
    }

    /// How much output of a job's user is kept, and may be; `None`: where nobody has a quota, nobody counts.
    fn of_user(&self, job: JobId, store: &Store) -> Result<Option<(Arc<str>, u64, u64)>, StoreError> {
        let (Some(quotas), Some(owner)) = (&self.quotas, self.owners.get(&job)) else { return Ok(None) };
        let most = quotas.most(owner);
        if !quotas.is_counted() {
            if most.is_none() {
                return Ok(None);
            }
            quotas.count(&self.owners, store)?;
        }
        Ok(Some((owner.clone(), quotas.kept(owner), most.unwrap_or(u64::MAX))))
    }

    /// Takes what is kept of a job that is purged from what is kept of its user.
    fn give_back(&self, job: JobId, store: &Store) -> Result<(), StoreError> {
        let (Some(quotas), Some(owner)) = (&self.quotas, self.owners.get(&job)) else { return Ok(()) };
        if !quotas.is_counted() {
            return Ok(());
        }
        let of_job = match self.kept.get(&job) {
            Some(kept) => *kept,
            None => store.output_bytes(job)?,
        };
        let mut kept = quotas.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_user) = kept.as_mut().and_then(|kept| kept.get_mut(owner)) {
            *of_user = of_user.saturating_sub(of_job);
        }
        Ok(())
    }

    /// Takes output out of records for which there is no room in its job's budget any more.
    ///
    /// Errors: those of the store, which is asked for what it has of a job.
    pub(crate) fn cut(&mut self, records: &mut [Record], store: &Store) -> Result<(), StoreError> {
        for record in records {
            if let Record::JobPurged { job, .. } = record {
                self.give_back(*job, store)?;
            }
            self.note(record);
            let Record::Reported { results, .. } = record else { continue };
            for result in results.iter_mut().filter(|result| !result.outputs.is_empty()) {
                let budget = self.said.get(&result.job).copied().unwrap_or(RESULT_BUDGET_BYTES_DEFAULT);
                let mut kept = match self.kept.get(&result.job) {
                    Some(kept) => *kept,
                    None => store.output_bytes(result.job)?,
                };
                let of_user = self.of_user(result.job, store)?;
                let (mut of_all, most) = match &of_user {
                    Some((_, kept, most)) => (*kept, *most),
                    None => (0, u64::MAX),
                };
                result.outputs.retain_mut(|output| {
                    let has_room = kept < budget && of_all < most;
                    if has_room {
                        match budget - kept <= most - of_all {
                            true => fit(output, Bound::Job(budget), budget - kept),
                            false => fit(output, Bound::User(most), most - of_all),
                        }
                        let n_bytes = packed_len(output);
                        (kept, of_all) = (kept.saturating_add(n_bytes), of_all.saturating_add(n_bytes));
                    }
                    has_room
                });
                self.kept.insert(result.job, kept);
                if let (Some((owner, ..)), Some(quotas)) = (of_user, &self.quotas) {
                    let mut kept = quotas.kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.get_or_insert_default().insert(owner, of_all);
                }
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

/// What is used up, in bytes.
enum Bound {
    Job(u64),
    User(u64),
}

/// Cuts an output that is the last one for which there is room, and says so in it.
fn fit(output: &mut TaskOutput, bound: Bound, n_left: u64) {
    if packed_len(output) <= n_left {
        return;
    }
    let n_left = usize::try_from(n_left).unwrap_or(usize::MAX);
    output.stdout.truncate(n_left);
    output.stderr.truncate(n_left - output.stdout.len());
    let what = match bound {
        Bound::Job(most) => format!("the job's budget for output ({}, results.budget)", Size(most)),
        Bound::User(most) => format!("the user's quota of output ({}, quotas.output)", Size(most)),
    };
    let shortened = if output.stderr.is_empty() { &mut output.stdout } else { &mut output.stderr };
    shortened.extend_from_slice(used_up_line(&what).as_bytes());
}

#[cfg(test)]
mod tests {
    use scheduler::{
        engine::record::{JobResult, Totals},
        ids::PilotId,
        results::{OutputFile, Successes, TaskFiles},
        time::Time,
    };

    use super::*;

    fn output(n_out: usize, n_err: usize) -> TaskOutput {
        TaskOutput { index: 3, stdout: vec![b'o'; n_out], stderr: vec![b'e'; n_err] }
    }

    #[test]
    fn the_last_one_for_which_there_is_room_is_cut_and_says_so() {
        let mut whole = output(10, 10);
        fit(&mut whole, Bound::Job(1000), 100);
        assert_eq!(whole, output(10, 10));
        for (n_out, n_err, n_left) in [(200, 50, 100), (20, 500, 100), (0, 101, 100), (5, 5, 1)] {
            let mut cut = output(n_out, n_err);
            fit(&mut cut, Bound::Job(2048), n_left);
            let text = String::from_utf8([cut.stdout.clone(), cut.stderr.clone()].concat()).unwrap();
            let line = "[pilotfish: the job's budget for output (2.0 KiB, results.budget) is used up";
            assert_eq!(text.matches(line).count(), 1, "{text}");
            let kept = text.split("\n[pilotfish").next().unwrap_or_default();
            assert!(kept.len() as u64 <= n_left, "{text}");
            assert!(packed_len(&cut) >= n_left, "the budget is used up then");
        }
    }

    #[test]
    fn files_that_tasks_leave_here_count_for_the_jobs_owner() {
        let folder = tempfile::tempdir().unwrap();
        let owners = Owners::in_folder(folder.path().join("owners"));
        let mut budgets = Budgets::default();
        budgets.tell(owners.clone());
        budgets.owners.insert(JobId(1), "ann".into());
        budgets.owners.insert(JobId(2), "bob".into());
        let file = |n: u8, to: &str, left_out: Option<&str>| OutputFile {
            to: to.to_owned(),
            sha256: Digest([n; 32]),
            bytes: 10,
            executable: false,
            left_out: left_out.map(str::to_owned),
        };
        let result = |job: u64, files: Vec<OutputFile>| JobResult {
            job: JobId(job),
            successes: Successes::default(),
            totals: Totals::default(),
            failures: Vec::new(),
            outputs: Vec::new(),
            files: vec![TaskFiles { index: 0, files }],
        };
        let elsewhere = file(3, "s3://bucket/key", None);
        let results = vec![
            result(1, vec![file(1, "res/1", None), elsewhere, file(4, "pipe", Some("it is a pipe"))]),
            result(2, vec![file(2, "res/2", None), file(5, "res/5", None)]),
            result(9, vec![file(6, "res/6", None)]),
        ];
        budgets.note_files(&[Record::Reported { pilot: PilotId(1), seq: 1, results, at: Time(0) }]);
        assert_eq!((owners.bytes_of("ann"), owners.bytes_of("bob")), (10, 20));
    }
}
