//! The event stream.

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::{Request, body::Incoming};
use protocol::codec::Format;
use scheduler::{
    engine::interface::Notice,
    ids::JobId,
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
        let request = Request::get(format!("/api/v1/events{query}"))
            .header("authorization", format!("Bearer {}", scene.ann()))
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
async fn the_stream_ends_with_the_api() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(3)).await;
    let mut events = Events::open(&scene, &format!("?job={id}")).await;
    events.job().await;
    scene.stop.send(true).unwrap();
    assert_eq!(events.next().await, None);
    scene.served.await.unwrap();
}
