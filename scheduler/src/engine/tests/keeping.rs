//! No job starves: cores are reserved for the next job if it needs more than become free at once.

use super::*;

fn short(id: JobId, from: u64, to: u64) -> JobReport {
    let usage = Usage { wall_us: 10_000, ..Usage::default() };
    let successes = Successes::from_attempts((from..=to).map(|index| (index, 0, usage)).collect());
    JobReport { successes, ..JobReport::new(id) }
}

fn bob(n_tasks: u64, cores: u32) -> JobRequest {
    let needs = TaskNeeds { resources: Resources::cores(cores), ..job(1).needs };
    JobRequest { user: "bob".into(), needs, ..job(n_tasks) }
}

#[test]
fn a_new_job_gets_in_beside_a_long_sweep_of_brief_tasks() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    assert_eq!(bundles(&scene.report(pilot, short(sweep, 0, 0))), [(1, "1-26".into())]);
    let other = scene.submit(bob(2, 1));
    assert_eq!(
        bundles(&scene.report(pilot, short(sweep, 1, 25))),
        [],
        "one runs, and nothing is sent after it"
    );
    assert_eq!(bundles(&scene.report(pilot, short(sweep, 26, 26))), [(other.0, "0".into())]);
}

#[test]
fn both_go_on_side_by_side_once_each_has_its_share() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    assert_eq!(bundles(&scene.report(pilot, short(sweep, 0, 1))), [(1, "2-53".into())]);
    let other = scene.submit(bob(9, 1));
    let shared = bundles(&scene.report(pilot, short(sweep, 2, 52)));
    assert_eq!(shared, [(other.0, "0".into()), (1, "54-78".into())], "a core each");
    let more = bundles(&scene.report(pilot, short(sweep, 53, 62)));
    assert_eq!(more, [(1, "79-88".into())], "its core stays its own");
}

#[test]
fn nothing_is_sent_ahead_where_all_cores_have_lasting_tasks() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let (busy, other) = (scene.pilot(1), scene.pilot(1));
    scene.take(other);
    scene.report(other, short(sweep, 0, 0));
    scene.submit(bob(1, 1));
    assert_eq!(scene.take(busy), [(2, "0".into())]);
    assert_eq!(scene.take(busy), []);
}

#[test]
fn a_wide_task_gets_in_beside_lasting_narrow_ones() {
    let mut scene = Scene::new();
    let narrow = scene.submit(job(100));
    let (keeper, other) = (scene.pilot(2), scene.pilot(2));
    scene.take(keeper);
    scene.take(other);
    let wide = scene.submit(bob(3, 2));
    assert_eq!(bundles(&scene.done(keeper, narrow, "0")), [], "the core that came free is kept");
    assert_eq!(bundles(&scene.done(other, narrow, "2")), [(1, "4".into())], "by one pilot, not by all");
    let words: Vec<String> = scene.explain(Query::ExplainJob(wide)).iter().map(ToString::to_string).collect();
    let kept = format!(
        "pilot {keeper} begins nothing else until a task of job 2 fits: it needs 2 cores; free so far: 1 core"
    );
    assert!(words.contains(&kept), "{words:?}");
    assert_eq!(scene.explain(Query::ExplainPilot(keeper)).last().map(ToString::to_string), Some(kept));
    assert_eq!(bundles(&scene.done(keeper, narrow, "1")), [(wide.0, "0".into())]);
}

