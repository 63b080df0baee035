//! Pilots and platforms: requests, losses, restarts, and pilots that are sent away.

use super::*;

#[test]
fn lost_pilot_returns_its_leases() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { crash_limit: 3, ..job(2) });
    let gone = scene.pilot(2);
    scene.take(gone);
    scene.wait_awake(74);
    scene.wait(1);
    let cancels =
        |effect: &Effect| matches!(effect, Effect::Cancel { batch_ids, .. } if *batch_ids == ["b1"]);
    assert!(scene.effects.iter().any(cancels), "it may still be there: {:?}", scene.effects);
    let here = scene.pilot(2);
    assert!(!scene.engine.durable().pilots()[&gone].is_live());
    assert_eq!(scene.take(here), [(1, "0-1".into())]);
    assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0");
}

#[test]
fn a_stall_of_our_own_is_not_the_pilots_fault() {
    let mut scene = Scene::new();
    scene.submit(job(2));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    scene.wait(3600);
    assert!(scene.engine.durable().pilots()[&pilot].is_live());
}

#[test]
fn a_pilot_is_silent_since_it_was_answered() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(2);
    assert_eq!(scene.pull(pilot, Pull { wait: Span::from_secs(20), ..hungry() }), None, "it is parked");
    scene.wait_awake(15);
    scene.submit(job(2));
    scene.wait_awake(74);
    assert!(scene.engine.durable().pilots()[&pilot].is_live(), "it was there 74 s ago");
    scene.wait_awake(2);
    assert!(!scene.engine.durable().pilots()[&pilot].is_live());
}

#[test]
fn a_stall_after_a_restart_leaves_each_pilot_what_it_runs() {
    let mut scene = Scene::new();
    let job = scene.submit(job(2));
    let (there, other) = (scene.pilot(1), scene.pilot(2));
    assert_eq!([scene.take(there), scene.take(other)], [[(1, "0".into())], [(1, "1".into())]]);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.now = scene.now + Span::from_secs(1);
    scene.say(|_| Event::TimerFired);
    scene.now = scene.now + Settings::default().grace + Span::from_secs(2);
    let mut told = Vec::new();
    for (pilot, task) in [(other, "1"), (there, "0")] {
        let asked = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).and_then(|a| a.resync).unwrap_or(0);
        let held = crate::pull::Held { running: set(task), ..holds_nothing(job) };
        let holdings = crate::pull::Holdings { asked, tasks: vec![held], templates: vec![job] };
        let answer = scene.pull(pilot, Pull { epoch: 2, part_seen: 0, holds: Some(holdings), ..hungry() });
        told.extend(commands(&answer.unwrap_or_default()));
        scene.now = scene.now + Span::from_secs(1);
    }
    let is_kill = |command: &PilotCommand| matches!(command, PilotCommand::Kill { .. });
    assert!(!told.iter().any(is_kill), "{told:?}");
    assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0");
}

fn holds_nothing(job: JobId) -> crate::pull::Held {
    let none = TaskSet::new;
    crate::pull::Held { job, queued: none(), running: none(), unreported: none() }
}

#[test]
fn pilots_are_asked_for_by_demand_and_sent_away_when_idle() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 2));
    assert_eq!(scene.submissions(), []);
    let job = scene.submit(job(3));
    let asked = scene.submissions();
    assert_eq!(asked.len(), 2, "three tasks on pilots of two cores");
    for (allocation, _) in &asked {
        let (allocation, outcome) = (*allocation, SubmitOutcome::Accepted(allocation.to_string()));
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    let node = NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() };
    let pilot = scene.register(&asked[0].1, node);
    scene.take(pilot);
    scene.done(pilot, job, "0-1");
    scene.done(pilot, job, "2");
    for _ in 0..4 {
        scene.wait_awake(5);
        scene.take(pilot);
    }
    let reasons = scene.explain(Query::ExplainPilot(pilot));
    assert!(matches!(reasons[0], Reason::PilotDrains { .. }), "{reasons:?}");
}

