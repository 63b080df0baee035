//! Which jobs and tasks are meant: `3`, `1-10`, `1,4-6`, `last`, `all`, `3.0-9`.

use std::{collections::BTreeSet, ops::RangeInclusive, sync::Once};

use protocol::job::nearest;
use scheduler::{
    engine::interface::views::JobView,
    ids::{JobId, TaskId},
    ranges::TaskSet,
};

use crate::{
    access::last::LastJob,
    client::{Client, ClientError},
    failure::Failure,
    show::{
        self,
        format::{count, counted},
    },
};

/// So many jobs are asked for one by one; of more the whole list is asked for.
const N_ASKED_MAX: usize = 20;
/// How selectors are written, for messages.
const JOBS_HELP: &str = "write a job's number, 1-10, 1,4-6, last or all";
const TASKS_HELP: &str = "write tasks like 3.7, 3.0-9 or last.0-9,12";

/// Jobs as people name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobSelector {
    /// Every job.
    All,
    /// The one that the current folder used last; the newest one where none is known.
    Last,
    /// By number.
    Numbers(Vec<RangeInclusive<u64>>),
}

/// Jobs, or some tasks of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which jobs.
    pub jobs: JobSelector,
    /// Which tasks of the one job; `None`: the job as a whole.
    pub tasks: Option<TaskSet>,
}

impl JobSelector {
    /// Reads a selector.
    ///
    /// # Errors
    /// Anything else, with what would be right.
    pub fn parse(text: &str) -> Result<JobSelector, Failure> {
        match text {
            "all" => return Ok(JobSelector::All),
            "last" => return Ok(JobSelector::Last),
            _ => {}
        }
        ranges(text).map(JobSelector::Numbers).ok_or_else(|| {
            let hint = match nearest(text, ["last", "all"]) {
                Some(near) => format!("did you mean `{near}`?"),
                None => JOBS_HELP.to_owned(),
            };
            Failure::bad_input(format!("found `{text}` instead of a job; {hint}"))
        })
    }

    /// The jobs that are meant, oldest first.
    ///
    /// # Errors
    /// None of those named is there.
    pub fn among(&self, jobs: &[JobView], client: &Client) -> Result<Vec<JobId>, Failure> {
        let ids = || jobs.iter().map(|job| job.id);
        match self {
            JobSelector::All => Ok(ids().collect()),
            JobSelector::Last => last(jobs, client.last()).map(|last| vec![last]),
            JobSelector::Numbers(ranges) => {
                for range in ranges {
                    if !ids().any(|id| range.contains(&id.0)) {
                        return Err(no_job(range, ids().map(|id| id.0).max()));
                    }
                }
                Ok(ids().filter(|id| ranges.iter().any(|range| range.contains(&id.0))).collect())
            }
        }
    }

    /// The jobs that are meant, as the manager knows them.
    ///
    /// # Errors
    /// None of those named is there, or the manager is not.
    pub async fn resolve(&self, client: &Client) -> Result<Vec<JobId>, Failure> {
        match self.few(client).await {
            Some(few) => Ok(few.iter().map(|job| job.id).collect()),
            None => self.among(&client.jobs().await?, client),
        }
    }

    /// The jobs that are meant, oldest first: up to 20 in full, more as the list of all jobs has them.
    ///
    /// # Errors
    /// As for [`JobSelector::resolve`].
    pub async fn views(&self, client: &Client) -> Result<Vec<JobView>, Failure> {
        if let Some(few) = self.few(client).await {
            return Ok(few);
        }
        let mut jobs = client.jobs().await?;
        let chosen: BTreeSet<JobId> = self.among(&jobs, client)?.into_iter().collect();
        jobs.retain(|job| chosen.contains(&job.id));
        // Of one by one more is known than of all.
        for job in jobs.iter_mut().take(N_ASKED_MAX) {
            *job = client.job(job.id).await?;
        }
        Ok(jobs)
    }

    /// A few jobs that are named, by a request for each, whatever else there is. `None`: there are more, or one could
    /// not be had, and the list of all jobs says why.
    async fn few(&self, client: &Client) -> Option<Vec<JobView>> {
        let mut jobs = Vec::new();
        for id in self.few_ids(client.last())? {
            jobs.push(client.job(id).await.ok()?);
        }
        Some(jobs)
    }

