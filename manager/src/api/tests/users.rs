//! What users do with jobs.

use axum::body::Body;
use serde_json::json;

use super::scene::{Scene, echo};

#[tokio::test]
async fn a_billion_tasks_are_submitted_and_looked_at_like_three() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(1_000_000_000)).await;
    let job = scene.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["counts"]["total"], &job["user"]), (&json!(1_000_000_000), &json!("ann")));
    let path = format!("/api/v1/jobs/{id}/tasks?from=999999997&limit=2&parameters=true");
    let page = scene.get(&path).await.json();
    assert_eq!(page["tasks"][0]["parameters"], json!({"x": "999999998"}));
    assert_eq!((&page["tasks"][1]["index"], &page["next"]), (&json!(999_999_998), &json!(999_999_999)));
    assert_eq!(page["tasks"][1]["state"], "waiting");
    let path = format!("/api/v1/jobs/{id}/tasks?state=waiting&from=999999999");
    let page = scene.get(&path).await.json();
    assert_eq!((page["tasks"].as_array().unwrap().len(), &page["next"]), (1, &json!(null)));
    let task = scene.get(&format!("/api/v1/jobs/{id}/tasks/5")).await.json();
    assert_eq!((&task["command"], &task["workdir"]), (&json!(["echo", "6"]), &json!("/data")));
    let outputs = scene.get(&format!("/api/v1/jobs/{id}/outputs")).await.json();
    assert_eq!(outputs, json!({"outputs": [], "next": null}));
    let spec = scene.get(&format!("/api/v1/jobs/{id}/spec")).await.json();
    assert_eq!(spec, json!(echo(1_000_000_000)));
}

#[tokio::test]
async fn a_user_is_added_when_no_platform_is_being_attached() {
    let mut scene = Scene::start().await;
    let users = scene.tokens.users().clone();
    // Somebody attaches a platform whose tasks have the manager's account …
    let turn = users.accounts().turn().await;
    let olga = scene.user("olga", true);
    scene.pilot().await;
    let mut added = Box::pin(scene.call("POST", "/api/v1/users", &olga, r#"{"user": "eve"}"#));
    let moment = std::time::Duration::from_millis(200);
    assert!(tokio::time::timeout(moment, &mut added).await.is_err(), "it waits");
    // … and it is known a moment later.
    let sharing =
        crate::security::users::Sharing { why: "they read it".to_owned(), is_refused: true, ways: "" };
    users.accounts().note("cluster", Some(sharing));
    drop(turn);
    let reply = added.await;
    assert_eq!(reply.refusal(), (409, "shared-account".to_owned()));
    assert!(users.views().iter().all(|view| view.user != "eve"));
}

#[tokio::test]
async fn a_submission_made_twice_is_one_job_of_that_user() {
    let scene = Scene::start().await;
    let body = json!({"spec": echo(3), "submission_key": "abc"});
    let first = scene.post("/api/v1/jobs", body.clone()).await.json();
    let second = scene.post("/api/v1/jobs", body.clone()).await.json();
    assert_eq!(first, json!({"job": 1, "n_tasks": 3, "is_repeat": false}));
    assert_eq!(second, json!({"job": 1, "n_tasks": 3, "is_repeat": true}));
    let bob = scene.user("bob", false);
    let other = scene.call("POST", "/api/v1/jobs", &bob, body.to_string()).await.json();
    assert_eq!(other, json!({"job": 2, "n_tasks": 3, "is_repeat": false}));
}

#[tokio::test]
async fn jobs_are_paused_cancelled_and_retried() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(10)).await;
    let change = async |what: &str, body| scene.post(&format!("/api/v1/jobs/{id}/{what}"), body).await;
    assert_eq!(change("pause", json!({})).await.json(), json!({"n_tasks": 10, "n_stale": 0}));
    assert_eq!(scene.get(&format!("/api/v1/jobs/{id}")).await.json()["state"], "paused");
    assert_eq!(change("resume", json!({})).await.status, 200);
    assert_eq!(change("cancel", json!({"tasks": "2-3,7"})).await.json(), json!({"n_tasks": 3, "n_stale": 0}));
    let page = scene.get(&format!("/api/v1/jobs/{id}/tasks?state=cancelled&limit=2")).await.json();
    assert_eq!((&page["tasks"][1]["index"], &page["next"]), (&json!(3), &json!(7)));
    let page = scene.get(&format!("/api/v1/jobs/{id}/tasks")).await.json();
    let states: Vec<&str> =
        page["tasks"].as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "cancelled").count(), 3);
    assert_eq!((states[1], states[2], states[3]), ("waiting", "cancelled", "cancelled"));
    assert_eq!(change("retry", json!({"tasks": "0-3"})).await.json(), json!({"n_tasks": 2, "n_stale": 0}));
    assert_eq!(
        scene.call("POST", &format!("/api/v1/jobs/{id}/cancel"), &scene.ann(), Body::empty()).await.status,
        200
    );
    for what in ["pause", "resume", "cancel"] {
        assert_eq!(change(what, json!({})).await.refusal(), (409, "wrong-state".to_owned()), "{what}");
    }
}

