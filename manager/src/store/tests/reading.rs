//! Readers see what was committed, as a plain list of attempts would show it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    thread,
};

use proptest::prelude::*;
use scheduler::{
    digest::Digest,
    engine::record::{Blamed, FailedAttempt, Record, Verdict},
    ids::{JobId, PilotId, TaskId},
    ranges::TaskSet,
    results::{FailureKind, OutputFile, TaskFiles, TaskOutput, Usage},
    time::{Span, Time},
};

use super::{
    super::{AttemptRow, INDEX_MAX, Store, StoreError},
    open,
    records::{BORN_AT, beginning, kind, reported, result, verdict},
};

const N_PLACES: u64 = 60;

/// Places of tasks: dense ones, sparse ones, and the very last.
fn index(place: u64) -> u64 {
    match place {
        0..30 => place,
        30..50 => (place - 29) * 1000,
        _ => INDEX_MAX - (N_PLACES - 1 - place),
    }
}

#[derive(Clone, Debug)]
enum Outcome {
    Success(i32, Usage),
    Failed(FailureKind, Usage, Verdict),
    Lost(Verdict),
}

/// One pilot's report of a job.
#[derive(Clone, Debug)]
struct Step {
    pilot: PilotId,
    job: JobId,
    outcomes: BTreeMap<u64, Outcome>,
    outputs: Vec<TaskOutput>,
}

fn step() -> impl Strategy<Value = Step> {
    let times = || 0..10_000_000u64;
    let usage = || {
        (times(), times(), times(), 0..1u64 << 40).prop_map(|(started_us, wall_us, cpu_us, memory_bytes)| {
            Usage { started_us, wall_us, cpu_us, memory_bytes }
        })
    };
    let outcome = prop_oneof![
        6 => (prop_oneof![Just(0), any::<i32>()], usage())
            .prop_map(|(code, usage)| Outcome::Success(code, usage)),
        4 => (kind(), usage(), verdict()).prop_map(|(kind, usage, then)| Outcome::Failed(kind, usage, then)),
        1 => verdict().prop_map(Outcome::Lost),
    ];
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let output = (0..N_PLACES, bytes(), bytes());
    let output =
        output.prop_map(|(place, stdout, stderr)| TaskOutput { index: index(place), stdout, stderr });
    // Narrow or wide, as reports are.
    let place = (0..N_PLACES, 1..N_PLACES).prop_flat_map(|(from, width)| from..(from + width).min(N_PLACES));
    let outcomes = prop::collection::btree_map(place.prop_map(index), outcome, 0..20);
    let outputs = prop::collection::vec(output, 0..4);
    (1..5u64, 1..3u64, outcomes, outputs).prop_map(|(pilot, job, outcomes, outputs)| Step {
        pilot: PilotId(pilot),
        job: JobId(job),
        outcomes,
        outputs,
    })
}

/// All attempts and outputs as plain lists, in the order of their commits.
#[derive(Default)]
struct Plain {
    attempts: BTreeMap<(JobId, u64), Vec<AttemptRow>>,
    outputs: BTreeMap<(JobId, u64), TaskOutput>,
    done: BTreeSet<(JobId, u64)>,
}

impl Plain {
    /// Takes a step in as the engine would: a success is a task's last attempt.
    fn take(&mut self, step: Step, seq: u64) -> Vec<Record> {
        let Step { pilot, job, outcomes, outputs } = step;
        let at = Time(10_000_000 + seq);
        let (mut successes, mut failures, mut blamed) = (Vec::new(), Vec::new(), Vec::new());
        for (index, outcome) in outcomes {
            if self.done.contains(&(job, index)) {
                continue;
            }
            let attempts = self.attempts.entry((job, index)).or_default();
            let attempt = attempts.len() as u32 + 1;
            attempts.push(row(index, attempt, pilot, at, &outcome));
            match outcome {
                Outcome::Success(code, usage) => {
                    self.done.insert((job, index));
                    successes.push((index, code, usage));
                }
                Outcome::Failed(kind, usage, verdict) => {
                    failures.push(FailedAttempt { index, attempt, kind, usage, verdict });
                }
                Outcome::Lost(verdict) => {
                    blamed.push(Blamed { task: TaskId { job, index }, attempt, verdict });
                }
            }
        }
        for output in &outputs {
            self.outputs.insert((job, output.index), output.clone());
        }
        let mut result = result(job.0, successes, failures);
        result.outputs = outputs;
        let lost = Record::PilotLost { pilot, why: String::new(), blamed, at };
        vec![reported(pilot.0, seq, vec![result]), lost]
    }

