//! The mover without the stager's thread.

use std::{
    collections::HashSet,
    fs,
    net::TcpListener,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use protocol::{
    codec::Format,
    job::{Source, TaskInput},
    peers::{HuntAnswer, Peer, PeersAnswer, Place},
};
use scheduler::{digest::Digest, ids::PilotId, pilot::Hunted};
use tokio::sync::Semaphore;

use super::manager;
use crate::{
    peers::{Directory, Endpoint},
    session::client::Client,
    staging::{
        Moved, Mover, Ways, Who,
        cache::{Cache, CachePlace, Pin},
        fetch::LOCK_PATIENCE,
        held::Held,
    },
    sys::{opened::testing::make_pipe, parts, sha256},
};

pub(super) fn cache(folder: &Path) -> Cache {
    Cache::open(&CachePlace::new(folder.join("cache"), Some(1 << 20))).unwrap()
}

pub(super) fn mover(folder: &Path, url: &str) -> (Mover, mpsc::Receiver<Moved>) {
    let (tell, heard) = mpsc::channel();
    let mover = Mover {
        cache: Arc::new(cache(folder)),
        ways: Ways::new(url, None).unwrap(),
        near: None,
        client: Some(Client::new(url, None).unwrap()),
        family: "pf1".into(),
        who: Arc::new(Mutex::new(Who { pilot: Some(PilotId(1)), session: "session".into() })),
        places: Semaphore::new(4),
        disks: Arc::new(Semaphore::new(4)),
        shares: Arc::new(Semaphore::new(4)),
        turns: Mutex::default(),
        looked_into: Arc::default(),
        // Longer than the test takes on any machine.
        missing_for: Duration::from_secs(3600),
        waits: Default::default(),
        executables: Arc::default(),
        packing: tokio::sync::Mutex::default(),
        is_full_told: AtomicBool::new(false),
        moved: Arc::default(),
        tell: Arc::new(move |moved| tell.send(moved).unwrap()),
    };
    (mover, heard)
}

/// Reads pipes that the event loop itself writes to: if the loop waited for the read, it would wait for ever.
#[test]
fn what_keeps_a_disk_busy_keeps_no_transfer_waiting() {
    let (tell, heard) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(read_pipes());
        tell.send(()).unwrap();
    });
    heard.recv_timeout(Duration::from_secs(600)).expect("the loop goes on");
}

async fn read_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (mover, _heard) = mover(folder.path(), "http://127.0.0.1:1");
    let held = Arc::new(Held::new(&mover.cache));
    let energy = sha256::of(b"energy");
    let pipes = [at(&format!("cache/objects/{energy}")), at("object"), at("output"), at("other")];
    pipes.iter().for_each(|pipe| make_pipe(pipe));
    let pin = Pin { sha256: energy, path: pipes[1].clone() };
    let (pinned, copied, delivered, hashed, ()) = tokio::join!(
        mover.pinned(energy, &held),
        mover.place(pin, at("task/in"), true, &held),
        mover.to_shared(pipes[2].clone(), (at("shared/out"), 0o644), &held),
        mover.hashed(pipes[3].clone()),
        async { pipes.iter().for_each(|pipe| fs::write(pipe, "energy").unwrap()) },
    );
    assert!(pinned.unwrap().is_some());
    copied.unwrap();
    assert_eq!([delivered.unwrap(), hashed.unwrap()], [(energy, 6), (energy, 6)]);
    for name in ["task/in", "shared/out"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"energy", "{name}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn parts_of_killed_agents_are_removed_from_folders_that_all_nodes_see() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (mover, _heard) = mover(folder.path(), "http://127.0.0.1:1");
    let held = Arc::new(Held::new(&mover.cache));
    fs::create_dir(at("shared")).unwrap();
    let own = parts::prefix();
    let dead = own.replace(&format!("-{}-", std::process::id()), "-0-");
    for prefix in [&own, &dead] {
        fs::write(at("shared").join(format!("{prefix}0123")), "").unwrap();
    }
    fs::write(at("out"), "energy").unwrap();
    mover.to_shared(at("out"), (at("shared/out"), 0o644), &held).await.unwrap();
    let left: HashSet<_> =
        fs::read_dir(at("shared")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, HashSet::from(["out".into(), format!("{own}0123").into()]));
}

#[tokio::test(flavor = "current_thread")]
async fn an_agent_that_stands_still_with_the_right_to_fetch_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (mover, _heard) = mover(folder.path(), "http://127.0.0.1:1");
    let other = cache(folder.path());
    let key = sha256::of(b"energy");
    let input = TaskInput {
        to: "in".into(),
        from: "in.txt".into(),
        source: Source::Home,
        sha256: Some(key),
        bytes: Some(6),
        writable: false,
        executable: false,
    };
    let its = other.try_lock(&key).unwrap();
    assert!(its.is_some());
    assert!(mover.lock(&input, &key, Duration::ZERO).await.unwrap().is_none());
    // The other agent has brought the file and goes on with another one.
    let mut part = other.begin(6).unwrap();
    part.write(b"energy").unwrap();
    other.finish(part, Some(&key)).unwrap().unwrap();
    assert!(mover.lock(&input, &key, LOCK_PATIENCE).await.unwrap().is_none());
    drop(its);
    assert!(mover.lock(&input, &key, LOCK_PATIENCE).await.unwrap().is_some());
}

/// An address where each connection is closed at once, and the number of connections.
fn deaf() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let n_come = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_come);
    thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    (url, n_come)
}

#[tokio::test(flavor = "current_thread")]
async fn where_no_other_pilot_is_reached_all_comes_from_the_manager_soon() {
    let folder = tempfile::tempdir().unwrap();
    let (url, manager) = manager();
    let (deaf, n_come) = deaf();
    let energy = sha256::of(b"energy");
    let peer = |pilot| Peer { pilot: PilotId(pilot), url: deaf.clone(), certificate_sha256: Digest([1; 32]) };
    let place = Place { sha256: energy, at: (2..10).map(peer).collect(), is_coming: false };
    let answer = PeersAnswer {
        token: "token".into(),
        is_known: true,
        peers: Vec::new(),
        n_peers: 9,
        places: vec![place],
    };
    let answer = Format::Postcard.encode(&answer).unwrap();
    manager.lock().unwrap().objects.insert("peers".into(), answer);
    let (mut mover, _heard) = mover(folder.path(), &url);
    let directory = Directory::new(&Endpoint::open(&url).unwrap(), PilotId(1), "session");
    mover.near = mover.client.clone().map(|client| (Arc::new(directory), client));
    for n_expected in [2, 3, 3] {
        assert!(!mover.came_from_near(&energy, 1 << 20).await.unwrap());
        assert_eq!(n_come.load(Ordering::SeqCst), n_expected);
    }
    assert_eq!(manager.lock().unwrap().asked, ["POST peer", "POST peer"]);
}

#[tokio::test(flavor = "current_thread")]
async fn a_pilot_that_others_do_not_know_has_the_manager_ask_them() {
    let folder = tempfile::tempdir().unwrap();
    let (url, manager) = manager();
    let answer = Format::Postcard.encode(&HuntAnswer { is_any_asked: true }).unwrap();
    manager.lock().unwrap().objects.insert("hunt".into(), answer);
    let (mover, heard) = mover(folder.path(), &url);
    mover.hunt().await;
    let hunted = heard.recv().unwrap();
    assert!(matches!(hunted, Moved::Hunted(Hunted::PassedOn)), "{hunted:?}");
    assert_eq!(manager.lock().unwrap().asked, ["POST hunt"]);
}
