//! Allocations of several nodes, each with a pilot.

use super::*;
use crate::{
    engine::record::DrainCause,
    ids::{AllocationId, PlatformId},
};

/// Returns a platform of up to `n_pilots_max` pilots with two cores, and four nodes per allocation.
fn of_four_nodes(n_pilots_max: u32) -> PlatformSpec {
    PlatformSpec { n_nodes: 4, ..platform(n_pilots_max, 2) }
}

fn node(hostname: &str, rank: u32) -> NodeFacts {
    NodeFacts { hostname: hostname.into(), rank, capacity: Resources::cores(2), ..NodeFacts::default() }
}

impl Scene {
    /// Returns the tag of an accepted allocation of four nodes.
    fn four_nodes(&mut self) -> String {
        self.four(of_four_nodes(4))
    }

    /// The same for a job array, whose nodes start and end by themselves.
    fn four_of_an_array(&mut self) -> String {
        self.four(PlatformSpec { is_array: true, ..of_four_nodes(8) })
    }

    fn four(&mut self, spec: PlatformSpec) -> String {
        self.attach(spec);
        let job = self.submit(job(8));
        assert_eq!(self.submissions().len(), 1, "for job {job}");
        let (allocation, tag) = self.submissions().remove(0);
        let outcome = SubmitOutcome::Accepted("b1".into());
        self.say(|_| Event::AllocationAnswered { allocation, outcome });
        tag
    }

    pub(super) fn leaves(&mut self, pilot: PilotId) {
        self.say(|request| Event::PilotLeft {
            request,
            pilot,
            session_nonce: None,
            report: None,
            reason: crate::pull::LeaveReason::Signalled,
        });
    }

    fn state_of_first(&self) -> &'static str {
        self.engine.durable().allocations()[&AllocationId(1)].state_word()
    }

    fn n_live(&self) -> usize {
        self.engine.durable().live_pilots(&self.engine.durable().allocations()[&AllocationId(1)]).len()
    }

    fn nothing_is_listed(&mut self) {
        let asked_at = self.now;
        self.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result: Ok(vec![]) });
    }
}

#[test]
fn as_many_are_asked_for_as_bring_the_pilots_that_are_wanted() {
    let mut scene = Scene::new();
    scene.attach(of_four_nodes(40));
    scene.submit(job(9));
    assert_eq!(scene.submissions().len(), 2, "nine tasks want five pilots");
    scene.attach(of_four_nodes(11));
    scene.submit(job(100));
    assert_eq!(scene.submissions().len(), 0, "a third would be the twelfth pilot");
    let allocation_counts = scene.engine.durable().allocation_counts(PlatformId(1));
    assert_eq!(
        (allocation_counts.n_there, allocation_counts.n_waiting, allocation_counts.n_queued),
        (8, 8, 2)
    );
    assert_eq!(
        scene.explain(Query::ExplainPlatform("here".into()))[0].to_string(),
        "8 pilots there or asked for (8 still to come) of at most 11 (pilots_max); 0 more are to be asked for"
    );
}

#[test]
fn every_node_has_a_pilot_and_the_budget_pays_for_all() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..4).map(|rank| scene.register(&tag, node("n", rank))).collect();
    assert_eq!(scene.n_live(), 4);
    let taken: u64 = pilots.iter().map(|pilot| scene.take(*pilot).len() as u64).sum();
    assert!(taken >= 4, "each has work");
    let held = &scene.engine.durable().allocations()[&AllocationId(1)];
    assert_eq!((held.cores, held.n_waiting()), (8, 0));
}

#[test]
fn a_batch_job_is_cancelled_when_its_pilots_leave_before_all_have_come() {
    for n_come in [1, 4] {
        let mut scene = Scene::new();
        let tag = scene.four_nodes();
        let pilots: Vec<PilotId> = (0..n_come).map(|rank| scene.register(&tag, node("n", rank))).collect();
        let mut n_cancelled = 0;
        for pilot in pilots {
            scene.leaves(pilot);
            let is_cancel = |effect: &&Effect| matches!(effect, Effect::Cancel { .. });
            n_cancelled += scene.effects.iter().filter(is_cancel).count();
        }
        assert_eq!(
            n_cancelled,
            usize::from(n_come < 4),
            "of {n_come} that have come; with all it ends by itself"
        );
    }
}

