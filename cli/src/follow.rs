//! Following a job until it is over: its counts, its failures, and a manager that restarts meanwhile.

use std::time::{Duration, Instant};

use protocol::api::{ReasonRow, StreamEvent};
use scheduler::{
    engine::interface::views::{Counts, JobView},
    explain::Reason,
    ids::{JobId, TaskId},
    time::Span,
};

use crate::{
    client::{Client, ClientError, EventStream, OutputStream},
    failure::Failure,
    progress::Progress,
};

/// How long a manager that is followed may be away: longer than a restart, shorter than patience.
const AWAY_LIMIT: Duration = Duration::from_secs(300);
/// How soon it is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// When no task has ended for so long, it is asked what is in the way; then after twice that time, and so on.
const STILL: Duration = Duration::from_secs(20);
/// How often something is shown although nothing has come.
const TICK: Duration = Duration::from_secs(1);

/// Follows a job until it is over; gives its last state.
///
/// # Errors
/// No such job, or the manager stays away for too long.
pub async fn follow(client: &Client, job: JobId, progress: &mut Progress) -> Result<JobView, Failure> {
    follow_from(client, None, job, progress).await
}

/// The same from a stream on, which was opened before the job was submitted: nothing is missed.
///
/// # Errors
/// As there.
pub async fn follow_from(
    client: &Client,
    mut news: Option<EventStream>,
    job: JobId,
    progress: &mut Progress,
) -> Result<JobView, Failure> {
    let mut away_since: Option<Instant> = None;
    let mut is_told = false;
    loop {
        let error = match follow_stream((client, news.take()), job, progress, &mut away_since).await {
            Ok(Some(view)) => return Ok(view),
            // The manager has ended the stream: it goes, or we were too slow.
            Ok(None) => None,
            Err(error) if error.is_passing() => Some(error),
            Err(error) => return Err(error.into()),
        };
        let since = *away_since.get_or_insert_with(Instant::now);
        if since.elapsed() > AWAY_LIMIT {
            return Err(match error {
                Some(error) => error.into(),
                None => Failure::infrastructure("the manager gives no news of the job"),
            });
        }
        match error {
            Some(error) if !is_told => {
                // Whoever waits in silence must know what for.
                let limit = Span(u64::try_from(AWAY_LIMIT.as_micros()).unwrap_or(u64::MAX));
                progress.voice().say(&format!("{error}; waiting up to {limit} for it to come back"));
                is_told = true;
            }
            // One that answers again and goes again is told of again.
            Some(_) => {}
            None => is_told = false,
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Follows one stream of events; `None` when it ends before the job does.
async fn follow_stream(
    (client, news): (&Client, Option<EventStream>),
    job: JobId,
    progress: &mut Progress,
    away_since: &mut Option<Instant>,
) -> Result<Option<JobView>, ClientError> {
    let mut events = match news {
        Some(news) => news,
        None => client.events(job).await?,
    };
    let mut tick = tokio::time::interval(TICK);
    let (mut moved_at, mut n_ended, mut patience) = (Instant::now(), None, STILL);
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            _ = tick.tick() => {
                progress.tick();
                if moved_at.elapsed() >= patience {
                    patience *= 2;
                    tell_obstacle(client, job, progress).await;
                }
                continue;
            }
        };
        let Some(event) = event else { return Ok(None) };
        *away_since = None;
        match event {
            StreamEvent::Job { job: view } if view.id == job => {
                progress.update(&view);
                let Counts { done, failed, cancelled, .. } = view.counts;
                if n_ended.replace((done, failed, cancelled)) != Some((done, failed, cancelled)) {
                    (moved_at, patience) = (Instant::now(), STILL);
                }
                if view.ended_at.is_some() {
                    return Ok(Some(view));
                }
            }
            StreamEvent::TaskFailed { task, text, is_final, .. } if task.job == job => {
                tell_failure(client, progress, task, &text, is_final).await;
            }
            StreamEvent::PlatformFailed { platform, what } => {
                progress.trouble(&format!("platform {platform}: {what}"));
            }
            StreamEvent::Job { .. } | StreamEvent::TaskFailed { .. } => {}
        }
    }
}

/// Says if a full disk or a file is in the way of a job. What else tasks wait for is shown by their counts.
async fn tell_obstacle(client: &Client, job: JobId, progress: &mut Progress) {
    // A manager that does not answer is found out by who follows.
    let Ok(explanation) = client.explain(&format!("job/{job}")).await else { return };
    let is_told =
        |row: &&ReasonRow| matches!(row.reason, Reason::DiskFull { .. } | Reason::JobWaitsForFile { .. });
    if let Some(row) = explanation.reasons.iter().find(is_told) {
        progress.trouble(&format!("job {job} stands still: {}", row.text));
    }
}

async fn tell_failure(client: &Client, progress: &mut Progress, task: TaskId, text: &str, is_final: bool) {
    // Asking for output costs a request: only where it is shown.
    let last_line = match is_final && progress.wants_failure(is_final) {
        true => last_error_line(client, task).await,
        false => None,
    };
    progress.failure(text, is_final, last_line.as_deref());
}

/// What a failed task wrote last to standard error: mostly the reason.
async fn last_error_line(client: &Client, task: TaskId) -> Option<String> {
    // The output is decoration here; a task without one, or a manager that is gone, has none.
    let bytes = client.output(task, OutputStream::Stderr).await.ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}
