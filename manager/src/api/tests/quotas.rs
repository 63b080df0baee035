//! What one user may take.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use http_body_util::StreamBody;
use hyper::body::Frame;
use protocol::job::{CommandLine, JobSpec};
use serde_json::{Value, json};

use super::{
    leases::{leaving_files, sha256},
    scene::{Reply, Scene, echo},
};
use crate::quotas::{Quota, Quotas};

/// The view of a job, with this priority, that the user has just submitted alone, or as a stage of a workflow.
async fn submitted(scene: &Scene, token: &str, is_stage: bool) -> Value {
    let spec = JobSpec { priority: 1_000_000, ..echo(1) };
    let (path, body) = match is_stage {
        false => ("/api/v1/jobs", json!({"spec": spec})),
        true => {
            ("/api/v1/workflows", json!({"workflow": {"name": "w", "stages": [{"name": "a", "job": spec}]}}))
        }
    };
    let reply = scene.call("POST", path, token, body.to_string()).await;
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    let answer = reply.json();
    let id = if is_stage { &answer["stages"][0]["job"] } else { &answer["job"] };
    scene.get(&format!("/api/v1/jobs/{id}")).await.json()
}

#[tokio::test]
async fn a_priority_counts_among_all_jobs_for_whom_it_is_allowed() {
    let scene = Scene::start().await;
    let (ann, olga) = (scene.ann(), scene.user("olga", true));
    for is_stage in [false, true] {
        for token in [&ann, &olga] {
            let job = submitted(&scene, token, is_stage).await;
            assert_eq!((&job["priority"], &job["priority_over_all"]), (&json!(1_000_000), &Value::Null));
        }
    }
    let allowed = Quota { is_priority_over_all: true, ..Quota::default() };
    let quotas = Quotas { users: [("ann".to_owned(), allowed)].into(), ..Quotas::default() };
    assert!(scene.quotas.set(&quotas) && !scene.quotas.set(&quotas));
    for is_stage in [false, true] {
        assert_eq!(submitted(&scene, &ann, is_stage).await["priority_over_all"], true);
        let bob = scene.user("bob", false);
        assert_eq!(submitted(&scene, &bob, is_stage).await["priority_over_all"], Value::Null);
    }
}

impl Scene {
    fn limit(&self, quota: Quota) {
        self.quotas.set(&Quotas { default: quota, ..Quotas::default() });
    }
}

/// What nobody has less of than there is.
const NONE: Quota = Quota::UNLIMITED;

async fn submit(scene: &Scene, token: &str, spec: &JobSpec, key: &str) -> Reply {
    let body = json!({"spec": spec, "submission_key": key});
    scene.call("POST", "/api/v1/jobs", token, body.to_string()).await
}

