//! The other pilots of the platform: who they are, which objects they have, and what they may ask of this one.
//!
//! What is known of them is only where to look first. Whoever cannot be reached is left alone for a while; without
//! any, all comes from the manager.

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

/// How often the manager hears of this pilot when there is no news.
const PERIOD: Duration = Duration::from_secs(45);
/// … and while an object is fetched for which others wait.
const PERIOD_FETCHING: Duration = Duration::from_secs(5);
/// News that come together are told together.
const GATHERING: Duration = Duration::from_millis(10);
/// Whoever cannot be reached is not asked for so long.
const AVOIDED: Duration = Duration::from_secs(60);
/// When so many files in a row could not be had as their pilots were not reached, nobody is asked for any for as long:
/// nodes may not let each other through.
const N_UNREACHED_MAX: u32 = 3;

/// What is fetched in a second before any has been: the paper's network (004).
const BYTES_PER_S: u64 = 125_000_000;
/// Less says nothing of how fast it comes.
const MEASURED_BYTES_MIN: u64 = 1 << 20;

/// Objects that are asked after in one request: the answer names some pilots for each.
const N_ASKED: usize = 500;

/// What is known of the others, and what they are to know. Shared by all threads.
#[derive(Debug)]
pub struct Directory {
    url: String,
    certificate_sha256: Digest,
    state: Mutex<State>,
    has_news: Notify,
    /// How many tasks others may take here.
    n_to_take: AtomicU64,
}

#[derive(Debug)]
struct State {
    pilot: PilotId,
    session: String,
    /// The last one, and the one before: others may have that still.
    tokens: [String; 2],
    objects: HashSet<Digest>,
    gained: BTreeSet<Digest>,
    lost: BTreeSet<Digest>,
    fetching: BTreeSet<Digest>,
    is_all_due: bool,
    moved: Moved,
    /// Some of the others, how many there are with this one, and since when that is known.
    peers: Vec<Peer>,
    n_peers: u64,
    known_at: Option<Instant>,
    /// Bytes that have come from others, and how long that took.
    fetched: (u64, Duration),
    /// Who cannot be reached, until when.
    avoided: HashMap<PilotId, Instant>,
    /// How many in a row could not be reached for a file, and until when nobody is asked for any.
    n_unreached: u32,
    alone_until: Option<Instant>,
    /// Who gave something else under that name.
    distrusted: HashSet<(PilotId, Digest)>,
}

/// Where a file came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was here.
    Cache,
    /// Another pilot.
    Peer,
    /// The manager.
    Manager,
}

impl Directory {
    /// Of a pilot that others reach there.
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

    /// Others may take so many tasks here.
    pub fn set_n_to_take(&self, n: u64) {
        self.n_to_take.store(n, Ordering::Relaxed);
    }

    /// What is fetched in a second from others, one file at a time; a guess before any was.
    pub fn bytes_per_s(&self) -> u64 {
        let (n_bytes, took) = self.state().fetched;
        match took > Duration::ZERO && n_bytes >= MEASURED_BYTES_MIN {
            true => (n_bytes as f64 / took.as_secs_f64()) as u64,
            false => BYTES_PER_S,
        }
    }

