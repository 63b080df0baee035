//! The other jobs of the folder: those of earlier runs wait, those that come meanwhile are finished too.

use std::collections::BTreeSet;

use scheduler::{engine::views::JobView, ids::JobId, resources::Resources};

use crate::{
    client::Client,
    failure::Failure,
    show::{
        self,
        format::{count, counted},
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

/// Says that this new job is not the one of its name that is left, which somebody may have meant to go on with.
///
/// # Errors
/// The manager gives no answer.
pub async fn tell_changed(client: &Client, own: &JobView) -> Result<(), Failure> {
    let jobs = client.jobs().await?;
    let is_like = |job: &&JobView| job.id != own.id && job.name == own.name && job.ended_at.is_none();
    if let Some(left) = jobs.iter().rfind(is_like) {
        show::say(&format!(
            "job {} is a new one and not job {} of the same name: a run goes on only where command, values, settings and input files are as they were",
            own.id, left.id
        ));
    }
    Ok(())
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
