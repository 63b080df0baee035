//! Policies that use all of the state: fair shares of users, and the affinity of applications to platforms.

use std::collections::BTreeMap;

use super::*;
use crate::policy::{Policies, allocation::Allocation, matching::Matching};

/// Two platforms with a pilot of four cores each, and two applications, each four times as fast on one of the
/// platforms. Four ended jobs have shown this.
pub(super) struct Two {
    pub(super) scene: Scene,
    pub(super) pilots: [PilotId; 2],
}

pub(super) fn of_user(user: &str, application: &str, n_tasks: u64) -> JobRequest {
    JobRequest { user: user.into(), application: application.into(), ..job(n_tasks) }
}

/// Reports tasks as done that took `wall_s` seconds each.
pub(super) fn took(scene: &mut Scene, pilot: PilotId, id: JobId, tasks: &str, wall_s: u64) {
    let wall_us = wall_s * SECOND;
    let usage = Usage { started_us: 1, wall_us, cpu_us: wall_us, memory_bytes: 1 };
    let attempts = set(tasks).indices().map(|index| (index, 0, usage)).collect();
    let successes = Successes::from_attempts(attempts);
    scene.report(pilot, JobReport { successes, ..JobReport::new(id) });
}

impl Two {
    pub(super) fn new(policies: Policies) -> Two {
        let mut scene = Scene::new();
        // Each application also runs where it is slow, so that its runtime there is measured.
        scene.engine.settings.policies.distribution = None;
        let pilots = ["a", "b"].map(|name| {
            scene.attach(PlatformSpec { name: name.into(), n_pilots_min: 1, ..platform(1, 4) });
            let (allocation, tag) = scene.submissions().remove(0);
            let outcome = SubmitOutcome::Accepted(name.into());
            scene.say(|_| Event::AllocationAnswered { allocation, outcome });
            scene.register(&tag, NodeFacts { capacity: Resources::cores(4), ..NodeFacts::default() })
        });
        for (application, walls) in [("docking", [1, 4]), ("search", [4, 1])] {
            for (pilot, wall_s) in pilots.into_iter().zip(walls) {
                let id = scene.submit(of_user("eve", application, 1));
                assert_eq!(scene.take(pilot), [(id.0, "0".to_owned())]);
                took(&mut scene, pilot, id, "0", wall_s);
            }
        }
        scene.engine.settings.policies = policies;
        Two { scene, pilots }
    }

    /// Returns how many tasks of each job the pilots of both platforms get. The second platform's pilot asks
    /// first, and each asks until it has all that it may have.
    fn dealt(&mut self, jobs: [JobId; 2]) -> [[u64; 2]; 2] {
        self.scene.wait(2);
        let mut dealt = [[0; 2]; 2];
        for place in [1, 0] {
            for _ in 0..3 {
                for (id, tasks) in self.scene.take(self.pilots[place]) {
                    let which = jobs.iter().position(|job| job.0 == id).expect("one of them");
                    dealt[place][which] += set(&tasks).len();
                }
            }
        }
        dealt
    }
}

fn policies(allocation: Option<Allocation>, matching: Matching) -> Policies {
    Policies { allocation, matching, distribution: None, ..Policies::default() }
}

#[test]
fn each_user_has_its_share_where_it_is_best() {
    for (allocation, expected) in [
        (None, [[0, 4], [4, 0]]),
        (Some(Allocation::Equal), [[2, 2], [2, 2]]),
        (Some(Allocation::PaRr { unit_cores: 1 }), [[4, 0], [0, 4]]),
        (Some(Allocation::Aaf { percent: 50 }), [[4, 0], [0, 4]]),
        (Some(Allocation::Paf { percent: 50 }), [[4, 0], [0, 4]]),
    ] {
        let mut two = Two::new(policies(allocation, Matching::Turns));
        let ada = two.scene.submit(of_user("ada", "docking", 100));
        let bob = two.scene.submit(of_user("bob", "search", 100));
        assert_eq!(two.dealt([ada, bob]), expected, "{allocation:?}");
    }
}

