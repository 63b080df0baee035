//! Who comes through the door of a platform, and what is behind it.

use std::net::SocketAddr;

use axum::body::Body;
use http_body_util::BodyExt;
use hyper::Request;
use hyper_util::rt::TokioIo;
use protocol::pilot::{PULL_PATH, REGISTER_PATH};
use serde_json::json;
use tokio::net::TcpStream;

use super::scene::Scene;

/// A connection to a door.
struct Visitor(hyper::client::conn::http1::SendRequest<Body>);

impl Visitor {
    async fn at(door: SocketAddr) -> Visitor {
        let stream = TcpStream::connect(door).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Visitor(sender)
    }

    /// The status, and the message of a refusal.
    async fn ask(&mut self, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "here")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_owned()))
            .unwrap();
        let response = self.0.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
        (status, said["error"]["message"].as_str().unwrap_or_default().to_owned())
    }
}

#[tokio::test]
async fn only_pilots_of_a_platform_come_through_its_door_and_only_to_what_is_theirs() {
    let mut scene = Scene::start().await;
    let (far, near) = (scene.pilot_of("far", 2).await, scene.pilot_of("near", 2).await);
    let doorway = scene.doors.of("far").open().unwrap();
    let door = doorway.address();
    let operator = scene.user("olga", true);
    let pull = json!({"pilot": far.id, "pull": {
        "epoch": 0, "part_seen": 0, "report": null, "holds": null, "running": [], "is_hungry": false, "wait": 0,
    }})
    .to_string();
    let stranger = scene.tokens.join("pf-nobodys");
    for (token, words) in [
        ("x", "found a token that this manager has not made"),
        (operator.as_str(), "found a user's token where a pilot's is needed"),
        (near.session.as_str(), "found a token of a pilot of platform near; only those of far come this way"),
        (scene.tokens.join(&near.tag).as_str(), "only those of far come this way"),
    ] {
        let mut visitor = Visitor::at(door).await;
        for path in ["/api/v1/version", "/api/v1/openapi.json", "/api/v1/status", "/agent/0", PULL_PATH, "/"]
        {
            let (status, said) = visitor.ask("POST", path, token, &pull).await;
            assert!(status == 401 && said.contains(words), "{path}: {status} {said}");
        }
    }
    let (status, said) = Visitor::at(door).await.ask("POST", REGISTER_PATH, &stranger, "{}").await;
    assert!(status == 409 || status == 404, "{status} {said}");

    let mut pilot = Visitor::at(door).await;
    assert_eq!(pilot.ask("POST", PULL_PATH, &far.session, &pull).await, (200, String::new()));
    // On a pilot's connection, too, there is nothing for users.
    for token in [far.session.as_str(), operator.as_str()] {
        for path in ["/api/v1/version", "/api/v1/status", "/agent/0"] {
            assert_eq!(pilot.ask("GET", path, token, "").await.0, 404, "{path}");
        }
    }
    let (status, said) =
        Visitor::at(door).await.ask("POST", REGISTER_PATH, &scene.tokens.join(&far.tag), "{}").await;
    assert!(status == 400, "its body is read: {status} {said}");
    // The front door is as it was.
    assert_eq!(scene.get("/api/v1/version").await.status, 200);
    assert_eq!(scene.get("/api/v1/status").await.status, 200);
}
