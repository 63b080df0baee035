//! Limits of platforms, and operators' requests about platforms and their allocations.

use super::*;
use crate::engine::interface::platform::price::{Money, Price};
use crate::{
    engine::record::DrainCause,
    explain::core_hours,
    ids::{AllocationId, PlatformId},
};

pub(super) const HOUR: u64 = 3600;

/// Returns a platform with up to ten pilots of two cores and a walltime of an hour.
pub(super) fn limited(limits: PlatformLimits) -> PlatformSpec {
    PlatformSpec { walltime: Some(Span::from_secs(HOUR)), limits, ..platform(10, 2) }
}

fn core_hours_max(hours: u64) -> PlatformLimits {
    PlatformLimits { core_time_max: Some(Span::from_secs(hours * HOUR)), ..PlatformLimits::default() }
}

pub(super) fn is_served(scene: &Scene, request: RequestId) -> bool {
    matches!(scene.answer_to(request), Some(Answer::Pull(answer)) if !bundles(&answer).is_empty())
}

impl Scene {
    pub(super) fn answered(&mut self, allocation: AllocationId) {
        let outcome = SubmitOutcome::Accepted(format!("b{allocation}"));
        self.say(|_| Event::AllocationAnswered { allocation, outcome });
    }

    pub(super) fn listed(&mut self, tags: &[&str]) {
        self.listed_as(tags, false);
    }

    pub(super) fn listed_as(&mut self, tags: &[&str], is_running: bool) {
        let listed = tags.iter().map(|tag| ListedAllocation {
            tag: (*tag).to_owned(),
            batch_id: format!("b{tag}"),
            is_running,
            is_suspended: false,
            trouble: None,
            lacks_room: false,
            reason: None,
            is_ended: false,
            n_nodes: None,
        });
        let (asked_at, result) = (self.now, Ok(listed.collect()));
        self.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
    }

    pub(super) fn change_platform(&mut self, change: PlatformChange) -> Option<Answer> {
        self.say(|request| Event::PlatformChangeAsked { request, platform: "here".into(), change })
    }

    pub(super) fn set_mode(&mut self, mode: PlatformMode) {
        let answer = self.change_platform(PlatformChange::Mode(mode));
        assert!(matches!(answer, Some(Answer::PlatformChanged(view)) if view.mode == mode));
    }

    pub(super) fn why(&mut self) -> String {
        self.explain(Query::ExplainPlatform("here".into()))[0].to_string()
    }

    pub(super) fn n_asked(&self) -> usize {
        self.submissions().len()
    }

    /// Accepts all present requests and returns their number.
    fn answered_all(&mut self) -> usize {
        let asked = self.submissions();
        asked.iter().for_each(|(allocation, _)| self.answered(*allocation));
        asked.len()
    }

    pub(super) fn cancelled(&self) -> Vec<String> {
        let cancelled = self.effects.iter().filter_map(|effect| match effect {
            Effect::Cancel { batch_ids, .. } => Some(batch_ids.clone()),
            _ => None,
        });
        cancelled.flatten().collect()
    }
}

#[test]
fn no_more_wait_than_may() {
    let mut scene = Scene::new();
    scene.attach(limited(PlatformLimits { n_queued_max: Some(3), ..PlatformLimits::default() }));
    scene.submit(job(100));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 3);
    for (allocation, _) in &asked {
        scene.answered(*allocation);
        assert_eq!(scene.n_asked(), 0);
    }
    assert_eq!(
        scene.why(),
        "3 allocations on here wait for their pilots, and no more than 3 may (queued_max)"
    );
    scene.register(&asked[0].1, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    scene.wait(5);
    assert_eq!(scene.n_asked(), 1, "one has come");
}

