//! A pilot's endpoint over real connections.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use protocol::peers::{PEER_LOAD_PATH, PEER_OBJECTS_PATH, PEER_STEAL_PATH, Peer};
use scheduler::{digest::Digest, ids::PilotId, pilot::Hunted, rng::Rng};

use super::{Asks, Directory, Endpoint, PeerClients, hunt};
use crate::{
    session::client::Client,
    staging::cache::{Cache, CachePlace},
};

/// No manager listens at this address.
const MANAGER: &str = "http://127.0.0.1:1";

struct Scene {
    peer: Peer,
    directory: Arc<Directory>,
    clients: PeerClients,
    sha256: Digest,
    /// The pilots that have asked for tasks.
    thieves: Arc<Mutex<Vec<PilotId>>>,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// A pilot with an object and seven tasks to take. A pilot that asks for tasks gets as many as twice its
    /// id.
    fn new() -> Scene {
        Scene::of(PilotId(1), 7)
    }

    /// The same with another id and number of tasks.
    fn of(pilot: PilotId, n_to_take: u64) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let place = CachePlace::new(folder.path().join("cache"), Some(1 << 20));
        let cache = Arc::new(Cache::open(&place).unwrap());
        let mut part = cache.begin(6).unwrap();
        part.write(b"energy").unwrap();
        let (sha256, _) = cache.finish(part, None).unwrap().unwrap();
        let endpoint = Endpoint::open(MANAGER).unwrap();
        let directory = Arc::new(Directory::new(&endpoint, pilot, "session"));
        directory.state().tokens = ["new".into(), "old".into()];
        directory.set_n_to_take(n_to_take);
        let (url, certificate_sha256) = (endpoint.url().to_owned(), endpoint.certificate_sha256());
        let thieves = Arc::<Mutex<Vec<PilotId>>>::default();
        let noted = Arc::clone(&thieves);
        let asks: Asks = Arc::new(move |thief, answer| {
            noted.lock().unwrap().push(thief);
            let _ = answer.send(thief.0 * 2);
        });
        tokio::spawn(endpoint.serve(Arc::clone(&directory), cache, asks));
        let peer = Peer { pilot, url, certificate_sha256 };
        Scene { peer, directory, clients: PeerClients::default(), sha256, thieves, _folder: folder }
    }

    /// Sets the known pilots and the number of all, so that the manager need not be asked for a while.
    fn knows(&self, others: &[Scene], n_peers: u64) {
        let mut state = self.directory.state();
        state.peers = others.iter().map(|other| other.peer.clone()).collect();
        (state.n_peers, state.known_at) = (n_peers, Some(Instant::now() + Duration::from_secs(600)));
    }

    /// Asks the other pilots for tasks; there is no manager.
    async fn hunts(&self) -> Hunted {
        hunt(&self.directory, &Client::new(MANAGER, None).unwrap(), &self.clients).await
    }

    fn was_asked_by(&self) -> Vec<PilotId> {
        self.thieves.lock().unwrap().clone()
    }

    async fn get(&self, token: &str, path: &str) -> (u16, String) {
        let client = self.clients.of(&self.peer).unwrap();
        let request = client.get(format!("{}{path}", self.peer.url)).bearer_auth(token);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn steal(&self, token: &str, word: &'static str) -> (u16, String) {
        let client = self.clients.of(&self.peer).unwrap();
        let request =
            client.post(format!("{}{PEER_STEAL_PATH}", self.peer.url)).bearer_auth(token).body(word);
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
    let client = scene.clients.of(&other).unwrap();
    let refused = client.get(format!("{}{object}", other.url)).bearer_auth("new").send().await;
    assert!(refused.is_err(), "it shows another certificate");
}

#[tokio::test(flavor = "current_thread")]
async fn whoever_shows_another_token_gets_no_tasks_and_the_pilot_does_not_hear_of_it() {
    let scene = Scene::new();
    for token in ["wrong", "", "session", "newer"] {
        assert_eq!(scene.steal(token, "21").await, (401, String::new()), "{token:?}");
    }
    assert_eq!(scene.was_asked_by(), []);
    assert_eq!(scene.steal("old", "21").await, (200, "42".into()));
    assert_eq!(scene.was_asked_by(), [PilotId(21)]);
}

#[tokio::test(flavor = "current_thread")]
async fn who_asks_is_told_how_much_there_is_and_how_much_is_on_its_way() {
    let scene = Scene::new();
    assert_eq!(scene.get("new", PEER_LOAD_PATH).await, (200, "7".into()));
    assert_eq!(scene.steal("new", "21").await, (200, "42".into()));
    assert_eq!(scene.steal("new", "all").await.0, 400);
    assert_eq!(scene.steal("new", "123456789012345678901234567890123456789").await.0, 400);
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

#[tokio::test(flavor = "current_thread")]
async fn an_idle_pilot_robs_the_one_that_has_most() {
    let idle = Scene::of(PilotId(9), 0);
    for loads in [[3, 8, 5], [8, 3, 5], [0, 0, 1]] {
        let others: Vec<Scene> = (1..).zip(loads).map(|(n, load)| Scene::of(PilotId(n), load)).collect();
        // Among a million pilots it draws a thousand times, so it misses none of the three.
        idle.knows(&others, 1_000_000);
        assert_eq!(idle.hunts().await, Hunted::Promised);
        for (other, load) in others.iter().zip(loads) {
            let is_robbed = Some(load) == loads.into_iter().max();
            assert_eq!(other.was_asked_by(), vec![PilotId(9); usize::from(is_robbed)], "{load} of {loads:?}");
        }
    }
    assert_eq!(idle.directory.moved().n_taken, 3 * 18, "each gave it as many as it said");
}

#[tokio::test(flavor = "current_thread")]
async fn where_nobody_has_any_nobody_is_robbed() {
    let (idle, others) = (Scene::of(PilotId(9), 0), [1, 2].map(|n| Scene::of(PilotId(n), 0)));
    idle.knows(&others, 1_000_000);
    assert_eq!(idle.hunts().await, Hunted::InVain);
    assert!(others.iter().all(|other| other.was_asked_by().is_empty()));
    assert_eq!(idle.directory.moved().n_taken, 0);
}

#[tokio::test(flavor = "current_thread")]
async fn as_many_as_the_square_root_of_all_are_asked_and_nobody_who_is_avoided() {
    let (idle, others) = (Scene::of(PilotId(9), 0), [1, 2, 3, 4, 5].map(|n| Scene::of(PilotId(n), 0)));
    let drawn = |n_peers: u64| {
        idle.knows(&others, n_peers);
        let draw = |seed| idle.directory.some_peers(&mut Rng::new(seed));
        let drawn: Vec<Vec<Peer>> = (0..200).map(draw).collect();
        let who: BTreeSet<PilotId> = drawn.iter().flatten().map(|peer| peer.pilot).collect();
        (drawn.iter().map(Vec::len).max().unwrap_or(0), who)
    };
    let numbers = |all: &[u64]| all.iter().copied().map(PilotId).collect::<BTreeSet<PilotId>>();
    assert_eq!(drawn(1), (0, numbers(&[])), "it is alone");
    assert_eq!(drawn(3), (1, numbers(&[1, 2, 3, 4, 5])));
    assert_eq!(drawn(15), (3, numbers(&[1, 2, 3, 4, 5])));
    idle.directory.avoid(PilotId(4));
    assert_eq!(drawn(15), (3, numbers(&[1, 2, 3, 5])));
}