    /// The numbers of a few jobs that are named. `None`: there are more, or only the manager knows.
    fn few_ids(&self, last: LastJob) -> Option<BTreeSet<JobId>> {
        match (self, last) {
            (JobSelector::Last, LastJob::Job(id)) => Some(BTreeSet::from([id])),
            (JobSelector::Numbers(ranges), _) => {
                let ids = ranges.iter().flat_map(|range| range.clone().take(N_ASKED_MAX + 1)).map(JobId);
                Some(ids.collect()).filter(|ids: &BTreeSet<JobId>| ids.len() <= N_ASKED_MAX)
            }
            (JobSelector::Last | JobSelector::All, _) => None,
        }
    }

    /// The same for what is done to all that was submitted at once: `last` means all stages of its workflow.
    ///
    /// # Errors
    /// As for [`JobSelector::resolve`].
    pub async fn resolve_whole(&self, client: &Client) -> Result<Vec<JobId>, Failure> {
        let jobs = self.resolve(client).await?;
        match jobs[..] {
            [job] if *self == JobSelector::Last => stages_with(job, client).await,
            _ => Ok(jobs),
        }
    }

    /// The one job that is meant. Of a workflow `last` means the last stage, and users are told so.
    ///
    /// # Errors
    /// As for [`JobSelector::resolve`], and when several are named.
    pub async fn resolve_one(&self, client: &Client) -> Result<JobId, Failure> {
        match self.resolve(client).await?[..] {
            [job] if *self == JobSelector::Last => {
                tell_stages(&stages_with(job, client).await?);
                Ok(job)
            }
            [job] => Ok(job),
            [] => Err(Failure::bad_input("found `all`, but there are no jobs")),
            ref several => {
                let n_jobs = counted(several.len() as u64, "job");
                Err(Failure::bad_input(format!("found {n_jobs} where one is needed; give its number")))
            }
        }
    }
}

impl Target {
    /// Reads a target: jobs, or `JOB.TASKS`.
    ///
    /// # Errors
    /// Anything else, with what would be right.
    pub fn parse(text: &str) -> Result<Target, Failure> {
        let Some((job, tasks)) = text.split_once('.') else {
            return Ok(Target { jobs: JobSelector::parse(text)?, tasks: None });
        };
        let malformed = || Failure::bad_input(format!("found `{text}` instead of tasks; {TASKS_HELP}"));
        let jobs = match JobSelector::parse(job) {
            Ok(JobSelector::Numbers(ranges)) if !is_single(&ranges) => return Err(malformed()),
            Ok(JobSelector::All) | Err(_) => return Err(malformed()),
            Ok(one @ (JobSelector::Last | JobSelector::Numbers(_))) => one,
        };
        if let Some((first, last)) = backwards(tasks) {
            return Err(Failure::bad_input(format!(
                "found `{text}`, tasks from {first} to {last}; the first must not be above the last: {job}.{last}-{first}"
            )));
        }
        let mut set = TaskSet::new();
        for range in ranges(tasks).ok_or_else(malformed)? {
            let end = range.end().checked_add(1).ok_or_else(malformed)?;
            set.insert_range(*range.start()..end);
        }
        Ok(Target { jobs, tasks: Some(set) })
    }

    /// The one job that is meant, which has all its named tasks.
    ///
    /// # Errors
    /// As for [`JobSelector::resolve_one`], and tasks beyond the last.
    pub async fn resolve_one(&self, client: &Client) -> Result<JobId, Failure> {
        let job = self.jobs.resolve_one(client).await?;
        if let Some(tasks) = &self.tasks
            && let Some(refusal) = beyond(&client.job(job).await?, tasks)
        {
            return Err(Failure::bad_input(refusal));
        }
        Ok(job)
    }

    /// Reads exactly one task: `JOB.INDEX`.
    ///
    /// # Errors
    /// Anything else, a job that is not there, or a manager that is not.
    pub async fn resolve_task(text: &str, client: &Client) -> Result<TaskId, Failure> {
        let (target, index) = Target::parse_task(text)?;
        Ok(TaskId { job: target.jobs.resolve_one(client).await?, index })
    }

