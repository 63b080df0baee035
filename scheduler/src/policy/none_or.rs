//! The words of layers that can do without a policy: `none`, or the word of a policy without numbers.

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// A policy type of a layer in which each policy has a word.
pub trait Worded: Copy + PartialEq + 'static {
    /// `none`, and the words of [`Worded::POLICIES`] in their order.
    const WORDS: &'static [&'static str];
    /// All policies that have a word.
    const POLICIES: &'static [Self];
}

/// Writes the word that [`deserialize`] reads.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<P: Worded, S: Serializer>(policy: &Option<P>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(to_word(*policy))
}

/// Returns the word of the policy; `none` for a policy with numbers that no word names.
pub fn to_word<P: Worded>(policy: Option<P>) -> &'static str {
    let place = policy.and_then(|policy| P::POLICIES.iter().position(|known| *known == policy));
    P::WORDS[place.map_or(0, |place| place + 1)]
}

/// Reads one of [`Worded::WORDS`].
///
/// # Errors
/// Any other word.
pub fn deserialize<'de, P: Worded, D: Deserializer<'de>>(deserializer: D) -> Result<Option<P>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let place = P::WORDS.iter().position(|known| *known == word);
    let place = place.ok_or_else(|| D::Error::unknown_variant(&word, P::WORDS))?;
    Ok(place.checked_sub(1).map(|place| P::POLICIES[place]))
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value::Error};

    use super::{Worded, deserialize, to_word};
    use crate::policy::{distribution::Distribution, mapping::Mapping, placement::pilots::PilotPlacement};

    fn reads_what_it_shows<P: Worded>() {
        assert_eq!((P::WORDS.len(), P::WORDS[0]), (P::POLICIES.len() + 1, "none"));
        for word in P::WORDS {
            let read: Result<Option<P>, Error> = deserialize((*word).into_deserializer());
            assert_eq!(to_word(read.unwrap()), *word);
        }
        let read: Result<Option<P>, Error> = deserialize("adaptive-2017".into_deserializer());
        assert!(read.is_err_and(|error| error.to_string().contains(&format!("`{}`", P::WORDS[1]))));
    }

    #[test]
    fn words_are_read_as_they_are_shown() {
        reads_what_it_shows::<Distribution>();
        reads_what_it_shows::<PilotPlacement>();
        reads_what_it_shows::<Mapping>();
    }
}