#[test]
fn cores_that_need_not_be_kept_any_more_are_given_away_at_once() {
    for change in [JobChange::Pause, JobChange::Cancel(None)] {
        let mut scene = Scene::new();
        let narrow = scene.submit(job(100));
        let keeper = scene.pilot(2);
        scene.take(keeper);
        let wide = scene.submit(JobRequest { user: "ada".into(), ..bob(1, 2) });
        scene.done(keeper, narrow, "0");
        assert_eq!(scene.pull(keeper, parked()), None);
        let waiting = RequestId(scene.n_requests);
        scene.change(wide, change);
        match scene.answer_to(waiting) {
            Some(Answer::Pull(answer)) => assert_eq!(bundles(&answer), [(1, "2".into())]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_keeper_that_goes_is_replaced() {
    let mut scene = Scene::new();
    let narrow = scene.submit(job(100));
    let (keeper, other) = (scene.pilot(2), scene.pilot(2));
    scene.take(keeper);
    scene.take(other);
    scene.submit(bob(1, 2));
    scene.done(keeper, narrow, "0");
    let reason = crate::pull::LeaveReason::Signalled;
    scene.say(|request| Event::PilotLeft {
        request,
        pilot: keeper,
        session_nonce: None,
        report: None,
        reason,
    });
    assert_eq!(bundles(&scene.done(other, narrow, "2")), [], "now this one keeps");
}

#[test]
fn what_is_kept_is_not_lost_when_it_is_somebody_elses_turn() {
    let mut scene = Scene::new();
    let (ada, carl) = (job(100), JobRequest { user: "carl".into(), ..job(1) });
    let own = scene.submit(carl.clone());
    let pilot = scene.pilot(1);
    assert_eq!(scene.take(pilot), [(own.0, "0".into())]);
    let narrow = scene.submit(ada);
    let keeper = scene.pilot(4);
    assert_eq!(scene.take(keeper), [(narrow.0, "0-3".into())]);
    let wide = scene.submit(JobRequest { needs: bob(1, 2).needs, ..carl });
    assert_eq!(bundles(&scene.done(keeper, narrow, "0")), [], "carl holds 1 core, ada 3");
    scene.submit(JobRequest { user: "dan".into(), ..job(9) });
    assert_eq!(bundles(&scene.done(keeper, narrow, "1")), [(wide.0, "0".into())], "though dan holds none");
}

#[test]
fn what_is_kept_for_one_job_of_a_user_counts_for_the_others() {
    let mut scene = Scene::new();
    let (ada, bob_s) = (scene.submit(job(100)), scene.submit(bob(100, 1)));
    let (keeper, other) = (scene.pilot(2), scene.pilot(2));
    assert_eq!(scene.take(keeper), [(1, "0-1".into())]);
    assert_eq!(scene.take(other), [(2, "0-1".into())]);
    scene.submit(JobRequest { user: "carl".into(), ..bob(1, 2) });
    assert_eq!(bundles(&scene.done(keeper, ada, "0")), [], "carl holds nothing");
    scene.submit(JobRequest { user: "carl".into(), ..bob(9, 1) });
    assert_eq!(bundles(&scene.done(other, bob_s, "0")), [(1, "2".into())], "what is kept is carl's already");
}

#[test]
fn one_of_higher_priority_gets_what_is_kept() {
    let mut scene = Scene::new();
    let narrow = scene.submit(job(100));
    let keeper = scene.pilot(2);
    scene.take(keeper);
    scene.submit(bob(1, 2));
    assert_eq!(bundles(&scene.done(keeper, narrow, "0")), []);
    assert_eq!(scene.pull(keeper, parked()), None);
    let waiting = RequestId(scene.n_requests);
    scene.submit(JobRequest { priority: 0, ..job(1) });
    assert_eq!(scene.answer_to(waiting), None, "of the same priority");
    scene.submit(JobRequest { priority: 1_000_000, ..job(1) });
    assert_eq!(scene.answer_to(waiting), None, "a priority among the jobs of another user");
    let urgent = scene.submit(JobRequest { priority: 1, priority_over_all: true, ..job(1) });
    match scene.answer_to(waiting) {
        Some(Answer::Pull(answer)) => assert_eq!(bundles(&answer), [(urgent.0, "0".into())]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pilots_that_keep_for_one_user_are_no_more_than_that_users_share() {
    let mut scene = Scene::new();
    let narrow = scene.submit(job(100));
    let pilots: Vec<PilotId> = (0..4).map(|_| scene.pilot(2)).collect();
    for pilot in &pilots {
        scene.take(*pilot);
    }
    for _ in 0..4 {
        scene.submit(bob(1, 2));
    }
    let mut after_first_end = |pilot: usize| {
        let first = (2 * pilot).to_string();
        bundles(&scene.done(pilots[pilot], narrow, &first)).len()
    };
    let n_served: Vec<usize> = (0..4).map(&mut after_first_end).collect();
    assert_eq!(n_served, [0, 0, 0, 1], "the last one goes on: bob has 6 of 8 cores then");
}

#[test]
fn a_pilot_that_is_free_sooner_keeps_instead() {
    let mut scene = Scene::new();
    let narrow = scene.submit(job(100));
    let other = scene.pilot(2);
    scene.take(other);
    let endless = scene.submit(JobRequest { user: "dan".into(), ..job(1) });
    let keeper = scene.pilot(2);
    let first = scene.take(keeper);
    assert_eq!(first, [(endless.0, "0".into()), (narrow.0, "2".into())]);
    let wide = scene.submit(bob(1, 2));
    assert_eq!(bundles(&scene.done(keeper, narrow, "2")), [], "nobody knows yet how long anything takes");
    assert_eq!(scene.pull(keeper, parked()), None);
    let waiting = RequestId(scene.n_requests);
    assert_eq!(bundles(&scene.done(other, narrow, "0")), [], "narrow tasks end, endless ones do not");
    match scene.answer_to(waiting) {
        Some(Answer::Pull(answer)) => assert_eq!(bundles(&answer), [(narrow.0, "3".into())]),
        other => panic!("{other:?}"),
    }
    assert_eq!(bundles(&scene.done(other, narrow, "1")), [(wide.0, "0".into())]);
}

#[test]
fn a_sweep_of_brief_tasks_holds_the_cores_on_which_it_runs_however_few_wait() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let pilot = scene.pilot(4);
    scene.take(pilot);
    assert_eq!(bundles(&scene.report(pilot, short(sweep, 0, 3))), [(1, "4-107".into())]);
    let lasting = scene.submit(bob(9, 1));
    assert_eq!(bundles(&scene.report(pilot, short(sweep, 4, 103))), []);
    let report = Some(Report { seq: 3, jobs: vec![short(sweep, 104, 104)] });
    let running = vec![(sweep, set("105-107"))];
    let answer =
        scene.pull(pilot, Pull { report, running, ..hungry() }).expect("a report is answered at once");
    assert_eq!(bundles(&answer), [(lasting.0, "0".into())], "three are left, on three cores");
}

#[test]
fn a_pilot_that_has_kept_goes_on_as_whose_turn_it_is() {
    let mut scene = Scene::new();
    let narrow = scene.submit(job(100));
    let keeper = scene.pilot(2);
    scene.take(keeper);
    let wide = scene.submit(bob(9, 2));
    scene.done(keeper, narrow, "0");
    assert_eq!(bundles(&scene.done(keeper, narrow, "1")), [(wide.0, "0".into())]);
    assert_eq!(bundles(&scene.done(keeper, wide, "0")), [(narrow.0, "2-3".into())]);
}
