//! Tests of replayed histories: the parts that are used, and the accuracy of the replay.

use std::convert::Infallible;

use scheduler::{
    engine::{
        interface::{JobRequest, PlatformLimits, PlatformMode, PlatformSpec},
        record::{JobResult, Record, Totals},
        state::durable::Durable,
    },
    ids::{AllocationId, JobId, PilotId, PlatformId},
    pull::{NodeFacts, TaskNeeds},
    ranges::TaskSet,
    resources::Resources,
    results::{Successes, Usage},
    time::{Span, Time},
};

use super::{
    history::{self, Decided, History},
    measures::{Group, Measure},
    past::Lengths,
};

/// When the manager of the history started.
pub(super) const DAY: Time = Time(1_700_000_000_000_000);

pub(super) fn at(seconds: u64) -> Time {
    DAY + Span::from_secs(seconds)
}

pub(super) fn request(user: &str, n_tasks: u64) -> JobRequest {
    let resources = Resources { memory_bytes: 100, ..Resources::cores(1) };
    JobRequest {
        user: user.into(),
        name: "sweep".into(),
        application: "docking".into(),
        n_tasks,
        needs: TaskNeeds {
            resources,
            time_limit: Some(Span::from_secs(40)),
            success_codes: vec![0, 3],
            ..TaskNeeds::default()
        },
        priority: 2,
        priority_over_all: false,
        retries: 5,
        retry_delay: Span::ZERO,
        crash_limit: 5,
        max_failures: None,
        submission_key: None,
        estimates: None,
        after: Vec::new(),
        on_failed_dependency: Default::default(),
        workflow: None,
        spec: "".into(),
    }
}

/// A platform with one pilot of two cores, there from 10 s on, and two jobs after one that never ran.
pub(super) fn durable() -> Durable {
    let spec = |name: &str| PlatformSpec {
        name: name.into(),
        adapter: "slurm".into(),
        site: None,
        capacity: Resources::cores(1),
        n_nodes: 1,
        is_array: false,
        submits_late: false,
        joins_once: false,
        n_pilots_min: 0,
        n_pilots_max: 1,
        idle_timeout: Span::from_secs(600),
        walltime: None,
        poll_interval: Span::from_secs(30),
        limits: PlatformLimits::default(),
        scaling: None,
        price: None,
    };
    let node = NodeFacts {
        hostname: "n1".into(),
        rank: 0,
        capacity: Resources { memory_bytes: 250, ..Resources::cores(2) },
        batch_id: None,
        walltime_left: None,
        agent_version: "1".into(),
    };
    let (platform, allocation, pilot) = (PlatformId(1), AllocationId(1), PilotId(1));
    let tag = "t".to_owned();
    let registered =
        Record::PilotRegistered { pilot, allocation, nonce: 1, node, born_at: at(10), at: at(10) };
    let mut durable = Durable::default();
    for record in [
        Record::PlatformAttached { platform, spec: spec("cluster"), at: DAY },
        Record::PlatformAttached { platform: PlatformId(2), spec: spec("never"), at: DAY },
        Record::JobAccepted { job: JobId(1), request: request("eve", 7), at: DAY },
        Record::JobAccepted { job: JobId(2), request: request("ada", 5), at: at(2) },
        Record::AllocationIntended { allocation, platform, tag, because: None, at: at(2) },
        Record::AllocationSubmitted { allocation, batch_id: "17".into(), was_listed: false, at: at(4) },
        registered,
        Record::JobAccepted { job: JobId(3), request: request("bob", 1), at: at(12) },
    ] {
        durable.apply(&record);
    }
    durable
}

/// Four tasks of job 2 have ended, two at a time from 10 s on, the last of them failed; job 3 was done at 60
/// s.
fn decided(job: JobId) -> Vec<Decided> {
    let one = |index: u64, from: u64, to: u64, is_failure| Decided {
        index,
        from: at(from),
        to: at(to),
        is_failure,
        pilot: PilotId(1),
    };
    match job.0 {
        2 => vec![one(0, 10, 30, false), one(1, 10, 20, false), one(2, 20, 40, false), one(3, 30, 80, true)],
        3 => vec![one(0, 40, 60, false)],
        _ => Vec::new(),
    }
}

fn history() -> History {
    let known = |job, _: &_| Ok::<_, Infallible>(decided(job));
    history::of(&durable(), known).unwrap().unwrap()
}

