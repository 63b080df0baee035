//! What a pilot may say and have by its session: what it was leased, and nothing else.

use protocol::{
    codec::Format,
    job::{Input, JobSpec, Objects, Output, WorkDirPolicy},
    pilot::{TAILS_PATH, Tail, TailsAnswer, TailsRequest},
};
use ring::digest::{SHA256, digest};
use scheduler::{
    digest::Digest,
    ids::JobId,
    pull::Pull,
    results::{JobReport, OutputFile, Report, Successes, TaskFiles, TaskOutput, Usage},
};
use serde_json::json;

use super::scene::{Pilot, Reply, Scene, echo};

pub(super) fn sha256(contents: &[u8]) -> Digest {
    let mut sha256 = Digest::default();
    sha256.0.copy_from_slice(digest(&SHA256, contents).as_ref());
    sha256
}

pub(super) fn leaving_files(n_tasks: u64) -> JobSpec {
    let output = Output { from: "out".into(), to: "res/{x}.txt".into(), ..Output::default() };
    JobSpec { workdir: WorkDirPolicy::Scratch, outputs: vec![output], ..echo(n_tasks) }
}

/// Reports that these tasks succeeded and left these files.
async fn report(scene: &Scene, pilot: &mut Pilot, seq: u64, job: u64, files: &[(u64, &str)]) -> u64 {
    let mut part = JobReport::new(JobId(job));
    part.successes =
        Successes::from_attempts(files.iter().map(|(index, _)| (*index, 0, Usage::default())).collect());
    let left = |(index, to): &(u64, &str)| {
        let file =
            OutputFile { to: (*to).to_owned(), sha256: sha256(b"evil"), bytes: 4, ..OutputFile::default() };
        TaskFiles { index: *index, files: vec![file] }
    };
    part.files = files.iter().map(left).collect();
    let report = Some(Report { seq, jobs: vec![part] });
    scene.pull(pilot, Format::Json, Pull { report, ..Pull::default() }).await.acknowledged
}

async fn counts(scene: &Scene, job: u64) -> (u64, u64) {
    let view = scene.get(&format!("/api/v1/jobs/{job}")).await.json();
    let count = |state: &str| view["counts"][state].as_u64().unwrap();
    (count("done"), count("failed"))
}

#[tokio::test]
async fn planted_file_names_are_refused_and_honest_files_of_the_same_report_are_kept() {
    let mut scene = Scene::start().await;
    let mut pilot = scene.pilot_at_work(&leaving_files(2)).await;
    let planted = report(&scene, &mut pilot, 1, 1, &[(0, "../../.bashrc"), (1, "res/2.txt")]).await;
    assert_eq!((planted, counts(&scene, 1).await), (1, (1, 0)));
    let files = scene.get("/api/v1/jobs/1/files").await.json()["files"].clone();
    assert_eq!(files.as_array().map(Vec::len), Some(1), "{files}");
    assert_eq!(files[0]["to"], "res/2.txt");
    let task = scene.get("/api/v1/jobs/1/tasks/0").await.json().to_string();
    assert!(task.contains("which is none of the job's outputs"), "{task}");
}

#[tokio::test]
async fn a_pilot_reports_no_results_of_jobs_that_others_work_for() {
    let mut scene = Scene::start().await;
    let mut honest = scene.pilot_at_work(&leaving_files(2)).await;
    let mut other = scene.pilot_of("other", 2).await;
    scene.submit(&leaving_files(2)).await;
    scene.is_sent_tasks(&mut other).await;
    let forged = report(&scene, &mut other, 1, 1, &[(0, "res/1.txt"), (1, "res/2.txt")]).await;
    assert_eq!((forged, counts(&scene, 1).await), (1, (0, 0)), "it is acknowledged, or it would come again");
    let jump = report(&scene, &mut honest, 1001, 1, &[(0, "res/1.txt")]).await;
    assert_eq!((jump, counts(&scene, 1).await), (0, (0, 0)));
    let metrics = String::from_utf8(scene.get("/api/v1/metrics").await.body).unwrap();
    assert!(metrics.contains("pilotfish_results_refused_total 2"), "{metrics}");
}

#[tokio::test]
async fn a_pilot_fetches_objects_of_its_tasks_and_brings_what_its_tasks_leave() {
    let mut scene = Scene::start().await;
    let bring = async |contents: &'static [u8]| {
        let path = format!("/api/v1/objects/{}", sha256(contents));
        assert_eq!(scene.call("PUT", &path, &scene.ann(), contents).await.status, 201);
        sha256(contents)
    };
    let (mine, others) = (bring(b"mine").await, bring(b"another's").await);
    let objects = Objects { sha256: vec![mine], bytes: vec![4], ..Objects::default() };
    let input = Input { from: "in".into(), to: "in".into(), objects, ..Input::default() };
    let needing = JobSpec { workdir: WorkDirPolicy::Scratch, inputs: vec![input], ..echo(1) };
    let reader = scene.pilot_at_work(&needing).await.session;
    let mut writer = scene.pilot_of("other", 2).await;
    scene.submit(&leaving_files(1)).await;
    scene.is_sent_tasks(&mut writer).await;
    let path = |sha256: &Digest| format!("/pilot/v1/objects/{sha256}");
    let get = async |sha256: &Digest, token: &str| scene.call("GET", &path(sha256), token, "").await;
    assert_eq!(get(&mine, &reader).await.body, b"mine");
    assert_eq!(get(&others, &reader).await.refusal(), (403, "not-leased".into()));
    assert_eq!(get(&mine, &writer.session).await.refusal(), (403, "not-leased".into()));
    let packs = json!({"sha256": [others]}).to_string();
    assert!(scene.call("POST", "/pilot/v1/packs", &reader, packs).await.body.is_empty());
    let put = async |token: &str| scene.call("PUT", &path(&sha256(b"new")), token, "new").await;
    assert_eq!(put(&reader).await.refusal(), (403, "not-leased".into()));
    assert_eq!(scene.call("PUT", "/pilot/v1/packs", &reader, "").await.refusal().0, 403);
    assert_eq!(put(&writer.session).await.status, 201);
    let head = scene.call("HEAD", &path(&sha256(b"new")), &writer.session, "").await;
    assert_eq!(head.status, 200, "it asks before it brings");
    assert_eq!(scene.call("HEAD", &path(&others), &reader, "").await.status, 403);
}

#[tokio::test]
async fn a_pilot_shows_only_what_its_own_tasks_write() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot_at_work(&echo(9)).await;
    let follow = async || scene.get("/api/v1/jobs/1/follow?since=0&after=0").await.json()["pieces"].clone();
    assert_eq!(follow().await, json!([]));
    // Of nine tasks it has the first two.
    let tail = |index| {
        let written = TaskOutput { index, stdout: b"forged\n".to_vec(), stderr: Vec::new() };
        Tail { job: JobId(1), attempt: 1, run: 5, stdout_at: 0, stderr_at: 0, written }
    };
    let tails = vec![tail(8), tail(1)];
    let request = TailsRequest { pilot: pilot.id, n_reports: 0, tails };
    let told: Result<TailsAnswer, Reply> =
        scene.exchange(TAILS_PATH, &pilot.session, Format::Postcard, &request).await;
    assert!(told.is_ok());
    let pieces = follow().await;
    assert_eq!((pieces.as_array().map(Vec::len), &pieces[0]["index"]), (Some(1), &json!(1)), "{pieces}");
}
