//! Files of servers of the network that break off, send nothing, have no file, or need a login.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant, SystemTime},
};

use hyper_util::client::proxy::matcher::Matcher;
use protocol::job::{Source, TaskInput};
use reqwest::dns::{Name, Resolve, Resolving};
use scheduler::{digest::Digest, ids::JobId, results::FailureKind};

use super::mover::mover;
use crate::{
    staging::{
        Mover, N_TRIES,
        cache::{Cache, CachePlace},
        family_of,
        fetch::MISSING_FOR,
        held::Held,
        transfer::N_SILENT_MAX,
    },
    sys::{pin, sha256},
};

/// The heads of requests, in lower case.
type Asked = Arc<Mutex<Vec<String>>>;

/// Starts a server that answers by the request's number and head; after an empty answer it stays silent.
fn server(answer: impl Fn(usize, &str) -> Vec<u8> + Send + 'static) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/data", listener.local_addr().unwrap());
    let asked = Asked::default();
    let its = Arc::clone(&asked);
    thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let head = head_of(&stream);
            let mut asked = its.lock().unwrap();
            asked.push(head);
            match answer(asked.len() - 1, &asked[asked.len() - 1]) {
                bytes if bytes.is_empty() => silent.push(stream),
                // The agent may have closed the connection.
                bytes => _ = stream.write_all(&bytes),
            }
        }
    });
    (url, asked)
}

fn head_of(stream: &TcpStream) -> String {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    head.join("\n").to_lowercase()
}

