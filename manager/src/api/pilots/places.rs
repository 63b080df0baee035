//! Places for files on their way. When more want one than there are, they are given by turns: first between users and
//! pilots, then among users and among pilots, so that neither one user nor one pilot keeps the others from them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use scheduler::ids::PilotId;
use tokio::{sync::oneshot, time::timeout};

use crate::api::http::error::ApiError;

/// Who wants a place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::api) enum Asker {
    /// By the name.
    User(String),
    /// By its number.
    Pilot(PilotId),
}

impl Asker {
    fn class(&self) -> usize {
        usize::from(matches!(self, Asker::Pilot(_)))
    }
}

/// So many places.
#[derive(Clone)]
pub(in crate::api) struct Places {
    shared: Arc<Mutex<State>>,
    /// Nobody waits longer for one.
    patience: Duration,
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(in crate::api) struct Place(Option<(Arc<Mutex<State>>, Asker)>);

#[derive(Debug)]
struct State {
    n_free: usize,
    /// Counts places that were given.
    n_given: u64,
    /// Of users and of pilots.
    classes: [Turn; 2],
    /// Those who have a place or wait for one.
    askers: BTreeMap<Asker, Held>,
}

/// The fewest first, of those that have as many who was given one longest ago.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Turn {
    n_held: u64,
    last_given: u64,
}

#[derive(Debug, Default)]
struct Held {
    turn: Turn,
    /// How many it may have.
    most: u64,
    waiting: VecDeque<oneshot::Sender<Place>>,
}

impl Places {
    pub(in crate::api) fn new(n: usize, patience: Duration) -> Places {
        let state = State { n_free: n, n_given: 0, classes: [Turn::default(); 2], askers: BTreeMap::new() };
        Places { shared: Arc::new(Mutex::new(state)), patience }
    }