#[tokio::test]
async fn a_submission_over_a_quota_is_refused_and_nothing_that_is_there_is_lost() {
    let scene = Scene::start().await;
    scene.limit(Quota { n_jobs: Some(2), n_tasks: Some(10), ..NONE });
    let (ann, bob, olga) = (scene.ann(), scene.user("bob", false), scene.user("olga", true));
    assert_eq!(submit(&scene, &ann, &echo(3), "one").await.status, 201);
    assert_eq!(submit(&scene, &ann, &echo(3), "two").await.status, 201);
    let refused = submit(&scene, &ann, &echo(3), "three").await;
    assert_eq!(refused.refusal(), (403, "quota".into()));
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    for word in ["ann has 2 jobs that have not ended", "1 more", "the 2 that", "cancel some", "quotas.jobs"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    let repeated = submit(&scene, &ann, &echo(3), "two").await;
    assert_eq!((repeated.status, repeated.json()["is_repeat"].clone()), (201, json!(true)));
    for other in [&bob, &olga] {
        assert_eq!(submit(&scene, other, &echo(3), "three").await.status, 201);
    }
    assert_eq!(submit(&scene, &bob, &echo(8), "tasks").await.refusal(), (403, "quota".into()), "11 tasks");
    assert_eq!(submit(&scene, &bob, &echo(7), "tasks").await.status, 201, "10 tasks");
    assert_eq!(scene.get("/api/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 5);
    // What ends makes room, and opening it again takes it.
    assert_eq!(scene.post("/api/v1/jobs/1/cancel", json!({})).await.status, 200);
    assert_eq!(submit(&scene, &ann, &echo(3), "three").await.status, 201);
    let again = scene.post("/api/v1/jobs/1/retry", json!({"tasks": "0"})).await;
    assert_eq!(again.refusal(), (403, "quota".into()));
    assert_eq!(scene.post("/api/v1/jobs/2/cancel", json!({})).await.status, 200, "`cancel` needs no room");
    assert_eq!(scene.post("/api/v1/jobs/1/retry", json!({"tasks": "0"})).await.status, 200);
}

#[tokio::test]
async fn submissions_at_the_same_time_do_not_exceed_a_quota_together() {
    let scene = Scene::start().await;
    scene.limit(Quota { n_jobs: Some(3), ..NONE });
    let ann = scene.ann();
    let keys: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let spec = echo(1);
    let all = keys.iter().map(|key| submit(&scene, &ann, &spec, key));
    let statuses: Vec<u16> =
        futures_util::future::join_all(all).await.iter().map(|reply| reply.status).collect();
    let n_kept = statuses.iter().filter(|status| **status == 201).count();
    assert!((1..=3).contains(&n_kept), "{statuses:?}");
    assert_eq!(scene.get("/api/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), n_kept);
    assert!(statuses.iter().all(|status| [201, 403].contains(status)), "{statuses:?}");
}

#[tokio::test]
async fn stages_and_values_count_too() {
    let scene = Scene::start().await;
    scene.limit(Quota { n_jobs: Some(2), value_bytes: Some(4000), ..NONE });
    let stages: Vec<Value> =
        ["a", "b", "c"].iter().map(|name| json!({"name": name, "job": echo(1)})).collect();
    let body = |n: usize| json!({"workflow": {"name": "w", "stages": stages[..n]}});
    assert_eq!(scene.post("/api/v1/workflows", body(3)).await.refusal(), (403, "quota".into()));
    assert_eq!(scene.get("/api/v1/jobs").await.json()["jobs"], json!([]), "none of its stages is kept");
    assert_eq!(scene.post("/api/v1/workflows", body(2)).await.status, 201);
    for job in ["1", "2"] {
        assert_eq!(scene.post(&format!("/api/v1/jobs/{job}/cancel"), json!({})).await.status, 200);
    }
    let command = CommandLine::Args(vec!["echo".to_owned(), "x".repeat(4000)]);
    let refused = scene.post("/api/v1/jobs", json!({"spec": JobSpec { command, ..echo(1) }})).await;
    assert_eq!(refused.refusal(), (403, "quota".into()));
    let message = refused.json()["error"]["message"].to_string();
    assert!(message.contains("quotas.values") && message.contains("instead of lists"), "{message}");
}

#[tokio::test]
async fn streams_and_requests_of_one_user_leave_room_for_the_others() {
    let scene = Scene::start().await;
    scene.limit(Quota { n_streams: Some(2), ..NONE });
    let stream = |token: String| {
        let request = hyper::Request::get("/api/v1/events").header("host", "here");
        let request = request.header("authorization", format!("Bearer {token}"));
        scene.open(request.body(axum::body::Body::empty()).unwrap())
    };
    let (one, two) = (stream(scene.ann()).await, stream(scene.ann()).await);
    let refused = stream(scene.ann()).await;
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()), (429, &b"1"[..]));
    assert_eq!(stream(scene.user("bob", false)).await.status(), 200);
    assert_eq!(scene.get("/api/v1/jobs").await.status, 200, "what is no stream goes on");
    drop(one);
    loop {
        // Its end is seen by the manager a moment later.
        let next = stream(scene.ann()).await;
        if next.status() == 200 {
            break;
        }
        assert_eq!(next.status(), 429);
        tokio::task::yield_now().await;
    }
    drop(two);
}

#[tokio::test]
async fn who_has_too_many_connections_is_told_and_others_are_not() {
    let scene = Scene::start().await;
    scene.limit(Quota { n_connections: Some(2), ..NONE });
    let address = scene.address;
    let held = |token: String| async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::get("/api/v1/policies").header("host", "here");
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        let status = sender.send_request(request).await.unwrap().status().as_u16();
        (sender, status)
    };
    let (_one, first) = held(scene.ann()).await;
    let (_two, second) = held(scene.ann()).await;
    let (_three, third) = held(scene.ann()).await;
    let (_bob, other) = held(scene.user("bob", false)).await;
    let (_olga, operator) = held(scene.user("olga", true)).await;
    assert_eq!([first, second, third, other, operator], [200, 200, 429, 200, 200]);
}

#[tokio::test]
async fn files_of_one_user_leave_room_for_the_others() {
    let mut scene = Scene::start().await;
    scene.limit(Quota { file_bytes: Some(10), ..NONE });
    let (ann, bob) = (scene.ann(), scene.user("bob", false));
    let path = |contents: &str| format!("/api/v1/objects/{}", sha256(contents.as_bytes()));
    let put =
        async |token: &str, contents: &'static str| scene.call("PUT", &path(contents), token, contents).await;
    assert_eq!(put(&ann, "12345678").await.status, 201);
    let refused = put(&ann, "abc").await;
    assert_eq!(refused.refusal(), (403, "quota".into()));
    let told = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(told.contains("ann has") && told.contains("quotas.files"), "{told}");
    assert_eq!(put(&ann, "12345678").await.status, 200, "what is here already is nobody's anew");
    assert_eq!(put(&bob, "abc").await.status, 201, "others have their own");
    let in_pieces = StreamBody::new(futures_util::stream::iter(
        ["xy", "z"].map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece)))),
    ));
    let unannounced = scene.call("PUT", &path("xyz"), &ann, Body::new(in_pieces)).await;
    assert_eq!(unannounced.refusal(), (403, "quota".into()), "whatever it says of its length");
    let mut packed = Vec::new();
    protocol::files::pack::push(&mut packed, &sha256(b"def"), b"def");
    assert_eq!(scene.call("POST", "/api/v1/objects/pack", &ann, packed.clone()).await.refusal().0, 403);
    assert_eq!(scene.call("POST", "/api/v1/objects/pack", &bob, packed).await.status, 201);
    assert_eq!(put(&ann, "de").await.status, 201, "up to the last byte");
    let pilot = scene.pilot_at_work(&leaving_files(1)).await;
    let deliver = async |scene: &Scene| {
        let path = format!("/pilot/v1/objects/{}", sha256(b"left"));
        scene.call("PUT", &path, &pilot.session, "left").await
    };
    assert_eq!(
        deliver(&scene).await.refusal(),
        (507, "quota".into()),
        "it is for ann's tasks only, and waits"
    );
    scene.limit(Quota { file_bytes: Some(11), ..NONE });
    assert_eq!(deliver(&scene).await.status, 201);
}

