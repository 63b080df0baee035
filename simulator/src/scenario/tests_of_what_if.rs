//! Tests of replays: they keep dependencies and estimates, and invent no files, platforms or policies.

use std::convert::Infallible;

use scheduler::{
    edges::{Dependence, Edges},
    engine::{
        interface::{JobRequest, PlatformSpec},
        record::{FailedAttempt, JobResult, Record, Totals, Verdict},
        state::durable::Durable,
    },
    estimates::TaskEstimates,
    ids::{AllocationId, JobId, PilotId, PlatformId},
    policy::Policies,
    pull::{NodeFacts, Staging, TaskNeeds},
    resources::Resources,
    results::{FailureKind, Successes, Usage},
};

use super::{
    history::{self, Chosen, Decided, History},
    measures::{Group, Measure},
    tests_of_history::{DAY, at, durable, request},
};

/// A manager with one platform, with a pilot of four cores from 10 s on.
fn one_platform() -> Durable {
    let mut state = durable();
    let node = NodeFacts { capacity: Resources::cores(4), ..state.pilots()[&PilotId(1)].node.clone() };
    let (pilot, allocation) = (PilotId(1), AllocationId(1));
    state.apply(&Record::PilotRegistered { pilot, allocation, nonce: 1, node, born_at: at(10), at: at(10) });
    state
}

/// A job with tasks of one core and no further needs.
fn job(n_tasks: u64) -> JobRequest {
    let needs = TaskNeeds {
        resources: Resources::cores(1),
        time_limit: None,
        success_codes: vec![0],
        ..TaskNeeds::default()
    };
    JobRequest { needs, ..request("ada", n_tasks) }
}

fn after(job: JobRequest, on: u64, edges: Edges) -> JobRequest {
    let after = vec![Dependence { on: JobId(on), edges }];
    JobRequest { after, workflow: Some(JobId(11)), ..job }
}

fn ran(index: u64, from: u64, to: u64) -> Decided {
    Decided { index, from: at(from), to: at(to), is_failure: false, pilot: PilotId(1) }
}

/// Replays the jobs 11, 12, …, submitted at 2 s, with their tasks.
fn played(mut state: Durable, jobs: &[(JobRequest, Vec<Decided>)], chosen: &[u64]) -> History {
    for (id, (request, _)) in (11..).zip(jobs) {
        state.apply(&Record::JobAccepted { job: JobId(id), request: request.clone(), at: at(2) });
    }
    of(&state, jobs, chosen)
}

fn of(state: &Durable, jobs: &[(JobRequest, Vec<Decided>)], chosen: &[u64]) -> History {
    let decided = |job: JobId, _: &_| {
        let which = job.0.checked_sub(11).and_then(|which| jobs.get(which as usize));
        Ok::<_, Infallible>(which.map(|(_, tasks)| tasks.clone()).unwrap_or_default())
    };
    let chosen = Chosen { configured: None, is_chosen: &|id, _| chosen.contains(&id.0) };
    history::of_chosen(state, &chosen, decided).unwrap().unwrap()
}

fn makespan(history: &History) -> f64 {
    let account = history.scenario.run(None).unwrap();
    assert!(account.is_audited && account.stopped.is_none(), "{account:?}");
    assert_eq!(account.rows[0].value(Measure::Repeated), Some(0.0));
    account.rows[0].value(Measure::Makespan).unwrap()
}

#[track_caller]
fn check_near(found: f64, expected: f64) {
    assert!((expected..expected + 1.5).contains(&found), "{found} s, not {expected}");
}

