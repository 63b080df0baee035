//! Nobody starves: cores are kept for whoever's turn it is and needs more of them than come free at once.

use super::*;

fn brief(id: JobId, from: u64, to: u64) -> JobReport {
    let usage = Usage { wall_us: 10_000, ..Usage::default() };
    let successes = Successes::from_attempts((from..=to).map(|index| (index, 0, usage)).collect());
    JobReport { successes, ..JobReport::new(id) }
}

fn bob(n_tasks: u64, cores: u32) -> JobRequest {
    let needs = TaskNeeds { resources: Resources::cores(cores), ..job(1).needs };
    JobRequest { user: "bob".into(), needs, ..job(n_tasks) }
}

fn parked() -> Pull {
    Pull { wait: Span::from_secs(20), ..hungry() }
}

#[test]
fn a_new_job_gets_in_beside_a_long_sweep_of_brief_tasks() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let pilot = scene.pilot(1);
    scene.take(pilot);
    assert_eq!(bundles(&scene.report(pilot, brief(sweep, 0, 0))), [(1, "1-26".into())]);
    let other = scene.submit(bob(2, 1));
    assert_eq!(
        bundles(&scene.report(pilot, brief(sweep, 1, 25))),
        [],
        "one runs, and nothing is sent after it"
    );
    assert_eq!(bundles(&scene.report(pilot, brief(sweep, 26, 26))), [(other.0, "0".into())]);
}

#[test]
fn both_go_on_side_by_side_once_each_has_its_share() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let pilot = scene.pilot(2);
    scene.take(pilot);
    assert_eq!(bundles(&scene.report(pilot, brief(sweep, 0, 1))), [(1, "2-53".into())]);
    let other = scene.submit(bob(9, 1));
    let shared = bundles(&scene.report(pilot, brief(sweep, 2, 52)));
    assert_eq!(shared, [(other.0, "0".into()), (1, "54-78".into())], "a core each");
    let more = bundles(&scene.report(pilot, brief(sweep, 53, 62)));
    assert_eq!(more, [(1, "79-88".into())], "its core stays its own");
}

#[test]
fn nothing_is_sent_ahead_where_all_cores_have_lasting_tasks() {
    let mut scene = Scene::new();
    let sweep = scene.submit(job(1_000_000));
    let (busy, other) = (scene.pilot(1), scene.pilot(1));
    scene.take(other);
    scene.report(other, brief(sweep, 0, 0));
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