    /// So much came from another pilot in so long.
    pub fn note_fetched(&self, n_bytes: u64, took: Duration) {
        let fetched = &mut self.state().fetched;
        // What was long ago counts less.
        *fetched = (fetched.0 / 8 * 7 + n_bytes, fetched.1 * 7 / 8 + took);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pilot has a new session.
    pub fn set_session(&self, pilot: PilotId, session: &str) {
        let mut state = self.state();
        state.pilot = pilot;
        session.clone_into(&mut state.session);
    }

    /// From now on others show this token, or the one before; and we this one.
    pub fn set_token(&self, token: &str) {
        let mut state = self.state();
        if state.tokens[0] != token {
            let before = std::mem::replace(&mut state.tokens[0], token.to_owned());
            state.tokens[1] = before;
        }
    }

    /// What others want to see from us; `None` before the manager has answered.
    pub fn token(&self) -> Option<String> {
        Some(self.state().tokens[0].clone()).filter(|token| !token.is_empty())
    }

    /// Whether somebody shows a token of the platform.
    pub fn knows_token(&self, shown: &str) -> bool {
        let hash = |text: &str| sha256::of(text.as_bytes());
        let is_known = |token: &String| !token.is_empty() && hash(token) == hash(shown);
        self.state().tokens.iter().any(is_known)
    }

    /// The object is here; others will hear of it.
    pub fn gained(&self, sha256: &Digest) {
        let mut state = self.state();
        if state.objects.insert(*sha256) {
            state.gained.insert(*sha256);
            state.lost.remove(sha256);
            self.has_news.notify_one();
        }
    }

    /// It is not here any more.
    pub fn lost(&self, sha256: &Digest) {
        let mut state = self.state();
        if state.objects.remove(sha256) {
            state.gained.remove(sha256);
            state.lost.insert(*sha256);
            self.has_news.notify_one();
        }
    }

    /// So much came from there.
    pub fn note_moved(&self, from: Origin, n_bytes: u64) {
        let moved = &mut self.state().moved;
        let sum = match from {
            Origin::Cache => &mut moved.from_cache,
            Origin::Peer => &mut moved.from_peers,
            Origin::Manager => &mut moved.from_manager,
        };
        *sum = sum.saturating_add(n_bytes);
    }

    /// Bytes by where they came from.
    pub fn moved(&self) -> Moved {
        self.state().moved
    }

    /// Others wait for this one until the guard is dropped.
    pub fn fetching(self: &Arc<Self>, sha256: &Digest) -> Fetching {
        self.state().fetching.insert(*sha256);
        Fetching(Arc::clone(self), *sha256)
    }

    /// Tells the manager what is new here, so that it is known when this returns; if it cannot, that is told later.
    pub async fn tell(&self, client: &Client) {
        if let Err(error) = self.exchange(client, Vec::new(), Vec::new()).await {
            tracing::debug!(%error, "the manager does not hear of what is here");
        }
    }

    /// Where an object is, as the manager knows; `None` while nobody is asked for any.
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

    /// Who has these objects: of each one other pilot, unless it is here.
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

    /// It could not be reached.
    pub fn avoid(&self, pilot: PilotId) {
        let mut state = self.state();
        let now = Instant::now();
        state.avoided.retain(|_, until| *until > now);
        state.avoided.insert(pilot, now + AVOIDED);
    }

    /// It could not be reached for a file.
    pub fn not_reached(&self, pilot: PilotId) {
        self.avoid(pilot);
        let mut state = self.state();
        state.n_unreached += 1;
        if state.n_unreached >= N_UNREACHED_MAX {
            (state.n_unreached, state.alone_until) = (0, Some(Instant::now() + AVOIDED));
        }
    }

    /// One could be.
    pub fn reached(&self) {
        self.state().n_unreached = 0;
    }

    /// Whether nobody is asked for files, as none of those who were asked last could be reached.
    pub fn is_alone(&self) -> bool {
        self.state().alone_until.is_some_and(|until| until > Instant::now())
    }

    /// What it gave under that name was something else.
    pub fn distrust(&self, pilot: PilotId, sha256: &Digest) {
        self.state().distrusted.insert((pilot, *sha256));
    }

    /// Tells the manager what is new here, and hears what is elsewhere. One that does not know us is told all.
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

    /// Tells the manager what is new whenever something is, and now and then that this pilot is there.
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

/// As many as one message may name.
fn first(all: &mut BTreeSet<Digest>) -> Vec<Digest> {
    let mut taken = Vec::new();
    while taken.len() < N_TOLD_MAX
        && let Some(sha256) = all.pop_first()
    {
        taken.push(sha256);
    }
    taken
}

/// An object is being fetched.
#[derive(Debug)]
pub struct Fetching(Arc<Directory>, Digest);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.state().fetching.remove(&self.1);
    }
}

/// Brings to the pilot's loop that another one has nothing to do; its answer is how many tasks that one gets.
pub type Asks = Arc<dyn Fn(PilotId, oneshot::Sender<u64>) + Send + Sync>;

/// Serves the others, on a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct Host {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Host {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread is left.
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
            // Files that are on their way to others are fetched elsewhere.
            drop(runtime);
        })?;
        Ok(Host { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, others fetch from elsewhere.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
