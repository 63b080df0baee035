//! The file of what running tasks have written, as a killed pilot may have left it, or somebody may have changed it:
//! read, and shown by streams.

use std::collections::BTreeSet;

use agent::archive::{OutputFile, RECORD_BYTES_MAX, read};
use protocol::pilot::Tail;
use scheduler::{ids::JobId, results::TaskOutput};

use crate::{Check, Target, bound::Bound};

/// See the module.
pub const TARGET: Target = Target {
    name: "output",
    seeds,
    words: &["PFWROTE\u{1}"],
    start,
    bound: Bound { constant: 1 << 20, factor: 128 },
    n_fast: 3_000,
};

/// Header of a file; mark, length and checksum of a record.
const MAGIC_BYTES: usize = 8;
const HEAD_BYTES: usize = 12;

fn start() -> Check {
    Box::new(|bytes| {
        let bytes = with_checksums(bytes);
        let Some(contents) = read(&bytes) else { return };
        let n_written: usize = contents.pieces.iter().map(text_bytes).sum();
        let shown = contents.streams();
        assert!(n_written <= bytes.len(), "more is read than is there");
        // What comes twice is shown once, but something of each stream.
        let streams: BTreeSet<_> = contents.pieces.iter().flat_map(streams).collect();
        assert_eq!(shown.len(), streams.len(), "a stream is not shown");
        assert!(shown.iter().all(|(_, text)| !text.is_empty()), "nothing of a stream is shown");
        // Whatever else is in a file, what is behind it is found: farther than a torn record might reach.
        let behind = written(&[piece(7, 3, b"behind")]);
        let more = [&bytes[..], &[0; RECORD_BYTES_MAX], &behind[MAGIC_BYTES..]].concat();
        let found = read(&more).expect("it begins as before").pieces;
        assert!(found.last() == Some(&piece(7, 3, b"behind")), "what is behind is not found");
    })
}

/// Of which streams there is something in a piece.
fn streams(piece: &Tail) -> impl Iterator<Item = (JobId, u64, u64, bool)> {
    let Tail { job, run, written, .. } = piece;
    let streams = [(&written.stdout, false), (&written.stderr, true)];
    let there = streams.into_iter().filter(|(bytes, _)| !bytes.is_empty());
    there.map(|(_, is_error)| (*job, written.index, *run, is_error))
}

fn text_bytes(piece: &Tail) -> usize {
    piece.written.stdout.len() + piece.written.stderr.len()
}

/// The same file, each record with the checksum that it should have.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    // One in eight stays as it is: checksums are to be tried too.
    if bytes.len().is_multiple_of(8) {
        return file;
    }
    let mut at = MAGIC_BYTES;
    while let Some(length) = file.get(at + 4..at + 8).and_then(|length| <[u8; 4]>::try_from(length).ok()) {
        let end = (at + HEAD_BYTES).saturating_add(u32::from_le_bytes(length) as usize);
        let Some(payload) = file.get(at + HEAD_BYTES..end) else { break };
        let crc = crc32fast::hash(&[&length[..], payload].concat()).to_le_bytes();
        file[at + 8..at + HEAD_BYTES].copy_from_slice(&crc);
        at = end;
    }
    file
}

fn piece(index: u64, at: u64, text: &[u8]) -> Tail {
    let written = TaskOutput { index, stdout: text.to_vec(), stderr: b"slow".to_vec() };
    Tail { job: JobId(1), attempt: 1, run: index, stdout_at: at, stderr_at: 0, written }
}

fn seeds() -> Vec<Vec<u8>> {
    let one = [piece(3, 0, b"step 1\n")];
    let more = [piece(3, 0, b"a"), piece(4, 0, b"x"), piece(3, 1, b"b"), piece(4, 9, b"late")];
    vec![written(&one), written(&more)]
}

/// The file of a pilot that was killed then.
fn written(pieces: &[Tail]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = OutputFile::new(folder.path(), 1);
    file.append(pieces);
    let path = agent::archive::files(folder.path()).expect("it can be listed").remove(0);
    std::fs::read(path).expect("the file is there")
}
