//! Tests of scenarios end to end: cases computed by hand, general properties, and equal seeds.

use proptest::prelude::*;

use super::{
    Application, Arrivals, Faults, Lot, Platform, Scenario,
    distribution::Distribution,
    measures::{Account, Group, Measure, Row},
    order::Order,
    past::{Coming, Lengths, PastJob},
    patience::{Cause, LASTS_AT_MOST, Stopped},
    plan,
};
use crate::{pattern::Pattern, world::World};
use scheduler::{
    explain::Reason, policy::Policies, pull::TaskNeeds, ranges::TaskSet, resources::Resources, time::Span,
};

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "s.yaml").unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"))
}

fn run(text: &str) -> Account {
    parse(text).run(None).unwrap_or_else(|violation| panic!("{violation}\n{text}"))
}

fn row<'a>(account: &'a Account, group: Group, name: &str) -> &'a Row {
    account.rows.iter().find(|row| row.group == group && row.name == name).unwrap()
}

#[track_caller]
fn check(row: &Row, expected: &[(Measure, f64)], slack: f64) {
    for (measure, expected) in expected {
        let found = row.value(*measure).unwrap_or(f64::NAN);
        assert!((found - expected).abs() <= slack, "{measure:?} is {found}, not {expected}: {row:?}");
    }
}

/// The delay of messages and commits, which takes milliseconds, in total.
const DELAYS: f64 = 0.5;

const ONE_CORE: &str = "
platforms: [{name: a, nodes: 1, cores: 1}]
applications: [{name: x, time: 10s}]
users: [{name: ada, jobs: [{application: x, tasks: 4}]}]
";

#[test]
fn one_user_on_one_core() {
    let account = run(ONE_CORE);
    check(
        account.all(),
        &[
            (Measure::Tasks, 4.0),
            (Measure::Failed, 0.0),
            (Measure::Makespan, 40.0),
            (Measure::Flowtime, 40.0),
            (Measure::Turnaround, 40.0),
            // Tasks end after 10, 20, 30 and 40 s and run for 10.
            (Measure::Slowdown, 2.5),
            (Measure::Wait, 15.0),
            (Measure::Pilots, 1.0),
            (Measure::QueueWait, 0.0),
            (Measure::Repeated, 0.0),
            (Measure::Lost, 0.0),
        ],
        DELAYS,
    );
    // There is no other user to be fair to.
    assert!(account.rows.iter().all(|row| row.value(Measure::Fairness).is_none()), "{account:?}");
    let all = account.all();
    assert!(all.value(Measure::Utilisation).unwrap() > 0.98, "{all:?}");
    assert!((all.value(Measure::Throughput).unwrap() - 360.0).abs() < 5.0, "{all:?}");
    let busy: f64 = account.timelines[0].1.total() as f64 / 1e6;
    assert!((busy - 40.0).abs() < 1e-6, "{busy}");
}

