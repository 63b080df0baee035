//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A command is over in two milliseconds, and moving the program to a random address, which touches each
    // page that holds a pointer, would be one of them.
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
