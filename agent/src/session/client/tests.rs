//! The client against a real socket, with and without TLS.

mod hostile;

use std::sync::Arc;

use protocol::pilot::{JoinDocument, LeaveRequest, RegisterRequest, VERSION};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use scheduler::{
    ids::PilotId,
    pull::{LeaveReason, NodeFacts, Registration},
    time::Span,
};
use tokio::{net::TcpListener, sync::mpsc};

use crate::session::client::{Client, ClientError, backoff};
use crate::{
    session::{arrival::Arrival, spool::Spool},
    testing::{FakeManager, left, registered, serve},
};

fn registration() -> RegisterRequest {
    let registration = Registration {
        tag: "pf".into(),
        nonce: 5,
        node: NodeFacts::default(),
        uptime: Span::from_secs(1),
        predecessor: None,
    };
    RegisterRequest { version: VERSION, registration }
}

#[tokio::test(flavor = "current_thread")]
async fn token_and_message_arrive_and_the_answer_comes_back() {
    let mut manager = FakeManager::new().await;
    let client = Client::new(&manager.url, None).unwrap();
    let serving = async {
        let request = manager.next().await;
        assert_eq!((request.register(), request.authorization.as_str()), (registration(), "Bearer secret"));
        request.answer(&registered());
    };
    let request = registration();
    let (answer, ()) = tokio::join!(client.register("secret", &request), serving);
    assert_eq!(answer.unwrap(), registered());
}

#[tokio::test(flavor = "current_thread")]
async fn refusals_are_told_apart() {
    let mut manager = FakeManager::new().await;
    let client = Client::new(&manager.url, None).unwrap();
    let cases = [
        (401, "unauthorized", "does not accept our token: because of the test", true),
        (426, "wrong-version", "does not speak version 1 of the pilot protocol: because of the test", true),
        (404, "no-such-pilot", "refuses (404, no-such-pilot): because of the test", true),
        (503, "busy", "refuses (503, busy): because of the test", false),
        (429, "busy", "refuses (429, busy): because of the test", false),
    ];
    for (status, code, words, is_final) in cases {
        let serving = async { manager.next().await.refuse(status, code) };
        let request = registration();
        let (answer, ()) = tokio::join!(client.register("secret", &request), serving);
        let error = answer.unwrap_err();
        assert!(error.to_string().ends_with(words), "{error}");
        assert_eq!(error.is_final(), is_final);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn answer_that_is_none_is_told() {
    let mut manager = FakeManager::new().await;
    let client = Client::new(&manager.url, None).unwrap();
    let serving = async { manager.next().await.answer(&left()) };
    let request = registration();
    let (answer, ()) = tokio::join!(client.register("secret", &request), serving);
    assert!(matches!(answer, Err(ClientError::Codec { .. })), "{answer:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn nobody_listening_is_told_with_the_cause() {
    // A port that was bound here and is free again.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Client::new(&url, None).unwrap().register("secret", &registration()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("cannot be reached") && text.contains("Connection refused"), "{text}");
    assert!(!error.is_final() && !text.contains("secret"));
}

#[test]
fn unusable_addresses_are_refused_at_once() {
    let error = |url, pin| Client::new(url, pin).unwrap_err().to_string();
    assert_eq!(
        error("ftp://host:1", None),
        "the join document's url is \"ftp://host:1\": expected http://HOST:PORT or https://HOST:PORT"
    );
    assert!(error("https://host:1", None).contains("expected the fingerprint"));
    assert!(error("https://host:1", Some("abc")).contains("expected 64 hexadecimal digits"));
}

/// A manager with a certificate for another name, and the certificate's fingerprint.
async fn tls_manager() -> (String, String, mpsc::UnboundedReceiver<crate::testing::Request>) {
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["elsewhere.example".into()]).unwrap();
    let pin = crate::sys::sha256::of(cert.der()).to_string();
    let key = PrivateKeyDer::from_pem_slice(signing_key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let (send, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            if let Ok(socket) = acceptor.accept(socket).await {
                tokio::spawn(serve(socket, send.clone()));
            }
        }
    });
    (url, pin, requests)
}

#[tokio::test(flavor = "current_thread")]
async fn only_the_pinned_certificate_is_accepted_under_any_name() {
    let (url, pin, mut requests) = tls_manager().await;
    let request = LeaveRequest { pilot: PilotId(1), report: None, reason: LeaveReason::Told };
    let client = Client::new(&url, Some(&pin)).unwrap();
    let serving = async { requests.recv().await.unwrap().answer(&left()) };
    let (answer, ()) = tokio::join!(client.leave("secret", &request), serving);
    assert_eq!(answer.unwrap(), left());
    let client = Client::new(&url, Some(&"ab".repeat(32))).unwrap();
    let error = client.leave("secret", &request).await.unwrap_err();
    assert!(!error.is_final(), "it may be the right one again: {error}");
    let error = error.to_string();
    assert!(error.contains("and not abababababababab…: somebody else's, or renewed"), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn pilot_does_not_wait_for_another_certificate_when_it_registers() {
    let (url, ..) = tls_manager().await;
    let client = Client::new(&url, Some(&"ab".repeat(32))).unwrap();
    let node = crate::node::discover(std::path::Path::new("/"), &|_| None);
    let mut arrival =
        Arrival::new(&JoinDocument::default(), node, None, (1, None), std::time::Instant::now());
    let folder = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(&folder.path().join("spool"), 1).unwrap();
    let error = arrival.register(&client, "secret", &mut spool).await.unwrap_err();
    assert!(matches!(error, ClientError::WrongCertificate { .. }), "{error}");
}

#[test]
fn waits_grow_to_a_limit() {
    let within = |n, low: u64, high: u64| {
        let wait = backoff(n).as_millis() as u64;
        assert!((low..=high).contains(&wait), "{n}: {wait}");
    };
    within(1, 50, 100);
    within(4, 400, 800);
    within(40, 10_000, 20_000);
}