#[tokio::test]
async fn a_pilot_of_several_users_leaves_no_files_for_one_who_may_have_no_more() {
    let mut scene = Scene::start().await;
    scene.limit(Quota { file_bytes: Some(4), ..NONE });
    let bob = scene.user("bob", false);
    let of_bob = submit(&scene, &bob, &leaving_files(1), "bob's").await.json()["job"].as_u64().unwrap();
    let pilot = scene.pilot_at_work(&leaving_files(1)).await;
    let of_ann = of_bob + 1;
    let path = format!("/api/v1/objects/{}", sha256(b"hers"));
    assert_eq!(scene.call("PUT", &path, &scene.ann(), "hers").await.status, 201, "all that she may have");
    let deliver = async |contents: &'static str, query: String| {
        let path = format!("/pilot/v1/objects/{}{query}", sha256(contents.as_bytes()));
        scene.call("PUT", &path, &pilot.session, contents).await
    };
    let of = |job: u64| format!("?job={job}");
    assert_eq!(deliver("a", of(of_ann)).await.refusal(), (507, "quota".into()));
    assert_eq!(deliver("b", of(of_bob)).await.status, 201);
    assert_eq!(deliver("c", of(99)).await.refusal(), (403, "not-leased".into()));
    assert_eq!(deliver("d", String::new()).await.status, 201, "a pilot that does not say whose it is");
    let mut packed = Vec::new();
    protocol::files::pack::push(&mut packed, &sha256(b"e"), b"e");
    for (job, status) in [(of_ann, 507), (of_bob, 201)] {
        let path = format!("{}?job={job}", protocol::files::objects::PILOT_PACKS_PATH);
        assert_eq!(scene.call("PUT", &path, &pilot.session, packed.clone()).await.status, status);
    }
}

#[tokio::test]
async fn quotas_are_shown_to_operators_and_each_users_own() {
    let scene = Scene::start().await;
    scene.limit(Quota { n_jobs: Some(2), ..NONE });
    assert_eq!(submit(&scene, &scene.ann(), &echo(3), "one").await.status, 201);
    let view = |answer: Value, user: &str| {
        let views = answer["quotas"].as_array().cloned().unwrap_or_default();
        views.into_iter().find(|view| view["user"] == user)
    };
    let added = {
        let body = json!({"user": "ann"}).to_string();
        scene.call("POST", "/api/v1/users", &scene.user("olga", true), body).await.json()
    };
    let token = added["token"].as_str().unwrap();
    let own = scene.call("GET", "/api/v1/users?quotas=true", token, "").await.json();
    let ann = view(own.clone(), "ann").expect("her own");
    assert_eq!(ann["quotas"][0], json!({"quota": "jobs", "used": 1, "most": 2}));
    assert_eq!(ann["quotas"][1], json!({"quota": "tasks", "used": 3, "most": null}));
    let path = format!("/api/v1/objects/{}", sha256(b"four"));
    assert_eq!(scene.call("PUT", &path, token, "four").await.status, 201);
    let own = scene.call("GET", "/api/v1/users?quotas=true", token, "").await.json();
    let ann = view(own.clone(), "ann").expect("her own");
    assert_eq!(ann["quotas"][4], json!({"quota": "files", "used": 4, "most": null}));
    assert_eq!(own["quotas"].as_array().unwrap().len(), 1);
    let all = scene.call("GET", "/api/v1/users?quotas=true", &scene.user("olga", true), "").await.json();
    assert!(view(all, "ann").is_some());
    assert_eq!(scene.call("GET", "/api/v1/users", token, "").await.json()["quotas"], Value::Null);
}
