//! What a task takes of what others have left: asked by the pilot that brings its files, when all of them have ended.
//! So neither jobs nor bundles say it of each task, and what counts is what was accepted last.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{extract::State, http::StatusCode, response::Response};
use protocol::{
    files::objects::{TakenFile, TakenFrom, TakenPage},
    job::TakenFiles,
};
use scheduler::{
    engine::interface::{Answer, Query, TaskFilter},
    ids::{JobId, TaskId},
    ranges::TaskSet,
    results::OutputFile,
};

use crate::api::{
    Context, Shared, blocking,
    cache::JobFacts,
    http::{
        error::{ApiError, json},
        extract::{InPath, InQuery},
    },
    pilots::sessions::Session,
};
use crate::store::Reader;

/// A page has about so many files, and
const N_FILES: usize = 1_000;
/// takes so many reads of the store at most.
const N_READS_MAX: u64 = 2_000;

/// A page of files that a task takes.
pub(in crate::api) async fn list(
    State(context): State<Shared>,
    Session { pilot, .. }: Session,
    InPath((job, index)): InPath<(JobId, u64)>,
    InQuery(from): InQuery<TakenFrom>,
) -> Result<Response, ApiError> {
    let task = TaskId { job, index };
    if context.task(task).await?.pilot != Some(pilot) {
        return Err(ApiError::not_held(task));
    }
    let facts = context.facts(job).await?;
    let before = match context.query(Query::WaitedFor(task)).await? {
        Answer::WaitedFor(before) => before,
        other => return Err(ApiError::unexpected(&other)),
    };
    let reader = context.state.reader.clone();
    let taken = blocking(move || {
        let taken = facts.compiled.taken(job.0, index);
        taken.map_err(|problem| ApiError::damaged(job, &problem.to_string()))
    });
    let taken = taken.await?;
    let failed = failed_before(&context, &before, &taken).await?;
    let page = blocking(move || {
        Page { reader: &reader, before: &before, failed: &failed, files: Vec::new(), n_reads: 0 }
            .of(&taken, from)
    });
    let page = page.await?;
    context.granted.add(pilot, page.files.iter().map(|file| file.sha256));
    Ok(json(StatusCode::OK, &page))
}

/// Tasks of a job that have failed for good or were cancelled, and what its tasks leave.
struct Failed {
    tasks: TaskSet,
    facts: Arc<JobFacts>,
}

/// Those that a task has waited for, if it takes files by patterns that are not optional.
async fn failed_before(
    context: &Context,
    before: &[(JobId, TaskSet)],
    taken: &[TakenFiles],
) -> Result<BTreeMap<JobId, Failed>, ApiError> {
    let patterns = taken.iter().filter(|taken| taken.is_pattern && !taken.optional);
    let entries = patterns.flat_map(|taken| &taken.after).filter_map(|at| before.get(*at));
    let jobs: BTreeSet<JobId> = entries.map(|(job, _)| *job).collect();
    let mut all = BTreeMap::new();
    for job in jobs {
        let mut tasks = context.tasks_in(job, TaskFilter::Failed).await?;
        tasks.insert_all(&context.tasks_in(job, TaskFilter::Cancelled).await?);
        if !tasks.is_empty() {
            all.insert(job, Failed { tasks, facts: context.facts(job).await? });
        }
    }
    Ok(all)
}

struct Page<'a> {
    reader: &'a Reader,
    /// Of each entry of `after` whose tasks, and which.
    before: &'a [(JobId, TaskSet)],
    failed: &'a BTreeMap<JobId, Failed>,
    files: Vec<TakenFile>,
    n_reads: u64,
}

