//! What running tasks write, from pilot to follower.

use protocol::{
    codec::Format,
    pilot::{N_TAILS_MAX, TAILS_PATH, Tail, TailsAnswer, TailsRequest},
};
use scheduler::{
    ids::JobId,
    pull::{PilotCommand, Pull},
    results::{JobReport, Report, Successes, TaskOutput, Usage},
};
use serde_json::{Value, json};

use super::scene::{Pilot, Reply, Scene, echo};

fn tail(job: u64, index: u64, at: u64, text: &str) -> Tail {
    let written = TaskOutput { index, stdout: text.into(), stderr: Vec::new() };
    Tail { job: JobId(job), attempt: 1, run: 5, stdout_at: at, stderr_at: 0, written }
}

async fn tell(scene: &Scene, pilot: &Pilot, n_reports: u64, tails: Vec<Tail>) -> Result<TailsAnswer, Reply> {
    let request = TailsRequest { pilot: pilot.id, n_reports, tails };
    scene.exchange(TAILS_PATH, &pilot.session, Format::Postcard, &request).await
}

fn texts(followed: &Value, of: &str) -> Vec<String> {
    let text = |row: &Value| match of {
        "pieces" => format!("{} {}", row["at"], row["written"]["text"].as_str().unwrap_or_default()),
        _ => row["stdout"]["text"].as_str().unwrap_or_default().to_owned(),
    };
    followed[of].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn what_a_running_task_writes_is_shown_to_who_follows_and_comes_whole_when_it_has_ended() {
    let mut scene = Scene::start().await;
    let mut pilot = scene.pilot().await;
    let id = scene.submit(&echo(2)).await;
    scene.pull(&mut pilot, Format::Postcard, Pull { is_hungry: true, ..Pull::default() }).await;
    assert!(tell(&scene, &pilot, 0, vec![tail(id, 0, 0, "a")]).await.ok().unwrap().wanted.is_empty());

    let path = |query: &str| format!("/api/v1/jobs/{id}/follow?{query}");
    let first = scene.get(&path("since=0&after=0")).await.json();
    assert_eq!((&first["pieces"], &first["is_over"]), (&json!([]), &json!(false)));
    let answer = scene.pull(&mut pilot, Format::Postcard, Pull { is_hungry: true, ..Pull::default() }).await;
    assert!(answer.parts.iter().any(|part| part.commands.contains(&PilotCommand::Show)), "{answer:?}");
    let told = tell(&scene, &pilot, 0, vec![tail(id, 0, 0, "step 1\n")]).await.ok().unwrap();
    assert_eq!((told.wanted.len(), told.wanted[0].job), (1, JobId(id)));
    tell(&scene, &pilot, 0, vec![tail(id, 0, 7, "step 2\n")]).await.ok().unwrap();
    let second = scene.get(&path("since=0&after=0")).await.json();
    assert_eq!(texts(&second, "pieces"), ["0 step 1\n", "7 step 2\n"]);
    let since = second["since"].as_u64().unwrap();
    assert_eq!(scene.get(&path(&format!("since={since}"))).await.json()["pieces"], json!([]));
    assert_eq!(scene.get(&path("tasks=1")).await.json()["pieces"], json!([]));

    let successes = Successes::from_attempts(vec![(0, 0, Usage::default()), (1, 0, Usage::default())]);
    let outputs = vec![TaskOutput { index: 0, stdout: b"step 1\nstep 2\nend\xff".to_vec(), stderr: vec![] }];
    let report = JobReport { successes, outputs, ..JobReport::new(JobId(id)) };
    let report = Some(Report { seq: 1, jobs: vec![report] });
    scene.pull(&mut pilot, Format::Postcard, Pull { report, ..Pull::default() }).await;
    assert!(tell(&scene, &pilot, 0, vec![tail(id, 0, 14, "en")]).await.ok().unwrap().is_void);
    let last = scene.get(&path(&format!("since={since}&after=0"))).await.json();
    assert_eq!((texts(&last, "pieces").len(), &last["is_over"]), (0, &json!(true)));
    let ended = &last["ended"][0];
    assert_eq!((&ended["stdout"]["is_binary"], &ended["index"]), (&json!(true), &json!(0)));
    assert_eq!(texts(&last, "ended"), ["step 1\nstep 2\nend\u{ff}"]);
    let after = last["after"].as_u64().unwrap();
    assert_eq!(scene.get(&path(&format!("after={after}"))).await.json()["ended"], json!([]));
}

#[tokio::test]
async fn who_may_not_follow_and_what_is_too_much_is_refused() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let id = scene.submit(&echo(2)).await;
    for (query, word) in [("tasks=0-5", "tasks 0 to 1"), ("tasks=x", "tasks: found `x`"), ("from=1", "from")]
    {
        let reply = scene.get(&format!("/api/v1/jobs/{id}/follow?{query}")).await;
        assert!(reply.status == 400 && reply.message().contains(word), "{query}: {}", reply.message());
    }
    let path = format!("/api/v1/jobs/{id}/follow");
    let stranger = scene.call("GET", &path, &scene.user("eve", false), "").await;
    assert_eq!(stranger.status, 403);
    let many = (0..=N_TAILS_MAX as u64).map(|index| tail(id, index, 0, "x")).collect();
    assert_eq!(tell(&scene, &pilot, 0, many).await.err().unwrap().status, 400);
    let message = TailsRequest { pilot: pilot.id, n_reports: 0, tails: vec![] };
    let by_user: Result<TailsAnswer, Reply> =
        scene.exchange(TAILS_PATH, &scene.ann(), Format::Postcard, &message).await;
    assert_eq!(by_user.err().unwrap().status, 401);
}
