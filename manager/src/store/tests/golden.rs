//! Stores that older versions wrote are read as they were meant.
//!
//! With `PILOTFISH_WRITE_GOLDEN` set, `golden_stores_are_read_as_they_were_meant` first writes the
//! store of the newest version anew. Those of older versions are never written again.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use scheduler::{
    digest::Digest,
    engine::{
        Engine,
        interface::{
            PlatformMode, QueueLoad, ScalingWay,
            declared_profile::{Declared, JobType},
            platform::scaling::{Provider, Ratio, ScalingChange},
            settings::Settings,
            users::{TokenId, UserToken},
            views::weights::{KindView, WeightCause, WeightChange, WeightView},
        },
        record::{
            Blamed, CancelCause, DrainCause, FailedAttempt, Record, Verdict,
            co_runners::{CoRunTimes, CoRunners},
            provision_reason::{Compared, ProvisionReason},
            resource_use::ResourceUse,
            weight_policy::{TaskClass, WeightPolicyState},
        },
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    policy::{
        Policies,
        allocation::Allocation,
        distribution::{LoadAndError, WeightMatrix},
        scaling::{Seen, Why},
        table::Table,
    },
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, OutputFile, TaskFiles, TaskOutput, Usage},
    time::{Span, Time},
};

use super::{
    super::{FILE, Store, StoreError, check},
    applied, open,
    records::{beginning, job_accepted, reported, result},
    replayed,
};

fn golden(version: i64) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/store-v{version}.sqlite"))
}

/// Every kind of record.
pub(super) fn history() -> Vec<Record> {
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
    let file = OutputFile {
        to: "poses/9.pdbqt".into(),
        sha256: Digest([0xab; 32]),
        bytes: 1234,
        ..OutputFile::default()
    };
    first.files = vec![TaskFiles { index: 9, files: vec![file] }];
    let limit = Span::from_secs(600);
    let second = result(2, vec![], vec![failed(4, 1, FailureKind::TimeLimit { limit }, Verdict::Final)]);
    let mut third = result(1, vec![(3, 0, usage(30))], vec![]);
    third.outputs = vec![TaskOutput { index: 3, stdout: b"affinity -6.9\n".to_vec(), stderr: Vec::new() }];
    let blamed = |index, verdict| Blamed { task: TaskId { job: JobId(1), index }, attempt: 1, verdict };
    let (job, at) = (JobId(2), Time(30_000_000));
    let ended = |n| Record::AllocationEnded {
        allocation: AllocationId(n),
        why: "ended".into(),
        cause: None,
        was_unlisted: false,
        at,
    };
    let mut records = beginning(20);
    records.extend([
        Record::AllocationSubmitted {
            allocation: AllocationId(1),
            batch_id: "4711".into(),
            was_listed: false,
            at,
        },
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
        Record::BlameTakenBack { pilot: PilotId(2), tasks: vec![(JobId(1), TaskSet::from(5..6))], at },
        Record::PilotDrained { pilot: PilotId(2), why: DrainCause::Idle(Span::from_secs(60)), at },
        Record::PilotLeft { pilot: PilotId(3), why: "walltime".into(), at },
        reported(2, 1, vec![third]),
        Record::AllocationShrunk { allocation: AllocationId(1), n_nodes: 1, at },
        Record::AllocationReleased { allocation: AllocationId(1), why: "idle".into(), at },
        Record::PlatformModeSet { platform: PlatformId(1), mode: PlatformMode::Draining, at },
        Record::ProfileForgotten { application: "autodock-vina".into(), at },
        policies_set(at),
        profile_declared(at),
        beside_measured(at),
        weights_moved(at),
        efforts_measured(at),
        ended(3),
        reported(
            2,
            2,
            vec![result(
                3,
                vec![],
                all_failures().map(|(index, kind)| failed(index, 1, kind, retry)).to_vec(),
            )],
        ),
    ]);
    records.extend(scaled(at));
    records.extend(tokens(at));
    records.extend([job_accepted(9, 1), Record::JobPurged { job: JobId(9), by: "ada".into(), at }]);
    records
}

