//! The layer `distribution`: the part of each application's tasks that is meant for each platform.

use std::collections::BTreeMap;

use super::{
    sharing::{Two, of_user, took},
    *,
};
use crate::{
    engine::{
        interface::{
            declared_profile::{Declared, JobType},
            views::weights::{WeightCause, WeightChange},
        },
        plan::runtime_model::RuntimeModel,
    },
    ids::PlatformId,
    policy::{Policies, distribution::Distribution},
    pull::Holdings,
};

/// Runtime of a task in seconds, by application and platform.
const WALLS: [[u64; 2]; 2] = [[1, 4], [4, 1]];

fn dividing(distribution: Option<Distribution>) -> Two {
    Two::new(Policies { distribution, ..Policies::default() })
}

impl Two {
    fn submit_all(&mut self, sizes: &[(&str, u64)]) -> Vec<JobId> {
        self.scene.wait(2);
        let submit = |(application, n): &(&str, u64)| self.scene.submit(of_user("ada", application, *n));
        let jobs = sizes.iter().map(submit).collect();
        // Jobs after the first are divided a moment later.
        self.scene.wait(1);
        jobs
    }

    /// Returns the tasks of a job that a platform's pilot holds.
    pub(super) fn held(&self, place: usize, job: JobId) -> TaskSet {
        let leases = &self.scene.engine.live.pilots[&self.pilots[place]].leases;
        leases.get(&job).cloned().unwrap_or_default()
    }

    /// Returns how many tasks of each job (row; docking first) each platform's pilot ran, and the seconds
    /// until all had ended. The second platform's pilot asks first.
    fn worked_off(&mut self, jobs: &[JobId]) -> (Vec<[u64; 2]>, u64) {
        let mut ran = vec![[0; 2]; jobs.len()];
        let mut begun = BTreeMap::<(usize, usize, u64), u64>::new();
        for second in 0..1000 {
            for ((place, which, index), at) in begun.clone() {
                if at + WALLS[which][place] == second {
                    took(
                        &mut self.scene,
                        self.pilots[place],
                        jobs[which],
                        &index.to_string(),
                        WALLS[which][place],
                    );
                    begun.remove(&(place, which, index));
                }
            }
            for place in [1, 0] {
                self.scene.take(self.pilots[place]);
                for (which, job) in jobs.iter().enumerate() {
                    for index in self.held(place, *job).indices() {
                        begun.entry((place, which, index)).or_insert_with(|| {
                            ran[which][place] += 1;
                            second
                        });
                    }
                }
            }
            if begun.is_empty()
                && jobs.iter().all(|job| self.scene.engine.durable().jobs()[job].open.is_empty())
            {
                return (ran, second);
            }
            self.scene.wait_awake(1);
        }
        panic!("they never end: {ran:?}, {begun:?}");
    }
}

#[test]
fn each_law_divides_as_it_says() {
    for (law, expected) in [
        (Some(Distribution::Adaptive), (vec![[40, 0], [0, 40]], 10)),
        (Some(Distribution::CoreBased), (vec![[20, 20], [20, 20]], 25)),
        (Some(Distribution::Profile), (vec![[32, 8], [8, 32]], 16)),
        (Some(Distribution::Adaptive2016), (vec![[32, 8], [8, 32]], 16)),
        // The second pilot asks first and gets docking, which is slow there; the first gets search.
        (None, (vec![[0, 40], [40, 0]], 40)),
    ] {
        let mut two = dividing(law);
        let jobs = two.submit_all(&[("docking", 40), ("search", 40)]);
        assert_eq!(two.worked_off(&jobs), expected, "{law:?}");
    }
}

#[test]
fn who_has_done_its_own_takes_over_from_the_fullest() {
    let mut two = dividing(Some(Distribution::CoreBased));
    let jobs = two.submit_all(&[("docking", 40)]);
    // The slow platform would need 20 seconds for half of the tasks.
    let (ran, n_seconds) = two.worked_off(&jobs);
    assert_eq!((ran, n_seconds), (vec![[32, 8]], 8));
}