#[test]
fn what_is_over_comes_again_and_the_rest_is_counted() {
    let history = history();
    assert_eq!((history.begin, history.end), (at(2), at(80)));
    // Job 1 and its tasks, and one task of job 2.
    assert_eq!((history.left_out.n_jobs, history.left_out.n_tasks), (1, 8));
    let scenario = &history.scenario;
    assert_eq!((scenario.n_jobs(), scenario.n_tasks()), (2, 5));
    assert_eq!(scenario.users, ["ada", "bob"]);
    let first = &scenario.past[0];
    assert_eq!((first.job.at, first.job.priority, first.job.n_tasks), (Span::ZERO, 2, 4));
    assert_eq!(scenario.past[1].job.at, Span::from_secs(10));
    // The task that was ended by its limit is not longer than the limit.
    let spans = [20, 10, 20, 40].map(Span::from_secs).into();
    let (failed, places) = (TaskSet::from(3..4), [0; 4].into());
    assert_eq!(first.lengths, Lengths::Each { spans, failed, places });
    // The platform that never had a pilot is left out.
    let [platform] = &scenario.platforms[..] else { panic!("{scenario:?}") };
    assert_eq!((platform.name.as_str(), platform.n_nodes), ("cluster", 1));
    assert_eq!((platform.capacity.cores, platform.capacity.memory_bytes), (2, 250));
    assert_eq!(*platform.past_waits, [Span::from_secs(6)]);
}

#[test]
fn the_replay_is_told_beside_what_was() {
    let account = history().scenario.run(None).unwrap();
    let [now, then, ..] = &account.rows[..] else { panic!("{account:?}") };
    assert_eq!((now.group, then.group), (Group::All, Group::History));
    for (measure, expected) in [
        (Measure::Tasks, 5.0),
        (Measure::Failed, 1.0),
        (Measure::Makespan, 78.0),
        // 78 s of job 2 and 48 s of job 3.
        (Measure::Turnaround, 63.0),
        // Waits of the tasks that succeeded: 8, 8, 18 and 28 s.
        (Measure::Wait, 15.5),
        (Measure::Pilots, 1.0),
        (Measure::QueueWait, 6.0),
        (Measure::Repeated, 0.0),
        // 70 s of work that counts, on 2 cores for 70 s.
        (Measure::Utilisation, 0.5),
    ] {
        assert_eq!(then.value(measure), Some(expected), "{measure:?}");
    }
    assert_eq!(then.value(Measure::Lost), None);
    for (measure, expected, slack) in [
        (Measure::Tasks, 5.0, 0.0),
        (Measure::Failed, 1.0, 0.0),
        (Measure::Pilots, 1.0, 0.0),
        (Measure::QueueWait, 6.0, 0.5),
        // As it was, except for the limit that ends the last task here, and for the order of turns.
        (Measure::Makespan, 68.0, 11.0),
    ] {
        let found = now.value(measure).unwrap();
        assert!((found - expected).abs() <= slack, "{measure:?} is {found}");
    }
}

#[test]
fn a_platform_that_was_detached_before_the_jobs_came_has_no_part() {
    let (platform, allocation, pilot) = (PlatformId(2), AllocationId(2), PilotId(2));
    let node = NodeFacts {
        hostname: "n2".into(),
        rank: 0,
        capacity: Resources { memory_bytes: 250, ..Resources::cores(2) },
        batch_id: None,
        walltime_left: None,
        agent_version: "1".into(),
    };
    let of_left_at = |left_at: Time| {
        let mut durable = durable();
        for record in [
            Record::AllocationIntended { allocation, platform, tag: "u".into(), because: None, at: DAY },
            Record::PilotRegistered {
                pilot,
                allocation,
                nonce: 2,
                node: node.clone(),
                born_at: DAY,
                at: DAY,
            },
            Record::PilotLeft { pilot, why: "detached".into(), at: left_at },
            Record::PlatformModeSet { platform, mode: PlatformMode::Detached, at: left_at },
        ] {
            durable.apply(&record);
        }
        let known = |job, _: &_| Ok::<_, Infallible>(decided(job));
        let history = history::of(&durable, known).unwrap().unwrap();
        history.scenario.history.as_deref().and_then(|was| was.value(Measure::Pilots))
    };
    // The first job with ended tasks was submitted at 2 s.
    assert_eq!([of_left_at(at(1)), of_left_at(at(20))], [Some(1.0), Some(2.0)]);
}