/// Every kind of failure.
fn all_failures() -> [(u64, FailureKind); 12] {
    let what = || "words".to_owned();
    [
        (0, FailureKind::Exit { code: -1 }),
        (1, FailureKind::Signal { signal: 11 }),
        (2, FailureKind::TimeLimit { limit: Span::from_secs(1) }),
        (3, FailureKind::MemoryLimit { limit_bytes: 1 << 30 }),
        (4, FailureKind::Start { what: what() }),
        (5, FailureKind::Node { what: what() }),
        (6, FailureKind::Walltime),
        (7, FailureKind::PilotLost),
        (8, FailureKind::Preempted),
        (9, FailureKind::BadAnswer { what: what() }),
        (10, FailureKind::Transfer { what: what() }),
        (11, FailureKind::OutputMissing { file: what() }),
    ]
}

/// Kinds of records.
pub(super) const N_KINDS: usize = 33;

/// Where a kind of record is among all of them: one that is new has no place until it is given one here,
/// and then the golden store lacks it.
pub(super) fn place(record: &Record) -> usize {
    match record {
        Record::PlatformAttached { .. } => 0,
        Record::JobAccepted { .. } => 1,
        Record::JobPaused { .. } => 2,
        Record::JobResumed { .. } => 3,
        Record::TasksCancelled { .. } => 4,
        Record::TasksReopened { .. } => 5,
        Record::Reported { .. } => 6,
        Record::AllocationIntended { .. } => 7,
        Record::AllocationSubmitted { .. } => 8,
        Record::AllocationUnknown { .. } => 9,
        Record::AllocationReleased { .. } => 10,
        Record::AllocationEnded { .. } => 11,
        Record::PilotRegistered { .. } => 12,
        Record::PilotDrained { .. } => 13,
        Record::PilotLeft { .. } => 14,
        Record::PilotLost { .. } => 15,
        Record::PilotReturned { .. } => 16,
        Record::PlatformModeSet { .. } => 17,
        Record::ProfileForgotten { .. } => 18,
        Record::AllocationShrunk { .. } => 19,
        Record::PoliciesSet { .. } => 20,
        Record::ProfileDeclared { .. } => 21,
        Record::BesideMeasured { .. } => 22,
        Record::PlatformScaled { .. } => 23,
        Record::RatiosFound { .. } => 24,
        Record::RatiosRestored { .. } => 25,
        Record::WeightsMoved { .. } => 26,
        Record::EffortsMeasured { .. } => 27,
        Record::BlameTakenBack { .. } => 28,
        Record::TokenMade { .. } => 29,
        Record::TokensRevoked { .. } => 30,
        Record::TokensUsed { .. } => 31,
        Record::JobPurged { .. } => 32,
    }
}

fn beside_measured(at: Time) -> Record {
    let beside = |company, n| CoRunTimes { application: "montage".into(), company, n, wall_us: 7_000_000 };
    let beside = vec![beside(CoRunners::Nobody, 1), beside(CoRunners::Full(vec!["blast".into()]), 2)];
    Record::BesideMeasured { platform: PlatformId(1), beside, at }
}

/// The use of resources other than cores.
pub(super) fn efforts_measured(at: Time) -> Record {
    let effort = ResourceUse {
        application: "blast".into(),
        n: 4,
        io_bytes: 1 << 33,
        prepared_us: 5000,
        starved_us: 0,
    };
    Record::EffortsMeasured { platform: PlatformId(1), efforts: vec![effort], moved: Vec::new(), at }
}

/// Why an allocation was asked for.
pub(super) fn because() -> ProvisionReason {
    let load = QueueLoad { free_cores: 1, cores: 8, n_waiting: 2, waiting_cores: 9 };
    let with = vec![("here".to_owned(), Span::from_secs(4), Some(Span::from_secs(5)))];
    let compared = Compared { policy: "tla".into(), without: None, with };
    ProvisionReason { n_wanted: 3, load: Some(load), compared: Some(compared), walltime: None }
}

