//! The promises of the store, each a test.

mod damage;
mod golden;
mod keeping;
mod opening;
mod policy_records;
mod purging;
mod reading;
pub(super) mod records;
mod size;

use std::{
    path::Path,
    process::{Command, Stdio},
};

use scheduler::engine::{record::Record, state::durable::Durable};

use super::Store;

/// Tells a test that it is the child of itself, and where its folder is.
const CHILD_FOLDER: &str = "PILOTFISH_STORE_TEST_FOLDER";

fn open(folder: &Path) -> Store {
    Store::open(folder).unwrap()
}

fn replayed(store: &Store) -> Vec<Record> {
    let mut records = Vec::new();
    store.replay(|record| records.push(record)).unwrap();
    records
}

fn applied(records: &[Record]) -> Durable {
    let mut durable = Durable::default();
    records.iter().for_each(|record| durable.apply(record));
    durable
}

/// The same test again as another process, with a folder to work on.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD_FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}
