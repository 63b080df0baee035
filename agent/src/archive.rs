//! The output of running tasks on the node's disk, for a later look at a pilot that was killed.
//!
//! Each pilot has one append-only file: a header, then records of a mark, length, CRC-32 and payload
//! (postcard). A record is a piece of one attempt's output with its position. The file holds output that no
//! report has delivered yet, of tasks that run longer than a moment. It is emptied when none of these tasks
//! runs any more, and removed when the pilot has left. It may be read at any time; torn or changed records
//! are counted and skipped.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use protocol::{codec::Format, pilot::Tail, text::kept::left_out_line};

use scheduler::ids::TaskId;

use crate::sys::private;

/// The beginning of each file; the last byte is the format's version.
const MAGIC: &[u8; 8] = b"PFWROTE\x01";
/// The beginning of each record, by which a reader finds the next record after a damaged one.
const MARK: &[u8; 4] = b"\xf5PF\xa7";
/// Size of mark, length and checksum.
const HEAD_BYTES: usize = 12;
/// Largest file. Then it begins again, with the last output of the tasks that still run.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The most bytes of one stream in a record.
pub const PIECE_BYTES_MAX: usize = 64 << 10;
/// Longest record: pieces of two streams, and their task and positions.
pub const RECORD_BYTES_MAX: usize = 2 * PIECE_BYTES_MAX + (1 << 10);
/// The file's name; the pilot's id is between the two parts.
const NAME: [&str; 2] = ["output-", ".pf"];

/// The output file of one pilot, created with its first record.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: Option<File>,
    end: u64,
    has_failed: bool,
}

/// One stream of an attempt: the task, the run, `stdout` or `stderr`.
type Stream<'a> = (TaskId, u64, &'a str);

/// The attempt's number, the position where the next piece should begin, and the text so far.
type Gathered = (u32, u64, Vec<u8>);

/// The contents of a file.
#[derive(Debug, Default, PartialEq)]
pub struct Contents {
    /// The pieces, in the order of writing.
    pub pieces: Vec<Tail>,
    /// Number of bytes that belong to no valid record.
    pub n_damaged: usize,
}

impl Contents {
    /// Returns each stream of each attempt with a heading, in the order of tasks.
    pub fn streams(&self) -> Vec<(String, Vec<u8>)> {
        let mut streams: BTreeMap<Stream<'_>, Gathered> = BTreeMap::new();
        for Tail { job, attempt, run, stdout_at, stderr_at, written } in &self.pieces {
            let task = TaskId { job: *job, index: written.index };
            for (name, at, bytes) in
                [("stdout", *stdout_at, &written.stdout), ("stderr", *stderr_at, &written.stderr)]
            {
                if bytes.is_empty() {
                    continue;
                }
                let (_, end, text) = streams.entry((task, *run, name)).or_insert((*attempt, 0, Vec::new()));
                if at > *end {
                    text.extend_from_slice(left_out_line(at - *end).as_bytes());
                }
                let n_known = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
                text.extend_from_slice(bytes.get(n_known..).unwrap_or_default());
                *end = at.saturating_add(bytes.len() as u64).max(*end);
            }
        }
        let shown = |((task, _, name), (attempt, _, text)): (Stream<'_>, Gathered)| {
            (format!("{task} attempt {attempt} {name}"), text)
        };
        streams.into_iter().map(shown).collect()
    }
}

/// The outcome of appending pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appended {
    /// The pieces are in the file.
    Whole,
    /// The pieces are not in the file; they may be appended later.
    Not,
    /// The file was full and is empty now: the last output of running tasks is to be appended.
    Full,
}

impl OutputFile {
    /// Returns the bytes of each stream that fit into the file twice, for this number of streams.
    pub fn share(n_streams: u64) -> u64 {
        FILE_BYTES_MAX / 2 / n_streams.max(1)
    }

    /// Returns the output file of a pilot in its folder, without creating it.
    pub fn new(folder: &Path, pilot: u64) -> OutputFile {
        let [before, after] = NAME;
        let path = folder.join(format!("{before}{pilot}{after}"));
        OutputFile { path, file: None, end: 0, has_failed: false }
    }