#[test]
fn what_would_end_last_is_not_begun_where_it_is_slow() {
    for (law, n_slow) in [(Some(Distribution::Adaptive), 0), (None, 4)] {
        let mut two = dividing(law);
        let jobs = two.submit_all(&[("docking", 6)]);
        two.scene.take(two.pilots[1]);
        assert_eq!(two.held(1, jobs[0]).len(), n_slow, "{law:?}");
        two.scene.take(two.pilots[0]);
        assert_eq!(two.held(0, jobs[0]).len(), (6 - n_slow).min(4));
    }
}

#[test]
fn what_nobody_takes_where_it_is_fast_is_taken_where_it_is_slow() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let jobs = two.submit_all(&[("docking", 6)]);
    for n_held in [0, 4] {
        two.scene.take(two.pilots[1]);
        assert_eq!(two.held(1, jobs[0]).len(), n_held, "the pilot that should have them does not ask");
        two.scene.wait_awake(1);
    }
}

impl Two {
    /// Replaces the pilot of the second platform by a new one.
    fn replace_second(&mut self) {
        self.scene.leaves(self.pilots[1]);
        self.scene.wait_awake(0);
        let (asked_at, result) = (self.scene.now + Span::from_secs(60), Ok(vec![]));
        self.scene.say(|_| Event::PlatformListed { platform: PlatformId(2), asked_at, result });
        let (_, tag) = self.scene.submissions().remove(0);
        let node = NodeFacts { capacity: Resources::cores(4), ..NodeFacts::default() };
        self.pilots[1] = self.scene.register(&tag, node);
    }
}

#[test]
fn who_waits_for_others_has_waited_though_platforms_come_and_go() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let jobs = two.submit_all(&[("docking", 6)]);
    two.scene.take(two.pilots[1]);
    assert_eq!(two.held(1, jobs[0]).len(), 0, "the pilot that should have them does not ask");
    two.replace_second();
    two.scene.wait_awake(1);
    two.scene.take(two.pilots[1]);
    assert_eq!(two.held(1, jobs[0]).len(), 4);
}

#[test]
fn tasks_that_are_lost_with_pilots_count_against_their_platform_unless_they_come_back() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let job = two.scene.submit(of_user("ada", "docking", 100));
    let id = two.scene.engine.durable().pilots()[&two.pilots[0]].platform;
    let lost = |two: &Two| two.scene.engine.durable().facts().known(id, "docking").measured?.loss_rate();
    two.scene.take(two.pilots[0]);
    let held = two.held(0, job);
    two.scene.pull(two.pilots[0], Pull { running: vec![(job, held.clone())], ..hungry() });
    assert_eq!(lost(&two), Some(0.0));
    two.scene.wait_awake(100);
    assert!(lost(&two).is_some_and(|rate| rate > 0.2), "{:?}", lost(&two));
    let answer = two.scene.pull(two.pilots[0], hungry()).expect("it is asked what it holds");
    let asked = answer.resync.expect("a question");
    let none = TaskSet::new;
    let tasks = vec![crate::pull::Held { job, queued: none(), running: held, unreported: none() }];
    let holds = Some(Holdings { asked, tasks, templates: vec![job] });
    two.scene.pull(two.pilots[0], Pull { holds, ..hungry() });
    assert_eq!(lost(&two), Some(0.0), "it still runs them");
}

/// Returns two platforms; ada has used up her core-hours on the first.
fn with_nothing_left_on_the_first() -> Two {
    let mut two = dividing(Some(Distribution::Adaptive));
    let limits = PlatformLimits { user_core_time_max: Some(Span::from_secs(1)), ..PlatformLimits::default() };
    two.scene.attach(PlatformSpec { name: "a".into(), n_pilots_min: 1, limits, ..platform(1, 4) });
    let spent = two.submit_all(&[("docking", 1)])[0];
    two.scene.take(two.pilots[0]);
    took(&mut two.scene, two.pilots[0], spent, "0", 1);
    two
}