impl Page<'_> {
    fn of(mut self, taken: &[TakenFiles], from: TakenFrom) -> Result<TakenPage, ApiError> {
        let skipped = usize::try_from(from.input).unwrap_or(usize::MAX);
        let mut first = from.task;
        for (n, taken) in taken.iter().enumerate().skip(skipped) {
            let next = match taken.is_pattern {
                true => self.pattern(taken, first)?,
                false => self.one_file(taken)?,
            };
            if let Some(task) = next {
                return Ok(TakenPage { files: self.files, next: Some(TakenFrom { input: n as u64, task }) });
            }
            first = 0;
        }
        Ok(TakenPage { files: self.files, next: None })
    }

    fn is_full(&self) -> bool {
        self.files.len() >= N_FILES || self.n_reads >= N_READS_MAX
    }

    /// Tasks waited for by any of these entries, by job.
    fn tasks(&self, taken: &TakenFiles) -> BTreeMap<JobId, TaskSet> {
        let mut all: BTreeMap<JobId, TaskSet> = BTreeMap::new();
        for (job, tasks) in taken.after.iter().filter_map(|at| self.before.get(*at)) {
            all.entry(*job).or_default().insert_all(tasks);
        }
        all
    }

    /// The file of a name, by whichever of the tasks left it. `Some`: the page is full before it.
    fn one_file(&mut self, taken: &TakenFiles) -> Result<Option<u64>, ApiError> {
        if self.is_full() {
            return Ok(Some(0));
        }
        for (job, tasks) in self.tasks(taken) {
            self.n_reads += 1;
            let found = self.reader.file_at(job, &taken.from)?;
            if let Some((_, file)) =
                found.filter(|(task, file)| tasks.contains(*task) && file.left_out.is_none())
            {
                self.files.push(row(&taken.to, taken, &file));
                return Ok(None);
            }
        }
        match taken.optional {
            true => Ok(None),
            false => Err(ApiError::not_left(&taken.from)),
        }
    }

    /// Files of a pattern, by tasks from this one on. `Some`: the page is full before that task.
    fn pattern(&mut self, taken: &TakenFiles, first: u64) -> Result<Option<u64>, ApiError> {
        // Those of one stage, as was checked.
        let Some((job, tasks)) = self.tasks(taken).pop_first() else { return Ok(None) };
        if first == 0 && !taken.optional {
            self.refuse_part(taken, job, &tasks)?;
        }
        let n_before = self.files.len();
        for range in tasks.iter().filter(|range| range.end > first) {
            for task in range.start.max(first)..range.end {
                if self.is_full() {
                    return Ok(Some(task));
                }
                self.n_reads += 1;
                // Of a task that succeeded twice the last file of a name counts.
                let mut last: BTreeMap<PathBuf, OutputFile> = BTreeMap::new();
                let files =
                    self.reader.files(job, Some(task), 0, u64::MAX)?.into_iter().map(|(.., file)| file);
                for file in files {
                    last.extend(name_of(taken, &file).map(|to| (to, file)));
                }
                self.files.extend(last.iter().map(|(to, file)| row(to, taken, file)));
            }
        }
        let is_empty = self.files.len() == n_before && !taken.optional;
        match is_empty && (first == 0 || !self.was_any_left(taken, job, &tasks)?) {
            true => Err(ApiError::none_left(&taken.from)),
            false => Ok(None),
        }
    }

    /// Refuses a pattern of whose files a task that has failed would have left some: of all results nobody wants a part
    /// without a word.
    fn refuse_part(&self, taken: &TakenFiles, job: JobId, tasks: &TaskSet) -> Result<(), ApiError> {
        let Some(failed) = self.failed.get(&job) else { return Ok(()) };
        let failed_here = failed.tasks.intersection(tasks);
        let task = failed_here.indices().find(|index| failed.might_have_left(job, *index, taken));
        match task {
            Some(index) => Err(ApiError::left_in_part(&taken.from, TaskId { job, index })),
            None => Ok(()),
        }
    }

    /// Whether a file of a pattern was on a page before this one.
    fn was_any_left(&self, taken: &TakenFiles, job: JobId, tasks: &TaskSet) -> Result<bool, ApiError> {
        let mut after = 0;
        loop {
            let rows = self.reader.files(job, None, after, N_FILES as u64)?;
            let Some((last, ..)) = rows.last() else { return Ok(false) };
            after = *last;
            let is_taken = |(_, task, file): &(u64, u64, OutputFile)| {
                tasks.contains(*task) && name_of(taken, file).is_some()
            };
            if rows.iter().any(is_taken) {
                return Ok(true);
            }
        }
    }
}

impl Failed {
    /// Whether files of a pattern may be missing because this task has left none.
    fn might_have_left(&self, job: JobId, index: u64, taken: &TakenFiles) -> bool {
        let outputs = self.facts.compiled.outputs(job.0, index).unwrap_or_default();
        outputs.iter().any(|output| taken.may_mean(output))
    }
}

/// The name under which a task takes a file that another has left; `None`: it takes another, or it is not here, but where
/// nodes see it.
fn name_of(taken: &TakenFiles, file: &OutputFile) -> Option<PathBuf> {
    let is_here = !file.to.contains("://") && file.left_out.is_none();
    taken.target(&file.to).filter(|_| is_here)
}

fn row(to: &Path, taken: &TakenFiles, file: &OutputFile) -> TakenFile {
    let to = to.to_string_lossy().into_owned();
    let (writable, executable) = (taken.writable, file.executable);
    TakenFile { to, sha256: file.sha256, bytes: file.bytes, writable, executable }
}