    fn finished(&self, job: JobId, range: &Range<u64>, limit: usize) -> Vec<AttemptRow> {
        let of_job = self.attempts.iter().filter(|((of, index), _)| *of == job && range.contains(index));
        of_job.filter_map(|(_, attempts)| attempts.last()).take(limit).cloned().collect()
    }

    fn outputs(&self, job: JobId, range: &Range<u64>) -> Vec<(u64, TaskOutput)> {
        let of_job = self.outputs.iter().filter(|((of, index), _)| *of == job && range.contains(index));
        of_job.map(|((_, index), output)| (*index, output.clone())).collect()
    }
}

/// The row that a reader should show. Pilot 4 has never registered.
fn row(index: u64, attempt: u32, pilot: PilotId, at: Time, outcome: &Outcome) -> AttemptRow {
    let round = |value: u64, unit: u64| (value + unit / 2) / unit * unit;
    let (usage, exit_code, failure, is_final) = match outcome {
        Outcome::Success(code, usage) => {
            let usage = Usage {
                started_us: round(usage.started_us, 100),
                wall_us: round(usage.wall_us, 100),
                cpu_us: round(usage.cpu_us, 100),
                memory_bytes: round(usage.memory_bytes, 1024),
            };
            (Some(usage), Some(*code), None, true)
        }
        Outcome::Failed(kind, usage, verdict) => {
            let code = if let FailureKind::Exit { code } = kind { Some(*code) } else { None };
            (Some(*usage), code, Some(kind.clone()), *verdict == Verdict::Final)
        }
        Outcome::Lost(verdict) => (None, None, Some(FailureKind::PilotLost), *verdict == Verdict::Final),
    };
    let started_at = match usage {
        Some(usage) if pilot.0 < 4 => BORN_AT + Span(usage.started_us),
        Some(usage) => Time(at.0.saturating_sub(usage.wall_us)),
        None => at,
    };
    let ended_at = match usage {
        Some(usage) if pilot.0 < 4 => started_at + Span(usage.wall_us),
        _ => at,
    };
    let usage = usage.unwrap_or_default();
    AttemptRow { index, attempt, pilot, started_at, usage, exit_code, failure, is_final, ended_at }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pages_show_what_a_plain_list_shows(
        steps in prop::collection::vec(step(), 0..25),
        asked in prop::collection::vec((1..3u64, 0..N_PLACES, 0..N_PLACES, 0..30usize), 1..20),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path());
        let mut plain = Plain::default();
        let mut records = beginning(1 << 62);
        records.extend(steps.into_iter().zip(1..).flat_map(|(step, seq)| plain.take(step, seq)));
        store.commit(&records).unwrap();
        let reader = store.reader();
        for (job, from, to, limit) in asked {
            let (job, range) = (JobId(job), index(from)..index(to).saturating_add(1));
            prop_assert_eq!(reader.finished(job, range.clone(), limit).unwrap(), plain.finished(job, &range, limit));
            let expected = plain.outputs(job, &range);
            prop_assert_eq!(&reader.outputs(job, range.clone(), u64::MAX).unwrap(), &expected);
            let (mut paged, mut rest) = (Vec::new(), range);
            loop {
                let page = reader.outputs(job, rest.clone(), limit as u64).unwrap();
                let Some((last, _)) = page.last() else { break };
                rest.start = last + 1;
                let n_bytes_before_last: usize =
                    page[..page.len() - 1].iter().map(|(_, o)| o.stdout.len() + o.stderr.len()).sum();
                prop_assert!(page.len() == 1 || n_bytes_before_last < limit);
                paged.extend(page);
            }
            prop_assert_eq!(paged, expected);
        }
        for ((job, index), attempts) in &plain.attempts {
            prop_assert_eq!(&reader.attempts(TaskId { job: *job, index: *index }).unwrap(), attempts);
        }
    }
}

