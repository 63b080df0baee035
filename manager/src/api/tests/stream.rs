//! The event stream.

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::{Request, body::Incoming};
use protocol::codec::Format;
use scheduler::{
    engine::interface::Notice,
    ids::{JobId, PilotId, TaskId},
    pull::Pull,
    results::{Failure, FailureKind, JobReport, Report, Usage},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::scene::{PATIENCE, Scene, echo};

/// Events as they come.
struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    async fn open(scene: &Scene, query: &str) -> Events {
        Events::open_as(scene, &scene.ann(), query).await
    }

    async fn open_as(scene: &Scene, token: &str, query: &str) -> Events {
        let request = Request::get(format!("/api/v1/events{query}"))
            .header("authorization", format!("Bearer {token}"))
            .body(Body::empty());
        let response = scene.open(request.unwrap()).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), text: String::new() }
    }

    /// The next event's name and data; `None`: the stream has ended. Comments are not waited on for ever.
    async fn next(&mut self) -> Option<(String, Value)> {
        timeout(PATIENCE, self.read()).await.expect("an event in time")
    }

    async fn read(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let found = field("event: ").zip(field("data: "));
                let found = found.map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap()));
                self.text = rest.to_owned();
                match found {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            let frame = self.body.frame().await?;
            let data = frame.unwrap().into_data().unwrap_or_default();
            self.text.push_str(std::str::from_utf8(&data).unwrap());
        }
    }

    async fn job(&mut self) -> Value {
        let (name, data) = self.next().await.unwrap();
        assert_eq!((&*name, &data["event"]), ("job", &json!("job")));
        data["job"].clone()
    }
}

#[tokio::test]
async fn a_watcher_sees_the_job_at_once_and_when_it_changes() {
    let scene = Scene::start().await;
    let other = scene.submit(&echo(5)).await;
    let id = scene.submit(&echo(3)).await;
    let mut events = Events::open(&scene, &format!("?job={id}")).await;
    assert_eq!(events.job().await["counts"]["waiting"], 3);
    scene.post(&format!("/api/v1/jobs/{other}/cancel"), json!({})).await;
    scene.post(&format!("/api/v1/jobs/{id}/cancel"), json!({"tasks": "0"})).await;
    let job = events.job().await;
    assert_eq!((&job["id"], &job["counts"]["cancelled"]), (&json!(id), &json!(1)));
}

#[tokio::test]
async fn only_operators_are_told_of_jobs_of_others_and_of_platforms() {
    let scene = Scene::start().await;
    let of_ann = scene.submit(&echo(3)).await;
    let (bob, olga) = (scene.user("bob", false), scene.user("olga", true));
    let refused =
        scene.call("GET", &format!("/api/v1/events?job={of_ann}"), &bob, Body::empty()).await.refusal();
    assert_eq!(refused, (403, "not-yours".to_owned()));
    let mut for_bob = Events::open_as(&scene, &bob, "").await;
    let mut for_olga = Events::open_as(&scene, &olga, "").await;
    assert_eq!(for_olga.job().await["id"], of_ann);

    scene.post(&format!("/api/v1/jobs/{of_ann}/cancel"), json!({"tasks": "0"})).await;
    let (task, pilot) = (TaskId { job: JobId(of_ann), index: 1 }, PilotId(1));
    let kind = FailureKind::Signal { signal: 9 };
    scene.handle.notices().send(Notice::TaskFailed { task, kind, is_final: false, pilot }).unwrap();
    scene.handle.notices().send(Notice::PlatformFailed { platform: "p".into(), what: "w".into() }).unwrap();
    let body = json!({"spec": echo(5), "submission_key": "x"}).to_string();
    let of_bob = scene.call("POST", "/api/v1/jobs", &bob, body).await.json()["job"].clone();

    // What comes first for bob is his own job, although the rest happened before.
    assert_eq!(for_bob.job().await["id"], of_bob);
    let mut names = Vec::new();
    while names.len() < 4 {
        names.push(for_olga.next().await.unwrap().0);
    }
    names.sort();
    assert_eq!(names, ["job", "job", "platform-failed", "task-failed"]);
}

