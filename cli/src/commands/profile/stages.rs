//! What a profiling run does on a platform, one company after the other.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use protocol::api::ProfilingRequest;
use scheduler::{
    engine::interface::views::{JobView, profile::ProfileView},
    ids::JobId,
    resources::Resources,
    time::Span,
};

use crate::{
    client::{Client, ClientError},
    failure::Failure,
    show,
};

/// How many applications share a node (the paper's AllCore, TwoApp and FourApp).
const N_MEMBERS: [usize; 3] = [1, 2, 4];
/// Jobs of an application that wait at most, if they have few tasks.
const N_JOBS_MAX: usize = 100;
/// How often it is looked at, …
const LOOK: Duration = Duration::from_millis(300);
/// … and for how long there are to be tasks.
const AHEAD: Span = Span::from_secs(2);
/// After so long, and so many times the tasks that were to be measured, nothing more is hoped for.
const HOPE: (Duration, u64) = (Duration::from_secs(30), 5);
/// After so long somebody may wonder why nothing runs.
const WONDER: Duration = Duration::from_secs(5);

/// An application, and the job whose tasks are run for it.
pub struct Subject {
    /// Its name.
    pub application: String,
    /// The job.
    pub job: JobId,
    /// What a task needs.
    pub needs: Resources,
}

/// A platform.
#[derive(Clone)]
pub struct Site {
    /// Its name.
    pub platform: String,
    /// What a node has.
    pub capacity: Resources,
}

/// How a run ended by itself.
pub enum End {
    /// All was measured.
    Measured,
    /// Tasks failed, or are not measured: what happened.
    Failed(String),
    /// It was to stop.
    Stopped,
}

/// A run on one platform.
pub struct Measurement {
    /// The way to the manager.
    pub client: Client,
    /// Where.
    pub site: Site,
    /// What.
    pub subjects: Arc<Vec<Subject>>,
    /// How many tasks of each in each company.
    pub n_tasks: u64,
    /// Whether it says nothing of how it goes.
    pub is_quiet: bool,
    /// Jobs of all runs that are not over.
    pub open: Arc<Mutex<BTreeSet<JobId>>>,
    /// Whether it is to end.
    pub stop: Arc<AtomicBool>,
}

/// Applications that have a node together, by their places, and how many tasks of each run at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stage {
    members: Vec<(usize, u64)>,
    /// One task alone: the paper's OneCore.
    is_alone: bool,
}

/// What runs for one of a company.
#[derive(Default)]
struct Line {
    member: usize,
    n_slots: u64,
    /// Those that are not over.
    jobs: Vec<JobId>,
    /// What a task takes there.
    mean: Option<Span>,
    has_begun: bool,
    /// Tasks that have succeeded, of jobs that are over and of all.
    n_before: u64,
    n_done: u64,
}

/// Cancels a job; whether that is done, or it was over already.
pub async fn is_cancelled(client: &Client, job: JobId) -> bool {
    match client.change(job, "cancel", None).await {
        Ok(_) => true,
        Err(ClientError::Refused { status, .. }) => status.as_u16() == 409,
        Err(_) => false,
    }
}

/// All companies that can be had on a node of so many cores, for applications whose tasks take these: equal pieces that
/// tasks fill.
fn stages(task_cores: &[u64], node_cores: u64) -> Vec<Stage> {
    let places = 0..task_cores.len();
    let alone = places.clone().map(|member| Stage { members: vec![(member, 1)], is_alone: true });
    let mut stages: Vec<Stage> = alone.collect();
    for bits in 1_u64..1 << task_cores.len() {
        let members: Vec<usize> = places.clone().filter(|member| bits & 1 << member != 0).collect();
        let n_members = members.len() as u64;
        let piece = node_cores / n_members;
        let is_filled = |member: &usize| piece > 0 && piece.is_multiple_of(task_cores[*member]);
        let is_whole = node_cores.is_multiple_of(n_members) && members.iter().all(is_filled);
        let members: Vec<(usize, u64)> =
            members.into_iter().map(|member| (member, piece / task_cores[member])).collect();
        // A task that has the whole node is alone.
        let is_new = n_members > 1 || members[0].1 > 1;
        if N_MEMBERS.contains(&members.len()) && is_whole && is_new {
            stages.push(Stage { members, is_alone: false });
        }
    }
    stages.sort_by_key(|stage| (!stage.is_alone, stage.members.len()));
    stages
}