#[test]
fn nobody_is_idle_while_tasks_are_withheld_after_a_restart() {
    let mut scene = Scene::new();
    scene.attach(platform(2, 2));
    let job = scene.submit(job(9));
    let asked = scene.submissions();
    let pilots = asked.iter().map(|(allocation, tag)| {
        let (allocation, outcome) = (*allocation, SubmitOutcome::Accepted(allocation.to_string()));
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
        scene.register(tag, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() })
    });
    let pilot = pilots.collect::<Vec<_>>()[0];
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    scene.wait_awake(4);
    scene.attach(platform(2, 2));
    let of_new = |pull| Pull { epoch: 2, ..pull };
    let asked = scene.pull(pilot, of_new(hungry())).and_then(|answer| answer.resync).expect("it is asked");
    let holdings = crate::pull::Holdings { asked, tasks: vec![], templates: vec![] };
    scene.pull(pilot, of_new(Pull { part_seen: 0, holds: Some(holdings), ..hungry() }));
    for _ in 0..3 {
        assert_eq!(scene.pull(pilot, of_new(parked())), None, "the other may hold all of it");
        scene.wait_awake(18);
    }
    assert_eq!(scene.pull(pilot, of_new(parked())), None);
    // Due now are the platform's timer, since a second ago, and the end of the grace period.
    scene.wait(2);
    assert_eq!(scene.engine.durable().pilots()[&pilot].drain, None, "idle for more than ten seconds");
    assert_eq!(scene.counts(job), "active w7 p2 d0 f0 c0", "what is no longer withheld is given out");
}

/// Returns how many allocations are requested after a restart while a pilot with two cores runs two of
/// `n_tasks` tasks: before it has said what it holds, and after.
fn asked_for_after_a_restart(n_tasks: u64, n_min: u32) -> [usize; 2] {
    let mut scene = Scene::new();
    scene.attach(platform(2, 2));
    let job = scene.submit(job(2));
    let asked = scene.submissions();
    for (allocation, _) in asked.clone() {
        scene.say(|_| Event::AllocationAnswered { allocation, outcome: SubmitOutcome::Accepted("7".into()) });
    }
    let pilot =
        scene.register(&asked[0].1, NodeFacts { capacity: Resources::cores(2), ..NodeFacts::default() });
    scene.take(pilot);
    assert_eq!(scene.counts(job), "active w0 p2 d0 f0 c0");
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    if n_tasks > 2 {
        scene.submit(self::job(n_tasks - 2));
    }
    scene.attach(PlatformSpec { n_pilots_min: n_min, ..platform(2, 2) });
    scene.wait_awake(4);
    let n_allocations = |scene: &Scene| scene.engine.durable().allocations().len();
    let before = n_allocations(&scene);
    let asked = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).and_then(|a| a.resync).expect("it is asked");
    let tasks = vec![crate::pull::Held { running: set("0-1"), ..holds_nothing(job) }];
    let holdings = crate::pull::Holdings { asked, tasks, templates: vec![] };
    scene.pull(pilot, Pull { epoch: 2, part_seen: 0, holds: Some(holdings), is_hungry: false, ..hungry() });
    [before - 1, n_allocations(&scene) - before]
}

#[test]
fn after_a_restart_no_allocation_is_asked_for_what_pilots_may_hold() {
    assert_eq!(asked_for_after_a_restart(2, 0), [0, 0], "all of it is held");
    assert_eq!(
        asked_for_after_a_restart(3, 0),
        [0, 1],
        "what nobody holds wants a pilot as soon as that is known"
    );
    assert_eq!(asked_for_after_a_restart(2, 2), [1, 0], "those that are always wanted do not wait");
}

