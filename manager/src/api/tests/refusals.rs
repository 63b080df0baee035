//! Every status of a refusal, and that it is an `ErrorAnswer`.

use axum::body::Body;
use hyper::Request;
use protocol::job::{Extract, JobSpec};
use serde_json::json;

use super::{
    super::routes::{LARGE, routes},
    scene::{Scene, echo},
};

fn example(path: &str) -> String {
    let path = path.replace("{id}", "1").replace("{index}", "0").replace("{name}", "cluster");
    format!("/api/v1{path}")
}

#[tokio::test]
async fn no_route_but_the_open_ones_answers_without_a_users_token() {
    let scene = Scene::start().await;
    let tokens = [
        None,
        Some("Bearer".to_owned()),
        Some("Basic YTpi".to_owned()),
        Some("Bearer pfu_YW5u.AAAA".to_owned()),
        Some(format!("Bearer {}", scene.tokens.join("tag"))),
        Some(format!("Bearer {}", scene.tokens.session(scheduler::ids::PilotId(1), 1))),
    ];
    for route in routes() {
        for token in &tokens {
            let mut request =
                Request::builder().method(route.method.to_uppercase().as_str()).uri(example(route.path));
            if let Some(token) = token {
                request = request.header("authorization", token);
            }
            let reply = scene.send(request.body(Body::empty()).unwrap()).await;
            if route.is_open {
                assert_eq!(reply.status, 200, "{}", route.path);
            } else {
                assert_eq!(reply.refusal(), (401, "unauthorized".to_owned()), "{} {token:?}", route.path);
                assert_eq!(reply.headers["www-authenticate"], "Bearer");
            }
        }
    }
}

#[test]
fn what_may_be_large_is_in_the_table_of_routes() {
    let all = routes();
    for (path, _) in LARGE {
        assert!(all.iter().any(|route| (route.method, route.path) == ("get", path)), "{path}");
    }
}

#[tokio::test]
async fn the_token_is_checked_before_the_body_is_read() {
    let scene = Scene::start().await;
    let request = Request::post("/api/v1/jobs")
        .header("content-length", "200000000")
        .body(Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>()));
    let response = scene.open(request.unwrap()).await;
    assert_eq!(response.status().as_u16(), 401);
}

#[track_caller]
fn check(found: (u16, String), status: u16, code: &str) {
    assert_eq!(found, (status, code.to_owned()));
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_missing() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(3)).await;
    for (path, code) in [
        ("/api/v1/jobs/99", "no-such-job"),
        ("/api/v1/jobs/99/spec", "no-such-job"),
        ("/api/v1/jobs/99/tasks", "no-such-job"),
        ("/api/v1/jobs/18446744073709551615/tasks/1", "no-such-job"),
        (&*format!("/api/v1/jobs/{id}/tasks/3"), "no-such-task"),
        (&*format!("/api/v1/jobs/{id}/tasks/0/stdout"), "no-output"),
        ("/api/v1/explain/job/99", "no-such-job"),
        ("/api/v1/explain/task/99/0", "no-such-job"),
        ("/api/v1/explain/pilot/4", "no-such-pilot"),
        ("/api/v1/explain/platform/moon", "no-such-platform"),
        ("/api/v1/events?job=99", "no-such-job"),
        ("/api/v1/moon", "no-such-path"),
        ("/", "no-such-path"),
    ] {
        check(scene.get(path).await.refusal(), 404, code);
    }
    check(scene.post("/api/v1/jobs/99/cancel", json!({})).await.refusal(), 404, "no-such-job");
    check(scene.post("/api/v1/status", json!({})).await.refusal(), 405, "wrong-method");
}

