//! Who is asked for what no file says.

use std::fmt::Debug;

/// A question of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prompt {
    /// Its words, as `Password: `.
    pub text: String,
    /// Whether the answer must not be seen.
    pub is_secret: bool,
}

/// Somebody who may be there to answer a host: a person, once for each connection.
pub trait Asker: Send + Sync + Debug {
    /// An answer to each prompt; `None`: nobody is there. `host`: who asks, `text`: what it says before.
    fn ask(&self, host: &str, text: &str, prompts: &[Prompt]) -> Option<Vec<String>>;

    /// Whether a program that this process starts may ask on its terminal.
    fn lends_terminal(&self) -> bool {
        false
    }

    /// Hears that a person has pressed Ctrl-C there, while such a program had the terminal and this process did not.
    fn interrupt(&self) {}
}

/// Nobody.
#[derive(Debug)]
pub struct Nobody;

impl Asker for Nobody {
    fn ask(&self, _: &str, _: &str, _: &[Prompt]) -> Option<Vec<String>> {
        None
    }
}
