//! What a resident program is asked and what it answers: one line of JSON each.

use serde::{Deserialize, Serialize};

/// One task, as the program reads it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Question {
    /// The job's number.
    pub job: u64,
    /// The task's index.
    pub index: u64,
    /// Its parameters by name.
    pub parameters: serde_json::Map<String, serde_json::Value>,
}

/// What the program says when it is done with a task.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Reply {
    /// As the exit code of a program would be.
    pub exit_code: i32,
    /// As its standard output would be.
    #[serde(default)]
    pub output: String,
}

/// A line read as an answer.
///
/// # Errors
/// What is wrong with it, in words, with its beginning.
pub fn read_reply(line: &[u8]) -> Result<Reply, String> {
    serde_json::from_slice(line).map_err(|error| {
        let start: String = String::from_utf8_lossy(line).chars().take(80).collect();
        format!("expected a line like {{\"exit_code\":0,\"output\":\"…\"}}, found {start:?}: {error}")
    })
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
        assert!(read_reply(br#"{"output":"x"}"#).unwrap_err().contains("exit_code"));
    }
}