#[test]
fn what_one_cannot_use_others_have() {
    let mut two = Two::new(policies(Some(Allocation::PaRr { unit_cores: 1 }), Matching::Turns));
    let ada = two.scene.submit(of_user("ada", "docking", 100));
    let bob = two.scene.submit(of_user("bob", "search", 1));
    assert_eq!(two.dealt([ada, bob]), [[4, 0], [3, 1]]);
}

#[test]
fn priority_comes_before_shares() {
    let mut two = Two::new(policies(Some(Allocation::PaRr { unit_cores: 1 }), Matching::Turns));
    let ada = two.scene.submit(of_user("ada", "docking", 100));
    let urgent = || JobRequest { priority: 1, priority_over_all: true, ..of_user("bob", "search", 100) };
    let bob = two.scene.submit(urgent());
    assert_eq!(two.dealt([ada, bob]), [[0, 4], [0, 4]]);
}

#[test]
fn a_priority_among_own_jobs_changes_no_share() {
    for matching in [Matching::Turns, Matching::Fifo, Matching::Alstb] {
        let dealt = |priority| {
            let mut two = Two::new(policies(Some(Allocation::PaRr { unit_cores: 1 }), matching));
            let ada = two.scene.submit(of_user("ada", "docking", 100));
            let bob = two.scene.submit(JobRequest { priority, ..of_user("bob", "search", 100) });
            two.dealt([ada, bob])
        };
        assert_eq!(dealt(1_000_000), dealt(0), "{matching:?}");
    }
}

#[test]
fn a_platform_serves_what_it_is_best_at() {
    for (matching, expected) in [
        (Matching::Fifo, [[4, 0], [4, 0]]),
        (Matching::Ni, [[4, 0], [0, 4]]),
        (Matching::Alstb, [[4, 0], [0, 4]]),
        (Matching::MinMin, [[4, 0], [0, 4]]),
        (Matching::Sufferage, [[4, 0], [0, 4]]),
    ] {
        let mut two = Two::new(policies(None, matching));
        let docking = two.scene.submit(of_user("ada", "docking", 100));
        let search = two.scene.submit(of_user("ada", "search", 100));
        assert_eq!(two.dealt([docking, search]), expected, "{matching:?}");
    }
}

type OfUsers = BTreeMap<String, u64>;

fn shares(two: &mut Two) -> Vec<OfUsers> {
    match two.scene.say(|request| Event::Asked { request, query: Query::Platforms }) {
        Some(Answer::Platforms(platforms)) => platforms.into_iter().map(|one| one.shares).collect(),
        other => panic!("{other:?}"),
    }
}

fn of(shares: &[(&str, u64)]) -> OfUsers {
    shares.iter().map(|(user, n)| ((*user).to_owned(), *n)).collect()
}

#[test]
fn who_has_nothing_queued_has_no_share() {
    let mut two = Two::new(policies(Some(Allocation::PaRr { unit_cores: 1 }), Matching::Turns));
    let eve = two.scene.submit(of_user("eve", "sleep", 8));
    for pilot in two.pilots {
        assert_eq!(two.scene.take(pilot).len(), 1, "four tasks");
    }
    two.scene.submit(of_user("ada", "docking", 100));
    let bob = two.scene.submit(of_user("bob", "search", 4));
    two.scene.wait_awake(1);
    let all = [("ada", 4), ("bob", 0), ("eve", 0)];
    assert_eq!(shares(&mut two), [of(&all), of(&[("ada", 0), ("bob", 4), ("eve", 0)])]);
    let given = two.scene.done(two.pilots[1], eve, "4-7");
    assert_eq!(bundles(&given), [(bob.0, "0-3".to_owned())]);
    two.scene.wait_awake(1);
    assert_eq!(shares(&mut two), [of(&all), of(&[("ada", 4), ("bob", 0), ("eve", 0)])]);
}

#[test]
fn a_share_ends_with_the_pull_that_takes_the_last_task() {
    let mut two = Two::new(policies(Some(Allocation::PaRr { unit_cores: 1 }), Matching::Turns));
    two.scene.submit(of_user("ada", "docking", 100));
    let bob = two.scene.submit(of_user("bob", "search", 4));
    two.scene.wait_awake(1);
    assert_eq!(shares(&mut two), [of(&[("ada", 4), ("bob", 0)]), of(&[("ada", 0), ("bob", 4)])]);
    assert_eq!(two.scene.take(two.pilots[1]), [(bob.0, "0-3".to_owned())]);
    two.scene.wait_awake(1);
    let of_ada = of(&[("ada", 4), ("bob", 0)]);
    assert_eq!(shares(&mut two), [of_ada.clone(), of_ada]);
}

