//! A manager for tests with prepared answers, on a real socket.

use std::{collections::VecDeque, sync::Arc};

use protocol::{
    codec::Format,
    pilot::{LeaveAnswer, LeaveRequest, PullRequest, RegisterAnswer, RegisterRequest},
};
use scheduler::{
    ids::PilotId,
    pull::{PullAnswer, Registered},
    time::Span,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::{mpsc, oneshot},
};

/// A received request, with a channel for its answer.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) authorization: String,
    pub(crate) body: Vec<u8>,
    answer: oneshot::Sender<(u16, &'static str, Vec<u8>)>,
}

impl Request {
    pub(crate) fn register(&self) -> RegisterRequest {
        assert_eq!(self.path, "/pilot/v1/register");
        Format::Postcard.decode(&self.body).unwrap()
    }

    pub(crate) fn pull(&self) -> PullRequest {
        assert_eq!(self.path, "/pilot/v1/pull");
        Format::Postcard.decode(&self.body).unwrap()
    }

    pub(crate) fn leave(&self) -> LeaveRequest {
        assert_eq!(self.path, "/pilot/v1/leave");
        Format::Postcard.decode(&self.body).unwrap()
    }

    pub(crate) fn answer<T: serde::Serialize>(self, answer: &T) {
        let bytes = Format::Postcard.encode(answer).unwrap();
        // The pilot may have hung up.
        let _ = self.answer.send((200, "application/x-postcard", bytes));
    }

    pub(crate) fn refuse(self, status: u16, code: &str) {
        let body =
            format!(r#"{{"error":{{"code":"{code}","message":"because of the test","problems":[]}}}}"#);
        // The pilot may have hung up.
        let _ = self.answer.send((status, "application/json", body.into_bytes()));
    }
}

/// The manager's side of the socket.
pub(crate) struct FakeManager {
    pub(crate) url: String,
    requests: mpsc::UnboundedReceiver<Request>,
    early: VecDeque<Request>,
    unanswered: Vec<Request>,
}

impl FakeManager {
    pub(crate) async fn new() -> FakeManager {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (send, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, send.clone()));
            }
        });
        FakeManager { url, requests, early: VecDeque::new(), unanswered: Vec::new() }
    }

    /// Returns the next request.
    pub(crate) async fn next(&mut self) -> Request {
        match self.early.pop_front() {
            Some(request) => request,
            None => self.requests.recv().await.expect("a request"),
        }
    }

    /// Returns the next pull with a report; pulls that wait stay unanswered.
    pub(crate) async fn next_report(&mut self) -> Request {
        loop {
            let request = self.requests.recv().await.expect("a request");
            let pull = request.pull().pull;
            match pull.report {
                Some(_) => return request,
                // This pull only lists the running tasks; a manager answers it at once.
                None if pull.wait == Span::ZERO && pull.holds.is_none() => request.answer(&nothing_new(0)),
                None => self.early.push_back(request),
            }
        }
    }

    /// Refuses the next request if it is a registration; leaves other requests unanswered.
    pub(crate) async fn refuses_registration(&mut self, status: u16, code: &str) -> bool {
        let request = self.next().await;
        let is_registration = request.path.ends_with("register");
        match is_registration {
            true => request.refuse(status, code),
            false => self.unanswered.push(request),
        }
        is_registration
    }

    /// Registers the pilot whose request is next.
    pub(crate) async fn register(&mut self) -> RegisterRequest {
        let request = self.next().await;
        let registration = request.register();
        request.answer(&registered());
        registration
    }
}

pub(crate) fn registered() -> RegisterAnswer {
    RegisterAnswer {
        registered: Registered { pilot: PilotId(7), acknowledged: 0, platform: String::new(), session: 0 },
        session: "session".into(),
        poll_wait: Span::from_secs(60),
        platform: "here".into(),
    }
}

pub(crate) fn left() -> LeaveAnswer {
    LeaveAnswer {}
}

pub(crate) fn nothing_new(acknowledged: u64) -> PullAnswer {
    PullAnswer { epoch: 1, acknowledged, ..PullAnswer::default() }
}

/// Serves one connection with keep-alive.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    requests: mpsc::UnboundedSender<Request>,
) {
    let mut bytes = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
            }
            if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let field = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .into_iter()
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_string())
        };
        let length: usize = field("content-length").unwrap_or_default().parse().unwrap();
        while bytes.len() < length {
            socket.read_buf(&mut bytes).await.unwrap();
        }
        let (answer, answered) = oneshot::channel();
        let request = Request {
            path: head.split(' ').nth(1).unwrap().to_string(),
            authorization: field("authorization").unwrap_or_default(),
            body: bytes.drain(..length).collect(),
            answer,
        };
        // The test may have ended.
        let _ = requests.send(request);
        let Ok((status, content_type, body)) = answered.await else { return };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let answer: Arc<[u8]> = [head.as_bytes(), &body].concat().into();
        if socket.write_all(&answer).await.is_err() {
            return;
        }
    }
}