#[test]
fn a_history_without_anything_that_is_over_is_none() {
    assert!(history::of(&durable(), |_, _: &_| Ok::<_, Infallible>(Vec::new())).unwrap().is_none());
    assert_eq!(history::of(&durable(), |_, _: &_| Err::<Vec<Decided>, _>("torn")).unwrap_err(), "torn");
}

/// Two platforms of one pilot each, and forty tasks. Each platform has done twenty of them: the slow one in
/// 40 s each, the fast one in 10.
fn unlike() -> History {
    let mut durable = durable();
    let spec = durable.platforms()[&PlatformId(1)].clone();
    let node = durable.pilots()[&PilotId(1)].node.clone();
    let (platform, allocation, pilot) = (PlatformId(2), AllocationId(2), PilotId(2));
    let attached = |platform: u64, name: &str| Record::PlatformAttached {
        platform: PlatformId(platform),
        spec: PlatformSpec { name: name.into(), capacity: Resources::cores(2), ..spec.clone() },
        at: DAY,
    };
    let (usage_of, job) = (|wall_s: u64| Usage { wall_us: wall_s * 1_000_000, ..Usage::default() }, JobId(2));
    let report = |pilot: u64, tasks: std::ops::Range<u64>, wall_s: u64| {
        let successes = Successes::from_attempts(tasks.map(|index| (index, 0, usage_of(wall_s))).collect());
        let totals = Totals::of(&successes);
        let result = JobResult {
            job,
            successes,
            totals,
            failures: Vec::new(),
            outputs: Vec::new(),
            files: Vec::new(),
        };
        Record::Reported { pilot: PilotId(pilot), seq: 1, results: vec![result], at: at(400) }
    };
    for record in [
        attached(1, "slow"),
        attached(2, "fast"),
        Record::AllocationIntended { allocation, platform, tag: "u".to_owned(), because: None, at: at(2) },
        Record::PilotRegistered { pilot, allocation, nonce: 2, node, born_at: at(10), at: at(10) },
        Record::JobAccepted { job, request: request("ada", 40), at: at(2) },
        report(1, 0..20, 40),
        report(2, 20..40, 10),
    ] {
        durable.apply(&record);
    }
    let one = |n: u64| {
        let (pilot, wall) = if n < 20 { (PilotId(1), 40) } else { (PilotId(2), 10) };
        let from = 10 + n % 20 / 2 * wall;
        Decided { index: n, from: at(from), to: at(from + wall), is_failure: false, pilot }
    };
    let decided = |job: JobId, _: &_| {
        Ok::<_, Infallible>(if job.0 == 2 { (0..40).map(one).collect() } else { Vec::new() })
    };
    history::of(&durable, decided).unwrap().unwrap()
}

#[test]
fn tasks_are_longer_or_shorter_where_they_run_than_where_they_ran() {
    let account = unlike().scenario.run(None).unwrap();
    let found = account.rows[0].value(Measure::Makespan).unwrap();
    // Two cores are four times as fast as the two others and do four of five tasks, in 160 s. If each task
    // kept its runtime, all four cores would be busy for 250 s.
    assert!((160.0..220.0).contains(&found), "{found}");
}

#[test]
fn a_history_is_played_again_under_the_policies_that_its_manager_was_configured_with() {
    let durable = durable();
    let known = |job, _: &_| Ok::<_, Infallible>(decided(job));
    assert!(!history::of(&durable, known).unwrap().unwrap().are_policies_known);
    let matching = scheduler::policy::matching::Matching::Fifo;
    let configured = scheduler::policy::Policies { matching, ..Default::default() };
    assert_ne!(configured, Default::default());
    let only = JobId(2);
    let chosen = history::Chosen { configured: Some(configured), is_chosen: &|id, _| id == only };
    let history = history::of_chosen(&durable, &chosen, known).unwrap().unwrap();
    assert!(history.are_policies_known);
    assert_eq!(history.scenario.policies, configured);
    let n_left_out = history.left_out.n_jobs_not_chosen;
    assert_eq!((history.scenario.n_jobs(), n_left_out + 1), (1, durable.jobs().len() as u64));
}
