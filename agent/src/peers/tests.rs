//! A pilot's endpoint over real connections.

use std::sync::Arc;

use protocol::peers::{PEER_LOAD_PATH, PEER_OBJECTS_PATH, PEER_STEAL_PATH, Peer};
use scheduler::{digest::Digest, ids::PilotId};

use super::{Asks, Directory, Endpoint};
use crate::staging::{
    Ways,
    cache::{Cache, CachePlace},
};

struct Scene {
    peer: Peer,
    directory: Arc<Directory>,
    ways: Ways,
    sha256: Digest,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// A pilot that has an object and seven tasks to take; whoever asks for some gets twice its number.
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let place = CachePlace { folder: folder.path().join("cache"), bytes_max: Some(1 << 20) };
        let cache = Arc::new(Cache::open(&place).unwrap());
        let mut part = cache.begin(6).unwrap();
        part.write(b"energy").unwrap();
        let (sha256, _) = cache.finish(part, None).unwrap().unwrap();
        let endpoint = Endpoint::open("http://127.0.0.1:1").unwrap();
        let directory = Arc::new(Directory::new(&endpoint, PilotId(1), "session"));
        directory.state().tokens = ["new".into(), "old".into()];
        directory.set_n_to_take(7);
        let (url, certificate_sha256) = (endpoint.url().to_owned(), endpoint.certificate_sha256());
        let asks: Asks = Arc::new(|thief, answer| {
            let _ = answer.send(thief.0 * 2);
        });
        tokio::spawn(endpoint.serve(Arc::clone(&directory), cache, asks));
        let ways = Ways::new("http://127.0.0.1:1", None).unwrap();
        Scene {
            peer: Peer { pilot: PilotId(1), url, certificate_sha256 },
            directory,
            ways,
            sha256,
            _folder: folder,
        }
    }

    async fn get(&self, token: &str, path: &str) -> (u16, String) {
        let client = self.ways.peer(&self.peer).unwrap();
        let request = client.get(format!("{}{path}", self.peer.url)).bearer_auth(token);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn steal(&self, word: &'static str) -> (u16, String) {
        let client = self.ways.peer(&self.peer).unwrap();
        let request =
            client.post(format!("{}{PEER_STEAL_PATH}", self.peer.url)).bearer_auth("new").body(word);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }
}

#[tokio::test(flavor = "current_thread")]
async fn whoever_shows_the_platforms_token_or_the_one_before_is_served_and_nobody_else() {
    let scene = Scene::new();
    let object = format!("{PEER_OBJECTS_PATH}/{}", scene.sha256);
    for token in ["new", "old"] {
        assert_eq!(scene.get(token, &object).await, (200, "energy".into()));
    }
    assert_eq!(scene.get("wrong", &object).await, (401, String::new()));
    assert_eq!(scene.get("", PEER_LOAD_PATH).await, (401, String::new()));
    let other = Peer { certificate_sha256: Digest([1; 32]), ..scene.peer.clone() };
    let client = scene.ways.peer(&other).unwrap();
    let refused = client.get(format!("{}{object}", other.url)).bearer_auth("new").send().await;
    assert!(refused.is_err(), "it shows another certificate");
}

#[tokio::test(flavor = "current_thread")]
async fn who_asks_is_told_how_much_there_is_and_how_much_is_on_its_way() {
    let scene = Scene::new();
    assert_eq!(scene.get("new", PEER_LOAD_PATH).await, (200, "7".into()));
    assert_eq!(scene.steal("21").await, (200, "42".into()));
    assert_eq!(scene.steal("all").await.0, 400);
    assert_eq!(scene.steal("123456789012345678901234567890123456789").await.0, 400);
    assert_eq!(scene.get("new", "/").await.0, 404);
}

#[tokio::test(flavor = "current_thread")]
async fn what_is_not_there_any_more_is_told_to_the_manager() {
    let scene = Scene::new();
    let gone = Digest([9; 32]);
    scene.directory.gained(&gone);
    assert_eq!(scene.get("new", &format!("{PEER_OBJECTS_PATH}/{gone}")).await.0, 404);
    let (_, request) = scene.directory.request(vec![], vec![]);
    assert_eq!((request.gained, request.lost), (vec![], vec![gone]));
}

#[tokio::test(flavor = "current_thread")]
async fn nobody_is_asked_for_files_for_a_while_when_three_in_a_row_were_not_reached() {
    let Scene { directory, .. } = Scene::new();
    let fail = |n: u64| (0..n).for_each(|pilot| directory.not_reached(PilotId(pilot)));
    fail(2);
    directory.reached();
    fail(2);
    assert!(!directory.is_alone());
    fail(1);
    assert!(directory.is_alone());
}
