//! Acknowledged records are there, failed ones are not, and replay returns them.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use scheduler::{
    engine::{
        Engine,
        interface::settings::Settings,
        record::{Blamed, Record, Verdict},
        state::durable::Durable,
    },
    ids::{JobId, PilotId, TaskId},
    results::{TaskOutput, Usage},
    time::Time,
};

use super::{
    super::{FILE, INDEX_MAX, Store, StoreError, schema},
    CHILD_FOLDER, applied, child,
    golden::{N_KINDS, place},
    open,
    records::{any_record, beginning, job_accepted, reported, result, without_columns},
    replayed,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn replay_builds_what_was_built_live(
        commits in prop::collection::vec((prop::collection::vec(any_record(40), 0..8), any::<bool>()), 0..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path());
        let mut records = beginning(40);
        store.commit(&records).unwrap();
        for (commit, is_last_of_its_life) in commits {
            store.commit(&commit).unwrap();
            records.extend(commit);
            if is_last_of_its_life {
                drop(store);
                store = open(folder.path());
            }
        }
        let read = replayed(&store);
        prop_assert_eq!(&read, &records.iter().map(without_columns).collect::<Vec<_>>());
        prop_assert_eq!(applied(&read), applied(&records));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_read_after_every_record_is_what_is_in_memory(
        commits in prop::collection::vec(prop::collection::vec(any_record(40), 1..6), 1..6),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path());
        let mut live = Durable::default();
        let mut n_read = 0;
        for commit in std::iter::once(beginning(40)).chain(commits) {
            // As a crash may leave it: all records of a commit, or none.
            store.commit(&commit).unwrap();
            let read = replayed(&Store::open_to_read(folder.path()).unwrap());
            for (record, kept) in commit.iter().zip(&read[n_read..]) {
                // Records in memory have columns and outputs, which are no part of the state.
                live.apply(record);
                n_read += 1;
                prop_assert_eq!(&without_columns(record), kept);
                let restored = applied(&read[..n_read]);
                prop_assert_eq!(&restored, &live);
                check_jobs(&restored);
                Engine::restore(Settings::default(), 1, Time(0), read[..n_read].to_vec()).check_invariants();
            }
            prop_assert_eq!(n_read, read.len());
        }
    }
}

/// The kinds of records that the properties above draw: a new kind has no place until it is drawn, too.
#[test]
fn any_record_is_of_every_kind() {
    let mut runner = TestRunner::deterministic();
    let kinds = (0..2000).map(|_| place(&any_record(40).new_tree(&mut runner).unwrap().current()));
    let beginning = beginning(40);
    let kinds: BTreeSet<usize> = kinds.chain(beginning.iter().map(place)).collect();
    assert_eq!(kinds, (0..N_KINDS).collect());
}

/// Each task of a job is in one of its sets, for any records.
fn check_jobs(durable: &Durable) {
    for job in durable.jobs().values() {
        let n_closed = job.n_done() + job.failed.len() + job.cancelled.len();
        assert_eq!(n_closed + job.open.len(), job.request.n_tasks);
        assert!(job.open.intersection(&job.failed).is_empty());
        assert!(job.open.intersection(&job.cancelled).is_empty());
        assert!(job.failed.intersection(&job.cancelled).is_empty());
    }
}

fn one_report(seq: u64) -> Record {
    reported(1, seq, vec![result(1, vec![(seq, 0, Usage::default())], Vec::new())])
}