#[test]
fn one_that_is_cancelled_counts_as_long_as_it_may_wait_there() {
    let mut scene = Scene::new();
    scene.attach(limited(PlatformLimits { n_queued_max: Some(1), ..PlatformLimits::default() }));
    scene.submit(job(100));
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    assert_eq!(scene.cancelled(), ["b1"]);
    scene.wait_awake(20);
    scene.listed(&[&tag]);
    assert_eq!((scene.n_asked(), scene.cancelled()), (0, vec![format!("b{tag}")]), "cancelled again");
    scene.listed(&[]);
    assert_eq!(scene.n_asked(), 1);
}

#[test]
fn no_more_are_asked_for_within_a_minute_than_may() {
    let mut scene = Scene::new();
    let limits = PlatformLimits { n_submissions_per_minute: Some(4), ..PlatformLimits::default() };
    scene.attach(limited(limits));
    scene.submit(job(4));
    assert_eq!(scene.answered_all(), 2, "they are enough for four tasks");
    scene.wait(20);
    scene.submit(job(100));
    assert_eq!(scene.answered_all(), 2);
    assert_eq!(
        scene.why(),
        "here was asked for 4 allocations within a minute, and more may not be (submissions_per_minute); the next in 40.0s"
    );
    let second = scene.now;
    let mut asked_at = Vec::new();
    while let Some(due) = scene.engine.next_wakeup().filter(|due| *due < second + Span::from_secs(100)) {
        scene.now = scene.now.max(due);
        scene.say(|_| Event::TimerFired);
        asked_at.extend(vec![scene.now.since(second).0 / SECOND; scene.answered_all()]);
    }
    assert_eq!(asked_at, [40, 40, 60, 60], "each when one of before is a minute old");
}

#[test]
fn what_the_minute_holds_back_is_asked_for_when_it_is_over() {
    let mut scene = Scene::new();
    let limits = PlatformLimits { n_submissions_per_minute: Some(1), ..PlatformLimits::default() };
    scene.attach(PlatformSpec { poll_interval: Span::from_secs(HOUR), ..limited(limits) });
    scene.submit(job(100));
    let first = scene.now;
    assert_eq!(scene.answered_all(), 1);
    scene.wait_awake(61);
    let intended = scene.engine.durable().allocations().values().map(|held| held.intended_at.since(first).0);
    assert_eq!(intended.collect::<Vec<u64>>(), [0, 60 * SECOND], "no listing comes in between");
}

#[test]
fn a_minute_begins_with_the_answer_however_late_it_is() {
    for is_refused in [false, true] {
        let mut scene = Scene::new();
        let limits = PlatformLimits { n_submissions_per_minute: Some(1), ..PlatformLimits::default() };
        scene.attach(limited(limits));
        scene.submit(job(100));
        let (allocation, _) = scene.submissions().remove(0);
        // The request waits behind a listing that takes long.
        scene.wait_awake(90);
        assert_eq!(scene.engine.durable().allocations().len(), 1, "it may be asked for just now");
        match is_refused {
            false => scene.answered(allocation),
            true => {
                let outcome = SubmitOutcome::Refused("no such queue".into());
                scene.say(|_| Event::AllocationAnswered { allocation, outcome });
            }
        }
        scene.wait_awake(59);
        assert_eq!(scene.engine.durable().allocations().len(), 1);
        scene.wait_awake(2);
        assert_eq!(scene.engine.durable().allocations().len(), 2);
    }
}

#[test]
fn the_minute_is_remembered_by_the_next_manager() {
    for is_answered in [true, false] {
        let mut scene = Scene::new();
        let limits = PlatformLimits { n_submissions_per_minute: Some(1), ..PlatformLimits::default() };
        scene.attach(limited(limits));
        scene.submit(job(100));
        assert_eq!(scene.n_asked(), 1);
        let (allocation, _) = scene.submissions().remove(0);
        if is_answered {
            scene.answered(allocation);
        }
        scene.now = scene.now + Span::from_secs(10);
        scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
        scene.attach(limited(limits));
        assert_eq!(scene.n_asked(), 0);
        scene.wait(if is_answered { 49 } else { 60 });
        assert_eq!(scene.n_asked(), 0, "what has no answer may have been asked for until then");
        scene.wait(2);
        assert_eq!(scene.n_asked(), 1);
    }
}

