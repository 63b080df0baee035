//! The JSON Schema of the job file, for editors.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::job::author::form::JobForm;

/// The JSON Schema (draft 2020-12) of a job file. It checks the form: what editors can complete and
/// underline; whether files exist and templates fit is only known to `load_job_file`.
pub fn job_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<JobForm>().to_value();
    forbid_null(&mut schema);
    schema
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
