//! The last of a manager that was shut down: its pilots on this host have left, but their guards may
//! still be ending what tasks have left running. Who is told that all is over must find nothing.

use std::time::Duration;

use adapters::{
    Adapter,
    command::BatchId,
    transport::{LocalShell, Transport},
};

/// A guard needs milliseconds; processes that cannot be killed (a file server that hangs) hold nobody up.
const LIMIT: Duration = Duration::from_secs(5);
/// A pilot drains when it is cancelled, is rid of its tasks the second time, and ends at once the third time.
const N_CANCELS: usize = 3;
const PAUSE: Duration = Duration::from_millis(10);

/// Sees pilots of this host end.
pub(crate) struct Farewell {
    pub(crate) adapter: Box<dyn Adapter>,
    pub(crate) tag_prefix: String,
}

impl Farewell {
    /// Returns when no pilot is left here, or cannot be seen, or it takes too long. Those that did not hear the
    /// manager, as they stood still, are cancelled.
    pub(crate) async fn wait(&self) {
        for _ in 0..N_CANCELS {
            if tokio::time::timeout(LIMIT, self.wait_for_all()).await.is_ok() {
                return;
            }
            let left = self.left().await;
            if left.is_empty() {
                return;
            }
            tracing::warn!(n_left = left.len(), "pilots on this host do not end: they are cancelled");
            let cancelled = LocalShell.run(&self.adapter.cancel(&left)).await;
            if !cancelled.as_ref().is_ok_and(|output| output.code == Some(0)) {
                let why = match &cancelled {
                    Ok(output) => output.words(),
                    Err(error) => error.to_string(),
                };
                tracing::warn!(why, "pilots on this host cannot be cancelled");
            }
        }
        if tokio::time::timeout(LIMIT, self.wait_for_all()).await.is_err() {
            tracing::warn!("pilots on this host do not end");
        }
    }

    async fn wait_for_all(&self) {
        while !self.left().await.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn left(&self) -> Vec<BatchId> {
        let listed = LocalShell.run(&self.adapter.list(&self.tag_prefix)).await;
        let jobs = listed.ok().and_then(|output| self.adapter.read_list(&output).ok());
        if jobs.is_none() {
            tracing::warn!("pilots on this host cannot be listed");
        }
        jobs.unwrap_or_default().into_iter().map(|job| job.id).collect()
    }
}