#[test]
fn a_budget_is_kept_for_what_is_there_and_spent_by_what_was() {
    let mut scene = Scene::new();
    scene.attach(limited(core_hours_max(4)));
    scene.submit(job(100));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 2, "each may take two core-hours");
    for (allocation, _) in &asked {
        scene.answered(*allocation);
    }
    assert_eq!(
        scene.why(),
        "of 4 core-hours on here, 0 are spent and 4 are reserved for present allocations; one more takes 2 (core_hours)"
    );
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    scene.register(&asked[0].1, node);
    scene.wait(HOUR / 2 - 2);
    // A pilot that spoke within the last second may be there.
    scene.now = scene.now + Span::from_secs(1);
    scene.listed(&[&asked[1].1]);
    let view = match scene.change_platform(PlatformChange::Mode(PlatformMode::Active)) {
        Some(Answer::PlatformChanged(view)) => view,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (core_hours(view.core_time_spent), core_hours(view.core_time_committed)),
        ("1".into(), "3".into())
    );
    assert_eq!(
        scene.engine.durable().allocations().len(),
        3,
        "half of the first is free again: a third, for half as long"
    );
    scene.wait(HOUR);
    assert_eq!(scene.engine.durable().allocations().len(), 3, "and no fourth");
}

/// Returns the spent part of the budget after an allocation with an unknown state is gone after half an hour.
fn spent_when_gone(become_unclear: impl FnOnce(&mut Scene, AllocationId)) -> f64 {
    let mut scene = Scene::new();
    let spec = limited(PlatformLimits { n_queued_max: Some(1), ..core_hours_max(8) });
    scene.attach(spec.clone());
    scene.submit(job(100));
    let (allocation, _) = scene.submissions().remove(0);
    become_unclear(&mut scene, allocation);
    scene.attach(spec);
    scene.wait_awake(HOUR / 2);
    scene.listed(&[]);
    let held = &scene.engine.durable().allocations()[&allocation];
    assert!(!held.may_be_there(), "{held:?}");
    core_hours(scene.engine.durable().allocation_counts(PlatformId(1)).spent()).parse().unwrap()
}

#[test]
fn what_may_have_run_unseen_counts_against_the_budget() {
    let refused = |scene: &mut Scene, allocation| {
        let outcome = SubmitOutcome::Refused("closed".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    };
    let unknown = |scene: &mut Scene, allocation| {
        let outcome = SubmitOutcome::Unknown("no answer".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    };
    assert_eq!(spent_when_gone(refused), 0.0);
    assert_eq!(spent_when_gone(unknown), 1.0, "two cores for half an hour");
    let restarted = |scene: &mut Scene, _| {
        scene.wait(1);
        scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    };
    assert_eq!(spent_when_gone(restarted), 1.0);
}

/// Returns the core-hours of an allocation that was requested `waited` seconds before its pilots reported, by
/// rank and in this order, the walltime that they had left in seconds; it ended then.
fn spent_by(spec: PlatformSpec, waited: u64, left: &[(u32, u64)]) -> String {
    let mut scene = Scene::new();
    let limits = PlatformLimits { n_queued_max: Some(1), ..core_hours_max(8) };
    scene.attach(PlatformSpec { limits, ..spec });
    scene.submit(job(100));
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    scene.wait(waited);
    for (rank, left) in left {
        let (capacity, walltime_left) = (Resources::cores(2), Some(Span::from_secs(*left)));
        scene.register(&tag, NodeFacts { capacity, walltime_left, rank: *rank, ..NodeFacts::default() });
    }
    scene.listed(&[]);
    scene.wait(1);
    scene.listed(&[]);
    core_hours(scene.engine.durable().allocation_counts(PlatformId(1)).spent())
}

#[test]
fn an_agent_that_was_started_again_counts_from_the_beginning_of_its_batch_job() {
    assert_eq!(spent_by(limited(PlatformLimits::default()), HOUR / 2, &[(0, HOUR / 2)]), "1");
}

#[test]
fn of_a_job_array_the_task_that_began_first_counts_also_when_it_is_heard_last() {
    let spec = PlatformSpec { n_nodes: 2, is_array: true, ..limited(PlatformLimits::default()) };
    assert_eq!(spent_by(spec, HOUR / 2, &[(1, HOUR), (0, HOUR / 2)]), "2");
}

#[test]
fn no_allocation_began_before_it_was_asked_for_whatever_a_node_says() {
    assert_eq!(spent_by(limited(PlatformLimits::default()), HOUR / 4, &[(0, 60)]), "0.5");
}

#[test]
fn without_a_walltime_a_budget_allows_nothing() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { limits: core_hours_max(1000), ..platform(10, 2) });
    scene.submit(job(100));
    assert_eq!(scene.n_asked(), 0);
}

