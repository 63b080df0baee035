//! A manager without its own driver: engine and store in one task, a platform that grants everything,
//! and clients that speak HTTP.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use axum::{body::Body, http::HeaderMap};
use http_body_util::BodyExt;
use hyper::{Request, body::Incoming};
use hyper_util::rt::TokioIo;
use protocol::{
    codec::Format,
    job::{CommandLine, JobSpec},
    pilot::{PULL_PATH, PullRequest, REGISTER_PATH, RegisterAnswer, RegisterRequest, VERSION},
    sweep::Sweep,
};
use rustls::ServerConfig;
use scheduler::{
    engine::{
        Engine,
        interface::{Effect, Event, PlatformLimits, PlatformSpec, SubmitOutcome, settings::Settings},
    },
    ids::PilotId,
    pull::{NodeFacts, Pull, PullAnswer, Registration},
    resources::Resources,
    time::{Span, Time},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{broadcast, mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use super::super::{ApiState, ConnectionLimits, serve};
use crate::{
    budgets::OutputQuotas,
    doors::Doors,
    engine_loop::{
        clock::Clock,
        handle::{Asked, Handle},
    },
    files::{objects::Objects, stores::Stores},
    quotas::CurrentQuotas,
    security::tokens::Tokens,
    store::Store,
};

/// A wait for longer is a hang, on a machine with many times more to do than it has cores, too.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// A running API.
#[must_use = "the manager ends with its scene"]
pub(super) struct Scene {
    pub(super) address: SocketAddr,
    pub(super) tokens: Tokens,
    pub(super) handle: Handle,
    pub(super) quotas: CurrentQuotas,
    pub(super) stop: watch::Sender<bool>,
    pub(super) served: JoinHandle<()>,
    pub(super) doors: Doors,
    /// Tags of allocations as they are asked for.
    tags: mpsc::UnboundedReceiver<String>,
    _folder: TempDir,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Status and word of a refusal.
    pub(super) fn refusal(&self) -> (u16, String) {
        let code = self.json()["error"]["code"].as_str().unwrap_or("no code").to_owned();
        (self.status, code)
    }

    pub(super) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}

/// Two hosts that nobody connects to, for everybody's jobs.
fn stores() -> Stores {
    let said = "[{name: files, kind: sftp, ssh: a}, {name: others, kind: sftp, ssh: b}]";
    let asker: Arc<dyn adapters::transport::Asker> = Arc::new(adapters::transport::Nobody);
    Stores::open(&serde_yaml::from_str::<Vec<_>>(said).unwrap(), &asker).unwrap()
}

impl Scene {
    pub(super) async fn start() -> Scene {
        Scene::start_with(ConnectionLimits::default(), None).await
    }

    pub(super) async fn start_with(limits: ConnectionLimits, tls: Option<Arc<ServerConfig>>) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let clock = Clock::start(Time(0));
        let settings = Settings { store_id: store.id(), ..Settings::default() };
        let engine = Engine::restore(settings, store.epoch(), clock.now(), []);
        let (handle, queue) = Handle::new();
        let (stop, stopped) = watch::channel(false);
        let (asked_for, tags) = mpsc::unbounded_channel();
        let tokens = Tokens::open(folder.path()).unwrap();
        let quotas = CurrentQuotas::default();
        let state = ApiState {
            handle: handle.clone(),
            reader: store.reader(),
            tokens: tokens.clone(),
            folder: folder.path().to_owned(),
            started_at: clock.now(),
            poll_wait: settings.poll_wait_max,
            leave_limit: settings.leave_limit,
            limits,
            stop: stopped,
            config_file: None,
            reload: mpsc::channel(1).0,
            agent: crate::platforms::agent_file::AgentFile::new(&[]),
            stores: stores(),
            quotas: quotas.clone(),
            objects: Objects::in_folder(folder.path()),
            outputs: OutputQuotas::new(quotas.clone(), tokens.users().clone()),
            reserve: Default::default(),
            left_there: tokio::sync::watch::channel(None).1,
        };
        let manager = Manager { engine, store, clock, notices: handle.notices().clone(), asked_for };
        tokio::spawn(manager.run(queue));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (doors, arrivals) = Doors::new(folder.path());
        let served = tokio::spawn(serve(listener, arrivals, tls, state));
        Scene { address, tokens, handle, quotas, stop, served, doors, tags, _folder: folder }
    }

    /// A token of a user.
    pub(super) fn user(&self, name: &str, is_operator: bool) -> String {
        self.tokens.lend(name, is_operator).unwrap()
    }

    pub(super) fn ann(&self) -> String {
        self.user("ann", false)
    }

    /// A request on a connection of its own, with this token.
    pub(super) async fn call(&self, method: &str, path: &str, token: &str, body: impl Into<Body>) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "here")
            .header("authorization", format!("Bearer {token}"))
            .body(body.into())
            .unwrap();
        self.send(request).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &self.ann(), Body::empty()).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.call("POST", path, &self.ann(), body.to_string()).await
    }

    /// What only operators may do.
    pub(super) async fn operate(&self, path: &str, body: Value) -> Value {
        let reply = self.call("POST", path, &self.user("olga", true), body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.open(request).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = timeout(PATIENCE, response.into_body().collect()).await.expect("a body in time");
        Reply { status, headers, body: body.unwrap().to_bytes().to_vec() }
    }

    /// An answer whose body is still to come.
    pub(super) async fn open(&self, request: Request<Body>) -> hyper::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        timeout(PATIENCE, sender.send_request(request)).await.expect("an answer in time").unwrap()
    }

    /// Submits a job as ann; returns its number.
    pub(super) async fn submit(&self, spec: &JobSpec) -> u64 {
        let reply = self.post("/api/v1/jobs", json!({"spec": spec})).await;
        assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
        reply.json()["job"].as_u64().unwrap()
    }

    /// A platform with pilots of two cores, and one of its pilots, registered.
    pub(super) async fn pilot(&mut self) -> Pilot {
        self.pilot_of("cluster", 2).await
    }

    /// A platform with pilots of so many cores, and one of its pilots, registered.
    pub(super) async fn pilot_of(&mut self, platform: &str, n_cores: u32) -> Pilot {
        let spec = PlatformSpec {
            name: platform.to_owned(),
            adapter: "local".to_owned(),
            site: None,
            capacity: Resources::cores(n_cores),
            n_nodes: 1,
            is_array: false,
            submits_late: false,
            joins_once: false,
            n_pilots_min: 1,
            n_pilots_max: 1,
            idle_timeout: Span::from_secs(600),
            walltime: None,
            poll_interval: Span::from_secs(10),
            limits: PlatformLimits::default(),
            scaling: None,
            price: None,
        };
        self.handle.ask(|request| Event::PlatformAttached { request, spec }).await.unwrap();
        let tag = timeout(PATIENCE, self.tags.recv()).await.expect("an allocation").unwrap();
        let mut registration = registration(&tag);
        registration.node.capacity = Resources::cores(n_cores);
        let message = RegisterRequest { version: VERSION, registration };
        let token = self.tokens.join(&tag);
        let answer: RegisterAnswer =
            self.exchange(REGISTER_PATH, &token, Format::Json, &message).await.unwrap();
        Pilot { id: answer.registered.pilot, session: answer.session, tag, epoch: 0, part_seen: 0 }
    }

    /// A pilot that was sent a task of this job, at least.
    pub(super) async fn pilot_at_work(&mut self, spec: &JobSpec) -> Pilot {
        let mut pilot = self.pilot().await;
        self.submit(spec).await;
        self.is_sent_tasks(&mut pilot).await;
        pilot
    }

    /// Takes what is there for a pilot.
    pub(super) async fn is_sent_tasks(&self, pilot: &mut Pilot) {
        let pull = Pull { is_hungry: true, ..Pull::default() };
        let answer = self.pull(pilot, Format::Json, pull).await;
        assert!(answer.parts.iter().any(|part| !part.bundles.is_empty()), "{answer:?}");
    }

    /// A pilot's exchange in a format.
    pub(super) async fn exchange<T: DeserializeOwned>(
        &self,
        path: &str,
        token: &str,
        format: Format,
        message: &impl Serialize,
    ) -> Result<T, Reply> {
        let request = Request::builder()
            .method("POST")
            .uri(path)
            .header("host", "here")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", format.content_type())
            .body(format.encode(message).unwrap().into())
            .unwrap();
        let reply = self.send(request).await;
        if reply.status != 200 {
            return Err(reply);
        }
        assert_eq!(reply.headers["content-type"], format.content_type());
        Ok(format.decode(&reply.body).unwrap())
    }

    pub(super) async fn pull(&self, pilot: &mut Pilot, format: Format, pull: Pull) -> PullAnswer {
        let pull = Pull { epoch: pilot.epoch, part_seen: pilot.part_seen, ..pull };
        let message = PullRequest { pilot: pilot.id, pull };
        let answer: Result<PullAnswer, Reply> =
            self.exchange(PULL_PATH, &pilot.session, format, &message).await;
        let answer = answer.unwrap_or_else(|reply| panic!("{:?}", reply.refusal()));
        pilot.epoch = answer.epoch;
        pilot.part_seen = answer.parts.last().map_or(pilot.part_seen, |part| part.number);
        answer
    }
}