/// Weights of an application on two platforms, and a law that has seen two jobs.
pub(super) fn weights_moved(at: Time) -> Record {
    let weight = |platform: &str, weight: f64| WeightView {
        platform: platform.into(),
        weight,
        before: Some(0.5),
        n_left: 3,
        n_slots: 4,
        mean: Some(Span::from_secs(7)),
        is_declared: false,
        guess: None,
        error_rate: 0.25,
        rate: Some(0.5),
        is_late: false,
    };
    let platforms = vec![weight("here", 0.75), weight("there", 0.25)];
    let kind = TaskClass { application: "blast".into(), needs: Resources::cores(1) };
    let (application, needs) = (kind.application.clone(), kind.needs.clone());
    let causes = vec![
        WeightCause::First,
        WeightCause::Platforms { before: vec!["here".into()] },
        WeightCause::Slots { platform: "here".into(), before: 2 },
        WeightCause::Mean { platform: "here".into(), before: None, guessed: None },
        WeightCause::Errors { platform: "there".into(), before: 0.125 },
        WeightCause::Load { queued: vec![("here".into(), 9)], threshold: 4.5 },
        WeightCause::Work { before: 8 },
    ];
    let change = WeightChange { at, kind: KindView { application, needs, n_ready: 6, platforms }, causes };
    let matrix = WeightMatrix::of(&Table::new(1, 2, 1.0));
    let mut law = LoadAndError::new(matrix, 0.125, 4);
    law.remember(5);
    let platforms = vec![PlatformId(1), PlatformId(2)];
    let law = WeightPolicyState { platforms, kinds: vec![kind], law, last: JobId(2), queued: vec![9, 0] };
    Record::WeightsMoved { changes: vec![change], law: Some(law), at }
}

fn scaled(at: Time) -> [Record; 3] {
    let (platform, by) = (PlatformId(1), ScalingWay::Placement);
    let seen = Seen { n_ended: 40, n_failed: 1, n_queued: 99, cpu: Span(7), wall: Span(9) };
    let (before, after) = (Ratio::ONE, Ratio(2500));
    let change = ScalingChange { at, before, after, by, why: Why::Room, seen, n_cores: 8 };
    let provider = Provider { id: "b1".into(), name: "host".into(), ratio: "16.0".into() };
    [
        Record::PlatformScaled { platform, change },
        Record::RatiosFound { platform, providers: vec![provider], at },
        Record::RatiosRestored { platform, ids: vec!["b1".into()], at },
    ]
}

/// A token that is made, revoked and used.
pub(super) fn tokens(at: Time) -> [Record; 3] {
    let id = TokenId::new([1, 2, 3, 4, 5, 6]);
    let token = UserToken {
        id,
        sha256: Digest([0xcd; 32]),
        era: 7,
        user: "ann".into(),
        is_operator: false,
        by: "ada".into(),
        expires_at: Some(Time(90_000_000)),
    };
    [
        Record::TokenMade { token, at },
        Record::TokensRevoked { ids: vec![id], by: "ada".into(), at },
        Record::TokensUsed { used: vec![(id, at)], at },
    ]
}

fn policies_set(at: Time) -> Record {
    let configured = Policies::default();
    let policies = Policies { allocation: Some(Allocation::PaRr { unit_cores: 4 }), ..configured };
    Record::PoliciesSet { by: "ada".into(), configured, before: configured, policies, at }
}

fn profile_declared(at: Time) -> Record {
    let times = [("here".to_owned(), Span::from_secs(12))].into();
    let declared = Declared { job_type: Some(JobType::IoBound), times, ..Declared::default() };
    Record::ProfileDeclared { application: "blast".into(), declared: Some(declared), at }
}

/// The same of failures.
fn failure_place(kind: &FailureKind) -> usize {
    match kind {
        FailureKind::Exit { .. } => 0,
        FailureKind::Signal { .. } => 1,
        FailureKind::TimeLimit { .. } => 2,
        FailureKind::MemoryLimit { .. } => 3,
        FailureKind::Start { .. } => 4,
        FailureKind::Node { .. } => 5,
        FailureKind::Walltime => 6,
        FailureKind::PilotLost => 7,
        FailureKind::Preempted => 8,
        FailureKind::BadAnswer { .. } => 9,
        FailureKind::Transfer { .. } => 10,
        FailureKind::OutputMissing { .. } => 11,
    }
}

