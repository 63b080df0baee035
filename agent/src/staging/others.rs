//! Failed attempts of other agents on this node. Agents ask for a file one at a time, and the others wait
//! meanwhile; without these notes a silent server would cost each of them its full time, one after another.

use std::time::{SystemTime, UNIX_EPOCH};

use scheduler::digest::Digest;

use super::{cache::Cache, transfer::trouble::Trouble};
use crate::session::client::random;

/// The attempts at one file, as one waiting agent knows them.
pub(super) struct Others {
    /// The key of the notes in the cache.
    place: Digest,
    /// The start of waiting; older attempts do not count, because a later task asks the server itself.
    since_us: u128,
    /// The last note that was read or written here.
    last: Option<String>,
}

impl Others {
    /// Returns an empty value that begins to wait now.
    pub(super) fn new(place: Digest) -> Others {
        Others { place, since_us: now_us(), last: None }
    }

    /// Returns the failure of another agent's attempt, if there was one since the last call.
    pub(super) fn take(&mut self, cache: &Cache) -> Option<Trouble> {
        let text = cache.silence_at(&self.place).filter(|text| self.last.as_ref() != Some(text))?;
        let (head, rest) = text.split_once('\n')?;
        let (server, what) = rest.split_once('\n')?;
        let at_us: u128 = head.split(' ').next()?.parse().ok()?;
        // A note from the future comes from a clock that was set back.
        if at_us < self.since_us || at_us > now_us() {
            return None;
        }
        let trouble = Trouble::Silent { server: server.to_owned(), what: what.to_owned() };
        self.last = Some(text);
        Some(trouble)
    }

    /// Notes an attempt of this agent for other agents.
    pub(super) fn note(&mut self, cache: &Cache, server: &str, what: &str) {
        let text = format!("{} {:016x}\n{server}\n{what}", now_us(), random());
        cache.note_silence(&self.place, &text);
        self.last = Some(text);
    }
}

fn now_us() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}

#[cfg(test)]
mod tests {
    use super::{Cache, Digest, Others, Trouble, now_us};
    use crate::staging::cache::CachePlace;

    fn words(told: Option<Trouble>) -> Option<String> {
        told.and_then(|trouble| trouble.words().map(str::to_owned))
    }

    #[test]
    fn a_try_of_another_is_told_once_and_ones_of_before_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let place = CachePlace::new(folder.path().to_owned(), Some(1 << 20));
        let [cache, other_cache] = [(); 2].map(|()| Cache::open(&place).unwrap());
        let place = Digest([1; 32]);
        let [mut one, mut other] = [(); 2].map(|()| Others::new(place));
        assert!(one.take(&cache).is_none());
        one.note(&cache, "x.org", "x.org has sent nothing");
        assert!(one.take(&cache).is_none(), "its own");
        assert_eq!(words(other.take(&other_cache)).as_deref(), Some("x.org has sent nothing"));
        assert!(other.take(&other_cache).is_none(), "once");
        assert!(Others::new(Digest([2; 32])).take(&cache).is_none(), "another file");
        let mut later = Others { since_us: now_us() + 1, ..Others::new(place) };
        assert!(later.take(&cache).is_none());
        other.note(&other_cache, "x.org", "x.org has sent nothing again");
        assert_eq!(words(one.take(&cache)).as_deref(), Some("x.org has sent nothing again"));
        for text in ["", "x", "x\ny\nz", &format!("{} 1\ny\nz", now_us() + 1_000_000_000_000)] {
            cache.note_silence(&place, text);
            assert!(one.take(&cache).is_none(), "{text}");
        }
    }
}