/// A pilot played by a test.
pub(super) struct Pilot {
    pub(super) id: PilotId,
    pub(super) session: String,
    pub(super) tag: String,
    epoch: u64,
    part_seen: u64,
}

pub(super) fn registration(tag: &str) -> Registration {
    Registration {
        tag: tag.to_owned(),
        nonce: 7,
        node: NodeFacts {
            hostname: "node1".to_owned(),
            capacity: Resources::cores(2),
            ..NodeFacts::default()
        },
        uptime: Span::ZERO,
        predecessor: None,
    }
}

/// `echo {x}` for so many values of x, from 1.
pub(super) fn echo(n_tasks: u64) -> JobSpec {
    let command = CommandLine::Args(vec!["echo".to_owned(), "{x}".to_owned()]);
    let sweep: Sweep = serde_json::from_value(json!({
        "dimensions": [{"columns": [{"name": "x", "values": {"integers": [{"from": 1, "step": 1, "n": n_tasks}]}}]}],
        "sample": null,
    }))
    .unwrap();
    JobSpec { sweep, ..JobSpec::new(command, "/data".into()) }
}

struct Manager {
    engine: Engine,
    store: Store,
    clock: Clock,
    notices: broadcast::Sender<scheduler::engine::interface::Notice>,
    asked_for: mpsc::UnboundedSender<String>,
}