#[test]
fn a_job_that_runs_dry_changes_nothing_for_who_has_others() {
    let mut two = Two::new(policies(Some(Allocation::PaRr { unit_cores: 1 }), Matching::Turns));
    two.scene.submit(of_user("ada", "docking", 100));
    let last = two.scene.submit(JobRequest { priority: 1, ..of_user("ada", "docking", 1) });
    two.scene.wait_awake(1);
    let made = two.scene.engine.live.plan.number;
    assert_eq!(two.scene.take(two.pilots[0])[0], (last.0, "0".to_owned()));
    two.scene.wait_awake(1);
    assert_eq!(two.scene.engine.live.plan.number, made);
}

#[test]
fn who_comes_later_has_a_share_within_a_second() {
    let mut two = Two::new(policies(Some(Allocation::Equal), Matching::Turns));
    two.scene.submit(of_user("ada", "docking", 100));
    two.scene.wait(2);
    assert_eq!(shares(&mut two), [of(&[("ada", 4)]), of(&[("ada", 4)])]);
    two.scene.submit(of_user("bob", "search", 100));
    two.scene.wait_awake(1);
    assert_eq!(shares(&mut two), [of(&[("ada", 2), ("bob", 2)]), of(&[("ada", 2), ("bob", 2)])]);
    two.scene.change(JobId(5), JobChange::Cancel(None));
    two.scene.wait_awake(1);
    assert_eq!(shares(&mut two), [of(&[("bob", 4)]), of(&[("bob", 4)])]);
}

fn set_policies(scene: &mut Scene, before: Policies, policies: Policies) -> Option<Answer> {
    scene.say(|request| Event::PoliciesAsked { request, by: "ada".into(), before, policies })
}

#[test]
fn what_an_operator_sets_goes_for_what_is_sent_next() {
    let none = policies(None, Matching::Turns);
    let pa_rr = policies(Some(Allocation::PaRr { unit_cores: 1 }), Matching::Turns);
    for (changes, expected) in [
        (vec![], [[0, 4], [4, 0]]),
        (vec![pa_rr], [[4, 0], [0, 4]]),
        (vec![pa_rr, none], [[0, 4], [4, 0]]),
        (vec![policies(None, Matching::Fifo)], [[4, 0], [4, 0]]),
    ] {
        let mut two = Two::new(none);
        let ada = two.scene.submit(of_user("ada", "docking", 100));
        let bob = two.scene.submit(of_user("bob", "search", 100));
        let mut before = none;
        for policies in &changes {
            let answer = set_policies(&mut two.scene, before, *policies);
            let Some(Answer::Policies(view)) = answer else { panic!("{answer:?}") };
            assert_eq!((view.policies, view.configured), (*policies, none));
            before = *policies;
            two.scene.wait_awake(2);
        }
        assert_eq!(two.dealt([ada, bob]), expected, "{changes:?}");
    }
}

#[test]
fn what_was_set_goes_on_after_a_restart_until_the_configuration_changes() {
    let mut scene = Scene::new();
    let (none, fifo) = (Policies::default(), policies(None, Matching::Fifo));
    assert_eq!(
        set_policies(&mut scene, fifo, none),
        Some(Answer::Refused(Refusal::PoliciesChanged)),
        "somebody was sooner"
    );
    set_policies(&mut scene, none, none);
    assert!(scene.records.is_empty(), "nothing has changed");
    set_policies(&mut scene, none, fifo);
    let again = |configured: Policies| {
        let settings = Settings { policies: configured, ..Settings::default() };
        let mut engine = Engine::restore(settings, 2, scene.now, scene.records.clone());
        let asked = Event::Asked { request: RequestId(1), query: Query::Policies };
        let effects = engine.handle(scene.now, asked).effects;
        let Some(Effect::Answer { answer: Answer::Policies(view), .. }) = effects.first() else {
            panic!("{effects:?}")
        };
        (view.policies, view.changes.len())
    };
    assert_eq!(again(none), (fifo, 1));
    let ni = policies(None, Matching::Ni);
    assert_eq!(again(ni), (ni, 1), "the configuration says something else than it did");
}

