//! Tasks as rows: states from the engine, finished attempts and outputs from the store, parameters
//! from the job's own rule. A page costs the page, however large the job is.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use axum::{extract::State, http::StatusCode, response::Response};
use futures_util::future::join_all;
use protocol::{
    api::{FailureRow, ROWS_MAX, TaskDetail, TaskRow, Tasks, TasksQuery},
    job::{Extracted, WorkDir},
};
use scheduler::{
    engine::interface::{Answer, Query, TaskFilter, views::TaskView},
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::Usage,
    time::Span,
};

use super::{Context, Shared, blocking, cache::JobFacts};
use crate::api::http::{
    error::{ApiError, json},
    extract::{InPath, InQuery, User},
};
use crate::store::{AttemptRow, Reader};

/// Queued and running tasks of a page whose holder is asked for: more would keep the engine busy.
const N_HOLDERS_MAX: usize = 256;
/// Tasks so close together are read from the store at once, with those between them.
const GAP_MAX: u64 = 64;
/// Outputs searched for one page; a page that needs more ends early.
const SEARCHED_BYTES_MAX: u64 = 64 << 20;
/// Parameters, and values taken out of outputs, of one page; a page that would have more ends early.
const VALUE_BYTES_MAX: usize = 8 << 20;
/// Outputs held at a time.
pub(super) const OUTPUT_BYTES_MAX: u64 = 8 << 20;

/// A page of a job's tasks.
pub(super) async fn list(
    State(context): State<Shared>,
    user: User,
    InPath(id): InPath<JobId>,
    InQuery(query): InQuery<TasksQuery>,
) -> Result<Response, ApiError> {
    check_limit(query.limit)?;
    let job = context.own_job(&user, id).await?;
    let page = match query.state {
        TaskFilter::All => Page::of_all(&context, id, job.counts.total, &query).await?,
        state => Page::of_set(state, &context.tasks_in(id, state).await?, &query),
    };
    let holders = context.holders(id, &page).await?;
    let needs_facts = query.parameters || query.extract;
    let facts = if needs_facts { Some(context.facts(id).await?) } else { None };
    let source = RowSource { reader: context.state.reader.clone(), job: id, facts };
    let tasks = blocking(move || source.rows(page, holders, &query)).await?;
    Ok(json(StatusCode::OK, &tasks))
}

/// One task with all its attempts.
pub(super) async fn show(
    State(context): State<Shared>,
    user: User,
    InPath((job, index)): InPath<(JobId, u64)>,
) -> Result<Response, ApiError> {
    context.own_job(&user, job).await?;
    let id = TaskId { job, index };
    let view = context.task(id).await?;
    let facts = context.facts(job).await?;
    let reader = context.state.reader.clone();
    let detail = blocking(move || detail(&reader, &facts, &view)).await?;
    Ok(json(StatusCode::OK, &detail))
}

pub(super) fn check_limit(limit: u64) -> Result<(), ApiError> {
    if (1..=ROWS_MAX).contains(&limit) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("found limit={limit}; write 1 to {ROWS_MAX}")))
}

/// Tasks to show with their states, ascending.
struct Page {
    tasks: Vec<(u64, TaskFilter)>,
    next: Option<u64>,
}

impl Page {
    /// The tasks of a set that all are in one state.
    fn of_set(state: TaskFilter, set: &TaskSet, query: &TasksQuery) -> Page {
        let ahead = set.iter().filter(|range| range.end > query.from);
        let mut indices = ahead.flat_map(|range| range.start.max(query.from)..range.end);
        let tasks = indices.by_ref().take(query.limit as usize).map(|index| (index, state)).collect();
        Page { tasks, next: indices.next() }
    }

    /// Tasks in any state. The sets are asked for together but one after the other: a task that
    /// moved between two of them may be in none, and is asked for by itself.
    async fn of_all(
        context: &Context,
        id: JobId,
        n_tasks: u64,
        query: &TasksQuery,
    ) -> Result<Page, ApiError> {
        let end = query.from.saturating_add(query.limit).min(n_tasks);
        let states = [
            TaskFilter::Waiting,
            TaskFilter::Queued,
            TaskFilter::Running,
            TaskFilter::Done,
            TaskFilter::Failed,
            TaskFilter::Cancelled,
        ];
        let mut sets = Vec::new();
        for found in join_all(states.map(|state| context.tasks_in(id, state))).await {
            sets.push(found?);
        }
        let mut tasks = Vec::new();
        for index in query.from..end {
            let held = states.iter().zip(&sets).find(|(_, set)| set.contains(index));
            let state = match held {
                Some((state, _)) => *state,
                None => context.task(TaskId { job: id, index }).await?.state,
            };
            tasks.push((index, state));
        }
        Ok(Page { tasks, next: (end < n_tasks).then_some(end) })
    }
}

