//! The end of a manager: nobody lists its servers after it.

use std::time::{Duration, Instant};

use super::{OpenStack, locked};

const PAUSE: Duration = Duration::from_secs(1);

impl OpenStack {
    /// Deletes all servers of the manager whose tags begin so, and waits until they are gone, for so long at most: Nova
    /// may fail to delete what it has said that it deletes.
    ///
    /// # Errors
    /// Some may be there still: the last reason.
    pub async fn clear(&self, tag_prefix: &str, limit: Duration) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let left = self.try_to_clear(tag_prefix).await;
            if left == Ok(0) {
                return Ok(());
            }
            let is_hopeless = left.is_err() && self.is_refused();
            if is_hopeless || began.elapsed() > limit {
                return left.and_then(|n| Err(format!("{n} servers are there still")));
            }
            tokio::time::sleep(self.wait().unwrap_or(PAUSE).min(limit / 8)).await;
        }
    }

    /// Whether the credentials were refused that were tried last, and are not tried again yet.
    fn is_refused(&self) -> bool {
        locked(&self.refused).as_ref().is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// How many are left, all of which Nova was asked to delete.
    async fn try_to_clear(&self, tag_prefix: &str) -> Result<usize, String> {
        let mut servers = self.servers(Some(tag_prefix)).await?;
        self.add_unlisted(&mut servers).await?;
        servers.retain(|server| server.tag.starts_with(tag_prefix) && !server.is_gone());
        let mut left = Ok(servers.len());
        for server in servers.iter().filter(|server| !self.is_going(server)) {
            left = self.delete(&server.id).await.and(left);
        }
        left
    }
}