    /// Whatever is no task is refused with how one is written.
    fn parse_task(text: &str) -> Result<(Target, u64), Failure> {
        let target = Target::parse(text).map_err(|_| no_single_task(text))?;
        let index = target.one_task(text)?;
        Ok((target, index))
    }

    /// The index of the one task that is named.
    ///
    /// # Errors
    /// None is, or several are.
    pub fn one_task(&self, text: &str) -> Result<u64, Failure> {
        let tasks = self.tasks.as_ref().filter(|tasks| tasks.len() == 1);
        tasks.and_then(TaskSet::first).ok_or_else(|| no_single_task(text))
    }
}

fn no_single_task(text: &str) -> Failure {
    Failure::bad_input(format!("found `{text}` where one task is needed; write JOB.INDEX, like 3.7"))
}

/// The first range whose first number is above its last.
fn backwards(text: &str) -> Option<(u64, u64)> {
    let bounds = text.split(',').filter_map(|range| range.split_once('-'));
    let numbers = bounds.filter_map(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    numbers.into_iter().find(|(first, last): &(u64, u64)| first > last)
}

/// All stages of the workflow that a job belongs to, in order; the job alone if it is none of a workflow.
async fn stages_with(job: JobId, client: &Client) -> Result<Vec<JobId>, Failure> {
    let Some(workflow) = client.job(job).await?.workflow else { return Ok(vec![job]) };
    let jobs = client.jobs().await?;
    Ok(jobs.into_iter().filter(|stage| stage.workflow == Some(workflow)).map(|stage| stage.id).collect())
}

/// Says that `last` is one of several stages.
fn tell_stages(stages: &[JobId]) {
    // A watch asks again and again.
    static TOLD: Once = Once::new();
    if let [first, .., last] = stages {
        let n = stages.len();
        TOLD.call_once(|| {
            show::say(&format!(
                "`last` is job {last}, the last of the workflow's {n} stages, jobs {first} to {last}"
            ));
        });
    }
}

/// Jobs that are known to be there: a few by a request for each, more by the list of all.
///
/// # Errors
/// The manager gives no answer.
pub async fn views_of(client: &Client, ids: &[JobId]) -> Result<Vec<JobView>, ClientError> {
    let ids: BTreeSet<JobId> = ids.iter().copied().collect();
    let mut views = Vec::new();
    if ids.len() <= N_ASKED_MAX {
        for id in ids {
            views.push(client.job(id).await?);
        }
    } else {
        views.extend(client.jobs().await?.into_iter().filter(|job| ids.contains(&job.id)));
    }
    Ok(views)
}

/// What to say of tasks that the job does not have.
pub fn beyond(job: &JobView, tasks: &TaskSet) -> Option<String> {
    let mut beyond = tasks.clone();
    beyond.remove_range(0..job.counts.total);
    let last = count(job.counts.total.saturating_sub(1));
    (!beyond.is_empty()).then(|| format!("job {} has no task {beyond}; its tasks are 0 to {last}", job.id))
}

/// The job that is meant by `last`.
fn last(jobs: &[JobView], last: LastJob) -> Result<JobId, Failure> {
    let newest = jobs.iter().max_by_key(|job| job.id);
    let newest = newest.ok_or_else(|| Failure::bad_input("found `last`, but there are no jobs"))?;
    match last {
        LastJob::Job(id) if jobs.iter().any(|job| job.id == id) => Ok(id),
        LastJob::Job(id) => Err(Failure::bad_input(format!(
            "found `last`, but job {id}, the last one of this folder, is not there any more; give a job's number"
        ))),
        LastJob::Newest => Ok(newest.id),
        LastJob::NewestOfAnyFolder => {
            // A watch asks again and again.
            static TOLD: Once = Once::new();
            TOLD.call_once(|| {
                let (id, name) = (newest.id, &newest.name);
                show::say(&format!(
                    "no job of this folder is known; `last` is the manager's newest one, job {id} ({name})"
                ));
            });
            Ok(newest.id)
        }
    }
}

fn no_job(range: &RangeInclusive<u64>, last: Option<u64>) -> Failure {
    let wanted = if range.start() == range.end() {
        format!("there is no job {}", range.start())
    } else {
        format!("there is no job from {} to {}", range.start(), range.end())
    };
    match last {
        Some(last) => Failure::bad_input(format!("{wanted}; the last one is {}", count(last))),
        None => Failure::bad_input(format!("{wanted}; there are no jobs")),
    }
}

fn is_single(ranges: &[RangeInclusive<u64>]) -> bool {
    matches!(ranges, [range] if range.start() == range.end())
}

/// `1,4-6` with underscores allowed in numbers.
fn ranges(text: &str) -> Option<Vec<RangeInclusive<u64>>> {
    let number = |digits: &str| -> Option<u64> {
        let digits = digits.trim().replace('_', "");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        digits.parse().ok()
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some(first..=last)
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::{JobId, JobSelector, LastJob, Target};

    fn target(text: &str) -> String {
        match Target::parse(text) {
            Ok(Target { jobs, tasks }) => {
                format!("{jobs:?} {}", tasks.map(|t| t.to_string()).unwrap_or_default())
            }
            Err(failure) => failure.to_string().trim_end().to_owned(),
        }
    }

    #[test]
    fn jobs_are_named_as_people_do() {
        assert_eq!(JobSelector::parse("all"), Ok(JobSelector::All));
        assert_eq!(JobSelector::parse("1,4-6"), Ok(JobSelector::Numbers(vec![1..=1, 4..=6])));
        assert_eq!(JobSelector::parse("1_000"), Ok(JobSelector::Numbers(vec![1000..=1000])));
    }

    #[test]
    fn a_few_jobs_that_are_named_are_asked_for_without_the_list_of_all() {
        let few = |text: &str, last| {
            let ids = JobSelector::parse(text).expect("a selector").few_ids(last);
            ids.map(|ids| ids.into_iter().map(|id| id.0).collect::<Vec<_>>())
        };
        assert_eq!(few("7,3-5,4", LastJob::Newest), Some(vec![3, 4, 5, 7]));
        assert_eq!(few("1-20", LastJob::Newest), Some((1..=20).collect()));
        assert_eq!(few("1-21", LastJob::Newest), None);
        assert_eq!(few("1-18446744073709551615,3", LastJob::Newest), None);
        assert_eq!(few("last", LastJob::Job(JobId(9))), Some(vec![9]));
        assert_eq!((few("last", LastJob::Newest), few("all", LastJob::Job(JobId(9)))), (None, None));
    }

    #[test]
    fn tasks_are_of_one_job() {
        assert_eq!(target("3.0-9,12"), "Numbers([3..=3]) 0-9,12");
        assert_eq!(target("last.5"), "Last 5");
        assert_eq!(target("4"), "Numbers([4..=4]) ");
        let turned =
            "pilotfish: found `1.7,5-2`, tasks from 5 to 2; the first must not be above the last: 1.2-5";
        assert_eq!(target("1.7,5-2"), turned);
        for wrong in
            ["1-2.3", "all.3", "3.", "3.x", ".5", "3.1.2", "3.18446744073709551615-18446744073709551615"]
        {
            let expected = format!(
                "pilotfish: found `{wrong}` instead of tasks; write tasks like 3.7, 3.0-9 or last.0-9,12"
            );
            assert_eq!(target(wrong), expected);
        }
    }

    #[test]
    fn what_is_no_single_task_is_refused_with_how_one_is_written() {
        let task = |text: &str| match Target::parse_task(text) {
            Ok((_, index)) => index.to_string(),
            Err(failure) => failure.to_string().trim_end().to_owned(),
        };
        assert_eq!((task("3.7").as_str(), task("last.12").as_str()), ("7", "12"));
        for wrong in ["x", "3", "all", "3.x", "3.0-9", "1-2.3", "3.9-2"] {
            let expected =
                format!("pilotfish: found `{wrong}` where one task is needed; write JOB.INDEX, like 3.7");
            assert_eq!(task(wrong), expected);
        }
    }

    #[test]
    fn what_is_no_job_is_refused_with_what_would_be_right() {
        assert_eq!(target("lsat"), "pilotfish: found `lsat` instead of a job; did you mean `last`?");
        for wrong in ["", "docking", "5-1", "1,,2", "-1"] {
            let expected = format!(
                "pilotfish: found `{wrong}` instead of a job; write a job's number, 1-10, 1,4-6, last or all"
            );
            assert_eq!(target(wrong), expected);
        }
    }
}
