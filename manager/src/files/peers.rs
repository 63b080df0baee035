//! Which pilots of a platform can reach each other, and which objects each has. In memory only: after a restart they
//! tell it again. Nothing is decided by it but where a pilot looks for a file first, so it may be out of date.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use protocol::peers::{Moved, Peer, PeersAnswer, PeersRequest, Place};
use ring::{
    error::Unspecified,
    rand::{SecureRandom, SystemRandom},
};
use scheduler::{
    digest::Digest,
    ids::{PilotId, PlatformId},
};

/// Who has said nothing for so long is not named to others.
const SILENCE_MAX: Duration = Duration::from_secs(150);
/// For so long others wait for who fetches an object and says no more.
const PROMISE: Duration = Duration::from_secs(15);
/// Who is silent is looked for so often.
const LOOK: Duration = Duration::from_secs(1);
/// Others that are named in an answer at most.
const N_PEERS: usize = 64;
/// Pilots that are named for an object at most.
const N_HOLDERS: usize = 8;
/// Objects × pilots that are remembered at most, of all platforms.
const N_PLACES_MAX: usize = 1 << 20;
/// Objects of a platform that others wait for at most; who wants more fetches them itself.
const N_PROMISED_MAX: usize = 1 << 16;

/// All platforms' pilots that have said where they can be reached.
#[derive(Debug, Default)]
pub struct Peers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    groups: BTreeMap<PlatformId, Group>,
    n_places: usize,
    /// Counts answers, so that not all are told the same few.
    n_answers: usize,
}

#[derive(Debug)]
struct Group {
    token: String,
    members: BTreeMap<PilotId, Member>,
    holders: HashMap<Digest, BTreeSet<PilotId>>,
    /// Who fetches an object that nobody has, and until when that is believed.
    promised: HashMap<Digest, (PilotId, Instant)>,
    looked_at: Option<Instant>,
    /// What those have moved that are not here any more.
    moved: Moved,
}

#[derive(Debug)]
struct Member {
    peer: Peer,
    objects: BTreeSet<Digest>,
    heard_at: Instant,
    moved: Moved,
}

impl Peers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a pilot of that platform says, and tells it who else is there. O(pilots of the platform, objects
    /// named).
    ///
    /// # Errors
    /// The system draws no random numbers for a token.
    pub fn exchange(
        &self,
        platform: PlatformId,
        request: PeersRequest,
        now: Instant,
    ) -> Result<PeersAnswer, Unspecified> {
        let mut state = self.state();
        let State { groups, n_places, n_answers } = &mut *state;
        *n_answers = n_answers.wrapping_add(1);
        let group = match groups.entry(platform) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Group::new()?),
        };
        group.forget_silent(n_places, now);
        let me = request.me.pilot;
        let is_known = request.is_all || group.members.contains_key(&me);
        group.note(request.me, request.moved, now);
        if request.is_all {
            group.lose_all(me, n_places);
        }
        group.gain(me, &request.gained, n_places);
        group.lose(me, &request.lost, n_places);
        for sha256 in &request.fetching {
            if let Some((_, until)) = group.promised.get_mut(sha256).filter(|(by, _)| *by == me) {
                *until = now + PROMISE;
            }
        }
        let wanted = request.wanted.into_iter().map(|sha256| group.place(me, sha256, *n_answers, now));
        let mut places: Vec<Place> = wanted.collect();
        let asked = request.asked.into_iter();
        places.extend(asked.map(|sha256| Place {
            sha256,
            at: group.holders(me, &sha256, *n_answers),
            is_coming: false,
        }));
        Ok(PeersAnswer {
            token: group.token.clone(),
            is_known,
            peers: group.others(me, *n_answers),
            n_peers: group.members.len() as u64,
            places,
        })
    }

    /// The pilot has left.
    pub fn forget(&self, pilot: PilotId) {
        let mut state = self.state();
        let State { groups, n_places, .. } = &mut *state;
        groups.values_mut().for_each(|group| group.forget(pilot, n_places));
    }

    /// Bytes of inputs of all platforms' pilots by where they came from, since the start.
    pub fn moved(&self) -> Moved {
        let state = self.state();
        let of_group =
            |group: &Group| group.members.values().fold(group.moved, |sum, one| add(sum, one.moved));
        state.groups.values().map(of_group).fold(Moved::default(), add)
    }
}

