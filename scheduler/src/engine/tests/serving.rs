//! Dispatch: the tasks that pilots get, their number, and the contents of answers.

use super::*;

#[test]
fn priority_goes_first_and_users_take_turns() {
    let mut scene = Scene::new();
    scene.submit(job(50));
    scene.submit(JobRequest { user: "bob".into(), ..job(50) });
    let pilots: Vec<PilotId> = (0..4).map(|_| scene.pilot(1)).collect();
    let jobs: Vec<u64> = pilots.iter().map(|pilot| scene.take(*pilot)[0].0).collect();
    assert_eq!(jobs, [1, 2, 1, 2]);
    scene.submit(JobRequest { priority: 5, ..job(1) });
    let pilot = scene.pilot(1);
    assert_eq!(scene.take(pilot)[0].0, 3);
}

#[test]
fn a_priority_of_one_user_keeps_no_other_user_from_a_turn() {
    let mut scene = Scene::new();
    scene.submit(JobRequest { priority: 1_000_000, ..job(50) });
    let own = scene.submit(job(50));
    let bob = scene.submit(JobRequest { user: "bob".into(), ..job(50) });
    let pilots: Vec<PilotId> = (0..4).map(|_| scene.pilot(1)).collect();
    let jobs: Vec<u64> = pilots.iter().map(|pilot| scene.take(*pilot)[0].0).collect();
    assert_eq!(jobs, [1, bob.0, 1, bob.0], "the job {own} of the same user waits");
}

#[test]
fn tasks_go_only_where_they_fit() {
    let mut scene = Scene::new();
    let wide = Resources { gpus: 1, ..Resources::cores(2) };
    let needs = TaskNeeds { resources: wide.clone(), ..job(1).needs };
    let job = scene.submit(JobRequest { needs, ..job(3) });
    let small = scene.pilot(8);
    assert_eq!(scene.take(small), []);
    let reasons = scene.explain(Query::ExplainJob(job));
    assert!(matches!(&reasons[0], Reason::FitsNowhere { needs, .. } if *needs == wide), "{reasons:?}");
    let capacity = Resources { gpus: 2, ..Resources::cores(8) };
    let large = scene.pilot_on(NodeFacts { capacity, ..NodeFacts::default() });
    assert_eq!(scene.take(large), [(1, "0-1".into())]);
}

#[test]
fn no_task_is_sent_that_cannot_end_before_the_walltime() {
    let mut scene = Scene::new();
    let needs = TaskNeeds { time_limit: Some(Span::from_secs(600)), ..job(1).needs };
    let job = scene.submit(JobRequest { needs, ..job(3) });
    let node = |left| NodeFacts {
        capacity: Resources::cores(1),
        walltime_left: Some(Span::from_secs(left)),
        ..NodeFacts::default()
    };
    let short = scene.pilot_on(node(620));
    assert_eq!(scene.take(short), []);
    let reasons = scene.explain(Query::ExplainJob(job));
    assert!(matches!(reasons[0], Reason::PilotsTooShort { n_pilots: 1, .. }), "{reasons:?}");
    let long = scene.pilot_on(node(640));
    assert_eq!(scene.take(long), [(1, "0".into())]);
}

#[test]
fn an_estimate_longer_than_pilots_live_is_tried_in_the_first_half_of_their_lives() {
    let mut scene = Scene::new();
    let id = scene.submit(job(9));
    let walltime_left = Some(Span::from_secs(600));
    let pilot =
        scene.pilot_on(NodeFacts { capacity: Resources::cores(1), walltime_left, ..NodeFacts::default() });
    assert_eq!(scene.take(pilot), [(1, "0".into())]);
    let usage = Usage { wall_us: 900 * SECOND, ..Usage::default() };
    let report = |index| {
        let successes = Successes::from_attempts(vec![(index, 0, usage)]);
        JobReport { successes, ..JobReport::new(id) }
    };
    assert_eq!(bundles(&scene.report(pilot, report(0))), [(1, "1".into())]);
    scene.now = scene.now + Span::from_secs(301);
    assert_eq!(bundles(&scene.report(pilot, report(1))), []);
}

