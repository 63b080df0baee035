//! What pilots are told of files that their tasks take of others.

use protocol::{
    codec::Format,
    job::{Input, JobSpec, Output, WorkDirPolicy},
};
use scheduler::{
    digest::Digest,
    ids::JobId,
    pull::Pull,
    results::{Failure, FailureKind, JobReport, OutputFile, Report, Successes, TaskFiles, Usage},
};
use serde_json::{Value, json};

use super::scene::{Pilot, Reply, Scene, echo};

fn with_files(n_tasks: u64, inputs: &[&str], outputs: &[&str]) -> JobSpec {
    let input = |from: &&str| Input {
        from: (*from).to_owned(),
        to: if from.contains('*') { "in".to_owned() } else { (*from).to_owned() },
        after: vec![0],
        ..Input::default()
    };
    let output = |to: &&str| Output { from: "out".into(), to: (*to).to_owned(), ..Output::default() };
    JobSpec {
        workdir: WorkDirPolicy::Scratch,
        inputs: inputs.iter().map(input).collect(),
        outputs: outputs.iter().map(output).collect(),
        ..echo(n_tasks)
    }
}

/// Three stages: one leaves two files, one takes them by a pattern, one wants what is not left.
fn workflow() -> Value {
    let stage = |name: &str, job: &JobSpec, after: Value| json!({"name": name, "job": job, "after": after});
    let after = json!([{"on": {"stage": 0}, "edges": "all"}]);
    // Whatever has {job} in it is not known before.
    let make = with_files(2, &[], &["made/{x}", "more/{job}-{x}"]);
    json!({"workflow": {"name": "flow", "stages": [
        stage("make", &make, json!([])),
        stage("take", &with_files(1, &["made/*"], &[]), after.clone()),
        stage("lack", &with_files(1, &["gone"], &[]), after),
    ]}})
}

async fn inputs(scene: &Scene, task: &str, token: &str) -> Reply {
    scene.call("GET", &format!("/pilot/v1/tasks/{task}/inputs"), token, "").await
}

async fn pull(scene: &Scene, pilot: &mut Pilot, report: Option<Report>) {
    scene.pull(pilot, Format::Postcard, Pull { report, is_hungry: true, ..Pull::default() }).await;
}

#[tokio::test]
async fn who_holds_a_task_is_told_what_it_takes_and_nobody_else_is() {
    let mut scene = Scene::start().await;
    let mut pilot = scene.pilot().await;
    let reply = scene.post("/api/v1/workflows", workflow()).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    pull(&scene, &mut pilot, None).await;
    assert_eq!(inputs(&scene, "2/0", &pilot.session).await.refusal(), (409, "not-held".into()));
    let file = |n: u8| OutputFile {
        to: format!("made/{n}"),
        sha256: Digest([n; 32]),
        bytes: n.into(),
        ..OutputFile::default()
    };
    let left = |n: u8| TaskFiles { index: u64::from(n) - 1, files: vec![file(n)] };
    let report = JobReport {
        successes: Successes::from_attempts(vec![(0, 0, Usage::default()), (1, 0, Usage::default())]),
        files: vec![left(1), left(2)],
        ..JobReport::new(JobId(1))
    };
    pull(&scene, &mut pilot, Some(Report { seq: 1, jobs: vec![report] })).await;
    let page = inputs(&scene, "2/0", &pilot.session).await.json();
    let row = |n: u8| json!({"to": format!("in/{n}"), "sha256": Digest([n; 32]), "bytes": n});
    assert_eq!(page, json!({"files": [row(1), row(2)]}));
    let reply = inputs(&scene, "3/0", &pilot.session).await;
    assert_eq!(reply.refusal(), (404, "not-left".into()));
    assert_eq!(reply.message(), "no task that it waited for has left gone");
    let other = scene.pilot_of("other", 1).await;
    assert_eq!(inputs(&scene, "2/0", &other.session).await.refusal(), (409, "not-held".into()));
    assert_eq!(inputs(&scene, "2/0", &scene.ann()).await.status, 401);
    assert_eq!(inputs(&scene, "2/7", &pilot.session).await.status, 404);
    assert_eq!(inputs(&scene, "9/0", &pilot.session).await.status, 404);
}

