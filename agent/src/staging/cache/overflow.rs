//! The overflow cache for a full cache disk: a second cache in the pilot's own folder, which is removed with
//! the pilot.

use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

use super::{Cache, CachePlace, evict};
use crate::{guard::keeper::worker, staging::is_full, sys::private};

impl Cache {
    /// Opens the cache in its folder; if the disk of that folder is full, opens the overflow cache.
    ///
    /// # Errors
    /// Neither folder can be created or written.
    pub fn open_anywhere(place: &CachePlace) -> io::Result<Cache> {
        let error = match Cache::open(place) {
            Err(error) if is_full(&error) => error,
            opened => return opened,
        };
        evict(&place.folder.join("objects"), |_| true, 0);
        Cache::open(place).or_else(|_| {
            let folder = place.overflow.as_ref().ok_or(error)?;
            tracing::warn!(full = %place.folder.display(), instead = %folder.display(), "the cache's disk is full");
            Cache::open_overflow(folder)
        })
    }

    fn open_overflow(folder: &Path) -> io::Result<Cache> {
        Cache::open(&CachePlace { own: Some(folder.to_owned()), ..CachePlace::new(folder.to_owned(), None) })
    }

    /// Makes room on a full disk, after it was found full `n_before` times before: first evicts unused
    /// objects, the second time switches to the overflow cache. Returns false if there is no more room.
    pub fn find_room(&self, n_before: u32) -> bool {
        match n_before {
            0 => {
                self.drop_unused();
                true
            }
            // Another thread may have switched meanwhile.
            1 => self.use_overflow(),
            _ => false,
        }
    }

    /// Repeats the work while the disk is full and room can be made.
    ///
    /// # Errors
    /// Those of the work.
    pub fn with_room<T>(&self, work: impl Fn() -> io::Result<T>) -> io::Result<T> {
        let mut n_full = 0;
        loop {
            match work() {
                Err(error) if is_full(&error) && self.find_room(n_full) => n_full += 1,
                done => return done,
            }
        }
    }

    /// Switches to the overflow cache for new files, if its folder is on another file system.
    fn use_overflow(&self) -> bool {
        let Some(folder) = &self.overflow else { return false };
        // Held while the cache is opened: other threads that find the disk full use the same one.
        let _state = self.state();
        if self.second.get().is_some() {
            return true;
        }
        let device = |path: &Path| fs::metadata(path).map(|facts| facts.dev());
        let above = folder.parent().unwrap_or(folder);
        if private::make_folder(above).is_err() || device(above).ok() == device(&self.root).ok() {
            return false;
        }
        match Cache::open_overflow(folder) {
            Ok(second) => {
                tracing::warn!(
                    full = %self.root.display(),
                    instead = %folder.display(),
                    "the cache's disk is full: what tasks need goes elsewhere"
                );
                self.second.set(Box::new(second)).is_ok()
            }
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "the cache's disk is full, and so is this one");
                false
            }
        }
    }

    /// Returns the overflow cache, if it is in use.
    pub(super) fn second(&self) -> Option<&Cache> {
        self.second.get().map(Box::as_ref)
    }

    /// Lets the guard remove the cache if it is this pilot's own and the pilot is killed.
    pub(super) fn leave_to_guard(&self) {
        if let Some(top) = &self.own_top {
            worker::leave_cache_to_guard(top, &self.root);
        }
    }
}