#[test]
fn two_users_one_after_the_other_are_unfair() {
    let account = run("
platforms: [{name: a, nodes: 1, cores: 1}]
applications: [{name: x, time: 30s}]
users:
  - {name: ada, jobs: [{application: x, tasks: 1, priority: 1}]}
  - {name: bob, jobs: [{application: x, tasks: 1}]}
policies: {matching: fifo, bundling: single}
");
    // 30 and 60 seconds: the mean is 45, the deviation 15.
    check(account.all(), &[(Measure::Fairness, 1.0 - 15.0 / 45.0)], 0.01);
    check(account.all(), &[(Measure::Makespan, 60.0), (Measure::Flowtime, 90.0)], DELAYS);
    check(row(&account, Group::User, "bob"), &[(Measure::Makespan, 60.0), (Measure::Wait, 30.0)], DELAYS);
    check(row(&account, Group::Application, "x"), &[(Measure::Turnaround, 45.0)], DELAYS);
}

#[test]
fn rows_of_one_user_say_nothing_of_fairness() {
    let account = run("
platforms: [{name: a, nodes: 1, cores: 2}]
applications: [{name: x, time: 30s}, {name: y, time: 10s}]
users:
  - {name: ada, jobs: [{application: x, tasks: 1}]}
  - {name: bob, jobs: [{application: x, tasks: 2}, {application: y, tasks: 2}]}
");
    let fairness = |group, name| row(&account, group, name).value(Measure::Fairness);
    assert!(account.all().value(Measure::Fairness).is_some());
    assert!(fairness(Group::Application, "x").is_some() && fairness(Group::Platform, "a").is_some());
    assert_eq!(fairness(Group::Application, "y"), None);
}

#[test]
fn means_have_standard_deviations_of_samples() {
    let rows: Vec<Row> = [40.0, 50.0, 60.0]
        .map(|time_s| run(&ONE_CORE.replace("10s", &format!("{}s", time_s / 4.0))).all().clone())
        .into();
    let rows: Vec<&Row> = rows.iter().collect();
    check(&Row::mean(&rows).unwrap(), &[(Measure::Makespan, 50.0), (Measure::Tasks, 4.0)], DELAYS);
    let deviation = Row::deviation(&rows).unwrap();
    check(&deviation, &[(Measure::Makespan, 10.0), (Measure::Tasks, 0.0)], 0.1);
    assert_eq!(deviation.value(Measure::Fairness), None);
    assert_eq!(Row::deviation(&rows[..1]).unwrap().value(Measure::Makespan), None);
}

/// Returns the account of a scenario that was stopped.
fn stopped(text: &str) -> Stopped {
    let account = run(text);
    account.stopped.unwrap_or_else(|| panic!("it was not given up: {:?}\n{text}", account.rows))
}

const DAY: u64 = 86_400;

#[test]
fn scenarios_in_which_nothing_gets_done_are_given_up_and_explained() {
    // Ten seconds for the task, and a month.
    let patience = Span::from_secs(30 * DAY + 10);
    let refused = stopped(&format!("{ONE_CORE}faults: {{submit_refused: 1}}"));
    assert_eq!(refused.cause, Cause::NothingEnds(patience));
    assert_eq!((refused.how_far.n_ended, refused.how_far.n_tasks), (0, 4));
    // Jobs arrive a microsecond after the beginning.
    assert_eq!(refused.how_far.at, patience + Span(1));
    let [job] = &refused.waiting[..] else { panic!("{refused:?}") };
    assert_eq!((job.user.as_str(), job.application.as_str(), job.n_open), ("ada", "x", 4));
    let is_failing = |reason: &Reason| matches!(reason, Reason::PlatformFails { platform, what, .. } if platform == "a" && what == "the queue is closed");
    assert!(job.reasons.iter().any(is_failing), "{refused:?}");
    assert!(refused.platforms[0].0 == "a" && refused.platforms[0].1.iter().any(is_failing), "{refused:?}");
}

#[test]
fn what_was_done_before_a_scenario_is_given_up_is_told() {
    let account = run("
platforms: [{name: a, nodes: 1, cores: 1}]
applications: [{name: x, time: 10s}, {name: y, time: 1d}]
users: [{name: ada, jobs: [{application: x, tasks: 4}, {application: y, tasks: 1, at: 5m}]}]
patience: 1h
");
    let stopped = account.stopped.as_ref().unwrap();
    assert_eq!((stopped.how_far.n_ended, stopped.how_far.n_tasks), (4, 5));
    check(account.all(), &[(Measure::Tasks, 4.0), (Measure::Makespan, 40.0)], DELAYS);
    assert_eq!(stopped.waiting[0].application, "y");
    assert!(matches!(stopped.waiting[0].reasons[..], [Reason::JobRuns { n_running: 1, .. }]), "{stopped:?}");
}

#[test]
fn who_waits_for_a_late_job_or_a_long_task_is_patient() {
    let late = run(&ONE_CORE.replace("tasks: 4", "tasks: 4, at: 400d"));
    let long = run(&ONE_CORE.replace("10s", "40d"));
    for account in [late, long] {
        assert_eq!((&account.stopped, account.all().value(Measure::Tasks)), (&None, Some(4.0)));
    }
}

#[test]
fn chances_of_1_end() {
    for failures in ["program: 1", "node: 1", "pilot: 1", "program: 1, node: 1, pilot: 1"] {
        let text = ONE_CORE.replace("10s", &format!("10s, failures: {{{failures}}}, retries: 3"));
        let account = run(&text);
        assert_eq!((&account.stopped, account.all().value(Measure::Failed)), (&None, Some(4.0)), "{text}");
    }
}

#[test]
fn a_scenario_is_over_after_ten_years() {
    let late = stopped(&ONE_CORE.replace("tasks: 4", "tasks: 1, count: 200, arrivals: {poisson: 90d}"));
    assert_eq!((late.cause, late.how_far.at), (Cause::TooLong(LASTS_AT_MOST), LASTS_AT_MOST));
    assert!((20..70).contains(&late.how_far.n_ended) && late.waiting.is_empty(), "{late:?}");
}

#[test]
fn it_is_told_how_far_it_is() {
    let mut heard = Vec::new();
    let scenario = parse(&ONE_CORE.replace("tasks: 4", "tasks: 2000"));
    scenario.run_told(None, &mut |how_far| heard.push(how_far)).unwrap();
    assert!(heard.len() > 10, "{heard:?}");
    assert!(heard.iter().all(|how_far| how_far.n_tasks == 2000 && how_far.n_ended <= 2000));
    assert!(heard.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].n_ended <= pair[1].n_ended));
    assert!(heard.last().unwrap().n_ended > 1000, "{heard:?}");
}

#[test]
fn policies_decide_and_leave_tasks_as_long_as_they_are() {
    let with = |matching: &str| {
        let account = run(&format!(
            "
platforms: [{{name: a, nodes: 1, cores: 1}}]
applications: [{{name: x, time: {{exponential: 30s}}}}]
users:
  - {{name: ada, jobs: [{{application: x, tasks: 30}}]}}
  - {{name: bob, jobs: [{{application: x, tasks: 3, at: 1m}}]}}
policies: {{matching: {matching}}}
"
        ));
        let busy = account.timelines[0].1.total();
        (busy, row(&account, Group::User, "bob").value(Measure::Turnaround).unwrap())
    };
    let ((turns_busy, turns), (fifo_busy, fifo)) = (with("turns"), with("fifo"));
    assert_eq!(turns_busy, fifo_busy);
    assert!(turns < fifo / 2.0, "bob waits {turns} s where users take turns and {fifo} s where they do not");
}

#[test]
fn who_knows_applications_is_done_sooner_on_unlike_platforms() {
    let makespan = |policies: &str| {
        let account = run(&format!(
            "
platforms:
  - {{name: a, nodes: 2, cores: 4, times: {{search: 10s, docking: 40s}}}}
  - {{name: b, nodes: 2, cores: 4, times: {{search: 40s, docking: 10s}}}}
applications: [{{name: docking, time: 10s}}, {{name: search, time: 10s}}]
users:
  - {{name: ada, jobs: [{{application: docking, tasks: 400}}]}}
  - {{name: bob, jobs: [{{application: search, tasks: 400}}]}}
policies: {policies}
"
        ));
        row(&account, Group::All, "").value(Measure::Makespan).unwrap()
    };
    let equal = makespan("{allocation: equal}");
    for knowing in ["{allocation: pa-rr}", "{allocation: aaf-50}", "{matching: alstb}"] {
        let makespan = makespan(knowing);
        assert!(makespan < 0.8 * equal, "{knowing}: {makespan} s, and {equal} s where all get equal parts");
    }
}

#[test]
fn a_hundred_thousand_tasks_of_one_delay_ten_of_another_by_no_more_than_a_bundle() {
    let turnaround = |policies: &str| {
        let account = run(&format!(
            "
platforms: [{{name: a, nodes: 2, cores: 8}}, {{name: b, nodes: 2, cores: 8}}]
applications: [{{name: docking, time: 10s}}]
users:
  - {{name: ann, jobs: [{{application: docking, tasks: 100000}}]}}
  - {{name: bob, jobs: [{{application: docking, tasks: 10, at: 5m}}]}}
policies: {policies}
"
        ));
        row(&account, Group::User, "bob").value(Measure::Turnaround).unwrap()
    };
    // Running tasks end after ten seconds at most, and then each of bob's ten takes ten.
    for policies in
        ["{}", "{allocation: equal}", "{allocation: pa-rr}", "{matching: alstb}", "{distribution: none}"]
    {
        let turnaround = turnaround(policies);
        assert!((10.0..20.0 + DELAYS).contains(&turnaround), "{policies}: {turnaround} s");
    }
    let last = turnaround("{matching: fifo}");
    assert!(last > 30_000.0, "first come, first served: {last} s");
}

#[test]
fn who_looks_ahead_asks_for_fewer_pilots_and_who_wants_the_fastest_waits() {
    let measures = |policy: &str| {
        let account = run(&format!(
            "
platforms:
  - {{name: centre, nodes: 20, cores: 4, speed: 1.5, queue_wait: {{exponential: 30m}}}}
  - {{name: group, nodes: 4, cores: 4, queue_wait: 10s}}
applications: [{{name: docking, time: 60s}}]
users: [{{name: ada, jobs: [{{application: docking, tasks: 50, count: 20, arrivals: {{poisson: 30m}}}}]}}]
policies: {{placement: {policy}}}
"
        ));
        let value = |measure| row(&account, Group::All, "").value(measure).unwrap();
        (value(Measure::Pilots), value(Measure::Turnaround))
    };
    let (n_asked, turnaround) = measures("none");
    let (n_placed, placed) = measures("tla");
    assert!(n_placed < 0.9 * n_asked, "{n_placed} of {n_asked} pilots");
    let (_, fastest) = measures("fastest-first");
    assert!(turnaround < placed && placed < 0.7 * fastest, "{turnaround} s, {placed} s, {fastest} s");
}

#[test]
fn nodes_are_shared_by_whom_it_hurts_least_once_that_is_learned() {
    let makespan = |slowed_by: [&str; 2], policy: &str| {
        let account = run(&format!(
            "
platforms: [{{name: a, nodes: 4, cores: 4}}]
applications:
  - {{name: x, time: {{uniform: [20s, 40s]}}, slowed_by: {{{}: 0.4}}}}
  - {{name: y, time: {{uniform: [20s, 40s]}}, slowed_by: {{{}: 0.4}}}}
users:
  - {{name: ada, jobs: [{{application: x, tasks: 400}}]}}
  - {{name: bob, jobs: [{{application: y, tasks: 400}}]}}
policies: {{mapping: {policy}}}
",
            slowed_by[0], slowed_by[1]
        ));
        row(&account, Group::All, "").value(Measure::Makespan).unwrap()
    };
    // Three co-runners of its own application make a task take 2.2 times as long, one 1.4 times.
    let [all_core, maf] = ["all-core", "maf"].map(|policy| makespan(["x", "y"], policy));
    assert!(maf < 0.75 * all_core, "{maf} s, {all_core} s");
    // Tasks hurt by others but not by their own kind are better off alone; that was not declared.
    let [random, maf] = ["random", "maf"].map(|policy| makespan(["y", "x"], policy));
    assert!(maf < 0.85 * random, "{maf} s, {random} s");
}

#[test]
fn tasks_of_different_jobs_have_nothing_to_do_with_each_other() {
    let account = run("
platforms: [{name: a, nodes: 2, cores: 1}]
applications: [{name: x, time: {exponential: 30s}}, {name: y, time: {exponential: 30s}}]
users: [{name: ada, jobs: [{application: x, tasks: 1}, {application: y, tasks: 1}]}]
");
    let turnaround = |name| row(&account, Group::Application, name).value(Measure::Turnaround).unwrap();
    assert!((turnaround("x") - turnaround("y")).abs() > 2.0 * DELAYS);
}

#[test]
fn the_same_seed_is_the_same_to_the_byte_and_another_is_not() {
    let text = |seed: u64| {
        let scenario = Scenario { seed, ..parse(MIXED) };
        let mut trace = String::new();
        let account = scenario.run(Some(&mut |line| trace += &format!("{line}\n"))).unwrap();
        (account.listing().to_csv() + &account.busy_cores().to_csv() + &account.figure().to_svg(), trace)
    };
    let first = text(5);
    assert!(first.1.lines().count() > 1_000);
    assert_eq!(text(5), first);
    assert_ne!(text(6).0, first.0);
}

#[test]
fn neighbours_slow_each_other_down_while_they_are_there() {
    let two_cores = |fields: &str| {
        run(&format!(
            "
platforms: [{{name: a, nodes: 1, cores: 2}}]
applications: [{{name: x, time: 10s, slowed_by: {{x: 1}}{fields}}}]
users: [{{name: ada, jobs: [{{application: x, tasks: 3}}]}}]
"
        ))
    };
    // Two tasks run at half their speed until 20 s, the third one alone.
    let account = two_cores("");
    check(account.all(), &[(Measure::Makespan, 30.0), (Measure::Failed, 0.0)], DELAYS);
    check(account.all(), &[(Measure::Wait, 20.0 / 3.0)], DELAYS);
    // Both are stopped after 15 s; the task that runs alone is not.
    let account = two_cores(", time_limit: 15s");
    check(account.all(), &[(Measure::Makespan, 25.0), (Measure::Failed, 2.0)], DELAYS);
    // Two executions of 15 s on 1 core did not count.
    check(account.all(), &[(Measure::Lost, 30.0)], DELAYS);
}

const MIXED: &str = "
platforms:
  - {name: near, nodes: 3, cores: 4, walltime: 1h, queue_wait: {exponential: 2m}}
  - {name: far, nodes: 2, cores: 8, speed: 0.5, queue_wait: 30s, times: {blast: {uniform: [20s, 30s]}}}
applications:
  - {name: docking, time: {lognormal: {mean: 40s, spread: 0.5}}, failures: {program: 0.05}, retries: 2}
  - {name: blast, time: {bounded-pareto: {shape: 1.5, min: 5s, max: 5m}}, cores: 2}
users:
  - {name: ada, jobs: [{application: docking, tasks: 150}]}
  - {name: bob, jobs: [{application: {docking: 0.5, blast: 0.5}, tasks: 10, count: 12, arrivals: {poisson: 1m}}]}
  - {name: eve, jobs: [{application: blast, tasks: 20, count: 3, arrivals: {pattern: bursting, over: 30m}}]}
";

fn any_time() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        (1..60_u32).prop_map(|s| Distribution::Constant(f64::from(s))),
        (1..60_u32, 0..60_u32).prop_map(|(low, more)| {
            Distribution::Uniform { low: f64::from(low), high: f64::from(low + more) }
        }),
        (1..60_u32).prop_map(|s| Distribution::Exponential(f64::from(s))),
        (1..60_u32).prop_map(|s| Distribution::Lognormal { mean: f64::from(s), spread: 1.0 }),
        (1..9_u32).prop_map(|s| Distribution::BoundedPareto { shape: 1.2, low: f64::from(s), high: 900.0 }),
    ]
}

