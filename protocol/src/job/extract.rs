//! Taking result columns out of a task's standard output.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};
use regex_automata::{
    Input,
    hybrid::dfa::{Config, DFA},
    nfa::thompson::{self, WhichCaptures},
    util::syntax,
};

use crate::{
    job::{Extract, Problem, limits},
    text::kept::beginning,
};

/// Thousands of tasks are searched with a pattern: one that explodes is refused.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The extraction of a job, compiled once.
#[derive(Clone, Debug)]
pub struct Extractor {
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    pattern: Regex,
    source: String,
    /// The pattern is about bytes of its own, like `(?-u:\xB0)`, and not about characters only.
    is_of_bytes: bool,
    /// The same as an automaton, made when an output is searched that is not all there. `None`: it is too large.
    automaton: OnceLock<Option<DFA>>,
}

/// What was found in a task's output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extracted {
    /// A value for each column, in the job's order.
    pub values: Vec<Option<String>>,
    /// Whether the task wrote more than is kept, so that values may be missing.
    pub is_cut: bool,
}

impl Extractor {
    /// Compiles the patterns of a job.
    ///
    /// # Errors
    /// The patterns that are no regular expressions; none of a valid job.
    pub fn new(columns: &[Extract]) -> Result<Extractor, Vec<Problem>> {
        let mut compiled = Vec::new();
        let mut problems = Vec::new();
        for column in columns {
            match compile_pattern(&column.pattern) {
                Ok(pattern) => {
                    let source = column.pattern.clone();
                    let is_of_bytes = is_of_bytes(&source);
                    compiled.push(Column { pattern, source, is_of_bytes, automaton: OnceLock::new() });
                }
                Err(cause) => {
                    let path = format!("results.extract.{}", column.name);
                    problems.push(Problem::new(path, &column.pattern, cause));
                }
            }
        }
        if problems.is_empty() { Ok(Extractor { columns: compiled }) } else { Err(problems) }
    }

    /// The first group of the first match of each column, or the whole match of a pattern without groups; long ones are
    /// cut off. `kept` is what is kept of the task's standard output under the job's limit. If that is not all that the
    /// task wrote, there is a value only where it is certain that all of the output has the same first match: in the
    /// beginning, and not where the output was cut. Where bytes are no UTF-8, each is a character of its own, `\u{fffd}`
    /// (of a character that breaks off, all its bytes together); patterns about bytes are searched for in the bytes.
    /// O(length of the output × columns).
    pub fn extract(&self, kept: &[u8], limit_bytes: u64) -> Extracted {
        let output = beginning(kept, limit_bytes);
        let whole = if output.is_cut { whole_characters(output.bytes) } else { output.bytes };
        let text = String::from_utf8_lossy(whole);
        let first = |column: &Column| {
            let searched = if column.is_of_bytes { output.bytes } else { text.as_bytes() };
            let captures = column.pattern.captures(searched)?;
            if output.is_cut && !column.is_settled(searched) {
                return None;
            }
            let matched = captures.get(usize::from(captures.len() > 1))?;
            let bytes = matched.as_bytes();
            let kept = &bytes[..bytes.len().min(limits::EXTRACTED_BYTES_MAX)];
            Some(String::from_utf8_lossy(kept).into_owned())
        };
        Extracted { values: self.columns.iter().map(first).collect(), is_cut: output.is_cut }
    }
}

impl Column {
    /// Whether the first match in these bytes stays the same whatever follows them: the automaton stops before their end,
    /// or with any byte behind it. Where it cannot tell, as in texts beyond ASCII for patterns with `\b`, it is not certain.
    fn is_settled(&self, bytes: &[u8]) -> bool {
        let Some(automaton) = self.automaton.get_or_init(|| automaton_of(&self.source)) else { return false };
        let mut cache = automaton.create_cache();
        let Ok(mut state) = automaton.start_state_forward(&mut cache, &Input::new(bytes)) else {
            return false;
        };
        for byte in bytes {
            match automaton.next_state(&mut cache, state, *byte) {
                Ok(next) if next.is_dead() => return true,
                Ok(next) if !next.is_quit() => state = next,
                Ok(_) | Err(_) => return false,
            }
        }
        // It tells of a match one byte late. There is another byte: something was left out.
        let mut stops =
            |byte: u8| automaton.next_state(&mut cache, state, byte).is_ok_and(|next| next.is_dead());
        (0..=u8::MAX).all(&mut stops)
    }
}

/// The bytes without a character at their end that is not all there: what follows was left out.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let is_begun = |n: &usize| {
        let end = &bytes[bytes.len() - n..];
        std::str::from_utf8(end).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    // A character has 4 bytes at most.
    let n_begun = (1..=bytes.len().min(3)).find(is_begun).unwrap_or(0);
    &bytes[..bytes.len() - n_begun]
}