#[test]
fn attempts_count_on_when_a_failed_task_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let failed = |n| FailedAttempt {
        index: 3,
        attempt: n,
        kind: FailureKind::Exit { code: 1 },
        usage: Usage::default(),
        verdict: if n == 2 { Verdict::Final } else { Verdict::Retry { at: Time(1) } },
    };
    store.commit(&beginning(9)).unwrap();
    store.commit(&[reported(1, 1, vec![result(1, vec![], vec![failed(1)])])]).unwrap();
    store.commit(&[reported(1, 2, vec![result(1, vec![], vec![failed(2)])])]).unwrap();
    let tasks = [3].into_iter().collect();
    store.commit(&[Record::TasksReopened { job: JobId(1), tasks, at: Time(2) }]).unwrap();
    store.commit(&[reported(1, 3, vec![result(1, vec![(3, 0, Usage::default())], vec![])])]).unwrap();
    let attempts = store.reader().attempts(TaskId { job: JobId(1), index: 3 }).unwrap();
    let seen: Vec<_> = attempts.iter().map(|row| (row.attempt, row.exit_code, row.is_final)).collect();
    assert_eq!(seen, [(1, Some(1), false), (2, Some(1), true), (3, Some(0), true)]);
    let last = store.reader().finished(JobId(1), 0..9, 10).unwrap();
    assert_eq!(last, attempts[2..]);
}

#[test]
fn an_output_larger_than_a_chunk_comes_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let bytes = |n: usize, seed: usize| (0..n).map(|i| (i * 31 + seed) as u8).collect::<Vec<_>>();
    let large = |index| TaskOutput { index, stdout: bytes(700_000, 1), stderr: bytes(300_000, 2) };
    let mut all = result(1, vec![], vec![]);
    all.outputs = (0..4).map(large).collect();
    store.commit(&[reported(1, 1, vec![all])]).unwrap();
    let reader = store.reader();
    for index in 0..4 {
        assert_eq!(reader.outputs(JobId(1), index..index + 1, 0).unwrap(), [(index, large(index))]);
    }
    let page = reader.outputs(JobId(1), 0..u64::MAX, 1_500_000).unwrap();
    assert_eq!(page, [(0, large(0)), (1, large(1))]);
    let largest: usize = store
        .connection
        .query_row("SELECT max(length(frames)) FROM outputs", [], |row| row.get(0))
        .map(|n: i64| n as usize)
        .unwrap();
    assert!(largest <= 256 << 10, "{largest} bytes");
}

#[test]
fn a_damaged_output_is_refused_and_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let mut one = result(1, vec![], vec![]);
    one.outputs = vec![TaskOutput { index: 2, stdout: b"energy -7.2".to_vec(), stderr: Vec::new() }];
    store.commit(&[reported(1, 1, vec![one])]).unwrap();
    let damage = "UPDATE outputs SET frames = replace(frames, '7', '8')";
    store
        .connection
        .execute(&damage.replace("replace(frames, '7', '8')", "CAST(replace(frames, '7', '8') AS BLOB)"), [])
        .unwrap();
    let refused = store.reader().outputs(JobId(1), 0..9, 100).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
    assert!(refused.to_string().contains("record 1: a frame's checksum is wrong"), "{refused}");
}

fn written(index: u64, text: &str) -> TaskOutput {
    TaskOutput { index, stdout: text.into(), stderr: Vec::new() }
}

#[test]
fn around_a_damaged_output_the_others_are_read_and_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    for (seq, outputs) in [
        (1, vec![written(1, "good")]),
        (2, vec![written(2, "good"), written(3, "spoilt"), written(4, "behind it")]),
        (3, vec![written(5, "good")]),
    ] {
        let mut one = result(1, vec![], vec![]);
        one.outputs = outputs;
        store.commit(&[reported(1, seq, vec![one])]).unwrap();
    }
    let damage = "UPDATE outputs SET frames = CAST(replace(frames, 'spoilt', 'spOilt') AS BLOB)";
    store.connection.execute(damage, []).unwrap();
    let page = store.reader().outputs_around_damage(JobId(1), 0..9, 100).unwrap();
    let indices = |found: &[(u64, TaskOutput)]| found.iter().map(|(index, _)| *index).collect::<Vec<_>>();
    assert_eq!((indices(&page.found), page.damaged), (vec![1, 2, 5], vec![(2, 4)]));
    let arrivals = store.reader().arrivals(JobId(1), None, 0, 1000).unwrap();
    let arrived: Vec<u64> = arrivals.arrived.iter().map(|arrived| arrived.output.index).collect();
    assert_eq!((arrived, arrivals.damaged), (vec![1, 2, 5], vec![(2, 4)]));
}