prop_compose! {
    fn any_platform()(
        n_nodes in 1..4_u32,
        cores in 2..6_u32,
        walltime in prop::option::of(1200..4000_u64),
        queue_wait in any_time(),
        idle_s in 1..600_u64,
        speed in 0.5..2.0_f64,
    ) -> Platform {
        Platform {
            name: String::new(),
            n_nodes,
            capacity: Resources::cores(cores),
            pilots_min: 0,
            walltime: walltime.map(Span::from_secs),
            queue_wait,
            past_waits: [].into(),
            past_means: Vec::new(),
            idle_timeout: Span::from_secs(idle_s),
            poll_interval: Span::from_secs(10),
            speed,
            times: Vec::new(),
        }
    }
}

prop_compose! {
    fn any_application()(
        time in any_time(),
        cores in 1..3_u32,
        retries in 0..3_u32,
        slowed_by in prop::option::of((0..2_usize, 0.0..0.5_f64)),
        rates in prop::array::uniform3(prop_oneof![Just(0.0), 0.0..0.1_f64]),
    ) -> Application {
        let [program_fails, node_fails, pilot_dies] = rates;
        let name = String::new();
        let slowed_by = slowed_by.into_iter().collect();
        let (time, time_limit) = (Some(time), None);
        Application { name, time, cores, time_limit, retries, slowed_by, program_fails, node_fails, pilot_dies }
    }
}

