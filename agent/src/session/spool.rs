//! Reports that the manager has not acknowledged: in memory while it answers, on disk while it does not.
//!
//! The file is append-only: a header with the pilot's nonce, then records of length, CRC-32 and payload
//! (postcard). A record that a crash tore is dropped with all records after it. When all reports are
//! acknowledged, the file is emptied. On a full disk reports stay in memory.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use protocol::codec::Format;
use scheduler::results::Report;

use crate::sys::private;

/// The beginning of each file; the last byte is the format's version.
const MAGIC: &[u8; 8] = b"PFSPOOL\x01";
const HEADER_BYTES: u64 = 16;
/// Longest record; reports are always far smaller.
const RECORD_BYTES_MAX: u32 = 256 << 20;

/// The reason why a spool cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file cannot be used.
    #[error("spool {path:?}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is not a spool.
    #[error("spool {path:?} does not begin like a spool of this version; remove it to go on without it")]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
}

/// The unacknowledged reports, by number.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: Option<File>,
    end: u64,
    kept: BTreeMap<u64, Place>,
    nonce: u64,
    /// The nonce in the file that was found.
    predecessor: Option<u64>,
    is_full: bool,
    /// Whether the file lacks its header, because the disk was full when it was begun.
    lacks_header: bool,
}

#[derive(Debug)]
enum Place {
    Memory(Box<Report>),
    Disk { offset: u64, length: u32, crc: u32 },
}

impl Spool {
    /// Opens or creates the spool at `path`. A spool with reports of a pilot that crashed keeps that pilot's
    /// nonce; any other spool takes `nonce`.
    ///
    /// # Errors
    /// The file cannot be created or read, or is no spool.
    pub fn open(path: &Path, nonce: u64) -> Result<Spool, SpoolError> {
        let on_file = |source| SpoolError::File { path: path.into(), source };
        let mut options = private::file_options();
        let mut file = options.read(true).write(true).truncate(false).open(path).map_err(on_file)?;
        // Held as long as the file is open. Where locks do not work, pilots rely on separate folders.
        private::lock(&file);
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(on_file)?;
        let mut spool = Spool {
            path: path.into(),
            file: Some(file),
            end: HEADER_BYTES,
            kept: BTreeMap::new(),
            nonce,
            predecessor: None,
            is_full: false,
            lacks_header: false,
        };
        if bytes.len() >= HEADER_BYTES as usize {
            // A power loss may leave a spool without its beginning; its pilot is unknown then.
            let is_lost = bytes[..HEADER_BYTES as usize].iter().all(|byte| *byte == 0);
            if !is_lost && !bytes.starts_with(MAGIC) {
                return Err(SpoolError::NotOurs { path: path.into() });
            }
            if is_lost {
                tracing::warn!(path = %path.display(), "the spool has lost its beginning and is begun anew");
            } else {
                spool.recover(&bytes);
            }
        }
        if spool.kept.is_empty() {
            spool.begin_file().map_err(on_file)?;
        }
        Ok(spool)
    }

