//! The manager's event stream, as a program that waits for jobs reads it.

use protocol::api::{AccessFile, PREFIX, StreamEvent};
use scheduler::{engine::interface::views::JobView, ids::JobId};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Trouble;

/// News of all jobs from when it was opened.
pub struct Events {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Events {
    /// Opens it.
    pub async fn open(access: &AccessFile) -> Result<Events, Trouble> {
        let host = access.url.strip_prefix("http://").ok_or("found no http:// address")?;
        let mut stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "GET {PREFIX}/events HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\r\n",
            access.token
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(Events { stream, buffer: Vec::new() })
    }

    /// Waits until a job is over.
    pub async fn until_over(&mut self, job: JobId) -> Result<JobView, Trouble> {
        loop {
            while let Some(end) = self.buffer.windows(2).position(|window| window == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&event).into_owned();
                let data = text.split_once("data: ").and_then(|(_, data)| data.lines().next());
                if let Some(Ok(StreamEvent::Job { job: view })) = data.map(serde_json::from_str)
                    && view.id == job
                    && view.ended_at.is_some()
                {
                    return Ok(view);
                }
            }
            self.buffer.reserve(4096);
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the event stream ended".into());
            }
        }
    }
}
