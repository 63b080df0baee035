//! Bundling: how many of the chosen job's tasks go to the pilot in one answer.
//!
//! The engine calls [`Bundling`]: it counts tasks, or packs them by their estimates ([`by_estimate`]).

pub mod by_estimate;
mod fixed;
mod guided;
mod single;

use std::{fmt, num::NonZero};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The input of a bundling policy.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Tasks of the job that could begin on the pilot at once.
    pub n_startable: u64,
    /// Tasks that the pilot may get before it has a free slot, startable ones included.
    pub n_room: u64,
    /// Waiting tasks of the job.
    pub n_ready: u64,
    /// Pilots that take part and can run the job, including the pilot that pulls.
    pub n_pilots: u64,
    /// Tasks that keep the pilot busy for a very short time: a smaller bundle is not worth a message.
    pub n_brief: u64,
}

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bundling {
    /// As many tasks as the pilot needs to stay busy, fewer at the job's tail: see `guided.rs`.
    #[default]
    Guided,
    /// One task an answer: see `single.rs`.
    Single,
    /// A fixed number of tasks in an answer, as `fixed-10`: see `fixed.rs`.
    Fixed(NonZero<u64>),
    /// A bin for each slot, by the estimates of tasks: see [`by_estimate`]. Jobs without estimates get guided
    /// bundles.
    BinPacking,
}

/// The prefix of the word for bundles of a fixed number of tasks.
const FIXED: &str = "fixed-";
/// The words that an error message names.
const WORDS: [&str; 4] = ["guided", "single", "fixed-N", "bin-packing"];

impl Bundling {
    /// Returns the number of tasks to send; at most `n_ready`, 0 if there is no room.
    pub fn size(self, situation: Situation) -> u64 {
        match self {
            Bundling::Guided | Bundling::BinPacking => guided::size(situation),
            Bundling::Single => single::size(situation),
            Bundling::Fixed(n_tasks) => fixed::size(situation, n_tasks),
        }
    }

    fn of_word(word: &str) -> Option<Bundling> {
        match word {
            "guided" => Some(Bundling::Guided),
            "single" => Some(Bundling::Single),
            "bin-packing" => Some(Bundling::BinPacking),
            other => other.strip_prefix(FIXED)?.parse().ok().map(Bundling::Fixed),
        }
    }
}

impl fmt::Display for Bundling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bundling::Guided => f.write_str("guided"),
            Bundling::Single => f.write_str("single"),
            Bundling::BinPacking => f.write_str("bin-packing"),
            Bundling::Fixed(n_tasks) => write!(f, "{FIXED}{n_tasks}"),
        }
    }
}

impl Serialize for Bundling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bundling {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bundling, D::Error> {
        let word = String::deserialize(deserializer)?;
        Bundling::of_word(&word).ok_or_else(|| D::Error::unknown_variant(&word, &WORDS))
    }
}

#[cfg(test)]
mod tests {
    use serde::{
        Deserialize,
        de::{IntoDeserializer, value},
    };

    use super::Bundling;

    fn read(word: &str) -> Result<Bundling, value::Error> {
        Bundling::deserialize(word.into_deserializer())
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        for word in ["guided", "single", "fixed-1", "fixed-4096", "bin-packing"] {
            assert_eq!(read(word).unwrap().to_string(), word);
        }
        for word in ["fixed", "fixed-0", "fixed--1", "fixed-N", "Guided"] {
            let expected = format!(
                "unknown variant `{word}`, expected one of `guided`, `single`, `fixed-N`, `bin-packing`"
            );
            assert_eq!(read(word).unwrap_err().to_string(), expected);
        }
    }
}
