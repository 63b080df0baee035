//! Stores that older versions wrote are read as they were meant.
//!
//! With `PILOTFISH_WRITE_GOLDEN` set, `golden_stores_are_read_as_they_were_meant` first writes the
//! store of the newest version anew. Those of older versions are never written again.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use scheduler::{
    engine::record::{Blamed, CancelCause, DrainCause, FailedAttempt, Record, Verdict},
    ids::{AllocationId, JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::{FailureKind, TaskOutput, Usage},
    time::{Span, Time},
};

use super::{
    super::{FILE, Store},
    applied, open,
    records::{beginning, reported, result},
    replayed,
};

fn golden(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/store-v{version}.sqlite"))
}

/// Every kind of record.
fn history() -> Vec<Record> {
    let usage = |n: u64| Usage {
        started_us: 100_000 * n,
        wall_us: 12_300 + 100 * n,
        cpu_us: 11_000,
        memory_bytes: 3 << 20,
    };
    let failed =
        |index, attempt, kind, verdict| FailedAttempt { index, attempt, kind, usage: usage(index), verdict };
    let retry = Verdict::Retry { at: Time(20_000_000) };
    let mut first = result(
        1,
        vec![(0, 0, usage(0)), (1, 3, usage(1)), (2, 0, usage(2)), (9, 0, usage(9))],
        vec![failed(3, 1, FailureKind::Exit { code: 7 }, retry)],
    );
    first.outputs = vec![
        TaskOutput { index: 1, stdout: b"affinity -7.2\n".to_vec(), stderr: b"slow\n".to_vec() },
        TaskOutput { index: 3, stdout: Vec::new(), stderr: b"no ligand\n".to_vec() },
    ];
    let limit = Span::from_secs(600);
    let second = result(2, vec![], vec![failed(4, 1, FailureKind::TimeLimit { limit }, Verdict::Final)]);
    let mut third = result(1, vec![(3, 0, usage(30))], vec![]);
    third.outputs = vec![TaskOutput { index: 3, stdout: b"affinity -6.9\n".to_vec(), stderr: Vec::new() }];
    let blamed = |index, verdict| Blamed { task: TaskId { job: JobId(1), index }, attempt: 1, verdict };
    let (job, at) = (JobId(2), Time(30_000_000));
    let ended = |n| Record::AllocationEnded { allocation: AllocationId(n), why: "ended".into(), at };
    let mut records = beginning(20);
    records.extend([
        Record::AllocationSubmitted { allocation: AllocationId(1), batch_id: "4711".into(), at },
        Record::AllocationUnknown { allocation: AllocationId(2), what: "no answer".into(), at },
        reported(1, 1, vec![first, second]),
        reported(1, 2, vec![]),
        Record::JobPaused { job, at },
        Record::TasksCancelled {
            job,
            tasks: TaskSet::from(10..20),
            cause: CancelCause::User("ada".into()),
            at,
        },
        Record::TasksReopened { job, tasks: [4, 12].into_iter().collect(), at },
        Record::JobResumed { job: JobId(1), at },
        Record::PilotLost {
            pilot: PilotId(2),
            why: "silent".into(),
            blamed: vec![blamed(5, retry), blamed(6, Verdict::Final)],
            at,
        },
        Record::PilotReturned { pilot: PilotId(2), at },
        Record::PilotDrained { pilot: PilotId(2), why: DrainCause::Idle(Span::from_secs(60)), at },
        Record::PilotLeft { pilot: PilotId(3), why: "walltime".into(), at },
        reported(2, 1, vec![third]),
        ended(3),
    ]);
    records
}

