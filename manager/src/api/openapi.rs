//! The OpenAPI document, made from the table of routes and the types themselves. The golden copy is
//! `protocol/golden/openapi.json`.

use protocol::api::{self, ErrorBody};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::route::{Answers, Route, SchemaOf};

/// The document of these routes as JSON.
pub(super) fn document(routes: &[Route]) -> String {
    format!("{:#}\n", make_document(routes))
}

/// What every refusal looks like: `protocol::api::ErrorAnswer`.
#[derive(JsonSchema)]
#[schemars(rename = "ErrorAnswer")]
#[allow(dead_code)] // Only its schema is used.
struct ErrorSchema {
    /// What went wrong.
    error: ErrorBody,
}

fn make_document(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for route in routes {
        let path = paths.entry(format!("{}{}", api::PREFIX, route.path)).or_insert_with(|| json!({}));
        path[route.method] = operation(route, &mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pilotfish",
            "version": api::VERSION.to_string(),
            "description": "The manager's API for users. Times are microseconds since the Unix epoch, spans are microseconds. Pilots speak another protocol.",
            "license": {"name": "Apache-2.0 OR MIT"},
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": generator.take_definitions(true),
        },
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = path_parameters(route.path);
    parameters.extend(route.query.into_iter().flat_map(|query| query_parameters(query, generator)));
    let error = generator.subschema_for::<ErrorSchema>();
    let (media_type, schema) = match route.answers {
        Answers::Json(schema_of) => ("application/json", json!(schema_of(generator))),
        Answers::Events(schema_of) => ("text/event-stream", json!(schema_of(generator))),
        Answers::Bytes => ("application/octet-stream", json!({})),
        Answers::Text(media_type) => (media_type, json!({"type": "string"})),
        Answers::Document => ("application/json", json!({"type": "object"})),
    };
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": {
            route.status: {"description": "It is so.", "content": {media_type: {"schema": schema}}},
            "default": {"description": "It is refused.", "content": {"application/json": {"schema": error}}},
        },
    });
    if let Some(schema_of) = route.body {
        let schema = json!(schema_of(generator));
        // Only a job must be there; an empty body is an object without fields.
        let is_required = ["/jobs", "/workflows", "/users"].contains(&route.path);
        operation["requestBody"] =
            json!({"required": is_required, "content": {"application/json": {"schema": schema}}});
    }
    if route.is_open {
        operation["security"] = json!([]);
    }
    operation
}

/// `get /jobs/{id}/tasks` as `get_jobs_id_tasks`.
fn operation_id(route: &Route) -> String {
    let words = route.path.split(['/', '.', '{', '}']).filter(|word| !word.is_empty());
    words.fold(route.method.to_owned(), |id, word| format!("{id}_{word}"))
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let schema = match name {
            "name" => json!({"type": "string"}),
            _ => json!({"type": "integer", "format": "uint64", "minimum": 0}),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    };
    names.map(parameter).collect()
}

/// A field of the query's type is a parameter.
fn query_parameters(query: SchemaOf, generator: &mut SchemaGenerator) -> Vec<Value> {
    let schema = query(generator);
    let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameter = |(name, mut schema): (String, Value)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let description = description.unwrap_or_else(|| "As the schema says.".into());
        json!({"name": name, "in": "query", "description": description, "schema": schema})
    };
    fields.into_iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use serde_json::Value;

    use super::{super::routes::routes, document};

    /// Set to anything to write the golden copy anew.
    const UPDATE: &str = "UPDATE_GOLDEN";

    #[test]
    fn the_document_is_the_golden_one() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/golden/openapi.json");
        let document = document(&routes());
        if std::env::var_os(UPDATE).is_some() {
            std::fs::write(&path, &document).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(golden == document, "the API has changed; if that is meant, run this test with {UPDATE}=1");
    }

    #[test]
    fn every_reference_has_its_schema_and_every_schema_is_used() {
        let document: Value = serde_json::from_str(&document(&routes())).unwrap();
        let mut used = BTreeSet::new();
        collect_references(&document, &mut used);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let defined: BTreeSet<String> =
            schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
        assert_eq!(used, defined);
        assert!(defined.len() > 30);
    }

    fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let ("$ref", Value::String(reference)) = (name.as_str(), value) {
                        found.insert(reference.clone());
                    }
                    collect_references(value, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}
