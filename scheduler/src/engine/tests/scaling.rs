//! The vCPU ratio: decided at the end of intervals, applied by pilots or by a cloud's hosts.

use super::*;
use crate::{
    engine::interface::platform::scaling::{FoundProvider, Provider, Ratio, ScaleTrouble},
    ids::PlatformId,
    policy::{Policies, distribution::Distribution, scaling::Scaling},
};

const INTERVAL: Span = Span::from_secs(60);
const HERE: PlatformId = PlatformId(1);
const FOUR: Option<Ratio> = Some(Ratio(4000));

fn scaled(by: ScalingWay) -> PlatformSpec {
    let scaling = ScalingSpec { by, ratio_max: Ratio(4000), errors_max_permille: 50, interval: INTERVAL };
    PlatformSpec {
        n_pilots_min: 1,
        scaling: Some(scaling),
        idle_timeout: Span::from_secs(9999),
        ..platform(1, 2)
    }
}

impl Scene {
    /// Attaches the platform and returns its pilot, with two cores.
    fn scaled(&mut self, by: ScalingWay) -> PilotId {
        self.attach(scaled(by));
        let (allocation, tag) = self.submissions().pop().expect("a minimum of pilots is asked for");
        let outcome = SubmitOutcome::Accepted("b1".into());
        self.say(|_| Event::AllocationAnswered { allocation, outcome });
        self.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() })
    }

    /// Reports these tasks as done; each used its core for `cpu_s` of ten seconds.
    fn done_with(&mut self, pilot: PilotId, job: JobId, tasks: &str, cpu_s: f64) -> PullAnswer {
        let usage =
            Usage { started_us: 1, wall_us: 10 * SECOND, cpu_us: (cpu_s * 1e6) as u64, memory_bytes: 1 };
        let attempts = set(tasks).indices().map(|index| (index, 0, usage)).collect();
        let successes = Successes::from_attempts(attempts);
        self.report(pilot, JobReport { successes, ..JobReport::new(job) })
    }

    /// Lets time pass until the next decision; the pilot stays alive.
    fn interval(&mut self, pilot: PilotId) -> PullAnswer {
        self.pull(pilot, hungry());
        self.wait(INTERVAL.as_secs_f64() as u64);
        self.pull(pilot, hungry()).expect("news, or an answer at once")
    }

    fn ratio(&self) -> u32 {
        self.engine.durable().scaled(HERE).map_or(1000, |held| held.ratio.0)
    }

    fn n_held(&mut self, job: JobId) -> String {
        self.counts(job)
    }

    /// Returns the ratio that the cloud's hosts are to get, if a request was sent.
    fn told(&self) -> Option<(Option<Ratio>, usize)> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Scale { ratio, former, .. } => Some((*ratio, former.len())),
            _ => None,
        })
    }

    fn hosts_had(&mut self, asked: Option<Ratio>, ratio: &str, is_set: bool) {
        let provider = Provider { id: "u".into(), name: "host".into(), ratio: ratio.into() };
        self.cloud_says(asked, Ok(vec![FoundProvider { provider, is_set }]));
    }

    fn cloud_says(&mut self, asked: Option<Ratio>, result: Result<Vec<FoundProvider>, ScaleTrouble>) {
        self.say(|_| Event::RatiosAnswered { platform: HERE, asked, result });
    }

    /// Returns a cloud whose only host had a ratio of 16 and now has the requested 4.
    fn raised() -> (Scene, PilotId) {
        let mut scene = Scene::new();
        let pilot = scene.scaled(ScalingWay::Placement);
        let job = scene.submit(job(100));
        scene.take(pilot);
        scene.done_with(pilot, job, "0-1", 1.0);
        scene.pull(pilot, hungry());
        scene.wait(60);
        scene.hosts_had(FOUR, "16.0", false);
        scene.hosts_had(FOUR, "16.0", true);
        (scene, pilot)
    }

    fn former(&self) -> usize {
        self.engine.durable().scaled(HERE).map_or(0, |held| held.former.len())
    }

    fn is_told_to_scale_itself(&self) -> bool {
        self.effects.iter().any(|effect| matches!(effect, Effect::Notify(Notice::ScalesItself { .. })))
    }
}

