//! Connections: bounded in time and number, with TLS, ended in order.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use agent::sys::pin;
use protocol::{
    codec::Format,
    pilot::{PULL_PATH, PullRequest},
};
use rustls::pki_types::ServerName;
use scheduler::{pull::Pull, time::Span};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::{
    super::ConnectionLimits,
    scene::{PATIENCE, Scene},
};
use crate::security::tls::Identity;

const REQUEST: &str = "GET /api/v1/version HTTP/1.1\r\nhost: here\r\n\r\n";

/// All that comes until the other side closes.
async fn read_to_end(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    // A connection that is cut rather than closed has ended too.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an end in time");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads one answer with a body of known length.
async fn read_answer(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = String::new();
    while !text.ends_with('}') {
        let mut bytes = [0; 1024];
        let n = timeout(PATIENCE, stream.read(&mut bytes)).await.expect("an answer in time").unwrap();
        assert_ne!(n, 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
    }
    text
}

fn hasty() -> ConnectionLimits {
    let short = Duration::from_millis(50);
    ConnectionLimits { handshake: short, header: short, body: short, ..ConnectionLimits::default() }
}

#[tokio::test]
async fn a_header_that_comes_too_slowly_ends_the_connection() {
    let scene = Scene::start_with(hasty(), None).await;
    for sent in ["", "GET /api", &REQUEST[..REQUEST.len() - 2]] {
        let mut stream = TcpStream::connect(scene.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_refused() {
    let scene = Scene::start_with(hasty(), None).await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    let token = scene.ann();
    let head = format!(
        "POST /api/v1/jobs/1/cancel HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {token}\r\ncontent-length: 9\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("too-slow"), "{answer}");
}

#[tokio::test]
async fn a_header_too_large_is_refused() {
    let scene = Scene::start().await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    let head = format!("GET /api/v1/version HTTP/1.1\r\nhost: {}\r\n\r\n", "x".repeat(300_000));
    // The server may have closed before all is written.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn headers_of_too_many_fields_and_targets_too_long_are_refused() {
    let scene = Scene::start().await;
    let fields = "x: y\r\n".repeat(200);
    let long = "x".repeat(70_000);
    for (request, status) in [
        (format!("GET /api/v1/version HTTP/1.1\r\nhost: here\r\n{fields}\r\n"), "431"),
        (format!("GET /api/v1/{long} HTTP/1.1\r\nhost: here\r\n\r\n"), "414"),
    ] {
        let answer = read_to_end(&mut connected(&scene, &request).await).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let scene = Scene::start().await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(REQUEST.as_bytes()).await.unwrap();
        assert!(read_answer(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    }
}

/// A request with ann's token.
fn request_of_ann(scene: &Scene) -> String {
    let token = scene.ann();
    format!("GET /api/v1/jobs HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {token}\r\n\r\n")
}

/// A connection on which this was sent.
async fn connected(scene: &Scene, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

fn places(n_connections_max: usize) -> ConnectionLimits {
    ConnectionLimits { n_connections_max, ..ConnectionLimits::default() }
}

#[tokio::test]
async fn a_connection_whose_pull_was_parked_serves_the_next_request() {
    let mut scene = Scene::start().await;
    let pilot = scene.pilot().await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    for _ in 0..2 {
        // Long enough to be parked outside of HTTP.
        let pull = Pull { is_hungry: true, wait: Span::from_millis(100), ..Pull::default() };
        let body = Format::Json.encode(&PullRequest { pilot: pilot.id, pull }).unwrap();
        let head = format!(
            "POST {PULL_PATH} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            pilot.session,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
        let answer = read_answer(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("acknowledged"), "{answer}");
        stream.write_all(REQUEST.as_bytes()).await.unwrap();
        assert!(read_answer(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    }
}

#[tokio::test]
async fn a_stranger_gives_its_place_to_a_newcomer() {
    let scene = Scene::start_with(places(2), None).await;
    let request = request_of_ann(&scene);
    let mut known = connected(&scene, &request).await;
    assert!(read_answer(&mut known).await.starts_with("HTTP/1.1 200 OK"));
    let mut stranger = connected(&scene, REQUEST).await;
    assert!(read_answer(&mut stranger).await.starts_with("HTTP/1.1 200 OK"));
    let mut newcomer = connected(&scene, &request).await;
    assert!(read_answer(&mut newcomer).await.starts_with("HTTP/1.1 200 OK"));
    assert_eq!(read_to_end(&mut stranger).await, "");
    known.write_all(request.as_bytes()).await.unwrap();
    assert!(read_answer(&mut known).await.starts_with("HTTP/1.1 200 OK"), "who is known stays");
}

#[tokio::test]
async fn where_everybody_is_known_newcomers_are_told_at_once() {
    let scene = Scene::start_with(places(1), None).await;
    let request = request_of_ann(&scene);
    let mut known = connected(&scene, &request).await;
    assert!(read_answer(&mut known).await.starts_with("HTTP/1.1 200 OK"));
    let answer = read_to_end(&mut connected(&scene, &request).await).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"crowded\""), "{answer}");
    drop(known);
    // Its place is free when the server has seen that it is gone.
    while !read_answer(&mut connected(&scene, &request).await).await.starts_with("HTTP/1.1 200 OK") {}
}

#[tokio::test]
async fn who_asks_and_does_not_read_is_cut_off() {
    let limits = ConnectionLimits { answer: Duration::from_millis(50), ..ConnectionLimits::default() };
    let scene = Scene::start_with(limits, None).await;
    // Long answers and a small buffer, so that few answers fill what lies between the two.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(scene.address).await.unwrap();
    let request = REQUEST.replace("version", "openapi.json");
    let asking = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(PATIENCE, asking).await.expect("an end in time");
    assert_eq!(scene.get("/api/v1/jobs").await.status, 200);
}

#[tokio::test]
async fn event_streams_are_few() {
    let limits = ConnectionLimits { n_streams_max: 1, ..ConnectionLimits::default() };
    let scene = Scene::start_with(limits, None).await;
    let ask = || {
        let request = hyper::Request::get("/api/v1/events");
        request.header("authorization", format!("Bearer {}", scene.ann())).body(axum::body::Body::empty())
    };
    let first = scene.open(ask().unwrap()).await;
    assert_eq!(scene.send(ask().unwrap()).await.refusal(), (503, "crowded".to_owned()));
    drop(first);
    while scene.open(ask().unwrap()).await.status() != 200 {}
}

#[tokio::test]
async fn large_bodies_wait_for_room_and_small_ones_need_none() {
    let room_bytes = 3 << 20;
    let patience = Duration::from_millis(50);
    let limits = ConnectionLimits { room_bytes, patience, ..ConnectionLimits::default() };
    let scene = Scene::start_with(limits, None).await;
    let path = "/api/v1/jobs/9/cancel";
    let large = format!("{{{}}}", " ".repeat((1 << 20) - 2));
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
        scene.ann(),
        large.len()
    );
    let (most, last) = large.split_at(large.len() - 1);
    let most = head + most;
    let mut slow = connected(&scene, &most).await;
    loop {
        let refusal = scene.call("POST", path, &scene.ann(), large.clone()).await.refusal().1;
        // The server takes its time to read the slow one, which may itself have found no room.
        match timeout(patience * 2, slow.readable()).await {
            Ok(_) => slow = connected(&scene, &most).await,
            Err(_) if refusal == "crowded" => break,
            Err(_) => {}
        }
    }
    assert_eq!(scene.post(path, serde_json::json!({})).await.refusal().1, "no-such-job");
    slow.write_all(last.as_bytes()).await.unwrap();
    assert!(read_answer(&mut slow).await.contains("no-such-job"));
    while scene.call("POST", path, &scene.ann(), large.clone()).await.refusal().1 != "no-such-job" {}
}

#[tokio::test]
async fn the_end_closes_idle_connections_and_takes_no_new_ones() {
    // Nothing is cut here: what ends, ends by itself.
    let limits = ConnectionLimits { farewell: PATIENCE * 10, ..ConnectionLimits::default() };
    let scene = Scene::start_with(limits, None).await;
    let mut idle = TcpStream::connect(scene.address).await.unwrap();
    idle.write_all(REQUEST.as_bytes()).await.unwrap();
    read_answer(&mut idle).await;
    scene.stop.send(true).unwrap();
    assert_eq!(read_to_end(&mut idle).await, "");
    timeout(PATIENCE, scene.served).await.expect("an end in time").unwrap();
    assert!(TcpStream::connect(scene.address).await.is_err());
}

#[tokio::test]
async fn a_connection_that_does_not_end_is_cut() {
    let limits = ConnectionLimits { farewell: Duration::from_millis(50), ..ConnectionLimits::default() };
    let scene = Scene::start_with(limits, None).await;
    let mut stuck = TcpStream::connect(scene.address).await.unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\ncontent-length: 9\r\n\r\n",
        scene.ann()
    );
    stuck.write_all(head.as_bytes()).await.unwrap();
    // Something is answered, so the one before has been seen.
    scene.get("/api/v1/version").await;
    scene.stop.send(true).unwrap();
    timeout(PATIENCE, scene.served).await.expect("an end in time").unwrap();
    read_to_end(&mut stuck).await;
}

#[tokio::test]
async fn tls_shows_the_pinned_certificate_and_no_other_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::open(folder.path(), Ipv4Addr::LOCALHOST.into()).unwrap();
    let scene = Scene::start_with(ConnectionLimits::default(), Some(identity.server.clone())).await;
    let connect = async |fingerprint: &str| {
        let connector = TlsConnector::from(Arc::new(pin::tls_config(pin::fingerprint(fingerprint).unwrap())));
        let stream = TcpStream::connect(scene.address).await.unwrap();
        connector.connect(ServerName::try_from("any.name").unwrap(), stream).await
    };
    let mut stream = connect(&identity.fingerprint).await.unwrap();
    stream.write_all(REQUEST.as_bytes()).await.unwrap();
    assert!(read_answer(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
    let error = connect(&"0".repeat(64)).await.err().unwrap();
    assert!(error.to_string().contains("it shows the certificate"), "{error}");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::open(folder.path(), Ipv4Addr::LOCALHOST.into()).unwrap();
    let scene = Scene::start_with(hasty(), Some(identity.server.clone())).await;
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}