#[test]
fn no_pilot_is_asked_for_that_would_not_live_long_enough() {
    let mut scene = Scene::new();
    scene.attach(PlatformSpec { walltime: Some(Span::from_secs(3600)), ..platform(4, 1) });
    let with_limit = |seconds| {
        let needs = TaskNeeds { time_limit: Some(Span::from_secs(seconds)), ..job(1).needs };
        JobRequest { needs, ..job(1) }
    };
    let id = scene.submit(with_limit(3600));
    assert_eq!(scene.submissions(), []);
    let reasons = scene.explain(Query::ExplainJob(id));
    let (needed, walltime) = (Span::from_secs(3600), Span::from_secs(3600));
    assert_eq!(reasons[0], Reason::WalltimesTooShort { needed, platform: "here".to_owned(), walltime });
    scene.submit(with_limit(3000));
    assert_eq!(scene.submissions().len(), 1);
}

#[test]
fn short_tasks_are_sent_ahead_and_long_ones_are_not() {
    let mut scene = Scene::new();
    let id = scene.submit(job(10_000));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    let usage = Usage { wall_us: 1000, ..Usage::default() };
    let successes = Successes::from_attempts(vec![(0, 0, usage)]);
    let answer = scene.report(pilot, JobReport { successes, ..JobReport::new(id) });
    let n_sent: u64 = answer.parts.iter().flat_map(|part| &part.bundles).map(|b| b.tasks.len()).sum();
    assert_eq!(n_sent, 251, "a quarter of a second of work, and one to run");
    let mut n_more = Vec::new();
    for (from, to) in [(1, 50), (51, 63)] {
        let successes = Successes::from_attempts((from..=to).map(|index| (index, 0, usage)).collect());
        let answer = scene.report(pilot, JobReport { successes, ..JobReport::new(id) });
        n_more.push(answer.parts.iter().flat_map(|part| &part.bundles).map(|b| b.tasks.len()).sum::<u64>());
    }
    assert_eq!(n_more[0], 0, "more only when a quarter is used up");
    assert_eq!(n_more[1], 63);
}

#[test]
fn a_parked_pilot_is_answered_the_moment_there_is_work() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(2);
    assert_eq!(scene.pull(pilot, Pull { wait: Span::from_secs(20), ..hungry() }), None);
    scene.submit(job(1));
    let answered = scene.effects.iter().any(|effect| {
        matches!(effect, Effect::Answer { answer: Answer::Pull(answer), .. } if !answer.parts.is_empty())
    });
    assert!(answered, "{:?}", scene.effects);
}

#[test]
fn a_lost_answer_is_sent_again_until_it_is_confirmed() {
    let mut scene = Scene::new();
    scene.submit(job(1));
    let pilot = scene.pilot(1);
    let first = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    let again = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    assert_eq!(first.parts, again.parts);
    let part_seen = first.parts[0].number;
    let after = scene.pull(pilot, Pull { part_seen, ..hungry() }).unwrap_or_default();
    assert_eq!(after.parts, []);
}

#[test]
fn large_templates_do_not_all_go_into_one_answer() {
    let mut scene = Scene::new();
    for _ in 0..5 {
        scene.submit(JobRequest { spec: "x".repeat(20 << 20).into(), ..job(1) });
    }
    let pilot = scene.pilot(8);
    let first = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    let n_templates =
        |answer: &PullAnswer| answer.parts.iter().map(|part| part.templates.len()).sum::<usize>();
    assert_eq!(n_templates(&first), 2);
    let unconfirmed = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    assert_eq!(n_templates(&unconfirmed), 2, "nothing is added to what is not confirmed");
    let next = scene.pull(pilot, Pull { part_seen: first.parts[0].number, ..hungry() }).unwrap_or_default();
    assert_eq!(n_templates(&next), 2);
}

