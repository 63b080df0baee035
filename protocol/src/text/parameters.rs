//! A task's parameters in JSON: an object of texts, in the sweep's order.

use std::fmt;

use serde::{
    Deserializer, Serializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// Writes pairs as an object.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Reads an object, or a list of pairs as managers before 0.2 write it.
///
/// # Errors
/// Anything else.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    deserializer.deserialize_any(Pairs)
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = list.next_element()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Row {
        #[serde(with = "super")]
        parameters: Vec<(String, String)>,
    }

    #[test]
    fn parameters_are_an_object_in_their_order_and_lists_of_pairs_are_read() {
        let written = r#"{"parameters":{"z":"1","a":"x y"}}"#;
        let row: Row = serde_json::from_str(written).unwrap();
        assert_eq!(serde_json::to_string(&row).unwrap(), written);
        let old: Row = serde_json::from_str(r#"{"parameters":[["z","1"],["a","x y"]]}"#).unwrap();
        assert_eq!(old.parameters, row.parameters);
    }
}