#[test]
fn money_is_spent_by_core_hours_and_no_more_than_there_is() {
    let mut scene = Scene::new();
    let limits = PlatformLimits { cost_max: Some(Money(5_000_000)), ..PlatformLimits::default() };
    let price = Some(Price { core_hour: Money(1_000_000), currency: "EUR".into() });
    scene.attach(PlatformSpec { price: price.clone(), ..limited(limits) });
    scene.submit(job(100));
    assert_eq!(scene.n_asked(), 2, "each takes two core-hours");
    let told = scene.explain(Query::ExplainPlatform("here".into()))[0].to_string();
    assert_eq!(
        told,
        "of 5.00 EUR on here, 0.00 are spent and 4.00 are reserved for present allocations; one more costs 2.00 (budget)"
    );
    // Without a price, the cost is unknown and no limit applies.
    scene.attach(PlatformSpec { price: None, ..limited(limits) });
    assert!(scene.n_asked() > 0);
}

#[test]
fn a_budget_that_stops_nothing_is_not_said() {
    let mut scene = Scene::new();
    scene.attach(limited(core_hours_max(4)));
    let told = scene.explain(Query::ExplainPlatform("here".into()));
    assert!(matches!(told.first(), Some(Reason::PlatformHas { .. })), "{told:?}");
}

#[test]
fn other_limits_hold_from_then_on() {
    let mut scene = Scene::new();
    scene.attach(limited(PlatformLimits { n_queued_max: Some(1), ..PlatformLimits::default() }));
    scene.submit(job(100));
    assert_eq!(scene.n_asked(), 1);
    let limits = PlatformLimits { n_queued_max: Some(4), ..PlatformLimits::default() };
    scene.change_platform(PlatformChange::Limits { n_pilots_max: 3, limits });
    assert_eq!(scene.n_asked(), 2, "three pilots at most");
    let unknown = scene.say(|request| Event::PlatformChangeAsked {
        request,
        platform: "there".into(),
        change: PlatformChange::Mode(PlatformMode::Paused),
    });
    assert_eq!(unknown, Some(Answer::Refused(Refusal::NoPlatform("there".into()))));
}

#[test]
fn a_paused_platform_is_asked_for_nothing_more() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    scene.set_mode(PlatformMode::Paused);
    let job_id = scene.submit(job(3));
    assert_eq!(scene.take(pilot), [(job_id.0, "0".into())], "those that are there go on");
    scene.attach(platform(10, 2));
    scene.wait(30);
    assert_eq!(scene.n_asked(), 0);
    assert_eq!(scene.why(), "platform here is paused; `pilotfish platform resume here` lets it go on");
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.attach(platform(10, 2));
    scene.wait_awake(120);
    assert_eq!(scene.engine.durable().allocations().len(), 1, "nor by the next manager");
    scene.set_mode(PlatformMode::Active);
    assert!(scene.n_asked() > 0);
}