#[test]
fn stages_wait_for_each_other_as_they_did() {
    let both = |from: u64, to: u64| vec![ran(0, from, to), ran(1, from, to)];
    let stages = |edges: Edges| [(job(2), both(10, 40)), (after(job(2), 11, edges), both(40, 70))];
    // A batch job waits for 6 s.
    check_near(makespan(&played(one_platform(), &stages(Edges::All), &[11, 12])), 66.0);
    check_near(makespan(&played(one_platform(), &stages(Edges::Same), &[11, 12])), 66.0);
    let alone = played(one_platform(), &stages(Edges::All), &[12]);
    assert_eq!(alone.left_out.n_jobs_apart, 1);
    check_near(makespan(&alone), 36.0);
    // Task 1 of the first stage was cancelled, and task 2 takes longer than the others.
    let first = vec![ran(0, 10, 20), ran(2, 10, 90)];
    let second = vec![ran(0, 20, 30), ran(2, 90, 100)];
    let same = [(job(3), first), (after(job(3), 11, Edges::Same), second)];
    let history = played(one_platform(), &same, &[11, 12]);
    assert_eq!(history.left_out.n_jobs_apart, 0);
    let account = history.scenario.run(None).unwrap();
    check_near(account.rows[0].value(Measure::Makespan).unwrap(), 96.0);
    // Each task waits only for the task of its index: starts after 6, 6, 16 and 86 s.
    check_near(account.rows[0].value(Measure::Wait).unwrap(), 28.5);
}

#[test]
fn jobs_of_a_later_submission_wait_for_those_of_an_earlier_one() {
    let mut state = one_platform();
    let first = (job(1), vec![ran(0, 10, 40)]);
    let mut second = (after(job(1), 11, Edges::All), vec![ran(0, 40, 50)]);
    second.0.workflow = Some(JobId(12));
    for (id, job) in [(11, &first.0), (12, &second.0)] {
        state.apply(&Record::JobAccepted { job: JobId(id), request: job.clone(), at: at(2) });
    }
    check_near(makespan(&of(&state, &[first, second], &[11, 12])), 46.0);
}

#[test]
fn what_waited_for_a_failure_and_ran_runs_again() {
    let failed = Decided { is_failure: true, ..ran(0, 10, 40) };
    let jobs = [(job(1), vec![failed]), (after(job(1), 11, Edges::All), vec![ran(0, 40, 50)])];
    check_near(makespan(&played(one_platform(), &jobs, &[11, 12])), 46.0);
}

#[test]
fn no_transfer_of_files_is_made_up() {
    let staging = Staging { inputs: true, outputs: true };
    let needs = TaskNeeds { staging, ..job(1).needs };
    let tasks: Vec<Decided> = (0..40).map(|n| ran(n, 10 + n / 4, 11 + n / 4)).collect();
    let history = played(one_platform(), &[(JobRequest { needs, ..job(40) }, tasks)], &[11]);
    // Each task takes a second, four at a time, from 6 s on.
    check_near(makespan(&history), 16.0);
}

#[test]
fn estimates_are_kept() {
    let estimates = |sizes: &[f64]| TaskEstimates::new(1, sizes.iter().copied());
    let whole = JobRequest { estimates: estimates(&[1.0, 1.0, 9.0, 5.0]), ..job(4) };
    let tasks = [0, 2, 3].map(|index| ran(index, 10, 11)).to_vec();
    let history = played(one_platform(), &[(whole, tasks)], &[11]);
    assert_eq!(history.scenario.past[0].job.estimates, estimates(&[1.0, 9.0, 5.0]));
}

/// A report of a pilot on attempts at the tasks of job 11.
fn reported(pilot: u64, done: &[u64], failed: &[u64]) -> Record {
    let usage = Usage { wall_us: 3_000_000, ..Usage::default() };
    let successes = Successes::from_attempts(done.iter().map(|index| (*index, 0, usage)).collect());
    let failures = failed.iter().map(|index| FailedAttempt {
        index: *index,
        attempt: 1,
        kind: FailureKind::Exit { code: 1 },
        usage: Usage { wall_us: 5_000, ..Usage::default() },
        verdict: Verdict::Retry { at: at(11) },
    });
    let result = JobResult {
        job: JobId(11),
        totals: Totals::of(&successes),
        successes,
        failures: failures.collect(),
        outputs: Vec::new(),
        files: Vec::new(),
    };
    Record::Reported { pilot: PilotId(pilot), seq: 1, results: vec![result], at: at(40) }
}