/// The names of the files that a page has.
fn names(reply: &Reply) -> Vec<String> {
    let files = reply.json()["files"].as_array().cloned().unwrap_or_default();
    files.iter().filter_map(|file| Some(file["to"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn a_pattern_takes_a_part_or_nothing_only_if_it_is_optional() {
    let mut scene = Scene::start().await;
    let mut pilot = scene.pilot_of("one", 16).await;
    let make = with_files(2, &[], &["made/{x}", "more/{job}-{x}"]);
    let after = json!([{"on": {"stage": 0}, "edges": "all"}]);
    let take = |name: &str, pattern: &str, optional: bool| {
        let mut job = with_files(1, &[pattern], &[]);
        job.inputs[0].optional = optional;
        json!({"name": name, "job": job, "after": after, "on_failed_dependency": "run"})
    };
    let stages = json!([
        {"name": "make", "job": make, "after": []},
        take("all", "made/*", false),
        take("what-there-is", "made/*", true),
        take("other", "made/*1", false),
        take("none", "more/none*", false),
        take("none-is-right", "more/none*", true),
    ]);
    let reply =
        scene.post("/api/v1/workflows", json!({"workflow": {"name": "flow", "stages": stages}})).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    pull(&scene, &mut pilot, None).await;
    let file = OutputFile { to: "made/1".to_owned(), bytes: 1, ..OutputFile::default() };
    let failed = Failure { index: 1, kind: FailureKind::Exit { code: 1 }, usage: Usage::default() };
    let report = JobReport {
        successes: Successes::from_attempts(vec![(0, 0, Usage::default())]),
        files: vec![TaskFiles { index: 0, files: vec![file] }],
        failures: vec![failed],
        ..JobReport::new(JobId(1))
    };
    pull(&scene, &mut pilot, Some(Report { seq: 1, jobs: vec![report] })).await;
    let reply = inputs(&scene, "2/0", &pilot.session).await;
    assert_eq!(reply.refusal(), (404, "not-left".into()));
    let way_out = "write `optional: true` for that input";
    let expected = format!(
        "task 1.1 failed or was cancelled, so files like made/* are missing; if it may begin with those that are there, \
         {way_out}"
    );
    assert_eq!(reply.message(), expected);
    assert_eq!(names(&inputs(&scene, "3/0", &pilot.session).await), ["in/1"]);
    // The task that failed would have left none of these.
    assert_eq!(names(&inputs(&scene, "4/0", &pilot.session).await), ["in/1"]);
    let reply = inputs(&scene, "5/0", &pilot.session).await;
    assert_eq!(reply.refusal(), (404, "not-left".into()));
    let expected = format!(
        "no task that it waited for has left a file like more/none*; if it may begin without any, {way_out}"
    );
    assert_eq!(reply.message(), expected);
    assert_eq!(names(&inputs(&scene, "6/0", &pilot.session).await), [""; 0]);
}

#[tokio::test]
async fn jobs_that_take_files_are_no_jobs_alone() {
    let scene = Scene::start().await;
    let reply = scene.post("/api/v1/jobs", json!({"spec": with_files(1, &["a"], &[])})).await;
    assert_eq!(reply.status, 400);
    let said = reply.json()["error"]["problems"][0].as_str().unwrap_or_default().to_owned();
    assert!(said.starts_with("inputs[0]: found a file of another task"), "{said}");
    let mut flow = workflow();
    flow["workflow"]["stages"][1]["after"] = json!([]);
    let reply = scene.post("/api/v1/workflows", flow).await;
    let said = reply.json()["error"]["problems"][0].as_str().unwrap_or_default().to_owned();
    assert!(said.starts_with("stages.take.inputs[0]: found files by [0] of 0 entries of `after`"), "{said}");
}
