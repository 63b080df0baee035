//! Conversations as in `frames`, with a real store: what it reads back is what the engine knows.

use manager::store::Store;
use scheduler::engine::{Engine, interface::settings::Settings, record::Record, state::durable::Durable};

use crate::{frames, steps, world::World};

/// Lives through a conversation; says how many records it made.
pub fn live(bytes: &[u8]) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let mut store = Store::open(folder.path()).expect("a store");
    let mut world = World::new();
    let mut n_kept = keep(&mut store, &world, 0);
    for (kind, step) in steps::read(bytes) {
        frames::take(&mut world, kind, step);
        n_kept = keep(&mut store, &world, n_kept);
        let read = read(folder.path());
        assert_eq!(read.len(), n_kept);
        assert!(applied(&read) == *world.engine.durable(), "the store does not say what the engine knows");
    }
    let read = read(folder.path());
    for n in 0..=read.len() {
        Engine::restore(Settings::default(), 9, world.now, read[..n].to_vec()).check_invariants();
    }
    n_kept
}

/// Commits what is new; says how many records there are.
fn keep(store: &mut Store, world: &World, n_kept: usize) -> usize {
    store.commit(&world.records[n_kept..]).expect("it is kept");
    world.records.len()
}

/// As the next manager would read it.
fn read(folder: &std::path::Path) -> Vec<Record> {
    let mut records = Vec::new();
    let store = Store::open_to_read(folder).expect("it is read");
    store.replay(|record| records.push(record)).expect("it is whole");
    records
}

fn applied(records: &[Record]) -> Durable {
    let mut durable = Durable::default();
    records.iter().for_each(|record| durable.apply(record));
    durable
}
