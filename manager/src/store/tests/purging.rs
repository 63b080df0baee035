//! The store removes rows of purged jobs, and no others.

use scheduler::{
    digest::Digest,
    engine::record::Record,
    ids::JobId,
    results::{OutputFile, TaskFiles, TaskOutput},
    time::Time,
};

use super::{
    super::{FILE, Store, check},
    open,
    records::{beginning, reported, result},
    replayed,
};

/// Commits an output of two rows and a file of a task of the job.
fn leave(store: &mut Store, job: u64, seq: u64) {
    let mut result = result(job, vec![], vec![]);
    result.outputs = vec![TaskOutput { index: seq, stdout: vec![b'x'; 300 << 10], stderr: Vec::new() }];
    let file = OutputFile {
        to: format!("{seq}.out"),
        sha256: Digest([seq as u8; 32]),
        bytes: 7,
        ..OutputFile::default()
    };
    result.files = vec![TaskFiles { index: seq, files: vec![file] }];
    store.commit(&[reported(job, seq, vec![result])]).unwrap();
}

fn purge(store: &mut Store, job: u64) {
    store.commit(&[Record::JobPurged { job: JobId(job), by: "ada".into(), at: Time(90_000_000) }]).unwrap();
}

#[test]
fn rows_of_a_purged_job_are_removed_in_steps_and_the_store_stays_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(200)).unwrap();
    for seq in 0..100 {
        leave(&mut store, 1, seq);
    }
    leave(&mut store, 2, 0);
    assert_eq!(store.purged_and_left().unwrap(), []);
    purge(&mut store, 1);
    purge(&mut store, 3);
    let before = replayed(&store);
    assert_eq!(store.purged_and_left().unwrap(), [JobId(1)]);
    let mut n_steps = 0;
    loop {
        n_steps += 1;
        let is_more = store.remove_purged(JobId(1)).unwrap();
        drop(store);
        assert_eq!(check(folder.path(), 9).unwrap().found, Vec::<String>::new(), "after step {n_steps}");
        store = open(folder.path());
        if !is_more {
            break;
        }
    }
    assert!(n_steps > 2, "{n_steps}");
    assert_eq!(store.purged_and_left().unwrap(), []);
    assert_eq!(store.output_bytes(JobId(1)).unwrap(), 0);
    assert!(store.output_bytes(JobId(2)).unwrap() > 300 << 10);
    assert_eq!(store.reader().files(JobId(1), None, 0, 100).unwrap(), []);
    assert_eq!(store.reader().files(JobId(2), None, 0, 100).unwrap().len(), 1);
    assert_eq!(replayed(&store), before, "its records stay");
    // The removal of rows of a job that was not purged is noticed.
    drop(store);
    let rows = rusqlite::Connection::open(folder.path().join(FILE)).unwrap();
    rows.execute("DELETE FROM files WHERE job = 2", []).unwrap();
    drop(rows);
    assert_eq!(check(folder.path(), 9).unwrap().found.len(), 1);
}

#[test]
fn newest_rows_stay_until_there_are_newer_ones_so_that_no_id_is_given_out_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(200)).unwrap();
    leave(&mut store, 1, 0);
    let newest = |store: &Store| store.reader().files(JobId(1), None, 0, 9).unwrap().last().map(|row| row.0);
    let before = newest(&store);
    purge(&mut store, 1);
    assert!(!store.remove_purged(JobId(1)).unwrap(), "nothing more may be removed");
    assert_eq!((newest(&store), store.purged_and_left().unwrap()), (before, vec![]));
    leave(&mut store, 2, 0);
    assert!(store.reader().files(JobId(2), None, 0, 9).unwrap()[0].0 > before.unwrap());
    assert_eq!(store.purged_and_left().unwrap(), [JobId(1)]);
    assert!(!store.remove_purged(JobId(1)).unwrap());
    assert_eq!((newest(&store), store.output_bytes(JobId(1)).unwrap()), (None, 0));
}