impl Context {
    /// Tasks of a job in a state.
    pub(super) async fn tasks_in(&self, id: JobId, state: TaskFilter) -> Result<TaskSet, ApiError> {
        match self.query(Query::TasksIn(id, state)).await? {
            Answer::Tasks(tasks) => Ok(tasks),
            other => Err(ApiError::unexpected(&other)),
        }
    }

    /// A task's state.
    pub(super) async fn task(&self, id: TaskId) -> Result<TaskView, ApiError> {
        match self.query(Query::Task(id)).await? {
            Answer::Task(view) => Ok(*view),
            other => Err(ApiError::unexpected(&other)),
        }
    }

    async fn holders(&self, job: JobId, page: &Page) -> Result<BTreeMap<u64, PilotId>, ApiError> {
        let is_held =
            |(_, state): &&(u64, TaskFilter)| matches!(state, TaskFilter::Queued | TaskFilter::Running);
        let held = page.tasks.iter().filter(is_held).take(N_HOLDERS_MAX);
        let views = join_all(held.map(|(index, _)| self.task(TaskId { job, index: *index }))).await;
        let mut holders = BTreeMap::new();
        for view in views {
            let view = view?;
            holders.extend(view.pilot.map(|pilot| (view.id.index, pilot)));
        }
        Ok(holders)
    }
}

/// Where the columns of a row come from.
struct RowSource {
    reader: Reader,
    job: JobId,
    facts: Option<Arc<JobFacts>>,
}

impl RowSource {
    fn rows(
        &self,
        page: Page,
        holders: BTreeMap<u64, PilotId>,
        query: &TasksQuery,
    ) -> Result<Tasks, ApiError> {
        let mut attempts = self.attempts(&page)?;
        let mut tasks = Vec::with_capacity(page.tasks.len());
        let (mut next, mut n_bytes) = (page.next, 0);
        for (index, state) in page.tasks {
            if n_bytes >= VALUE_BYTES_MAX {
                next = Some(index);
                break;
            }
            let mut row = row_of(index, state, attempts.remove(&index));
            row.held_by = holders.get(&index).copied();
            if query.parameters
                && let Some(facts) = &self.facts
            {
                row.parameters = parameters(facts, index);
                n_bytes += row.parameters.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
            }
            tasks.push(row);
        }
        let mut tasks = Tasks { tasks, next };
        if query.extract {
            self.extract(&mut tasks)?;
        }
        Ok(tasks)
    }

    fn attempts(&self, page: &Page) -> Result<BTreeMap<u64, AttemptRow>, ApiError> {
        let mut attempts = BTreeMap::new();
        for range in runs(page.tasks.iter().map(|(index, _)| *index)) {
            let limit = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let found = self.reader.finished(self.job, range, limit)?;
            attempts.extend(found.into_iter().map(|attempt| (attempt.index, attempt)));
        }
        Ok(attempts)
    }