#[test]
fn who_may_not_run_where_it_is_fast_waits_for_nobody_there() {
    let mut two = with_nothing_left_on_the_first();
    let job = two.submit_all(&[("docking", 6)])[0];
    two.scene.take(two.pilots[1]);
    assert_eq!(two.held(1, job).len(), 4);
}

#[test]
fn who_may_not_run_where_nothing_fails_is_not_kept_from_where_much_does() {
    let mut two = with_nothing_left_on_the_first();
    let job = two.scene.submit(JobRequest { retries: 9, ..of_user("ada", "docking", 40) });
    let mut n_begun = 0;
    for _ in 0..6 {
        two.scene.take(two.pilots[1]);
        let held = two.held(1, job);
        n_begun += held.len();
        for index in held.indices() {
            two.scene.fail(two.pilots[1], job, index, FailureKind::Exit { code: 1 });
        }
        two.scene.wait_awake(1);
    }
    assert!(n_begun >= 20, "{n_begun} of 24: a platform that is closed to its user fails less often");
}

fn declare(scene: &mut Scene, application: &str, job_type: JobType, times: &[(&str, u64)]) {
    let times = times.iter().map(|(platform, time_s)| ((*platform).to_owned(), Span::from_secs(*time_s)));
    let declared = Declared { job_type: Some(job_type), times: times.collect(), ..Declared::default() };
    let (application, declared) = (application.to_owned(), Some(Box::new(declared)));
    scene.say(|request| Event::DeclareAsked { request, application, declared });
}

#[test]
fn who_wants_little_does_not_wait_behind_who_wants_much_for_what_suits_all_together() {
    let mut two = dividing(Some(Distribution::Adaptive));
    // On one platform all tasks are slow, on the other all are fast, one kind very much so.
    declare(&mut two.scene, "fold", JobType::CpuBound, &[("a", 30), ("b", 10)]);
    declare(&mut two.scene, "scan", JobType::IoBound, &[("a", 60), ("b", 1)]);
    let much = two.scene.submit(of_user("bob", "scan", 100_000));
    two.scene.wait(2);
    for place in [0, 1] {
        two.scene.take(two.pilots[place]);
    }
    let little = two.scene.submit(of_user("ann", "fold", 10));
    two.scene.wait(1);
    let first = two.held(1, much).first().expect("it is busy with the other's");
    took(&mut two.scene, two.pilots[1], much, &first.to_string(), 1);
    two.scene.take(two.pilots[1]);
    assert!(!two.held(1, little).is_empty(), "the first core that comes free is hers");
}

#[test]
fn what_has_never_run_goes_where_it_is_said_to_be_fast() {
    for law in [Distribution::Adaptive, Distribution::Profile] {
        let mut two = dividing(Some(law));
        declare(&mut two.scene, "fold", JobType::CpuBound, &[("a", 1), ("b", 4)]);
        declare(&mut two.scene, "scan", JobType::IoBound, &[("a", 4), ("b", 1)]);
        let jobs = two.submit_all(&[("fold", 40), ("scan", 40)]);
        let said = |two: &mut Two| {
            let why = two.scene.explain(Query::ExplainWeight("fold".into()));
            why.iter().filter(|one| one.to_string().contains("is said of a task")).count()
        };
        assert_eq!(said(&mut two), 2, "none has run there");
        let (ran, n_seconds) = two.worked_off(&jobs);
        let _again = two.submit_all(&[("fold", 40)]);
        assert_eq!(said(&mut two), ran[0].iter().filter(|n| **n == 0).count());
        let expected = match law {
            Distribution::Adaptive => (vec![[40, 0], [0, 40]], 10),
            _ => (vec![[32, 8], [8, 32]], 16),
        };
        assert_eq!((ran, n_seconds), expected, "{law:?}");
    }
}