impl Measurement {
    /// One company after the other.
    ///
    /// # Errors
    /// A refusal, or the manager stays away.
    pub async fn run(self) -> Result<End, Failure> {
        let cores: Vec<u64> =
            self.subjects.iter().map(|subject| u64::from(subject.needs.cores).max(1)).collect();
        let mut stages = stages(&cores, self.site.capacity.cores.into());
        stages.retain(|stage| self.has_room(stage));
        for (n, stage) in stages.iter().enumerate() {
            if !self.is_quiet {
                let (platform, words) = (&self.site.platform, self.words(stage));
                show::say(&format!("{platform}: {words} ({} of {})", n + 1, stages.len()));
            }
            match self.measure(stage).await? {
                End::Measured => {}
                other => return Ok(other),
            }
        }
        Ok(End::Measured)
    }

    /// Whether all that it wants at a time can be had: memory and the like, too.
    fn has_room(&self, stage: &Stage) -> bool {
        let mut free = self.site.capacity.clone();
        stage.members.iter().all(|(member, n_slots)| {
            let needs = &self.subjects[*member].needs;
            let is_there = needs.how_often_in(&free) >= *n_slots;
            free.take(needs, *n_slots);
            is_there
        })
    }

    async fn measure(&self, stage: &Stage) -> Result<End, Failure> {
        let before = self.n_measured(stage).await?;
        let began = Instant::now();
        let (mut wonders, mut last) = (true, (Instant::now(), before.clone(), 0));
        let line =
            |(member, n_slots): &(usize, u64)| Line { member: *member, n_slots: *n_slots, ..Line::default() };
        let mut lines: Vec<Line> = stage.members.iter().map(line).collect();
        loop {
            for line in &mut lines {
                match self.feed(line).await? {
                    End::Measured => {}
                    other => return Ok(other),
                }
            }
            tokio::time::sleep(LOOK).await;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            let now = self.n_measured(stage).await?;
            if now.iter().zip(&before).all(|(now, before)| now.saturating_sub(*before) >= self.n_tasks) {
                break;
            }
            let n_done = lines.iter().map(|line| line.n_done).sum();
            if now != last.1 {
                last = (Instant::now(), now, n_done);
            }
            if last.0.elapsed() > HOPE.0 && n_done - last.2 > HOPE.1 * self.n_tasks * lines.len() as u64 {
                return Ok(End::Failed(self.despair(stage)));
            }
            if wonders && !lines.iter().any(|line| line.has_begun) && began.elapsed() > WONDER {
                wonders = false;
                self.explain(&lines[0]).await;
            }
        }
        for job in lines.into_iter().flat_map(|line| line.jobs) {
            if is_cancelled(&self.client, job).await {
                self.note(|open| open.remove(&job));
            }
        }
        Ok(End::Measured)
    }