prop_compose! {
    fn any_lot()(
        user in 0..3_usize,
        weight in 0.0..1.0_f64,
        n_tasks in 1..30_u64,
        n_jobs in 1..4_u64,
        at_s in 0..600_u64,
        arrivals in prop_oneof![
            Just(Arrivals::AtOnce),
            Just(Arrivals::Poisson(Span::from_secs(30))),
            Just(Arrivals::Pattern(Pattern::Bursting, Span::from_secs(900))),
        ],
    ) -> Lot {
        let applications = vec![(0, weight), (1, 1.0 - weight)];
        Lot { user, applications, n_tasks, n_jobs, priority: 0, at: Span::from_secs(at_s), arrivals }
    }
}

prop_compose! {
    fn any_past_job()(
        user in 0..3_usize,
        application in 0..2_usize,
        cores in 1..3_u32,
        at_s in 0..600_u64,
        lengths_s in prop::collection::vec(1..300_u64, 1..20),
        n_failed in 0..3_u64,
    ) -> PastJob {
        let resources = Resources::cores(cores);
        let job = Coming {
            user,
            application,
            at: Span::from_secs(at_s),
            n_tasks: lengths_s.len() as u64,
            needs: TaskNeeds { resources, time_limit: None, success_codes: vec![0], ..TaskNeeds::default() },
            retries: 0,
            priority: 0,
            priority_over_all: true,
            estimates: None,
        };
        let spans = lengths_s.into_iter().map(Span::from_secs).collect();
        let lengths = Lengths::Each { spans, failed: TaskSet::from(0..n_failed), places: [].into() };
        PastJob { job, lengths, order: Order::default() }
    }
}

