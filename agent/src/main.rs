//! The small agent binary: what batch systems start on a node. See [`agent::command`].

fn main() {
    std::process::exit(agent::command::main());
}