/// What a store says, in words that do not change with our types.
fn summary(store: &Store) -> String {
    let records = replayed(store);
    let durable = applied(&records);
    let mut text = format!("{} records, epoch {}\n", records.len(), store.epoch());
    for (id, job) in durable.jobs() {
        let (failed, cancelled, open) = (&job.failed, &job.cancelled, &job.open);
        let (n_failed, wall_us) = (job.n_failed_attempts, job.totals.wall_us);
        let (user, state, n_done) = (&job.request.user, job.state(), job.n_done());
        writeln!(
            text,
            "job {id} of {user}: {state}, {n_done} done in {wall_us} us, open {open}, failed {failed}, \
             cancelled {cancelled}, {n_failed} failed attempts"
        )
        .unwrap();
    }
    for (id, allocation) in durable.allocations() {
        let (tag, batch_id, state) = (&allocation.tag, &allocation.batch_id, &allocation.state);
        writeln!(text, "allocation {id}: {tag}, {batch_id:?}, {state:?}").unwrap();
    }
    for (id, pilot) in durable.pilots() {
        let (seq, n_done, n_failed) = (pilot.acknowledged, pilot.n_done, pilot.n_failed);
        let (host, ended, is_drained) = (&pilot.node.hostname, &pilot.ended, pilot.drain.is_some());
        writeln!(
            text,
            "pilot {id} on {host}: {n_done} done, {n_failed} failed, report {seq}, ended {ended:?}, \
             drained {is_drained}"
        )
        .unwrap();
    }
    for job in [JobId(1), JobId(2)] {
        for row in store.reader().finished(job, 0..20, 100).unwrap() {
            let (index, attempt, pilot, at) = (row.index, row.attempt, row.pilot, row.started_at.0);
            let (wall_us, code) = (row.usage.wall_us, row.exit_code);
            let failure = row.failure.map_or("success".to_owned(), |kind| kind.to_string());
            writeln!(
                text,
                "task {job}.{index}: attempt {attempt} on {pilot} at {at}, {wall_us} us, {code:?}, {failure}"
            )
            .unwrap();
        }
        for (index, output) in store.reader().outputs(job, 0..20, 1000).unwrap() {
            let (stdout, stderr) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            writeln!(text, "output {job}.{index}: {stdout:?}, {stderr:?}").unwrap();
        }
    }
    text
}

const EXPECTED: &str = r#"24 records, epoch 2
job 1 of ada: active, 5 done in 65700 us, open 4-5,7-8,10-19, failed 6, cancelled , 3 failed attempts
job 2 of ada: paused, 0 done in 0 us, open 0-9,12, failed , cancelled 10-11,13-19, 1 failed attempts
job 3 of ada: active, 0 done in 0 us, open 0-19, failed , cancelled , 0 failed attempts
allocation 1: pf1, Some("4711"), Submitted
allocation 2: pf2, None, Unknown("no answer")
allocation 3: pf3, None, Ended("ended")
pilot 1 on node7: 4 done, 2 failed, report 2, ended None, drained false
pilot 2 on node7: 1 done, 0 failed, report 1, ended None, drained true
pilot 3 on node7: 0 done, 0 failed, report 0, ended Some((Time(30000000), "walltime")), drained false
task 1.0: attempt 1 on 1 at 1000000, 12300 us, Some(0), success
task 1.1: attempt 1 on 1 at 1100000, 12400 us, Some(3), success
task 1.2: attempt 1 on 1 at 1200000, 12500 us, Some(0), success
task 1.3: attempt 2 on 2 at 4000000, 15300 us, Some(0), success
task 1.5: attempt 1 on 2 at 30000000, 0 us, None, the pilot vanished while it ran
task 1.6: attempt 1 on 2 at 30000000, 0 us, None, the pilot vanished while it ran
task 1.9: attempt 1 on 1 at 1900000, 13200 us, Some(0), success
output 1.1: "affinity -7.2\n", "slow\n"
output 1.3: "affinity -6.9\n", ""
task 2.4: attempt 1 on 1 at 1400000, 12700 us, None, ran longer than its time limit of 10m 00s
"#;

#[test]
fn golden_stores_are_read_as_they_were_meant() {
    let folder = tempfile::tempdir().unwrap();
    if std::env::var_os("PILOTFISH_WRITE_GOLDEN").is_some() {
        let fresh = tempfile::tempdir().unwrap();
        open(fresh.path()).commit(&history()).unwrap();
        fs::write(golden(1), fs::read(fresh.path().join(FILE)).unwrap()).unwrap();
    }
    fs::copy(golden(1), folder.path().join(FILE)).unwrap();
    assert_eq!(summary(&open(folder.path())), EXPECTED);
}

#[test]
fn a_new_store_reads_like_the_golden_one() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).commit(&history()).unwrap();
    assert_eq!(summary(&open(folder.path())), EXPECTED);
}