#[test]
fn what_is_known_of_one_platform_is_guessed_of_others_by_its_type() {
    let mut two = dividing(None);
    declare(&mut two.scene, "docking", JobType::CpuBound, &[]);
    declare(&mut two.scene, "search", JobType::IoBound, &[]);
    let guess = |two: &Two, application: &str| {
        let durable = two.scene.engine.durable();
        let platforms: Vec<_> = durable.platforms().keys().copied().collect();
        let guess = RuntimeModel::new(durable.facts(), &platforms).guess(application);
        guess.into_iter().map(|seconds| (seconds * 1000.0).round() / 1000.0).collect::<Vec<f64>>()
    };
    assert_eq!(guess(&two, "docking"), [1.0, 4.0], "measured");
    assert_eq!(guess(&two, "scan"), [60.0, 60.0], "nothing is known");
    declare(&mut two.scene, "scan", JobType::IoBound, &[("a", 8)]);
    assert_eq!(guess(&two, "scan"), [8.0, 2.0], "as of the other that is I/O-bound");
    declare(&mut two.scene, "scan", JobType::CpuBound, &[("a", 8)]);
    assert_eq!(guess(&two, "scan"), [8.0, 32.0]);
    declare(&mut two.scene, "scan", JobType::MemoryBound, &[("a", 8)]);
    assert_eq!(guess(&two, "scan"), [8.0, 8.0], "as of all: one is four times as fast, the other slow");
    declare(&mut two.scene, "scan", JobType::IoBound, &[("elsewhere", 7)]);
    assert_eq!(guess(&two, "scan"), [7.0, 7.0]);
}

#[test]
fn weights_are_explained_with_their_numbers() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let jobs = two.submit_all(&[("docking", 6)]);
    let said = |two: &mut Two, query: Query| {
        let reasons = two.scene.explain(query);
        reasons.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    let waiting =
        "of what waits of docking, distribution (adaptive) means 100 % for a (6 left), 0 % for b (0 left)";
    let left = "b takes none: a task takes 4.0s there, and the others have begun all in 1.5s and take 1.0s";
    let weights = said(&mut two, Query::ExplainWeight("docking".into()));
    assert_eq!(weights[..2], [waiting, "a has weight 100 %: 4 tasks at a time, a task takes 1.0s, 0 % fail"]);
    assert!(weights.contains(&left.to_owned()), "{weights:#?}");
    let job = said(&mut two, Query::ExplainJob(jobs[0]));
    assert!(job.contains(&waiting.to_owned()) && job.contains(&left.to_owned()), "{job:#?}");
    let search = said(&mut two, Query::ExplainWeight("search".into()));
    assert!(search[0].starts_with("nothing of it is divided among platforms"), "{search:?}");
    let asked = Event::Asked { request: RequestId(0), query: Query::ExplainWeight("dockings".into()) };
    let effects = two.scene.engine.handle(two.scene.now, asked).effects;
    assert!(matches!(&effects[0], Effect::Answer { answer: Answer::Refused(Refusal::NoProfile(_)), .. }));
}

#[test]
fn what_is_left_to_others_is_explained_with_the_failures_that_decided() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let first = two.submit_all(&[("docking", 40)]);
    two.scene.take(two.pilots[1]);
    let failed = two.held(1, first[0]).first().expect("it takes some");
    two.scene.fail(two.pilots[1], first[0], failed, FailureKind::Exit { code: 1 });
    two.worked_off(&first);
    let jobs = two.submit_all(&[("docking", 6)]);
    let cell = two.scene.engine.live.plan.quotas.rows[0].cells[1];
    assert!(cell.error_rate > 0.01 && !cell.is_shunned, "{cell:?}");
    let decided = cell.success_s().map(Span::from_secs_f64).expect("it is known");
    let said = two.scene.explain(Query::ExplainJob(jobs[0]));
    let takes = |reason: &Reason| matches!(reason, Reason::LeftToOthers { takes, .. } if *takes == decided);
    assert!(said.iter().any(takes), "{decided}: {said:?}");
}