impl Manager {
    async fn run(mut self, mut queue: mpsc::Receiver<Asked>) {
        let mut replies = HashMap::new();
        loop {
            let due = self.engine.next_wakeup().unwrap_or(self.clock.now() + Span::from_secs(60));
            let first = tokio::select! {
                asked = queue.recv() => {
                    let Some(asked) = asked else { return };
                    replies.extend(asked.reply);
                    asked.event
                }
                () = tokio::time::sleep_until(self.clock.instant(due).into()) => Event::TimerFired,
            };
            let mut events = vec![first];
            while let Some(event) = events.pop() {
                let step = self.engine.handle(self.clock.now(), event);
                self.store.commit(&step.records).unwrap();
                for effect in step.effects {
                    match effect {
                        Effect::Answer { request, answer } => {
                            if let Some(reply) = replies.remove(&request) {
                                // Whoever asked may have hung up.
                                let _ = reply.send(answer);
                            }
                        }
                        Effect::Submit { allocation, tag, .. } => {
                            let outcome = SubmitOutcome::Accepted(format!("batch-{allocation}"));
                            events.push(Event::AllocationAnswered { allocation, outcome });
                            self.asked_for.send(tag).unwrap();
                        }
                        Effect::Notify(notice) => {
                            // Nobody may be watching.
                            let _ = self.notices.send(notice);
                        }
                        Effect::Plan(question) => {
                            events.push(Event::Planned { plan: question.answer() });
                        }
                        Effect::Withdraw { .. }
                        | Effect::Cancel { .. }
                        | Effect::List { .. }
                        | Effect::Load { .. }
                        | Effect::Scale { .. } => {}
                    }
                }
            }
        }
    }
}