/// Describes the contents of a store in words that do not change with our types.
fn summary(store: &Store) -> String {
    let records = replayed(store);
    let durable = applied(&records);
    let mut text = format!("{} records\n", records.len());
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
        for (index, trouble) in job.troubled.iter().filter(|(_, trouble)| !trouble.lost_with.is_empty()) {
            writeln!(text, "lost with task {id}.{index}: {:?}", trouble.lost_with).unwrap();
        }
    }
    for id in durable.platforms().keys() {
        writeln!(text, "platform {id}: {:?}", durable.mode(*id)).unwrap();
    }
    for (id, held) in durable.platforms().keys().filter_map(|id| Some((id, durable.scaled(*id)?))) {
        let told = held.changes.iter().map(|change| change.told()).collect::<Vec<_>>().join("; ");
        writeln!(
            text,
            "platform {id}: {} by {:?}, {} known hosts: {told}",
            held.ratio,
            held.by,
            held.former.len()
        )
        .unwrap();
    }
    for change in durable.policy_changes() {
        writeln!(text, "{} set the allocation {:?}", change.by, change.policies.allocation).unwrap();
    }
    for change in durable.weights().changes() {
        let share = |one: &WeightView| format!("{} of {}", one.weight, one.platform);
        let shares: Vec<String> = change.kind.platforms.iter().map(share).collect();
        let (name, causes) = (&change.kind.application, &change.causes);
        writeln!(text, "weights of {name}: {}, by {causes:?}", shares.join(" and ")).unwrap();
    }
    if let Some(state) = durable.weights().law() {
        writeln!(text, "LOAD knows jobs to {}, threshold {}", state.last, state.law.threshold()).unwrap();
    }
    for (application, declared) in durable.declared() {
        let (job_type, times) = (declared.job_type, &declared.times);
        writeln!(text, "{application} is said to be {job_type:?} and to take {times:?}").unwrap();
    }
    for (company, known) in durable.neighbours().of(PlatformId(1), "montage").into_iter().flatten() {
        writeln!(text, "montage beside {company:?}: {} of {} s", known.n, known.mean_s()).unwrap();
    }
    for (platform, application, known) in
        durable.learned().iter().flat_map(|(id, all)| all.iter().map(move |(name, known)| (id, name, known)))
    {
        let (n_done, n_failed) = (known.n_done, known.n_failed);
        writeln!(text, "{application} on platform {platform}: {n_done} done, {n_failed} failed").unwrap();
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
    for job in [1, 2, 3].map(JobId) {
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
        for (_, index, OutputFile { to, sha256, bytes, .. }) in
            store.reader().files(job, None, 0, 100).unwrap()
        {
            writeln!(text, "file {job}.{index}: {to}, {bytes} bytes of {sha256}").unwrap();
        }
    }
    text
}