#[test]
fn a_pilot_whose_tasks_leave_its_cores_idle_offers_more_slots() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Slots);
    let job = scene.submit(job(100));
    assert_eq!(scene.take(pilot), [(1, "0-1".into())]);
    scene.done_with(pilot, job, "0-1", 1.0);
    let answer = scene.interval(pilot);
    assert_eq!((commands(&answer), scene.ratio()), (vec![PilotCommand::Offer { cores: 8 }], 4000));
    assert_eq!(bundles(&answer), [(1, "4-9".into())], "eight at a time, two of which it had");
    let reasons = scene.explain(Query::ExplainPlatform("here".into()));
    let told = reasons.iter().map(Reason::to_string).find(|told| told.starts_with("scaling")).expect("told");
    assert!(told.contains("here has 4 slots a core of its pilots, of at most 4; 1 until"), "{told}");
    assert!(told.contains("2 attempts ended, 0 of them failed, its CPUs 10 % of the time"), "{told}");
}

#[test]
fn a_pilot_whose_tasks_wait_for_busy_cpus_offers_no_more_slots() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Slots);
    let job = scene.submit(job(100));
    scene.take(pilot);
    // Each task used its core for 3 of 10 s, and for 6.7 s others had it.
    let starved = vec![(job, 2 * 6_700_000)];
    scene.pull(pilot, Pull { starved, ..hungry() });
    scene.done_with(pilot, job, "0-1", 3.0);
    scene.interval(pilot);
    assert_eq!(scene.ratio(), 1000);
    // In the next interval no others use the cores.
    scene.done_with(pilot, job, "2-3", 3.0);
    scene.interval(pilot);
    assert_eq!(scene.ratio(), 3000);
}

#[test]
fn each_law_raises_what_leaves_room_and_lowers_what_fails() {
    for scaling in [Scaling::Measured, Scaling::Adaptive, Scaling::Adaptive2016] {
        let mut scene = Scene::new();
        let before = Policies::default();
        let policies = Policies { scaling, ..before };
        scene.say(|request| Event::PoliciesAsked { request, by: "ada".into(), before, policies });
        let pilot = scene.scaled(ScalingWay::Slots);
        let job = scene.submit(JobRequest { retries: 9, ..job(1000) });
        scene.take(pilot);
        let cores = |scene: &Scene| scene.engine.durable().pilots()[&pilot].node.capacity.cores;
        for n in 0..20 {
            scene.done_with(pilot, job, &n.to_string(), 1.0);
            scene.interval(pilot);
        }
        assert_eq!((scene.ratio(), cores(&scene)), (4000, 8), "{scaling:?}");
        for n in 20..23 {
            scene.fail(pilot, job, n, FailureKind::MemoryLimit { limit_bytes: 1 });
            scene.interval(pilot);
        }
        assert!(scene.ratio() < 4000 && cores(&scene) < 8, "{scaling:?}: {}", scene.ratio());
    }
}

#[test]
fn what_runs_goes_on_where_there_are_fewer_slots_and_nothing_begins_meanwhile() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Slots);
    let job = scene.submit(JobRequest { retries: 9, ..job(100) });
    scene.take(pilot);
    scene.done_with(pilot, job, "0-1", 1.0);
    scene.interval(pilot);
    assert_eq!(scene.n_held(job), "active w90 p8 d2 f0 c0");
    scene.fail(pilot, job, 4, FailureKind::MemoryLimit { limit_bytes: 1 });
    let answer = scene.interval(pilot);
    assert_eq!(scene.ratio(), 2000, "one of one attempts failed: half as many");
    assert_eq!(commands(&answer).last(), Some(&PilotCommand::Offer { cores: 4 }));
    let n_before = scene.n_held(job);
    scene.done_with(pilot, job, "5-7", 5.0);
    let n_after = scene.n_held(job);
    assert_eq!((n_before.as_str(), n_after.as_str()), ("active w90 p8 d2 f0 c0", "active w90 p5 d5 f0 c0"));
    scene.done_with(pilot, job, "8", 5.0);
    assert_eq!(scene.n_held(job), "active w90 p4 d6 f0 c0");
    scene.done_with(pilot, job, "9", 5.0);
    assert_eq!(scene.n_held(job), "active w89 p4 d7 f0 c0", "there is room again");
}

