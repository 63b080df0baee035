//! JSON for programs: each time and span of the API, which are in microseconds, once more in seconds, with the unit in
//! its name.
//!
//! The schema of a type says which of its numbers are times, so that no list of names must be kept.

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// What is added to the name of a span in seconds.
const SPAN: &str = "_seconds";
/// What is added to the name of a point in time, in seconds since 1970.
const TIME: &str = "_unix_seconds";
/// Sizes whose names do not say that they are bytes.
const SIZES: [&str; 9] = [
    "cached",
    "from_manager",
    "from_peers",
    "from_urls",
    "output_budget_spent",
    "output_quota_spent",
    "to_manager",
    "to_shared",
    "to_stores",
];
const SIZE: &str = "_bytes";
const MICROSECONDS: f64 = 1e6;
static NOTHING: Value = Value::Null;

/// The value as JSON on several lines, in which numbers have their units in their names.
///
/// # Errors
/// Only for values that JSON has no form for, which ours are not.
pub fn json_with_units<T: Serialize + JsonSchema>(value: &T) -> Result<String, Failure> {
    let mut value = serde_json::to_value(value)
        .map_err(|error| Failure::infrastructure(format!("cannot write JSON: {error}")))?;
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    Walk { definitions: &definitions }.add(schema.as_value(), &mut value);
    super::json(&value)
}

/// Whether a number stands for a peak of memory that was not seen: the kernel hides what is below the agent's own.
/// Resources that are asked for or offered have the same name, and are never null.
fn is_unknown(name: &str, schema: &Value, value: &Value) -> bool {
    let may_be_null = schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"));
    value.as_u64() == Some(0) && (name == "memory_bytes_max" || (name == "memory_bytes" && may_be_null))
}

struct Walk<'a> {
    definitions: &'a Value,
}