#[test]
fn a_platform_that_fails_loses_its_weight_and_regains_it() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let request = JobRequest { retries: 10, ..of_user("ada", "docking", 10_000) };
    let job = two.scene.submit(request);
    let (mut weights, mut n_failed) = (Vec::new(), 0);
    for second in 0..120_u64 {
        for place in [0, 1] {
            let held = two.held(place, job);
            let is_due = second % WALLS[0][place] == 0;
            for index in held.indices().take(if is_due { 4 } else { 0 }) {
                if place == 0 && (20..60).contains(&second) {
                    n_failed += 1;
                    two.scene.fail(two.pilots[0], job, index, FailureKind::Exit { code: 1 });
                } else {
                    took(&mut two.scene, two.pilots[place], job, &index.to_string(), WALLS[0][place]);
                }
            }
            two.scene.take(two.pilots[place]);
        }
        two.scene.wait_awake(1);
        let row = &two.scene.engine.live.plan.quotas.rows[0];
        let shares = row.weights.shares();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares.iter().all(|share| *share >= 0.0));
        weights.push(shares[0]);
    }
    let at = |second: usize| (weights[second] * 100.0).round();
    assert_eq!(at(19), 80.0, "four times as fast");
    assert!((25..64).all(|second| at(second) < 20.0), "{weights:?}");
    assert!(n_failed < 60, "it was given no more than shows whether it is mended: {n_failed}");
    assert!(at(119) > 75.0, "{weights:?}");
}

#[test]
fn who_may_not_run_where_it_is_fast_does_not_wait_for_ever_beside_others_who_may() {
    let mut two = dividing(Some(Distribution::Adaptive));
    // Bob has used up his core-hours where docking is fast; ada's few tasks go on there for long.
    let limits = PlatformLimits { user_core_time_max: Some(Span::from_secs(2)), ..PlatformLimits::default() };
    two.scene.attach(PlatformSpec { name: "a".into(), n_pilots_min: 1, limits, ..platform(1, 4) });
    let spent = two.scene.submit(of_user("bob", "docking", 2));
    two.scene.wait(1);
    two.scene.take(two.pilots[0]);
    let held = two.held(0, spent).to_string();
    took(&mut two.scene, two.pilots[0], spent, &held, 1);
    let bob = two.scene.submit(of_user("bob", "docking", 3));
    let mut n_ada = 0;
    for user in 0..20 {
        let ada = two.scene.submit(of_user(&format!("ada{user}"), "docking", 1));
        two.scene.wait_awake(1);
        two.scene.take(two.pilots[0]);
        let held = two.held(0, ada);
        if !held.is_empty() {
            n_ada += 1;
            took(&mut two.scene, two.pilots[0], ada, "0", 1);
        }
        two.scene.take(two.pilots[1]);
    }
    assert_eq!((two.held(0, bob).len(), two.held(1, bob).len()), (0, 3), "others had {n_ada} there");
    assert!(n_ada > 15, "{n_ada}");
}

#[test]
fn a_platform_that_was_mended_is_tried_while_others_are_busy() {
    let mut two = dividing(Some(Distribution::Adaptive));
    two.scene.engine.settings.black_hole_limit = u32::MAX;
    let request = JobRequest { retries: 100, ..of_user("ada", "docking", 3000) };
    let job = two.scene.submit(request);
    let (mut n_tried, mut n_timers) = (0, 0);
    for second in 0..60 {
        two.scene.take(two.pilots[0]);
        let held = two.held(0, job);
        n_tried += if second > 10 { held.len() } else { 0 };
        for index in held.indices() {
            two.scene.fail(two.pilots[0], job, index, FailureKind::Exit { code: 1 });
        }
        // The other pilot has some tasks that take long.
        two.scene.take(two.pilots[1]);
        if second == 12 {
            let why = two.scene.explain(Query::ExplainJob(job));
            assert!(
                why.iter().any(|one| matches!(one, Reason::FailsThere { platform, .. } if platform == "a")),
                "{why:?}"
            );
            assert!(!why.iter().any(|one| matches!(one, Reason::PilotsBusy { .. })), "one is idle: {why:?}");
        }
        let end = two.scene.now + Span::from_secs(1);
        while let Some(due) = two.scene.engine.next_wakeup().filter(|due| *due <= end) {
            two.scene.now = two.scene.now.max(due);
            two.scene.say(|_| Event::TimerFired);
            n_timers += 1;
        }
        two.scene.now = end;
    }
    assert!((10..80).contains(&n_tried), "a few every five seconds, not {n_tried}");
    assert!(n_timers < 1000, "{n_timers} timers in a minute");
}