    /// Appends pieces. On a full disk this call fails, and nothing else does.
    pub fn append(&mut self, pieces: &[Tail]) -> Appended {
        if pieces.is_empty() {
            return Appended::Whole;
        }
        let mut bytes = Vec::new();
        for piece in pieces {
            match record(piece) {
                Ok(record) => bytes.extend(record),
                Err(error) => tracing::warn!(%error, "a piece of output has no form"),
            }
        }
        // An empty file takes any pieces, because they would never fit better.
        let is_any_there = self.end > MAGIC.len() as u64;
        if is_any_there && self.end + bytes.len() as u64 > FILE_BYTES_MAX {
            self.empty();
            return Appended::Full;
        }
        let Err(error) = self.write(&bytes) else { return Appended::Whole };
        if !self.has_failed {
            tracing::warn!(%error, path = %self.path.display(), "what running tasks write is not kept here");
        }
        self.has_failed = true;
        Appended::Not
    }

    /// Empties the file: none of its tasks runs any more.
    pub fn empty(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.end > MAGIC.len() as u64) {
            // Old contents do no harm: the file is only read after the pilot was killed.
            let _ = file.set_len(MAGIC.len() as u64);
            self.end = MAGIC.len() as u64;
        }
    }

    /// Removes the file, because the pilot has reported all output.
    pub fn remove(&mut self) {
        if self.file.take().is_some() {
            // A file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            place => {
                let file = private::file_options().write(true).truncate(true).open(&self.path)?;
                file.write_all_at(MAGIC, 0)?;
                self.end = MAGIC.len() as u64;
                place.insert(file)
            }
        };
        // On failure `end` stays, so the next record overwrites the torn one.
        file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}

fn record(piece: &Tail) -> io::Result<Vec<u8>> {
    let payload = Format::Postcard.encode(piece).map_err(io::Error::other)?;
    let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_le_bytes();
    let crc = checksum(&length, &payload).to_le_bytes();
    Ok([&MARK[..], &length, &crc, &payload].concat())
}

fn checksum(length: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(length);
    hasher.update(payload);
    hasher.finalize()
}

/// Returns the valid records of a file; `None` if the bytes do not begin like a file of this kind.
pub fn read(bytes: &[u8]) -> Option<Contents> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut contents = Contents::default();
    while !rest.is_empty() {
        match take(rest) {
            Some((piece, n)) => {
                contents.pieces.push(piece);
                rest = &rest[n..];
            }
            None => {
                let next = (1..rest.len()).find(|at| rest[*at..].starts_with(MARK)).unwrap_or(rest.len());
                contents.n_damaged += next;
                rest = &rest[next..];
            }
        }
    }
    Some(contents)
}

/// Returns the record at the beginning of `bytes`, and its length.
fn take(bytes: &[u8]) -> Option<(Tail, usize)> {
    let head = bytes.get(..HEAD_BYTES).filter(|head| head.starts_with(MARK))?;
    let number = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (length, crc) = (usize::try_from(number(4)?).ok()?, number(8)?);
    let payload =
        bytes.get(HEAD_BYTES..)?.get(..length).filter(|payload| payload.len() <= RECORD_BYTES_MAX)?;
    let is_whole = checksum(&head[4..8], payload) == crc;
    let piece = is_whole.then(|| Format::Postcard.decode(payload).ok()).flatten()?;
    Some((piece, HEAD_BYTES + length))
}