impl<'a> Walk<'a> {
    fn add(&self, schema: &'a Value, value: &mut Value) {
        let schema = self.resolved(schema);
        for word in ["allOf", "anyOf", "oneOf"] {
            for part in schema[word].as_array().into_iter().flatten() {
                if self.fits(part, value) {
                    self.add(part, value);
                }
            }
        }
        match value {
            Value::Array(values) => {
                for (n, value) in values.iter_mut().enumerate() {
                    let of_place = schema["prefixItems"].get(n);
                    if let Some(items) = of_place.or_else(|| schema.get("items")) {
                        self.add(items, value);
                    }
                }
            }
            Value::Object(fields) => self.add_to_fields(schema, fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn add_to_fields(&self, schema: &'a Value, fields: &mut Map<String, Value>) {
        let mut all = Map::new();
        for (name, mut value) in std::mem::take(fields) {
            let known = schema["properties"].get(&name);
            let of_field = known.or_else(|| schema.get("additionalProperties")).unwrap_or(&NOTHING);
            if is_unknown(&name, of_field, &value) {
                value = Value::Null;
            }
            let added =
                self.converted(of_field, &value).map(|(unit, number)| (format!("{name}{unit}"), number));
            let size = SIZES.contains(&name.as_str()).then(|| (format!("{name}{SIZE}"), value.clone()));
            self.add(of_field, &mut value);
            all.insert(name, value);
            // A part of the schema that has been looked at before may have added it.
            all.extend(known.and(added.or(size)));
        }
        *fields = all;
    }

    /// A span, a time, or several of them, in seconds, with the ending of its name.
    fn converted(&self, schema: &Value, value: &Value) -> Option<(&'static str, Value)> {
        let reference = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        match reference {
            Some("Span") => return Some((SPAN, in_seconds(value))),
            Some("Time") => return Some((TIME, in_seconds(value))),
            Some(_) | None => {}
        }
        if let Some(found) = schema["anyOf"]
            .as_array()
            .and_then(|parts| parts.iter().find_map(|part| self.converted(part, value)))
        {
            return Some(found);
        }
        for several in ["items", "additionalProperties"] {
            if let Some((unit, _)) = schema.get(several).and_then(|one| self.converted(one, &Value::Null)) {
                return Some((unit, in_seconds(value)));
            }
        }
        None
    }

    fn resolved(&self, schema: &'a Value) -> &'a Value {
        let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        name.and_then(|name| self.definitions.get(name)).unwrap_or(schema)
    }

    /// Whether the value may be one of this part of a schema: it has its fields and its words.
    fn fits(&self, part: &'a Value, value: &Value) -> bool {
        let part = self.resolved(part);
        let Value::Object(fields) = value else { return !part["properties"].is_object() };
        let has_all = part["required"].as_array().is_none_or(|names| {
            names.iter().all(|name| name.as_str().is_some_and(|name| fields.contains_key(name)))
        });
        let has_words = part["properties"].as_object().is_none_or(|properties| {
            properties.iter().all(|(name, of_field)| {
                of_field.get("const").is_none_or(|word| fields.get(name) == Some(word))
            })
        });
        has_all && has_words
    }
}

/// Microseconds in seconds, in lists and objects too.
fn in_seconds(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map(|us| us / MICROSECONDS).into(),
        Value::Array(values) => values.iter().map(in_seconds).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), in_seconds(value))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use scheduler::time::{Span, Time};
    use schemars::JsonSchema;
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::json_with_units;

    #[derive(Serialize, JsonSchema)]
    struct Inner {
        wall: Option<Span>,
        memory_bytes: u64,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Reason {
        Late { limit: Span },
        Large { limit: u64 },
    }

    #[derive(Serialize, JsonSchema)]
    struct Outer {
        started_at: Time,
        ended_at: Option<Time>,
        rows: Vec<Inner>,
        parts: Vec<Span>,
        times: BTreeMap<String, Span>,
        reasons: Vec<Reason>,
        only: Option<Inner>,
        from_manager: u64,
        name: String,
        memory_bytes: Option<u64>,
        memory_bytes_max: u64,
    }

    fn outer() -> Outer {
        Outer {
            started_at: Time(1_700_000_000_250_000),
            ended_at: None,
            rows: vec![
                Inner { wall: Some(Span::from_millis(1250)), memory_bytes: 4096 },
                Inner { wall: None, memory_bytes: 0 },
            ],
            parts: vec![Span(500_000)],
            times: BTreeMap::from([("local".to_owned(), Span(2_000_000))]),
            reasons: vec![Reason::Late { limit: Span(1_000_000) }, Reason::Large { limit: 7 }],
            only: Some(Inner { wall: Some(Span(1)), memory_bytes: 1 }),
            from_manager: 3,
            name: "x".to_owned(),
            memory_bytes: Some(0),
            memory_bytes_max: 0,
        }
    }

    #[test]
    fn times_and_spans_are_there_in_seconds_too_and_missing_ones_are_null() {
        let shown: Value = serde_json::from_str(&json_with_units(&outer()).unwrap()).unwrap();
        let expected = json!({
            "started_at": 1_700_000_000_250_000_u64,
            "started_at_unix_seconds": 1_700_000_000.25,
            "ended_at": null,
            "ended_at_unix_seconds": null,
            "rows": [
                {"wall": 1_250_000, "wall_seconds": 1.25, "memory_bytes": 4096},
                {"wall": null, "wall_seconds": null, "memory_bytes": 0},
            ],
            "parts": [500_000],
            "parts_seconds": [0.5],
            "times": {"local": 2_000_000},
            "times_seconds": {"local": 2.0},
            "reasons": [{"kind": "late", "limit": 1_000_000, "limit_seconds": 1.0}, {"kind": "large", "limit": 7}],
            "only": {"wall": 1, "wall_seconds": 1e-6, "memory_bytes": 1},
            "from_manager": 3,
            "from_manager_bytes": 3,
            "from_manager_bytes": 3,
            "name": "x",
            // Unknown; what is asked for may be none.
            "memory_bytes": null,
            "memory_bytes_max": null,
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn each_new_field_stands_behind_the_one_it_repeats() {
        let shown = json_with_units(&outer()).unwrap();
        let at = |name: &str| shown.find(&format!("\"{name}\"")).unwrap();
        assert!(
            at("started_at") < at("started_at_unix_seconds")
                && at("started_at_unix_seconds") < at("ended_at")
        );
    }
}