#[test]
fn allocations_that_wait_for_work_that_is_gone_are_taken_back_in_time() {
    let mut scene = Scene::new();
    let poll_interval = Span::from_secs(2);
    scene.attach(PlatformSpec { n_pilots_min: 1, poll_interval, ..platform(5, 2) });
    let (small, large) = (scene.submit(job(2)), scene.submit(job(6)));
    let mut asked: Vec<_> = scene.engine.durable().allocations().keys().copied().collect();
    for allocation in asked.clone() {
        let outcome = SubmitOutcome::Accepted(allocation.to_string());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    let listed: Vec<ListedAllocation> = asked
        .iter()
        .map(|id| ListedAllocation {
            reason: None,
            tag: scene.engine.durable().allocations()[id].tag.clone(),
            batch_id: id.to_string(),
            is_ended: false,
            n_nodes: None,
            is_running: false,
            is_suspended: false,
            trouble: None,
            lacks_room: false,
        })
        .collect();
    let n_live =
        |scene: &Scene| scene.engine.durable().allocations().values().filter(|a| a.is_live()).count();
    assert_eq!(n_live(&scene), 4, "eight tasks on pilots of two cores");
    let wait = |scene: &mut Scene| {
        scene.wait_awake(6);
        let (asked_at, result) = (scene.now, Ok(listed.clone()));
        scene.say(|_| Event::PlatformListed { platform: crate::ids::PlatformId(1), asked_at, result });
        n_live(scene)
    };
    scene.change(large, JobChange::Cancel(None));
    assert_eq!(wait(&mut scene), 4, "there may be other work within the idle timeout of 10 s");
    assert_eq!(wait(&mut scene), 1, "those that nobody needs");
    scene.change(small, JobChange::Cancel(None));
    assert_eq!([wait(&mut scene), wait(&mut scene), wait(&mut scene)], [1; 3], "the minimum stays");
    asked.truncate(1);
    let live = scene.engine.durable().allocations().iter().filter(|(_, a)| a.is_live());
    assert_eq!(live.map(|(id, _)| *id).collect::<Vec<_>>(), asked, "the newest go first");
}

#[test]
fn a_refusing_platform_is_tried_again_later_with_one_allocation() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    let job = scene.submit(job(9));
    for (allocation, _) in scene.submissions() {
        let outcome = SubmitOutcome::Refused("no such queue".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    let reasons = scene.explain(Query::ExplainJob(job));
    assert!(matches!(&reasons[0], Reason::PlatformFails { n_failures: 1, .. }), "one cause: {reasons:?}");
    assert_eq!(scene.submissions(), []);
    scene.wait(60);
    assert_eq!(scene.submissions().len(), 1);
}

#[test]
fn a_limit_on_jobs_is_no_failure_and_is_tried_again_with_one_allocation() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    let job = scene.submit(job(9));
    let full = |scene: &mut Scene, allocation| {
        let outcome = SubmitOutcome::NoRoom("QOSMaxSubmitJobPerUserLimit".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    };
    for (allocation, _) in scene.submissions() {
        full(&mut scene, allocation);
    }
    let reasons = scene.explain(Query::ExplainJob(job));
    let is_full =
        |reason: &Reason| matches!(reason, Reason::PlatformFull { what, .. } if what.contains("QOSMax"));
    assert!(reasons.iter().any(is_full), "{reasons:?}");
    assert!(!reasons.iter().any(|reason| matches!(reason, Reason::PlatformFails { .. })), "{reasons:?}");
    assert_eq!(scene.submissions(), []);
    scene.wait(61);
    let again = scene.submissions();
    assert_eq!(again.len(), 1);
    full(&mut scene, again[0].0);
    scene.wait(61);
    let again = scene.submissions();
    assert_eq!(again.len(), 1, "the wait does not grow");
    let (allocation, outcome) = (again[0].0, SubmitOutcome::Accepted("b1".into()));
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    assert_eq!(scene.submissions().len(), 2, "there is room again");
}

#[test]
fn a_job_whose_pilots_are_all_busy_is_told_why_no_more_of_them_come() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    let job = scene.submit(job(9));
    let asked = scene.submissions();
    let outcomes = [
        SubmitOutcome::Accepted("b1".into()),
        SubmitOutcome::Accepted("b7".into()),
        SubmitOutcome::NoRoom("QOSMaxSubmitJobPerUserLimit".into()),
    ];
    for ((allocation, _), outcome) in asked.iter().zip(outcomes) {
        scene.say(|_| Event::AllocationAnswered { allocation: *allocation, outcome });
    }
    let node = NodeFacts { capacity: Resources::cores(1), ..NodeFacts::default() };
    let pilot = scene.register(&asked[0].1, node);
    assert_eq!(scene.take(pilot).len(), 1);
    let mut listed: Vec<ListedAllocation> = Vec::new();
    for (_, held) in scene.engine.durable().allocations().iter().filter(|(_, held)| held.is_live()) {
        let (tag, batch_id) = (held.tag.clone(), held.batch_id.clone().unwrap_or_default());
        let trouble = (batch_id == "b7").then(|| "JobHeldUser".to_owned());
        listed.push(ListedAllocation { tag, batch_id, trouble, ..ListedAllocation::default() });
    }
    let (platform, asked_at) = (crate::ids::PlatformId(1), scene.now);
    scene.say(|_| Event::PlatformListed { platform, asked_at, result: Ok(listed) });
    let why = scene.explain(Query::ExplainJob(job));
    let is_any = |is: fn(&Reason) -> bool| why.iter().any(is);
    let is_busy = |reason: &Reason| matches!(reason, Reason::PilotsBusy { n_pilots: 1, freest, .. } if *freest == Some(pilot));
    assert!(why.iter().any(is_busy), "{why:?}");
    assert!(is_any(|reason| matches!(reason, Reason::PlatformFull { .. })), "{why:?}");
    assert!(
        is_any(
            |reason| matches!(reason, Reason::QueueSays { n_allocations: 1, words, .. } if words == "JobHeldUser")
        ),
        "{why:?}"
    );
}

#[test]
fn a_platform_that_waits_for_a_person_is_asked_at_once_when_one_has_come() {
    let mut scene = Scene::new();
    scene.attach(platform(3, 1));
    let job = scene.submit(job(9));
    let platform = crate::ids::PlatformId(1);
    let waits = |scene: &mut Scene, why: Option<&str>| {
        let why = why.map(str::to_owned);
        scene.say(|_| Event::PlatformWaits { platform, why });
    };
    let asked = scene.submissions();
    assert!(!asked.is_empty());
    waits(&mut scene, Some("it wants a code"));
    for (allocation, _) in asked {
        let outcome = SubmitOutcome::Refused("it wants a code".into());
        scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    }
    let expected = Reason::PersonAwaited { platform: "here".into(), why: "it wants a code".into() };
    for query in [Query::ExplainJob(job), Query::ExplainPlatform("here".into())] {
        let reasons = scene.explain(query);
        assert!(reasons.contains(&expected), "{reasons:?}");
        assert!(!reasons.iter().any(|reason| matches!(reason, Reason::PlatformFails { .. })), "{reasons:?}");
    }
    assert_eq!(scene.submissions(), [], "nothing is asked of it meanwhile");
    waits(&mut scene, None);
    let mut asked = scene.submissions();
    scene.wait(0);
    asked.extend(scene.submissions());
    assert!(!asked.is_empty(), "at once");
    assert!(!scene.explain(Query::ExplainJob(job)).contains(&expected));
}

#[test]
fn an_unknown_outcome_is_resolved_by_the_listing() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, tag) = scene.submissions().remove(0);
    let outcome = SubmitOutcome::Unknown("timed out".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    scene.wait(5);
    let listed = vec![
        ListedAllocation {
            reason: None,
            tag,
            batch_id: "77".into(),
            is_ended: false,
            n_nodes: None,
            is_running: false,
            is_suspended: false,
            trouble: None,
            lacks_room: false,
        },
        ListedAllocation {
            reason: None,
            tag: "pf0-99".into(),
            batch_id: "78".into(),
            is_ended: false,
            n_nodes: None,
            is_running: false,
            is_suspended: false,
            trouble: None,
            lacks_room: false,
        },
    ];
    let asked_at = scene.now;
    let platform = crate::ids::PlatformId(1);
    scene.say(|_| Event::PlatformListed { platform, asked_at, result: Ok(listed) });
    assert_eq!(scene.engine.durable().allocations()[&allocation].batch_id.as_deref(), Some("77"));
    let cancelled = Effect::Cancel { platform, batch_ids: vec!["78".into()] };
    assert!(scene.effects.contains(&cancelled), "an orphan is cancelled: {:?}", scene.effects);
}