#[tokio::test]
async fn many_changes_are_few_events_and_the_last_is_right() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(200)).await;
    let mut events = Events::open(&scene, &format!("?job={id}")).await;
    let changes = async {
        for n in 0..200 {
            scene.post(&format!("/api/v1/jobs/{id}/cancel"), json!({"tasks": n.to_string()})).await;
        }
    };
    let watch = async {
        let mut n_events = 0;
        loop {
            n_events += 1;
            let job = events.job().await;
            if job["counts"]["cancelled"] == 200 {
                return (n_events, job);
            }
        }
    };
    let started = std::time::Instant::now();
    let ((), (n_events, job)) = tokio::join!(changes, watch);
    assert_eq!(job["state"], "cancelled");
    let n_periods = started.elapsed().as_millis() / 100;
    assert!(n_events <= n_periods + 2, "{n_events} events in {n_periods} periods");
}

#[tokio::test]
async fn failures_come_as_they_happen() {
    let mut scene = Scene::start().await;
    let mut pilot = scene.pilot().await;
    let id = scene.submit(&echo(4)).await;
    scene.pull(&mut pilot, Format::Postcard, Pull { is_hungry: true, ..Pull::default() }).await;
    let mut events = Events::open(&scene, "").await;
    assert_eq!(events.job().await["id"], id);
    let failures =
        vec![Failure { index: 1, kind: FailureKind::Signal { signal: 9 }, usage: Usage::default() }];
    let report = Some(Report { seq: 1, jobs: vec![JobReport { failures, ..JobReport::new(JobId(id)) }] });
    scene.pull(&mut pilot, Format::Postcard, Pull { report, ..Pull::default() }).await;
    let failed = loop {
        let (name, data) = events.next().await.unwrap();
        if name == "task-failed" {
            break data;
        }
    };
    let expected = json!({
        "event": "task-failed", "task": {"job": id, "index": 1}, "text": "task 1.1: ended by signal 9",
        "is_final": true, "pilot": pilot.id,
    });
    assert_eq!(failed, expected);
}

#[tokio::test]
async fn a_watcher_who_lost_news_is_shown_the_state_anew() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(3)).await;
    let mut events = Events::open(&scene, &format!("?job={id}")).await;
    events.job().await;
    // More news than are kept, in one go: the watcher runs on this thread too and cannot follow. What
    // is said of its job is the first to be lost.
    scene.handle.notices().send(Notice::JobChanged(JobId(id))).unwrap();
    for _ in 0..5000 {
        let notice = Notice::PlatformFailed { platform: "p".into(), what: "w".into() };
        scene.handle.notices().send(notice).unwrap();
    }
    let job = loop {
        let (name, data) = events.next().await.unwrap();
        if name == "job" {
            break data["job"].clone();
        }
    };
    assert_eq!(job["id"], id);
}

#[tokio::test]
async fn the_end_of_a_job_is_shown_at_once() {
    let scene = Scene::start().await;
    let (other, ended) = (scene.submit(&echo(3)).await, scene.submit(&echo(3)).await);
    let mut events = Events::open(&scene, &format!("?job={other},{ended}")).await;
    events.job().await;
    events.job().await;
    // Both have just been shown, `other` first: of two mere changes it would be the first again.
    for notice in [Notice::JobEnded(JobId(ended)), Notice::JobChanged(JobId(other))] {
        scene.handle.notices().send(notice).unwrap();
    }
    assert_eq!(events.job().await["id"], ended);
}

#[tokio::test]
async fn the_stream_ends_with_the_api() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(3)).await;
    let mut events = Events::open(&scene, &format!("?job={id}")).await;
    events.job().await;
    scene.stop.send(true).unwrap();
    assert_eq!(events.next().await, None);
    scene.served.await.unwrap();
}
