//! SQLite's write-ahead log beside the store, looked at before SQLite does.
//!
//! SQLite takes a log up to the first frame whose checksum is wrong, since the last commit before a loss of power may be
//! cut off. A frame that was damaged later would silently take all commits behind it along.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use protocol::files::private;

/// The head of a log, and of each of its frames. See "WAL File Format" in SQLite's documentation.
const HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;
/// The first bytes of a log; the last bit tells the byte order of the words in checksums.
const MAGIC: u32 = 0x377f_0682;
/// SQLite has no larger pages.
const PAGE_BYTES_MAX: usize = 1 << 16;

/// The contents of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Log {
    /// Whole commits and nothing else.
    Whole,
    /// Something lies behind its last whole commit: one that was cut off or damaged, or what was there before.
    HasRest,
    /// Something before its last commit was damaged.
    Damaged(String),
}

/// Looks at the log in a file. Nobody may write to it meanwhile.
///
/// Errors: the file cannot be read. Cost: one read of it.
pub(super) fn look(path: &Path) -> io::Result<Log> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::with_capacity(PAGE_BYTES_MAX, file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Log::Whole),
        Err(error) => return Err(error),
    };
    let mut head = [0; HEAD_BYTES];
    if fill(&mut file, &mut head)? < HEAD_BYTES {
        return Ok(Log::Whole);
    }
    let Some((mut scan, page_bytes)) = Scan::begin(&head) else {
        return Ok(Log::Damaged("its head is damaged".to_owned()));
    };
    let mut frame = vec![0; FRAME_HEAD_BYTES + page_bytes];
    loop {
        let n_bytes = fill(&mut file, &mut frame)?;
        if n_bytes < frame.len() {
            let has_rest = n_bytes > 0 || scan.n_frames > scan.n_whole;
            return Ok(if has_rest { Log::HasRest } else { Log::Whole });
        }
        if let Some(damaged) = scan.take(&frame) {
            return Ok(Log::Damaged(format!("its frame {damaged} is damaged, and commits follow it")));
        }
    }
}

/// Fills a buffer as far as the file goes; says how far.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut n_bytes = 0;
    while n_bytes < buffer.len() {
        match file.read(&mut buffer[n_bytes..]) {
            Ok(0) => break,
            Ok(n) => n_bytes += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_bytes)
}

/// A number of the file format, which has all but the words of checksums in this order.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_be_bytes(*word))
}

/// How far a log has been read, frame by frame. Each frame's checksum goes on from that of the one before it.
struct Scan {
    /// How words of checksums are read.
    order: fn([u8; 4]) -> u32,
    /// Drawn for each log; a frame with others was there before.
    salts: (u32, u32),
    /// The checksum that the last frame states.
    noted: (u32, u32),
    n_frames: u64,
    /// Up to the last whole commit.
    n_whole: u64,
    /// The first frame that is not what followed the one before it.
    fault: Option<u64>,
    /// Whether the commit of that frame has ended.
    is_past_fault: bool,
}

impl Scan {
    /// A log with this head, and how many bytes its pages have; `None` if the head is damaged.
    fn begin(head: &[u8; HEAD_BYTES]) -> Option<(Scan, usize)> {
        let order = match word(head, 0) {
            MAGIC => u32::from_le_bytes,
            magic if magic == MAGIC | 1 => u32::from_be_bytes,
            _ => return None,
        };
        let noted = (word(head, 24), word(head, 28));
        let page_bytes = word(head, 8) as usize;
        let is_whole = checksum(order, (0, 0), &head[..24]) == noted;
        let salts = (word(head, 16), word(head, 20));
        let scan = Scan { order, salts, noted, n_frames: 0, n_whole: 0, fault: None, is_past_fault: false };
        (is_whole && page_bytes.is_power_of_two() && (512..=PAGE_BYTES_MAX).contains(&page_bytes))
            .then_some((scan, page_bytes))
    }

    /// Takes the next frame. Says which frame is damaged as soon as one shows that was committed later: a commit is
    /// written only when the one before it is on the disk.
    fn take(&mut self, frame: &[u8]) -> Option<u64> {
        self.n_frames += 1;
        let (head, page) = frame.split_at(FRAME_HEAD_BYTES);
        let has_salts = (word(head, 8), word(head, 12)) == self.salts;
        let sum = checksum(self.order, checksum(self.order, self.noted, &head[..8]), page);
        self.noted = (word(head, 16), word(head, 20));
        let (follows, is_commit) = (has_salts && sum == self.noted, has_salts && word(head, 4) != 0);
        match self.fault {
            None if follows => {
                if is_commit {
                    self.n_whole = self.n_frames;
                }
                None
            }
            None => {
                self.fault = Some(self.n_frames);
                self.is_past_fault = is_commit;
                None
            }
            Some(fault) if follows && self.is_past_fault => Some(fault),
            Some(_) => {
                self.is_past_fault |= is_commit;
                None
            }
        }
    }
}

/// The checksum of a log, gone on with over more bytes: a multiple of eight.
fn checksum(order: fn([u8; 4]) -> u32, (mut a, mut b): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for pair in bytes.as_chunks::<8>().0 {
        let [c, d, e, f, g, h, i, j] = *pair;
        a = a.wrapping_add(order([c, d, e, f])).wrapping_add(b);
        b = b.wrapping_add(order([g, h, i, j])).wrapping_add(a);
    }
    (a, b)
}

/// The last record that was acknowledged, in a file beside the store that is not flushed: after a loss of power it may
/// name an earlier one, and never a later one. So a log without it was damaged.
#[derive(Debug)]
pub(super) struct Acknowledged(File);

impl Acknowledged {
    /// The file's name in the store's folder.
    const FILE: &str = "acknowledged";
    /// Its length: the store's number, a blank, that of the record, a line's end.
    const BYTES: usize = 42;

    /// Opens the file in a folder, and says which record of the store with this number it names.
    pub(super) fn open(folder: &Path, store: u64) -> io::Result<(Acknowledged, Option<i64>)> {
        let mut file =
            private::file_options().read(true).write(true).truncate(false).open(folder.join(Self::FILE))?;
        let mut text = [0; Self::BYTES];
        let n_bytes = fill(&mut file, &mut text)?;
        let text = str::from_utf8(&text[..n_bytes]).unwrap_or_default();
        let named =
            text.trim_end().split_once(' ').and_then(|(of, seq)| Some((of.parse().ok()?, seq.parse().ok()?)));
        let seq = named.and_then(|(of, seq): (u64, i64)| (of == store).then_some(seq));
        Ok((Acknowledged(file), seq))
    }

    /// Names a record, after it is on the disk.
    pub(super) fn note(&self, store: u64, seq: i64) -> io::Result<()> {
        self.0.write_all_at(format!("{store:020} {seq:020}\n").as_bytes(), 0)
    }
}