#[test]
fn what_a_killed_process_acknowledged_is_kept() {
    const N_ACKNOWLEDGED: usize = 60;
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        let mut store = open(Path::new(&folder));
        store.commit(&beginning(1 << 40)).unwrap();
        for seq in 1.. {
            store.commit(&[one_report(seq)]).unwrap();
            println!("\nacknowledged {seq}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let mut process =
        child("store::tests::keeping::what_a_killed_process_acknowledged_is_kept", folder.path())
            .spawn()
            .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let acknowledged = lines.filter(|line| line.starts_with("acknowledged ")).take(N_ACKNOWLEDGED).count();
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(acknowledged, N_ACKNOWLEDGED);
    let store = open(folder.path());
    let read = replayed(&store);
    let n_begun = beginning(1).len();
    assert!(read.len() >= n_begun + N_ACKNOWLEDGED, "{} records", read.len());
    for (record, seq) in read[n_begun..].iter().zip(1..) {
        assert_eq!(record, &without_columns(&one_report(seq)));
    }
}

/// Wherever a crash has cut the log, and whatever stands on the disk behind that.
#[test]
fn a_torn_log_keeps_whole_commits() {
    const FRAME_HEAD: usize = 24;
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let (file, log) = (folder.path().join(FILE), format!("{FILE}-wal"));
    let n_log = || std::fs::metadata(folder.path().join(&log)).unwrap().len() as usize;
    let mut records = Vec::new();
    let mut kept = Vec::new();
    for commit in [beginning(9), vec![one_report(1)], vec![one_report(2), one_report(3)], vec![one_report(4)]]
    {
        store.commit(&commit).unwrap();
        records.extend(commit.iter().map(without_columns));
        kept.push((n_log(), records.clone()));
    }
    let (file, whole) = (std::fs::read(file).unwrap(), std::fs::read(folder.path().join(&log)).unwrap());
    let n_page: i64 = store.connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    let n_begun = kept[0].0;
    let frames = (n_begun..=whole.len()).step_by(FRAME_HEAD + n_page as usize);
    let cuts = frames.flat_map(|end| [end - 1, end, end + 1, end + FRAME_HEAD, end + 100]);
    for cut in cuts.filter(|cut| (n_begun..=whole.len()).contains(cut)) {
        let (_, expected) = kept.iter().rfind(|(end, _)| *end <= cut).unwrap();
        for behind in [Vec::new(), vec![0; whole.len() - cut], vec![0xa5; whole.len() - cut]] {
            let torn = tempfile::tempdir().unwrap();
            std::fs::write(torn.path().join(FILE), &file).unwrap();
            std::fs::write(torn.path().join(&log), [&whole[..cut], &behind].concat()).unwrap();
            assert_eq!(&replayed(&open(torn.path())), expected, "cut at {cut} of {}", whole.len());
        }
    }
}

#[test]
fn a_commit_without_room_keeps_nothing_and_is_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(9)).unwrap();
    let n_pages: i64 = store.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store.connection.pragma_update(None, "max_page_count", n_pages + 2).unwrap();
    let mut filling = result(1, vec![(1, 0, Usage::default())], Vec::new());
    filling.outputs = vec![TaskOutput { index: 1, stdout: vec![b'x'; 1 << 20], stderr: Vec::new() }];
    let refused = store.commit(&[job_accepted(4, 1), reported(1, 1, vec![filling])]).unwrap_err();
    assert!(matches!(refused, StoreError::DiskFull { .. }));
    let place = folder.path().join(FILE).display().to_string();
    assert_eq!(
        refused.to_string(),
        format!(
            "cannot commit records to {place}: the disk is full or the quota is used up; make room and start again"
        )
    );
    let refused = store.commit(&[job_accepted(4, 1)]).unwrap_err();
    assert!(matches!(refused, StoreError::Broken { .. }), "{refused}");
    drop(store);
    assert_eq!(replayed(&open(folder.path())), beginning(9));
}

#[test]
fn an_index_beyond_all_order_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let at = |index| reported(1, 1, vec![result(1, vec![(index, 0, Usage::default())], Vec::new())]);
    store.commit(&[at(INDEX_MAX)]).unwrap();
    let refused = store.commit(&[at(INDEX_MAX + 1)]).unwrap_err().to_string();
    assert!(refused.contains("task index is 9223372036854775807, the largest possible is"), "{refused}");
    drop(store);
    assert_eq!(replayed(&open(folder.path())), [without_columns(&at(INDEX_MAX))]);
}

