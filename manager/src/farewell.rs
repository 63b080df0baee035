//! The last of a manager that was shut down: its pilots on this host have left, but their guards may
//! still be ending what tasks have left running. Who is told that all is over must find nothing.

use std::time::Duration;

use adapters::{
    Adapter,
    transport::{LocalShell, Transport},
};

/// A guard needs milliseconds; processes that cannot be killed (a file server that hangs) hold nobody up.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// Sees pilots of this host end.
pub(crate) struct Farewell {
    pub(crate) adapter: Box<dyn Adapter>,
    pub(crate) tag_prefix: String,
}

impl Farewell {
    /// Returns when no pilot is left here, or cannot be seen, or it takes too long.
    pub(crate) async fn wait(&self) {
        if tokio::time::timeout(LIMIT, self.wait_for_all()).await.is_err() {
            tracing::warn!("pilots on this host do not end");
        }
    }

    async fn wait_for_all(&self) {
        while self.n_left().await > 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn n_left(&self) -> usize {
        let listed = LocalShell.run(&self.adapter.list(&self.tag_prefix)).await;
        let jobs = listed.ok().and_then(|output| self.adapter.read_list(&output).ok());
        if jobs.is_none() {
            tracing::warn!("pilots on this host cannot be listed");
        }
        jobs.map_or(0, |jobs| jobs.len())
    }
}
