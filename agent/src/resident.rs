//! The messages to and from a resident program: one line of JSON each.

use serde::{Deserialize, Serialize};

/// The line for one task, as the program reads it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Question {
    /// The job's id.
    pub job: u64,
    /// The task's index.
    pub index: u64,
    /// The task's parameters by name.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// The program's line when it has finished a task.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Reply {
    /// Counts as the exit code of the task.
    pub exit_code: i32,
    /// Counts as the standard output of the task.
    #[serde(default)]
    pub output: String,
}

/// Parses a line of the program.
///
/// # Errors
/// A text that says what is wrong with the line, with its beginning.
pub fn read_reply(line: &[u8]) -> Result<Reply, String> {
    serde_json::from_slice(line).map_err(|_| {
        let start: String = String::from_utf8_lossy(line).chars().take(80).collect();
        let why = fault_of_reply(line);
        format!("expected a line like {{\"exit_code\":0,\"output\":\"…\"}}, found {start:?}: {why}")
    })
}

fn fault_of_reply(line: &[u8]) -> &'static str {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else { return "it is no JSON" };
    let Some(fields) = value.as_object() else { return "it has no fields" };
    let Some(code) = fields.get("exit_code") else { return "it has no `exit_code`" };
    let is_code = code.as_i64().is_some_and(|code| i32::try_from(code).is_ok());
    match fields.get("output") {
        _ if !is_code => "`exit_code` is no whole number of an exit code",
        Some(output) if !output.is_string() => "`output` is no text",
        Some(_) | None => "a field is there twice",
    }
}

#[cfg(test)]
mod tests {
    use super::{Question, Reply, read_reply};

    #[test]
    fn question_is_one_line_of_json() {
        let parameters = [("x".to_string(), "a\nb".into())].into_iter().collect();
        let line = serde_json::to_string(&Question { job: 1, index: 5, parameters }).unwrap();
        assert_eq!(line, r#"{"job":1,"index":5,"parameters":{"x":"a\nb"}}"#);
    }

    #[test]
    fn output_is_optional_and_other_fields_are_ignored() {
        assert_eq!(
            read_reply(br#"{"exit_code":3,"took":1.5}"#),
            Ok(Reply { exit_code: 3, output: String::new() })
        );
    }

    #[test]
    fn broken_answer_is_shown() {
        let error = read_reply(b"ready!").unwrap_err();
        assert!(error.contains("found \"ready!\""), "{error}");
        for (line, why) in [
            ("ready!", "it is no JSON"),
            ("2.0", "it has no fields"),
            (r#"{"output":"x"}"#, "it has no `exit_code`"),
            (r#"{"exit_code":"0"}"#, "`exit_code` is no whole number of an exit code"),
            (r#"{"exit_code":5000000000}"#, "`exit_code` is no whole number of an exit code"),
            (r#"{"exit_code":0,"output":1}"#, "`output` is no text"),
            (r#"{"exit_code":0,"exit_code":0}"#, "a field is there twice"),
        ] {
            let error = read_reply(line.as_bytes()).unwrap_err();
            assert!(error.ends_with(&format!(": {why}")), "{error}");
        }
    }
}