prop_compose! {
    fn any_scenario()(
        seed in 0..1000_u64,
        mut platforms in prop::collection::vec(any_platform(), 1..3),
        mut applications in prop::collection::vec(any_application(), 2),
        lots in prop::collection::vec(any_lot(), 1..5),
        past in prop::collection::vec(any_past_job(), 0..3),
        dies in prop_oneof![Just(0), Just(3_u64)],
        layers in (0..2_usize, 0..3_usize),
    ) -> Scenario {
        platforms.iter_mut().enumerate().for_each(|(n, platform)| platform.name = format!("p{n}"));
        applications.iter_mut().enumerate().for_each(|(n, one)| one.name = format!("a{n}"));
        let mut faults = Faults::default();
        faults.rates.pilot_dies = dies;
        faults.rates.message_lost = dies * 20;
        faults.rates.commit_dies = dies * 100;
        faults.manager_deaths = vec![Span::from_secs(300); (dies > 0).into()];
        let (matching, bundling) = (["turns", "fifo"][layers.0], ["guided", "single", "fixed-3"][layers.1]);
        let policies = protocol::policies::with(Policies::default(), "matching", matching).unwrap();
        let policies = protocol::policies::with(policies, "bundling", bundling).unwrap();
        let users = ["ada", "bob", "eve"].map(str::to_owned).to_vec();
        let past = past.into();
        Scenario { seed, platforms, applications, users, lots, past, policies, patience: None, history: None, faults }
    }
}