#[test]
fn after_a_restart_pilots_bring_their_leases_back() {
    let mut scene = Scene::new();
    let job = scene.submit(job(4));
    let (there, other) = (scene.pilot(2), scene.pilot(2));
    scene.take(there);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    assert_eq!(scene.take(other), [], "tasks are withheld until all have said what they hold");
    let mut answers = Vec::new();
    for (pilot, held) in [(other, ""), (there, "0-1")] {
        let asked = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).and_then(|a| a.resync).unwrap_or(0);
        let running = if held.is_empty() { TaskSet::new() } else { set(held) };
        let held = crate::pull::Held { job, queued: TaskSet::new(), running, unreported: TaskSet::new() };
        let holdings = crate::pull::Holdings { asked, tasks: vec![held], templates: vec![] };
        let pull = Pull { epoch: 2, part_seen: 0, holds: Some(holdings), ..hungry() };
        answers.push(bundles(&scene.pull(pilot, pull).unwrap_or_default()));
    }
    assert_eq!(scene.counts(job), "active w2 p2 d0 f0 c0");
    let pull = Pull { epoch: 2, part_seen: 0, ..hungry() };
    assert_eq!(bundles(&scene.pull(other, pull).unwrap_or_default()), [(1, "2-3".into())]);
}

#[test]
fn a_task_that_failed_waits_for_the_result_that_another_pilot_is_known_to_have() {
    let mut scene = Scene::new();
    let job = scene.submit(JobRequest { retries: 5, ..job(1) });
    let (runs, has_run, idle) = (scene.pilot(1), scene.pilot(1), scene.pilot(1));
    scene.take(runs);
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    for pilot in [runs, has_run, idle] {
        let asked = scene.pull(pilot, Pull { epoch: 2, ..hungry() }).and_then(|a| a.resync).unwrap_or(0);
        let (running, unreported) = match pilot {
            _ if pilot == runs => (set("0"), TaskSet::new()),
            _ if pilot == has_run => (TaskSet::new(), set("0")),
            _ => (TaskSet::new(), TaskSet::new()),
        };
        let held = crate::pull::Held { job, queued: TaskSet::new(), running, unreported };
        let holdings = crate::pull::Holdings { asked, tasks: vec![held], templates: vec![] };
        scene.pull(pilot, Pull { epoch: 2, part_seen: 0, holds: Some(holdings), ..hungry() });
    }
    scene.fail(runs, job, 0, FailureKind::Exit { code: 1 });
    let asks = Pull { epoch: 2, part_seen: 0, ..hungry() };
    assert_eq!(bundles(&scene.pull(idle, asks.clone()).unwrap_or_default()), []);
    let mut other = scene.engine.clone();
    scene.done(has_run, job, "0");
    assert_eq!(scene.counts(job), "done w0 p0 d1 f0 c0");
    // If it had never come, another pilot would run the task again.
    std::mem::swap(&mut scene.engine, &mut other);
    scene.records.truncate(scene.records.len() - 1);
    let reason = crate::pull::LeaveReason::Signalled;
    scene.say(|request| Event::PilotLeft {
        request,
        pilot: has_run,
        session_nonce: None,
        report: None,
        reason,
    });
    assert_eq!(bundles(&scene.pull(idle, asks).unwrap_or_default()), [(job.0, "0".into())]);
}

