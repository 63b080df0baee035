//! What pilots reported, as users see it.

use protocol::{
    codec::Format,
    job::{Extract, JobSpec, Keep, Stream},
};
use scheduler::{
    ids::JobId,
    pull::Pull,
    results::{Failure, FailureKind, JobReport, Report, Successes, TaskOutput, Usage},
};
use serde_json::{Value, json};

use super::scene::{Pilot, Scene, echo};

/// Runs tasks 0 and 1 on a pilot: 0 succeeds and writes, 1 exits with 3.
async fn run(scene: &mut Scene, spec: &JobSpec) -> (u64, Pilot) {
    let mut pilot = scene.pilot().await;
    let id = scene.submit(spec).await;
    let answer = scene.pull(&mut pilot, Format::Postcard, Pull { is_hungry: true, ..Pull::default() }).await;
    assert!(answer.parts[0].bundles[0].tasks.contains(1));
    let usage = Usage { started_us: 1_000_000, wall_us: 2_000_000, cpu_us: 1_500_000, memory_bytes: 1 << 20 };
    let output =
        |index, stdout: &[u8]| TaskOutput { index, stdout: stdout.to_vec(), stderr: b"oh\xff".to_vec() };
    let report = JobReport {
        successes: Successes::from_attempts(vec![(0, 0, usage)]),
        failures: vec![Failure { index: 1, kind: FailureKind::Exit { code: 3 }, usage }],
        outputs: vec![output(0, b"score: 7.5\n"), output(1, b"nothing\n")],
        ..JobReport::new(JobId(id))
    };
    let report = Some(Report { seq: 1, jobs: vec![report] });
    let pull = Pull { report, is_hungry: true, ..Pull::default() };
    let answer = scene.pull(&mut pilot, Format::Postcard, pull).await;
    assert_eq!(answer.acknowledged, 1);
    (id, pilot)
}

fn scored() -> JobSpec {
    let mut spec = echo(4);
    spec.results.extract =
        vec![Extract { name: "score".to_owned(), pattern: r"^score: ([0-9.]+)$".to_owned() }];
    spec
}

