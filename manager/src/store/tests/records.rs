//! Records for tests: plain ones, and any that an engine could write.

use proptest::prelude::*;
use scheduler::{
    digest::Digest,
    edges::{Dependence, Edges, Listed, OnFailedDependency},
    engine::{
        interface::{JobRequest, PlatformLimits, PlatformSpec},
        record::{Blamed, CancelCause, DrainCause, FailedAttempt, JobResult, Record, Totals, Verdict},
    },
    ids::{AllocationId, JobId, PilotId, PlatformId, TaskId},
    pull::{NodeFacts, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    results::{FailureKind, OutputFile, Successes, TaskFiles, TaskOutput, Usage},
    time::{Span, Time},
};

pub(super) const BORN_AT: Time = Time(1_000_000);

pub(in crate::store) fn job_accepted(job: u64, n_tasks: u64) -> Record {
    let request = JobRequest {
        user: "ada".into(),
        name: "docking".into(),
        application: "autodock-vina".into(),
        n_tasks,
        needs: TaskNeeds::default(),
        priority: -1,
        priority_over_all: false,
        retries: 2,
        retry_delay: Span::from_secs(5),
        crash_limit: 5,
        max_failures: Some(3),
        submission_key: Some(format!("key {job}")),
        estimates: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: r#"{"command": ["echo", "\"ü\""]}"#.into(),
    };
    Record::JobAccepted { job: JobId(job), request, at: Time(7) }
}

/// A stage of a workflow, whose tasks wait for another job and for each other.
fn stage_accepted(job: u64, first: u64) -> Record {
    let lists = (0..10).map(|task| (first..task).collect::<Vec<u64>>());
    let listed = Listed::new(lists).expect("few edges");
    let within = Dependence { on: JobId(job), edges: Edges::Listed(listed) };
    let after = vec![Dependence { on: JobId(1), edges: Edges::Groups(3) }, within];
    match job_accepted(job, 10) {
        Record::JobAccepted { job, request, at } => {
            let on_failed_dependency = OnFailedDependency::Run;
            let workflow = Some(JobId(1));
            let request = JobRequest { after, on_failed_dependency, workflow, ..request };
            Record::JobAccepted { job, request, at }
        }
        other => other,
    }
}

pub(in crate::store) fn platform_attached(platform: u64) -> Record {
    let spec = PlatformSpec {
        name: "here".into(),
        adapter: "local".into(),
        site: None,
        capacity: Resources::cores(4),
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: 0,
        n_pilots_max: 2,
        idle_timeout: Span::from_secs(60),
        walltime: None,
        poll_interval: Span::from_secs(1),
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    };
    Record::PlatformAttached { platform: PlatformId(platform), spec, at: Time(1) }
}

pub(in crate::store) fn pilot_registered(pilot: u64) -> Record {
    Record::PilotRegistered {
        pilot: PilotId(pilot),
        allocation: AllocationId(pilot),
        nonce: u64::MAX - pilot,
        node: NodeFacts { hostname: "node7".into(), ..NodeFacts::default() },
        born_at: BORN_AT,
        at: Time(8),
    }
}

/// A platform, jobs 1 to 3 and pilots 1 to 3.
pub(in crate::store) fn beginning(n_tasks: u64) -> Vec<Record> {
    let mut records = vec![platform_attached(1)];
    for n in 1..=3 {
        let tag = format!("pf{n}");
        let (allocation, platform) = (AllocationId(n), PlatformId(1));
        records.push(job_accepted(n, n_tasks));
        let because = Some(Box::new(super::golden::because()));
        records.push(Record::AllocationIntended { allocation, platform, tag, because, at: Time(2) });
        records.push(pilot_registered(n));
    }
    records
}

pub(in crate::store) fn reported(pilot: u64, seq: u64, results: Vec<JobResult>) -> Record {
    Record::Reported { pilot: PilotId(pilot), seq, results, at: Time(10_000_000 + seq) }
}

pub(in crate::store) fn result(
    job: u64,
    successes: Vec<(u64, i32, Usage)>,
    failures: Vec<FailedAttempt>,
) -> JobResult {
    let successes = Successes::from_attempts(successes);
    let totals = Totals::of(&successes);
    JobResult { job: JobId(job), successes, totals, failures, outputs: Vec::new(), files: Vec::new() }
}

/// The part of a record that replay brings back.
pub(in crate::store) fn without_columns(record: &Record) -> Record {
    let mut record = record.clone();
    if let Record::Reported { results, .. } = &mut record {
        for result in results {
            let tasks = std::mem::take(&mut result.successes.tasks);
            result.successes = Successes { tasks, ..Successes::default() };
            result.outputs.clear();
            result.files.clear();
        }
    }
    record
}

pub(in crate::store) fn usage() -> impl Strategy<Value = Usage> {
    let number = || prop_oneof![8 => 0..100_000u64, 1 => any::<u64>()];
    (number(), number(), number(), number()).prop_map(|(started_us, wall_us, cpu_us, memory_bytes)| Usage {
        started_us,
        wall_us,
        cpu_us,
        memory_bytes,
    })
}

pub(in crate::store) fn kind() -> impl Strategy<Value = FailureKind> {
    prop_oneof![
        any::<i32>().prop_map(|code| FailureKind::Exit { code }),
        any::<i32>().prop_map(|signal| FailureKind::Signal { signal }),
        any::<u64>().prop_map(|us| FailureKind::TimeLimit { limit: Span(us) }),
        any::<u64>().prop_map(|limit_bytes| FailureKind::MemoryLimit { limit_bytes }),
        any::<String>().prop_map(|what| FailureKind::Start { what }),
        any::<String>().prop_map(|what| FailureKind::Node { what }),
        Just(FailureKind::Walltime),
        Just(FailureKind::PilotLost),
        Just(FailureKind::Preempted),
        any::<String>().prop_map(|what| FailureKind::BadAnswer { what }),
    ]
}

pub(in crate::store) fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![Just(Verdict::Final), any::<u64>().prop_map(|at| Verdict::Retry { at: Time(at) })]
}