#[test]
fn a_drained_shutdown_waits_for_pilots_to_leave() {
    let mut scene = Scene::new();
    scene.submit(job(4));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    assert_eq!(scene.say(|request| Event::ShutdownAsked { request, is_urgent: false }), None);
    let asked = RequestId(scene.n_requests);
    let told = scene.pull(pilot, hungry()).unwrap_or_default();
    assert_eq!(commands(&told), [PilotCommand::Drain]);
    let reason = crate::pull::LeaveReason::Told;
    scene.say(|request| Event::PilotLeft { request, pilot, session_nonce: None, report: None, reason });
    assert_eq!(scene.answer_to(asked), Some(Answer::ShutDown(vec![])));
}

#[test]
fn a_shutdown_waits_for_allocations_whose_pilot_may_still_come() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    assert_eq!(scene.say(|request| Event::ShutdownAsked { request, is_urgent: false }), None);
    let asked = RequestId(scene.n_requests);
    let outcome = SubmitOutcome::Accepted("7".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    let cancelled = Effect::Cancel { platform: crate::ids::PlatformId(1), batch_ids: vec!["7".into()] };
    assert!(scene.effects.contains(&cancelled), "{:?}", scene.effects);
    assert_eq!(scene.answer_to(asked), Some(Answer::ShutDown(vec![])));
}

