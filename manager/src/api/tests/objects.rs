//! Files by their contents, as users and pilots bring and fetch them.

use std::{fs, path::PathBuf};

use http_body_util::BodyExt;
use hyper::Request;
use protocol::{
    files::pack,
    job::{Input, JobSpec, Objects, WorkDirPolicy},
};
use ring::digest::{SHA256, digest};
use scheduler::digest::Digest;
use serde_json::json;

use super::scene::{Reply, Scene, echo};

/// More than a few pieces, and no whole number of them.
const N_BYTES: usize = 1_000_001;

/// A job whose task needs these.
fn needing(objects: &[(Digest, usize)]) -> JobSpec {
    let (sha256, bytes) = objects.iter().map(|(sha256, bytes)| (*sha256, *bytes as u64)).unzip();
    let objects = Objects { sha256, bytes, ..Objects::default() };
    let n_tasks = objects.sha256.len() as u64;
    let input = Input { from: "{x}".into(), to: "in".into(), objects, ..Input::default() };
    JobSpec { workdir: WorkDirPolicy::Scratch, inputs: vec![input], ..echo(n_tasks) }
}

/// A file at the manager.
struct Object {
    sha256: Digest,
    right: Vec<u8>,
    path: String,
    place: PathBuf,
    rotten: PathBuf,
}

impl Object {
    async fn new(scene: &Scene) -> Object {
        let right: Vec<u8> = (0..N_BYTES).map(|n| (n % 251) as u8).collect();
        let mut sha256 = Digest::default();
        sha256.0.copy_from_slice(digest(&SHA256, &right).as_ref());
        let status = scene.get("/api/v1/status").await.json();
        let files = PathBuf::from(status["folder"].as_str().unwrap()).join("files");
        let name = sha256.to_string();
        let object = Object {
            sha256,
            right,
            path: format!("/api/v1/objects/{name}"),
            place: files.join("objects").join(&name[..2]).join(&name),
            rotten: files.join("rotten").join(&name),
        };
        assert_eq!(object.put(scene).await.status, 201);
        object
    }

    async fn put(&self, scene: &Scene) -> Reply {
        scene.call("PUT", &self.path, &scene.ann(), self.right.clone()).await
    }

    /// It is there, and right.
    async fn is_well(&self, scene: &Scene) -> bool {
        let reply = scene.get(&self.path).await;
        reply.status == 200 && reply.body == self.right && !self.rotten.exists()
    }
}

#[tokio::test]
async fn a_rotten_object_is_found_out_when_it_is_fetched_and_can_be_brought_anew() {
    let scene = Scene::start().await;
    let object = Object::new(&scene).await;
    let mut wrong = object.right.clone();
    wrong[700_000] ^= 1;
    fs::write(&object.place, &wrong).unwrap();
    assert_eq!(object.put(&scene).await.status, 200, "nobody has looked");
    let given = scene.get(&object.path).await;
    assert!(given.status == 200 && given.body == wrong, "it is not held back: who reads it checks");
    assert_eq!(scene.get(&object.path).await.refusal(), (404, "no-such-object".into()));
    assert!(fs::read(&object.rotten).unwrap() == wrong);
    let missing = scene.post("/api/v1/objects/missing", json!({"sha256": [object.sha256]})).await.json();
    assert_eq!(missing, json!({"sha256": [object.sha256]}));
    assert_eq!(object.put(&scene).await.status, 201);
    assert!(scene.get(&object.path).await.body == object.right);
    assert!(scene.get(&object.path).await.body == object.right);
}

#[tokio::test]
async fn a_good_object_stays_whatever_becomes_of_who_fetches_it() {
    let mut scene = Scene::start().await;
    let object = Object::new(&scene).await;
    let session = scene.pilot_at_work(&needing(&[(object.sha256, N_BYTES)])).await.session;
    let by_pilot = object.path.replace("/api/v1", "/pilot/v1");
    for (path, token) in [(&object.path, scene.ann()), (&by_pilot, session)] {
        let head = scene.call("HEAD", path, &token, "").await;
        assert_eq!((head.status, head.body.len()), (200, 0));
        let request = Request::get(path)
            .header("host", "here")
            .header("authorization", format!("Bearer {token}"))
            .header("range", "bytes=5-9");
        let mut cut_off = scene.open(request.body("".into()).unwrap()).await.into_body();
        cut_off.frame().await.unwrap().unwrap();
        drop(cut_off);
        assert!(object.is_well(&scene).await);
    }
}

