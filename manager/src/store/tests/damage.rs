//! A byte of a store that changes on the disk does no harm, or the store is refused: nothing else is read in silence.
//!
//! `PILOTFISH_FLIPS` says how many bytes are changed, one at a time in a copy of its own, and `PILOTFISH_FLIPS_SEED`
//! which ones are drawn.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use scheduler::{
    engine::record::{FailedAttempt, Record, Verdict},
    ids::{JobId, TaskId},
    results::{FailureKind, TaskOutput, Usage},
    time::Time,
};

use super::{
    super::{FILE, Store, StoreError, check},
    golden::history,
    open,
    records::{beginning, reported, result},
    replayed,
};

/// Changed bytes of each store, unless the environment says another number.
const N_FLIPS: u64 = 250;
/// The files of a store's folder that matter.
const FILES: [&str; 3] = [FILE, "store.sqlite-wal", "acknowledged"];

/// Numbers without a pattern, the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// All that anybody reads of a store.
fn read(folder: &Path) -> Result<String, StoreError> {
    let mut text = String::new();
    let store = Store::open(folder)?;
    let mut line = |what: &dyn std::fmt::Debug| writeln!(text, "{what:?}").unwrap();
    line(&store.id());
    line(&store.configured()?);
    store.replay(|record| line(&record))?;
    let reader = store.reader();
    for job in (1..4).map(JobId) {
        line(&reader.finished(job, 0..u64::MAX, 10_000)?);
        for index in 0..8 {
            line(&reader.attempts(TaskId { job, index })?);
        }
        line(&reader.outputs(job, 0..u64::MAX, u64::MAX)?);
        line(&reader.files(job, None, 0, 10_000)?);
        line(&reader.output_bytes(job)?);
        line(&reader.arrivals(job, None, 0, u64::MAX)?);
    }
    Ok(text)
}

/// Commits enough that tables and indices have pages of all kinds, an output with pages of its own among them.
fn fill(store: &mut Store) {
    store.commit(&history()).unwrap();
    for n in 0..60 {
        let usage =
            |n| Usage { started_us: 100 * n, wall_us: 12_300 + n, cpu_us: 11_000, memory_bytes: n << 20 };
        let tasks = (0..40).map(|k| (20 + 7 * n + 13 * k, 0, usage(k))).collect();
        let failed = |index| FailedAttempt {
            index,
            attempt: 1,
            kind: FailureKind::Exit { code: 3 },
            usage: usage(index),
            verdict: Verdict::Retry { at: Time(n) },
        };
        // Rows of their own for some, one row for several.
        let n_failed = if n % 2 == 0 { 2 } else { 6 };
        let mut part = result(1, tasks, (0..n_failed).map(|k| failed(n + 100 * k)).collect());
        let n_bytes = if n == 30 { 20_000 } else { 30 };
        part.outputs =
            vec![TaskOutput { index: 20 + 7 * n, stdout: vec![b'o'; n_bytes], stderr: Vec::new() }];
        store.commit(&[reported(1, 3 + n, vec![part])]).unwrap();
    }
}

/// The files of a folder's store.
fn contents(folder: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    FILES.into_iter().filter_map(|name| Some((name, fs::read(folder.join(name)).ok()?))).collect()
}

fn write(folder: &Path, files: &BTreeMap<&'static str, Vec<u8>>) {
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// A folder in memory where there is one: each store is flushed to the disk several times.
fn scratch() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    tempfile::tempdir_in(&memory).unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Changes bytes, and says how many changes did no harm and how many were noticed.
fn flip(files: &BTreeMap<&'static str, Vec<u8>>, seed: u64) -> (u64, u64) {
    let whole = scratch();
    write(whole.path(), files);
    let expected = read(whole.path()).unwrap();
    let mut dice = Dice(number("PILOTFISH_FLIPS_SEED", seed));
    let sizes: Vec<(&str, u64)> = files.iter().map(|(name, bytes)| (*name, bytes.len() as u64)).collect();
    let n_bytes: u64 = sizes.iter().map(|(_, size)| size).sum();
    let (mut n_harmless, mut n_noticed) = (0, 0);
    for _ in 0..number("PILOTFISH_FLIPS", N_FLIPS) {
        let (mut place, change) = (dice.roll(n_bytes), 1 + dice.roll(255) as u8);
        let mut damaged = files.clone();
        let (name, _) = sizes
            .iter()
            .find(|(_, size)| {
                place < *size || {
                    place -= size;
                    false
                }
            })
            .unwrap();
        damaged.get_mut(name).unwrap()[place as usize] ^= change;
        let folder = scratch();
        write(folder.path(), &damaged);
        match read(folder.path()) {
            Ok(text) => {
                assert!(
                    text == expected,
                    "byte {place} of {name}, changed by {change}: read otherwise, in silence"
                );
                n_harmless += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains(FILE), "{error}");
                n_noticed += 1;
            }
        }
    }
    (n_harmless, n_noticed)
}

#[test]
fn a_changed_byte_of_a_store_at_rest_is_harmless_or_noticed() {
    let folder = scratch();
    let mut store = open(folder.path());
    fill(&mut store);
    drop(store);
    let files = contents(folder.path());
    assert!(!files.contains_key("store.sqlite-wal"));
    let (n_harmless, n_noticed) = flip(&files, 7);
    println!("{n_harmless} harmless, {n_noticed} noticed");
    // Some pages have free room.
    assert!(n_noticed > n_harmless / 4, "{n_harmless} harmless, {n_noticed} noticed");
}

