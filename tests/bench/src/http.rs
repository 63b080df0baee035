//! HTTP/1.1 as little as it takes: one kept connection, one exchange at a time, no header read but
//! the length. What is measured is the manager, so the client must cost next to nothing.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Trouble;

/// Longer than a pull is parked.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection that is made when it is needed.
pub struct Connection {
    address: SocketAddr,
    token: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

/// A request's method and path, and how bodies are written.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub content_type: &'a str,
}

impl Connection {
    /// To `http://HOST:PORT`, with that bearer token. Errors: another URL.
    pub fn new(url: &str, token: &str) -> Result<Connection, Trouble> {
        let host = url.strip_prefix("http://").ok_or_else(|| format!("found {url}; it must be http://…"))?;
        let address = host.parse().map_err(|_| format!("found no address in {url}"))?;
        Ok(Connection { address, token: token.to_owned(), stream: None, buffer: Vec::new() })
    }

    /// From now on with this token.
    pub fn authorise(&mut self, token: &str) {
        self.token = token.to_owned();
    }

    /// One exchange; gives the answer's body. Errors: no connection, or a status that is not 2xx.
    pub async fn exchange(&mut self, call: Call<'_>, body: &[u8]) -> Result<Vec<u8>, Trouble> {
        // The manager ends connections that idle: then one more try, on a new one.
        for is_last in [false, true] {
            let is_new = self.stream.is_none();
            match tokio::time::timeout(PATIENCE, self.try_exchange(call, body)).await {
                Ok(Ok((status, body))) if (200..300).contains(&status) => return Ok(body),
                Ok(Ok((status, body))) => {
                    let words = String::from_utf8_lossy(&body).into_owned();
                    return Err(format!("{} {}: {status} {words}", call.method, call.path).into());
                }
                Ok(Err(error)) if is_new || is_last => return Err(error),
                Ok(Err(_)) => self.stream = None,
                Err(_) => return Err(format!("{}: no answer in {PATIENCE:?}", call.path).into()),
            }
        }
        Err("no connection".into())
    }

    async fn try_exchange(&mut self, call: Call<'_>, body: &[u8]) -> Result<(u16, Vec<u8>), Trouble> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let Call { method, path, content_type } = call;
        self.buffer.clear();
        let header = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\ncontent-type: {content_type}\r\n\
             accept: {content_type}\r\ncontent-length: {}\r\n\r\n",
            self.token,
            body.len()
        );
        self.buffer.extend_from_slice(header.as_bytes());
        self.buffer.extend_from_slice(body);
        stream.write_all(&self.buffer).await?;
        self.buffer.clear();
        let answer = read_answer(&mut stream, &mut self.buffer).await?;
        self.stream = Some(stream);
        // A large answer's room is not kept for ten thousand connections that wait.
        if self.buffer.capacity() > 1 << 16 {
            self.buffer = Vec::new();
        }
        Ok(answer)
    }
}

async fn read_answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(u16, Vec<u8>), Trouble> {
    let header_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        buffer.reserve(1024);
        if stream.read_buf(buffer).await? == 0 {
            return Err("the connection ended".into());
        }
    };
    let header = String::from_utf8_lossy(&buffer[..header_end]).to_ascii_lowercase();
    let status = header.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| format!("found no HTTP answer: {header}"))?;
    let length = header.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    while buffer.len() < header_end + length {
        buffer.reserve(header_end + length - buffer.len());
        if stream.read_buf(buffer).await? == 0 {
            return Err("the connection ended in an answer".into());
        }
    }
    Ok((status, buffer[header_end..].to_vec()))
}