/// Whether a pattern can match what is not UTF-8: then its author means bytes.
fn is_of_bytes(pattern: &str) -> bool {
    syntax::parse_with(pattern, &syntax::Config::new().multi_line(true).crlf(true).utf8(true)).is_err()
}

/// An automaton with the first match of a pattern as [`compile_pattern`] understands it.
fn automaton_of(pattern: &str) -> Option<DFA> {
    let nfa = thompson::Config::new()
        .utf8(false)
        .nfa_size_limit(Some(COMPILED_BYTES_MAX))
        .which_captures(WhichCaptures::Implicit);
    let lazy = Config::new().unicode_word_boundary(true).skip_cache_capacity_check(true);
    DFA::builder()
        .syntax(syntax::Config::new().multi_line(true).crlf(true).utf8(false))
        .thompson(nfa)
        .configure(lazy)
        .build(pattern)
        .ok()
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
    use crate::{
        job::Extract,
        text::kept::{head_len, left_out_line, used_up_line},
    };

    /// As much as a task may write here before something is left out.
    const LIMIT: usize = 200;

    fn extractor(pattern: &str) -> Extractor {
        Extractor::new(&[Extract { name: "v".to_owned(), pattern: pattern.to_owned() }]).unwrap()
    }

    /// What is found in what a pilot keeps of this.
    fn found(pattern: &str, written: &str) -> Option<String> {
        let bytes = written.as_bytes();
        let n_head = head_len(LIMIT);
        let kept = match bytes.len().checked_sub(LIMIT) {
            None | Some(0) => bytes.to_vec(),
            Some(n) => {
                let line = left_out_line(n as u64);
                [&bytes[..n_head], line.as_bytes(), &bytes[bytes.len() - (LIMIT - n_head)..]].concat()
            }
        };
        let found = extractor(pattern).extract(&kept, LIMIT as u64);
        assert_eq!(found.is_cut, bytes.len() > LIMIT);
        found.values.into_iter().next().unwrap()
    }

    /// A text of 100 bytes, the head of a longer one, that ends with this.
    fn head_with(end: &str) -> String {
        format!("{}\n{end}", "x".repeat(head_len(LIMIT) - 1 - end.len()))
    }

    #[test]
    fn value_at_the_cut_is_absent() {
        let tail = "7".repeat(300);
        for (pattern, end) in [
            (r"v=(\d+)", "v=123"),
            (r"v=(\d*)", "v="),
            (r"^v=(.*)$", "v=12"),
            (r"v=(\d+)$", "v=12"),
            (r"\d+", "12"),
            (r"v=(\d+)\z", "v=12"),
            (r"v=\d+\b", "v=12"),
            // More of it may follow, …
            (r"(?s)a(.*)b", "a 1 b\n"),
            (r"(\d+)\s+", "12 "),
            // … or another match may begin before this one.
            (r"(?s)begin.*end|v=(\d+)", "begin\nv=1 \n"),
        ] {
            assert_eq!(found(pattern, &format!("{}{tail}", head_with(end))), None, "{pattern}");
        }
    }

    #[test]
    fn value_in_the_beginning_of_a_longer_output_is_found() {
        let tail = "v=9\n7 bytes 12\n".repeat(30);
        for (pattern, end, value) in [
            (r"v=(\d+)", "v=123\n", "123"),
            (r"v=(\d+)", "v=123 ", "123"),
            (r"^v=(.*)$", "v=12\r\n", "12"),
            (r"^\s+1\s+(-?[0-9.]+)", "   1    -7.2  0\n", "-7.2"),
            (r"(?s)a(.*?)b", "a 1 b 2 b\n", " 1 "),
            (r"\bv=(\d+)\b", "v=12 \n", "12"),
            (r"y=(\d)|v=(\d)", "y=4 v=1 \n", "4"),
        ] {
            let written = format!("{}{tail}", head_with(end));
            assert_eq!(found(pattern, &written).as_deref(), Some(value), "{pattern}");
        }
    }

    /// What is found in all of an output of bytes.
    fn found_in(pattern: &str, output: &[u8]) -> Option<String> {
        extractor(pattern).extract(output, 1 << 20).values.into_iter().next().unwrap()
    }

    #[test]
    fn bytes_that_are_not_utf8_end_no_value() {
        let latin = b"temp=25\xb0C end=5\nnext=1\n";
        for (pattern, value) in [
            (r"temp=(.*)", Some("25\u{fffd}C end=5")),
            (r"temp=.*end=(\d+)", Some("5")),
            (r"temp=(\d+).C", Some("25")),
            (r"temp=([^ ]+)", Some("25\u{fffd}C")),
            (r"temp=(\S+) end", Some("25\u{fffd}C")),
            (r"(?s)temp=.*next=(\d)", Some("1")),
            (r"temp=(\d+)", Some("25")),
            (r"(?-u:\xB0)C end=(\d)", Some("5")),
            (r"temp=(\d+)(?-u:.)C", Some("25")),
            (r"temp=(\w+)C", None),
        ] {
            assert_eq!(found_in(pattern, latin).as_deref(), value, "{pattern}");
        }
        assert_eq!(found_in(r"n=(.*)", b"n=\xe4\xf6\xfc!\r\n").as_deref(), Some("\u{fffd}\u{fffd}\u{fffd}!"));
        // Characters elsewhere in such an output stay characters.
        assert_eq!(found_in(r"n=(\w+)", "\u{b0} n=M\u{fc}ller".as_bytes()).as_deref(), Some("M\u{fc}ller"));
        let mixed = [b"\xb0 n=".as_slice(), "M\u{fc}ller\n".as_bytes()].concat();
        assert_eq!(found_in(r"n=(\w+)", &mixed).as_deref(), Some("M\u{fc}ller"));
        assert_eq!(found_in(r"n=(M\p{Ll}+)", &mixed).as_deref(), Some("M\u{fc}ller"));
    }

    #[test]
    fn character_at_the_cut_is_no_other_one() {
        let n_head = head_len(LIMIT);
        let kept = |head: &[u8]| {
            let (before, tail) = ("x".repeat(n_head - head.len()), "x".repeat(LIMIT - n_head));
            [before.as_bytes(), head, left_out_line(77).as_bytes(), tail.as_bytes()].concat()
        };
        let found = |pattern: &str, head: &[u8]| {
            let found = extractor(pattern).extract(&kept(head), LIMIT as u64);
            assert!(found.is_cut);
            found.values.into_iter().next().unwrap()
        };
        assert_eq!(found(r"v=(\d+)", b"v=12\xd9"), None, "it may become an Arabic digit");
        assert_eq!(found(r"v=(\w+)", b"v=12\xe2\x82"), None);
        assert_eq!(found(r"v=(\d+)", b"v=12\xb0 ").as_deref(), Some("12"), "no digit begins so");
        assert_eq!(found("v=(.)", b"v=\xb0 ").as_deref(), Some("\u{fffd}"));
        assert_eq!(found("v=(.*)$", b"v=\xb0C\n").as_deref(), Some("\u{fffd}C"));
        assert_eq!(found("v=(.)", b"v=\xc3\xa9 ").as_deref(), Some("\u{e9}"));
    }

    #[test]
    fn match_behind_the_gap_or_in_our_own_lines_is_none() {
        let written = format!("{}v=1\n{}v=2\n", "x".repeat(400), "x".repeat(60));
        assert_eq!(found(r"v=(\d)", &written), None, "the first one is in the gap");
        assert_eq!(found(r"(\d+) bytes", &"x".repeat(500)), None);
        assert_eq!(found(r"pilotfish: (.*)", &"x".repeat(500)), None);
        assert_eq!(found(r"(?s)x(.*)x", &"x".repeat(500)), None);
        let spent = |text: &str| {
            let line = used_up_line("the job's budget for output (2.0 KiB, results.budget)");
            let kept = format!("{text}{line}");
            ["v=(\\d+)", r"([0-9.]+) KiB"].map(|pattern| {
                let found = extractor(pattern).extract(kept.as_bytes(), LIMIT as u64);
                assert!(found.is_cut);
                found.values.into_iter().next().unwrap()
            })
        };
        assert_eq!(spent("v=12"), [None, None], "the number may go on");
        assert_eq!(spent("v=12\nv=1"), [Some("12".to_owned()), None]);
    }

    #[test]
    fn output_that_is_all_there_is_searched_to_its_end() {
        assert_eq!(found(r"v=(\d+)", "v=12").as_deref(), Some("12"));
        assert_eq!(found(r"v=(\d+)\z", &format!("{}v=3", "x".repeat(LIMIT - 3))).as_deref(), Some("3"));
        let own = format!("a{}b\n", left_out_line(375));
        assert_eq!(found(r"(\d+) bytes", &own).as_deref(), Some("375"), "the program wrote it");
    }

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
        let found = Extractor::new(&columns).unwrap().extract(output, 1 << 20).values;
        assert_eq!(found, [Some("-7.251".to_owned()), Some("modes".to_owned()), None, None]);
    }

    #[test]
    fn a_value_is_as_long_as_a_cell_may_be() {
        let columns = [Extract { name: "all".to_owned(), pattern: "(?s).*".to_owned() }];
        let found = Extractor::new(&columns).unwrap().extract(&vec![b'x'; 1 << 20], 1 << 20).values;
        assert_eq!(found[0].as_ref().map(String::len), Some(64 << 10));
    }

    #[test]
    fn patterns_that_are_none_are_refused() {
        let columns = [Extract { name: "x".to_owned(), pattern: "(".to_owned() }];
        let problems = Extractor::new(&columns).unwrap_err();
        assert_eq!(problems[0].to_string(), "results.extract.x: found (; unclosed group");
    }
}
