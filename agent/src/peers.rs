//! The other pilots of the platform: their addresses, their objects, and their requests to this pilot.
//!
//! The directory only says where to look first. A pilot that cannot be reached is avoided for a while;
//! without other pilots everything comes from the manager.

mod clients;
mod patience;
mod serve;
mod steal;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use protocol::peers::{Moved, N_TOLD_MAX, Peer, PeersAnswer, PeersRequest, Place};
use scheduler::{digest::Digest, ids::PilotId};
use tokio::sync::{Notify, oneshot};

pub use self::{
    clients::PeerClients,
    serve::{Endpoint, Serving},
    steal::{ask_manager, hunt},
};
use crate::{
    node::limits::OwnRuntime,
    session::client::{Client, ClientError},
    staging::cache::Cache,
    sys::sha256,
};

/// Interval between messages to the manager without news.
const PERIOD: Duration = Duration::from_secs(45);
/// The interval while an object is fetched for which other pilots wait.
const PERIOD_FETCHING: Duration = Duration::from_secs(5);
/// Time in which news are collected for one message.
const GATHERING: Duration = Duration::from_millis(10);
/// How long a pilot that could not be reached is avoided.
const AVOIDED: Duration = Duration::from_secs(60);
/// After this many fetches in a row from pilots that could not be reached, no pilot is asked for files for as
/// long: the network may not connect the nodes.
const N_UNREACHED_MAX: u32 = 3;

/// Assumed bytes per second before the first fetch: the network of paper 004.
const BYTES_PER_S: u64 = 125_000_000;
/// Smallest number of bytes that allows to measure the speed.
const MEASURED_BYTES_MIN: u64 = 1 << 20;

/// The most objects in one request; the answer has some pilots for each of them.
const N_ASKED: usize = 500;

/// The known facts about other pilots, and the news for the manager. All threads share it.
#[derive(Debug)]
pub struct Directory {
    url: String,
    certificate_sha256: Digest,
    state: Mutex<State>,
    has_news: Notify,
    /// Number of tasks that other pilots may take here.
    n_to_take: AtomicU64,
}

#[derive(Debug)]
struct State {
    pilot: PilotId,
    session: String,
    /// The last token and the one before: other pilots may still have the old one.
    tokens: [String; 2],
    objects: HashSet<Digest>,
    gained: BTreeSet<Digest>,
    lost: BTreeSet<Digest>,
    fetching: BTreeSet<Digest>,
    is_all_due: bool,
    moved: Moved,
    /// Some of the other pilots, the number of pilots including this one, and the time of this information.
    peers: Vec<Peer>,
    n_peers: u64,
    known_at: Option<Instant>,
    /// Bytes that were fetched from other pilots, and the time that it took.
    fetched: (u64, Duration),
    /// Pilots that cannot be reached, and until when they are avoided.
    avoided: HashMap<PilotId, Instant>,
    /// Number of fetches in a row from pilots that could not be reached, and until when no pilot is asked for
    /// files.
    n_unreached: u32,
    alone_until: Option<Instant>,
    /// Pilots that sent wrong contents for an object.
    distrusted: HashSet<(PilotId, Digest)>,
}

/// The origin of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// This node's cache.
    Cache,
    /// Another pilot.
    Peer,
    /// The manager.
    Manager,
}

impl Directory {
    /// Returns an empty directory for a pilot whose endpoint other pilots reach.
    pub fn new(endpoint: &Endpoint, pilot: PilotId, session: &str) -> Directory {
        let state = State {
            pilot,
            session: session.to_owned(),
            tokens: Default::default(),
            objects: HashSet::new(),
            gained: BTreeSet::new(),
            lost: BTreeSet::new(),
            fetching: BTreeSet::new(),
            is_all_due: false,
            moved: Moved::default(),
            peers: Vec::new(),
            n_peers: 0,
            known_at: None,
            fetched: (0, Duration::ZERO),
            avoided: HashMap::new(),
            n_unreached: 0,
            alone_until: None,
            distrusted: HashSet::new(),
        };
        Directory {
            url: endpoint.url().to_owned(),
            certificate_sha256: endpoint.certificate_sha256(),
            state: Mutex::new(state),
            has_news: Notify::new(),
            n_to_take: AtomicU64::new(0),
        }
    }

    /// Sets the number of tasks that other pilots may take here.
    pub fn set_n_to_take(&self, n: u64) {
        self.n_to_take.store(n, Ordering::Relaxed);
    }

    /// Returns the speed of fetching from other pilots, one file at a time; a guess before the first fetch.
    pub fn bytes_per_s(&self) -> u64 {
        let (n_bytes, took) = self.state().fetched;
        match took > Duration::ZERO && n_bytes >= MEASURED_BYTES_MIN {
            true => (n_bytes as f64 / took.as_secs_f64()) as u64,
            false => BYTES_PER_S,
        }
    }