#[tokio::test]
async fn only_its_owner_and_operators_look_into_a_job_or_change_it() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(3)).await;
    let bob = scene.user("bob", false);
    let operator = scene.user("olga", true);
    for part in ["spec", "tasks", "tasks/0", "tasks/0/stdout", "tasks/0/stderr", "outputs"] {
        let path = format!("/api/v1/jobs/{id}/{part}");
        let reply = scene.call("GET", &path, &bob, Body::empty()).await;
        assert_eq!(reply.refusal(), (403, "not-yours".to_owned()), "{part}");
        assert_eq!(reply.message(), format!("job {id} belongs to ann, not to bob"));
        assert_ne!(scene.call("GET", &path, &operator, Body::empty()).await.status, 403, "{part}");
    }
    for what in ["pause", "resume", "retry", "cancel"] {
        let path = format!("/api/v1/jobs/{id}/{what}");
        let reply = scene.call("POST", &path, &bob, Body::empty()).await;
        assert_eq!(reply.refusal(), (403, "not-yours".to_owned()), "{what}");
        assert_eq!(scene.call("POST", &path, &operator, Body::empty()).await.status, 200, "{what}");
    }
    assert_eq!(scene.call("GET", "/api/v1/jobs", &bob, Body::empty()).await.status, 200);
    let reply = scene.call("POST", "/api/v1/shutdown", &bob, Body::empty()).await;
    assert_eq!(reply.refusal(), (403, "not-yours".to_owned()));
}

#[tokio::test]
async fn the_manager_tells_of_itself_and_ends_for_an_operator() {
    let scene = Scene::start().await;
    let version = scene.call("GET", "/api/v1/version", "", Body::empty()).await.json();
    assert_eq!((&version["api"], &version["pilot_protocol"]), (&json!(1), &json!(1)));
    let status = scene.get("/api/v1/status").await.json();
    assert_eq!((&status["user"], &status["totals"]["n_pilots"]), (&json!("ann"), &json!(0)));
    assert!(status["store_bytes"].as_u64().unwrap() > 0);
    let id = scene.submit(&echo(3)).await;
    let reasons = scene.get(&format!("/api/v1/explain/job/{id}")).await.json();
    assert_eq!(reasons["reasons"][0]["text"], "no platform is attached");
    let operator = scene.user("olga", true);
    let reply = scene.call("POST", "/api/v1/shutdown", &operator, json!({"now": true}).to_string()).await;
    assert_eq!((reply.status, reply.json()), (200, json!({"is_over": true, "leave_limit_seconds": 60.0})));
    let reply = scene.post("/api/v1/jobs", json!({"spec": echo(3)})).await;
    assert_eq!(reply.refusal(), (503, "ending".to_owned()));
    assert_eq!(reply.headers["retry-after"], "1");
}

#[tokio::test]
async fn tasks_of_a_job_run_once_more_for_a_profiling_run() {
    let mut scene = Scene::start().await;
    let _pilot = scene.pilot_of("near", 2).await;
    let id = scene.submit(&echo(100)).await;
    let path = format!("/api/v1/jobs/{id}/profile");
    let body = |slots: u64, tasks: u64, platform: &str| json!({"platform": platform, "slots": slots, "tasks": tasks});
    let first = scene.post(&path, body(1, 4, "near")).await;
    assert_eq!((first.status, first.json()["n_tasks"].as_u64()), (201, Some(4)));
    let all = scene.post(&path, body(2, 1000, "near")).await.json();
    assert_eq!(all["n_tasks"], 100, "it has no more");
    let made = scene.get(&format!("/api/v1/jobs/{}", all["job"])).await.json();
    assert_eq!((&made["name"], &made["user"]), (&json!("profiling echo on near"), &json!("ann")));
    let refused = async |body| scene.post(&path, body).await;
    assert_eq!(refused(body(0, 4, "near")).await.message(), "slots: found 0; write 1 or more");
    assert_eq!(refused(body(1, 0, "near")).await.message(), "tasks: found 0; write 1 or more");
    assert_eq!(refused(body(1, 4, "far")).await.refusal(), (404, "no-such-platform".to_owned()));
    let bob = scene.user("bob", false);
    let reply = scene.call("POST", &path, &bob, body(1, 4, "near").to_string()).await;
    assert_eq!(reply.refusal(), (403, "not-yours".to_owned()));
    // Of his own he may, but not while ann does.
    let his = scene.call("POST", "/api/v1/jobs", &bob, json!({"spec": echo(3)}).to_string()).await.json();
    let path = format!("/api/v1/jobs/{}/profile", his["job"]);
    let reply = scene.call("POST", &path, &bob, body(1, 4, "near").to_string()).await;
    assert_eq!(reply.refusal(), (409, "in-use".to_owned()));
}
