//! A spool as a crashed pilot may have left it, or somebody may have changed it: opened, read, gone on with.

use std::fs;

use agent::session::spool::Spool;
use scheduler::results::Report;

use crate::{Check, Target, bound::Bound, world};

/// See the module.
pub const TARGET: Target = Target {
    name: "spool",
    seeds,
    words: &["PFSPOOL\u{1}"],
    start,
    bound: Bound { constant: 1 << 20, factor: 128 },
    n_fast: 1_500,
};

fn start() -> Check {
    let folder = tempfile::tempdir().expect("a folder");
    Box::new(move |bytes| {
        let path = folder.path().join("spool");
        // A changed checksum would hide all that comes behind it.
        fs::write(&path, with_checksums(bytes)).expect("the file is written");
        let Ok(spool) = Spool::open(&path, 77) else { return };
        let found: Vec<(u64, Option<Report>)> = spool.numbers().map(|n| (n, spool.read(n))).collect();
        assert!(found.iter().all(|(n, report)| report.as_ref().is_some_and(|report| report.seq == *n)));
        let nonce = spool.nonce();
        drop(spool);
        // It is there for the next one too, and goes on.
        let mut again = Spool::open(&path, 78).expect("what was opened once is opened again");
        let kept: Vec<(u64, Option<Report>)> = again.numbers().map(|n| (n, again.read(n))).collect();
        assert_eq!(kept, found);
        assert_eq!(again.nonce(), if found.is_empty() { 78 } else { nonce });
        let next = world::report(found.last().map_or(1, |(n, _)| n.saturating_add(1)), 4);
        again.keep(next.clone(), true);
        assert_eq!(again.read(next.seq), Some(next.clone()));
        again.acknowledge(next.seq);
        assert_eq!(again.numbers().next(), None);
        again.renew(5);
    })
}

/// The same file, each record with the checksum that it should have.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    // One in eight stays as it is: checksums are to be tried too.
    if bytes.len().is_multiple_of(8) {
        return file;
    }
    let mut at = 16;
    while let Some(length) = file.get(at..at + 4).and_then(|length| <[u8; 4]>::try_from(length).ok()) {
        let end = (at + 8).saturating_add(u32::from_le_bytes(length) as usize);
        let Some(crc) = file.get(at + 8..end).map(crc32fast::hash) else { break };
        file[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
    file
}

fn seeds() -> Vec<Vec<u8>> {
    [1, 3].map(written).to_vec()
}

/// The file of a pilot that crashed with so many reports.
fn written(n_reports: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spool");
    let mut spool = Spool::open(&path, 9).expect("a spool");
    (1..=n_reports).for_each(|n| spool.keep(world::report(n, n * 4), true));
    fs::read(&path).expect("the file is there")
}