#[test]
fn a_drained_platform_loses_its_pilots_and_what_waits() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    let first = scene.submit(job(4));
    scene.take(pilot);
    scene.attach(platform(4, 1));
    let asked = scene.submissions();
    let [(queued, _), (coming, coming_tag), (answered_late, _)] = &asked[..] else { panic!("{asked:?}") };
    scene.answered(*queued);
    scene.set_mode(PlatformMode::Draining);
    assert_eq!(scene.cancelled(), [format!("b{queued}")]);
    let answer = scene.pull(pilot, hungry()).expect("told at once");
    assert_eq!(commands(&answer), [PilotCommand::Drain]);
    let node = NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
    let newcomer = scene.register(coming_tag, node);
    let drain = |scene: &Scene, pilot| scene.engine.durable().pilots()[&pilot].drain.clone();
    assert_eq!(drain(&scene, newcomer), Some(DrainCause::Platform), "it came while it drained");
    scene.answered(*coming);
    assert_eq!(scene.cancelled(), Vec::<String>::new(), "its pilot leaves by itself");
    scene.answered(*answered_late);
    assert_eq!(scene.cancelled(), [format!("b{answered_late}")]);
    scene.wait(10);
    assert_eq!((scene.n_asked(), scene.counts(first)), (0, "active w3 p1 d0 f0 c0".into()));
    scene.set_mode(PlatformMode::Active);
    assert_eq!(drain(&scene, pilot), Some(DrainCause::Platform), "who was told to leave leaves");
}

#[test]
fn an_allocation_is_given_back_by_its_pilot() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    let job_id = scene.submit(job(3));
    scene.take(pilot);
    let cancel = |is_urgent| {
        move |request| Event::AllocationCancelAsked { request, allocation: AllocationId(1), is_urgent }
    };
    let Some(Answer::Allocation(view)) = scene.say(cancel(false)) else { panic!("no answer") };
    assert_eq!((view.state.as_str(), view.pilots), ("running", vec![pilot]));
    assert_eq!(commands(&scene.pull(pilot, hungry()).expect("told")), [PilotCommand::Drain]);
    scene.say(cancel(true));
    assert_eq!(
        commands(&scene.pull(pilot, Pull { part_seen: 2, ..hungry() }).expect("told")),
        [PilotCommand::Stop]
    );
    scene.done(pilot, job_id, "0");
    scene.say(|request| Event::PilotLeft {
        request,
        pilot,
        session_nonce: None,
        report: None,
        reason: crate::pull::LeaveReason::Told,
    });
    let refused = scene.say(cancel(false));
    let over = Refusal::AllocationOver(AllocationId(1), "leaving");
    assert_eq!(refused, Some(Answer::Refused(over)));
    let unknown = scene.say(|request| Event::AllocationCancelAsked {
        request,
        allocation: AllocationId(9),
        is_urgent: false,
    });
    assert_eq!(unknown, Some(Answer::Refused(Refusal::UnknownAllocation(AllocationId(9)))));
}

#[test]
fn one_that_is_cancelled_before_the_platform_has_answered_is_waited_for() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    let over = |scene: &Scene| {
        scene
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Answer { answer: Answer::ShutDown(_), .. }))
    };
    scene.say(|request| Event::ShutdownAsked { request, is_urgent: true });
    assert!(!over(&scene), "what came of the submission is not known");
    scene.answered(allocation);
    assert_eq!(scene.cancelled(), [format!("b{allocation}")]);
    assert!(over(&scene));
}

#[test]
fn one_that_is_cancelled_and_then_refused_is_over() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    let outcome = SubmitOutcome::Refused("no such queue".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    let held = &scene.engine.durable().allocations()[&allocation];
    assert!(!held.may_be_there(), "{:?}", held.state);
}

#[test]
fn an_urgent_shutdown_does_not_wait_for_a_platform_that_cannot_be_asked() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    let asked_at = scene.now;
    scene.say(|_| Event::PlatformListed {
        platform: PlatformId(1),
        asked_at,
        result: Err("no route to host".into()),
    });
    assert_eq!(
        scene.why(),
        "platform here does not say what is there (no route to host); it is asked again and again"
    );
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    let mut over = |is_urgent| {
        scene.say(|request| Event::ShutdownAsked { request, is_urgent });
        let is_end = |effect: &Effect| matches!(effect, Effect::Answer { answer: Answer::ShutDown(_), .. });
        scene.effects.iter().any(is_end)
    };
    assert!(!over(false));
    assert!(over(true));
}

