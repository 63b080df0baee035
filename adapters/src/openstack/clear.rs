//! The end of a manager: nobody lists its servers after it.

use std::time::{Duration, Instant};

use super::{OpenStack, locked};
use crate::command::BatchId;

const PAUSE: Duration = Duration::from_secs(1);

/// Servers that may be there still at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Their ids, as far as the cloud says them.
    pub ids: Vec<BatchId>,
    /// The last reason.
    pub why: String,
}

impl OpenStack {
    /// Deletes all servers of the manager whose tags begin so, and waits until they are gone, for so long at most: Nova
    /// may fail to delete what it has said that it deletes. What was there is gone when two looks in succession say so:
    /// nobody looks again afterwards.
    ///
    /// # Errors
    /// Some may be there still.
    pub async fn clear(&self, tag_prefix: &str, limit: Duration) -> Result<(), Left> {
        let began = Instant::now();
        let (mut seen, mut n_empty) = (locked(&self.there).clone(), 0);
        loop {
            // A look forgets what it does not find.
            self.remember(seen.clone());
            let left = self.try_to_clear(tag_prefix).await;
            seen.extend(locked(&self.there).clone());
            let is_empty = left.as_ref().is_ok_and(Vec::is_empty);
            n_empty = if is_empty { n_empty + 1 } else { 0 };
            if n_empty == 2 || (is_empty && seen.is_empty()) {
                return Ok(());
            }
            let is_hopeless = left.is_err() && self.is_refused();
            if is_hopeless || began.elapsed() > limit {
                return left.and_then(|ids| match ids.is_empty() {
                    true => Ok(()),
                    false => Err(Left { why: "they are there still".to_owned(), ids }),
                });
            }
            tokio::time::sleep(self.wait().unwrap_or(PAUSE).min(limit / 8)).await;
        }
    }

    /// Whether the credentials were refused that were tried last, and are not tried again yet.
    fn is_refused(&self) -> bool {
        locked(&self.refused).as_ref().is_some_and(|(_, until)| Instant::now() < *until)
    }

    /// Those that are left, all of which Nova was asked to delete.
    async fn try_to_clear(&self, tag_prefix: &str) -> Result<Vec<BatchId>, Left> {
        let unlisted = |why| Left { ids: Vec::new(), why };
        let mut servers = self.servers(Some(tag_prefix)).await.map_err(unlisted)?;
        self.add_unlisted(&mut servers).await.map_err(unlisted)?;
        servers.retain(|server| server.tag.starts_with(tag_prefix) && !server.is_gone());
        let ids: Vec<BatchId> = servers.iter().map(|server| server.id.clone()).collect();
        let mut left = Ok(());
        for server in servers.iter().filter(|server| !self.is_going(server)) {
            left = self.delete(&server.id).await.and(left);
        }
        match left {
            Ok(()) => Ok(ids),
            Err(why) => Err(Left { ids, why }),
        }
    }
}