#[test]
fn an_answer_says_which_telling_its_parts_come_after() {
    let mut scene = Scene::new();
    scene.submit(job(3));
    let pilot = scene.pilot(1);
    let before = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).unwrap_or_default();
    assert_eq!(before.told, 0);
    scene.wait_awake(200);
    let asked = scene.pull(pilot, Pull { part_seen: 0, ..hungry() }).and_then(|answer| answer.resync);
    let asked = asked.expect("a pilot that was given up is asked what it holds");
    let holds = Some(crate::pull::Holdings { asked, tasks: vec![], templates: vec![] });
    let after = scene.pull(pilot, Pull { part_seen: 0, holds, ..hungry() }).unwrap_or_default();
    assert_eq!(after.told, asked);
    assert_eq!(after.parts.len(), 1, "what was not confirmed is void: {after:?}");
}

#[test]
fn a_report_leaves_the_parked_pull_where_it_is() {
    let mut scene = Scene::new();
    let id = scene.submit(job(2));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    assert_eq!(scene.pull(pilot, Pull { wait: Span::from_secs(20), ..hungry() }), None);
    let answer = scene.done(pilot, id, "0");
    assert_eq!(bundles(&answer), [(1, "1".into())]);
    let n_answers = scene.effects.iter().filter(|effect| matches!(effect, Effect::Answer { .. })).count();
    assert_eq!(n_answers, 1, "{:?}", scene.effects);
    scene.change(id, JobChange::Cancel(None));
    let is_told = |effect: &Effect| match effect {
        Effect::Answer { answer: Answer::Pull(answer), .. } => !commands(answer).is_empty(),
        _ => false,
    };
    assert!(scene.effects.iter().any(is_told), "{:?}", scene.effects);
}

#[test]
fn pilots_that_cannot_run_a_job_have_no_share_in_it() {
    let mut scene = Scene::new();
    let needs = TaskNeeds { resources: Resources::cores(2), ..job(1).needs };
    let id = scene.submit(JobRequest { needs, ..job(300) });
    let pilot = scene.pilot(2);
    for _ in 0..9 {
        scene.pilot(1);
    }
    scene.take(pilot);
    let usage = Usage { wall_us: 1000, ..Usage::default() };
    let successes = Successes::from_attempts(vec![(0, 0, usage)]);
    let answer = scene.report(pilot, JobReport { successes, ..JobReport::new(id) });
    assert_eq!(bundles(&answer), [(1, "1-150".into())], "half of what is left, as nobody else can take it");
}

#[test]
fn what_is_ready_again_goes_to_a_parked_pilot_with_room() {
    let mut scene = Scene::new();
    let id = scene.submit(job(1));
    let (busy, idle) = (scene.pilot(1), scene.pilot(1));
    scene.take(busy);
    assert_eq!(scene.pull(idle, Pull { wait: Span::from_secs(20), ..hungry() }), None);
    let request = RequestId(scene.n_requests);
    scene.report(busy, JobReport { returned: set("0"), ..JobReport::new(id) });
    let served: Vec<Answer> = [request, RequestId(scene.n_requests)]
        .into_iter()
        .filter_map(|request| scene.answer_to(request))
        .filter(|answer| matches!(answer, Answer::Pull(answer) if !bundles(answer).is_empty()))
        .collect();
    assert_eq!(served.len(), 1, "{:?}", scene.effects);
}

#[test]
fn nothing_is_sent_to_a_pull_whose_connection_has_ended() {
    let mut scene = Scene::new();
    let pilot = scene.pilot(2);
    assert_eq!(scene.pull(pilot, Pull { wait: Span::from_secs(20), ..hungry() }), None);
    let parked = RequestId(scene.n_requests);
    scene.say(|_| Event::HungUp { request: parked });
    let job = scene.submit(job(2));
    assert_eq!((scene.answer_to(parked), &*scene.counts(job)), (None, "active w2 p0 d0 f0 c0"));
    assert_eq!(scene.take(pilot), [(job.0, "0-1".to_owned())]);
}
