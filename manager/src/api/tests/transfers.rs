//! Files on their way: a few at a time, and who comes beyond them is told so after a wait.

use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use scheduler::digest::Digest;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    super::ConnectionLimits,
    scene::{PATIENCE, Scene},
};
use crate::api::files::objects::N_TRANSFERS_MAX;
use crate::quotas::{Quota, Quotas};

const FILE: &str = "what all of them bring";

fn place_of(contents: &str) -> String {
    let mut sha256 = Digest::default();
    sha256.0.copy_from_slice(digest(&SHA256, contents.as_bytes()).as_ref());
    format!("/api/v1/objects/{sha256}")
}

/// An upload that has its place: its body is asked for, and has not come.
async fn begun(scene: &Scene) -> TcpStream {
    let mut stream = TcpStream::connect(scene.address).await.unwrap();
    let (path, token, n_bytes) = (place_of(FILE), scene.ann(), FILE.len());
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {token}\r\n\
         content-length: {n_bytes}\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(read_until(&mut stream, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// All up to this end.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("an answer in time");
        text.push(char::from(byte.unwrap()));
    }
    text
}

#[tokio::test]
async fn files_on_their_way_are_few_and_the_next_is_refused_after_a_wait() {
    let patience = Duration::from_millis(50);
    let scene = Scene::start_with(ConnectionLimits { patience, ..Default::default() }, None).await;
    scene.quotas.set(&Quotas { default: Quota::UNLIMITED, ..Quotas::default() });
    let there = "what is there already";
    assert_eq!(scene.call("PUT", &place_of(there), &scene.ann(), there).await.status, 201);
    let mut uploads = Vec::new();
    for _ in 0..N_TRANSFERS_MAX {
        uploads.push(begun(&scene).await);
    }
    for (method, contents, body) in [("PUT", FILE, FILE), ("GET", there, "")] {
        let asked_at = Instant::now();
        let reply = scene.call(method, &place_of(contents), &scene.ann(), body).await;
        assert_eq!(reply.refusal(), (503, "crowded".into()));
        assert!(asked_at.elapsed() >= patience, "a place may have become free");
    }
    assert_eq!(scene.get("/api/v1/jobs").await.status, 200, "what moves no file waits for none");
    uploads[0].write_all(FILE.as_bytes()).await.unwrap();
    let answer = read_until(&mut uploads[0], "}").await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let reply = scene.call("GET", &place_of(there), &scene.ann(), "").await;
    assert_eq!((reply.status, reply.body), (200, there.as_bytes().to_vec()), "there is a place again");
}