pub(in crate::store) fn failure(index: impl Strategy<Value = u64>) -> impl Strategy<Value = FailedAttempt> {
    (index, 1..9u32, kind(), usage(), verdict()).prop_map(|(index, attempt, kind, usage, verdict)| {
        FailedAttempt { index, attempt, kind, usage, verdict }
    })
}

pub(in crate::store) fn output(index: impl Strategy<Value = u64>) -> impl Strategy<Value = TaskOutput> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    (index, bytes(), bytes()).prop_map(|(index, stdout, stderr)| TaskOutput { index, stdout, stderr })
}

/// The files that a task left.
fn files(index: impl Strategy<Value = u64>) -> impl Strategy<Value = TaskFiles> {
    let left_out = prop::option::of(any::<String>());
    // Two bits of sizes have another meaning in rows, and names are lines.
    let file = ("[^\\n]{0,20}", any::<[u8; 32]>(), 0..1_u64 << 62, any::<bool>(), left_out);
    let file = file.prop_map(|(to, sha256, bytes, executable, left_out)| OutputFile {
        to,
        sha256: Digest(sha256),
        bytes,
        executable,
        left_out,
    });
    (index, prop::collection::vec(file, 0..3)).prop_map(|(index, files)| TaskFiles { index, files })
}

fn tasks(n_tasks: u64) -> impl Strategy<Value = TaskSet> {
    prop::collection::vec(0..n_tasks, 0..12).prop_map(|indices| indices.into_iter().collect())
}

fn job_result(n_tasks: u64) -> impl Strategy<Value = JobResult> {
    let code = prop_oneof![4 => Just(0), 1 => any::<i32>()];
    let successes = prop::collection::vec((0..n_tasks, code, usage()), 0..12);
    let failures = prop::collection::vec(failure(0..n_tasks), 0..9);
    let outputs = prop::collection::vec(output(0..n_tasks), 0..3);
    let files = prop::collection::vec(files(0..n_tasks), 0..3);
    (1..4u64, successes, failures, outputs, files).prop_map(|(job, successes, failures, outputs, files)| {
        JobResult { outputs, files, ..result(job, successes, failures) }
    })
}

