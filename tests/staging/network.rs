//! Files from servers of the network: those that break off, that take their time, and that are somebody else.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};
use tests::{Running, Sandbox, noise, text, until};

use super::{all_done, files, serve, write_bytes};

/// What an agent fetches at a time (`agent/src/staging.rs`).
const N_TRANSFERS: u64 = 4;

/// Gives each connection to a thread of its own, until this process ends; says where it listens.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// The path that a client asks for; `None`: it asks for nothing.
fn asked(client: &mut impl Read) -> Option<String> {
    let mut head = [0; 4096];
    let n = client.read(&mut head).ok()?;
    text(&head[..n]).split(' ').nth(1).map(str::to_owned)
}

/// Announces these bytes, and sends so many of them.
fn answer(client: &mut impl Write, status: &str, bytes: &[u8], n_sent: usize) {
    let n = bytes.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {n}\r\nconnection: close\r\n\r\n");
    let sent = client.write_all(head.as_bytes()).and_then(|()| client.write_all(&bytes[..n_sent]));
    // Whoever breaks off has his reasons.
    let _ = sent.and_then(|()| client.flush());
}

/// A server of one file, which breaks off some answers in the middle; counts what it was asked.
fn http(bytes: Vec<u8>, n_broken: u64) -> (String, Arc<AtomicU64>) {
    let n_asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&n_asked);
    let address = listen(move |mut client| {
        let Some(path) = asked(&mut client) else { return };
        let number = counted.fetch_add(1, Ordering::Relaxed);
        let n_sent = if number < n_broken { bytes.len() / 2 } else { bytes.len() };
        let status = if path == "/missing" { "404 Not Found" } else { "200 OK" };
        answer(&mut client, status, &bytes, n_sent);
    });
    (format!("http://{address}"), n_asked)
}