#[tokio::test]
async fn a_page_shows_state_usage_parameters_and_extracted_values() {
    let mut scene = Scene::start().await;
    let (id, pilot) = run(&mut scene, &scored()).await;
    let path = format!("/api/v1/jobs/{id}/tasks?parameters=true&extract=true");
    let page = scene.get(&path).await.json();
    let [done, failed, third, _] = &page["tasks"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!(
        (&done["state"], &done["attempt"], &done["exit_code"]),
        (&json!("done"), &json!(1), &json!(0))
    );
    assert_eq!((&done["wall"], &done["cpu"]), (&json!(2_000_000), &json!(1_500_000)));
    assert_eq!((&done["memory_bytes"], &done["pilot"]), (&json!(1 << 20), &json!(pilot.id)));
    assert_eq!((&done["parameters"], &done["extracted"]), (&json!({"x": "1"}), &json!({"score": "7.5"})));
    assert_eq!((&failed["state"], &failed["exit_code"]), (&json!("failed"), &json!(3)));
    assert_eq!(
        (&failed["failure"]["word"], &failed["failure"]["text"]),
        (&json!("exit"), &json!("exit code 3"))
    );
    assert_eq!(failed["extracted"], json!({"score": null}));
    assert_eq!((&third["state"], &third["held_by"]), (&json!("queued"), &json!(pilot.id)));
    let plain = scene.get(&format!("/api/v1/jobs/{id}/tasks?limit=1")).await.json();
    assert_eq!((&plain["tasks"][0]["extracted"], &plain["tasks"][0]["parameters"]), (&json!({}), &json!({})));
}

#[tokio::test]
async fn a_task_is_shown_with_all_its_attempts() {
    let mut scene = Scene::start().await;
    let (id, _) = run(&mut scene, &scored()).await;
    let task = scene.get(&format!("/api/v1/jobs/{id}/tasks/1")).await.json();
    assert_eq!((&task["row"]["state"], &task["command"]), (&json!("failed"), &json!(["echo", "2"])));
    let attempts = task["failed_attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), &attempts[0]["exit_code"]), (1, &json!(3)));
    let task = scene.get(&format!("/api/v1/jobs/{id}/tasks/0")).await.json();
    assert_eq!((&task["row"]["extracted"], &task["failed_attempts"]), (&json!({"score": "7.5"}), &json!([])));
}

#[tokio::test]
async fn outputs_come_as_pages_and_as_bytes() {
    let mut scene = Scene::start().await;
    let (id, _) = run(&mut scene, &scored()).await;
    let outputs = async |query: &str| scene.get(&format!("/api/v1/jobs/{id}/outputs{query}")).await.json();
    let all = outputs("").await;
    assert_eq!((all["outputs"].as_array().unwrap().len(), &all["next"]), (2, &Value::Null));
    let row = json!({
        "index": 0,
        "stdout": "score: 7.5\n",
        "stderr": "oh\u{fffd}",
        "stderr_latin1": "oh\u{ff}",
    });
    assert_eq!(all["outputs"][0], row);
    let failed = outputs("?state=failed").await;
    assert_eq!((failed["outputs"].as_array().unwrap().len(), &failed["outputs"][0]["index"]), (1, &json!(1)));
    let first = outputs("?limit=1").await;
    assert_eq!((first["outputs"].as_array().unwrap().len(), &first["next"]), (1, &json!(1)));
    assert_eq!(outputs("?from=1").await["outputs"][0]["index"], 1);
    let stdout = scene.get(&format!("/api/v1/jobs/{id}/tasks/0/stdout")).await;
    assert_eq!((stdout.status, &*stdout.body), (200, &b"score: 7.5\n"[..]));
    let stderr = scene.get(&format!("/api/v1/jobs/{id}/tasks/1/stderr")).await;
    assert_eq!(&*stderr.body, b"oh\xff");
    assert_eq!(stderr.headers["content-type"], "application/octet-stream");
    let reply = scene.get(&format!("/api/v1/jobs/{id}/tasks/2/stdout")).await;
    assert!(reply.message().contains("no attempt of it has ended"), "{}", reply.message());
}

/// What a job whose output is not kept says of the standard output of its task 0.
async fn why_nothing(change: impl FnOnce(&mut JobSpec)) -> (u16, String) {
    let mut scene = Scene::start().await;
    let mut spec = echo(4);
    change(&mut spec);
    let mut pilot = scene.pilot().await;
    let id = scene.submit(&spec).await;
    scene.pull(&mut pilot, Format::Postcard, Pull { is_hungry: true, ..Pull::default() }).await;
    let successes = Successes::from_attempts(vec![(0, 0, Usage::default())]);
    let report = Some(Report { seq: 1, jobs: vec![JobReport { successes, ..JobReport::new(JobId(id)) }] });
    scene.pull(&mut pilot, Format::Postcard, Pull { report, ..Pull::default() }).await;
    let reply = scene.get(&format!("/api/v1/jobs/{id}/tasks/0/stdout")).await;
    (reply.status, if reply.status == 200 { String::from_utf8(reply.body).unwrap() } else { reply.message() })
}

#[tokio::test]
async fn output_that_is_not_there_is_explained() {
    let found = why_nothing(|_| {}).await;
    assert_eq!(found, (200, String::new()), "it wrote nothing");
    let found = why_nothing(|spec| spec.stdio.stdout = Stream::Discard).await;
    assert_eq!(found, (404, "the standard output of task 1.0 is discarded (stdio)".to_owned()));
    let found = why_nothing(|spec| spec.stdio.stdout = Stream::File("out/{index}".to_owned())).await;
    assert_eq!(found.1, "the standard output of task 1.0 goes to the file /data/out/0 (stdio)");
    let found = why_nothing(|spec| spec.results.keep = Keep::None).await;
    assert_eq!(found.1, "the job keeps no output (results.keep); task 1.0 has none");
    let found = why_nothing(|spec| spec.results.keep = Keep::Failed).await;
    assert!(found.1.contains("keeps only the output of tasks that fail"), "{}", found.1);
}