    /// Returns whether a living pilot uses this spool.
    pub fn is_in_use(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| !private::lock(&file))
    }

    /// Returns the pilot's nonce: that of an earlier pilot if its reports are still here.
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Returns the nonce of the pilot whose spool was found: it was killed, otherwise it would have removed
    /// the spool.
    pub fn predecessor(&self) -> Option<u64> {
        self.predecessor
    }

    /// Begins again as the spool of a new pilot; forgets all reports.
    pub fn renew(&mut self, nonce: u64) {
        self.acknowledge(u64::MAX);
        self.nonce = nonce;
        if let Err(error) = self.begin_file() {
            tracing::warn!(%error, path = %self.path.display(), "the spool cannot be begun");
        }
    }

    /// Returns the numbers of all reports, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.kept.keys().copied()
    }

    /// Keeps a report until it is acknowledged; on disk at once if `is_away`.
    pub fn keep(&mut self, report: Report, is_away: bool) {
        self.kept.insert(report.seq, Place::Memory(Box::new(report)));
        if is_away {
            self.spill();
        }
    }

    /// Moves all reports from memory to disk, because the manager does not answer.
    pub fn spill(&mut self) {
        let in_memory = |place: &Place| matches!(place, Place::Memory(_));
        let numbers: Vec<u64> =
            self.kept.iter().filter(|(_, place)| in_memory(place)).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(Place::Memory(report)) = self.kept.get(&number) else { continue };
            let written = Format::Postcard.encode(&**report).map_err(io::Error::other);
            match written.and_then(|payload| self.append(&payload)) {
                Ok(place) => {
                    self.is_full = false;
                    self.kept.insert(number, place);
                }
                Err(error) => {
                    if !self.is_full {
                        tracing::warn!(%error, path = %self.path.display(), "reports are kept in memory only");
                    }
                    self.is_full = true;
                    return;
                }
            }
        }
    }

    /// Returns a report.
    pub fn read(&self, number: u64) -> Option<Report> {
        match self.kept.get(&number)? {
            Place::Memory(report) => Some((**report).clone()),
            Place::Disk { offset, length, crc } => {
                let mut payload = vec![0; *length as usize];
                let file = self.file.as_ref()?;
                if let Err(error) = file.read_exact_at(&mut payload, *offset) {
                    tracing::error!(%error, number, "a spooled report cannot be read");
                    return None;
                }
                let report = (crc32fast::hash(&payload) == *crc)
                    .then(|| Format::Postcard.decode(&payload).ok())
                    .flatten();
                if report.is_none() {
                    tracing::error!(number, "a spooled report is damaged");
                }
                report
            }
        }
    }

    /// Forgets reports up to this number; empties the file if none is left.
    pub fn acknowledge(&mut self, up_to: u64) {
        let had_any = !self.kept.is_empty();
        let rest = up_to.checked_add(1).map(|next| self.kept.split_off(&next));
        self.kept = rest.unwrap_or_default();
        if had_any && self.kept.is_empty() && self.end > HEADER_BYTES {
            // Old contents would only be sent and acknowledged once more.
            if let Err(error) = self.begin_file() {
                tracing::warn!(%error, path = %self.path.display(), "the spool cannot be emptied");
            }
        }
    }

    fn begin_file(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        self.lacks_header = true;
        file.set_len(0)?;
        self.end = HEADER_BYTES;
        self.write_header()
    }

    fn write_header(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_ref().filter(|_| self.lacks_header) else { return Ok(()) };
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&self.nonce.to_le_bytes());
        file.write_all_at(&header, 0)?;
        self.lacks_header = false;
        Ok(())
    }

    fn append(&mut self, payload: &[u8]) -> io::Result<Place> {
        self.write_header()?;
        let Some(file) = &self.file else { return Err(io::Error::other("the spool has no file")) };
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let crc = crc32fast::hash(payload);
        let mut record = Vec::with_capacity(payload.len() + 8);
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&crc.to_le_bytes());
        record.extend_from_slice(payload);
        // On failure `end` stays, so the next record overwrites the torn one.
        file.write_all_at(&record, self.end)?;
        let offset = self.end + 8;
        self.end += record.len() as u64;
        Ok(Place::Disk { offset, length, crc })
    }

    /// Reads the reports of an earlier pilot from the file.
    fn recover(&mut self, bytes: &[u8]) {
        let number_at = |offset: usize| -> Option<u32> {
            Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
        };
        let nonce = bytes.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        let mut offset = HEADER_BYTES as usize;
        while let (Some(length), Some(crc)) = (number_at(offset), number_at(offset + 4)) {
            let payload = bytes.get(offset + 8..).and_then(|rest| rest.get(..length as usize));
            let report = payload
                .filter(|payload| length <= RECORD_BYTES_MAX && crc32fast::hash(payload) == crc)
                .and_then(|payload| Format::Postcard.decode::<Report>(payload).ok());
            let Some(report) = report else { break };
            let place = Place::Disk { offset: offset as u64 + 8, length, crc };
            self.kept.insert(report.seq, place);
            offset += 8 + length as usize;
        }
        if offset < bytes.len() {
            let n_bytes = bytes.len() - offset;
            tracing::warn!(n_bytes, path = %self.path.display(), "the spool's end is torn and was dropped");
        }
        self.end = offset as u64;
        self.predecessor = nonce;
        if let (Some(nonce), false) = (nonce, self.kept.is_empty()) {
            self.nonce = nonce;
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.kept.is_empty() && self.file.is_some() {
            // An empty spool that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, OpenOptions},
        path::Path,
    };

    use scheduler::{
        ids::JobId,
        results::{JobReport, Report},
    };

    use super::{Spool, SpoolError};

    fn report(seq: u64) -> Report {
        let mut job = JobReport::new(JobId(seq));
        job.returned.insert_range(0..seq);
        Report { seq, jobs: vec![job] }
    }

    fn kept(spool: &Spool) -> Vec<u64> {
        let numbers: Vec<u64> = spool.numbers().collect();
        for number in &numbers {
            assert_eq!(spool.read(*number), Some(report(*number)));
        }
        numbers
    }

    fn with_three(path: &Path) -> Spool {
        let mut spool = Spool::open(path, 77).unwrap();
        spool.keep(report(1), false);
        spool.keep(report(2), true);
        spool.keep(report(3), true);
        spool
    }

    #[test]
    fn reports_are_kept_until_acknowledged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = with_three(&path);
        assert_eq!(kept(&spool), [1, 2, 3]);
        spool.acknowledge(2);
        assert_eq!(kept(&spool), [3]);
        assert!(fs::metadata(&path).unwrap().len() > 16);
        spool.acknowledge(9);
        assert_eq!((kept(&spool).len(), fs::metadata(&path).unwrap().len()), (0, 16));
        spool.keep(report(10), true);
        assert_eq!(kept(&spool), [10]);
    }

    #[test]
    fn spool_outlives_a_crash_with_its_nonce() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        with_three(&path);
        let spool = Spool::open(&path, 1).unwrap();
        assert_eq!((kept(&spool), spool.nonce()), (vec![1, 2, 3], 77));
    }

    #[test]
    fn a_spool_of_a_pilot_that_was_killed_tells_its_nonce() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        assert_eq!(Spool::open(&path, 77).unwrap().predecessor(), None);
        assert_eq!(Spool::open(&path, 78).unwrap().predecessor(), None, "that one has ended in order");
        std::mem::forget(Spool::open(&path, 79).unwrap());
        // Locks do not exclude the process that holds them.
        let next = Spool::open(&path, 80).unwrap();
        assert_eq!((next.predecessor(), next.nonce()), (Some(79), 80));
    }

    #[test]
    fn emptied_spool_belongs_to_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        with_three(&path).acknowledge(3);
        assert!(!path.exists());
        let spool = Spool::open(&path, 1).unwrap();
        assert_eq!((kept(&spool).len(), spool.nonce()), (0, 1));
    }

    #[test]
    fn torn_or_damaged_tail_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        with_three(&path);
        let whole = fs::read(&path).unwrap();
        for cut in 16..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let spool = Spool::open(&path, 1).unwrap();
            let numbers = kept(&spool);
            assert_eq!(numbers, [1, 2, 3][..numbers.len()], "cut at {cut}");
            assert!(numbers.len() < 3);
        }
        let mut damaged = whole.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        fs::write(&path, &damaged).unwrap();
        let mut spool = Spool::open(&path, 1).unwrap();
        assert_eq!(kept(&spool), [1, 2]);
        spool.keep(report(4), true);
        assert_eq!(kept(&Spool::open(&path, 1).unwrap()), [1, 2, 4]);
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        fs::write(&path, "somebody's notes of the day").unwrap();
        assert!(matches!(Spool::open(&path, 1), Err(SpoolError::NotOurs { .. })));
        assert!(matches!(Spool::open(folder.path(), 1), Err(SpoolError::File { .. })));
    }

    /// Limits the size of all files of this process, in which no other test runs.
    fn limit_files(n_bytes: libc::rlim_t) {
        let limit = libc::rlimit { rlim_cur: n_bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the signal is ignored, and the limit is read while it is there.
        let result = unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
        };
        assert_eq!(result, 0);
    }

    #[test]
    fn a_spool_that_was_emptied_on_a_full_disk_is_one_of_ours_again_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = with_three(&path);
        // The disk is full: emptying the file succeeds, writing its header fails.
        limit_files(0);
        spool.acknowledge(3);
        limit_files(libc::RLIM_INFINITY);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
        spool.keep(report(4), true);
        assert_eq!(kept(&spool), [4]);
        let next = Spool::open(&path, 1).unwrap();
        assert_eq!((kept(&next), next.nonce()), (vec![4], 77));
    }

    #[test]
    fn a_spool_of_zeros_is_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        fs::write(&path, [0; 100]).unwrap();
        let mut spool = Spool::open(&path, 77).unwrap();
        assert_eq!(kept(&spool).len(), 0);
        spool.keep(report(1), true);
        assert_eq!(kept(&Spool::open(&path, 1).unwrap()), [1]);
    }

    #[test]
    fn full_disk_keeps_reports_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = Spool::open(&path, 77).unwrap();
        spool.file = Some(OpenOptions::new().read(true).write(true).open("/dev/full").unwrap());
        spool.keep(report(1), true);
        spool.keep(report(2), true);
        assert_eq!(kept(&spool), [1, 2]);
        spool.file = Some(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        spool.spill();
        assert_eq!(kept(&Spool::open(&path, 1).unwrap()), [1, 2]);
    }
}