    /// Counts a fetch from another pilot.
    pub fn note_fetched(&self, n_bytes: u64, took: Duration) {
        let fetched = &mut self.state().fetched;
        // Older fetches count less.
        *fetched = (fetched.0 / 8 * 7 + n_bytes, fetched.1 * 7 / 8 + took);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the session of the pilot.
    pub fn set_session(&self, pilot: PilotId, session: &str) {
        let mut state = self.state();
        state.pilot = pilot;
        session.clone_into(&mut state.session);
    }

    /// Sets the token that this pilot shows; other pilots may show this one or the one before.
    pub fn set_token(&self, token: &str) {
        let mut state = self.state();
        if state.tokens[0] != token {
            let before = std::mem::replace(&mut state.tokens[0], token.to_owned());
            state.tokens[1] = before;
        }
    }

    /// Returns the token for requests to other pilots; `None` before the manager's first answer.
    pub fn token(&self) -> Option<String> {
        Some(self.state().tokens[0].clone()).filter(|token| !token.is_empty())
    }

    /// Returns whether a token is one of the platform's.
    pub fn knows_token(&self, shown: &str) -> bool {
        let hash = |text: &str| sha256::of(text.as_bytes());
        let is_known = |token: &String| !token.is_empty() && hash(token) == hash(shown);
        self.state().tokens.iter().any(is_known)
    }

    /// Notes that an object is here; the manager tells other pilots.
    pub fn gained(&self, sha256: &Digest) {
        let mut state = self.state();
        if state.objects.insert(*sha256) {
            state.gained.insert(*sha256);
            state.lost.remove(sha256);
            self.has_news.notify_one();
        }
    }

    /// Notes that an object is no longer here.
    pub fn lost(&self, sha256: &Digest) {
        let mut state = self.state();
        if state.objects.remove(sha256) {
            state.gained.remove(sha256);
            state.lost.insert(*sha256);
            self.has_news.notify_one();
        }
    }

    /// Counts bytes by their origin.
    pub fn note_moved(&self, from: Origin, n_bytes: u64) {
        let moved = &mut self.state().moved;
        let sum = match from {
            Origin::Cache => &mut moved.from_cache,
            Origin::Peer => &mut moved.from_peers,
            Origin::Manager => &mut moved.from_manager,
        };
        *sum = sum.saturating_add(n_bytes);
    }

    /// Returns the number of bytes by origin.
    pub fn moved(&self) -> Moved {
        self.state().moved
    }

    /// Notes that this object is being fetched until the guard is dropped; other pilots wait for it.
    pub fn fetching(self: &Arc<Self>, sha256: &Digest) -> Fetching {
        self.state().fetching.insert(*sha256);
        Fetching(Arc::clone(self), *sha256)
    }

    /// Sends the news to the manager and waits for its answer; if that fails, they are sent later.
    pub async fn tell(&self, client: &Client) {
        if let Err(error) = self.exchange(client, Vec::new(), Vec::new()).await {
            tracing::debug!(%error, "the manager does not hear of what is here");
        }
    }

    /// Returns the pilots that have an object, as the manager knows; `None` while no pilot is asked for
    /// files.
    ///
    /// # Errors
    /// The manager cannot be asked.
    pub async fn find(&self, client: &Client, sha256: &Digest) -> Result<Option<Place>, ClientError> {
        if self.is_alone() {
            return Ok(None);
        }
        let mut answer = self.exchange(client, vec![*sha256], Vec::new()).await?;
        let Some(mut place) = answer.places.pop() else { return Ok(None) };
        let state = self.state();
        let is_good = |peer: &Peer| {
            let is_avoided = state.avoided.get(&peer.pilot).is_some_and(|until| *until > Instant::now());
            !is_avoided && !state.distrusted.contains(&(peer.pilot, *sha256))
        };
        place.at.retain(is_good);
        Ok(Some(place))
    }

    /// Returns one other pilot for each of these objects, except for objects that are here.
    pub async fn who_has(&self, client: &Client, asked: Vec<Digest>) -> HashMap<Digest, PilotId> {
        let mut found = HashMap::new();
        for some in asked.chunks(N_ASKED) {
            let Ok(answer) = self.exchange(client, Vec::new(), some.to_vec()).await else { return found };
            let state = self.state();
            for place in answer.places.iter().filter(|place| !state.objects.contains(&place.sha256)) {
                found.extend(place.at.first().map(|peer| (place.sha256, peer.pilot)));
            }
        }
        found
    }

    /// Avoids a pilot that could not be reached.
    pub fn avoid(&self, pilot: PilotId) {
        let mut state = self.state();
        let now = Instant::now();
        state.avoided.retain(|_, until| *until > now);
        state.avoided.insert(pilot, now + AVOIDED);
    }

    /// Notes that a pilot could not be reached for a file.
    pub fn not_reached(&self, pilot: PilotId) {
        self.avoid(pilot);
        let mut state = self.state();
        state.n_unreached += 1;
        if state.n_unreached >= N_UNREACHED_MAX {
            (state.n_unreached, state.alone_until) = (0, Some(Instant::now() + AVOIDED));
        }
    }

    /// Notes that a pilot was reached.
    pub fn reached(&self) {
        self.state().n_unreached = 0;
    }

    /// Returns whether no pilot is asked for files, because none of the last ones could be reached.
    pub fn is_alone(&self) -> bool {
        self.state().alone_until.is_some_and(|until| until > Instant::now())
    }

    /// Notes that a pilot sent wrong contents for an object.
    pub fn distrust(&self, pilot: PilotId, sha256: &Digest) {
        self.state().distrusted.insert((pilot, *sha256));
    }

    /// Sends the news to the manager and returns its answer. A manager that does not know this pilot gets all
    /// objects.
    async fn exchange(
        &self,
        client: &Client,
        wanted: Vec<Digest>,
        asked: Vec<Digest>,
    ) -> Result<PeersAnswer, ClientError> {
        let answer = self.exchange_once(client, wanted.clone(), asked.clone()).await?;
        if answer.is_known {
            return Ok(answer);
        }
        self.state().is_all_due = true;
        self.exchange_once(client, wanted, asked).await
    }

    async fn exchange_once(
        &self,
        client: &Client,
        wanted: Vec<Digest>,
        asked: Vec<Digest>,
    ) -> Result<PeersAnswer, ClientError> {
        let (session, request) = self.request(wanted, asked);
        let answered = client.peers(&session, &request).await;
        if let Ok(answer) = &answered {
            self.set_token(&answer.token);
        }
        let mut state = self.state();
        match &answered {
            Ok(answer) => {
                (state.peers, state.n_peers) = (answer.peers.clone(), answer.n_peers);
                state.known_at = Some(Instant::now());
            }
            Err(_) => {
                state.is_all_due |= request.is_all;
                let State { objects, gained, lost, .. } = &mut *state;
                gained.extend(request.gained.iter().filter(|sha256| objects.contains(sha256)));
                lost.extend(request.lost.iter().filter(|sha256| !objects.contains(sha256)));
            }
        }
        answered
    }

    fn request(&self, wanted: Vec<Digest>, asked: Vec<Digest>) -> (String, PeersRequest) {
        let mut state = self.state();
        let is_all = std::mem::take(&mut state.is_all_due);
        if is_all {
            state.gained = state.objects.iter().copied().collect();
        }
        let me =
            Peer { pilot: state.pilot, url: self.url.clone(), certificate_sha256: self.certificate_sha256 };
        let request = PeersRequest {
            me,
            is_all,
            gained: first(&mut state.gained),
            lost: first(&mut state.lost),
            fetching: state.fetching.iter().copied().take(N_TOLD_MAX).collect(),
            wanted,
            asked,
            moved: state.moved,
        };
        (state.session.clone(), request)
    }

    /// Sends news to the manager as soon as there are some, and from time to time without news.
    async fn keep_known(&self, client: &Client) {
        loop {
            self.tell(client).await;
            let is_fetching = !self.state().fetching.is_empty();
            let period = if is_fetching { PERIOD_FETCHING } else { PERIOD };
            if tokio::time::timeout(period, self.has_news.notified()).await.is_ok() {
                tokio::time::sleep(GATHERING).await;
            }
        }
    }
}

/// Takes as many objects as one message may contain.
fn first(all: &mut BTreeSet<Digest>) -> Vec<Digest> {
    let mut taken = Vec::new();
    while taken.len() < N_TOLD_MAX
        && let Some(sha256) = all.pop_first()
    {
        taken.push(sha256);
    }
    taken
}

/// A guard that lives while an object is being fetched.
#[derive(Debug)]
pub struct Fetching(Arc<Directory>, Digest);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.state().fetching.remove(&self.1);
    }
}

/// Passes the request of an idle pilot for tasks to the pilot's loop, which answers with their number.
pub type Asks = Arc<dyn Fn(PilotId, oneshot::Sender<u64>) + Send + Sync>;

/// A thread that serves other pilots until this is dropped.
#[derive(Debug)]
pub struct Host {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Host {
    /// Starts the thread.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn start(
        endpoint: Endpoint,
        client: Client,
        directory: Arc<Directory>,
        cache: Arc<Cache>,
        asks: Asks,
    ) -> io::Result<Host> {
        let runtime = OwnRuntime::new()?;
        let (stop, stopped) = oneshot::channel();
        let work = async move {
            tokio::select! {
                _ = stopped => {}
                () = directory.keep_known(&client) => {}
                () = endpoint.serve(Arc::clone(&directory), cache, asks) => {}
            }
        };
        let thread = thread::Builder::new().name("pilotfish-peers".into()).spawn(move || {
            runtime.block_on(work);
            // Dropping it cuts off transfers; the other pilots fetch these files elsewhere.
            drop(runtime);
        })?;
        Ok(Host { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // After a panic the other pilots fetch from elsewhere.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