#[test]
fn arrivals_come_in_order_and_page_by_page_with_the_attempts_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let failure = |index, attempt, verdict| FailedAttempt {
        index,
        attempt,
        kind: FailureKind::Exit { code: 1 },
        usage: Usage::default(),
        verdict,
    };
    let long = "x".repeat(700_000);
    let retry = Verdict::Retry { at: Time(9) };
    for (seq, job, failures, outputs) in [
        (1, 1, vec![failure(7, 1, retry)], vec![written(7, "first"), written(9, &long)]),
        (2, 2, vec![], vec![written(7, "of another job")]),
        (3, 1, (3..8).map(|n| failure(n, 2, Verdict::Final)).collect(), vec![written(7, "last")]),
    ] {
        let mut one = result(job, vec![], failures);
        one.outputs = outputs;
        store.commit(&[reported(1, seq, vec![one])]).unwrap();
    }
    let reader = store.reader();
    let shown = |arrivals: &crate::store::Arrivals| {
        let one = |a: &crate::store::Arrived| {
            (a.output.index, a.output.stdout.len(), a.failed_attempt, a.is_final_failure)
        };
        arrivals.arrived.iter().map(one).collect::<Vec<_>>()
    };
    let (first, large, last) = ((7, 5, Some(1), false), (9, 700_000, None, false), (7, 4, Some(2), true));
    let all = reader.arrivals(JobId(1), None, 0, u64::MAX).unwrap();
    assert_eq!((shown(&all), all.is_more), (vec![first, large, last], false));
    let (mut after, mut pages) = (0, Vec::new());
    loop {
        let page = reader.arrivals(JobId(1), None, after, 1).unwrap();
        pages.push(shown(&page));
        after = page.after;
        if !page.is_more {
            break;
        }
    }
    // The long one begins in the row of the first, and goes on in others.
    assert_eq!(pages, [vec![first, large], vec![last]], "a long output is not cut between two answers");
    assert_eq!(after, all.after);
    let only = reader.arrivals(JobId(1), Some(&TaskSet::from(7..8)), 0, u64::MAX).unwrap();
    assert_eq!(shown(&only), [first, last]);
    assert_eq!(reader.arrivals(JobId(1), None, all.after, 1).unwrap().arrived, []);
    assert!(reader.output_bytes(JobId(1)).unwrap() > 700_009);
}

#[test]
fn tasks_that_wrote_more_than_is_kept_are_counted_by_their_last_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(10)).unwrap();
    let output = |index: u64, n_out: usize, n_err: usize| TaskOutput {
        index,
        stdout: vec![b'o'; n_out],
        stderr: vec![b'e'; n_err],
    };
    let mut seq = 0;
    let mut report = |store: &mut Store, job: u64, outputs: Vec<TaskOutput>| {
        seq += 1;
        let mut one = result(job, vec![], vec![]);
        one.outputs = outputs;
        store.commit(&[reported(1, seq, vec![one])]).unwrap();
    };
    let (mib, over) = (1 << 20, (1 << 20) + 31);
    report(&mut store, 1, vec![output(0, mib, 50), output(1, over, 0), output(2, 5, over), output(3, 9, 0)]);
    report(&mut store, 1, vec![output(4, over, over), output(5, 1000, 0), output(7, over, 1)]);
    report(&mut store, 2, vec![output(3, over, 0)]);
    let reader = store.reader();
    let n_cut = |job: u64, limit: usize| reader.cut_outputs(JobId(job), limit as u64).unwrap();
    assert_eq!((n_cut(1, mib), n_cut(2, mib), n_cut(3, mib)), (3, 1, 0), "1, 4 and 7");
    assert_eq!((n_cut(1, 999), n_cut(1, 1000), n_cut(1, 8), n_cut(1, 4)), (5, 4, 6, 7));
    // They run again: the last attempt counts.
    report(&mut store, 1, vec![output(1, 10, 0), output(3, over, 0)]);
    report(&mut store, 1, vec![output(7, mib, 0)]);
    assert_eq!(n_cut(1, mib), 2, "3 and 4");
}

