//! Asks other pilots for tasks when this pilot is idle (paper 004): asks some for their number of tasks, then
//! the one with the most for half of them. The tasks themselves come from the manager. If other pilots cannot
//! be reached, the manager asks one of them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use protocol::peers::{HuntRequest, PEER_LOAD_PATH, PEER_STEAL_PATH, Peer};
use scheduler::{
    ids::PilotId,
    pilot::Hunted,
    policy::stealing::hunt::{victim, whom_to_ask},
    rng::Rng,
};

use super::{Directory, PeerClients};
use crate::session::client::{Client, random};

/// Time limit of an answer; a pilot that exceeds it is avoided for a while.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the list of other pilots is used before it is fetched again.
const KNOWN: Duration = Duration::from_secs(1);

/// Asks other pilots for tasks.
pub async fn hunt(directory: &Directory, client: &Client, peers: &PeerClients) -> Hunted {
    let is_old = directory.state().known_at.is_none_or(|at| at.elapsed() > KNOWN);
    if is_old && directory.exchange(client, Vec::new(), Vec::new()).await.is_err() {
        return Hunted::InVain;
    }
    let asked = directory.some_peers(&mut Rng::new(random()));
    let loads = join_all(asked.iter().map(|peer| ask(directory, peers, peer, None))).await;
    let loads = loads.into_iter().enumerate().map(|(at, load)| (at, load.unwrap_or(0) as usize));
    let (thief, session) = directory.who_asks();
    match victim(loads) {
        Some(victim) => {
            let n_tasks = ask(directory, peers, &asked[victim], Some(thief)).await.unwrap_or(0);
            directory.note_taken(n_tasks);
            if n_tasks > 0 { Hunted::Promised } else { Hunted::InVain }
        }
        None if directory.reaches_all() => Hunted::InVain,
        None => ask_manager(client, &session, thief).await,
    }
}

/// Lets the manager ask one of the other pilots.
pub async fn ask_manager(client: &Client, session: &str, pilot: PilotId) -> Hunted {
    let answer = client.hunt(session, &HuntRequest { pilot }).await;
    let answer =
        answer.inspect_err(|error| tracing::debug!(%error, "the manager does not ask others for tasks"));
    if answer.is_ok_and(|answer| answer.is_any_asked) { Hunted::PassedOn } else { Hunted::InVain }
}

/// Asks another pilot for its number of tasks, or (with `thief`) for tasks.
async fn ask(directory: &Directory, peers: &PeerClients, peer: &Peer, thief: Option<PilotId>) -> Option<u64> {
    let token = directory.token()?;
    let answer = async {
        let client = peers.of(peer)?;
        let request = match thief {
            None => client.get(format!("{}{PEER_LOAD_PATH}", peer.url)),
            Some(thief) => client.post(format!("{}{PEER_STEAL_PATH}", peer.url)).body(thief.0.to_string()),
        };
        request.bearer_auth(token).timeout(PATIENCE).send().await?.error_for_status()?.text().await
    };
    match answer.await {
        Ok(word) => word.trim().parse().ok(),
        Err(error) => {
            tracing::debug!(pilot = %peer.pilot, %error, "another pilot does not say what it has");
            directory.avoid(peer.pilot);
            None
        }
    }
}

impl Directory {
    /// Draws the pilots to ask in one attempt.
    pub(super) fn some_peers(&self, luck: &mut Rng) -> Vec<Peer> {
        let state = self.state();
        let now = Instant::now();
        let is_there = |peer: &&Peer| state.avoided.get(&peer.pilot).is_none_or(|until| *until <= now);
        let there: Vec<&Peer> = state.peers.iter().filter(is_there).collect();
        let n = usize::try_from(state.n_peers).unwrap_or(usize::MAX);
        // The number is drawn from all pilots, but only some of them are known here.
        let n_asked = whom_to_ask(n, 0, luck).count();
        let drawn: std::collections::BTreeSet<usize> =
            (0..n_asked).map(|_| luck.below(there.len() as u64) as usize).collect();
        drawn.into_iter().filter_map(|at| there.get(at).map(|peer| (*peer).clone())).collect()
    }

    fn who_asks(&self) -> (PilotId, String) {
        let state = self.state();
        (state.pilot, state.session.clone())
    }

    /// Returns whether none of the known pilots is being avoided.
    fn reaches_all(&self) -> bool {
        let state = self.state();
        let now = Instant::now();
        let is_avoided = |peer: &Peer| state.avoided.get(&peer.pilot).is_some_and(|until| *until > now);
        !state.peers.iter().any(is_avoided)
    }

    fn note_taken(&self, n_tasks: u64) {
        if n_tasks > 0 {
            let moved = &mut self.state().moved;
            moved.n_taken = moved.n_taken.saturating_add(n_tasks);
            self.has_news.notify_one();
        }
    }
}