#[test]
fn fairness_is_of_what_users_got_against_where_it_is_fastest() {
    let mut two = Two::new(policies(None, Matching::Turns));
    let fairness =
        |two: &mut Two| match two.scene.say(|request| Event::Asked { request, query: Query::Status }) {
            Some(Answer::Status(status)) => status.fairness,
            other => panic!("{other:?}"),
        };
    let ada = two.scene.submit(of_user("ada", "docking", 100));
    assert_eq!(fairness(&mut two), None, "one user");
    let bob = two.scene.submit(of_user("bob", "search", 100));
    assert_eq!(fairness(&mut two), None, "nothing is done");
    two.scene.wait(1);
    // Each user runs one task where it is slow.
    for (place, job) in [(1, ada), (0, bob)] {
        two.scene.take(two.pilots[place]);
        assert!(!two.held(place, job).is_empty());
        let first = two.held(place, job).first().expect("held").to_string();
        took(&mut two.scene, two.pilots[place], job, &first, 4);
    }
    assert!(fairness(&mut two).is_some_and(|fairness| (fairness - 1.0).abs() < 1e-9), "as much each");
    let second = two.held(1, ada).first().expect("held").to_string();
    took(&mut two.scene, two.pilots[1], ada, &second, 4);
    // Two and one: 1 - 0.5 / 1.5.
    assert!(fairness(&mut two).is_some_and(|fairness| (fairness - 2.0 / 3.0).abs() < 1e-9));
}

/// Returns the first reason of a kind that `find` recognizes.
fn told<T>(two: &mut Two, query: Query, find: impl Fn(&Reason) -> Option<T>) -> Option<T> {
    two.scene.explain(query).iter().find_map(find)
}

#[test]
fn who_goes_first_is_told_by_what_decides_it() {
    use crate::policy::matching::Precedence;

    let because = |reason: &Reason| match reason {
        Reason::BehindJob { job, because, .. } => Some((*job, because.clone())),
        _ => None,
    };
    let given = |reason: &Reason| match reason {
        Reason::PilotNext { job, before, .. } => Some((*job, before.clone())),
        _ => None,
    };
    // Docking suits platform a better, search platform b.
    let mut two = Two::new(policies(None, Matching::Alstb));
    let [a, b] = two.pilots;
    let ada = two.scene.submit(of_user("ada", "docking", 100));
    two.scene.wait(2);
    two.scene.take(b);
    two.scene.take(a);
    let bob = two.scene.submit(of_user("bob", "search", 100));
    two.scene.wait(2);
    let is_of_scores = |because: &Precedence| matches!(because, Precedence::Score { scores: [first, other] } if first > other);
    for (pilot, first, second) in [(a, ada, bob), (b, bob, ada)] {
        let (next, before) = told(&mut two, Query::ExplainPilot(pilot), given).expect("both wait");
        let (other, why) = before.expect("both wait");
        assert!((next, other) == (first, second) && is_of_scores(&why), "{pilot}: {next} {other} {why:?}");
    }

    // By turns, the job is next whose user holds least.
    let mut two = Two::new(policies(None, Matching::Turns));
    let ada = two.scene.submit(of_user("ada", "docking", 100));
    two.scene.take(two.pilots[1]);
    two.scene.take(two.pilots[0]);
    let bob = two.scene.submit(of_user("bob", "search", 100));
    let (first, why) = told(&mut two, Query::ExplainJob(ada), because).expect("it waits");
    assert_eq!(first, bob);
    assert!(matches!(why, Precedence::Turn { of_users: [0, _], .. }), "{why:?}");
    assert_eq!(told(&mut two, Query::ExplainJob(bob), because), None, "nobody is before him");
    let said = two.scene.explain(Query::ExplainJob(ada)).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(said.iter().any(|line| line.contains("its user holds 0 cores, this job's")), "{said:?}");
}