#[test]
fn no_task_wider_than_the_node_is_sent_to_its_slots() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Slots);
    let narrow = scene.submit(job(2));
    scene.take(pilot);
    let needs = TaskNeeds { resources: Resources::cores(3), ..job(1).needs };
    let wide = scene.submit(JobRequest { needs, ..job(1) });
    let fitting = scene.submit(job(50));
    scene.done_with(pilot, narrow, "0-1", 1.0);
    scene.interval(pilot);
    assert_eq!(scene.ratio(), 4000);
    assert_eq!(scene.n_held(wide), "active w1 p0 d0 f0 c0");
    assert_eq!(scene.n_held(fitting), "active w42 p8 d0 f0 c0");
}

#[test]
fn a_restart_keeps_the_slots_and_pilots_are_told_them_again() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Slots);
    let job = scene.submit(job(100));
    scene.take(pilot);
    scene.done_with(pilot, job, "0-1", 1.0);
    scene.interval(pilot);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    let answer = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).expect("a question");
    let asked = answer.resync.expect("what it holds");
    let holds = Some(crate::pull::Holdings { asked, tasks: vec![], templates: vec![] });
    let answer = scene.pull(pilot, Pull { epoch: 2, part_seen: 0, holds, ..hungry() }).expect("news");
    assert!(commands(&answer).contains(&PilotCommand::Offer { cores: 8 }), "{answer:?}");
    assert_eq!(scene.engine.durable().pilots()[&pilot].node.capacity.cores, 8);
}

#[test]
fn another_policy_or_no_scaling_at_all_leads_back_to_one_vcpu_a_core() {
    for is_by_policy in [true, false] {
        let mut scene = Scene::new();
        let pilot = scene.scaled(ScalingWay::Slots);
        let job = scene.submit(job(100));
        scene.take(pilot);
        scene.done_with(pilot, job, "0-1", 1.0);
        scene.interval(pilot);
        let before = Policies::default();
        match is_by_policy {
            true => {
                let (by, policies) = ("ada".into(), Policies { scaling: Scaling::Fixed, ..before });
                scene.say(|request| Event::PoliciesAsked { request, by, before, policies });
                scene.interval(pilot);
            }
            false => scene.attach(PlatformSpec { scaling: None, ..scaled(ScalingWay::Slots) }),
        }
        scene.say(|_| Event::TimerFired);
        assert_eq!(scene.ratio(), 1000, "by policy: {is_by_policy}");
        assert_eq!(scene.engine.durable().pilots()[&pilot].node.capacity, Resources::cores(2));
    }
}

#[test]
fn what_a_clouds_hosts_had_is_written_down_before_they_are_given_anything() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Placement);
    let job = scene.submit(job(100));
    scene.take(pilot);
    scene.done_with(pilot, job, "0-1", 1.0);
    scene.pull(pilot, hungry());
    scene.wait(60);
    let four = Some(Ratio(4000));
    assert_eq!(scene.told(), Some((four, 0)));
    scene.hosts_had(four, "16.0", false);
    assert!(matches!(scene.records.last(), Some(Record::RatiosFound { .. })));
    assert_eq!(scene.told(), Some((four, 1)), "now that they are known");
    scene.hosts_had(four, "16.0", true);
    assert_eq!(scene.told(), None);
    assert_eq!(
        scene.engine.durable().pilots()[&pilot].node.capacity,
        Resources::cores(2),
        "pilots are as before"
    );
    scene.say(|request| {
        let change = PlatformChange::Mode(PlatformMode::Draining);
        Event::PlatformChangeAsked { request, platform: "here".into(), change }
    });
    let reason = crate::pull::LeaveReason::Told;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    scene.wait(6);
    scene.say(|_| Event::PlatformListed { platform: HERE, asked_at: Time(u64::MAX), result: Ok(vec![]) });
    scene.say(|request| {
        let change = PlatformChange::Mode(PlatformMode::Detached);
        Event::PlatformChangeAsked { request, platform: "here".into(), change }
    });
    assert_eq!((scene.told(), scene.ratio()), (Some((None, 1)), 1000), "detached: they get theirs again");
    scene.wait(60);
    assert_eq!(scene.told(), None, "one question at a time");
    scene.cloud_says(None, Err(ScaleTrouble::Unknown("503".into())));
    scene.wait(60);
    assert_eq!((scene.told(), scene.former()), (Some((None, 1)), 1), "asked again until it is done");
    scene.hosts_had(None, "16.0", true);
    assert!(matches!(scene.records.last(), Some(Record::RatiosRestored { .. })));
    scene.wait(120);
    assert_eq!((scene.told(), scene.former()), (None, 0));
}

