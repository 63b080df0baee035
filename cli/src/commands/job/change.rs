//! What `cancel`, `pause`, `resume` and `retry-failed` have in common.

use scheduler::{
    engine::interface::{TaskFilter, views::Counts},
    ids::JobId,
    ranges::TaskSet,
};
use serde::Serialize;

use crate::{
    access,
    client::{Client, Page},
    failure::{Failure, Outcome},
    select::{JobSelector, Target, beyond},
    show::{
        self,
        format::{count, counted},
    },
    view::ViewArgs,
};

/// So many cancelled tasks are looked up, and no more.
const N_LOOKED_UP: u64 = 5000;
/// So many ranges of them are named in a command that is shown.
const N_RANGES_NAMED: usize = 8;

/// A change of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Open tasks end.
    Cancel,
    /// Nothing more is begun.
    Pause,
    /// It goes on.
    Resume,
    /// Failed tasks are open again; named ones also when they were cancelled.
    Retry,
}

impl Change {
    /// As the API calls it.
    fn verb(self) -> &'static str {
        match self {
            Change::Cancel => "cancel",
            Change::Pause => "pause",
            Change::Resume => "resume",
            Change::Retry => "retry",
        }
    }
}

/// What was done to one job.
#[derive(Serialize)]
struct Row {
    job: JobId,
    /// Tasks that were changed.
    n_tasks: u64,
    /// Tasks that were meant: those named, or all of the job.
    n_meant: u64,
    /// The same in words.
    text: String,
}

/// Changes jobs, or tasks of jobs; says what was done.
///
/// # Errors
/// A wrong selector, no such job, a refusal, or no manager. Jobs before the refused one are changed.
pub async fn change(targets: &[String], view: &ViewArgs, change: Change) -> Result<Outcome, Failure> {
    let targets: Vec<Target> = targets.iter().map(|text| Target::parse(text)).collect::<Result<_, _>>()?;
    let client = access::find_for_change(&view.place).await?;
    let place = view.place.flags();
    let mut rows = Vec::new();
    let mut refusals = Vec::new();
    for target in targets {
        let jobs = match target.tasks {
            Some(_) => vec![target.jobs.resolve_one(&client).await?],
            None => jobs_of(&target.jobs, &client, change).await?,
        };
        let are_stages = target.jobs == JobSelector::Last && jobs.len() > 1 && change != Change::Retry;
        let (last, n_before) = (jobs.last().copied(), rows.len());
        for job in jobs {
            let view = client.job(job).await?;
            // Stages that are over, some of them by this change, are left out. If all are, the last one says so.
            let says_so = Some(job) == last && rows.len() == n_before;
            if are_stages && view.ended_at.is_some() && !says_so {
                continue;
            }
            if let Some(refusal) = target.tasks.as_ref().and_then(|tasks| beyond(&view, tasks)) {
                refusals.push(refusal);
                continue;
            }
            let tasks = target.tasks.as_ref().map(ToString::to_string);
            match client.change(job, change.verb(), tasks).await.map_err(Failure::from) {
                Ok(changed) => {
                    let there = TaskSet::from(0..view.counts.total);
                    let n_meant = target.tasks.as_ref().map_or(there.len(), |t| t.intersection(&there).len());
                    let cancelled = match (change, &target.tasks) {
                        (Change::Retry, None) if view.counts.cancelled > 0 => {
                            Some(Cancelled::of(job, &client).await?)
                        }
                        _ => None,
                    };
                    let n_tasks = changed.n_tasks;
                    let done = Done {
                        id: job,
                        state: &view.state,
                        counts: view.counts,
                        n_tasks,
                        n_meant,
                        cancelled,
                        first_named: target
                            .tasks
                            .as_ref()
                            .and_then(|tasks| tasks.iter().next())
                            .map(|r| r.start),
                        place: &place,
                    };
                    let text = done.text(change, target.tasks.is_some()) + &stale(changed.n_stale);
                    rows.push(Row { job, n_tasks, n_meant, text });
                }
                Err(Failure::BadInput(lines)) => refusals.extend(lines),
                Err(failure) => return Err(failure),
            }
        }
    }
    if view.json {
        show::print(&show::json(&rows)?)?;
    } else if !view.quiet {
        for row in &rows {
            show::print(&format!("{}\n", row.text))?;
        }
    }
    if refusals.is_empty() { Ok(Outcome::Fine) } else { Err(Failure::BadInput(refusals)) }
}

/// Says that tasks which ran without others that are open again stay as they are; nothing where there are none.
fn stale(n_tasks: u64) -> String {
    match n_tasks {
        0 => String::new(),
        1 => "; 1 done task that ran without these stays as it is".to_owned(),
        n => format!("; {} that ran without these stay as they are", counted(n, "done task")),
    }
}