#[tokio::test]
async fn an_object_that_has_become_shorter_is_found_out_by_who_knows_its_size() {
    let scene = Scene::start().await;
    let object = Object::new(&scene).await;
    let spoil = |n: usize| fs::write(&object.place, &object.right[..n]).unwrap();
    // One that is empty is not even given.
    spoil(0);
    assert_eq!(scene.get(&object.path).await.refusal(), (404, "no-such-object".into()));
    assert_eq!(object.put(&scene).await.status, 201);
    spoil(N_BYTES - 1);
    assert_eq!(object.put(&scene).await.status, 201);
    spoil(9);
    let objects =
        Objects { sha256: vec![object.sha256], bytes: vec![N_BYTES as u64], executable: Vec::new() };
    let input = Input { from: "in".into(), to: "in".into(), objects, ..Input::default() };
    let spec = JobSpec { workdir: WorkDirPolicy::Scratch, inputs: vec![input], ..echo(1) };
    let submit = async || scene.post("/api/v1/jobs", json!({"spec": spec})).await;
    let refused = submit().await;
    assert_eq!(refused.refusal(), (409, "no-such-object".into()));
    assert!(refused.message().ends_with("is not here; bring it first"), "{}", refused.message());
    assert_eq!(object.put(&scene).await.status, 201);
    assert_eq!(submit().await.status, 201);
}

#[tokio::test]
async fn small_files_come_in_packs_and_go_in_packs() {
    let mut scene = Scene::start().await;
    let all: Vec<(Digest, Vec<u8>)> = (0..300_u32)
        .map(|n| {
            let contents = n.to_string().into_bytes();
            let mut sha256 = Digest::default();
            sha256.0.copy_from_slice(digest(&SHA256, &contents).as_ref());
            (sha256, contents)
        })
        .collect();
    let packed = |files: &[(Digest, Vec<u8>)]| {
        let mut bytes = Vec::new();
        files.iter().for_each(|(sha256, contents)| pack::push(&mut bytes, sha256, contents));
        bytes
    };
    let put = async |bytes: Vec<u8>| scene.call("POST", "/api/v1/objects/pack", &scene.ann(), bytes).await;
    let wrong = [all[..9].to_vec(), vec![(all[9].0, b"wrong".to_vec())]].concat();
    assert_eq!(put(packed(&wrong)).await.refusal(), (422, "wrong-contents".into()));
    let wanted: Vec<Digest> = all.iter().map(|(sha256, _)| *sha256).collect();
    let missing = async || scene.post("/api/v1/objects/missing", json!({"sha256": wanted})).await.json();
    assert_eq!(missing().await["sha256"].as_array().map(Vec::len), Some(300), "all or none");
    assert_eq!(put(packed(&all)[1..].to_vec()).await.refusal().0, 400);
    let reply = put(packed(&all)).await;
    assert_eq!((reply.status, reply.json()), (201, json!({"files": 300})));
    assert_eq!(missing().await, json!({"sha256": []}));
    let ask = async |sha256: &[Digest]| scene.post("/api/v1/objects/packed", json!({"sha256": sha256})).await;
    let with_another = [&wanted[..], &[Digest([7; 32])]].concat();
    assert!(ask(&with_another).await.body == packed(&all), "what is not there is left out");
    assert_eq!(ask(&vec![wanted[0]; 1001]).await.refusal().0, 400);

    let needed: Vec<(Digest, usize)> =
        all.iter().map(|(sha256, contents)| (*sha256, contents.len())).collect();
    let session = scene.pilot_at_work(&needing(&needed)).await.session;
    let ask = async |token: &str, sha256: &[Digest]| {
        scene.call("POST", "/pilot/v1/packs", token, json!({"sha256": sha256}).to_string()).await
    };
    assert!(ask(&session, &with_another).await.body == packed(&all), "what is not there is left out");
    assert_eq!(ask(&scene.ann(), &wanted).await.status, 401);
    assert_eq!(ask(&session, &vec![wanted[0]; 1001]).await.refusal().0, 400);
}

#[tokio::test]
async fn the_rest_of_a_file_is_given_to_a_pilot_that_has_its_beginning() {
    let mut scene = Scene::start().await;
    let object = Object::new(&scene).await;
    let session = scene.pilot_at_work(&needing(&[(object.sha256, N_BYTES)])).await.session;
    let path = object.path.replace("/api/v1", "/pilot/v1");
    for (range, status, from) in [
        ("bytes=700000-", 206, 700_000),
        ("bytes=1000000-", 206, 1_000_000),
        // What is not there from there on, and ranges that no pilot asks for.
        ("bytes=1000001-", 200, 0),
        ("bytes=5-9", 200, 0),
        ("bytes=-5", 200, 0),
    ] {
        let request = Request::get(&path)
            .header("host", "here")
            .header("authorization", format!("Bearer {session}"))
            .header("range", range);
        let reply = scene.send(request.body("".into()).unwrap()).await;
        assert_eq!(reply.status, status, "{range}");
        assert!(reply.body == object.right[from..], "{range}");
        let told = reply.headers.get("content-range").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(told, (from > 0).then(|| format!("bytes {from}-1000000/1000001")), "{range}");
    }
    assert!(object.is_well(&scene).await);
}