#[test]
fn an_agent_that_is_started_again_takes_the_place_of_its_own_node() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..4).map(|rank| scene.register(&tag, node("n", rank))).collect();
    let mut again =
        Registration { tag, nonce: 77, node: node("n", 2), uptime: Span::ZERO, predecessor: None };
    let mut say = |registration: &Registration| {
        let registration = Box::new(registration.clone());
        scene.say(|request| Event::PilotRegistered { request, registration })
    };
    for predecessor in [None, Some(78)] {
        again.predecessor = predecessor;
        let pilot = pilots[2];
        let refused = Some(Answer::Refused(Refusal::StillThere { tag: again.tag.clone(), pilot }));
        assert_eq!(say(&again), refused, "anybody can say where he is");
    }
    again.predecessor = Some(3);
    assert!(matches!(say(&again), Some(Answer::Registered(_))), "it knows the number of the one before");
    let is_live = |pilot: &PilotId| scene.engine.durable().pilots()[pilot].is_live();
    assert_eq!(pilots.iter().map(is_live).collect::<Vec<_>>(), [true, true, false, true]);
    assert_eq!((scene.n_live(), scene.state_of_first()), (4, "running"));
}

#[test]
fn who_was_gone_and_speaks_late_costs_no_other_pilot_its_place() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let mut pilots: Vec<PilotId> = (0..4).map(|rank| scene.register(&tag, node("n", rank))).collect();
    let mut again = |scene: &mut Scene, nonce, rank| {
        let registration = Box::new(Registration {
            tag: tag.clone(),
            nonce,
            node: node("n", rank),
            uptime: Span::ZERO,
            predecessor: Some(u64::from(rank) + 1),
        });
        match scene.say(|request| Event::PilotRegistered { request, registration }) {
            Some(Answer::Registered(registered)) => pilots.push(registered.pilot),
            other => panic!("{other:?}"),
        }
        pilots.clone()
    };
    let pilots_then = again(&mut scene, 77, 3);
    for _ in 0..3 {
        scene.wait_awake(30);
        [0, 2, 4].into_iter().for_each(|n| _ = scene.pull(pilots_then[n], hungry()));
    }
    assert!(!scene.engine.durable().pilots()[&pilots_then[1]].is_live(), "it is silent");
    // A message that the first process on the last node had sent arrives only now.
    scene.pull(pilots_then[3], hungry());
    let pilots = again(&mut scene, 78, 1);
    let is_live = |n: usize| scene.engine.durable().pilots()[&pilots[n]].is_live();
    assert!([0, 2, 4].into_iter().all(is_live), "they have done nothing");
}

#[test]
fn a_batch_job_that_begins_again_elsewhere_has_no_more_pilots_than_nodes() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    (0..4).for_each(|rank| _ = scene.register(&tag, node("old", rank)));
    let comes = |scene: &mut Scene, rank| {
        let registration = Box::new(Registration {
            tag: tag.clone(),
            nonce: 100 + u64::from(rank),
            node: node("new", rank),
            uptime: Span::ZERO,
            predecessor: None,
        });
        scene.say(|request| Event::PilotRegistered { request, registration })
    };
    for rank in 0..4 {
        let refused = comes(&mut scene, rank);
        assert!(matches!(refused, Some(Answer::Refused(Refusal::StillThere { .. }))), "{refused:?}");
    }
    let told = |effect: &Effect| matches!(effect, Effect::Notify(Notice::JoinedTwice { .. }));
    assert!(!scene.effects.iter().any(told), "that is told once");
    assert_eq!(scene.n_live(), 4);
    // They try again until their predecessors count as lost; the batch job is not cancelled meanwhile.
    for _ in 0..10 {
        scene.wait_awake(10);
        assert!(!scene.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. })));
        (0..4).for_each(|rank| _ = comes(&mut scene, rank));
    }
    assert_eq!(scene.n_live(), 4);
    let live = scene.engine.durable().pilots().values().filter(|pilot| pilot.is_live());
    assert!(live.into_iter().all(|pilot| pilot.node.hostname == "new"));
}

#[test]
fn an_allocation_is_over_with_the_last_of_its_pilots() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..4).map(|rank| scene.register(&tag, node("n", rank))).collect();
    for pilot in &pilots[..3] {
        scene.leaves(*pilot);
        assert_eq!(scene.state_of_first(), "running");
    }
    scene.leaves(pilots[3]);
    assert_eq!(scene.state_of_first(), "leaving");
}

#[test]
fn what_the_platform_ends_takes_all_pilots_with_it() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..3).map(|rank| scene.register(&tag, node("n", rank))).collect();
    pilots.iter().for_each(|pilot| _ = scene.take(*pilot));
    scene.wait(1);
    scene.nothing_is_listed();
    assert_eq!((scene.n_live(), scene.state_of_first()), (0, "ended"));
    assert_eq!(scene.counts(JobId(1)), "active w8 p0 d0 f0 c0");
}

