//! What a task takes of what others have left: asked by the pilot that brings its files, when all of them have ended.
//! So neither jobs nor bundles say it of each task, and what counts is what was accepted last.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use axum::{extract::State, http::StatusCode, response::Response};
use protocol::{
    job::TakenFiles,
    objects::{TakenFile, TakenFrom, TakenPage},
};
use scheduler::{
    engine::interface::{Answer, Query},
    ids::{JobId, TaskId},
    ranges::TaskSet,
    results::OutputFile,
};

use super::{
    Shared, blocking,
    error::{ApiError, json},
    extract::{InPath, InQuery},
    sessions::Session,
};
use crate::store::Reader;

/// A page has about so many files, and
const N_FILES: usize = 1_000;
/// takes so many reads of the store at most.
const N_READS_MAX: u64 = 2_000;

/// A page of files that a task takes.
pub(super) async fn list(
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
    let page = blocking(move || {
        let taken = facts.compiled.taken(job.0, index);
        let taken = taken.map_err(|problem| ApiError::damaged(job, &problem.to_string()))?;
        Page { reader: &reader, before: &before, files: Vec::new(), n_reads: 0 }.of(&taken, from)
    });
    let page = page.await?;
    context.granted.add(pilot, page.files.iter().map(|file| file.sha256));
    Ok(json(StatusCode::OK, &page))
}

struct Page<'a> {
    reader: &'a Reader,
    /// Of each entry of `after` whose tasks, and which.
    before: &'a [(JobId, TaskSet)],
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
                // What is where nodes see it is not here.
                for file in files.filter(|file| !file.to.contains("://") && file.left_out.is_none()) {
                    last.extend(taken.target(&file.to).map(|to| (to, file)));
                }
                self.files.extend(last.iter().map(|(to, file)| row(to, taken, file)));
            }
        }
        Ok(None)
    }
}

fn row(to: &Path, taken: &TakenFiles, file: &OutputFile) -> TakenFile {
    let to = to.to_string_lossy().into_owned();
    let (writable, executable) = (taken.writable, file.executable);
    TakenFile { to, sha256: file.sha256, bytes: file.bytes, writable, executable }
}