    /// A place, once it is the asker's turn. `most`: how many it may have.
    ///
    /// # Errors
    /// None has come free in time, or the asker has as many as it may have all the time.
    pub(in crate::api) async fn take(&self, asker: Asker, most: Option<u64>) -> Result<Place, ApiError> {
        let (given, place) = oneshot::channel();
        {
            let mut state = lock(&self.shared);
            let held = state.askers.entry(asker.clone()).or_default();
            held.most = most.unwrap_or(u64::MAX);
            held.waiting.push_back(given);
            give(&self.shared, &mut state);
        }
        match timeout(self.patience, place).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(self.refusal(&asker)),
        }
    }

    /// How many an asker has.
    pub(in crate::api) fn held(&self, asker: &Asker) -> u64 {
        lock(&self.shared).askers.get(asker).map_or(0, |held| held.turn.n_held)
    }

    fn refusal(&self, asker: &Asker) -> ApiError {
        let mut state = lock(&self.shared);
        state.forget_gone(asker);
        match (asker, state.askers.get(asker)) {
            (Asker::User(name), Some(held)) if held.turn.n_held >= held.most => {
                ApiError::too_many(name, "transfers", held.most)
            }
            _ => ApiError::crowded(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((shared, asker)) = self.0.take() else { return };
        let mut state = lock(&shared);
        state.n_free += 1;
        let class = asker.class();
        state.classes[class].n_held -= 1;
        if let Some(held) = state.askers.get_mut(&asker) {
            held.turn.n_held -= 1;
        }
        state.forget_gone(&asker);
        give(&shared, &mut state);
    }
}

impl State {
    /// Forgets those of an asker's requests that nobody waits for any more, and the asker when it has nothing.
    fn forget_gone(&mut self, asker: &Asker) {
        if let Some(held) = self.askers.get_mut(asker) {
            held.waiting.retain(|waiting| !waiting.is_closed());
            if held.waiting.is_empty() && held.turn.n_held == 0 {
                self.askers.remove(asker);
            }
        }
    }

    /// Whose turn it is.
    fn next(&self) -> Option<Asker> {
        let may =
            self.askers.iter().filter(|(_, held)| !held.waiting.is_empty() && held.turn.n_held < held.most);
        let first = may.min_by_key(|(asker, held)| (self.classes[asker.class()], held.turn));
        first.map(|(asker, _)| asker.clone())
    }
}

/// Gives free places to those whose turn it is.
fn give(shared: &Arc<Mutex<State>>, state: &mut State) {
    while state.n_free > 0
        && let Some(asker) = state.next()
        && let Some(held) = state.askers.get_mut(&asker)
        && let Some(waiting) = held.waiting.pop_front()
    {
        match waiting.send(Place(Some((shared.clone(), asker.clone())))) {
            Ok(()) => {
                state.n_free -= 1;
                state.n_given += 1;
                let class = &mut state.classes[asker.class()];
                for turn in [&mut held.turn, class] {
                    turn.n_held += 1;
                    turn.last_given = state.n_given;
                }
            }
            // Nobody waits for it any more. It must not be given back here: the state is locked.
            Err(mut unwanted) => {
                drop(unwanted.0.take());
                state.forget_gone(&asker);
            }
        }
    }
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use scheduler::ids::PilotId;
    use tokio::{sync::mpsc, task::yield_now};

    use super::{Asker, Place, Places};

    fn user(name: &str) -> Asker {
        Asker::User(name.to_owned())
    }

    const LONG: Duration = Duration::from_secs(600);

    /// Has them wait in this order while all places are taken; gives who got one, as one after the other comes free.
    async fn order(places: &Places, first: Place, asking: Vec<(Asker, Option<u64>)>) -> Vec<Asker> {
        let n = asking.len();
        let (told, mut heard) = mpsc::unbounded_channel();
        for (asker, most) in asking {
            let (places, told) = (places.clone(), told.clone());
            tokio::spawn(async move {
                let place = places.take(asker.clone(), most).await.expect("a place");
                told.send((asker, place)).expect("somebody listens");
            });
            // On one thread, so that they stand in this order.
            yield_now().await;
        }
        drop(first);
        let mut got = Vec::new();
        for _ in 0..n {
            let (asker, place) = heard.recv().await.expect("one more");
            got.push(asker);
            drop(place);
        }
        got
    }

    #[tokio::test]
    async fn those_who_wait_are_given_places_by_turns_and_not_in_the_order_of_coming() {
        let places = Places::new(1, LONG);
        let first = places.take(user("ann"), None).await.expect("it is free");
        let pilot = |id| Asker::Pilot(PilotId(id));
        let mut asking = vec![(user("ann"), None); 4];
        asking.extend([(user("bob"), None), (pilot(1), None), (pilot(1), None), (pilot(2), None)]);
        let got = order(&places, first, asking).await;
        let expected =
            [pilot(1), user("bob"), pilot(2), user("ann"), pilot(1), user("ann"), user("ann"), user("ann")];
        assert_eq!(got, expected);
    }

    #[tokio::test]
    async fn who_has_as_many_as_allowed_keeps_nobody_waiting() {
        let places = Places::new(3, Duration::from_millis(20));
        let one = places.take(user("ann"), Some(2)).await.expect("a place");
        let _two = places.take(user("ann"), Some(2)).await.expect("a place");
        let refused = places.take(user("ann"), Some(2)).await.expect_err("a third one");
        assert_eq!((refused.status.as_u16(), refused.code), (429, "quota"));
        let bob = places.take(user("bob"), Some(2)).await.expect("the third place");
        let refused = places.take(user("bob"), Some(2)).await.expect_err("all are taken");
        assert_eq!(refused.code, "crowded");
        drop(one);
        let _ann = places.take(user("ann"), Some(2)).await.expect("a place is free again");
        drop(bob);
        let _pilot = places.take(Asker::Pilot(PilotId(1)), None).await.expect("a place is free again");
        assert_eq!((places.held(&user("ann")), places.held(&user("bob"))), (2, 0));
    }

    #[tokio::test]
    async fn a_place_that_nobody_takes_any_more_is_free() {
        let places = Places::new(1, LONG);
        let first = places.take(user("ann"), None).await.expect("a place");
        let (gone, stays) = (places.clone(), places.clone());
        let gone = tokio::spawn(async move { gone.take(user("bob"), None).await.map(drop) });
        yield_now().await;
        let stays = tokio::spawn(async move { stays.take(user("cyd"), None).await.map(drop) });
        yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(first);
        assert!(stays.await.expect("no panic").is_ok());
        assert!(super::lock(&places.shared).askers.is_empty());
    }
}