#[test]
fn idle_nodes_stay_as_long_as_one_beside_them_works() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..4).map(|rank| scene.register(&tag, node("n", rank))).collect();
    let bundles = scene.take(pilots[0]);
    scene.change(JobId(1), JobChange::Pause);
    scene.wait_awake(60);
    pilots[1..].iter().for_each(|pilot| _ = scene.pull(*pilot, hungry()));
    let drained = |scene: &Scene| {
        let drained = scene.engine.durable().pilots().values().filter(|pilot| pilot.drain.is_some());
        drained.map(|pilot| pilot.drain.clone()).collect::<Vec<_>>()
    };
    assert_eq!(drained(&scene), []);
    for (_, tasks) in bundles {
        scene.done(pilots[0], JobId(1), &tasks);
    }
    for _ in 0..3 {
        scene.wait_awake(5);
        pilots.iter().for_each(|pilot| _ = scene.pull(*pilot, hungry()));
    }
    let idle = Some(DrainCause::Idle(Span::from_secs(10)));
    assert_eq!(drained(&scene), [idle.clone(), idle.clone(), idle.clone(), idle]);
}

#[test]
fn cancelling_one_drains_all_its_pilots() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..4).map(|rank| scene.register(&tag, node("n", rank))).collect();
    let allocation = AllocationId(1);
    let answer = scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    assert!(matches!(answer, Some(Answer::Allocation(view)) if view.pilots == pilots));
    for pilot in pilots {
        assert_eq!(commands(&scene.pull(pilot, hungry()).expect("told")), [PilotCommand::Drain]);
    }
}

#[test]
fn who_comes_late_to_an_allocation_that_is_given_back_leaves_too() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    (0..3).for_each(|rank| _ = scene.register(&tag, node("n", rank)));
    let allocation = AllocationId(1);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: true });
    let late = scene.register(&tag, node("n", 3));
    assert_eq!(commands(&scene.pull(late, hungry()).expect("told")), [PilotCommand::Drain]);
}

#[test]
fn a_node_whose_agent_never_comes_is_not_waited_for() {
    let mut scene = Scene::new();
    let tag = scene.four_nodes();
    let pilots: Vec<PilotId> = (0..3).map(|rank| scene.register(&tag, node("n", rank))).collect();
    pilots.iter().for_each(|pilot| _ = scene.take(*pilot));
    scene.attach(of_four_nodes(8));
    assert_eq!(scene.submissions().len(), 0, "the fourth may do the rest");
    for _ in 0..10 {
        scene.now = scene.now + Span::from_secs(10);
        pilots.iter().for_each(|pilot| _ = scene.pull(*pilot, hungry()));
    }
    scene.wait(1);
    assert_eq!(scene.engine.durable().allocations().len(), 2, "it will not");
    scene.wait(10);
    assert_eq!(scene.engine.durable().allocations().len(), 2, "and one is enough");
}

#[test]
fn a_node_whose_agent_never_comes_is_none_of_those_that_are_kept() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { n_pilots_min: 4, ..of_four_nodes(8) });
    let (allocation, tag) = scene.submissions().remove(0);
    let outcome = SubmitOutcome::Accepted("b1".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    let pilots: Vec<PilotId> = (0..3).map(|rank| scene.register(&tag, node("n", rank))).collect();
    for _ in 0..10 {
        scene.now = scene.now + Span::from_secs(10);
        pilots.iter().for_each(|pilot| _ = scene.pull(*pilot, hungry()));
    }
    scene.wait(1);
    assert_eq!(scene.engine.durable().allocations().len(), 2);
}

#[test]
fn tasks_of_an_array_that_wait_are_waited_for() {
    let mut scene = Scene::new();
    let tag = scene.four_of_an_array();
    let first = scene.register(&tag, node("n", 0));
    scene.take(first);
    for _ in 0..10 {
        scene.now = scene.now + Span::from_secs(10);
        scene.pull(first, hungry());
    }
    scene.wait(1);
    assert_eq!(scene.engine.durable().allocations().len(), 1, "they stand in the queue");
    scene.leaves(first);
    assert_eq!(scene.state_of_first(), "running", "whose walltime ended before theirs began");
    let second = scene.register(&tag, node("n", 1));
    scene.leaves(second);
    (2..4).map(|rank| scene.register(&tag, node("n", rank))).collect::<Vec<_>>().into_iter().for_each(
        |pilot| {
            assert_eq!(scene.state_of_first(), "running");
            scene.leaves(pilot);
        },
    );
    assert_eq!(scene.state_of_first(), "leaving");
}