    /// Sees to it that tasks enough wait until the next look: without them its company would be another one.
    async fn feed(&self, line: &mut Line) -> Result<End, Failure> {
        let (mut n_waiting, mut n_done) = (0, 0);
        for job in std::mem::take(&mut line.jobs) {
            let view = self.client.job(job).await?;
            if let Some(what) = self.failure(&view) {
                return Ok(End::Failed(what));
            }
            line.mean = view.wall_mean.or(line.mean);
            line.has_begun |= view.counts.waiting < view.counts.total;
            n_waiting += view.counts.waiting;
            n_done += view.counts.done;
            match view.ended_at {
                None => line.jobs.push(job),
                Some(_) => {
                    line.n_before += view.counts.done;
                    n_done -= view.counts.done;
                    self.note(|open| open.remove(&job));
                }
            }
        }
        line.n_done = line.n_before + n_done;
        let in_turn = line.mean.map_or(1, |mean| AHEAD.0 / mean.0.max(1));
        let n_wanted = line.n_slots * (1 + in_turn);
        while n_waiting < n_wanted && line.jobs.len() < N_JOBS_MAX {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(End::Stopped);
            }
            let tasks = n_wanted.max(2 * self.n_tasks);
            let request =
                ProfilingRequest { platform: self.site.platform.clone(), slots: line.n_slots, tasks };
            let new = self.client.profile(self.subjects[line.member].job, &request).await?;
            self.note(|open| open.insert(new.job));
            line.jobs.push(new.job);
            n_waiting += new.n_tasks;
        }
        Ok(End::Measured)
    }

    /// Changes which jobs are to be cancelled if the run ends now.
    fn note(&self, change: impl FnOnce(&mut BTreeSet<JobId>) -> bool) {
        if let Ok(mut open) = self.open.lock() {
            change(&mut open);
        }
    }

    async fn explain(&self, line: &Line) {
        let Some(job) = line.jobs.first() else { return };
        if let Ok(explanation) = self.client.explain(&format!("job/{job}")).await
            && let Some(reason) = explanation.reasons.first()
        {
            show::say(&format!("{}: {}", self.site.platform, reason.text));
        }
    }

    /// Why nobody should wait any more.
    fn despair(&self, stage: &Stage) -> String {
        let (platform, words) = (&self.site.platform, self.words(stage));
        format!(
            "{words}: tasks end on {platform}, but not in that company; is the node large enough, and nothing paused?"
        )
    }

    fn failure(&self, view: &JobView) -> Option<String> {
        let JobView { id, application, counts, .. } = view;
        let platform = &self.site.platform;
        if counts.failed > 0 {
            return Some(format!(
                "a task of {application} failed on {platform}; `pilotfish tasks {id} --failed` says why"
            ));
        }
        (counts.cancelled > 0).then(|| format!("job {id}, {application} on {platform}, was cancelled"))
    }

    /// Of each member, how many tasks were measured in this company.
    async fn n_measured(&self, stage: &Stage) -> Result<Vec<u64>, Failure> {
        let profiles = self.client.profiles().await?.profiles;
        Ok(stage.members.iter().map(|(member, _)| self.n_of(&profiles, stage, *member)).collect())
    }

    fn n_of(&self, profiles: &[ProfileView], stage: &Stage, member: usize) -> u64 {
        let name = |member: usize| self.subjects[member].application.clone();
        let profile = profiles.iter().find(|profile| profile.application == name(member));
        let known = profile
            .and_then(|profile| profile.platforms.iter().find(|known| known.platform == self.site.platform));
        let Some(known) = known else { return 0 };
        // On a node of one core a task is always alone.
        if self.site.capacity.cores < 2 {
            return known.n_done;
        }
        let others = stage.members.iter().map(|(other, _)| *other).filter(|other| *other != member);
        let mut others: Vec<String> = others.map(name).collect();
        others.sort();
        let company = (!stage.is_alone).then_some(others);
        known.beside.iter().find(|beside| beside.others == company).map_or(0, |beside| beside.n)
    }

    fn words(&self, stage: &Stage) -> String {
        let name = |(member, n): &(usize, u64)| match n {
            1 => self.subjects[*member].application.clone(),
            n => format!("{n} × {}", self.subjects[*member].application),
        };
        let names: Vec<String> = stage.members.iter().map(name).collect();
        if stage.is_alone { format!("{} alone", names[0]) } else { names.join(" beside ") }
    }
}

#[cfg(test)]
mod tests {
    use super::{Stage, stages};

    fn alone(member: usize) -> Stage {
        Stage { members: vec![(member, 1)], is_alone: true }
    }

    fn together(members: &[(usize, u64)]) -> Stage {
        Stage { members: members.to_vec(), is_alone: false }
    }

    #[test]
    fn nodes_are_shared_in_equal_pieces_that_tasks_fill() {
        assert_eq!(
            stages(&[1, 1], 4),
            [alone(0), alone(1), together(&[(0, 4)]), together(&[(1, 4)]), together(&[(0, 2), (1, 2)])]
        );
        assert_eq!(stages(&[1], 1), [alone(0)]);
        assert_eq!(stages(&[4, 1], 4), [alone(0), alone(1), together(&[(1, 4)])]);
        assert_eq!(
            stages(&[2, 1], 4)[2..],
            [together(&[(0, 2)]), together(&[(1, 4)]), together(&[(0, 1), (1, 2)])]
        );
        // No third of a node: nobody would learn what that costs.
        let of_four = stages(&[1; 4], 4);
        assert_eq!(of_four.len(), 4 + 4 + 6 + 1);
        assert_eq!(of_four.last(), Some(&together(&[(0, 1), (1, 1), (2, 1), (3, 1)])));
    }
}
