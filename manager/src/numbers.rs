//! The last numbers of jobs, allocations and lives of the store that were given out, in a file beside the store: a store that is put back
//! from a backup does not know of those since, but pilots and batch systems do, and would take a new job for an old one.
//!
//! It is written before anybody hears of a number, and not flushed: it outlives the manager, and after a power failure
//! it may lack the last ones, as the store does not.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use scheduler::engine::{interface::settings::Settings, record::Record};
use serde::{Deserialize, Serialize};

const FILE: &str = "numbers";
/// Larger ones no manager has given: the file is damaged.
const NUMBER_MAX: u64 = 1 << 53;
/// The same of epochs.
const EPOCH_MAX: u64 = 1 << 63;

/// See the module.
pub(crate) struct Numbers {
    path: PathBuf,
    last: Last,
}

/// The numbers, and of which store they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Last {
    store: u64,
    job: u64,
    allocation: u64,
    /// The store's last epoch; 0 in files of before.
    #[serde(default)]
    epoch: u64,
}

impl Last {
    fn checked(self) -> io::Result<Last> {
        match self.job.max(self.allocation) {
            0..=NUMBER_MAX if self.epoch <= EPOCH_MAX => Ok(self),
            0..=NUMBER_MAX => {
                Err(io::Error::other(format!("it says {}, at most {EPOCH_MAX} is right", self.epoch)))
            }
            n => Err(io::Error::other(format!("it says {n}, at most {NUMBER_MAX} is right"))),
        }
    }
}

impl Numbers {
    /// Those of a folder's store; none where the file is missing, of another store, or cannot be read.
    pub(crate) fn open(folder: &Path, store: u64) -> Numbers {
        let path = folder.join(FILE);
        let read = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from).and_then(Last::checked),
            Err(error) => Err(error),
        };
        let last = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, path = %path.display(), "the last numbers are not known");
            }
            Last::default()
        });
        if last.store == store {
            return Numbers { path, last };
        }
        if last != Last::default() {
            let last_job = last.job;
            tracing::warn!(path = %folder.display(), last_job, "the store of before is not here: another one is used");
        }
        Numbers { path, last: Last { store, ..Last::default() } }
    }

    /// With the last ones.
    pub(crate) fn told(&self, settings: Settings) -> Settings {
        Settings { last_job: self.last.job, last_allocation: self.last.allocation, ..settings }
    }

    /// The last epoch of the store.
    pub(crate) fn epoch(&self) -> u64 {
        self.last.epoch
    }

    /// Takes note of the epoch in which the store is now.
    pub(crate) fn note_epoch(&mut self, epoch: u64) {
        self.last.epoch = epoch;
        self.try_write();
    }

    /// Takes note of those that records give out.
    pub(crate) fn note(&mut self, records: &[Record]) {
        let before = self.last;
        for record in records {
            match record {
                Record::JobAccepted { job, .. } => self.last.job = self.last.job.max(job.0),
                Record::AllocationIntended { allocation, .. } => {
                    self.last.allocation = self.last.allocation.max(allocation.0);
                }
                _ => {}
            }
        }
        if self.last != before {
            self.try_write();
        }
    }

    fn try_write(&self) {
        if let Err(error) = self.write() {
            tracing::warn!(%error, path = %self.path.display(), "the last numbers cannot be written");
        }
    }

    /// As a whole or not at all.
    fn write(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&self.last)?)?;
        fs::rename(new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use scheduler::{
        engine::{interface::settings::Settings, record::Record},
        ids::{AllocationId, JobId, PlatformId},
        time::Time,
    };

    use super::{FILE, Numbers};

    fn intended(n: u64) -> Record {
        let (allocation, platform, at) = (AllocationId(n), PlatformId(1), Time(1));
        Record::AllocationIntended { allocation, platform, tag: String::new(), because: None, at }
    }

    #[test]
    fn the_largest_are_known_to_the_next_manager_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let last = |store| {
            let told = Numbers::open(folder.path(), store).told(Settings::default());
            (told.last_job, told.last_allocation)
        };
        assert_eq!(last(7), (0, 0));
        let mut numbers = Numbers::open(folder.path(), 7);
        numbers.note(&[intended(4), intended(3)]);
        assert_eq!((last(7), last(8)), ((0, 4), (0, 0)));
        numbers.note(&[Record::JobPaused { job: JobId(9), at: Time(1) }, intended(5)]);
        assert_eq!(last(7), (0, 5), "only what is given out");
        std::fs::write(folder.path().join(FILE), r#"{"store":7,"job":9007199254740993,"allocation":5}"#)
            .unwrap();
        assert_eq!(last(7), (0, 0), "nobody has given so many");
        std::fs::write(
            folder.path().join(FILE),
            r#"{"store":7,"job":1,"allocation":5,"epoch":18446744073709551615}"#,
        )
        .unwrap();
        assert_eq!((last(7), Numbers::open(folder.path(), 7).epoch()), ((0, 0), 0));
        std::fs::write(folder.path().join(FILE), r#"{"store":7,"job":1,"allocation":5}"#).unwrap();
        let mut numbers = Numbers::open(folder.path(), 7);
        assert_eq!((last(7), numbers.epoch()), ((1, 5), 0), "a file of before");
        numbers.note_epoch(8);
        assert_eq!((last(7), Numbers::open(folder.path(), 7).epoch()), ((1, 5), 8));
        std::fs::write(folder.path().join(FILE), "torn").unwrap();
        assert_eq!(last(7), (0, 0));
    }
}