#[test]
fn only_an_urgent_shutdown_leaves_an_unknown_allocation_to_the_next_start() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    let (allocation, _) = scene.submissions().remove(0);
    let outcome = SubmitOutcome::Unknown("timed out".into());
    scene.say(|_| Event::AllocationAnswered { allocation, outcome });
    assert_eq!(scene.say(|request| Event::ShutdownAsked { request, is_urgent: false }), None);
    let urgent = scene.say(|request| Event::ShutdownAsked { request, is_urgent: true });
    let Some(Answer::ShutDown(left)) = urgent else { panic!("{urgent:?}") };
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((left[0].platform.as_str(), left[0].batch_jobs.len()), ("here", 1));
    assert!(left[0].why.contains("has not said whether it is there"), "{left:?}");
}

#[test]
fn a_shutdown_does_not_wait_for_a_platform_that_is_not_attached() {
    let mut scene = Scene::new();
    scene.attach(platform(1, 1));
    scene.submit(job(1));
    scene.engine = Engine::restore(Settings::default(), 2, scene.now, scene.records.clone());
    let answer = scene.say(|request| Event::ShutdownAsked { request, is_urgent: false });
    let Some(Answer::ShutDown(left)) = answer else { panic!("{answer:?}") };
    assert!(left.len() == 1 && left[0].why.contains("not in the manager's configuration"), "{left:?}");
}

#[test]
fn those_who_hold_what_is_followed_are_told_once_to_show_it_and_nothing_is_kept_of_that() {
    let mut scene = Scene::new();
    let job = scene.submit(job(2));
    let (holder, other) = (scene.pilot(2), scene.pilot(2));
    scene.take(holder);
    let n_records = scene.records.len();
    let wanted = |tasks: Option<&str>, except: &[PilotId]| {
        let (tasks, except) = (tasks.map(set), except.iter().copied().collect());
        move |_| Event::TailsWanted { job, tasks, except }
    };
    let mut told = |wishes: Vec<(Option<&str>, &[PilotId])>| {
        for (tasks, except) in wishes {
            scene.say(wanted(tasks, except));
        }
        [holder, other].map(|pilot| commands(&scene.pull(pilot, hungry()).unwrap_or_default()).len())
    };
    assert_eq!(told(vec![(None, &[]), (None, &[])]), [1, 0], "once, until it has confirmed that");
    assert_eq!(told(vec![]), [0, 0], "it has confirmed that");
    assert_eq!(told(vec![(Some("0"), &[])]), [1, 0]);
    assert_eq!(told(vec![]), [0, 0]);
    assert_eq!(told(vec![(Some("7"), &[]), (None, &[holder])]), [0, 0], "not held, and known to show it");
    assert_eq!(scene.records.len(), n_records);
    // The command answers a parked pull.
    assert_eq!(scene.pull(holder, Pull { wait: Span::from_secs(20), ..hungry() }), None);
    scene.say(wanted(None, &[]));
    let is_told = |effect: &Effect| match effect {
        Effect::Answer { answer: Answer::Pull(answer), .. } => commands(answer) == [PilotCommand::Show],
        _ => false,
    };
    assert!(scene.effects.iter().any(is_told), "{:?}", scene.effects);
}