const EXPECTED: &str = r#"43 records
job 1 of ada: active, 5 done in 65700 us, open 4-5,7-8,10-19, failed 6, cancelled , 3 failed attempts
lost with task 1.6: [PilotId(2)]
job 2 of ada: paused, 0 done in 0 us, open 0-9,12, failed , cancelled 10-11,13-19, 1 failed attempts
job 3 of ada: active, 0 done in 0 us, open 0-19, failed , cancelled , 12 failed attempts
lost with task 3.7: [PilotId(2)]
platform 1: Draining
platform 1: 2.5 by Placement, 0 known hosts: tasks leave CPU time unused, or few failed, and more wait (40 attempts ended, 1 of them failed, its CPUs 78 % of the time; tasks for 99 slots, 8 cores)
ada set the allocation Some(PaRr { unit_cores: 4 })
weights of blast: 0.75 of here and 0.25 of there, by [First, Platforms { before: ["here"] }, Slots { platform: "here", before: 2 }, Mean { platform: "here", before: None, guessed: None }, Errors { platform: "there", before: 0.125 }, Load { queued: [("here", 9)], threshold: 4.5 }, Work { before: 8 }]
LOAD knows jobs to 2, threshold 5
blast is said to be Some(IoBound) and to take {"here": Span(12000000)}
montage beside Nobody: 1 of 7 s
montage beside Full(["blast"]): 2 of 3.5 s
autodock-vina on platform 1: 0 done, 6 failed
allocation 1: pf1, Some("4711"), Leaving("idle", Time(30000000))
allocation 2: pf2, None, Unknown("no answer", Time(30000000))
allocation 3: pf3, None, Ended("ended")
pilot 1 on node7: 4 done, 2 failed, report 2, ended None, drained false
pilot 2 on node7: 1 done, 12 failed, report 2, ended None, drained true
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
file 1.9: poses/9.pdbqt, 1234 bytes of abababababababababababababababababababababababababababababababab
task 2.4: attempt 1 on 1 at 1400000, 12700 us, None, ran longer than its time limit of 10m 00s
task 3.0: attempt 1 on 2 at 1000000, 12300 us, Some(-1), exit code -1
task 3.1: attempt 1 on 2 at 1100000, 12400 us, None, ended by signal 11
task 3.2: attempt 1 on 2 at 1200000, 12500 us, None, ran longer than its time limit of 1.0s
task 3.3: attempt 1 on 2 at 1300000, 12600 us, None, used more than its memory limit of 1.0 GiB
task 3.4: attempt 1 on 2 at 1400000, 12700 us, None, could not be started: words
task 3.5: attempt 1 on 2 at 1500000, 12800 us, None, the node could not run it: words
task 3.6: attempt 1 on 2 at 1600000, 12900 us, None, the pilot's walltime ended
task 3.7: attempt 1 on 2 at 1700000, 13000 us, None, the pilot vanished while it ran
task 3.8: attempt 1 on 2 at 1800000, 13100 us, None, the platform took the pilot away
task 3.9: attempt 1 on 2 at 1900000, 13200 us, None, the resident program's answer: words
task 3.10: attempt 1 on 2 at 2000000, 13300 us, None, file transfer failed: words
task 3.11: attempt 1 on 2 at 2100000, 13400 us, None, it has not left its output words
"#;

#[test]
fn golden_stores_are_read_as_they_were_meant() {
    let folder = tempfile::tempdir().unwrap();
    if std::env::var_os("PILOTFISH_WRITE_GOLDEN").is_some() {
        let fresh = tempfile::tempdir().unwrap();
        open(fresh.path()).commit(&history()).unwrap();
        fs::write(golden(4), fs::read(fresh.path().join(FILE)).unwrap()).unwrap();
    }
    assert_eq!(summary(&copy(folder.path())), EXPECTED);
    let folder = tempfile::tempdir().unwrap();
    fs::copy(golden(2), folder.path().join(FILE)).unwrap();
    // Users' tokens and purged jobs came after it.
    assert_eq!(summary(&open(folder.path())), EXPECTED.replacen("43 records", "38 records", 1));
}

/// The golden stores of former versions, by the commits that wrote them. They are never written again: copy the golden
/// store here before it is.
#[test]
fn stores_of_former_versions_are_a_past_to_go_on_from() {
    let former = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/former");
    let mut n_stores = 0;
    for entry in fs::read_dir(former).unwrap() {
        let (path, folder) = (entry.unwrap().path(), tempfile::tempdir().unwrap());
        if path.extension().is_none_or(|extension| extension != "sqlite") {
            continue;
        }
        fs::copy(&path, folder.path().join(FILE)).unwrap();
        // Checksums came with version 3: stores of before cannot be checked until a manager has opened them.
        match check(folder.path(), 20) {
            Ok(checked) => assert_eq!(checked.found, [""; 0], "{}", path.display()),
            Err(error) => assert!(matches!(error, StoreError::TooOld { found: 1 | 2, .. }), "{error}"),
        }
        let mut store = open(folder.path());
        let records = replayed(&store);
        says_what_it_said(&path, &summary(&store));
        Engine::restore(Settings::default(), 2, Time(0), records).check_invariants();
        store.commit(&[Record::JobPaused { job: JobId(1), at: Time(u64::MAX / 2) }]).unwrap();
        n_stores += 1;
    }
    assert!(n_stores >= 10, "{n_stores}");
}

