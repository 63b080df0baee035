//! Removes files that no job needs any more: what was brought for jobs that are over. What tasks have left
//! stays, as their results do.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use protocol::job::JobSpec;
use scheduler::{
    digest::Digest,
    engine::interface::{Answer, Event, Query},
};

use crate::{
    engine_loop::handle::Handle,
    files::objects::{Objects, UNUSED_KEPT},
    store::Reader,
};

/// Files stay for days: nobody waits for this.
const INTERVAL: Duration = Duration::from_secs(3600);

/// Does so for as long as the manager lives.
pub(crate) async fn run(handle: Handle, reader: Reader, objects: Objects) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // Without knowing all that is in use nothing is removed.
        let Some(in_use) = of_open_jobs(&handle).await else { continue };
        let (reader, objects) = (reader.clone(), objects.clone());
        let collected = tokio::task::spawn_blocking(move || {
            let before = SystemTime::now() - UNUSED_KEPT;
            let collected = objects.collect(&in_use, before, |asked| reader.left_by_none(asked));
            if let Err(error) = objects.prune_owners() {
                tracing::warn!(%error, "failed to count the files of users anew");
            }
            collected
        });
        match collected.await {
            Ok(Ok((n_files, n_bytes))) if n_files > 0 => {
                tracing::info!(n_files, n_bytes, "removed files that no job needs");
            }
            Ok(Err(error)) => tracing::warn!(%error, "failed to look up which files are in use; they stay"),
            // Nothing was old enough, or the manager ends.
            Ok(Ok(_)) | Err(_) => {}
        }
    }
}

async fn of_open_jobs(handle: &Handle) -> Option<BTreeSet<Digest>> {
    let Ok(Answer::Jobs(jobs)) = handle.ask(|request| Event::Asked { request, query: Query::Jobs }).await
    else {
        return None;
    };
    let mut in_use = BTreeSet::new();
    for job in jobs.into_iter().filter(|job| job.ended_at.is_none()) {
        let query = Query::Spec(job.id);
        match handle.ask(|request| Event::Asked { request, query }).await {
            Ok(Answer::Spec(text)) => {
                let spec = serde_json::from_str::<JobSpec>(&text).ok()?;
                in_use.extend(spec.objects().map(|(sha256, _)| sha256));
            }
            _ => return None,
        }
    }
    Some(in_use)
}
