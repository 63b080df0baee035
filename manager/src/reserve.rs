//! A reserve of disk for records. When the disk of the manager's folder gets full, what can wait is not taken any more:
//! jobs, and reports with output, which pilots keep. When there is no room for a record, a file that was set aside is
//! removed, so that cancellations and ends of jobs are kept. Not before: whatever fills the disk would take that, too.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use nix::{
    fcntl::posix_fallocate,
    sys::statvfs::{Statvfs, statvfs},
};
use scheduler::size::Size;

/// In the manager's folder.
pub const FILE: &str = "reserve";
/// What is set aside at most.
const BYTES_MAX: u64 = 32 << 20;
/// Of a disk so small that this is too much, …
const PART_OF_DISK: u64 = 16;
/// … and of one that is smaller than this, nothing is set aside.
const DISK_BYTES_MIN: u64 = 48 << 20;
/// How often the disk is looked at when nothing is written.
const INTERVAL: Duration = Duration::from_secs(2);

/// See the module. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Reserve(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// What is set aside.
    n_bytes: u64,
    is_low: AtomicBool,
    /// Whether the file is there. Held while that changes.
    is_there: Mutex<bool>,
}

impl Reserve {
    /// Sets it aside in a manager's folder. On a small disk, or one that does not say how large it is, there is none.
    pub(crate) fn in_folder(folder: &Path) -> Reserve {
        let Ok(disk) = statvfs(folder) else { return Reserve::default() };
        let n_disk = bytes_of(&disk, disk.blocks());
        if n_disk < DISK_BYTES_MIN {
            return Reserve::default();
        }
        let n_bytes = BYTES_MAX.min(n_disk / PART_OF_DISK);
        let path = folder.join(FILE);
        let is_there = fs::metadata(&path).is_ok_and(|file| file.len() == n_bytes);
        let is_there = Mutex::new(is_there);
        let reserve =
            Reserve(Some(Arc::new(Shared { path, n_bytes, is_low: AtomicBool::new(false), is_there })));
        reserve.look();
        reserve
    }

    /// Whether the disk is so full that only records of ends and cancellations are to be written.
    pub(crate) fn is_low(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.is_low.load(Relaxed))
    }

    /// So many bytes are free on a disk that is so full.
    pub(crate) fn free_when_low(&self) -> Option<u64> {
        self.0.as_ref().filter(|_| self.is_low()).and_then(|shared| shared.free())
    }

    /// Looks at the disk.
    pub(crate) fn look(&self) {
        let Some(shared) = &self.0 else { return };
        let Some(free) = shared.free() else { return };
        shared.judge(free);
    }

    /// There was no room for a record: gives up what was set aside, if it is there. Says whether it was.
    pub(crate) fn release(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.release())
    }

    /// Looks at the disk now and then, for as long as the manager lives.
    pub(crate) async fn watch(self) {
        let watched = self.0.as_ref().map(Arc::downgrade);
        drop(self);
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(shared) = watched.as_ref().and_then(Weak::upgrade) else { return };
            // A file system that does not answer holds up nobody else.
            let _ = tokio::task::spawn_blocking(move || Reserve(Some(shared)).look()).await;
        }
    }
}

impl Shared {
    /// What is free on the disk, in bytes, if it says so.
    fn free(&self) -> Option<u64> {
        let disk = self.path.parent().and_then(|folder| statvfs(folder).ok())?;
        Some(bytes_of(&disk, disk.blocks_available()))
    }

    fn release(&self) -> bool {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_there {
            return false;
        }
        match fs::remove_file(&self.path) {
            Ok(()) => *is_there = false,
            Err(error) => tracing::error!(%error, path = %self.path.display(), "the reserve stays"),
        }
        !*is_there
    }

    fn judge(&self, free: u64) {
        let mut is_there = self.is_there.lock().unwrap_or_else(PoisonError::into_inner);
        // Once the disk was full, there must be room again for the file, and for some time without it.
        let enough = self.n_bytes / 2;
        let was_low = self.is_low.load(Relaxed);
        if !*is_there && free >= self.n_bytes.saturating_add(2 * enough) {
            match self.make() {
                Ok(()) => *is_there = true,
                Err(error) => {
                    tracing::warn!(%error, path = %self.path.display(), "no reserve of disk was made")
                }
            }
        }
        let is_low = match *is_there {
            true => free < if was_low { 2 * enough } else { enough },
            false => free < self.n_bytes.saturating_add(2 * enough),
        };
        if is_low != was_low {
            self.is_low.store(is_low, Relaxed);
            let free = Size(free);
            match is_low {
                true => tracing::error!(
                    %free,
                    path = %self.path.display(),
                    "the disk is nearly full: no job and no output is taken until there is room"
                ),
                false => tracing::info!(%free, "the disk has room again"),
            }
        }
    }

    fn make(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        let made = made.and_then(|file| fill(file, self.n_bytes)).and_then(|()| fs::rename(&new, &self.path));
        made.inspect_err(|_| drop(fs::remove_file(&new)))
    }
}

/// Has so many bytes of the disk belong to the file.
fn fill(mut file: File, n_bytes: u64) -> io::Result<()> {
    let length = i64::try_from(n_bytes).unwrap_or(i64::MAX);
    if posix_fallocate(&file, 0, length).is_ok() {
        return Ok(());
    }
    // The file system cannot promise it.
    let zeros = vec![0; 1 << 20];
    let mut n_left = usize::try_from(n_bytes).unwrap_or(usize::MAX);
    while n_left > 0 {
        let n = n_left.min(zeros.len());
        file.write_all(&zeros[..n])?;
        n_left -= n;
    }
    file.sync_all()
}

fn bytes_of(disk: &Statvfs, n_blocks: u64) -> u64 {
    n_blocks.saturating_mul(disk.fragment_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(folder: &Path) -> Shared {
        let (is_low, is_there) = (AtomicBool::new(false), Mutex::new(false));
        Shared { path: folder.join(FILE), n_bytes: 4 << 20, is_low, is_there }
    }

    #[test]
    fn the_file_goes_when_the_disk_is_full_and_comes_back_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let shared = shared(folder.path());
        let judge = |free: u64| {
            shared.judge(free);
            (shared.path.exists(), shared.is_low.load(Relaxed))
        };
        assert_eq!(judge(100 << 20), (true, false));
        assert_eq!(judge(3 << 20), (true, false), "it is not low yet");
        assert_eq!(judge((2 << 20) - 1), (true, true), "jobs are refused before it is used");
        assert_eq!(judge(3 << 20), (true, true), "not back and forth");
        assert_eq!(judge(5 << 20), (true, false));
        assert_eq!(judge(0), (true, true), "it is kept for a record that has no room");
        assert!(shared.release() && !shared.release());
        assert_eq!(judge(7 << 20), (false, true), "not enough for it and what comes after");
        assert_eq!(judge(8 << 20), (true, false));
        assert_eq!(std::fs::metadata(&shared.path).unwrap().len(), 4 << 20);
    }
}