#[test]
fn the_rest_of_an_array_is_cancelled_when_nobody_wants_it() {
    let cancelled = |then: &dyn Fn(&mut Scene, PilotId)| {
        let mut scene = Scene::new();
        let tag = scene.four_of_an_array();
        let first = scene.register(&tag, node("n", 0));
        then(&mut scene, first);
        (scene.state_of_first(), scene.cancelled())
    };
    let of_array = ("leaving", vec!["b1".to_owned()]);
    let told = |scene: &mut Scene, first| {
        scene.wait_awake(60);
        scene.pull(first, hungry());
        scene.leaves(first);
    };
    let idle = |scene: &mut Scene, first| {
        scene.change(JobId(1), JobChange::Pause);
        told(scene, first);
    };
    assert_eq!(cancelled(&idle), of_array);
    let drained = |scene: &mut Scene, first| {
        scene.leaves(first);
        assert_eq!(scene.state_of_first(), "running");
        scene.set_mode(PlatformMode::Draining);
    };
    assert_eq!(cancelled(&drained), of_array);
    let asked = |scene: &mut Scene, first| {
        let allocation = AllocationId(1);
        scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
        scene.leaves(first);
    };
    assert_eq!(cancelled(&asked), of_array);
}

#[test]
fn what_waits_of_an_array_that_is_given_back_is_not_waited_for() {
    let mut scene = Scene::new();
    let tag = scene.four_of_an_array();
    let first = scene.register(&tag, node("n", 0));
    scene.take(first);
    let allocation = AllocationId(1);
    scene.say(|request| Event::AllocationCancelAsked { request, allocation, is_urgent: false });
    scene.submit(job(100));
    scene.wait_awake(60);
    assert_eq!(scene.engine.durable().allocations().len(), 2, "others do the work");
}

#[test]
fn the_minimum_of_pilots_stays_though_more_of_an_array_may_come() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { is_array: true, n_pilots_min: 1, ..of_four_nodes(4) });
    let (allocation, tag) = scene.submissions().remove(0);
    let outcome = SubmitOutcome::Accepted("b1".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    let first = scene.register(&tag, node("n", 0));
    scene.pull(first, hungry());
    scene.wait_awake(60);
    assert!(scene.engine.durable().pilots()[&first].drain.is_none());
    assert_eq!(scene.engine.durable().allocations().len(), 1);
}

#[test]
fn the_end_waits_for_an_array_whose_number_is_not_known() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { is_array: true, ..of_four_nodes(4) });
    scene.submit(job(8));
    let (allocation, tag) = scene.submissions().remove(0);
    let first = scene.register(&tag, node("n", 0));
    let ended = scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
    assert_eq!(ended, None);
    scene.leaves(first);
    assert!(
        !scene
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Answer { answer: Answer::ShutDown(_), .. }))
    );
    let outcome = SubmitOutcome::Accepted("b1".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    assert_eq!(scene.cancelled(), ["b1"]);
    assert!(
        scene
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Answer { answer: Answer::ShutDown(_), .. }))
    );
}

#[test]
fn tasks_of_an_array_that_are_gone_make_room_for_others() {
    let mut scene = Scene::new();
    let tag = scene.four(PlatformSpec { is_array: true, ..of_four_nodes(4) });
    scene.submit(job(100));
    let first = scene.register(&tag, node("n", 0));
    scene.take(first);
    let shows = |scene: &mut Scene, after_s, n_nodes| {
        scene.now = scene.now + Span::from_secs(after_s);
        scene.pull(first, hungry());
        let (asked_at, batch_id) = (scene.now, "b1".to_owned());
        let entry = ListedAllocation {
            reason: None,
            tag: tag.clone(),
            batch_id,
            is_ended: false,
            n_nodes: Some(n_nodes),
            is_running: false,
            is_suspended: false,
            trouble: None,
            lacks_room: false,
        };
        scene.say(|_| Event::PlatformListed { platform: PlatformId(1), asked_at, result: Ok(vec![entry]) });
        scene.wait(1);
        let allocation_counts = scene.engine.durable().allocation_counts(PlatformId(1));
        (allocation_counts.n_there, scene.engine.durable().allocations().len())
    };
    assert_eq!(shows(&mut scene, 0, 1), (4, 1), "it may be slow to show all that it has just accepted");
    assert_eq!(shows(&mut scene, 60, 4), (4, 1));
    scene.attach(PlatformSpec { is_array: true, n_nodes: 1, ..of_four_nodes(4) });
    assert_eq!(shows(&mut scene, 60, 2), (4, 3), "two are gone, and two others asked for");
    assert_eq!(shows(&mut scene, 60, 3), (4, 3), "none comes back");
}