impl Group {
    fn new() -> Result<Group, Unspecified> {
        let mut secret = [0_u8; 32];
        SystemRandom::new().fill(&mut secret)?;
        let token = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let (members, holders, promised) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Ok(Group { token, members, holders, promised, looked_at: None, moved: Moved::default() })
    }

    fn note(&mut self, peer: Peer, moved: Moved, now: Instant) {
        match self.members.get_mut(&peer.pilot) {
            Some(member) => (member.peer, member.moved, member.heard_at) = (peer, moved, now),
            None => {
                let member = Member { peer, moved, objects: BTreeSet::new(), heard_at: now };
                self.members.insert(member.peer.pilot, member);
            }
        }
    }

    fn gain(&mut self, pilot: PilotId, gained: &[Digest], n_places: &mut usize) {
        let Some(member) = self.members.get_mut(&pilot) else { return };
        for sha256 in gained {
            self.promised.remove(sha256);
            // What has no place is fetched from others, or from here.
            if *n_places < N_PLACES_MAX && member.objects.insert(*sha256) {
                *n_places += 1;
                self.holders.entry(*sha256).or_default().insert(pilot);
            }
        }
    }

    fn lose(&mut self, pilot: PilotId, lost: &[Digest], n_places: &mut usize) {
        let Some(member) = self.members.get_mut(&pilot) else { return };
        for sha256 in lost {
            if member.objects.remove(sha256) {
                *n_places -= 1;
            }
            if let Some(holders) = self.holders.get_mut(sha256) {
                holders.remove(&pilot);
                if holders.is_empty() {
                    self.holders.remove(sha256);
                }
            }
        }
    }

    fn lose_all(&mut self, pilot: PilotId, n_places: &mut usize) {
        let all = self.members.get(&pilot).map(|member| member.objects.iter().copied().collect::<Vec<_>>());
        self.lose(pilot, &all.unwrap_or_default(), n_places);
    }

    fn forget(&mut self, pilot: PilotId, n_places: &mut usize) {
        self.lose_all(pilot, n_places);
        self.promised.retain(|_, (by, _)| *by != pilot);
        if let Some(member) = self.members.remove(&pilot) {
            self.moved = add(self.moved, member.moved);
        }
    }

    fn forget_silent(&mut self, n_places: &mut usize, now: Instant) {
        if self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < LOOK) {
            return;
        }
        self.looked_at = Some(now);
        let is_silent = |member: &Member| now.saturating_duration_since(member.heard_at) > SILENCE_MAX;
        let silent: Vec<PilotId> =
            self.members.iter().filter(|(_, member)| is_silent(member)).map(|(pilot, _)| *pilot).collect();
        silent.into_iter().for_each(|pilot| self.forget(pilot, n_places));
        self.promised.retain(|_, (_, until)| *until > now);
    }

    /// Where a pilot finds an object that it wants. The first to want what nobody has is to fetch it.
    fn place(&mut self, me: PilotId, sha256: Digest, from: usize, now: Instant) -> Place {
        let at = self.holders(me, &sha256, from);
        let by_other = self.promised.get(&sha256).is_some_and(|(by, until)| *by != me && *until > now);
        let is_coming = at.is_empty() && by_other;
        if at.is_empty() && !by_other && self.promised.len() < N_PROMISED_MAX {
            self.promised.insert(sha256, (me, now + PROMISE));
        }
        Place { sha256, at, is_coming }
    }

    /// Some that have an object.
    fn holders(&self, me: PilotId, sha256: &Digest, from: usize) -> Vec<Peer> {
        let others = self.holders.get(sha256).into_iter().flatten().filter(|pilot| **pilot != me);
        let others: Vec<&Peer> = others.filter_map(|pilot| Some(&self.members.get(pilot)?.peer)).collect();
        some_of(&others, N_HOLDERS, from)
    }

    fn others(&self, me: PilotId, from: usize) -> Vec<Peer> {
        let others = self.members.iter().filter(|(pilot, _)| **pilot != me);
        let others: Vec<&Peer> = others.map(|(_, member)| &member.peer).collect();
        some_of(&others, N_PEERS, from)
    }
}