#[test]
fn a_file_of_the_network_is_fetched_once_a_node_whole_and_checked() {
    let sandbox = Sandbox::new();
    let bytes = noise(300_000, 9);
    let (url, n_asked) = http(bytes.clone(), 1);
    write_bytes(&sandbox, "same.bin", &bytes);
    let right =
        text(&Command::new("sha256sum").arg(sandbox.path().join("same.bin")).output().expect("a sum").stdout);
    let right = right.split(' ').next().expect("a digest").to_owned();
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'cksum < data.bin > sum'\nsweep: {{n: {{range: [1, 20]}}}}\n\
             inputs: [{{from: \"{url}/data.bin\", sha256: {right}}}]\noutputs: [{{from: sum, to: \"sums/{{n}}\"}}]\n"
        ),
    );
    let manager = serve(&sandbox);
    sandbox.ok(&["submit", "--wait", "job.yaml"]);
    assert_eq!(n_asked.load(Ordering::Relaxed), 2, "one answer was cut off");
    assert_eq!(files(&sandbox.path().join("sums")).len(), 20);
    let wrong = format!("{}{}", if right.starts_with('0') { '1' } else { '0' }, &right[1..]);
    for (from, sha256, expected) in [
        (format!("{url}/data.bin"), format!(", sha256: {wrong}"), "is right"),
        (format!("{url}/missing"), String::new(), "the server answers 404"),
    ] {
        sandbox.write(
            "bad.yaml",
            &format!("command: 'true'\ninputs: [{{from: \"{from}\", to: x{sha256}}}]\nretries: 5\n"),
        );
        let output = sandbox.run(&["submit", "--wait", "bad.yaml"]);
        assert_eq!(output.status.code(), Some(1));
        let failed = sandbox.ok(&["tasks", "last", "--failed"]);
        assert!(
            failed.contains("file transfer failed: input x from http") && failed.contains(expected),
            "{failed}"
        );
    }
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// Requests that are open, held until they are let go.
#[derive(Default)]
struct Held {
    n_open: u64,
    n_open_max: u64,
    are_let_go: bool,
}

/// A server that gives each path back, once it is let go.
fn holding() -> (String, Arc<(Mutex<Held>, Condvar)>) {
    let held = Arc::<(Mutex<Held>, Condvar)>::default();
    let its = Arc::clone(&held);
    let address = listen(move |mut client| {
        let Some(path) = asked(&mut client) else { return };
        let (held, changed) = &*its;
        let mut now = held.lock().expect("a lock");
        now.n_open += 1;
        now.n_open_max = now.n_open_max.max(now.n_open);
        now = changed.wait_while(now, |now| !now.are_let_go).expect("a lock");
        // Before it is answered: the next one may come as soon as it is.
        now.n_open -= 1;
        drop(now);
        answer(&mut client, "200 OK", path.as_bytes(), path.len());
    });
    (format!("http://{address}"), held)
}

#[test]
fn a_pilot_fetches_few_files_at_a_time_however_many_its_tasks_wait_for() {
    const N_TASKS: u64 = 30;
    let sandbox = Sandbox::new();
    let (url, server) = holding();
    let (held, changed) = &*server;
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'cat in > out'\nsweep: {{n: {{range: [1, {N_TASKS}]}}}}\n\
             inputs: [{{from: \"{url}/{{n}}\", to: in}}]\noutputs: [{{from: out, to: \"out/{{n}}\"}}]\n"
        ),
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "8"]));
    sandbox.ok(&["submit", "job.yaml"]);
    let is_open = |n| held.lock().expect("a lock").n_open >= n;
    until("as many are open as may be", || is_open(N_TRANSFERS));
    until("the pilot has tasks for all of its cores", || {
        let counts = &sandbox.json(&["job", "1"])["counts"];
        counts["queued"].as_u64().zip(counts["running"].as_u64()).is_some_and(|(a, b)| a + b >= 8)
    });
    held.lock().expect("a lock").are_let_go = true;
    changed.notify_all();
    all_done(&sandbox, "1", N_TASKS);
    assert_eq!(held.lock().expect("a lock").n_open_max, N_TRANSFERS);
    sandbox.ok(&["fetch", "1"]);
    assert!((1..=N_TASKS).all(|n| sandbox.read(&format!("out/{n}")) == format!("/{n}")));
    sandbox.ok(&["stop"]);
    manager.wait();
}

/// What a server shows who it is by: a certificate for this host by an authority of that name, whose own one is written
/// into the file.
fn identity(authority: &str, file: &Path) -> Arc<ServerConfig> {
    let named = |name: &str, hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut parameters = CertificateParams::new(hosts).expect("names");
        parameters.distinguished_name.push(DnType::CommonName, name);
        (parameters, KeyPair::generate().expect("a key"))
    };
    let (mut parameters, key) = named(authority, &[]);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    fs::write(file, parameters.self_signed(&key).expect("a certificate").pem()).expect("it is written");
    let issuer = Issuer::new(parameters, key);
    let (parameters, key) = named("server", &["127.0.0.1"]);
    let certificate = parameters.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    Arc::new(config.expect("they fit"))
}

/// A server of one file that speaks TLS; the authority's certificate is in the file.
fn https(bytes: &'static [u8], authority: &str, file: &Path) -> String {
    let config = identity(authority, file);
    let address = listen(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a configuration");
        let mut client = StreamOwned::new(connection, stream);
        if asked(&mut client).is_some() {
            answer(&mut client, "200 OK", bytes, bytes.len());
        }
    });
    format!("https://{address}")
}

/// A manager whose nodes trust the authorities of that file.
fn serve_trusting(sandbox: &Sandbox, authorities: &Path) -> Running {
    let platform = "platforms: [{name: here, adapter: local, cores: 1, pilots_max: 1}]\n";
    sandbox.write("manager.yaml", &format!("{platform}limits: {{transfer_retries: 0}}\n"));
    let mut command = sandbox.command(&["serve", "--config", "manager.yaml"]);
    command.env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR");
    sandbox.serve(command)
}

