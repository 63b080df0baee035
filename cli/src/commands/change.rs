//! What `cancel`, `pause`, `resume` and `retry-failed` have in common.

use scheduler::ids::JobId;
use serde::Serialize;

use crate::{
    access,
    client::Client,
    failure::{Failure, Outcome},
    select::{JobSelector, Target},
    show::{
        self,
        format::{count, counted},
    },
    view::ViewArgs,
};

/// A change of jobs.
#[derive(Clone, Copy)]
pub struct Change {
    /// As the API calls it.
    pub verb: &'static str,
    /// What has been done then.
    pub done: &'static str,
    /// Whether it is a change of tasks, which are then counted.
    pub counts_tasks: bool,
}

#[derive(Serialize)]
struct Row {
    job: JobId,
    n_tasks: u64,
}

/// Changes jobs, or tasks of jobs; says what was done.
///
/// # Errors
/// A wrong selector, no such job, a refusal, or no manager. Jobs before the refused one are changed.
pub async fn change(targets: &[String], view: &ViewArgs, change: Change) -> Result<Outcome, Failure> {
    let targets: Vec<Target> = targets.iter().map(|text| Target::parse(text)).collect::<Result<_, _>>()?;
    let client = access::find_live(&view.place).await?;
    let mut rows = Vec::new();
    let mut refusals = Vec::new();
    for target in targets {
        for job in jobs_of(&target.jobs, &client, change).await? {
            if let Some(tasks) = &target.tasks
                && let n_tasks = client.job(job).await?.counts.total
                && tasks.first().is_some_and(|first| first >= n_tasks)
            {
                let last = count(n_tasks.saturating_sub(1));
                refusals.push(format!("job {job} has no task {tasks}; its tasks are 0 to {last}"));
                continue;
            }
            let tasks = target.tasks.as_ref().map(ToString::to_string);
            match client.change(job, change.verb, tasks).await.map_err(Failure::from) {
                Ok(changed) => rows.push(Row { job, n_tasks: changed.n_tasks }),
                Err(Failure::BadInput(lines)) => refusals.extend(lines),
                Err(failure) => return Err(failure),
            }
        }
    }
    if view.json {
        show::print(&show::json(&rows)?)?;
    } else if !view.quiet {
        for Row { job, n_tasks } in &rows {
            let tasks =
                if change.counts_tasks { format!(": {}", counted(*n_tasks, "task")) } else { String::new() };
            show::print(&format!("job {job} {}{tasks}\n", change.done))?;
        }
    }
    if refusals.is_empty() { Ok(Outcome::Fine) } else { Err(Failure::BadInput(refusals)) }
}

/// The jobs that are meant; of `all` only those that are not over, when a change is only for them.
async fn jobs_of(selector: &JobSelector, client: &Client, change: Change) -> Result<Vec<JobId>, Failure> {
    let jobs = client.jobs().await?;
    let chosen = selector.among(&jobs)?;
    let is_open = |id: &JobId| jobs.iter().any(|job| job.id == *id && job.ended_at.is_none());
    match selector {
        JobSelector::All if change.verb != "retry" => Ok(chosen.into_iter().filter(is_open).collect()),
        JobSelector::All | JobSelector::Last | JobSelector::Numbers(_) => Ok(chosen),
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