#[test]
fn a_listing_that_fails_now_and_then_lifts_no_pause() {
    let listing = |scene: &mut Scene, is_answered: bool| {
        let asked_at = scene.now;
        let result = if is_answered { Ok(vec![]) } else { Err("no answer".to_owned()) };
        scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
    };
    // Whether the next listing lifts the pause of a refusal that follows `n_failed` failed listings.
    let is_lifted = |n_failed: u32| {
        let mut scene = Scene::new();
        scene.attach(limited(PlatformLimits::default()));
        scene.submit(job(1));
        let (allocation, _) = scene.submissions().remove(0);
        (0..n_failed).for_each(|_| listing(&mut scene, false));
        let outcome = SubmitOutcome::Refused("Invalid qos specification".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        listing(&mut scene, true);
        scene.say(|_| Event::TimerFired);
        scene.engine.durable().allocations().len() > 1
    };
    assert_eq!([1, 2].map(is_lifted), [false, true]);
}

#[test]
fn all_that_wait_are_cancelled_in_one_call() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    scene.submit(job(3));
    for (allocation, _) in scene.submissions() {
        scene.answered(allocation);
    }
    scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
    let calls = scene.effects.iter().filter(|effect| matches!(effect, Effect::Cancel { .. }));
    assert_eq!((calls.count(), scene.cancelled().len()), (1, 3));
}

#[test]
fn a_listing_cancels_nothing_of_another_platform_of_the_account() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { name: "other".into(), ..platform(1, 1) });
    scene.attach(PlatformSpec { name: "here".into(), n_pilots_min: 1, ..platform(1, 1) });
    let (_, tag) = scene.submissions().remove(0);
    let drain = PlatformChange::Mode(PlatformMode::Draining);
    scene.say(|request| Event::PlatformChangeAsked { request, platform: "other".into(), change: drain });
    scene.listed(&[&tag]);
    assert_eq!(scene.cancelled(), Vec::<String>::new());
}

#[test]
fn none_costs_more_than_its_walltime_and_one_that_came_to_nothing_what_it_may_have_run() {
    let mut scene = Scene::new();
    scene.attach(limited(core_hours_max(8)));
    scene.submit(job(4));
    let asked = scene.submissions();
    for (allocation, _) in &asked {
        scene.answered(*allocation);
    }
    scene.register(&asked[0].1, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    scene.set_mode(PlatformMode::Paused);
    scene.wait(HOUR / 4);
    scene.listed(&[&asked[0].1]);
    let spent = |scene: &mut Scene| match scene.change_platform(PlatformChange::Mode(PlatformMode::Paused)) {
        Some(Answer::PlatformChanged(view)) => core_hours(view.core_time_spent),
        other => panic!("{other:?}"),
    };
    assert_eq!(spent(&mut scene), "0.5", "the second ended before its pilot came");
    // There is no manager for a night.
    scene.now = scene.now + Span::from_secs(10 * HOUR);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.attach(limited(core_hours_max(8)));
    scene.wait(59);
    scene.now = scene.now + Span::from_secs(1);
    scene.listed(&[]);
    assert_eq!(spent(&mut scene), "2.5", "the first its hour, on two cores");
}

#[test]
fn one_that_was_cancelled_in_the_queue_costs_nothing() {
    let mut scene = Scene::new();
    scene.attach(limited(core_hours_max(8)));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    scene.answered(allocation);
    scene.wait(HOUR / 4);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    scene.wait(HOUR / 4);
    scene.listed(&[]);
    let held = &scene.engine.durable().allocations()[&allocation];
    assert_eq!((held.state_word(), held.core_time()), ("ended", Span::ZERO));
}

#[test]
fn one_that_a_damaged_store_holds_twice_counts_once() {
    let mut durable = Durable::default();
    let spec = limited(PlatformLimits::default());
    durable.apply(&Record::PlatformAttached { platform: PlatformId(1), spec, at: Time(1) });
    for tag in ["a", "b"] {
        let (allocation, platform, tag) = (AllocationId(1), PlatformId(1), tag.to_owned());
        durable.apply(&Record::AllocationIntended { allocation, platform, tag, because: None, at: Time(2) });
    }
    let allocation_counts = durable.allocation_counts(PlatformId(1));
    assert_eq!((allocation_counts.n_there, core_hours(allocation_counts.committed())), (1, "2".into()));
}

#[test]
fn a_pilot_that_comes_back_to_a_drained_platform_drains() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    scene.wait_awake(100);
    assert!(!scene.engine.durable().pilots()[&pilot].is_live(), "silent for too long");
    scene.set_mode(PlatformMode::Draining);
    scene.pull(pilot, hungry());
    assert_eq!(scene.engine.durable().pilots()[&pilot].drain, Some(DrainCause::Platform));
}