#[test]
fn loads_move_the_weights_of_2016_and_they_stay_moved_for_what_comes_later() {
    let mut two = dividing(Some(Distribution::Adaptive2016));
    let weights = |two: &Two, application: &str| {
        let rows = &two.scene.engine.live.plan.quotas.rows;
        let row = rows.iter().find(|row| row.kind.application == application).expect("a row");
        row.weights.shares().iter().map(|share| (share * 100.0).round()).collect::<Vec<f64>>()
    };
    two.submit_all(&[("docking", 40)]);
    assert_eq!(weights(&two, "docking"), [80.0, 20.0], "32 and 8 wait, the threshold is 40");
    two.submit_all(&[("docking", 40)]);
    assert_eq!(weights(&two, "docking"), [70.0, 30.0], "64 and 16 wait");
    two.submit_all(&[("search", 4)]);
    // 65 and 19 tasks wait, the threshold is 28.
    assert_eq!(weights(&two, "docking"), [60.0, 40.0]);
    assert_eq!(weights(&two, "search"), [10.0, 90.0]);
}

#[test]
fn a_ration_is_for_all_jobs_of_a_kind_together() {
    let mut two = dividing(Some(Distribution::Adaptive));
    two.scene.engine.settings.black_hole_limit = u32::MAX;
    let spoiled = two.submit_all(&[("docking", 30)])[0];
    for _ in 0..8 {
        two.scene.take(two.pilots[0]);
        for index in two.held(0, spoiled).indices() {
            two.scene.fail(two.pilots[0], spoiled, index, FailureKind::Exit { code: 1 });
        }
        two.scene.wait_awake(1);
    }
    // The tasks are short: many would be prefetched.
    let short: Vec<JobId> = two.submit_all(&[("docking", 1000), ("docking", 1000)]);
    for id in &short {
        two.scene.take(two.pilots[1]);
        let first = two.held(1, *id).first();
        if let Some(first) = first {
            took(&mut two.scene, two.pilots[1], *id, &first.to_string(), 0);
        }
    }
    two.scene.wait_awake(6);
    two.scene.take(two.pilots[0]);
    let n_held: u64 = short.iter().chain([&spoiled]).map(|id| two.held(0, *id).len()).sum();
    assert_eq!(n_held, 4);
}

impl Two {
    /// Restarts the manager after a crash; both pilots come back and say that they hold nothing.
    fn restart(&mut self) {
        let (settings, epoch) = (self.scene.engine.settings, self.scene.engine.live.epoch + 1);
        self.scene.engine = Engine::restore(settings, epoch, self.scene.now, self.scene.records.clone());
        for name in ["a", "b"] {
            self.scene.attach(PlatformSpec { name: name.into(), n_pilots_min: 1, ..platform(1, 4) });
        }
        for pilot in self.pilots {
            let asked = self.scene.pull(pilot, Pull { epoch, ..hungry() }).and_then(|answer| answer.resync);
            let holds = Holdings { asked: asked.unwrap_or(0), tasks: vec![], templates: vec![] };
            self.scene.pull(pilot, Pull { epoch, holds: Some(holds), is_hungry: false, ..hungry() });
        }
        self.scene.wait_awake(2);
    }

    /// Returns the weights of an application's tasks on the two platforms, in hundredths.
    fn hundredths(&self, application: &str) -> Option<Vec<u64>> {
        let rows = &self.scene.engine.live.plan.quotas.rows;
        let row = rows.iter().find(|row| row.kind.application == application)?;
        Some(row.weights.shares().iter().map(|share| (share * 100.0).round() as u64).collect())
    }