#[test]
fn a_lost_row_stops_replay() {
    let cases = [
        ("DELETE FROM journal WHERE seq = 3", "something before record 4 is missing"),
        ("DELETE FROM reports WHERE position = 0", "missing"),
        ("DELETE FROM reports WHERE position = 1", "missing"),
        ("UPDATE reports SET position = 2 WHERE position = 1", "does not continue the report before it"),
        ("UPDATE reports SET report_seq = 9 WHERE position = 1", "does not continue the report before it"),
        ("UPDATE reports SET ranges = x'05'", "ranges are cut off"),
        ("UPDATE reports SET n_tasks = 2", "its ranges are not those that its row tells of"),
        ("UPDATE reports SET last_index = 3", "its ranges are not those that its row tells of"),
        ("UPDATE reports SET ranges = x'0001'", "its ranges are not those that its row tells of"),
        ("UPDATE journal SET kind = 'job-paused' WHERE seq = 2", "record 2: its JSON is of another kind"),
        ("UPDATE journal SET record = replace(record, '\"at\":7', '\"at\":8')", "record 2: its JSON is of"),
        (
            "UPDATE journal SET record = replace(record, '\"pilot\":1', '\"pilot\":18446744073709551615')",
            "record 4: its number is larger than any that is given",
        ),
        ("UPDATE journal SET record = '{' WHERE seq = 2", "record 2: its JSON: EOF while parsing"),
        (
            "INSERT INTO failures SELECT 1, 0, 1, 1, 1, 1, 1, 'exit', '\"Walltime\"', 1, 1, 1, 1, 1, NULL",
            "record 1",
        ),
    ];
    for (damage, words) in cases {
        for has_sums in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let mut store = open(folder.path());
            store.commit(&beginning(9)).unwrap();
            let part = |job, index| result(job, vec![(index, 0, Usage::default())], Vec::new());
            store.commit(&[reported(1, 1, vec![part(1, 1), part(2, 1)]), one_report(2)]).unwrap();
            if !has_sums {
                remove_sums(&store);
            }
            store.connection.execute_batch(damage).unwrap();
            let refused = store.replay(|_| {}).unwrap_err();
            assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
            let refused = refused.to_string();
            let is_sum = has_sums && refused.contains("its checksum is wrong");
            assert!(is_sum || refused.contains(words), "{refused}");
        }
    }
}

/// Makes the records of a store those of a version that kept no checksums.
fn remove_sums(store: &Store) {
    let transaction = store.connection.unchecked_transaction().unwrap();
    transaction
        .execute_batch("UPDATE journal SET chain = NULL; UPDATE reports SET sum = NULL, chain = NULL")
        .unwrap();
    schema::put(&transaction, "summed_after", "1000").unwrap();
    transaction.commit().unwrap();
}

#[test]
fn tasks_lost_with_a_pilot_are_replayed_once_and_readable() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let task = TaskId { job: JobId(1), index: 4 };
    let blamed = vec![Blamed { task, attempt: 1, verdict: Verdict::Final }];
    let lost = Record::PilotLost { pilot: PilotId(1), why: "silent".into(), blamed, at: Time(99) };
    let mut records = beginning(9);
    records.push(lost);
    store.commit(&records).unwrap();
    assert_eq!(replayed(&store), records);
    let rows = store.reader().attempts(task).unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(row.failure, Some(scheduler::results::FailureKind::PilotLost));
    assert_eq!((row.started_at, row.ended_at, row.usage), (Time(99), Time(99), Usage::default()));
    assert!(row.is_final && row.exit_code.is_none());
}

#[test]
fn a_store_that_was_removed_acknowledges_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(4)).unwrap();
    std::fs::remove_file(folder.path().join(FILE)).unwrap();
    let refused = store.commit(&beginning(4));
    assert!(matches!(refused, Err(StoreError::Gone { .. })), "{refused:?}");
    assert!(store.commit(&beginning(4)).is_err(), "and never again");
}

#[test]
fn a_store_that_was_read_is_one_file_when_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(4)).unwrap();
    // The API's reader lives longer than the store.
    let reader = store.reader();
    reader.finished(JobId(1), 0..4, 4).unwrap();
    drop(store);
    let log = folder.path().join(format!("{FILE}-wal"));
    assert!(!log.exists(), "a copy of {FILE} alone would lack what was committed last");
}