#[test]
fn a_pilot_that_comes_back_while_the_manager_ends_leaves() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(1);
    scene.wait_awake(100);
    scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
    scene.pull(pilot, hungry());
    assert_eq!(scene.engine.durable().pilots()[&pilot].drain, Some(DrainCause::Shutdown));
}

#[test]
fn a_rest_of_a_budget_buys_a_shorter_pilot() {
    let mut scene = Scene::new();
    // Pilots of two cores that live an hour use two core-hours each; 1.5 are left for the second.
    let half_hours = Span::from_secs(7 * HOUR / 2);
    let limits = PlatformLimits { core_time_max: Some(half_hours), ..PlatformLimits::default() };
    scene.attach(limited(limits));
    scene.submit(job(100));
    let asked: Vec<(AllocationId, Option<Span>)> = scene
        .effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Submit { allocation, walltime, .. } => Some((*allocation, *walltime)),
            _ => None,
        })
        .collect();
    let whole = Some(Span::from_secs(HOUR));
    assert_eq!(asked, [(AllocationId(1), whole)]);
    scene.answered(asked[0].0);
    scene.wait(5);
    let shorter = scene.effects.iter().find_map(|effect| match effect {
        Effect::Submit { allocation, walltime, .. } => Some((*allocation, *walltime)),
        _ => None,
    });
    let shorter = shorter.or_else(|| {
        let held = scene.engine.durable().allocations().get(&AllocationId(2))?;
        Some((AllocationId(2), held.walltime))
    });
    assert_eq!(shorter, Some((AllocationId(2), Some(Span::from_secs(45 * 60)))));
    let held = &scene.engine.durable().allocations()[&AllocationId(2)];
    assert_eq!(held.walltime, Some(Span::from_secs(45 * 60)));
    assert_eq!(scene.engine.durable().allocation_counts(PlatformId(1)).committed(), half_hours);
    scene.answered(AllocationId(2));
    scene.wait(60);
    assert_eq!(scene.n_asked(), 0, "nothing is left");
}

#[test]
fn a_rest_in_which_no_task_would_end_is_kept() {
    let mut scene = Scene::new();
    let limits =
        PlatformLimits { core_time_max: Some(Span::from_secs(HOUR / 2)), ..PlatformLimits::default() };
    scene.attach(limited(limits));
    let needs = TaskNeeds { time_limit: Some(Span::from_secs(20 * 60)), ..job(1).needs };
    scene.submit(JobRequest { needs, ..job(100) });
    assert_eq!(scene.n_asked(), 0, "a quarter of an hour is left, and a task may take twenty minutes");
}

