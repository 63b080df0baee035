//! Where a manager's folder is. The store remembers it, so that a copy of the folder that is started elsewhere is known
//! as one: it has the secret, the tags and the pilots of the original, and would cancel what the original has asked for.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use scheduler::{
    engine::{record::Record, state::durable::Durable},
    time::Time,
};
use serde::{Deserialize, Serialize};

use crate::store::{LOCK_FILE, Store, StoreError};

/// What names this host where there is no file of it, as in many containers: its name.
const MACHINE_ID: &str = "/etc/machine-id";

/// What to do in a folder that is not where its manager was last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Elsewhere {
    /// Refuse to start, and say what was found.
    #[default]
    Refuse,
    /// It was moved for good: go on with all that it holds.
    Moved,
    /// It is a copy: keep jobs and results, forget pilots and allocations, and be another manager.
    Copy,
}

/// A folder, as its host names it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Home {
    /// The host's machine id, or its name.
    host: String,
    /// The folder's path, without links.
    path: String,
    /// The inode of the folder, and
    folder: u64,
    /// that of its lock file: both are another one's in a copy.
    lock: u64,
}

impl Home {
    /// Of a folder whose lock is held.
    pub(crate) fn of(folder: &Path) -> io::Result<Home> {
        let path = folder.canonicalize()?;
        let inode = |path: &Path| fs::metadata(path).map(|facts| facts.ino());
        let (inode_of_folder, lock) = (inode(&path)?, inode(&path.join(LOCK_FILE))?);
        Ok(Home { host: host(), path: path.to_string_lossy().into_owned(), folder: inode_of_folder, lock })
    }

    /// Whether the folder is the one that was there before: at the same place, or renamed. Several hosts may see it, as
    /// login nodes do. At its old path on the same host it may have been put back from a backup.
    fn is_same(&self, before: &Home, is_original_there: bool) -> bool {
        let is_same_path = self.path == before.path;
        let is_same_folder = (self.folder, self.lock) == (before.folder, before.lock);
        match is_same_folder {
            true => is_same_path || !is_original_there,
            false => is_same_path && self.host == before.host,
        }
    }
}

fn host() -> String {
    let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
    match id.trim() {
        "" => nix::unistd::gethostname()
            .map_or_else(|_| "unknown".into(), |name| name.to_string_lossy().into_owned()),
        id => id.to_owned(),
    }
}

/// A folder is not where its manager was last.
#[derive(Debug, thiserror::Error)]
#[error(
    "found the folder of a manager that was last started in {before} on {on}, and this is {now}: {whether}. A copy must not \
     take over pilots and batch jobs of the original. If the folder was moved here for good, start it with --moved; if it \
     is a copy, start it with --as-copy: it keeps jobs and results, forgets pilots and batch jobs of the original and \
     cancels none of them, and users need new tokens"
)]
pub struct NotAtHome {
    before: String,
    on: &'static str,
    now: String,
    whether: &'static str,
}

/// Whose the store is.
pub(crate) enum Welcome {
    /// All that the store holds is this manager's.
    Home,
    /// It is a copy, and is to be a manager of its own.
    Copy,
}

/// Compares where the folder is with where it was. `None` before: nobody has written it down yet.
pub(crate) fn compare(
    store: &Store,
    home: &Home,
    elsewhere: Elsewhere,
) -> Result<Result<Welcome, NotAtHome>, StoreError> {
    let before = store.home()?.and_then(|text| serde_json::from_str::<Home>(&text).ok());
    let Some(before) = before else { return Ok(Ok(Welcome::Home)) };
    let old = PathBuf::from(&before.path);
    let is_other_folder = fs::metadata(&old).is_ok_and(|facts| facts.ino() != home.folder);
    // One that cannot be read is none.
    let is_original_there =
        is_other_folder && Store::read_once(&old, |other| Ok(other.id())).is_ok_and(|id| id == store.id());
    if home.is_same(&before, is_original_there) {
        if elsewhere == Elsewhere::Copy {
            tracing::warn!("the folder is where its manager was last: it is no copy, and goes on as it is");
        }
        return Ok(Ok(Welcome::Home));
    }
    Ok(match elsewhere {
        Elsewhere::Moved => Ok(Welcome::Home),
        Elsewhere::Copy => Ok(Welcome::Copy),
        Elsewhere::Refuse => Err(NotAtHome {
            on: if before.host == home.host { "this host" } else { "another host" },
            before: before.path,
            now: home.path.clone(),
            whether: match is_original_there {
                true => "the original is still there",
                false => "whether the original is still there is not known",
            },
        }),
    })
}

