//! The small agent binary, which batch systems start on a node. See [`agent::command`].

fn main() {
    std::process::exit(agent::command::main());
}
