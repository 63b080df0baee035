//! A relay between visitors and a manager that echoes, until it gets `LAST`.

use std::{fs, future::Future};

use super::{super::serve, *};

/// Longer than any test takes on the slowest machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(600);
/// The manager closes after this text.
const LAST: &str = "last";

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it ends")
}

async fn manager() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("its address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut heard = [0; 100];
                while let Ok(n @ 1..) = stream.read(&mut heard).await {
                    if stream.write_all(&heard[..n]).await.is_err() || &heard[..n] == LAST.as_bytes() {
                        break;
                    }
                }
            });
        }
    });
    port
}

struct Relay {
    listener: std::net::TcpListener,
    serving: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Relay {
    async fn start(n_max: usize) -> Relay {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("target");
        fs::write(&target, manager().await.to_string()).expect("the file");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it does not wait");
        let ours = listener.try_clone().expect("a descriptor");
        let listener = TcpListener::from_std(listener).expect("a listener");
        let serving = tokio::spawn(async move { serve(listener, &target, n_max).await });
        Relay { listener: ours, serving, _folder: folder }
    }

    async fn visit(&self) -> TcpStream {
        soon(TcpStream::connect(self.listener.local_addr().expect("its address"))).await.expect("the relay")
    }
}

/// Returns whether the manager answers.
async fn is_answered(visitor: &mut TcpStream, words: &str) -> bool {
    let mut heard = vec![0; words.len()];
    let asked = visitor.write_all(words.as_bytes()).await;
    asked.is_ok() && soon(visitor.read_exact(&mut heard)).await.is_ok() && heard == words.as_bytes()
}

/// Waits until the connection is closed or reset.
async fn is_let_go(visitor: &mut TcpStream) {
    // A read returns the end of the stream or an error.
    assert!(!matches!(soon(visitor.read(&mut [0])).await, Ok(1..)), "nobody was to be answered");
}

#[tokio::test]
async fn flood_of_silent_visitors_ends_no_waiting_pilot_and_keeps_none_out() {
    let relay = Relay::start(4).await;
    let mut waiting = relay.visit().await;
    assert!(is_answered(&mut waiting, "first").await);
    let mut strangers = Vec::new();
    for _ in 0..20 {
        strangers.push(relay.visit().await);
    }
    let mut newcomer = relay.visit().await;
    assert!(is_answered(&mut newcomer, "late").await);
    assert!(is_answered(&mut waiting, "second").await, "it was answered before");
    // Two of them still have places.
    for stranger in &mut strangers[..18] {
        is_let_go(stranger).await;
    }
    assert!(is_answered(&mut strangers[18], "slow").await);
}

#[tokio::test]
async fn when_all_are_served_newcomers_are_turned_away_until_one_goes() {
    let relay = Relay::start(2).await;
    let (mut one, mut other) = (relay.visit().await, relay.visit().await);
    assert!(is_answered(&mut one, "one").await && is_answered(&mut other, "other").await);
    is_let_go(&mut relay.visit().await).await;
    assert!(is_answered(&mut one, "one").await && is_answered(&mut other, "other").await);
    drop(one);
    // The relay notices the end after a moment.
    soon(async { while !is_answered(&mut relay.visit().await, "new").await {} }).await;
    assert!(is_answered(&mut other, "other").await);
}

#[tokio::test]
async fn whom_the_manager_has_left_holds_no_place() {
    let relay = Relay::start(1).await;
    let mut left = relay.visit().await;
    assert!(is_answered(&mut left, LAST).await);
    is_let_go(&mut left).await;
    assert!(is_answered(&mut relay.visit().await, "next").await);
}

/// Returns both ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).await.expect("a connection");
    (near, listener.accept().await.expect("its other end").0)
}

#[tokio::test]
async fn both_connections_end_with_the_managers_though_the_visitor_stays() {
    let ((mut visitor, theirs), (tunnel, mut manager)) = (pair().await, pair().await);
    let carrying = tokio::spawn(async move { carry(theirs, tunnel, &AtomicBool::new(false)).await });
    visitor.write_all(b"what nobody reads").await.expect("the relay reads it");
    manager.write_all(b"goodbye").await.expect("the relay reads it");
    drop(manager);
    let mut heard = String::new();
    soon(visitor.read_to_string(&mut heard)).await.expect("the end");
    assert_eq!(heard, "goodbye");
    soon(carrying).await.expect("it has ended");
}

#[tokio::test]
async fn a_visitor_that_has_said_all_hears_the_answer() {
    let ((mut visitor, theirs), (tunnel, mut manager)) = (pair().await, pair().await);
    let carrying = tokio::spawn(async move { carry(theirs, tunnel, &AtomicBool::new(false)).await });
    visitor.write_all(b"question").await.expect("the relay reads it");
    visitor.shutdown().await.expect("it can say that it is all");
    let mut heard = String::new();
    soon(manager.read_to_string(&mut heard)).await.expect("all of it");
    manager.write_all(b"answer").await.expect("the relay reads it");
    drop(manager);
    soon(visitor.read_to_string(&mut heard)).await.expect("the end");
    assert_eq!(heard, "questionanswer");
    soon(carrying).await.expect("it has ended");
}

#[tokio::test]
async fn visitors_that_vanish_are_noticed() {
    let relay = Relay::start(1).await;
    assert!(is_answered(&mut relay.visit().await, "begun").await);
    relay.serving.abort();
    assert!(relay.serving.await.is_err(), "it was ended");
    // The next accepted connection is this one.
    let _visitor = std::net::TcpStream::connect(relay.listener.local_addr().expect("its address"));
    relay.listener.set_nonblocking(false).expect("it waits");
    let (accepted, _) = relay.listener.accept().expect("a visitor");
    let (mut value, mut n_bytes): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
    let get = |level, name, value: &mut libc::c_int, n_bytes: &mut libc::socklen_t| {
        // SAFETY: the value is of that size.
        unsafe { libc::getsockopt(accepted.as_raw_fd(), level, name, (value as *mut i32).cast(), n_bytes) }
    };
    assert_eq!(get(libc::SOL_SOCKET, libc::SO_KEEPALIVE, &mut value, &mut n_bytes), 0);
    assert_eq!(value, 1);
    assert_eq!(get(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &mut value, &mut n_bytes), 0);
    assert_eq!(value, 60);
}

#[test]
fn places_leave_some_of_the_files() {
    assert_eq!([0, 33, 64, 1024, u64::MAX].map(n_places), [1, 1, 16, 496, 16_384]);
}