/// A state with another platform, on which all attempts at the tasks of job 11 failed, and one of the first
/// platform.
fn with_a_bad_one(request: &JobRequest) -> Durable {
    let mut state = one_platform();
    let spec = state.platforms()[&PlatformId(1)].clone();
    let spec = PlatformSpec { name: "bad".into(), ..spec };
    let node = NodeFacts { capacity: Resources::cores(8), ..state.pilots()[&PilotId(1)].node.clone() };
    let (platform, allocation, pilot) = (PlatformId(2), AllocationId(2), PilotId(2));
    for record in [
        Record::PlatformAttached { platform, spec, at: DAY },
        Record::AllocationIntended { allocation, platform, tag: "u".into(), because: None, at: at(2) },
        Record::PilotRegistered { pilot, allocation, nonce: 2, node, born_at: at(2), at: at(2) },
        Record::JobAccepted { job: JobId(11), request: request.clone(), at: at(2) },
        reported(2, &[], &[0, 1, 2, 3]),
        reported(1, &[0, 1, 2, 3], &[]),
    ] {
        state.apply(&record);
    }
    state
}

#[test]
fn no_task_runs_again_where_none_has_ever_succeeded() {
    let tasks: Vec<Decided> = (0..4).map(|n| ran(n, 10, 13)).collect();
    let history = of(&with_a_bad_one(&job(4)), &[(job(4), tasks.clone())], &[11]);
    assert_eq!(history.left_out.platforms, ["bad"]);
    assert_eq!(history.doubted, []);
    let names: Vec<_> = history.scenario.platforms.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["cluster"]);
    check_near(makespan(&history), 9.0);
    // The pilots of that platform still count in the history.
    let account = history.scenario.run(None).unwrap();
    let then = account.rows.iter().find(|row| row.group == Group::History).unwrap();
    assert_eq!(then.value(Measure::Pilots), Some(2.0));

    // Tasks may run where another application has succeeded; unknown runtimes are reported.
    let mut state = with_a_bad_one(&job(4));
    let other = JobRequest { application: "blast".into(), ..job(1) };
    state.apply(&Record::JobAccepted { job: JobId(12), request: other.clone(), at: at(2) });
    let there = Decided { pilot: PilotId(2), ..ran(0, 10, 13) };
    let history = of(&state, &[(job(4), tasks), (other, vec![there])], &[11, 12]);
    assert!(history.left_out.platforms.is_empty());
    assert_eq!(history.doubted, [("docking".to_owned(), "bad".to_owned())]);
}

#[test]
fn what_fits_only_where_none_has_succeeded_is_left_out() {
    let large = JobRequest { needs: TaskNeeds { resources: Resources::cores(8), ..job(1).needs }, ..job(1) };
    let mut state = with_a_bad_one(&job(4));
    state.apply(&Record::JobAccepted { job: JobId(12), request: large.clone(), at: at(2) });
    let tasks: Vec<Decided> = (0..4).map(|n| ran(n, 10, 13)).collect();
    let failed = Decided { is_failure: true, pilot: PilotId(2), ..ran(0, 10, 12) };
    let jobs = [(job(4), tasks), (large, vec![failed])];
    let history = of(&state, &jobs, &[11, 12]);
    assert_eq!((history.left_out.n_tasks_only_there, history.scenario.n_tasks()), (1, 4));
    // Alone it is the only known platform.
    let history = of(&state, &jobs, &[12]);
    assert_eq!((history.left_out.n_tasks_only_there, history.scenario.n_tasks()), (0, 1));
}

#[test]
fn policies_that_were_set_behind_all_jobs_are_not_those_of_the_replay() {
    let set = |word: &str| protocol::policies::with(Policies::default(), "matching", word).unwrap();
    let (turns, fifo) = (set("turns"), set("fifo"));
    let mut state = one_platform();
    state.apply(&Record::JobAccepted { job: JobId(11), request: job(1), at: at(2) });
    let (by, configured, before, policies) = ("operator".to_owned(), turns, turns, fifo);
    state.apply(&Record::PoliciesSet { by, configured, before, policies, at: at(30) });
    let replayed = |from: u64, to: u64| {
        let decided = |id: JobId, _: &_| {
            Ok::<_, Infallible>(if id.0 == 11 { vec![ran(0, from, to)] } else { Vec::new() })
        };
        let chosen = Chosen { configured: Some(turns), is_chosen: &|_, _| true };
        let history = history::of_chosen(&state, &chosen, decided).unwrap().unwrap();
        (history.scenario.policies, history.have_policies_changed)
    };
    assert_eq!(replayed(10, 20), (turns, false));
    assert_eq!(replayed(10, 40), (turns, true));
    assert_eq!(replayed(10, 90), (fifo, true));
}
