//! Many texts in one piece of memory: a list of short values, as a String each, would take ten times their length.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, SeqAccess, Visitor},
};

/// A list of texts. Shared, so that copies cost nothing. 4 GiB at most, all together.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Texts(Arc<Inner>);

#[derive(Clone, PartialEq, Eq, Default)]
struct Inner {
    all: String,
    /// Where each text ends.
    ends: Vec<u32>,
}

impl Texts {
    /// How many.
    pub fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.ends.is_empty()
    }

    /// The text at a position. O(1).
    pub fn get(&self, position: usize) -> Option<&str> {
        let end = *self.0.ends.get(position)? as usize;
        let start = position.checked_sub(1).map_or(0, |before| self.0.ends[before] as usize);
        self.0.all.get(start..end)
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|position| self.get(position))
    }
}

impl Inner {
    /// Whether there was room for it.
    fn push(&mut self, text: &str) -> bool {
        let Ok(end) = u32::try_from(self.all.len() + text.len()) else { return false };
        self.all.push_str(text);
        self.ends.push(end);
        true
    }

    fn shared(mut self) -> Texts {
        self.all.shrink_to_fit();
        self.ends.shrink_to_fit();
        Texts(Arc::new(self))
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    /// # Panics
    /// They are more than 4 GiB.
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Texts {
        let mut inner = Inner::default();
        texts.into_iter().for_each(|text| assert!(inner.push(text.as_ref()), "4 GiB of texts"));
        inner.shared()
    }
}

impl From<Vec<String>> for Texts {
    fn from(texts: Vec<String>) -> Texts {
        texts.into_iter().collect()
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        // Binary codecs must know first how many there are.
        let mut texts = serializer.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|text| texts.serialize_element(text))?;
        texts.end()
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Inner;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence of texts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Inner, A::Error> {
                let mut inner = Inner::default();
                while let Some(text) = texts.next_element::<std::borrow::Cow<'de, str>>()? {
                    if !inner.push(&text) {
                        return Err(de::Error::custom("more than 4 GiB of texts"));
                    }
                }
                Ok(inner)
            }
        }
        deserializer.deserialize_seq(Reader).map(Inner::shared)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Texts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        <Vec<String>>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <Vec<String>>::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Texts;

    proptest! {
        #[test]
        fn it_is_a_list_of_texts(texts in prop::collection::vec("\\PC{0,5}", 0..9)) {
            let held: Texts = texts.iter().collect();
            prop_assert_eq!(held.iter().collect::<Vec<_>>(), texts.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!((held.len(), held.is_empty()), (texts.len(), texts.is_empty()));
            prop_assert_eq!(held.get(texts.len()), None);
            let written = serde_json::to_string(&held).unwrap();
            prop_assert_eq!(&written, &serde_json::to_string(&texts).unwrap());
            prop_assert_eq!(serde_json::from_str::<Texts>(&written).unwrap(), held);
        }
    }
}