#[test]
fn where_hosts_take_their_vcpus_back_pilots_offer_slots() {
    let four = Some(Ratio(4000));
    for is_refused in [true, false] {
        let mut scene = Scene::new();
        let pilot = scene.scaled(ScalingWay::Placement);
        let job = scene.submit(job(100));
        scene.take(pilot);
        scene.done_with(pilot, job, "0-1", 1.0);
        scene.pull(pilot, hungry());
        scene.wait(60);
        match is_refused {
            true => {
                scene.cloud_says(four, Err(ScaleTrouble::Refused("403 Policy".into())));
            }
            false => {
                scene.hosts_had(four, "1.0", false);
                scene.hosts_had(four, "1.0", true);
                scene.interval(pilot);
                assert_eq!(scene.engine.durable().pilots()[&pilot].node.capacity.cores, 2);
                scene.hosts_had(four, "1.0", true);
            }
        }
        assert!(scene.is_told_to_scale_itself(), "{:?}", scene.effects);
        assert_eq!(scene.former(), 0, "what somebody else has given a host is not put back");
        let answer = scene.interval(pilot);
        assert_eq!(commands(&answer), [PilotCommand::Offer { cores: 8 }], "refused: {is_refused}");
        let reasons = scene.explain(Query::ExplainPlatform("here".into()));
        assert!(reasons.iter().any(|reason| matches!(reason, Reason::NotScaled { .. })), "{reasons:?}");
    }
}