#[test]
fn why_an_allocation_waits_is_shown_and_told_once() {
    let mut scene = Scene::new();
    scene.attach(limited(PlatformLimits::default()));
    let job = scene.submit(job(1));
    let (allocation, tag) = scene.submissions().remove(0);
    scene.answered(allocation);
    let mut listed = |words: Option<&str>, is_running: bool| {
        scene.wait_awake(5);
        let entry = ListedAllocation {
            tag: tag.clone(),
            batch_id: "17".into(),
            reason: words.map(str::to_owned),
            is_running,
            ..ListedAllocation::default()
        };
        let (asked_at, result) = (scene.now, Ok(vec![entry]));
        scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
        let told = scene.effects.iter().filter(|effect| {
            matches!(effect, Effect::Notify(crate::engine::interface::Notice::AllocationWaits { .. }))
        });
        let n_told = told.count();
        let answer = scene.say(|request| Event::Asked { request, query: Query::Allocation(allocation) });
        let Some(Answer::Allocation(view)) = answer else { panic!("{answer:?}") };
        let explained = [Query::ExplainAllocation(allocation), Query::ExplainJob(job)].map(|query| {
            let reasons = scene.explain(query);
            reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        });
        (n_told, view.why.unwrap_or_default(), explained)
    };
    let (n_told, why, [of_allocation, of_job]) = listed(Some("AssocGrpBillingMinutes"), false);
    assert_eq!(n_told, 1);
    for text in [&why, &of_allocation, &of_job] {
        assert!(text.contains("AssocGrpBillingMinutes") && text.contains("hours"), "{text}");
    }
    assert_eq!(listed(Some("AssocGrpBillingMinutes"), false).0, 0, "once");
    let (n_told, why, _) = listed(Some("Priority"), false);
    assert_eq!((n_told, why.as_str()), (0, "Priority"));
    assert_eq!(listed(Some("AssocGrpBillingMinutes"), false).0, 0, "it was told before");
    let (n_told, why, _) = listed(Some("SomethingNew"), false);
    assert_eq!(n_told, 1);
    assert!(why.contains("manual"), "{why}");
    let (n_told, why, _) = listed(None, true);
    assert_eq!((n_told, why.as_str()), (0, ""));
}

#[test]
fn what_had_no_room_is_asked_for_again_ten_seconds_later_at_the_soonest() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { poll_interval: Span::from_secs(1), ..limited(PlatformLimits::default()) });
    scene.submit(job(100));
    let asked = scene.submissions();
    let tags: Vec<String> = asked.iter().map(|(_, tag)| tag.clone()).collect();
    asked.iter().for_each(|(allocation, _)| scene.answered(*allocation));
    scene.wait_awake(3);
    let entry = |tag: &String| ListedAllocation {
        tag: tag.clone(),
        batch_id: format!("b{tag}"),
        trouble: Some("No valid host was found.".into()),
        lacks_room: true,
        is_ended: true,
        ..ListedAllocation::default()
    };
    let others = tags[1..].iter().map(|tag| ListedAllocation {
        tag: tag.clone(),
        batch_id: format!("b{tag}"),
        ..ListedAllocation::default()
    });
    let listed = [entry(&tags[0])].into_iter().chain(others).collect();
    let (asked_at, result) = (scene.now, Ok(listed));
    scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result });
    assert_eq!(scene.n_asked(), 0, "in the step that heard of it");
    let end = scene.now + Span::from_secs(60);
    let mut asked_after = None;
    while let Some(due) = scene.engine.next_wakeup().filter(|due| asked_after.is_none() && *due <= end) {
        scene.now = scene.now.max(due);
        scene.say(|_| Event::TimerFired);
        asked_after = Some(scene.now.since(asked_at)).filter(|_| scene.n_asked() > 0);
        // The allocation is deleted: the next listings have only the others.
        if scene.effects.iter().any(|effect| matches!(effect, Effect::List { .. })) {
            scene.listed(&tags[1..].iter().map(String::as_str).collect::<Vec<_>>());
            asked_after = asked_after.or(Some(scene.now.since(asked_at)).filter(|_| scene.n_asked() > 0));
        }
    }
    assert_eq!(asked_after, Some(Span::from_secs(10)), "{}", scene.why());
}