/// What came of a change.
struct Done<'a> {
    id: JobId,
    /// The job's before it.
    state: &'a str,
    counts: Counts,
    /// Tasks that were changed. Tasks of other jobs count that wait for this job.
    n_tasks: u64,
    n_meant: u64,
    /// If the job was opened as a whole: its tasks that stay cancelled.
    cancelled: Option<Cancelled>,
    /// The first task that was named.
    first_named: Option<u64>,
    /// The flags that name the manager.
    place: &'a str,
}

/// Tasks of a job that are cancelled.
struct Cancelled {
    n_tasks: u64,
    /// Which, if few ranges name them all.
    which: Option<TaskSet>,
}

impl Cancelled {
    /// Asks which tasks of the job are cancelled now. Tasks that waited for failed ones may be open again.
    async fn of(job: JobId, client: &Client) -> Result<Cancelled, Failure> {
        let Counts { cancelled: n_tasks, total, .. } = client.job(job).await?.counts;
        if n_tasks == total {
            return Ok(Cancelled { n_tasks, which: Some(TaskSet::from(0..total)) });
        }
        let page = Page { state: TaskFilter::Cancelled, from: 0, limit: N_LOOKED_UP, with_extracts: false };
        let answer = client.tasks(job, page).await?;
        let which: TaskSet = answer.tasks.iter().map(|row| row.index).collect();
        let is_all = which.len() == n_tasks && which.iter().count() <= N_RANGES_NAMED;
        Ok(Cancelled { n_tasks, which: Some(which).filter(|_| is_all) })
    }
}

impl Done<'_> {
    fn text(&self, change: Change, are_named: bool) -> String {
        let Done { id, state, n_tasks, .. } = *self;
        let what = match change {
            Change::Pause if n_tasks == 0 => " was paused already".to_owned(),
            Change::Resume if n_tasks == 0 => " was not paused".to_owned(),
            Change::Pause => " paused".to_owned(),
            Change::Resume => " resumed".to_owned(),
            Change::Cancel => self.with_others("cancelled", "had ended"),
            Change::Retry if are_named && self.has_company() => {
                format!(
                    ": {} opened again: of those named, and those that waited for them",
                    counted(n_tasks, "task")
                )
            }
            Change::Retry if are_named && n_tasks == 0 && self.counts.cancelled > 0 => {
                let meant = counted(self.n_meant, "named task");
                let (first, place) = (self.first_named.unwrap_or_default(), self.place);
                format!(
                    ": none of {meant} opened again: they are no failed or cancelled ones, or wait for one that is; \
                     `pilotfish explain task {id}.{first}{place}` says for which"
                )
            }
            Change::Retry if are_named => {
                self.with_others("opened again", "had neither failed nor been cancelled")
            }
            Change::Retry => self.retried(),
        };
        let is_waiting = change == Change::Retry && n_tasks > 0 && state == "paused";
        let hint = if is_waiting {
            format!("; the job is paused: `pilotfish resume {id}{}`", self.place)
        } else {
            String::new()
        };
        format!("job {id}{what}{hint}")
    }

    /// Whether there are more than can have been opened of those named: others waited for them.
    fn has_company(&self) -> bool {
        let n_closed = self.counts.failed.saturating_add(self.counts.cancelled);
        self.n_tasks > self.n_meant.min(n_closed)
    }

    /// `: 90 of 100 tasks cancelled, 10 had ended`
    fn with_others(&self, done: &str, others: &str) -> String {
        let Done { n_tasks, n_meant, .. } = *self;
        let meant = counted(n_meant, "task");
        match n_meant.saturating_sub(n_tasks) {
            0 => format!(": {meant} {done}"),
            n => format!(": {} of {meant} {done}, {} {others}", count(n_tasks), count(n)),
        }
    }

    /// A job as a whole: what was cancelled stays so, mostly somebody wanted it; but not what waited for failed tasks,
    /// which may be of other jobs.
    fn retried(&self) -> String {
        let Done { id, counts, n_tasks, place, .. } = *self;
        let opened = counted(counts.failed.min(n_tasks), "failed task");
        let mut text = match (counts.failed, n_tasks.saturating_sub(counts.failed)) {
            _ if n_tasks == 0 => " has no failed task to open again".to_owned(),
            (0, _) => {
                format!(": {} opened again: what failed, and what waited for it", counted(n_tasks, "task"))
            }
            (_, 0) => format!(": {opened} opened again"),
            (1, n) => format!(": {opened} opened again, and {} that waited for it", count(n)),
            (_, n) => format!(": {opened} opened again, and {} that waited for them", count(n)),
        };
        let Some(Cancelled { n_tasks, which }) =
            self.cancelled.as_ref().filter(|cancelled| cancelled.n_tasks > 0)
        else {
            return text;
        };
        let (stay, them, they) =
            if *n_tasks == 1 { ("stays", "it", "it was") } else { ("stay", "them", "they were") };
        let how = match which {
            Some(which) => {
                let first = which.iter().next().map_or(0, |range| range.start);
                format!(
                    "`pilotfish retry-failed {id}.{which}{place}` opens {them}, `pilotfish explain task \
                     {id}.{first}{place}` says why {they} cancelled"
                )
            }
            None => format!(
                "`pilotfish tasks {id} --state cancelled{place}` lists {them}, and those that are named to `pilotfish \
                 retry-failed` are opened"
            ),
        };
        text.push_str(&format!("; {} {stay} cancelled: {how}", counted(*n_tasks, "task")));
        text
    }
}

