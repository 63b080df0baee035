//! The JSON Schema of the job file, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::job::author::form::JobForm;
use crate::job::author::read::read_job::JOB_FIELDS;
use crate::job::author::stages::STAGE_FIELDS;
use crate::job::author::tasks::TASK_FIELDS;

/// The JSON Schema (draft 2020-12) of a job file. It checks the form: what editors can complete and
/// underline; whether files exist and templates fit is only known to `load_job_file`.
pub fn job_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<JobForm>().to_value();
    forbid_null(&mut schema);
    if let Value::Object(root) = &mut schema {
        add_workflows(root);
    }
    schema
}

/// Files of several jobs: what they have beside the fields of one.
fn add_workflows(root: &mut Map<String, Value>) {
    let own = workflow_fields();
    if let Some(Value::Object(properties)) = root.get_mut("properties") {
        let not_of_files = |name: &str| name == "reduce";
        properties
            .extend(own.iter().filter(|(name, _)| !not_of_files(name)).map(|(n, s)| (n.clone(), s.clone())));
    }
    root.shift_remove("required");
    root.insert(
        "anyOf".to_owned(),
        json!([{ "required": ["command"] }, { "required": ["stages"] }, { "required": ["tasks"] }]),
    );
    let mut stage: Map<String, Value> = Map::new();
    for name in JOB_FIELDS {
        stage.insert(name.to_owned(), json!({ "$ref": format!("#/properties/{name}") }));
    }
    for name in STAGE_FIELDS {
        stage.extend(own.get(name).map(|schema| (name.to_owned(), schema.clone())));
    }
    let task = |name: &str| match name {
        "name" => json!({ "$ref": "#/$defs/Text", "description": "A name of its own." }),
        "command" | "resources" | "time_limit" => json!({ "$ref": format!("#/properties/{name}") }),
        "after" => json!({ "$ref": "#/$defs/Names", "description": "Tasks that it waits for." }),
        "inputs" => {
            json!({ "$ref": "#/$defs/Names", "description": "Files that it reads: of other tasks, or there." })
        }
        _ => json!({ "$ref": "#/$defs/Names", "description": "Files that it makes." }),
    };
    let task: Map<String, Value> = TASK_FIELDS.iter().map(|name| ((*name).to_owned(), task(name))).collect();
    if let Some(Value::Object(defs)) = root.get_mut("$defs") {
        defs.insert("Stage".to_owned(), object(stage, &["command"]));
        defs.insert("Task".to_owned(), object(task, &["name", "command"]));
        defs.insert(
            "Names".to_owned(),
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] }),
        );
        defs.insert("After".to_owned(), after());
    }
}

fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// An entry of `after`.
fn after() -> Value {
    json!({ "anyOf": [
        { "type": "string", "description": "A stage: each task waits for all of its tasks." },
        {
            "type": "object",
            "properties": {
                "stage": { "type": "string", "description": "Whose tasks." },
                "job": { "type": "integer", "minimum": 1, "description": "Whose tasks: of a job that was submitted before." },
                "tasks": {
                    "enum": ["all", "same", "groups", "spread"],
                    "description": "Which of them each task waits for; default all.",
                },
            },
            "oneOf": [{ "required": ["stage"] }, { "required": ["job"] }],
            "additionalProperties": false,
        },
    ] })
}

/// What files and stages have beside the fields of a job.
fn workflow_fields() -> Map<String, Value> {
    let fields = json!({
        "stages": {
            "type": "object",
            "description": "Several jobs, each with a name; what stands at the top holds for all that say nothing else.",
            "additionalProperties": { "$ref": "#/$defs/Stage" },
            "minProperties": 1,
        },
        "tasks": {
            "type": "array",
            "description": "Tasks that have little in common. They run in the job file's folder, or with `workdir: scratch` their files are brought.",
            "items": { "$ref": "#/$defs/Task" },
            "minItems": 1,
        },
        "after": {
            "description": "What the tasks wait for.",
            "anyOf": [{ "$ref": "#/$defs/After" }, { "type": "array", "items": { "$ref": "#/$defs/After" } }],
            "examples": ["prepare", { "stage": "prepare", "tasks": "same" }],
        },
        "reduce": {
            "description": "One task after all of another stage's, or one for each so many of them.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "stage": { "type": "string", "description": "Whose tasks." },
                        "every": { "type": "integer", "minimum": 1, "description": "A task for so many of them; default: one for all." },
                    },
                    "required": ["stage"],
                    "additionalProperties": false,
                },
            ],
            "examples": ["dock", { "stage": "dock", "every": 100 }],
        },
        "on_failed_dependency": {
            "enum": ["cancel", "run"],
            "description": "What becomes of tasks that wait for one that fails; default cancel.",
        },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Takes out the `null` that optional fields get: a field is left out, or it has a value. Also the
/// formats of Rust's integers, which editors do not know.
fn forbid_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        Value::Object(fields) => {
            fields.retain(|name, value| name != "format" || !value.is_string());
            fields.values_mut().for_each(forbid_null);
            if let Some(Value::Array(kinds)) = fields.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [only] = &kinds[..] {
                    let only = only.clone();
                    fields.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type") != Some(&Value::from("null")));
                if let [Value::Object(only)] = &choices[..] {
                    let only = only.clone();
                    fields.shift_remove("anyOf");
                    fields.extend(only);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
