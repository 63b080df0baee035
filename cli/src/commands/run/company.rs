//! The other jobs of the folder: those of earlier runs wait, those that come meanwhile are finished too.

use std::{collections::BTreeSet, path::Path};

use scheduler::{engine::interface::views::JobView, ids::JobId, resources::Resources};

use crate::{
    client::Client,
    failure::Failure,
    show::{
        self,
        format::{count, counted},
        quote::quoted,
        table::shortened,
    },
};

/// Jobs that are named one by one; the rest is counted.
const N_NAMED_MAX: usize = 5;
/// A job's name in a sentence.
const NAME_LEN_MAX: usize = 40;

/// Pauses all jobs: those of this folder wait for their own `run`, and this one's is resumed when it
/// is found again.
///
/// # Errors
/// The manager gives no answer.
pub async fn pause_all(client: &Client) -> Result<(), Failure> {
    for job in client.jobs().await? {
        if job.state == "active" {
            client.change(job.id, "pause", None).await?;
        }
    }
    Ok(())
}

/// Says which jobs are left as they are, and how to go on with them; gives those that are to be
/// finished with the own one, so far none. `place` is the flag that finds this run; without it nothing
/// is said.
///
/// # Errors
/// The manager gives no answer.
pub async fn tell_paused(
    client: &Client,
    own: &BTreeSet<JobId>,
    place: Option<&str>,
) -> Result<Latecomers, Failure> {
    let jobs = client.jobs().await?;
    let paused: Vec<&JobView> =
        jobs.iter().filter(|job| !own.contains(&job.id) && job.ended_at.is_none()).collect();
    if let Some(line) = place.and_then(|place| paused_line(&paused, place)) {
        show::say(&line);
    }
    let over = jobs.iter().filter(|job| job.ended_at.is_some()).map(|job| job.id).collect();
    let last = own.last().copied().unwrap_or(JobId(0));
    Ok(Latecomers { own: last, over, told: own.clone() })
}

fn paused_line(paused: &[&JobView], place: &str) -> Option<String> {
    let first = paused.first()?;
    let mut names: Vec<String> = paused.iter().take(N_NAMED_MAX).map(|job| named(job)).collect();
    if paused.len() > names.len() {
        names.push(format!("{} more", count((paused.len() - names.len()) as u64)));
    }
    let (word, them, verb) =
        if paused.len() == 1 { ("job", "it", "stays") } else { ("jobs", "them", "stay") };
    Some(format!(
        "{word} {} {verb} paused; go on with {them} by {} own `pilotfish run`, or by `pilotfish resume {}{place}` while this one works",
        names.join(", "),
        if paused.len() == 1 { "its" } else { "their" },
        first.id
    ))
}

/// Says that this new job is not the one of its name that is left, which somebody may have meant to go on with. With
/// `retries` in `folder` one that has failed tasks is left, too. Gives whether there was something to say.
///
/// # Errors
/// The manager gives no answer.
pub async fn tell_changed(client: &Client, own: &JobView, retries: Option<&Path>) -> Result<bool, Failure> {
    let jobs = client.jobs().await?;
    let is_left = |job: &JobView| job.ended_at.is_none() || (retries.is_some() && n_lost(job) > 0);
    let is_like = |job: &&JobView| job.id != own.id && job.name == own.name && is_left(job);
    let Some(left) = jobs.iter().rfind(is_like) else { return Ok(false) };
    let (new, old) = (own.id, left.id);
    show::say(&match retries.filter(|_| n_lost(left) > 0) {
        None => format!(
            "job {new} is a new one and not job {old} of the same name: a run goes on only where command, values, settings and input files are as they were"
        ),
        Some(folder) => changed(new, left, folder),
    });
    Ok(true)
}

/// The sentence about a job whose failed tasks were to run again.
fn changed(new: JobId, left: &JobView, folder: &Path) -> String {
    let (old, folder) = (left.id, quoted(&folder.display().to_string()));
    let lost = counted(n_lost(left), "task");
    format!(
        "job {new} is a new one, as its command, values, settings or input files are not those of job {old} of the same \
         name, whose {lost} that failed or were cancelled do not run again; they do where all is as it was, or by \
         `pilotfish retry-failed {old} --dir {folder}` beside `pilotfish serve --dir {folder}`"
    )
}

fn n_lost(job: &JobView) -> u64 {
    job.counts.failed.saturating_add(job.counts.cancelled)
}

/// `3 (waves, 12 tasks left)`
fn named(job: &JobView) -> String {
    let counts = &job.counts;
    let n_left = counts.waiting.saturating_add(counts.queued).saturating_add(counts.running);
    format!("{} ({}, {} left)", job.id, shortened(&job.name, NAME_LEN_MAX), counted(n_left, "task"))
}

/// Jobs that came or were resumed meanwhile, and are to be finished before this `run` ends.
pub struct Latecomers {
    own: JobId,
    /// Those that were over before; one that is opened again has come, too.
    over: BTreeSet<JobId>,
    /// Those that have been told of.
    told: BTreeSet<JobId>,
}

impl Latecomers {
    /// The next one that is over or can be, with one pilot of this capacity. Of those that can be it
    /// is told that they are waited for, of others that they are not.
    ///
    /// # Errors
    /// The manager gives no answer.
    pub async fn next(&mut self, client: &Client, capacity: &Resources) -> Result<Option<JobView>, Failure> {
        for job in client.jobs().await? {
            let is_over = job.ended_at.is_some();
            if self.over.contains(&job.id) {
                if is_over {
                    continue;
                }
                self.over.remove(&job.id);
            }
            if !(is_over || job.state == "active") || !self.told.insert(job.id) {
                continue;
            }
            if is_over {
                return Ok(Some(job));
            }
            let name = shortened(&job.name, NAME_LEN_MAX);
            if !job.needs.fits_in(capacity) {
                let needs = format!("job {} {name} is left: a task of it needs {}", job.id, job.needs);
                show::say(&format!("{needs}, this run has {capacity}"));
                continue;
            }
            let how = if job.id > self.own { "submitted" } else { "resumed" };
            show::say(&format!("also finishing job {} {name}, {how} meanwhile", job.id));
            return Ok(Some(job));
        }
        Ok(None)
    }
}