#[test]
fn it_is_told_which_digests_no_file_has_that_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(10)).unwrap();
    let file = |n: u8| OutputFile {
        to: format!("out/{n}"),
        sha256: Digest([n; 32]),
        bytes: 1,
        ..OutputFile::default()
    };
    for (seq, n) in [(1, 7), (2, 9)] {
        let mut left = result(1, vec![(seq, 0, Usage::default())], vec![]);
        left.files = vec![TaskFiles { index: seq, files: vec![file(n), file(8)] }];
        store.commit(&[reported(1, seq, vec![left])]).unwrap();
    }
    let left_by_none = |asked: &[u8]| {
        let asked = asked.iter().map(|n| Digest([*n; 32])).collect();
        let found = store.reader().left_by_none(asked).unwrap();
        found.into_iter().map(|sha256| sha256.0[0]).collect::<Vec<_>>()
    };
    assert_eq!(left_by_none(&[5, 7, 8, 9, 11]), [5, 11]);
    assert!(left_by_none(&[8]).is_empty() && left_by_none(&[]).is_empty());
    // Another digest that looks as good must not have the file removed.
    store.connection.execute("UPDATE files SET sha256 = replace(sha256, '07', '06')", []).unwrap();
    let refused = store.reader().left_by_none([Digest([7; 32])].into()).unwrap_err().to_string();
    assert!(refused.contains("the checksum of a file that a task has left is wrong"), "{refused}");
}

#[test]
fn files_that_were_left_out_are_told_of_their_task_and_executable_ones_stay_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(10)).unwrap();
    let tool = OutputFile { to: "tool".into(), executable: true, bytes: 1, ..OutputFile::default() };
    let link =
        OutputFile { to: "link".into(), left_out: Some("it leads out".into()), ..OutputFile::default() };
    let mut left = result(1, vec![(3, 0, Usage::default()), (4, 0, Usage::default())], vec![]);
    left.files = vec![
        TaskFiles { index: 3, files: vec![tool.clone(), link.clone()] },
        TaskFiles { index: 4, files: vec![tool.clone()] },
    ];
    store.commit(&[reported(1, 1, vec![left])]).unwrap();
    let files = |store: &Store| {
        let files = store.reader().files(JobId(1), Some(3), 0, 9).unwrap();
        files.into_iter().map(|(.., file)| file).collect::<Vec<_>>()
    };
    let left_out =
        |store: &Store, index| store.reader().left_out(TaskId { job: JobId(1), index }, 9).unwrap();
    assert_eq!(files(&store), [tool.clone(), link.clone()]);
    assert_eq!(store.reader().file_at(JobId(1), "tool").unwrap(), Some((4, tool)));
    assert_eq!(store.reader().file_at(JobId(1), "link").unwrap(), None, "nobody can take it");
    assert_eq!((left_out(&store, 3), left_out(&store, 4)), (vec![link], vec![]));
}

#[test]
fn readers_work_beside_the_writer_and_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.commit(&beginning(1000)).unwrap();
    let reader = store.reader();
    thread::scope(|scope| {
        for _ in 0..4 {
            let reader = reader.clone();
            scope.spawn(move || {
                let mut n_seen = 0;
                while n_seen < 50 {
                    let n = reader.finished(JobId(1), 0..1000, 1000).unwrap().len();
                    assert!(n >= n_seen, "{n} after {n_seen}");
                    n_seen = n;
                }
            });
        }
        for seq in 1..=50 {
            let success = (seq, 0, Usage::default());
            store.commit(&[reported(1, seq, vec![result(1, vec![success], vec![])])]).unwrap();
        }
    });
    let n_bytes = reader.size_bytes().unwrap();
    assert!((100_000..10_000_000).contains(&n_bytes), "{n_bytes} bytes");
}
