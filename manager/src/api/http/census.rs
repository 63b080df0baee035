//! Counts the values of a large submission before it is read: a list of empty texts takes ten times its bytes in memory,
//! and what a job may have is told only of one that was read.

use std::{borrow::Cow, cell::Cell, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::api::http::error::ApiError;

/// What is smaller takes little memory, whatever it holds.
const SMALL_BYTES: usize = 8 << 20;
/// More than any job has, beside the lists below.
const N_VALUES_MAX: u64 = 4 << 20;
/// Lists that are kept in little more than their bytes, and are bounded as they are read.
const COMPACT: [&str; 2] = ["texts", "edges"];

/// Refuses a body with too many values. What is no JSON is told by who reads it. O(bytes), and no memory.
pub(in crate::api) fn check(body: &[u8]) -> Result<(), ApiError> {
    if body.len() <= SMALL_BYTES {
        return Ok(());
    }
    let left = Cell::new(N_VALUES_MAX);
    let mut json = serde_json::Deserializer::from_slice(body);
    match (json.deserialize_any(Values { left: &left, is_compact: false }), left.get()) {
        (Err(_), 0) => Err(ApiError::too_many_values(N_VALUES_MAX)),
        _ => Ok(()),
    }
}

#[derive(Clone, Copy)]
struct Values<'a> {
    left: &'a Cell<u64>,
    is_compact: bool,
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if !self.is_compact {
            match self.left.get().checked_sub(1) {
                Some(left) => self.left.set(left),
                None => return Err(D::Error::custom("too many values")),
            }
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            let is_compact = self.is_compact || COMPACT.contains(&&*name);
            fields.next_value_seed(Values { is_compact, ..self })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{N_VALUES_MAX, SMALL_BYTES, check};

    fn list(n: u64) -> String {
        format!("[{}0]", "\"\",".repeat(n as usize))
    }

    #[test]
    fn too_many_values_are_refused_whatever_they_are_of() {
        let many = list(N_VALUES_MAX);
        for text in [
            many.clone(),
            format!(r#"{{"spec":{{"command":{{"args":{many}}}}}}}"#),
            format!(r#"{{"a":{many}, "texts": []}}"#),
        ] {
            let refused = check(text.as_bytes()).expect_err("too many");
            assert_eq!((refused.status.as_u16(), refused.code), (413, "too-large"));
            assert!(refused.message.contains("4194304 values"), "{}", refused.message);
        }
        let fields: String = (0..N_VALUES_MAX + 1).map(|n| format!("\"{n}\":1,")).collect();
        assert!(check(format!("{{{fields}\"\":1}}").as_bytes()).is_err());
    }

    #[test]
    fn long_lists_of_values_and_edges_are_for_who_reads_them() {
        let many = list(N_VALUES_MAX);
        for text in [
            format!(r#"{{"spec":{{"values":{{"texts":{many}}}}}}}"#),
            format!(r#"[{{"edges":[{many},{many}]}}]"#),
            format!("[{}1]", " ".repeat(SMALL_BYTES)),
            format!("{}no JSON", " ".repeat(SMALL_BYTES)),
            list(9),
        ] {
            assert!(check(text.as_bytes()).is_ok());
        }
    }
}
