//! The manager's API by hand: one question a connection, so that nothing is kept over its deaths.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;

/// A stopped manager does not answer; whoever asks must not wait for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whoever has this manager's folder; it may be away or be another process by the next question.
#[derive(Clone)]
pub struct Api {
    folder: PathBuf,
}

impl Api {
    /// Of the manager in this folder, on the loopback address.
    pub fn new(folder: &Path) -> Api {
        Api { folder: folder.to_owned() }
    }

    /// What it answers; `None` when it is away, stopped, or dies in its answer.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.ask("GET", path)
    }

    /// What it answers to an order without a body; `None` as above, and when it refuses.
    pub fn post(&self, path: &str) -> Option<Value> {
        self.ask("POST", path)
    }

    fn ask(&self, method: &str, path: &str) -> Option<Value> {
        let access = std::fs::read_to_string(self.folder.join("access.json")).ok()?;
        let access: Value = serde_json::from_str(&access).ok()?;
        let (url, token) = (access["url"].as_str()?, access["token"].as_str()?);
        let answer =
            exchange(url.strip_prefix("http://")?, token, &format!("{method} /api/v1{path}")).ok()?;
        let (header, body) = answer.split_once("\r\n\r\n")?;
        header.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).ok())?
    }
}

fn exchange(address: &str, token: &str, wish: &str) -> io::Result<String> {
    let address = address.parse().map_err(io::Error::other)?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{wish} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
