//! The event stream: a job's state at the beginning and whenever it changes, failures as they come.
//!
//! Nothing is queued for a slow watcher: changes of a job are one mark, and a watcher who falls so
//! far behind that news is lost is shown every job anew.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
    time::Duration,
};

use axum::{
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use futures_util::stream;
use protocol::api::{EventsQuery, StreamEvent};
use scheduler::{
    engine::interface::{Answer, Notice, Query, views::JobView},
    ids::JobId,
};
use tokio::{
    sync::broadcast::{
        self,
        error::{RecvError, TryRecvError},
    },
    time::{Instant, sleep_until},
};

use super::Shared;
use crate::api::http::{
    error::ApiError,
    extract::{InQuery, User},
};
use crate::quotas::Kind;

/// No job is shown more often, its end aside.
const PAUSE: Duration = Duration::from_millis(100);
/// A comment after so long a silence, so that nobody on the way thinks the connection dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events taken at a time.
const N_READY_MAX: usize = 256;
/// Jobs named in one request.
const N_JOBS_MAX: usize = 1000;

/// Streams news of some jobs, or of all: to operators, to others those of their own. Without jobs it
/// begins with those that are not over. News of platforms are for operators only.
pub(super) async fn watch(
    State(context): State<Shared>,
    user: User,
    InQuery(query): InQuery<EventsQuery>,
) -> Result<Response, ApiError> {
    let jobs = query.job.as_deref().map(parse_jobs).transpose()?;
    // Both are held as long as the stream is.
    let most = context.state.quotas.of(&user).n_streams;
    let share = context.counts.take(&user.name, Kind::Streams, most)?;
    let place = (share, context.streams.clone().try_acquire_owned().map_err(|_| ApiError::crowded())?);
    let watcher = Watcher::start(context, user, jobs).await?;
    let events = stream::unfold((watcher, place), |(mut watcher, place)| async {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(to_sse(&event)), (watcher, place)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

fn parse_jobs(text: &str) -> Result<BTreeSet<JobId>, ApiError> {
    if text.split(',').count() > N_JOBS_MAX {
        return Err(ApiError::bad_request(format!(
            "found more than {N_JOBS_MAX} jobs to watch; leave `job` out for all"
        )));
    }
    let parse = |part: &str| part.trim().parse().map(JobId);
    let jobs: Result<BTreeSet<JobId>, _> = text.split(',').map(parse).collect();
    jobs.map_err(|_| ApiError::bad_request(format!("found job={text}; write numbers of jobs like 3 or 3,4")))
}

/// The event's name is its variant, its data the whole as JSON.
fn to_sse(event: &StreamEvent) -> sse::Event {
    let name = match event {
        StreamEvent::Job { .. } => "job",
        StreamEvent::TaskFailed { .. } => "task-failed",
        StreamEvent::PlatformFailed { .. } => "platform-failed",
    };
    // JSON is one line; a type that JSON cannot hold is not among the events.
    sse::Event::default().event(name).data(serde_json::to_string(event).unwrap_or_default())
}

/// One who watches.
struct Watcher {
    context: Shared,
    user: User,
    /// Whether jobs that were asked for belong to the user: an owner never changes.
    own: BTreeMap<JobId, bool>,
    notices: broadcast::Receiver<Notice>,
    /// `None`: all.
    jobs: Option<BTreeSet<JobId>>,
    /// To be sent at once.
    ready: VecDeque<StreamEvent>,
    /// Jobs to be shown, and not before when.
    due: BTreeMap<JobId, Instant>,
    /// When a job may be shown again; those past are forgotten.
    rests: BTreeMap<JobId, Instant>,
}

impl Watcher {
    /// Listens first and looks then, so that nothing is missed between. Errors: a job that is not there,
    /// or is somebody else's.
    async fn start(context: Shared, user: User, jobs: Option<BTreeSet<JobId>>) -> Result<Watcher, ApiError> {
        let notices = context.state.handle.subscribe();
        let mut watcher = Watcher {
            context,
            user,
            own: BTreeMap::new(),
            notices,
            jobs,
            ready: VecDeque::new(),
            due: BTreeMap::new(),
            rests: BTreeMap::new(),
        };
        match watcher.jobs.clone() {
            Some(jobs) => {
                for id in jobs {
                    let view = watcher.context.own_job(&watcher.user, id).await?;
                    let view = watcher.with_output(view).await;
                    watcher.show(view);
                }
            }
            None => watcher.show_all(|view| view.ended_at.is_none()).await?,
        }
        Ok(watcher)
    }

    /// The next event; `None` when the manager ends.
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let now = Instant::now();
            let soonest = self.due.iter().min_by_key(|(_, at)| **at).map(|(id, at)| (*id, *at));
            if let Some((id, _)) = soonest.filter(|(_, at)| *at <= now) {
                self.due.remove(&id);
                let view = match self.context.job(id).await {
                    Ok(view) => view,
                    // It was purged. Who watches all jobs goes on.
                    Err(error) if error.status == StatusCode::NOT_FOUND && self.jobs.is_none() => continue,
                    Err(_) => return None,
                };
                self.rests.insert(id, Instant::now() + PAUSE);
                // What led to this view has been announced before it: a watcher goes when a job is over.
                if self.take_announced().await? {
                    let view = self.with_output(view).await;
                    self.show(view);
                } else {
                    self.due.insert(id, Instant::now());
                }
                continue;
            }
            let far = now + KEEP_ALIVE;
            tokio::select! {
                notice = self.notices.recv() => self.take(notice).await?,
                () = sleep_until(soonest.map_or(far, |(_, at)| at)) => {}
                () = self.context.stopped() => return None,
            }
        }
    }

    /// Takes what waits, without waiting for more; whether that was all. The rest waits where it is
    /// until what was taken has been sent: who does not read has little here.
    async fn take_announced(&mut self) -> Option<bool> {
        loop {
            if self.ready.len() >= N_READY_MAX {
                return Some(false);
            }
            match self.notices.try_recv() {
                Ok(notice) => self.take(Ok(notice)).await?,
                Err(TryRecvError::Lagged(n_missed)) => self.take(Err(RecvError::Lagged(n_missed))).await?,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(true),
            }
        }
    }

    async fn take(&mut self, notice: Result<Notice, RecvError>) -> Option<()> {
        match notice {
            Ok(Notice::JobChanged(id)) => {
                if self.watches(id).await? {
                    self.mark(id);
                }
            }
            Ok(Notice::JobEnded(id)) => {
                if self.watches(id).await? {
                    // Whoever waits for the end has waited enough.
                    self.due.insert(id, Instant::now());
                }
            }
            Ok(Notice::TaskFailed { task, kind, is_final, pilot }) => {
                if self.watches(task.job).await? {
                    let text = format!("task {task}: {kind}");
                    self.ready.push_back(StreamEvent::TaskFailed { task, text, is_final, pilot });
                }
            }
            Ok(Notice::PlatformFailed { platform, what }) => {
                if self.user.is_operator {
                    self.ready.push_back(StreamEvent::PlatformFailed { platform, what });
                }
            }
            Ok(
                Notice::ReportsForgotten { .. }
                | Notice::PilotDoubted { .. }
                | Notice::JoinedTwice { .. }
                | Notice::AllocationWaits { .. }
                | Notice::LeftBehind { .. }
                | Notice::PlatformScaled { .. }
                | Notice::ScalesItself { .. },
            ) => {}
            Err(RecvError::Lagged(_)) => match self.jobs.clone() {
                Some(jobs) => jobs.into_iter().for_each(|id| self.mark(id)),
                None => self.show_all(|_| true).await.ok()?,
            },
            Err(RecvError::Closed) => return None,
        }
        Some(())
    }

    /// Whether news of this job are for this watcher; `None` when the manager ends.
    async fn watches(&mut self, id: JobId) -> Option<bool> {
        if let Some(jobs) = &self.jobs {
            // Whose they are was looked at in the beginning.
            return Some(jobs.contains(&id));
        }
        if self.user.is_operator {
            return Some(true);
        }
        if let Some(is_own) = self.own.get(&id) {
            return Some(*is_own);
        }
        let is_own = match self.context.job(id).await {
            Ok(view) => view.user == self.user.name,
            Err(error) if error.status == StatusCode::NOT_FOUND => return Some(false),
            Err(_) => return None,
        };
        self.own.insert(id, is_own);
        Some(is_own)
    }

    /// The job is to be shown, as soon as it may be.
    fn mark(&mut self, id: JobId) {
        let now = Instant::now();
        self.rests.retain(|_, until| *until > now);
        let at = self.rests.get(&id).copied().unwrap_or(now);
        self.due.entry(id).or_insert(at);
    }

    /// Who follows a job to its end hears whether its output was kept.
    async fn with_output(&self, mut view: JobView) -> JobView {
        if self.jobs.is_some() && view.ended_at.is_some() {
            // That it is over is told, whatever the disk does.
            let _ = self.context.tell_output(&mut view).await;
        }
        view
    }

    fn show(&mut self, job: JobView) {
        self.rests.insert(job.id, Instant::now() + PAUSE);
        self.ready.push_back(StreamEvent::Job { job });
    }

    async fn show_all(&mut self, is_wanted: impl Fn(&JobView) -> bool) -> Result<(), ApiError> {
        match self.context.query(Query::Jobs).await? {
            Answer::Jobs(jobs) => {
                let is_own = |view: &JobView| self.user.is_operator || view.user == self.user.name;
                let wanted: Vec<JobView> = jobs.into_iter().filter(is_own).filter(is_wanted).collect();
                wanted.into_iter().for_each(|view| self.show(view));
            }
            other => return Err(ApiError::unexpected(&other)),
        }
        Ok(())
    }
}