/// The jobs that are meant; of `all` only those that are not over, when a change is only for them.
async fn jobs_of(selector: &JobSelector, client: &Client, change: Change) -> Result<Vec<JobId>, Failure> {
    match selector {
        JobSelector::All if change != Change::Retry => {
            let open = client.jobs().await?.into_iter().filter(|job| job.ended_at.is_none());
            Ok(open.map(|job| job.id).collect())
        }
        JobSelector::All | JobSelector::Last | JobSelector::Numbers(_) => {
            selector.resolve_whole(client).await
        }
    }
}

/// Refuses tasks where only jobs can be meant.
///
/// # Errors
/// A target with tasks.
pub fn refuse_tasks(targets: &[String], verb: &str) -> Result<(), Failure> {
    for text in targets {
        if Target::parse(text)?.tasks.is_some() {
            return Err(Failure::bad_input(format!("found `{text}`; only whole jobs can be {verb}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of tasks opened again in a job of 10 with so many failed and cancelled ones.
    fn said(failed: u64, cancelled: u64, n_tasks: u64, n_named: Option<u64>, n_cancelled: u64) -> String {
        let counts = Counts { total: 10, failed, cancelled, ..Counts::default() };
        let n_meant = n_named.unwrap_or(10);
        // Every second one: no range names two of them.
        let which: TaskSet = (0..n_cancelled).map(|n| 2 * n + 1).collect();
        let which = Some(which).filter(|which| which.iter().count() <= N_RANGES_NAMED);
        let cancelled = Some(Cancelled { n_tasks: n_cancelled, which });
        let (first_named, place) = (n_named.map(|_| 2), " --dir m");
        Done { id: JobId(3), state: "done", counts, n_tasks, n_meant, cancelled, first_named, place }
            .text(Change::Retry, n_named.is_some())
    }

    #[test]
    fn tasks_that_waited_for_failed_ones_are_no_failed_ones() {
        assert_eq!(said(0, 0, 0, None, 0), "job 3 has no failed task to open again");
        assert_eq!(said(2, 0, 2, None, 0), "job 3: 2 failed tasks opened again");
        assert_eq!(said(1, 0, 4, None, 0), "job 3: 1 failed task opened again, and 3 that waited for it");
        assert_eq!(said(2, 3, 5, None, 0), "job 3: 2 failed tasks opened again, and 3 that waited for them");
        let cancelled = "; 1 task stays cancelled: `pilotfish retry-failed 3.1 --dir m` opens it, `pilotfish explain task 3.1 \
                         --dir m` says why it was cancelled";
        let in_vain = "job 3: none of 1 named task opened again: they are no failed or cancelled ones, or wait for one that \
                       is; `pilotfish explain task 3.2 --dir m` says for which";
        assert_eq!(said(0, 1, 0, Some(1), 1), in_vain);
        assert_eq!(said(1, 1, 1, None, 1), format!("job 3: 1 failed task opened again{cancelled}"));
        let two = "job 3: 1 failed task opened again; 2 tasks stay cancelled: `pilotfish retry-failed 3.1,3 --dir m` opens \
                   them, `pilotfish explain task 3.1 --dir m` says why they were cancelled";
        assert_eq!(said(1, 2, 1, None, 2), two);
        let many = "job 3 has no failed task to open again; 9 tasks stay cancelled: `pilotfish tasks 3 --state cancelled \
                    --dir m` lists them, and those that are named to `pilotfish retry-failed` are opened";
        assert_eq!(said(0, 9, 0, None, 9), many);
        // They failed after the job was looked at.
        let late = "job 3: 4 tasks opened again: what failed, and what waited for it";
        assert_eq!(said(0, 0, 4, None, 0), late);
        assert_eq!(
            said(1, 1, 2, Some(5), 1),
            "job 3: 2 of 5 tasks opened again, 3 had neither failed nor been cancelled"
        );
        let company = "job 3: 4 tasks opened again: of those named, and those that waited for them";
        assert_eq!(said(1, 0, 4, Some(5), 0), company);
        assert_eq!(said(1, 0, 4, Some(1), 0), company);
    }
}