#[tokio::test]
async fn what_makes_no_sense_is_a_bad_request() {
    let scene = Scene::start().await;
    let id = scene.submit(&echo(3)).await;
    for (path, part) in [
        ("/api/v1/jobs/abc".to_owned(), "abc"),
        ("/api/v1/jobs/-1/tasks".to_owned(), "-1"),
        (format!("/api/v1/jobs/{id}/tasks?state=sleeping"), "sleeping"),
        (format!("/api/v1/jobs/{id}/tasks?form=3"), "form"),
        (format!("/api/v1/jobs/{id}/tasks?limit=0"), "write 1 to 10000"),
        (format!("/api/v1/jobs/{id}/tasks?limit=10001"), "write 1 to 10000"),
        (format!("/api/v1/jobs/{id}/outputs?limit=0"), "write 1 to 10000"),
        ("/api/v1/pilots?ended=perhaps".to_owned(), "ended"),
        ("/api/v1/events?job=1,x".to_owned(), "write numbers of jobs like 3 or 3,4"),
    ] {
        let reply = scene.get(&path).await;
        check(reply.refusal(), 400, "bad-request");
        assert!(reply.message().contains(part), "{path}: {}", reply.message());
    }
    for body in ["{", "[]", "{\"task\": \"1\"}", "{\"tasks\": \"one\"}", "\u{0}"] {
        let reply = scene.call("POST", &format!("/api/v1/jobs/{id}/cancel"), &scene.ann(), body).await;
        check(reply.refusal(), 400, "bad-request");
    }
}

#[tokio::test]
async fn a_bad_job_is_refused_with_all_its_problems() {
    let scene = Scene::start().await;
    let mut spec = JobSpec { cores: 0, ..echo(3) };
    spec.env.insert("A".to_owned(), "{y}".to_owned());
    spec.results.extract = vec![Extract { name: "c".to_owned(), pattern: "(".to_owned() }];
    let reply = scene.post("/api/v1/jobs", json!({"spec": spec})).await;
    check(reply.refusal(), 400, "bad-request");
    let problems = reply.json()["error"]["problems"].to_string();
    for path in ["resources.cores", "env.A", "results.extract.c"] {
        assert!(problems.contains(path), "{path} in {problems}");
    }
    check(scene.post("/api/v1/jobs", json!({})).await.refusal(), 400, "bad-request");
    let key = "k".repeat(201);
    let reply = scene.post("/api/v1/jobs", json!({"spec": echo(1), "submission_key": key})).await;
    check(reply.refusal(), 400, "bad-request");
    assert_eq!(scene.get("/api/v1/jobs").await.json()["jobs"], json!([]));
}

#[tokio::test]
async fn other_versions_are_told_both_numbers() {
    let scene = Scene::start().await;
    for path in ["/api/v2/jobs", "/pilot/v9/pull", "/api/vx"] {
        let reply = scene.call("POST", path, "", Body::empty()).await;
        check(reply.refusal(), 426, "wrong-version");
        assert!(reply.message().contains("speaks version 1"), "{}", reply.message());
    }
    check(scene.get("/api/v1").await.refusal(), 404, "no-such-path");
}

#[tokio::test]
async fn a_body_too_large_is_refused_by_its_header_and_by_its_bytes() {
    let scene = Scene::start().await;
    let large = vec![b' '; (1 << 20) + 1];
    let reply = scene.call("POST", "/api/v1/jobs/1/cancel", &scene.ann(), large.clone()).await;
    check(reply.refusal(), 413, "too-large");
    // Without a length in the header it comes in chunks.
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(large)]);
    let reply = scene.call("POST", "/api/v1/jobs/1/cancel", &scene.ann(), Body::from_stream(chunks)).await;
    check(reply.refusal(), 413, "too-large");
    let promise = Request::post("/api/v1/jobs")
        .header("authorization", format!("Bearer {}", scene.ann()))
        .header("content-length", (protocol::codec::MESSAGE_BYTES_MAX + 1).to_string())
        .body(Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>()));
    assert_eq!(scene.open(promise.unwrap()).await.status().as_u16(), 413);
}