    fn history(&self) -> Vec<WeightChange> {
        self.scene.engine.durable().weights().changes().cloned().collect()
    }
}

#[test]
fn how_weights_have_moved_and_why_outlives_the_manager() {
    let mut two = dividing(Some(Distribution::Adaptive));
    let first = two.submit_all(&[("docking", 400)]);
    let expected = vec![80, 20];
    assert_eq!(two.hundredths("docking"), Some(expected.clone()));
    let history = two.history();
    assert_eq!((history.len(), &history[0].causes[..]), (1, &[WeightCause::First][..]));
    // Attempts fail on the fast platform: the weights change, at the earliest five seconds later.
    two.scene.take(two.pilots[0]);
    for index in two.held(0, first[0]).indices() {
        two.scene.fail(two.pilots[0], first[0], index, FailureKind::Exit { code: 1 });
    }
    two.scene.wait_awake(2);
    assert_eq!(two.history().len(), 1);
    two.scene.wait_awake(40);
    let history = two.history();
    let causes = &history.last().expect("one").causes;
    let is_of_errors =
        |cause: &WeightCause| matches!(cause, WeightCause::Errors { platform, .. } if platform == "a");
    assert!(history.len() > 1 && causes.iter().any(is_of_errors), "{history:?}");
    two.restart();
    assert_eq!(two.history()[..history.len()], history);
    let said = two.scene.explain(Query::ExplainWeight("docking".into()));
    assert!(said.iter().any(|reason| matches!(reason, Reason::WeightMoved { .. })), "{said:?}");
}

#[test]
fn weights_that_a_guess_has_moved_say_so() {
    let mut two = dividing(Some(Distribution::Adaptive));
    declare(&mut two.scene, "docking", JobType::CpuBound, &[]);
    declare(&mut two.scene, "search", JobType::IoBound, &[]);
    declare(&mut two.scene, "scan", JobType::IoBound, &[("a", 8)]);
    two.submit_all(&[("scan", 400)]);
    two.scene.wait_awake(6);
    assert_eq!(two.hundredths("scan"), Some(vec![20, 80]));
    // The runtime on the known platform stays: the other one is guessed from the type alone.
    declare(&mut two.scene, "scan", JobType::CpuBound, &[("a", 8)]);
    two.scene.wait_awake(40);
    assert_eq!(two.hundredths("scan"), Some(vec![80, 20]));
    let causes = two.history().pop().expect("one").causes;
    let guess = WeightCause::Mean { platform: "b".into(), before: None, guessed: Some(Span::from_secs(2)) };
    assert_eq!(causes, [guess]);
}

#[test]
fn what_loads_have_moved_outlives_the_manager() {
    let mut two = dividing(Some(Distribution::Adaptive2016));
    let initial = vec![80, 20];
    two.submit_all(&[("docking", 100)]);
    assert_eq!(two.hundredths("docking"), Some(initial.clone()));
    two.submit_all(&[("docking", 100)]);
    let moved = two.hundredths("docking").expect("a row");
    assert_ne!(moved, initial, "160 wait where 100 are a job's mean");
    two.scene.wait_awake(6);
    let log = two.scene.engine.durable().weights();
    assert_eq!(log.law(), two.scene.engine.live.plan.quotas.law.as_ref());
    let causes: Vec<WeightCause> = two.history().into_iter().flat_map(|change| change.causes).collect();
    assert!(
        causes.iter().any(|cause| matches!(cause, WeightCause::Load { threshold: 100.0, .. })),
        "{causes:?}"
    );
    two.restart();
    assert_eq!(two.hundredths("docking"), Some(moved), "nothing has come since");
    // The next job continues from that state.
    two.submit_all(&[("search", 10)]);
    assert_eq!(two.scene.engine.live.plan.quotas.law.as_ref().map(|state| state.law.threshold()), Some(70.0));
}
