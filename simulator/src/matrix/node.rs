//! One node: its pilot's queues and search, its threads, its network card and its fetched data.

use std::collections::BTreeMap;

use scheduler::{
    policy::stealing::{Stealing, hunt::Hunt, queues::ReadyQueues, relief::Relief},
    time::Time,
};

use super::machine::{Setting, Traffic};

#[derive(Debug)]
pub(super) struct Node {
    pub queues: ReadyQueues<u32>,
    pub hunt: Hunt,
    /// Whether an attempt to steal is open, or a pause before one.
    pub is_hunting: bool,
    pub relief: Option<Relief>,
    pub n_free_threads: u32,
    pub n_done: u64,
    card_free: Time,
    /// When each fetched object is here.
    fetched: BTreeMap<u32, Time>,
}

impl Node {
    pub fn new(policy: Stealing, n_threads: u32) -> Node {
        Node {
            queues: ReadyQueues::new(),
            hunt: Hunt::new(),
            is_hunting: false,
            relief: Relief::of(policy),
            n_free_threads: n_threads,
            n_done: 0,
            card_free: Time(0),
            fetched: BTreeMap::new(),
        }
    }

    /// Returns when an object of another node is here, requested at `now`; one object at a time comes in.
    pub fn fetch(
        &mut self,
        object: u32,
        bytes: u64,
        now: Time,
        setting: &Setting,
        traffic: &mut Traffic,
    ) -> Time {
        if setting.has_cache
            && let Some(at) = self.fetched.get(&object)
        {
            return *at;
        }
        let start = (now + setting.latency).max(self.card_free);
        self.card_free = start + setting.transfer(bytes);
        traffic.n_fetched += 1;
        traffic.bytes_fetched += bytes;
        if setting.has_cache {
            self.fetched.insert(object, self.card_free);
        }
        self.card_free
    }

    /// Returns the tasks per second so far.
    pub fn throughput(&self, now: Time) -> f64 {
        self.n_done as f64 / now.since(Time(0)).as_secs_f64()
    }
}