#[test]
fn a_changed_byte_of_a_store_whose_manager_was_killed_is_harmless_or_noticed() {
    let folder = scratch();
    let mut store = open(folder.path());
    fill(&mut store);
    // As a process that is killed leaves them.
    let files = contents(folder.path());
    let sizes = files.values().map(Vec::len).collect::<Vec<_>>();
    assert!(files["store.sqlite-wal"].len() > 100_000, "{sizes:?}");
    let (n_harmless, n_noticed) = flip(&files, 8);
    println!("{n_harmless} harmless, {n_noticed} noticed");
    // Some pages have free room.
    assert!(n_noticed > n_harmless / 4, "{n_harmless} harmless, {n_noticed} noticed");
}

#[test]
fn a_damaged_last_commit_is_refused_if_it_was_acknowledged() {
    let folder = scratch();
    let mut store = open(folder.path());
    store.commit(&beginning(9)).unwrap();
    store.commit(&[Record::JobPaused { job: JobId(1), at: Time(9) }]).unwrap();
    let mut files = contents(folder.path());
    let log = files.get_mut("store.sqlite-wal").unwrap();
    *log.last_mut().unwrap() ^= 1;
    let damaged = scratch();
    write(damaged.path(), &files);
    let n_before = files["store.sqlite-wal"].len();
    let refused = Store::open(damaged.path()).unwrap_err().to_string();
    let n_records = beginning(9).len();
    let words = format!("its last commit is damaged: records {} to {} were", n_records + 1, n_records + 1);
    assert!(refused.contains("store.sqlite-wal") && refused.contains(&words), "{refused}");
    assert_eq!(
        contents(damaged.path())["store.sqlite-wal"].len(),
        n_before,
        "what is refused stays as it is"
    );
    // Nobody was told of one that a loss of power has cut off.
    files.remove("acknowledged");
    let torn = scratch();
    write(torn.path(), &files);
    assert_eq!(replayed(&open(torn.path())).len(), n_records);
}

#[test]
fn rows_of_two_histories_do_not_go_together() {
    let (folder, other) = (scratch(), scratch());
    let report = |n, index| reported(1, n, vec![result(1, vec![(index, 0, Usage::default())], Vec::new())]);
    for (folder, index) in [(&folder, 1), (&other, 2)] {
        let mut store = open(folder.path());
        store.commit(&beginning(9)).unwrap();
        store.commit(&[report(1, index), report(2, 5)]).unwrap();
    }
    let seq = beginning(9).len() + 1;
    let store = open(folder.path());
    let mix = format!(
        "ATTACH '{}' AS other; DELETE FROM main.reports WHERE seq = {seq}; \
         INSERT INTO main.reports SELECT * FROM other.reports WHERE seq = {seq}",
        other.path().join(FILE).display()
    );
    store.connection.execute_batch(&mix).unwrap();
    let refused = store.replay(|_| {}).unwrap_err().to_string();
    // The row itself is whole, as is the one behind it: it is not the one that was followed.
    assert!(refused.contains(&format!("record {}: its checksum is wrong", seq + 1)), "{refused}");
}

#[test]
fn a_check_names_every_damaged_record_and_changes_nothing() {
    let folder = scratch();
    let mut store = open(folder.path());
    fill(&mut store);
    let checked = check(folder.path(), 20).unwrap();
    assert_eq!((checked.found, checked.n_without_sums), (Vec::new(), 0));
    assert_eq!(checked.n_records, replayed(&store).len() as u64);
    let seqs: Vec<i64> = {
        let mut rows = store.connection.prepare("SELECT seq FROM outputs ORDER BY id LIMIT 2").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    store
        .connection
        .execute("UPDATE outputs SET frames = CAST(frames || x'00' AS BLOB) WHERE seq = ?1", [seqs[0]])
        .unwrap();
    store.connection.execute("DELETE FROM outputs WHERE seq = ?1", [seqs[1]]).unwrap();
    let refused = Store::open_to_read(folder.path()).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("record {}: outputs or files", seqs[1])),
        "nobody would miss it: {refused}"
    );
    store.connection.execute("UPDATE reports SET columns = x'01' WHERE seq = ?1", [seqs[1]]).unwrap();
    store
        .connection
        .execute("UPDATE journal SET record = replace(record, 'ada', 'eve') WHERE seq = 2", [])
        .unwrap();
    let found = check(folder.path(), 20).unwrap().found;
    let has = |words: &str| assert!(found.iter().any(|found| found.contains(words)), "{words} in {found:?}");
    has(&format!("record {}: the checksum of outputs", seqs[0]));
    has(&format!("record {}: the checksum of its columns", seqs[1]));
    has(&format!("record {}: outputs or files", seqs[1]));
    has("record 2: its checksum is wrong");
}

#[test]
fn a_log_that_is_removed_while_the_manager_runs_ends_it() {
    let folder = scratch();
    let mut store = open(folder.path());
    store.commit(&beginning(4)).unwrap();
    fs::remove_file(folder.path().join("store.sqlite-wal")).unwrap();
    let refused = store.commit(&[Record::JobPaused { job: JobId(1), at: Time(9) }]).unwrap_err();
    assert!(matches!(&refused, StoreError::Gone { path } if path.ends_with("store.sqlite-wal")), "{refused}");
    assert!(store.commit(&beginning(4)).is_err(), "and never again");
}
