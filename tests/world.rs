//! Faults of the world around managers and pilots: clocks, disks, networks, other managers.

#[path = "world/clocks.rs"]
mod clocks;
#[path = "world/disks.rs"]
mod disks;
#[path = "world/managers.rs"]
mod managers;
#[path = "world/network.rs"]
mod network;

use std::process::Command;

use tests::Sandbox;

/// What a manager is started with to see other surroundings than there are: the library, and what it
/// is told, each a name and a path in the sandbox. Needs a C compiler, which `tests/run` installs.
fn surroundings(sandbox: &Sandbox, told: &[(&str, &str)]) -> Vec<(String, String)> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/world/surroundings.c");
    let path = |name: &str| sandbox.path().join(name).display().to_string();
    let library = path("surroundings.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &library, source]).status();
    assert!(built.expect("cc runs; tests/run installs it").success());
    let told = told.iter().map(|(name, file)| ((*name).to_owned(), path(file)));
    told.chain([("LD_PRELOAD".to_owned(), library)]).collect()
}
