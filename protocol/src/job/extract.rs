//! Taking result columns out of a task's standard output.

use regex::bytes::{Regex, RegexBuilder};

use crate::job::{Extract, Problem, limits};

/// Thousands of tasks are searched with a pattern: one that explodes is refused.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The extraction of a job, compiled once.
#[derive(Clone, Debug)]
pub struct Extractor {
    patterns: Vec<Regex>,
}

impl Extractor {
    /// Compiles the patterns of a job.
    ///
    /// # Errors
    /// The patterns that are no regular expressions; none of a valid job.
    pub fn new(columns: &[Extract]) -> Result<Extractor, Vec<Problem>> {
        let mut patterns = Vec::new();
        let mut problems = Vec::new();
        for column in columns {
            match compile_pattern(&column.pattern) {
                Ok(pattern) => patterns.push(pattern),
                Err(cause) => {
                    let path = format!("results.extract.{}", column.name);
                    problems.push(Problem::new(path, &column.pattern, cause));
                }
            }
        }
        if problems.is_empty() { Ok(Extractor { patterns }) } else { Err(problems) }
    }

    /// A value for each column, in the job's order: the first group of the first match, or the
    /// whole match of a pattern without groups; long ones are cut off. O(length of the output × columns).
    pub fn extract(&self, output: &[u8]) -> Vec<Option<String>> {
        let first = |pattern: &Regex| {
            let captures = pattern.captures(output)?;
            let matched = captures.get(usize::from(captures.len() > 1))?;
            let bytes = matched.as_bytes();
            let kept = &bytes[..bytes.len().min(limits::EXTRACTED_BYTES_MAX)];
            Some(String::from_utf8_lossy(kept).into_owned())
        };
        self.patterns.iter().map(first).collect()
    }
}

/// `^` and `$` match at every line, also where lines end as on Windows.
pub(super) fn compile_pattern(pattern: &str) -> Result<Regex, String> {
    let builder = &mut RegexBuilder::new(pattern);
    builder.multi_line(true).crlf(true).size_limit(COMPILED_BYTES_MAX);
    builder.build().map_err(|error| {
        let text = error.to_string();
        // The crate draws the pattern with a mark below; its last line says what is wrong.
        text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::Extractor;
    use crate::job::Extract;

    #[test]
    fn first_group_of_the_first_match_is_taken() {
        let column =
            |name: &str, pattern: &str| Extract { name: name.to_owned(), pattern: pattern.to_owned() };
        let columns = [
            column("affinity", r"^\s+1\s+(-?[0-9.]+)"),
            column("whole", r"modes$"),
            column("absent", r"^error (.*)"),
            column("optional", r"mode(x)?"),
        ];
        let output = b"mode | affinity\r\nall modes\r\n   1       -7.251          0          0\n   2  -6.9\n";
        let found = Extractor::new(&columns).unwrap().extract(output);
        assert_eq!(found, [Some("-7.251".to_owned()), Some("modes".to_owned()), None, None]);
    }

    #[test]
    fn a_value_is_as_long_as_a_cell_may_be() {
        let columns = [Extract { name: "all".to_owned(), pattern: "(?s).*".to_owned() }];
        let found = Extractor::new(&columns).unwrap().extract(&vec![b'x'; 1 << 20]);
        assert_eq!(found[0].as_ref().map(String::len), Some(64 << 10));
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        let columns = [Extract { name: "x".to_owned(), pattern: "(".to_owned() }];
        let problems = Extractor::new(&columns).unwrap_err();
        assert_eq!(problems[0].to_string(), "results.extract.x: found (; unclosed group");
    }
}