#[test]
fn servers_that_fail_count_and_those_without_room_do_not() {
    for lacks_room in [true, false] {
        let mut scene = Scene::new();
        scene.attach(scaled(ScalingWay::Slots));
        for n in 0..3 {
            let Some((allocation, tag)) = scene.submissions().pop() else { panic!("asked for") };
            let batch_id = format!("b{n}");
            let outcome = SubmitOutcome::Accepted(batch_id.clone());
            scene.say(|_| Event::AllocationAnswered { allocation, outcome });
            scene.wait(6);
            let (is_ended, is_running, trouble) = (false, false, Some("it failed".into()));
            let entry = ListedAllocation {
                n_nodes: None,
                tag,
                batch_id,
                is_ended,
                is_running,
                is_suspended: false,
                trouble,
                lacks_room,
                reason: None,
            };
            let asked_at = scene.now;
            scene.say(|_| Event::PlatformListed { platform: HERE, asked_at, result: Ok(vec![entry]) });
            scene.say(|_| Event::PlatformListed { platform: HERE, asked_at, result: Ok(vec![]) });
            while scene.submissions().is_empty() {
                scene.wait(1);
            }
        }
        let (allocation, tag) = scene.submissions().pop().expect("asked for");
        let outcome = SubmitOutcome::Accepted("b".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        let pilot = scene.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
        let job = scene.submit(job(100));
        scene.take(pilot);
        scene.done_with(pilot, job, "0-1", 1.0);
        scene.interval(pilot);
        assert_eq!(scene.ratio(), if lacks_room { 4000 } else { 1000 });
    }
}

#[test]
fn a_law_with_weights_gives_some_to_a_platform_that_was_raised() {
    let mut scene = Scene::new();
    let before = Policies::default();
    let policies = Policies { distribution: Some(Distribution::Adaptive2016), ..before };
    scene.say(|request| Event::PoliciesAsked { request, by: "ada".into(), before, policies });
    let pilot = scene.scaled(ScalingWay::Slots);
    scene.attach(PlatformSpec { name: "there".into(), n_pilots_min: 1, ..platform(1, 2) });
    let (allocation, tag) = scene.submissions().pop().expect("a minimum of pilots is asked for");
    scene.say(|_| Event::AllocationAnswered { allocation, outcome: SubmitOutcome::Accepted("b2".into()) });
    scene.register(&tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    let job = scene.submit(job(1000));
    scene.take(pilot);
    let weight =
        |scene: &mut Scene| match scene.say(|request| Event::Asked { request, query: Query::Weights }) {
            Some(Answer::Weights(view)) => view.kinds[0].platforms[0].weight,
            other => panic!("{other:?}"),
        };
    let first = weight(&mut scene);
    scene.done_with(pilot, job, "0-1", 1.0);
    scene.interval(pilot);
    assert_eq!(scene.ratio(), 4000);
    scene.wait(5);
    assert!(weight(&mut scene) > first + 0.09, "{first} and {}", weight(&mut scene));
}

#[test]
fn a_host_that_was_given_more_by_a_lost_answer_has_taken_nothing_back() {
    let (mut scene, pilot) = Scene::raised();
    scene.interval(pilot);
    assert_eq!(scene.told(), None, "it was told before the pilot pulled");
    scene.cloud_says(FOUR, Err(ScaleTrouble::Unknown("503".into())));
    scene.wait(60);
    assert_eq!(scene.told(), Some((FOUR, 1)));
    scene.hosts_had(FOUR, "2.0", true);
    assert!(!scene.is_told_to_scale_itself(), "nobody knows what it had been given");
    scene.wait(60);
    scene.hosts_had(FOUR, "2.0", true);
    assert!(scene.is_told_to_scale_itself(), "now it is known");
}

#[test]
fn hosts_have_theirs_again_when_pilots_do_it() {
    for is_refused in [true, false] {
        let (mut scene, _) = Scene::raised();
        match is_refused {
            true => {
                scene.wait(60);
                scene.cloud_says(FOUR, Err(ScaleTrouble::Refused("403 Policy".into())));
            }
            false => {
                scene.attach(PlatformSpec { limits: PlatformLimits::default(), ..scaled(ScalingWay::Slots) });
                scene.wait(60);
                // The request was sent before that.
                scene.hosts_had(FOUR, "4.0", true);
                if scene.told().is_none() {
                    scene.wait(60);
                }
            }
        }
        assert_eq!(scene.told(), Some((None, 1)), "refused: {is_refused}");
        scene.hosts_had(None, "16.0", true);
        assert_eq!(scene.former(), 0);
    }
}

#[test]
fn an_answer_that_comes_when_nothing_is_wanted_any_more_changes_nothing() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Placement);
    let job = scene.submit(job(100));
    scene.take(pilot);
    scene.done_with(pilot, job, "0-1", 1.0);
    scene.pull(pilot, hungry());
    scene.wait(60);
    assert_eq!(scene.told(), Some((FOUR, 0)));
    scene.attach(PlatformSpec { scaling: None, ..scaled(ScalingWay::Placement) });
    scene.hosts_had(FOUR, "16.0", false);
    assert_eq!((scene.told(), scene.former()), (None, 0));
}

#[test]
fn tasks_that_compute_do_not_share_cores_for_ever() {
    let mut scene = Scene::new();
    let pilot = scene.scaled(ScalingWay::Slots);
    let job = scene.submit(job(1000));
    scene.take(pilot);
    scene.done_with(pilot, job, "0-1", 1.0);
    scene.interval(pilot);
    assert_eq!(scene.ratio(), 4000);
    for n in 0..20 {
        // Each running task has its part of a core.
        let share = 10.0 * 1000.0 / f64::from(scene.ratio());
        let held = scene.engine.live.pilots[&pilot].leases[&job].clone();
        let tasks = held.to_string();
        scene.done_with(pilot, job, &tasks, share);
        scene.interval(pilot);
        assert!(scene.ratio() >= 1000, "{n}");
    }
    assert!(scene.ratio() < 1300, "{}", scene.ratio());
}
