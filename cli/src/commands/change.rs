//! What `cancel`, `pause`, `resume` and `retry-failed` have in common.

use scheduler::{engine::views::JobView, ids::JobId, ranges::TaskSet};
use serde::Serialize;

use crate::{
    access,
    client::Client,
    failure::{Failure, Outcome},
    select::{JobSelector, Target, beyond},
    show::{
        self,
        format::{count, counted},
    },
    view::ViewArgs,
};

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
    let mut rows = Vec::new();
    let mut refusals = Vec::new();
    for target in targets {
        for job in jobs_of(&target.jobs, &client, change).await? {
            let view = client.job(job).await?;
            if let Some(refusal) = target.tasks.as_ref().and_then(|tasks| beyond(&view, tasks)) {
                refusals.push(refusal);
                continue;
            }
            let tasks = target.tasks.as_ref().map(ToString::to_string);
            match client.change(job, change.verb(), tasks).await.map_err(Failure::from) {
                Ok(changed) => {
                    let there = TaskSet::from(0..view.counts.total);
                    let n_meant = target.tasks.as_ref().map_or(there.len(), |t| t.intersection(&there).len());
                    let done = Done { job: &view, n_tasks: changed.n_tasks, n_meant };
                    let text = done.text(change, target.tasks.is_some());
                    rows.push(Row { job, n_tasks: changed.n_tasks, n_meant, text });
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

/// What came of a change.
struct Done<'a> {
    /// The job before it.
    job: &'a JobView,
    n_tasks: u64,
    n_meant: u64,
}

impl Done<'_> {
    fn text(&self, change: Change, are_named: bool) -> String {
        let Done { job, n_tasks, .. } = *self;
        let what = match change {
            Change::Pause if n_tasks == 0 => " was paused already".to_owned(),
            Change::Resume if n_tasks == 0 => " was not paused".to_owned(),
            Change::Pause => " paused".to_owned(),
            Change::Resume => " resumed".to_owned(),
            Change::Cancel => self.with_others("cancelled", "had ended"),
            Change::Retry if are_named => {
                self.with_others("opened again", "had neither failed nor been cancelled")
            }
            Change::Retry => self.retried(),
        };
        let is_waiting = change == Change::Retry && n_tasks > 0 && job.state == "paused";
        let hint = if is_waiting {
            format!("; the job is paused: `pilotfish resume {}`", job.id)
        } else {
            String::new()
        };
        format!("job {}{what}{hint}", job.id)
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

    /// A job as a whole: what was cancelled stays so, mostly somebody wanted it.
    fn retried(&self) -> String {
        let n_cancelled = self.job.counts.cancelled;
        let mut text = match self.n_tasks {
            0 => " has no failed task to open again".to_owned(),
            n => format!(": {} opened again", counted(n, "failed task")),
        };
        if n_cancelled > 0 {
            let last = self.job.counts.total.saturating_sub(1);
            let stay = if n_cancelled == 1 {
                "stays cancelled unless it is"
            } else {
                "stay cancelled unless they are"
            };
            text.push_str(&format!(
                "; {} {stay} named, like `pilotfish retry-failed {}.0-{last}`",
                counted(n_cancelled, "task"),
                self.job.id
            ));
        }
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
        JobSelector::All | JobSelector::Last | JobSelector::Numbers(_) => selector.resolve(client).await,
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