    /// Fills the extracted columns; ends the page where too much would be searched.
    fn extract(&self, tasks: &mut Tasks) -> Result<(), ApiError> {
        let Some(facts) = &self.facts else { return Ok(()) };
        let columns = &facts.compiled.spec().results.extract;
        if columns.is_empty() {
            return Ok(());
        }
        for row in &mut tasks.tasks {
            row.extracted = columns.iter().map(|column| (column.name.clone(), None)).collect();
        }
        let place: BTreeMap<u64, usize> =
            tasks.tasks.iter().enumerate().map(|(place, row)| (row.index, place)).collect();
        let (mut n_bytes, mut n_found) = (0, 0);
        for range in runs(tasks.tasks.iter().map(|row| row.index)) {
            let mut from = range.start;
            while from < range.end {
                let outputs = self.reader.outputs(self.job, from..range.end, OUTPUT_BYTES_MAX)?;
                let Some((last, _)) = outputs.last() else { break };
                from = *last + 1;
                for (index, output) in &outputs {
                    n_bytes += output.stdout.len() as u64;
                    let Some(row) = place.get(index).and_then(|place| tasks.tasks.get_mut(*place)) else {
                        continue;
                    };
                    n_found += fill(row, facts, &output.stdout);
                    if n_found >= VALUE_BYTES_MAX {
                        end_before(tasks, index + 1);
                        return Ok(());
                    }
                }
                if n_bytes >= SEARCHED_BYTES_MAX {
                    end_before(tasks, from);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Fills the extracted columns from what is kept of the task's standard output; says how long the values are.
fn fill(row: &mut TaskRow, facts: &JobFacts, stdout: &[u8]) -> usize {
    let results = &facts.compiled.spec().results;
    let Extracted { values, is_cut } = facts.extractor.extract(stdout, results.limit_bytes);
    let n_bytes = values.iter().flatten().map(String::len).sum();
    row.extracted = results.extract.iter().map(|column| column.name.clone()).zip(values).collect();
    row.output_cut = is_cut;
    n_bytes
}

/// Cuts a page off before a task.
fn end_before(tasks: &mut Tasks, index: u64) {
    let n_kept = tasks.tasks.partition_point(|row| row.index < index);
    if let Some(cut) = tasks.tasks.get(n_kept) {
        tasks.next = Some(cut.index);
        tasks.tasks.truncate(n_kept);
    }
}

/// Ascending indices as few ranges, those that are close together as one.
fn runs(indices: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for index in indices {
        match runs.last_mut() {
            Some(run) if index - run.end <= GAP_MAX => run.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

fn parameters(facts: &JobFacts, index: u64) -> Vec<(String, String)> {
    let sweep = &facts.compiled.spec().sweep;
    let values = sweep.values(index);
    sweep.names().zip(&values).map(|(name, value)| (name.to_owned(), value.to_string())).collect()
}

fn row_of(index: u64, state: TaskFilter, attempt: Option<AttemptRow>) -> TaskRow {
    let mut row = TaskRow {
        index,
        state,
        attempt: 0,
        exit_code: None,
        pilot: None,
        held_by: None,
        started_at: None,
        ended_at: None,
        wall: None,
        cpu: None,
        memory_bytes: None,
        failure: None,
        parameters: Vec::new(),
        extracted: BTreeMap::new(),
        output_cut: false,
    };
    if let Some(attempt) = attempt {
        row.attempt = attempt.attempt;
        row.exit_code = attempt.exit_code;
        row.pilot = Some(attempt.pilot);
        row.ended_at = Some(attempt.ended_at);
        if attempt.usage != Usage::default() {
            row.started_at = Some(attempt.started_at);
            row.wall = Some(Span(attempt.usage.wall_us));
            row.cpu = Some(Span(attempt.usage.cpu_us));
            row.memory_bytes = Some(attempt.usage.memory_bytes);
        }
        row.failure = attempt.failure.map(|kind| FailureRow {
            word: kind.word().to_owned(),
            text: kind.to_string(),
            kind,
        });
    }
    row
}

fn detail(reader: &Reader, facts: &JobFacts, view: &TaskView) -> Result<TaskDetail, ApiError> {
    let TaskId { job, index } = view.id;
    let command = facts.compiled.task(job.0, index);
    let attempts = reader.attempts(view.id)?;
    let mut row = row_of(index, view.state, attempts.last().cloned());
    row.held_by = view.pilot;
    row.parameters = command.parameters;
    let columns = &facts.compiled.spec().results.extract;
    if !columns.is_empty() {
        let outputs = reader.outputs(job, index..index + 1, OUTPUT_BYTES_MAX)?;
        let stdout = outputs.first().map_or(&[][..], |(_, output)| &output.stdout);
        fill(&mut row, facts, stdout);
    }
    let failed = attempts.into_iter().filter(|attempt| attempt.failure.is_some());
    Ok(TaskDetail {
        id: view.id,
        row,
        held_by: view.pilot,
        retry_at: view.retry_at,
        failed_attempts: failed.map(|attempt| row_of(index, TaskFilter::Failed, Some(attempt))).collect(),
        command: command.argv,
        workdir: match command.workdir {
            WorkDir::Submit(path) | WorkDir::Path(path) => path.to_string_lossy().into_owned(),
            WorkDir::Scratch => "scratch".to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use protocol::api::{Tasks, TasksQuery};
    use scheduler::{engine::interface::TaskFilter, ranges::TaskSet};

    use super::{Page, end_before, row_of, runs};

    #[test]
    fn a_page_of_a_set_costs_the_page() {
        let set = TaskSet::from(vec![(3, 5), (10, 1_000_000_000_000)]);
        let page = |from, limit| {
            let query = TasksQuery { from, limit, ..TasksQuery::default() };
            let page = Page::of_set(TaskFilter::Done, &set, &query);
            (page.tasks.into_iter().map(|(index, _)| index).collect::<Vec<_>>(), page.next)
        };
        assert_eq!(page(0, 3), (vec![3, 4, 10], Some(11)));
        assert_eq!(page(4, 2), (vec![4, 10], Some(11)));
        assert_eq!(page(999_999_999_999, 2), (vec![999_999_999_999], None));
        assert_eq!(page(u64::MAX, 2), (vec![], None));
    }

    #[test]
    fn close_tasks_are_read_together() {
        assert_eq!(runs([1, 2, 3, 60, 1000, 1001].into_iter()), [1..61, 1000..1002]);
        assert_eq!(runs([].into_iter()), []);
        assert_eq!(runs([0, 65, 131].into_iter()), [0..66, 131..132]);
    }

    #[test]
    fn a_page_that_ends_early_says_where_to_go_on() {
        let rows = [1, 4, 9].map(|index| row_of(index, TaskFilter::Done, None));
        let mut tasks = Tasks { tasks: rows.to_vec(), next: None };
        end_before(&mut tasks, 10);
        assert_eq!((tasks.tasks.len(), tasks.next), (3, None));
        end_before(&mut tasks, 5);
        assert_eq!((tasks.tasks.len(), tasks.next), (2, Some(9)));
    }
}