/// What a copy writes down to forget what belongs to the original, without telling anybody.
pub(crate) fn forgetting(records: &[Record], at: Time) -> Vec<Record> {
    const WHY: &str = "it belongs to the manager of whose folder this is a copy";
    let mut durable = Durable::default();
    records.iter().for_each(|record| durable.apply(record));
    let mut forgotten = Vec::new();
    for (pilot, _) in durable.pilots().iter().filter(|(_, pilot)| pilot.is_live() || !pilot.has_left) {
        forgotten.push(Record::PilotLeft { pilot: *pilot, why: WHY.into(), at });
    }
    for (allocation, _) in durable.allocations().iter().filter(|(_, held)| held.may_be_there()) {
        let (allocation, why) = (*allocation, WHY.into());
        forgotten.push(Record::AllocationEnded { allocation, why, cause: None, was_unlisted: false, at });
    }
    for platform in durable.platforms().keys() {
        let former = durable.scaled(*platform).map(|scaled| &scaled.former);
        let ids: Vec<String> = former.into_iter().flatten().map(|provider| provider.id.clone()).collect();
        if !ids.is_empty() {
            forgotten.push(Record::RatiosRestored { platform: *platform, ids, at });
        }
    }
    forgotten
}

#[cfg(test)]
mod tests {
    use scheduler::{
        engine::record::Record,
        ids::{AllocationId, PilotId, PlatformId},
        pull::NodeFacts,
        time::Time,
    };

    use super::*;

    fn home(host: &str, path: &str, inodes: u64) -> Home {
        Home { host: host.into(), path: path.into(), folder: inodes, lock: inodes + 1 }
    }

    #[test]
    fn a_copy_is_told_from_a_folder_that_was_renamed_put_back_or_is_seen_by_another_host() {
        let before = home("a", "/home/ann/m", 7);
        for (now, is_original_there, expected, what) in [
            (home("a", "/home/ann/m", 7), false, true, "nothing has happened"),
            (home("a", "/home/ann/m2", 7), false, true, "mv on the same file system"),
            (home("a", "/home/ann/m", 8), false, true, "a backup of the folder in its place"),
            (home("b", "/home/ann/m", 7), false, true, "another login node, or a container's next life"),
            (home("b", "/net/home/ann/m", 7), false, true, "a login node that sees it at another path"),
            (home("a", "/home/ann/m2", 8), true, false, "cp -a beside the original"),
            (
                home("a", "/home/ann/m2", 8),
                false,
                false,
                "cp -a, and the original is gone, or a move to another disk",
            ),
            (home("b", "/home/ann/m", 8), false, false, "rsync to another host"),
            (home("b", "/srv/m", 8), false, false, "rsync to another place on another host"),
            (home("a", "/home/ann/m.old", 7), true, false, "moved aside, and a copy is in its place"),
        ] {
            assert_eq!(now.is_same(&before, is_original_there), expected, "{what}");
        }
        let half = Home { folder: 7, ..home("b", "/srv/m", 8) };
        assert!(!half.is_same(&before, false), "small numbers of inodes are the same by chance");
    }

    #[test]
    fn a_copy_forgets_pilots_and_allocations_and_nothing_else() {
        let (allocation, platform, at) = (AllocationId(3), PlatformId(1), Time(5));
        let intended = |n| Record::AllocationIntended {
            allocation: AllocationId(n),
            platform,
            tag: format!("pf1-{n}"),
            because: None,
            at,
        };
        let registered = |n, nonce| Record::PilotRegistered {
            pilot: PilotId(n),
            allocation,
            nonce,
            node: NodeFacts::default(),
            born_at: at,
            at,
        };
        let records = vec![
            intended(3),
            Record::AllocationSubmitted { allocation, batch_id: "77".into(), was_listed: false, at },
            registered(1, 1),
            Record::PilotLeft { pilot: PilotId(1), why: "told to".into(), at },
            registered(2, 2),
            registered(4, 4),
            Record::PilotLost { pilot: PilotId(4), why: "silent".into(), blamed: vec![], at },
            intended(4),
            Record::AllocationEnded {
                allocation: AllocationId(4),
                why: "refused".into(),
                cause: None,
                was_unlisted: false,
                at,
            },
        ];
        let mut durable = Durable::default();
        let forgotten = forgetting(&records, Time(9));
        records.iter().chain(&forgotten).for_each(|record| durable.apply(record));
        assert_eq!(forgotten.len(), 3, "{forgotten:?}");
        assert!(durable.allocations().values().all(|held| !held.may_be_there()));
        assert!(durable.pilots().values().all(|pilot| !pilot.is_live() && pilot.has_left), "none comes back");
    }
}
