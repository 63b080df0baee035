//! A proxy between a client and an HTTP service, which answers itself, keeps requests or answers back, cuts them, or
//! loses them. One request a connection.

use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustls::{ServerConfig, ServerConnection, StreamOwned, pki_types::PrivateKeyDer};

use crate::until;

/// What becomes of a request.
pub enum Fate {
    /// It is answered here, with that status line, headers and body.
    Answered(String),
    /// The service does it, and nobody hears of it.
    Lost,
    /// The service does it, and is heard when that file is there.
    HeldUp(PathBuf),
    /// The service does it, half of its answer is heard, and the rest when that file is there.
    Slow(PathBuf),
    /// The service does it, and half of its answer is heard.
    Cut,
    /// It reaches the service when that file is there, whoever has hung up meanwhile.
    Late(PathBuf),
    /// Somebody else does that first.
    Second(Box<dyn FnOnce() + Send>),
}

/// Fates of requests that begin so.
type Fates = Mutex<VecDeque<(String, Fate)>>;
/// First lines of requests, and of the service's answers, and when they came.
type Seen = Mutex<Vec<(String, Instant)>>;

/// The proxy. Ends with the process.
pub struct Between {
    address: SocketAddr,
    fates: Arc<Fates>,
    seen: Arc<Seen>,
}

impl Between {
    /// One before the service at that address.
    pub fn start(service: String) -> Between {
        Between::begin(service, None)
    }

    /// The same with TLS; its certificate is written into that file.
    pub fn start_with_tls(service: String, certificate: &Path) -> Between {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        fs::write(certificate, made.cert.pem()).expect("it is written");
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("they fit");
        Between::begin(service, Some(Arc::new(config)))
    }

    fn begin(service: String, tls: Option<Arc<ServerConfig>>) -> Between {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let (fates, seen) = (Arc::<Fates>::default(), Arc::<Seen>::default());
        let (of_all, noted) = (fates.clone(), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (fates, seen, service, tls) =
                    (of_all.clone(), noted.clone(), service.clone(), tls.clone());
                // Whoever hangs up does so.
                thread::spawn(move || match tls {
                    None => serve(stream, &service, &fates, &seen).ok(),
                    Some(config) => {
                        let mut client = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
                        serve(&mut client, &service, &fates, &seen).ok()?;
                        client.conn.send_close_notify();
                        client.flush().ok()
                    }
                });
            }
        });
        Between { address, fates, seen }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What becomes of the next request that begins so, like `POST /v2.1/servers`; those after it have fates of
    /// their own.
    pub fn next(&self, begins: &str, fate: Fate) {
        self.fates.lock().expect("a lock").push_back((begins.to_owned(), fate));
    }

    /// How many requests, or answers of the service (`HTTP/1.1 401`), began so.
    pub fn n_seen(&self, begins: &str) -> usize {
        self.seen.lock().expect("a lock").iter().filter(|(line, _)| line.starts_with(begins)).count()
    }

    /// What was asked for next after the first request that began so, and how long after it.
    pub fn next_after(&self, begins: &str) -> Option<(String, Duration)> {
        let seen = self.seen.lock().expect("a lock");
        let place = seen.iter().position(|(line, _)| line.starts_with(begins))?;
        let is_request = |(line, _): &&(String, Instant)| !line.starts_with("HTTP/");
        let (line, at) = seen[place + 1..].iter().find(is_request)?;
        Some((line.clone(), at.duration_since(seen[place].1)))
    }
}

/// A request without the end of its head, and its body.
fn read(client: &mut impl Read) -> std::io::Result<Option<(Vec<String>, Vec<u8>)>> {
    let mut reader = BufReader::new(client);
    let (mut head, mut n_body) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(length) = lower.strip_prefix("content-length:") {
            n_body = length.trim().parse().unwrap_or(0);
        }
        if !lower.starts_with("connection:") {
            head.push(line);
        }
    }
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body)?;
    Ok((!head.is_empty()).then_some((head, body)))
}

fn serve(mut client: impl Read + Write, service: &str, fates: &Fates, seen: &Seen) -> std::io::Result<()> {
    let Some((head, body)) = read(&mut client)? else { return Ok(()) };
    seen.lock().expect("a lock").push((head[0].clone(), Instant::now()));
    let mut fate = {
        let mut fates = fates.lock().expect("a lock");
        let place = fates.iter().position(|(begins, _)| head[0].starts_with(begins.as_str()));
        place.and_then(|place| fates.remove(place)).map(|(_, fate)| fate)
    };
    match fate.take_if(|fate| matches!(fate, Fate::Answered(_) | Fate::Late(_) | Fate::Second(_))) {
        Some(Fate::Answered(answer)) => return client.write_all(answer.as_bytes()),
        Some(Fate::Late(go)) => until("the request may go", || go.exists()),
        Some(Fate::Second(first)) => first(),
        _ => {}
    }
    let mut upstream = TcpStream::connect(service)?;
    upstream.write_all(head.concat().as_bytes())?;
    upstream.write_all(b"Connection: close\r\n\r\n")?;
    upstream.write_all(&body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    let status =
        String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or_default()).into();
    seen.lock().expect("a lock").push((status, Instant::now()));
    let (first, rest) = answer.split_at(answer.len() / 2);
    match fate {
        Some(Fate::Lost) => Ok(()),
        Some(Fate::Cut) => client.write_all(first),
        Some(Fate::HeldUp(go)) => {
            until("the answer may go", || go.exists());
            client.write_all(&answer)
        }
        Some(Fate::Slow(go)) => {
            client.write_all(first)?;
            until("the rest may go", || go.exists());
            client.write_all(rest)
        }
        _ => client.write_all(&answer),
    }
}

/// An answer with that status, headers and body.
pub fn answer(status: &str, headers: &str, body: &str) -> Fate {
    Fate::Answered(format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ))
}
