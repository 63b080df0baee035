//! A proxy between a client and an HTTP service, which answers itself, keeps answers back, or loses them. One request
//! a connection.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use crate::until;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It is answered here, with that status line, headers and body.
    Answered(String),
    /// The service does it, and nobody hears of it.
    Lost,
    /// The service does it, and is heard when that file is there.
    HeldUp(PathBuf),
}

/// The proxy. Ends with the process.
pub struct Between {
    address: SocketAddr,
    fates: Arc<Mutex<VecDeque<(String, Fate)>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Between {
    /// One before the service at that address.
    pub fn start(service: String) -> Between {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let (fates, seen) =
            (Arc::<Mutex<VecDeque<(String, Fate)>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (of_all, noted) = (fates.clone(), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (fates, seen, service) = (of_all.clone(), noted.clone(), service.clone());
                // Whoever hangs up does so.
                thread::spawn(move || serve(stream, &service, &fates, &seen).ok());
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

    /// How many requests began so.
    pub fn n_seen(&self, begins: &str) -> usize {
        self.seen.lock().expect("a lock").iter().filter(|line| line.starts_with(begins)).count()
    }
}

fn serve(
    client: TcpStream,
    service: &str,
    fates: &Mutex<VecDeque<(String, Fate)>>,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
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
    let Some(first) = head.first().cloned() else { return Ok(()) };
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body)?;
    seen.lock().expect("a lock").push(first.clone());
    let fate = {
        let mut fates = fates.lock().expect("a lock");
        let place = fates.iter().position(|(begins, _)| first.starts_with(begins.as_str()));
        place.and_then(|place| fates.remove(place)).map(|(_, fate)| fate)
    };
    let mut client = client;
    if let Some(Fate::Answered(answer)) = &fate {
        return client.write_all(answer.as_bytes());
    }
    let mut upstream = TcpStream::connect(service)?;
    upstream.write_all(head.concat().as_bytes())?;
    upstream.write_all(b"Connection: close\r\n\r\n")?;
    upstream.write_all(&body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    match fate {
        Some(Fate::Lost) => return Ok(()),
        Some(Fate::HeldUp(go)) => {
            until("the answer may go", || go.exists());
        }
        _ => {}
    }
    client.write_all(&answer)
}

/// An answer with that status, headers and body.
pub fn answer(status: &str, headers: &str, body: &str) -> Fate {
    Fate::Answered(format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ))
}