/// Submits a task that copies what is at that address; its exit code.
fn submit_copy(sandbox: &Sandbox, url: &str) -> Option<i32> {
    sandbox.write(
        "job.yaml",
        &format!(
            "command: 'cat in > out'\ninputs: [{{from: \"{url}/data\", to: in}}]\n\
             outputs: [{{from: out, to: \"out/{{job}}\"}}]\n"
        ),
    );
    sandbox.run(&["submit", "--wait", "job.yaml"]).status.code()
}

/// Both say of the task why it failed.
fn is_told(sandbox: &Sandbox, task: &str, why: &str) {
    for command in [&["task", task][..], &["explain", "task", task]] {
        let shown = sandbox.ok(command);
        assert!(shown.contains(why), "{shown}");
    }
}

#[test]
fn a_server_whose_authority_the_node_trusts_is_taken_at_its_word_and_no_other() {
    let sandbox = Sandbox::new();
    let authorities = sandbox.path().join("authorities.pem");
    let url = https(b"by TLS\n", "the lab", &authorities);
    let stranger = https(b"of somebody\n", "somebody", &sandbox.path().join("unknown.pem"));
    let manager = serve_trusting(&sandbox, &authorities);
    assert_eq!(submit_copy(&sandbox, &url), Some(0));
    assert_eq!(sandbox.read("out/1"), "by TLS\n");
    assert_eq!(submit_copy(&sandbox, &stranger), Some(1));
    let why = format!(
        "file transfer failed: input in from {stranger}/data: no authority that is trusted here has signed the server's \
         certificate (invalid peer certificate: UnknownIssuer)"
    );
    is_told(&sandbox, "2.0", &why);
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_node_that_trusts_no_authority_fetches_what_needs_none() {
    let sandbox = Sandbox::new();
    let (plain, _) = http(b"plain\n".to_vec(), 0);
    let url = https(b"by TLS\n", "the lab", &sandbox.path().join("unknown.pem"));
    let manager = serve_trusting(&sandbox, Path::new("/dev/null"));
    assert_eq!(submit_copy(&sandbox, &plain), Some(0));
    assert_eq!(sandbox.read("out/1"), "plain\n");
    assert_eq!(submit_copy(&sandbox, &url), Some(1));
    is_told(&sandbox, "2.0", "No CA certificates were loaded from the system");
    sandbox.ok(&["stop"]);
    manager.wait();
}

#[test]
fn a_file_that_does_not_come_is_named_by_explain_before_the_server_is_given_up() {
    let sandbox = Sandbox::new();
    // It takes connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    sandbox.write(
        "job.yaml",
        &format!("command: 'true'\ninputs: [{{from: 'http://{address}/set.bin?token=hush', to: set.bin}}]\n"),
    );
    let manager = sandbox.serve(sandbox.command(&["serve", "--cores", "1"]));
    sandbox.ok(&["submit", "job.yaml"]);
    let mut said = String::new();
    until("the file is named", || {
        said = sandbox.ok(&["explain", "task", "1.0"]);
        said.contains("set.bin")
    });
    assert!(said.contains(&format!("waits for http://{address}/set.bin?token=…, which has taken")), "{said}");
    assert!(!said.contains("hush"), "{said}");
    let job = sandbox.json(&["job", "1"]);
    assert_eq!(
        (&job["n_failed_attempts"], &job["counts"]["failed"]),
        (&0.into(), &0.into()),
        "not given up yet"
    );
    // The pilot does nothing, and has no room.
    sandbox.ok(&["submit", "--", "true"]);
    until("it is said why", || {
        sandbox.ok(&["explain", "job", "2"]).contains("keeps cores for 1 task whose files are being fetched")
    });
    sandbox.ok(&["cancel", "1"]);
    until("nobody waits for it", || !sandbox.ok(&["explain", "task", "1.0"]).contains("set.bin"));
    sandbox.ok(&["stop"]);
    manager.wait();
}
