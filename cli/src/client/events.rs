//! Server-sent events: bytes in, one `StreamEvent` at a time out.

use reqwest::Response;

use protocol::api::StreamEvent;

use crate::client::ClientError;

/// One event is a job's counts or a sentence; more is not ours.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// News from a manager, as they come.
pub struct EventStream {
    response: Response,
    url: String,
    lines: Lines,
}

impl EventStream {
    pub(super) fn new(response: Response, url: String) -> EventStream {
        EventStream { response, url, lines: Lines::default() }
    }

    /// The next event; `None` when the manager has ended the stream.
    ///
    /// # Errors
    /// The connection broke, or something came that is no event. Safe to cancel.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        loop {
            if let Some(data) = self.lines.next_event() {
                let event = serde_json::from_str(&data);
                return event.map(Some).map_err(|error| self.not_understood(error.to_string()));
            }
            if self.lines.buffered.len() > EVENT_BYTES_MAX {
                return Err(self.not_understood("an event without end".to_owned()));
            }
            let chunk = self.response.chunk().await.map_err(|error| ClientError::Unreachable {
                url: self.url.clone(),
                cause: super::error_chain(&error),
                is_refused: false,
            })?;
            match chunk {
                Some(bytes) => self.lines.buffered.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    fn not_understood(&self, cause: String) -> ClientError {
        ClientError::NotUnderstood { url: self.url.clone(), cause }
    }
}

/// Cuts a stream into events. Names and numbers of events are not needed: the data say it all.
#[derive(Default)]
struct Lines {
    buffered: Vec<u8>,
    data: String,
}

impl Lines {
    /// The data of the next whole event.
    fn next_event(&mut self) -> Option<String> {
        while let Some(end) = self.buffered.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffered.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            } else if line.is_empty() && !self.data.is_empty() {
                return Some(std::mem::take(&mut self.data));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn events_are_put_together_however_they_are_cut() {
        let stream = ": hello\n\nevent: job\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\ndata: unfinished\n";
        for size in [1, 3, 1000] {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for chunk in stream.as_bytes().chunks(size) {
                lines.buffered.extend_from_slice(chunk);
                while let Some(event) = lines.next_event() {
                    events.push(event);
                }
            }
            assert_eq!(events, ["{\"a\":\n1}", "x"]);
        }
    }
}