const CASES: u32 = 48;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_task_ends_once_and_no_core_is_used_twice(scenario in any_scenario()) {
        let (plan, scene) = plan::of(&scenario);
        let mut world = World::new(scenario.seed, plan, Some(scene), None);
        prop_assert_eq!(world.run(), Ok(()));
        let ledger = world.scene.unwrap().ledger;
        let sum = |of: fn(&super::ledger::Tally) -> u128| -> (u128, u128) {
            let jobs = ledger.jobs.iter().map(|job| of(&job.tally)).sum();
            (jobs, ledger.platforms.iter().map(|platform| of(&platform.tally)).sum())
        };
        for job in &ledger.jobs {
            prop_assert_eq!(job.tally.n_done + job.tally.n_failed, job.n_tasks);
        }
        // Jobs and platforms count the same executions.
        for (jobs, platforms) in [
            sum(|tally| u128::from(tally.n_done)),
            sum(|tally| u128::from(tally.n_failed)),
            sum(|tally| u128::from(tally.n_executions)),
            sum(|tally| tally.useful),
        ] {
            prop_assert_eq!(jobs, platforms);
        }
        for (platform, account) in scenario.platforms.iter().zip(&ledger.platforms) {
            prop_assert!(account.busy_cores_max <= platform.n_nodes * platform.capacity.cores);
            prop_assert_eq!(account.timeline.total(), account.tally.busy);
            prop_assert!(account.tally.useful <= account.tally.busy);
            prop_assert!(account.tally.busy <= account.held_us * u128::from(platform.capacity.cores));
        }
    }

    #[test]
    fn an_auditor_changes_nothing(mut scenario in any_scenario()) {
        scenario.lots.truncate(2);
        let run = |is_audited: bool| {
            let (plan, mut scene) = plan::of(&scenario);
            scene.is_audited = is_audited;
            let mut world = World::new(scenario.seed, plan, Some(scene), None);
            world.run().map(|()| world.outcome().n_events)
        };
        prop_assert_eq!(run(true), run(false));
    }
}
