//! Bundling: how many of the chosen job's tasks go to the pilot in one answer.
//!
//! [`Bundling`] is what the engine asks: it counts tasks, or has them packed by what each is estimated to take
//! ([`by_estimate`]).

pub mod by_estimate;
mod fixed;
mod guided;
mod single;

use std::{fmt, num::NonZero};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// What a bundling policy may look at.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Tasks of the job that could begin on the pilot at once.
    pub n_startable: u64,
    /// Tasks that may be sent ahead of need, those startable included.
    pub n_room: u64,
    /// Tasks of the job that wait.
    pub n_ready: u64,
    /// Pilots that take part and can run the job, the asking one included.
    pub n_pilots: u64,
    /// Tasks that keep the pilot busy for so short a time that fewer are not worth a message.
    pub n_brief: u64,
}

/// The policies of this layer, by the words of the `policies:` block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bundling {
    /// As many as the pilot needs to stay busy, fewer at the job's tail: see `guided.rs`.
    #[default]
    Guided,
    /// One task an answer: see `single.rs`.
    Single,
    /// So many tasks an answer, as `fixed-10`: see `fixed.rs`.
    Fixed(NonZero<u64>),
    /// A bin for each slot, by the estimates of tasks: see [`by_estimate`]. Of jobs without estimates: guided.
    BinPacking,
}

/// What begins the word of bundles of so many tasks.
const FIXED: &str = "fixed-";
/// What the words are, to whoever wrote none of them.
const WORDS: [&str; 4] = ["guided", "single", "fixed-N", "bin-packing"];

impl Bundling {
    /// How many tasks to send; at most `n_ready`, 0 when there is no room.
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