#[test]
fn of_jobs_that_are_alike_a_pilot_goes_on_with_the_one_that_it_had() {
    let mut two = Two::new(policies(None, Matching::Alstb));
    let [a, _] = two.pilots;
    // No runtime is known yet; the pilot's job is the younger one.
    let paused = two.scene.submit(of_user("ada", "docking", 100));
    two.scene.change(paused, JobChange::Pause);
    let had = two.scene.submit(of_user("ada", "docking", 100));
    two.scene.wait(2);
    let first = two.scene.take(a);
    assert_eq!(first[0].0, had.0);
    two.scene.change(paused, JobChange::Resume);
    two.scene.wait(2);
    for index in set(&first[0].1).indices() {
        two.scene.fail(a, had, index, FailureKind::Exit { code: 1 });
    }
    let held = &two.scene.engine.live.pilots[&a].leases;
    assert_eq!(held.iter().map(|(job, tasks)| (*job, tasks.len())).collect::<Vec<_>>(), [(had, 4)]);
}

#[test]
fn what_tasks_need_beside_cores_is_learned_from_pulls_and_kept() {
    use crate::{
        engine::interface::declared_profile::{Declared, JobType},
        pull::Effort,
    };

    let mut two = Two::new(policies(None, Matching::Turns));
    let [a, _] = two.pilots;
    let id = two.scene.submit(of_user("ada", "scan", 40));
    let (_, tasks) = two.scene.take(a).remove(0);
    // The tasks compute for half of the time and wait for the disk in the other half.
    let usage = Usage { started_us: 1, wall_us: 4 * SECOND, cpu_us: 2 * SECOND, memory_bytes: 1 };
    let attempts = set(&tasks).indices().map(|index| (index, 0, usage)).collect();
    two.scene.report(a, JobReport { successes: Successes::from_attempts(attempts), ..JobReport::new(id) });
    let told = |scene: &mut Scene, io_bytes| {
        let efforts = vec![Effort { job: id, n: 4, io_bytes, prepared_us: 8000 }];
        scene.pull(a, Pull { efforts, ..hungry() });
        scene.wait_awake(11);
    };
    let job_type = |two: &Two| two.scene.engine.durable().facts().job_type("scan");
    told(&mut two.scene, 16_000);
    assert_eq!(job_type(&two), Some((JobType::CpuBound, false)), "1 kB/s is not what it waits for");
    told(&mut two.scene, 1 << 34);
    assert_eq!(job_type(&two), Some((JobType::IoBound, false)));
    let learned = two.scene.engine.durable().learned().values().find_map(|known| known.get("scan"));
    assert_eq!(learned.and_then(|known| known.prepared()), Some(Span::from_millis(2)));
    // The declared type counts as many tasks as it says.
    for (counts_as, expected) in [(3, (JobType::IoBound, false)), (5, (JobType::MemoryBound, true))] {
        let declared = Declared { job_type: Some(JobType::MemoryBound), counts_as, ..Declared::default() };
        let (application, declared) = ("scan".to_owned(), Some(Box::new(declared)));
        two.scene.say(|request| Event::DeclareAsked { request, application, declared });
        assert_eq!(job_type(&two), Some(expected), "{counts_as}");
    }
}

#[test]
fn bytes_that_move_are_known_at_once_and_after_a_restart() {
    let mut scene = Scene::new();
    let id = scene.submit(job(4));
    let pilots = [scene.pilot(1), scene.pilot(1)];
    let moved = |cached| MovedBytes { cached, to_manager: 5, ..MovedBytes::default() };
    for pilot in pilots {
        scene.take(pilot);
        // Nothing is kept of unknown jobs.
        scene.pull(pilot, Pull { moved: vec![(id, moved(7)), (JobId(99), moved(1))], ..hungry() });
    }
    let told = |scene: &mut Scene| match scene.say(|request| Event::Asked { request, query: Query::Job(id) })
    {
        Some(Answer::Job(view)) => view.moved,
        other => panic!("{other:?}"),
    };
    let both = MovedBytes { cached: 14, to_manager: 10, ..MovedBytes::default() };
    assert_eq!(told(&mut scene), both);
    assert!(scene.engine.durable().jobs()[&id].moved.is_none(), "nothing is written yet");
    scene.wait_awake(11);
    assert_eq!((told(&mut scene), scene.engine.durable().jobs()[&id].moved), (both, both));
    let again = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(again.durable().jobs()[&id].moved, both);
}
