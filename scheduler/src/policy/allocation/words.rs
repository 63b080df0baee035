//! The words of this layer in the `policies:` block: a policy with its number, or `none`.

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

use super::Allocation;

/// The words that an error message names.
const WORDS: [&str; 5] = ["none", "equal", "paf-N", "aaf-N", "pa-rr"];

/// The percentage of favourites of `paf` and `aaf` without a number: the value of the paper's experiments.
const PERCENT: u32 = 50;

/// Writes the word that [`deserialize`] reads.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(policy: &Option<Allocation>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&to_word(*policy))
}

/// Returns the word of a policy.
pub fn to_word(policy: Option<Allocation>) -> String {
    match policy {
        None => "none".to_owned(),
        Some(Allocation::Equal) => "equal".to_owned(),
        Some(Allocation::Paf { percent }) => format!("paf-{percent}"),
        Some(Allocation::Aaf { percent }) => format!("aaf-{percent}"),
        Some(Allocation::PaRr { unit_cores: 1 }) => "pa-rr".to_owned(),
        Some(Allocation::PaRr { unit_cores }) => format!("pa-rr-{unit_cores}"),
    }
}

/// Reads a word: `none`, `equal`, `paf-50` and `aaf-50` with the percentage of favourites (`paf` and `aaf`
/// mean these), `pa-rr`, `pa-rr-4` with the cores taken at a time.
///
/// # Errors
/// Any other word.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Allocation>, D::Error> {
    let word = String::deserialize(deserializer)?;
    of_word(&word).ok_or_else(|| D::Error::unknown_variant(&word, &WORDS))
}

fn of_word(word: &str) -> Option<Option<Allocation>> {
    let percent = |text: &str| text.parse().ok().filter(|percent| (1..=100).contains(percent));
    let policy = match word.split_once('-') {
        _ if word == "none" => return Some(None),
        _ if word == "equal" => Allocation::Equal,
        _ if word == "pa-rr" => Allocation::PaRr { unit_cores: 1 },
        _ if word == "paf" => Allocation::Paf { percent: PERCENT },
        _ if word == "aaf" => Allocation::Aaf { percent: PERCENT },
        Some(("paf", number)) => Allocation::Paf { percent: percent(number)? },
        Some(("aaf", number)) => Allocation::Aaf { percent: percent(number)? },
        _ => {
            let unit_cores = word.strip_prefix("pa-rr-")?.parse().ok().filter(|n| *n > 0)?;
            Allocation::PaRr { unit_cores }
        }
    };
    Some(Some(policy))
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value::Error};

    use super::{Allocation, deserialize, to_word};

    #[test]
    fn words_are_read_as_they_are_shown() {
        for word in ["none", "equal", "paf-50", "aaf-1", "pa-rr", "pa-rr-4"] {
            let read: Result<Option<Allocation>, Error> = deserialize(word.into_deserializer());
            assert_eq!(to_word(read.unwrap()), word);
        }
        for word in ["paf", "aaf"] {
            let read: Result<Option<Allocation>, Error> = deserialize(word.into_deserializer());
            assert_eq!(to_word(read.unwrap()), format!("{word}-50"));
        }
        for word in ["", "paf-", "paf-0", "aaf-101", "pa-rr-0", "pa-rr-", "None"] {
            let read: Result<Option<Allocation>, Error> = deserialize(word.into_deserializer());
            assert!(read.unwrap_err().to_string().contains("`pa-rr`"), "{word}");
        }
    }
}