/// Any record, about jobs 1 to 3 and pilots 1 to 3 for the most part.
pub(in crate::store) fn any_record(n_tasks: u64) -> impl Strategy<Value = Record> {
    let at = || any::<u64>().prop_map(Time);
    let job = || (1..5u64).prop_map(JobId);
    let pilot = || (1..5u64).prop_map(PilotId);
    let allocation = || (1..5u64).prop_map(AllocationId);
    let words = any::<String>;
    let blamed = (job(), 0..n_tasks, 1..9u32, verdict()).prop_map(|(job, index, attempt, verdict)| {
        let task = TaskId { job, index };
        Blamed { task, attempt, verdict }
    });
    let cause = prop_oneof![
        words().prop_map(CancelCause::User),
        (any::<u64>(), any::<u64>())
            .prop_map(|(n_failed, limit)| CancelCause::MaxFailures { n_failed, limit }),
        (job(), 0..n_tasks).prop_map(|(job, index)| CancelCause::Dependency(TaskId { job, index })),
    ];
    let drain = prop_oneof![
        any::<u64>().prop_map(|us| DrainCause::Idle(Span(us))),
        any::<u32>().prop_map(|n_failures| DrainCause::BlackHole { n_failures }),
        Just(DrainCause::Shutdown),
    ];
    let results = prop::collection::vec(job_result(n_tasks), 0..4);
    prop_oneof![
        8 => (pilot(), any::<u64>(), results, at())
            .prop_map(|(pilot, seq, results, at)| Record::Reported { pilot, seq, results, at }),
        3 => (pilot(), words(), prop::collection::vec(blamed, 0..4), at())
            .prop_map(|(pilot, why, blamed, at)| Record::PilotLost { pilot, why, blamed, at }),
        1 => (4..6u64).prop_map(|n| job_accepted(n, 10)),
        1 => (4..6u64, 0..10u64).prop_map(|(n, first)| stage_accepted(n, first)),
        1 => (4..6u64).prop_map(pilot_registered),
        1 => (1..4u64).prop_map(platform_attached),
        1 => (job(), at()).prop_map(|(job, at)| Record::JobPaused { job, at }),
        1 => (job(), at()).prop_map(|(job, at)| Record::JobResumed { job, at }),
        1 => (job(), words(), at()).prop_map(|(job, by, at)| Record::JobPurged { job, by, at }),
        2 => (job(), tasks(n_tasks), cause, at())
            .prop_map(|(job, tasks, cause, at)| Record::TasksCancelled { job, tasks, cause, at }),
        2 => (job(), tasks(n_tasks), at())
            .prop_map(|(job, tasks, at)| Record::TasksReopened { job, tasks, at }),
        1 => (allocation(), words(), at()).prop_map(|(allocation, batch_id, at)| {
            Record::AllocationSubmitted { allocation, batch_id, was_listed: false, at }
        }),
        1 => (allocation(), words(), at())
            .prop_map(|(allocation, what, at)| Record::AllocationUnknown { allocation, what, at }),
        1 => (allocation(), words(), at())
            .prop_map(|(allocation, why, at)| Record::AllocationEnded { allocation, why, cause: None, was_unlisted: false, at }),
        1 => (allocation(), words(), at())
            .prop_map(|(allocation, why, at)| Record::AllocationReleased { allocation, why, at }),
        1 => (pilot(), drain, at()).prop_map(|(pilot, why, at)| Record::PilotDrained { pilot, why, at }),
        1 => (pilot(), words(), at()).prop_map(|(pilot, why, at)| Record::PilotLeft { pilot, why, at }),
        1 => (pilot(), at()).prop_map(|(pilot, at)| Record::PilotReturned { pilot, at }),
        1 => (pilot(), job(), tasks(n_tasks), at()).prop_map(|(pilot, job, tasks, at)| {
            Record::BlameTakenBack { pilot, tasks: vec![(job, tasks)], at }
        }),
        6 => super::policy_records::any_record(),
    ]
}