/// Compares with the text beside a former store; `PILOTFISH_WRITE_GOLDEN` writes the text where it is missing.
fn says_what_it_said(store: &Path, summary: &str) {
    let path = store.with_extension("txt");
    if !path.exists() && std::env::var_os("PILOTFISH_WRITE_GOLDEN").is_some() {
        fs::write(&path, summary).unwrap();
    }
    assert_eq!(summary, fs::read_to_string(&path).unwrap(), "{}", store.display());
}

#[test]
fn a_platform_of_before_there_were_limits_has_none() {
    let mut record = serde_json::to_value(super::records::platform_attached(1)).unwrap();
    record["PlatformAttached"]["spec"].as_object_mut().unwrap().remove("limits").unwrap();
    let record: Record = serde_json::from_value(record).unwrap();
    assert_eq!(record, super::records::platform_attached(1));
}

#[test]
fn a_new_store_reads_like_the_golden_one() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).commit(&history()).unwrap();
    assert_eq!(summary(&open(folder.path())), EXPECTED);
}

/// A copy of the golden store.
fn copy(folder: &Path) -> Store {
    fs::copy(golden(4), folder.join(FILE)).unwrap();
    open(folder)
}

#[test]
fn the_golden_store_has_every_kind_of_record_and_failure() {
    let folder = tempfile::tempdir().unwrap();
    let records = replayed(&copy(folder.path()));
    let places: BTreeSet<usize> = records.iter().map(place).collect();
    assert_eq!(places, (0..N_KINDS).collect());
    let results = records.iter().filter_map(|record| match record {
        Record::Reported { results, .. } => Some(results),
        _ => None,
    });
    let failures = results.flatten().flat_map(|result| &result.failures);
    assert_eq!(
        failures.map(|failure| failure_place(&failure.kind)).collect::<BTreeSet<_>>(),
        (0..12).collect()
    );
}

#[test]
fn the_golden_store_is_a_past_to_go_on_from_at_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let records = replayed(&copy(folder.path()));
    for n in 0..=records.len() {
        Engine::restore(Settings::default(), 2, Time(0), records[..n].to_vec()).check_invariants();
    }
}

/// Each row of the golden store, damaged alone, is refused with its number.
#[test]
fn a_damaged_golden_store_is_refused_with_the_place() {
    let damages = [
        ("journal", "record = substr(record, 1, length(record) - 1)"),
        ("journal", "at = at + 1"),
        ("reports", "ranges = CAST(ranges || x'05' AS BLOB)"),
        ("failures", "failure = '\"Bored\"'"),
        ("failure_packs", "kinds = replace(kinds, '11', '12')"),
        ("failure_packs", "n_failures = n_failures - 1"),
        ("failure_packs", "columns = CAST(columns || x'00' AS BLOB)"),
    ];
    let whole = tempfile::tempdir().unwrap();
    let whole = copy(whole.path());
    for (table, damage) in damages {
        let seqs = format!("SELECT DISTINCT seq FROM {table} ORDER BY seq");
        let mut rows = whole.connection.prepare(&seqs).unwrap();
        let seqs: Vec<i64> = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert!(!seqs.is_empty());
        for seq in seqs {
            let folder = tempfile::tempdir().unwrap();
            let store = copy(folder.path());
            let damage = format!("UPDATE {table} SET {damage} WHERE seq = ?1");
            store.connection.execute(&damage, [seq]).unwrap();
            let refused = store.replay(|_| {}).err().map(|error| error.to_string());
            // Failures of lost pilots are read from the journal.
            let is_repeated = table == "failures" && refused.is_none();
            let has_place = refused.as_ref().is_some_and(|words| words.contains(&format!("record {seq}: ")));
            assert!(is_repeated || has_place, "{table} {seq}: {refused:?}");
        }
    }
}