/// So many of all, beginning somewhere.
fn some_of(all: &[&Peer], n: usize, from: usize) -> Vec<Peer> {
    let start = from.checked_rem(all.len()).unwrap_or(0);
    all.iter().cycle().skip(start).take(n.min(all.len())).map(|peer| (*peer).clone()).collect()
}

fn add(sum: Moved, more: Moved) -> Moved {
    Moved {
        from_cache: sum.from_cache.saturating_add(more.from_cache),
        from_peers: sum.from_peers.saturating_add(more.from_peers),
        from_manager: sum.from_manager.saturating_add(more.from_manager),
        n_taken: sum.n_taken.saturating_add(more.n_taken),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: PlatformId = PlatformId(1);

    fn request(pilot: u64) -> PeersRequest {
        let me = Peer {
            pilot: PilotId(pilot),
            url: format!("https://node{pilot}:1"),
            certificate_sha256: Digest::default(),
        };
        let (gained, lost, fetching, wanted, asked) = (vec![], vec![], vec![], vec![], vec![]);
        PeersRequest { me, is_all: false, gained, lost, fetching, wanted, asked, moved: Moved::default() }
    }

    fn digest(n: u8) -> Digest {
        Digest([n; 32])
    }

    fn wants(peers: &Peers, pilot: u64, now: Instant) -> (Vec<u64>, bool) {
        let request = PeersRequest { wanted: vec![digest(1)], ..request(pilot) };
        let answer = peers.exchange(HERE, request, now).expect("an answer");
        let place = &answer.places[0];
        (place.at.iter().map(|peer| peer.pilot.0).collect(), place.is_coming)
    }

    #[test]
    fn the_first_who_wants_what_nobody_has_fetches_it_and_the_others_wait_for_it() {
        let (peers, now) = (Peers::default(), Instant::now());
        assert_eq!(wants(&peers, 1, now), (vec![], false));
        assert_eq!(wants(&peers, 1, now), (vec![], false), "it may ask again");
        assert_eq!(wants(&peers, 2, now), (vec![], true));
        let gained = PeersRequest { gained: vec![digest(1)], ..request(1) };
        peers.exchange(HERE, gained, now).expect("an answer");
        assert_eq!(wants(&peers, 2, now), (vec![1], false));
        let asked = PeersRequest { asked: vec![digest(2), digest(1)], ..request(2) };
        let places = peers.exchange(HERE, asked, now).expect("an answer").places;
        assert_eq!(places.iter().map(|place| place.at.len()).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(wants(&peers, 1, now), (vec![], false), "nobody is sent to himself");
    }

    #[test]
    fn a_promise_holds_for_a_while_and_as_long_as_it_is_renewed() {
        let (peers, now) = (Peers::default(), Instant::now());
        wants(&peers, 1, now);
        let later = now + PROMISE - Duration::from_secs(1);
        peers
            .exchange(HERE, PeersRequest { fetching: vec![digest(1)], ..request(1) }, later)
            .expect("an answer");
        assert_eq!(wants(&peers, 2, now + PROMISE + Duration::from_secs(1)), (vec![], true));
        assert_eq!(wants(&peers, 2, later + PROMISE), (vec![], false), "it is for who asks now");
    }

    #[test]
    fn who_leaves_or_falls_silent_is_forgotten_with_what_it_has() {
        let (peers, now) = (Peers::default(), Instant::now());
        for pilot in [1, 2, 3] {
            let gained = PeersRequest { gained: vec![digest(1)], ..request(pilot) };
            peers.exchange(HERE, gained, now).expect("an answer");
        }
        peers.forget(PilotId(1));
        assert_eq!(wants(&peers, 9, now).0.len(), 2);
        let later = now + SILENCE_MAX + Duration::from_secs(1);
        peers.exchange(HERE, request(2), now + Duration::from_secs(9)).expect("an answer");
        assert_eq!(wants(&peers, 9, later), (vec![2], false));
        assert_eq!(peers.state().n_places, 1);
        let lost = PeersRequest { lost: vec![digest(1), digest(2)], ..request(2) };
        peers.exchange(HERE, lost, later).expect("an answer");
        assert_eq!(peers.state().n_places, 0);
    }

    #[test]
    fn whoever_is_new_here_is_asked_for_all_and_sees_its_own_platform_only() {
        let (peers, now) = (Peers::default(), Instant::now());
        let first = peers.exchange(HERE, request(1), now).expect("an answer");
        assert!(!first.is_known && first.peers.is_empty());
        let all = PeersRequest { is_all: true, gained: vec![digest(1)], ..request(1) };
        assert!(peers.exchange(HERE, all, now).is_ok_and(|answer| answer.is_known));
        assert!(peers.exchange(HERE, request(1), now).is_ok_and(|answer| answer.is_known));
        let other = peers.exchange(PlatformId(2), request(2), now).expect("an answer");
        assert!(other.peers.is_empty() && other.token != first.token);
        let second = peers.exchange(HERE, request(3), now).expect("an answer");
        assert_eq!((second.peers.len(), second.n_peers, second.token == first.token), (1, 2, true));
    }

    fn digests() -> impl Strategy<Value = Vec<Digest>> {
        prop::collection::vec((0..4_u8).prop_map(digest), 0..4)
    }

    proptest! {
        /// Against what each has told: nobody is named who has not the object, nor to himself, and what is counted is
        /// what is kept.
        #[test]
        fn only_those_are_named_who_say_that_they_have_it(
            told in prop::collection::vec((0..4_u64, digests(), digests(), any::<bool>(), 0..60_u64), 1..60),
        ) {
            let peers = Peers::default();
            let mut now = Instant::now();
            let mut has = BTreeMap::<u64, (BTreeSet<Digest>, Instant)>::new();
            for (pilot, gained, lost, is_all, seconds) in told {
                now += Duration::from_secs(seconds);
                has.retain(|_, (_, heard_at)| now.duration_since(*heard_at) <= SILENCE_MAX);
                let (mine, heard_at) = has.entry(pilot).or_insert((BTreeSet::new(), now));
                *heard_at = now;
                if is_all {
                    mine.clear();
                }
                mine.extend(&gained);
                mine.retain(|sha256| !lost.contains(sha256));
                let wanted = [0, 1, 2, 3].map(digest).to_vec();
                let answer = peers.exchange(HERE, PeersRequest { gained, lost, is_all, wanted, ..request(pilot) }, now);
                for place in answer.expect("an answer").places {
                    let at: BTreeSet<u64> = place.at.iter().map(|peer| peer.pilot.0).collect();
                    let holders = has.iter().filter(|(id, (mine, _))| **id != pilot && mine.contains(&place.sha256));
                    prop_assert_eq!(&at, &holders.map(|(id, _)| *id).collect());
                    prop_assert!(at.is_empty() || !place.is_coming);
                }
                let n_places: usize = has.values().map(|(mine, _)| mine.len()).sum();
                prop_assert_eq!(peers.state().n_places, n_places);
            }
        }
    }

    #[test]
    fn what_is_waited_for_is_bounded() {
        let (peers, now) = (Peers::default(), Instant::now());
        let other = |n: usize| {
            let mut sha256 = digest(0);
            sha256.0[..8].copy_from_slice(&n.to_le_bytes());
            sha256
        };
        let wanted = (0..=N_PROMISED_MAX).map(other).collect();
        peers.exchange(HERE, PeersRequest { wanted, ..request(1) }, now).expect("an answer");
        assert_eq!(wants(&peers, 2, now), (vec![], false));
        assert_eq!(wants(&peers, 3, now), (vec![], false), "each fetches it itself");
        assert_eq!(peers.state().groups[&HERE].promised.len(), N_PROMISED_MAX);
    }
}
