//! Quantities with units, as people write them: durations, sizes.

use std::fmt;

use protocol::text::units::{parse_bytes, parse_duration_ms};
use scheduler::time::Span;
use serde::{Deserialize, Deserializer, de::Visitor};

/// A duration as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duration(pub Span);

/// A size as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

/// A size of memory as text. For PBS and LoadLeveler the unit of `4096kb` is 1024 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// In bytes.
    pub bytes: u64,
    /// In bytes, if units in small letters are powers of 1024.
    pub bytes_by_1024: u64,
}

/// Cores × time as a number of core-hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CoreHours(pub Span);

impl<'de> Deserialize<'de> for CoreHours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CoreHours, D::Error> {
        let wanted = "a number of core-hours like 5000 or 0.5";
        deserializer.deserialize_any(Quantity { wanted, parse: core_hours }).map(CoreHours)
    }
}

/// Reads a number of core-hours from `text`: more than 0 and at most 1e9.
///
/// # Errors
/// A text that says how to write the number.
pub fn core_hours(text: &str) -> Result<Span, String> {
    match text.trim().parse::<f64>() {
        Ok(hours) if (1e-6..=1e9).contains(&hours) => Ok(Span((hours * 3.6e9).round() as u64)),
        _ => Err("write a number of core-hours like 5000 or 0.5, up to 1000000000".to_owned()),
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let parse = |text: &str| parse_duration_ms(text).map_err(|error| error.to_string());
        let wanted = "a duration like 10s, 1h 30m or 500ms";
        let span = deserializer.deserialize_any(Quantity { wanted, parse })?;
        Ok(Duration(Span::from_millis(span)))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let parse = |text: &str| parse_bytes(text).map_err(|error| error.to_string());
        deserializer.deserialize_any(Quantity { wanted: "a size like 512MiB or 8GiB", parse }).map(Bytes)
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Memory, D::Error> {
        let parse = |text: &str| {
            let parse = |text: &str| parse_bytes(text).map_err(|error| error.to_string());
            Ok(Memory { bytes: parse(text)?, bytes_by_1024: parse(&by_1024(text))? })
        };
        deserializer.deserialize_any(Quantity { wanted: "a size like 512MiB or 8GiB", parse })
    }
}

/// Returns `text` with a unit in small letters, like `kb`, written as `kib`.
fn by_1024(text: &str) -> String {
    let text = text.trim_end();
    let letter = text.strip_suffix('b').and_then(|rest| rest.chars().next_back());
    match letter {
        Some('k' | 'm' | 'g' | 't' | 'p') => format!("{}ib", &text[..text.len() - 1]),
        _ => text.to_owned(),
    }
}

/// A visitor that reads a value from text. A number without a unit is passed to `parse` as text, for its
/// error.
pub struct Quantity<F> {
    /// How to write the value, for messages.
    pub wanted: &'static str,
    /// Reads the text.
    pub parse: F,
}

impl<T, F: Fn(&str) -> Result<T, String>> Visitor<'_> for Quantity<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(|what| E::custom(format!("found `{text}`; {what}")))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_in_small_letters_count_in_1024s_where_batch_systems_say_so() {
        let memory = |text: &str| serde_yaml::from_str::<Memory>(text).expect(text);
        for (text, bytes, bytes_by_1024) in [
            ("4096kb", 4_096_000, 4 << 20),
            ("2gb", 2_000_000_000, 2 << 30),
            ("1.5 tb", 1_500_000_000_000, 3 << 39),
            ("2GB", 2_000_000_000, 2_000_000_000),
            ("2kB", 2_000, 2_000),
            ("512MiB", 512 << 20, 512 << 20),
            ("2g", 2 << 30, 2 << 30),
            ("700b", 700, 700),
        ] {
            assert_eq!(memory(text), Memory { bytes, bytes_by_1024 }, "{text}");
        }
        assert!(serde_yaml::from_str::<Memory>("8").is_err());
    }
}
