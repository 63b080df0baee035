//! What pilots ask each other: bytes of a connection, TLS taken off. Whoever does not show the platform's token hears
//! nothing of files and of tasks.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent::{
    peers::{Asks, Directory, Endpoint, Serving},
    staging::cache::{Cache, CachePlace},
};
use scheduler::ids::PilotId;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Runtime,
};

use crate::{Check, Target, bound::Bound};

/// See the module.
pub const TARGET: Target = Target {
    name: "peers",
    seeds,
    words: &[
        "GET ",
        "POST ",
        "HEAD ",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "\r\n\r\n",
        "authorization: Bearer ",
        "seven seas",
        "host: a\r\n",
        "content-length: ",
        "transfer-encoding: chunked\r\n",
        "connection: close\r\n",
        "expect: 100-continue\r\n",
        "upgrade: ",
        "/peer/v1/objects/",
        "/peer/v1/load",
        "/peer/v1/steal",
        "18446744073709551615",
    ],
    start,
    bound: Bound { constant: 4 << 20, factor: 1024 },
    n_fast: 1_500,
};

/// What others show.
const TOKEN: &str = "seven seas";
/// What is in the cache.
const OBJECT: &[u8] = b"energy of a ligand";
const OBJECT_SHA256: &str = "06f92cbe21980f54ac2520ff7bf2ad9a60b4f6862d31d89d6892f5eb51042ccb";
/// Tasks that whoever asks gets.
const N_GIVEN: u64 = 4711;

struct Scene {
    serving: Arc<Serving>,
    /// How often tasks were asked for.
    n_asked: Arc<AtomicU64>,
    runtime: Runtime,
    _folder: TempDir,
}

fn start() -> Check {
    let scene = Scene::new();
    Box::new(move |bytes| scene.check(bytes))
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let place = CachePlace::new(folder.path().join("cache"), Some(1 << 20));
        let cache = Arc::new(Cache::open(&place).expect("a cache"));
        let mut part = cache.begin(OBJECT.len() as u64).expect("room");
        part.write(OBJECT).expect("room");
        let (sha256, _) = cache.finish(part, None).expect("it is kept").expect("it is right");
        assert_eq!(sha256.to_string(), OBJECT_SHA256);
        let endpoint = Endpoint::open("http://127.0.0.1:1").expect("a socket");
        let directory = Arc::new(Directory::new(&endpoint, PilotId(1), "session"));
        directory.set_token(TOKEN);
        directory.set_n_to_take(N_GIVEN);
        let n_asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&n_asked);
        let asks: Asks = Arc::new(move |_, answer| {
            counted.fetch_add(1, Ordering::Relaxed);
            // Whoever asked may have hung up.
            let _ = answer.send(N_GIVEN);
        });
        let serving = Arc::new(Serving::new(directory, cache, asks));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        Scene { serving, n_asked, runtime, _folder: folder }
    }

    fn check(&self, bytes: &[u8]) {
        self.n_asked.store(0, Ordering::Relaxed);
        let answer = self.answer(bytes);
        let n_shown = count(bytes, TOKEN.as_bytes());
        let given = N_GIVEN.to_string();
        // Each time that the token is shown opens one door at most.
        for what in [OBJECT, given.as_bytes(), b" 200 OK\r\n", b" 404 Not Found\r\n"] {
            assert!(count(&answer, what) <= n_shown, "{}", String::from_utf8_lossy(&answer));
        }
        assert!(self.n_asked.load(Ordering::Relaxed) <= n_shown as u64, "a stranger asks for tasks");
    }

    /// What comes back before the connection ends, which it does: whoever has said all hangs up.
    fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let (near, far) = tokio::io::duplex(4096);
        let (mut reading, mut writing) = tokio::io::split(near);
        let mut answer = Vec::new();
        let says = async {
            // It need not be heard to its end.
            let _ = writing.write_all(bytes).await;
            let _ = writing.shutdown().await;
        };
        let hears = async { reading.read_to_end(&mut answer).await.expect("a pipe") };
        let serving = Arc::clone(&self.serving);
        self.runtime.block_on(async { tokio::join!(serving.converse(far), says, hears) });
        answer
    }
}

fn count(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).filter(|some| *some == what).count()
}

fn seeds() -> Vec<Vec<u8>> {
    let object = format!("GET /peer/v1/objects/{OBJECT_SHA256}");
    let asked = |line: &str, token: &str, rest: &str| {
        format!("{line} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n{rest}")
    };
    let mut seeds = Vec::new();
    for token in [TOKEN, "nobody"] {
        seeds.push(asked(&object, token, "\r\n"));
        seeds.push(asked("GET /peer/v1/load", token, "connection: close\r\n\r\n"));
        seeds.push(asked("POST /peer/v1/steal", token, "content-length: 1\r\n\r\n7"));
        let chunks = "transfer-encoding: chunked\r\n\r\n2\r\n12\r\n0\r\n\r\n";
        seeds.push(asked("POST /peer/v1/steal", token, chunks) + &asked(&object, token, "\r\n"));
    }
    seeds.into_iter().map(String::into_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_shows_the_token_is_answered() {
        let scene = Scene::new();
        let has_all = |wanted: &[&[u8]], seed: &[u8]| {
            let answer = scene.answer(seed);
            assert!(
                wanted.iter().all(|wanted| count(&answer, wanted) == 1),
                "{}",
                String::from_utf8_lossy(&answer)
            );
        };
        let [object, load, steal, both] = &seeds()[..4] else { panic!("four of a token") };
        has_all(&[OBJECT], object);
        has_all(&[b"4711"], load);
        has_all(&[b"4711"], steal);
        has_all(&[b"4711", OBJECT], both);
        assert_eq!(scene.n_asked.load(Ordering::Relaxed), 2);
    }
}
