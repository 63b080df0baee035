//! The words of this layer in the `policies:` block: a policy, or `none`.

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

use super::Distribution;

/// What the words are, to whoever wrote none of them.
const WORDS: [&str; 5] = ["none", "core-based", "profile", "adaptive-2016", "adaptive"];

/// As a word that [`deserialize`] reads.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(policy: &Option<Distribution>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(to_word(*policy))
}

/// Its word.
pub fn to_word(policy: Option<Distribution>) -> &'static str {
    match policy {
        None => "none",
        Some(Distribution::CoreBased) => "core-based",
        Some(Distribution::Profile) => "profile",
        Some(Distribution::Adaptive2016) => "adaptive-2016",
        Some(Distribution::Adaptive) => "adaptive",
    }
}

/// `none`, or a word of [`Distribution`].
///
/// # Errors
/// Another word.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Distribution>, D::Error> {
    let word = String::deserialize(deserializer)?;
    if word == "none" {
        return Ok(None);
    }
    let known = Distribution::deserialize(serde::de::value::StrDeserializer::<D::Error>::new(&word));
    known.map(Some).map_err(|_| D::Error::unknown_variant(&word, &WORDS))
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value::Error};

    use super::{Distribution, WORDS, deserialize, to_word};

    #[test]
    fn words_are_read_as_they_are_shown() {
        for word in WORDS {
            let read: Result<Option<Distribution>, Error> = deserialize(word.into_deserializer());
            assert_eq!(to_word(read.unwrap()), word);
        }
        let read: Result<Option<Distribution>, Error> = deserialize("adaptive-2017".into_deserializer());
        assert!(read.unwrap_err().to_string().contains("`core-based`"));
    }
}