fn answer(status: &str, headers: &str, n_announced: usize, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {n_announced}\r\nconnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn input(from: &str, sha256: Option<Digest>) -> TaskInput {
    let (to, from) = ("in".into(), from.to_owned());
    TaskInput { to, from, source: Source::Url, sha256, bytes: None, writable: false, executable: false }
}

/// Returns the contents of a job's input, or the reason of the failure.
async fn brought(mover: &Mover, job: u64, input: &TaskInput) -> Result<Vec<u8>, String> {
    brought_of(mover, (job, 0), input).await
}

/// Returns the same for a job with a random number.
async fn brought_of(mover: &Mover, (job, drawn): (u64, u64), input: &TaskInput) -> Result<Vec<u8>, String> {
    let held = Arc::new(Held::new(&mover.cache).drawn(drawn));
    match mover.bring(JobId(job), input, &held).await {
        Ok(pin) => Ok(fs::read(pin.path).unwrap()),
        Err(FailureKind::Transfer { what }) => Err(what),
        Err(other) => panic!("{other}"),
    }
}

fn scene(folder: &Path) -> (Mover, mpsc::Receiver<super::Moved>) {
    let (mut mover, heard) = mover(folder, "http://127.0.0.1:1");
    mover.ways.netrc = Some(folder.join("netrc"));
    (mover, heard)
}

/// Returns the position from which a request wants a file.
fn from_of(head: &str) -> Option<usize> {
    let range = head.lines().find_map(|line| line.strip_prefix("range: bytes="))?;
    range.strip_suffix('-')?.parse().ok()
}

/// A date that identifies a version, because the answer is a second younger, and one that does not.
const STRONG_DATE: &str =
    "date: Mon, 02 Mar 2026 12:00:01 GMT\r\nlast-modified: Mon, 02 Mar 2026 12:00:00 GMT\r\n";
const WEAK_DATE: &str =
    "date: Mon, 02 Mar 2026 12:00:00 GMT\r\nlast-modified: Mon, 02 Mar 2026 12:00:00 GMT\r\n";

/// Starts a server that breaks off its first answer in the middle; afterwards its file has another version if
/// `changes`.
fn breaking(headers: &'static str, changes: bool) -> (String, Asked, Vec<u8>, Vec<u8>) {
    let old: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
    let new: Vec<u8> = if changes { old.iter().map(|byte| byte ^ 1).collect() } else { old.clone() };
    let (of_old, of_new) = (old.clone(), new.clone());
    let (url, asked) = server(move |n, head| {
        let all = of_new.len();
        match from_of(head).filter(|_| !changes) {
            _ if n == 0 => answer("200 OK", headers, all, &of_old[..all / 2]),
            Some(from) => {
                let range = format!("{headers}content-range: bytes {from}-{}/{all}\r\n", all - 1);
                answer("206 Partial Content", &range, all - from, &of_new[from..])
            }
            None => answer("200 OK", headers, all, &of_new),
        }
    });
    (url, asked, old, new)
}

#[tokio::test(flavor = "current_thread")]
async fn a_download_that_breaks_off_goes_on_where_it_was() {
    for (headers, is_known) in [("etag: \"a\"\r\n", false), (STRONG_DATE, false), ("", true)] {
        let folder = tempfile::tempdir().unwrap();
        let (mover, _heard) = scene(folder.path());
        let (url, asked, whole, _) = breaking(headers, false);
        let sha256 = is_known.then(|| sha256::of(&whole));
        assert_eq!(brought(&mover, 1, &input(&url, sha256)).await.unwrap(), whole);
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert_eq!(from_of(&asked[1]), Some(whole.len() / 2), "{asked:?}");
        assert_eq!(asked[1].contains("if-range: "), !is_known, "{asked:?}");
        assert!(asked[0].contains("user-agent: pilotfish/"), "{asked:?}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_file_that_changes_or_that_nothing_tells_apart_is_fetched_from_its_beginning() {
    for (headers, changes) in [
        ("etag: \"a\"\r\n", true),
        (STRONG_DATE, true),
        (WEAK_DATE, false),
        ("", false),
        ("etag: W/\"a\"\r\n", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mover, _heard) = scene(folder.path());
        let (url, asked, _, whole) = breaking(headers, changes);
        assert_eq!(brought(&mover, 1, &input(&url, None)).await.unwrap(), whole, "{headers}");
        assert_eq!(from_of(&asked.lock().unwrap()[1]).is_some(), changes, "{headers}");
    }
}

/// The rest that a server sends may be shorter than requested, or of another version in spite of `If-Range`.
#[tokio::test(flavor = "current_thread")]
async fn what_a_server_sends_as_the_rest_is_taken_only_if_it_is() {
    let old: Vec<u8> = (0..40_000_u32).map(|n| (n % 251) as u8).collect();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    // The second answer's version, total size and bytes; the expected contents; the expected requests.
    for (etag, total, n_bytes, expected, ranges) in [
        ("\"a\"", "40000", 20_000, &old, vec![None, Some(20_000)]),
        ("\"a\"", "*", 20_000, &old, vec![None, Some(20_000)]),
        ("\"a\"", "40000", 100, &old, vec![None, Some(20_000), Some(20_100)]),
        ("\"a\"", "*", 100, &old, vec![None, Some(20_000), Some(20_100)]),
        ("\"b\"", "40000", 20_000, &new, vec![None, Some(20_000), None]),
        // The answer does not name its version.
        ("", "40000", 20_000, &new, vec![None, Some(20_000), None]),
        ("\"a\"", "39999", 19_999, &new, vec![None, Some(20_000), None]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mover, _heard) = scene(folder.path());
        let (first, whole) = (old.clone(), expected.clone());
        let (url, asked) = server(move |n, head| match (n, from_of(head)) {
            (0, _) => answer("200 OK", "etag: \"a\"\r\n", 40_000, &first[..20_000]),
            (1, Some(from)) => {
                let last = from + n_bytes - 1;
                let etag = if etag.is_empty() { String::new() } else { format!("etag: {etag}\r\n") };
                let headers = format!("{etag}content-range: bytes {from}-{last}/{total}\r\n");
                answer("206 Partial Content", &headers, n_bytes, &whole[from..=last])
            }
            (_, Some(from)) => {
                let headers = format!("etag: \"a\"\r\ncontent-range: bytes {from}-39999/40000\r\n");
                answer("206 Partial Content", &headers, 40_000 - from, &whole[from..])
            }
            (_, None) => answer("200 OK", "etag: \"b\"\r\n", 40_000, &whole),
        });
        let came = brought(&mover, 1, &input(&url, None)).await.unwrap();
        assert!(came == *expected, "{etag} {total} {n_bytes}: {} bytes", came.len());
        let asked: Vec<_> = asked.lock().unwrap().iter().map(|head| from_of(head)).collect();
        assert_eq!(asked, ranges, "{etag} {total} {n_bytes}");
    }
}

/// A server that always breaks off and does not name the version of the rest is not asked for ever.
#[tokio::test(flavor = "current_thread")]
async fn a_server_that_always_breaks_off_is_given_up() {
    const N_BYTES: usize = 4 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    mover.cache =
        Arc::new(Cache::open(&CachePlace::new(folder.path().join("large"), Some(1 << 30))).unwrap());
    let (url, asked) = server(|_, head| match from_of(head) {
        None => answer("200 OK", "etag: \"a\"\r\n", N_BYTES, &vec![7; N_BYTES / 2]),
        Some(from) => {
            let range = format!("content-range: bytes {from}-{}/{N_BYTES}\r\n", N_BYTES - 1);
            answer("206 Partial Content", &range, N_BYTES - from, &vec![7; N_BYTES - from])
        }
    });
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert!(why.contains("another part than it was asked for"), "{why}");
    assert_eq!(asked.lock().unwrap().len(), N_TRIES as usize);
}

#[tokio::test(flavor = "current_thread")]
async fn an_answer_that_holds_no_file_is_none() {
    for (status, body, n_asked, words) in [
        ("202 Accepted", "wait a\n", N_TRIES as usize, "the file is not there yet"),
        ("203 Non Authoritative Information", "x", 1, "no file; one comes with 200"),
        ("204 No Content", "", 1, "no file; one comes with 200"),
        ("205 Reset Content", "", 1, "no file; one comes with 200"),
        ("206 Partial Content", "x", 1, "a part of the file, which nobody asked for"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mover, _heard) = scene(folder.path());
        let headers = if status.starts_with("206") { "content-range: bytes 0-0/2\r\n" } else { "" };
        let (url, asked) = server(move |_, _| answer(status, headers, body.len(), body.as_bytes()));
        let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
        assert_eq!(why, format!("input in from {url}: the server answers {status}: {words}"));
        assert_eq!(asked.lock().unwrap().len(), n_asked, "{status}");
    }
}

/// The manager signs addresses of a store, and the store redirects to a page, or only promises to store the
/// file.
#[tokio::test(flavor = "current_thread")]
async fn a_file_is_delivered_only_where_the_store_says_that_it_has_it() {
    for (status, expected) in [
        ("200 OK", None),
        ("201 Created", None),
        ("204 No Content", None),
        ("202 Accepted", Some(": the server has the file only if it answers 200, 201 or 204")),
        ("207 Multi-Status", Some(": the server has the file only if it answers 200, 201 or 204")),
        (
            "303 See Other",
            Some(", which sends on to /login: a file is only sent to the address that takes it"),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (store, asked) = server(move |_, head| match head.starts_with("get ") {
            true => answer("200 OK", "", 5, b"login"),
            false => answer(status, "location: /login\r\n", 0, b""),
        });
        let way = format!("{{\"url\": \"{store}\"}}");
        let (manager, _) = server(move |_, _| answer("200 OK", "", way.len(), way.as_bytes()));
        let (mover, _heard) = mover(folder.path(), manager.trim_end_matches("/data"));
        let path = folder.path().join("out");
        fs::write(&path, "").unwrap();
        let file = (fs::File::open(&path).unwrap(), 0, false);
        let sent = mover.ways.to_store("session", ((JobId(1), None), "store://lab/out"), file).await;
        let why = sent.err().map(|trouble| trouble.words().unwrap().to_owned());
        assert_eq!(why, expected.map(|words| format!("the server answers {status}{words}")));
        let asked = asked.lock().unwrap();
        assert!(asked.len() == 1 && asked[0].starts_with("put "), "{status}: {asked:?}");
    }
}

/// A cache may outlive the manager's store, and the next store begins with job 1 at the same address. A store
/// that was restored from a backup has forgotten jobs, and may assign their ids again.
#[tokio::test(flavor = "current_thread")]
async fn a_job_of_another_store_does_not_read_what_one_of_its_number_has_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = server(|n, _| answer("200 OK", "", 1, n.to_string().as_bytes()));
    let (missing, asked_in_vain) = server(|_, _| answer("404 Not Found", "", 0, b""));
    // A manager that restarts with its store has the same jobs, also at another address.
    for (tag, manager, drawn, came) in [
        ("pf1-1", "http://127.0.0.1:1", 5, "0"),
        ("pf1-7", "http://127.0.0.1:2", 5, "0"),
        ("pf2-1", "http://127.0.0.1:1", 5, "1"),
        ("pf2-2", "http://127.0.0.1:1", 5, "1"),
        ("pf2-3", "http://127.0.0.1:1", 6, "2"),
        ("pf2-3", "http://127.0.0.1:1", 0, "3"),
        ("pf2-4", "http://127.0.0.1:1", 5, "1"),
    ] {
        let (mut mover, _heard) = mover(folder.path(), manager);
        mover.family = family_of(tag).to_owned();
        let it = brought_of(&mover, (1, drawn), &input(&url, None)).await;
        assert_eq!(it.unwrap(), came.as_bytes(), "{tag} {drawn}");
        brought_of(&mover, (1, drawn), &input(&missing, None)).await.unwrap_err();
    }
    assert_eq!([asked.lock().unwrap().len(), asked_in_vain.lock().unwrap().len()], [4, 4]);
}

/// The result for one task counts for all tasks that wait for the same file.
#[tokio::test(flavor = "current_thread")]
async fn tasks_that_wait_for_one_file_give_it_up_together() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    mover.ways.patience = Duration::from_millis(200);
    for is_silent in [true, false] {
        let (url, asked) = server(move |_, _| match is_silent {
            true => Vec::new(),
            false => answer("500 Internal Server Error", "", 0, b""),
        });
        let input = input(&url, None);
        let all = futures_util::future::join_all((0..7).map(|_| brought(&mover, 1, &input))).await;
        let words = if is_silent { "has sent nothing for 0.2 s" } else { "500 Internal Server Error" };
        for why in all {
            assert!(why.as_ref().is_err_and(|why| why.contains(words)), "{why:?}");
        }
        let n_asked = || asked.lock().unwrap().len();
        // On a busy machine the agent may give up a request before sending it.
        match is_silent {
            true => assert!((1..=N_SILENT_MAX as usize).contains(&n_asked()), "{}", n_asked()),
            false => assert_eq!(n_asked(), N_TRIES as usize),
        }
        // A later task asks the server again.
        brought(&mover, 1, &input).await.unwrap_err();
        assert!(is_silent || n_asked() == 2 * N_TRIES as usize, "{}", n_asked());
        assert!(mover.turns.lock().unwrap().values().all(|turn| turn.strong_count() == 0));
    }
}

/// Pilots of one node share a cache: a server that is silent costs all of them what it costs one.
#[tokio::test(flavor = "current_thread")]
async fn pilots_of_a_node_give_up_a_silent_server_together() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = server(|_, _| Vec::new());
    let movers: Vec<_> = (0..4)
        .map(|_| {
            let (mut mover, heard) = scene(folder.path());
            mover.ways.patience = Duration::from_millis(200);
            (mover, heard)
        })
        .collect();
    let input = input(&url, None);
    let all = movers.iter().map(|(mover, _)| brought(mover, 1, &input));
    for why in futures_util::future::join_all(all).await {
        assert!(why.as_ref().is_err_and(|why| why.contains("has sent nothing for 0.2 s")), "{why:?}");
    }
    // Separately, each pilot would ask three times.
    let n_asked = asked.lock().unwrap().len();
    assert!(n_asked <= 3 * N_SILENT_MAX as usize, "{n_asked}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_file_that_is_not_there_is_asked_for_once_for_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let (mover, _heard) = scene(folder.path());
    let (url, asked) = server(|_, _| answer("404 Not Found", "", 0, b""));
    for (job, n_asked) in [(1, 1), (1, 1), (1, 1), (2, 2), (2, 2)] {
        for sha256 in [None, Some(Digest([7; 32]))] {
            let why = brought(&mover, job, &input(&url, sha256)).await.unwrap_err();
            assert_eq!(why, format!("input in from {url}: the server answers 404 Not Found"));
            assert_eq!(asked.lock().unwrap().len(), n_asked, "job {job}");
        }
    }
}

/// The file may have been put there meanwhile.
#[tokio::test(flavor = "current_thread")]
async fn a_file_that_was_not_there_is_asked_for_again_ten_seconds_later() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    let (url, asked) = server(|n, _| match n {
        0 => answer("404 Not Found", "", 0, b""),
        _ => answer("200 OK", "", 1, b"x"),
    });
    brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    mover.missing_for = MISSING_FOR;
    let noted: Vec<_> = fs::read_dir(folder.path().join("cache/urls")).unwrap().map(Result::unwrap).collect();
    assert_eq!(noted.len(), 1);
    let noted = fs::OpenOptions::new().write(true).open(noted[0].path()).unwrap();
    noted.set_modified(SystemTime::now() - Duration::from_secs(10)).unwrap();
    assert_eq!(brought(&mover, 1, &input(&url, None)).await.unwrap(), b"x");
    assert_eq!(asked.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "current_thread")]
async fn a_store_says_whether_the_bucket_or_the_key_is_missing_and_nothing_that_was_signed() {
    for (status, code, expected) in [
        ("404 Not Found", "NoSuchBucket", "404 Not Found: NoSuchBucket, there is no such bucket"),
        ("404 Not Found", "NoSuchKey", "404 Not Found: NoSuchKey, the bucket is there, and has no such key"),
        ("403 Forbidden", "SignatureDoesNotMatch", "403 Forbidden: SignatureDoesNotMatch, the secret key is"),
        (
            "404 Not Found",
            "\n    NoSuchKey\n  ",
            "404 Not Found: NoSuchKey, the bucket is there, and has no such key",
        ),
        ("403 Forbidden", "hush hush", "403 Forbidden"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mover, _heard) = scene(folder.path());
        let body = format!("<?xml?><Error><Code>{code}</Code><StringToSign>hush</StringToSign></Error>");
        let (url, _) = server(move |_, _| answer(status, "", body.len(), body.as_bytes()));
        let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
        assert!(why.contains(&format!("the server answers {expected}")) && !why.contains("hush"), "{why}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_server_that_sends_nothing_is_named_and_waited_for_a_few_times_and_then_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    let patience = Duration::from_millis(60);
    mover.ways.patience = patience;
    // The kernel accepts connections, and no answer comes.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let name = listener.local_addr().unwrap().to_string();
    let url = format!("http://{name}/data");
    let connections = || std::iter::from_fn(|| listener.accept().ok()).collect::<Vec<_>>();
    let began = Instant::now();
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert_eq!(why, format!("input in from {url}: {name} has sent nothing for 0.06 s"));
    assert!(began.elapsed() >= N_SILENT_MAX * patience, "it has waited a few times");
    // On a busy machine the agent may give up a request before sending it, and reuse its connection.
    let held = connections();
    assert!((1..=N_SILENT_MAX as usize).contains(&held.len()), "{held:?}");
    for n in 1..=2 {
        // The next request for any file has less time, and one attempt.
        let other = format!("{url}-{n}");
        let why = brought(&mover, 2, &input(&other, None)).await.unwrap_err();
        assert_eq!(why, format!("input in from {other}: {name} has sent nothing for 0.01 s"));
        let more = connections();
        assert!(more.len() <= 1, "{more:?}");
    }
}

/// Otherwise a stalled file would cost the whole time at each attempt while its server sends other files.
#[tokio::test(flavor = "current_thread")]
async fn a_file_that_did_not_come_has_less_time_whatever_else_comes_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    let is_back = Arc::new(Mutex::new(false));
    let is_there = Arc::clone(&is_back);
    let (url, _) = server(move |_, head| match head.starts_with("get /data/late ") {
        true if !*is_there.lock().unwrap() => Vec::new(),
        _ => answer("200 OK", "", 1, b"x"),
    });
    let (late, other) = (format!("{url}/late"), format!("{url}/other"));
    let (short, long) = (Duration::from_millis(60), Duration::from_secs(3_600));
    for (job, words) in [(1, "has sent nothing for 0.06 s"), (2, "has sent nothing for 0.01 s")] {
        mover.ways.patience = short;
        let why = brought(&mover, job, &input(&late, None)).await.unwrap_err();
        assert!(why.ends_with(words), "{why}");
        mover.ways.patience = long;
        assert_eq!(brought(&mover, job, &input(&other, None)).await.unwrap(), b"x");
    }
    *is_back.lock().unwrap() = true;
    assert_eq!(brought(&mover, 3, &input(&late, None)).await.unwrap(), b"x");
    let name = url.trim_start_matches("http://").trim_end_matches("/data");
    assert!(!mover.ways.silences.is_any(name, &late), "it is as any other");
}

/// A name server that never answers.
struct NoAnswer;

impl Resolve for NoAnswer {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

/// Like behind a firewall that drops packets.
#[tokio::test(flavor = "current_thread")]
async fn a_server_that_takes_no_connection_is_given_up_as_one_that_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    let client = reqwest::Client::builder().no_proxy().connect_timeout(Duration::from_millis(10));
    let client = client.dns_resolver(NoAnswer).tls_backend_preconfigured(pin::tls_config([0; 32]));
    (mover.ways.world, mover.ways.patience) = (client.build().unwrap(), Duration::from_secs(3_600));
    let url = "http://nowhere.invalid/x";
    let why = brought(&mover, 1, &input(url, None)).await.unwrap_err();
    assert_eq!(why, format!("input in from {url}: nowhere.invalid has taken no connection in time"));
    assert!(mover.ways.silences.is_any("nowhere.invalid", "http://nowhere.invalid/y"), "it is remembered");
}

#[tokio::test(flavor = "current_thread")]
async fn where_a_server_sends_on_to_and_the_proxy_are_named_and_no_password_of_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    let (last, _) = server(|_, _| answer("404 Not Found", "", 0, b""));
    for (end, words) in [
        (last.as_str(), "the server answers 404 Not Found"),
        // No server listens here.
        ("http://127.0.0.1:1/data", "Connection refused (os error 111)"),
    ] {
        let location = end.replace("http://", "http://ann:hush@");
        let (url, _) = server(move |_, _| {
            answer("302 Found", &format!("location: {location}?sig=hush#part\r\n"), 0, b"")
        });
        let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
        assert_eq!(why, format!("input in from {url}: it sends on to {end}: {words}"));
    }
    mover.ways.routes.proxies = Matcher::builder().all("http://ann:hush@proxy:3128").build();
    let why = brought(&mover, 1, &input("http://127.0.0.1:1/x", None)).await.unwrap_err();
    assert_eq!(
        why,
        "input in from http://127.0.0.1:1/x: through the proxy http://proxy:3128/, which the pilot's environment \
         names: Connection refused (os error 111)"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn who_enters_a_server_stands_in_netrc_and_in_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let (mover, _heard) = scene(folder.path());
    let (url, asked) = server(|_, head| match head.contains("authorization: basic yw5uomh1c2g=") {
        true => answer("200 OK", "", 4, b"data"),
        false => answer("401 Unauthorized", "", 0, b""),
    });
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert!(why.contains("401 Unauthorized; who may enter 127.0.0.1:"), "{why}");
    fs::write(folder.path().join("netrc"), "machine 127.0.0.1 login ann passwort hush").unwrap();
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert!(why.contains("netrc:1: found another word") && !why.contains("hush"), "{why}");
    fs::write(folder.path().join("netrc"), "machine 127.0.0.1 login ann password hush").unwrap();
    assert_eq!(brought(&mover, 1, &input(&url, None)).await.unwrap(), b"data");
    fs::write(folder.path().join("netrc"), "machine 127.0.0.1 login ann password hust").unwrap();
    let why = brought(&mover, 2, &input(&url, None)).await.unwrap_err();
    assert!(why.contains("401 Unauthorized; the name or the password for 127.0.0.1:"), "{why}");
    assert!(why.contains("netrc, where pilots run, is wrong") && !why.contains("hust"), "{why}");
    // A job of an older version may have the login in the address.
    let old = url.replace("http://", "http://ann:wrong@");
    let why = brought(&mover, 1, &input(&old, None)).await.unwrap_err();
    assert!(why.starts_with("input in from http://…@127.0.0.1:") && !why.contains("wrong"), "{why}");
    assert_eq!(asked.lock().unwrap().len(), 5);
}

#[tokio::test(flavor = "current_thread")]
async fn a_login_that_is_sent_and_refused_is_told_from_one_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (mover, _heard) = scene(folder.path());
    let (url, _) = server(|_, _| answer("403 Forbidden", "", 0, b""));
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert_eq!(why, format!("input in from {url}: the server answers 403 Forbidden"));
    fs::write(folder.path().join("netrc"), "machine 127.0.0.1 login ann password hush").unwrap();
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert!(
        why.contains("may not have this file, or has another password") && !why.contains("hush"),
        "{why}"
    );
}

#[tokio::test(flavor = "current_thread")]
async fn what_leads_nowhere_is_asked_for_once_and_told_in_words() {
    for (location, expected) in [
        ("file:///etc/passwd", "302 Found, which sends on to file:///etc/passwd"),
        ("ftp://127.0.0.1/x", "an address of ftp:, which is neither http: nor https:"),
        ("gopher://127.0.0.1/x", "an address of gopher:, which is neither http: nor https:"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mover, _heard) = scene(folder.path());
        let (url, asked) =
            server(move |_, _| answer("302 Found", &format!("location: {location}\r\n"), 0, b""));
        let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
        assert!(why.contains(expected), "{location}: {why}");
        assert_eq!(asked.lock().unwrap().len(), 1, "{location}");
    }
    // A server that redirects for ever.
    let folder = tempfile::tempdir().unwrap();
    let (mover, _heard) = scene(folder.path());
    let (url, asked) = server(|_, _| answer("302 Found", "location: /data\r\n", 0, b""));
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert!(why.contains("sends on more than 10 times"), "{why}");
    assert_eq!(asked.lock().unwrap().len(), 11);
}

#[tokio::test(flavor = "current_thread")]
async fn tls_with_a_server_that_speaks_none_is_told_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let (mover, _heard) = scene(folder.path());
    let (url, _) = server(|_, _| answer("400 Bad Request", "", 0, b""));
    let url = url.replace("http:", "https:");
    let why = brought(&mover, 1, &input(&url, None)).await.unwrap_err();
    assert!(why.contains("the server does not speak TLS at this port; is http:// meant"), "{why}");
}

/// A server that sends one byte per hundredth of a second counts as stuck, like a silent one.
#[tokio::test(flavor = "current_thread")]
async fn a_server_that_sends_next_to_nothing_is_given_up_as_one_that_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut mover, _heard) = scene(folder.path());
    mover.ways.patience = Duration::from_secs(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            head_of(&stream);
            thread::spawn(move || {
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\netag: \"a\"\r\ncontent-length: 1000000\r\n\r\n");
                while stream.write_all(b"x").is_ok() {
                    thread::park_timeout(Duration::from_millis(10));
                }
            });
        }
    });
    let began = Instant::now();
    let why = brought(&mover, 1, &input(&format!("http://{address}/data"), None)).await.unwrap_err();
    // On a busy machine the server may send nothing at all.
    assert!(why.contains(&format!("{address} has sent no")), "{why}");
    assert!(began.elapsed() >= N_SILENT_MAX * mover.ways.patience, "it has waited a few times");
}