/// Returns the output files in a folder; for a file the file itself.
///
/// # Errors
/// The folder cannot be read.
pub fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let [before, after] = NAME;
    let is_one = |name: &str| name.starts_with(before) && name.ends_with(after);
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_one(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use scheduler::{ids::JobId, results::TaskOutput};

    use super::*;

    fn piece(index: u64, at: u64, text: &str) -> Tail {
        let written = TaskOutput { index, stdout: text.into(), stderr: Vec::new() };
        Tail { job: JobId(1), attempt: 1, run: index, stdout_at: at, stderr_at: 0, written }
    }

    fn written(pieces: &[Tail]) -> (tempfile::TempDir, PathBuf, OutputFile) {
        let folder = tempfile::tempdir().unwrap();
        let mut file = OutputFile::new(folder.path(), 7);
        let append = |piece| assert_eq!(file.append(std::slice::from_ref(piece)), Appended::Whole);
        pieces.iter().for_each(append);
        let path = file.path.clone();
        (folder, path, file)
    }

    #[test]
    fn it_is_read_while_it_grows_and_is_gone_with_its_pilot() {
        let pieces = [piece(3, 0, "ab"), piece(4, 0, "x"), piece(3, 2, "c")];
        let (folder, path, mut file) = written(&pieces);
        crate::sys::private::testing::assert_private(&path);
        let contents = read(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(contents, Contents { pieces: pieces.to_vec(), n_damaged: 0 });
        file.empty();
        file.append(&[piece(5, 0, "new")]);
        assert_eq!(read(&fs::read(&path).unwrap()).unwrap().pieces, [piece(5, 0, "new")]);
        file.remove();
        assert_eq!(files(folder.path()).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(read(b"something else"), None);
    }

    #[test]
    fn a_full_file_is_begun_anew_and_what_was_to_come_last_may_come_again() {
        let (_folder, path, mut file) = written(&[]);
        let long = "x".repeat(PIECE_BYTES_MAX);
        let n = FILE_BYTES_MAX / (PIECE_BYTES_MAX as u64 + 64);
        for at in 0..n {
            assert_eq!(file.append(&[piece(3, at * PIECE_BYTES_MAX as u64, &long)]), Appended::Whole, "{at}");
        }
        let last = piece(3, n * PIECE_BYTES_MAX as u64, &long);
        let appended =
            (0..9).map(|_| file.append(std::slice::from_ref(&last))).find(|a| *a != Appended::Whole);
        assert_eq!(appended, Some(Appended::Full));
        assert_eq!(read(&fs::read(&path).unwrap()).unwrap().pieces, []);
        let all = vec![last; FILE_BYTES_MAX as usize / PIECE_BYTES_MAX + 1];
        assert_eq!(file.append(&all), Appended::Whole, "more than a file at a time");
        assert_eq!(file.append(&[piece(3, 6, "more")]), Appended::Full);
        assert_eq!(file.append(&[piece(3, 7, "the last")]), Appended::Whole);
        assert_eq!(read(&fs::read(&path).unwrap()).unwrap().pieces, [piece(3, 7, "the last")]);
    }

    #[test]
    fn streams_are_put_together_and_say_what_is_missing() {
        let pieces =
            vec![piece(3, 0, "ab"), piece(4, 0, "x"), piece(3, 5, "f"), piece(3, 4, "ef"), piece(3, 5, "fg")];
        let contents = Contents { pieces, n_damaged: 0 };
        let text = |text: &str| text.as_bytes().to_vec();
        let expected = [
            ("1.3 attempt 1 stdout".to_owned(), text("ab\n[pilotfish: 3 bytes left out]\nfg")),
            ("1.4 attempt 1 stdout".to_owned(), text("x")),
        ];
        assert_eq!(contents.streams(), expected);
    }

    #[test]
    fn it_is_read_up_to_the_last_whole_record_wherever_it_is_cut() {
        let pieces = [piece(3, 0, "ab"), piece(4, 0, "x"), piece(3, 2, "c")];
        let (_folder, path, _file) = written(&pieces);
        let whole = fs::read(&path).unwrap();
        for cut in MAGIC.len()..whole.len() {
            let contents = read(&whole[..cut]).unwrap();
            let n = contents.pieces.len();
            assert!(n < 3 && contents.pieces == pieces[..n], "cut at {cut}");
            let n_whole: usize = pieces[..n].iter().map(|piece| record(piece).unwrap().len()).sum();
            assert_eq!(contents.n_damaged, cut - MAGIC.len() - n_whole);
        }
    }

    #[test]
    fn a_flipped_bit_costs_the_record_that_it_is_in_and_is_told() {
        let pieces = [piece(3, 0, "ab"), piece(4, 0, "x"), piece(3, 2, "c")];
        let (_folder, path, _file) = written(&pieces);
        let whole = fs::read(&path).unwrap();
        let mut ends = vec![MAGIC.len()];
        for piece in &pieces {
            ends.push(ends[ends.len() - 1] + record(piece).unwrap().len());
        }
        for bit in MAGIC.len() * 8..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let hit = ends.iter().filter(|end| **end <= bit / 8).count() - 1;
            let contents = read(&damaged).unwrap();
            let mut expected = pieces.to_vec();
            expected.remove(hit);
            assert_eq!(contents.pieces, expected, "bit {bit}");
            assert_eq!(contents.n_damaged, ends[hit + 1] - ends[hit], "bit {bit}");
        }
    }
}
