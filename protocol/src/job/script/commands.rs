//! Where the commands of a shell's text are, as far as it says so without being run: what stands in comments, in the
//! arguments of other programs, in patterns and in documents for them is none.

use std::str::Chars;

/// Substitutions within each other that are looked into; those below count as text.
const DEPTH_MAX: usize = 16;

/// Shells, which run the text after `-c` and scripts.
const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "ksh", "dash", "ash", "csh", "tcsh"];
/// What may stand before a command as a word of the shell.
const RESERVED: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "{{", "builtin", "eval"];
/// Programs that run what follows their options; with the options that take a word each, and how many words come between.
const PREFIXES: [(&str, &[&str], usize); 18] = [
    ("chrt", &["-T", "-P", "-D"], 1),
    ("command", &[], 0),
    ("env", &["-u", "--unset", "-C", "--chdir"], 0),
    ("exec", &["-a"], 0),
    ("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("nocache", &["-n"], 0),
    ("nohup", &[], 0),
    (
        "numactl",
        &[
            "-N",
            "-m",
            "-C",
            "-i",
            "-p",
            "-P",
            "--cpunodebind",
            "--membind",
            "--physcpubind",
            "--interleave",
            "--preferred",
        ],
        0,
    ),
    ("setarch", &[], 1),
    ("setsid", &[], 0),
    ("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    ("strace", &["-o", "-e", "-p", "-s", "-P"], 0),
    ("sudo", &["-u", "-g", "-h", "-p", "--user", "--group"], 0),
    ("taskset", &[], 1),
    ("time", &["-f", "-o", "--format", "--output"], 0),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    ("xargs", &["-n", "-I", "-P", "-L", "-d", "-a", "-s", "-E"], 0),
];

/// Each simple command of a shell's text, as its words without quotes: with the words that the shell knows before it,
/// without what is read from and written to files. Those of substitutions come, too; the word that they make is `$()`.
pub fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let mut scan = Scan { rest: text.chars(), commands: Vec::new(), documents: Vec::new() };
    scan.commands_until(None, 0);
    scan.commands.retain(|words| !words.is_empty());
    scan.commands
}

/// Which of a command's words is the program that it runs, behind variables and programs like `time` and `env`; `None`:
/// there is none, or it only asks where one is.
pub fn program_of(words: &[String]) -> Option<usize> {
    let mut at = 0;
    loop {
        let word = words.get(at)?;
        if RESERVED.contains(&word.as_str()) || is_assignment(word) {
            at += 1;
            continue;
        }
        let name = base_name(word);
        let Some((_, with_word, n_between)) = PREFIXES.iter().find(|(prefix, ..)| *prefix == name) else {
            return Some(at);
        };
        let of_prefix = at;
        at += 1;
        while let Some(option) = words.get(at).filter(|word| word.starts_with('-')) {
            if name == "command" && option.contains(['v', 'V']) {
                return None;
            }
            at += 1 + usize::from(with_word.contains(&option.as_str()));
        }
        while words.get(at).is_some_and(|word| is_assignment(word)) {
            at += 1;
        }
        at += n_between;
        if at >= words.len() {
            return Some(of_prefix);
        }
    }
}

/// The text that a shell is to run: the word after `-c`, and where it is. `words` begins with the program.
pub fn text_of_shell(words: &[String]) -> Option<(usize, &str)> {
    if !is_shell(words.first()?) {
        return None;
    }
    let n_options = words[1..].iter().take_while(|word| word.starts_with(['-', '+'])).count();
    let is_text = |word: &String| !word.starts_with("--") && word.starts_with('-') && word.contains('c');
    let at = 1 + n_options;
    words[1..at].iter().any(is_text).then_some(())?;
    Some((at, words.get(at)?))
}

/// Whether a program is a shell.
pub fn is_shell(program: &str) -> bool {
    SHELLS.contains(&base_name(program))
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether a word sets a variable for the command that follows.
pub fn is_assignment(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_part)
    })
}

/// The lines that follow are no commands but a document, up to this one.
struct Document {
    end: String,
    has_tabs: bool,
    /// Its reader runs it.
    is_run: bool,
}

struct Scan<'t> {
    rest: Chars<'t>,
    commands: Vec<Vec<String>>,
    documents: Vec<Document>,
}

/// A command that is being read.
#[derive(Default)]
struct Open {
    words: Vec<String>,
    word: Option<String>,
    /// The next word is a file, or the end of a document.
    awaits: Option<Awaited>,
}

enum Awaited {
    File,
    End { has_tabs: bool },
}

impl Open {
    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.word.get_or_insert_default().push_str(text);
    }
}

impl Scan<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn next_if(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.rest.next();
        }
        is_next
    }

    /// Reads commands up to the character that ends a substitution.
    fn commands_until(&mut self, end: Option<char>, depth: usize) {
        let mut open = Open::default();
        let mut n_open = 0_usize;
        while let Some(c) = self.rest.next() {
            match c {
                c if Some(c) == end && n_open == 0 => break,
                '\\' => match self.rest.next() {
                    None | Some('\n') => {}
                    Some(c) => open.push(c),
                },
                '\'' => {
                    open.push_str("");
                    for c in self.rest.by_ref().take_while(|c| *c != '\'') {
                        open.word.get_or_insert_default().push(c);
                    }
                }
                '"' => self.double_quoted(&mut open, depth),
                '#' if open.word.is_none() => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.rest.next();
                    }
                }
                '$' => self.dollar(&mut open, depth),
                '`' => self.substituted(&mut open, '`', depth),
                '<' | '>' => self.redirection(c, &mut open, depth),
                '&' if self.peek() == Some('>') => {}
                '\n' => {
                    self.end_command(&mut open);
                    self.skip_documents(depth);
                }
                '(' => {
                    self.end_command(&mut open);
                    n_open += 1;
                }
                // A pattern of `case` ends so.
                ')' if n_open == 0 => open = Open::default(),
                ')' => {
                    self.end_command(&mut open);
                    n_open -= 1;
                }
                ';' | '&' | '|' => self.end_command(&mut open),
                c if c.is_whitespace() => self.end_word(&mut open),
                c => open.push(c),
            }
        }
        self.end_command(&mut open);
    }

    fn end_word(&mut self, open: &mut Open) {
        let Some(word) = open.word.take() else { return };
        match open.awaits.take() {
            None => open.words.push(word),
            Some(Awaited::File) => {}
            Some(Awaited::End { has_tabs }) => {
                let program = program_of(&open.words).and_then(|at| open.words.get(at));
                let is_run = program.is_some_and(|program| is_shell(program));
                self.documents.push(Document { end: word, has_tabs, is_run });
            }
        }
    }

    fn end_command(&mut self, open: &mut Open) {
        self.end_word(open);
        open.awaits = None;
        self.commands.push(std::mem::take(&mut open.words));
    }

    fn double_quoted(&mut self, open: &mut Open, depth: usize) {
        open.push_str("");
        while let Some(c) = self.rest.next() {
            match c {
                '"' => break,
                '\\' => match self.rest.next() {
                    Some(c @ ('"' | '\\' | '$' | '`')) => open.push(c),
                    Some('\n') | None => {}
                    Some(c) => {
                        open.push('\\');
                        open.push(c);
                    }
                },
                '$' => self.dollar(open, depth),
                '`' => self.substituted(open, '`', depth),
                c => open.push(c),
            }
        }
    }

    fn dollar(&mut self, open: &mut Open, depth: usize) {
        if self.next_if('(') {
            return self.substituted(open, ')', depth);
        }
        open.push('$');
        if self.peek() != Some('{') {
            return;
        }
        let mut n_open = 0_usize;
        for c in self.rest.by_ref() {
            open.push(c);
            match c {
                '{' => n_open += 1,
                '}' if n_open <= 1 => return,
                '}' => n_open -= 1,
                _ => {}
            }
        }
    }

    fn substituted(&mut self, open: &mut Open, end: char, depth: usize) {
        open.push_str("$()");
        if depth < DEPTH_MAX {
            self.commands_until(Some(end), depth + 1);
        }
    }

    fn redirection(&mut self, c: char, open: &mut Open, depth: usize) {
        if self.next_if('(') {
            return self.substituted(open, ')', depth);
        }
        // The number before it is a file's.
        if open.word.as_ref().is_some_and(|word| word.chars().all(|c| c.is_ascii_digit())) {
            open.word = None;
        }
        self.end_word(open);
        let is_document = c == '<' && self.next_if('<') && !self.next_if('<');
        let has_tabs = is_document && self.next_if('-');
        while !is_document && self.peek().is_some_and(|c| "<>&|".contains(c)) {
            self.rest.next();
        }
        open.awaits = Some(if is_document { Awaited::End { has_tabs } } else { Awaited::File });
    }

    /// Goes on behind the documents that begin after a line.
    fn skip_documents(&mut self, depth: usize) {
        for document in std::mem::take(&mut self.documents) {
            let mut text = String::new();
            while !self.rest.as_str().is_empty() {
                let rest = self.rest.as_str();
                let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
                self.rest = after.chars();
                let shown = if document.has_tabs { line.trim_start_matches('\t') } else { line };
                if shown == document.end {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            if document.is_run && depth < DEPTH_MAX {
                let mut scan = Scan { rest: text.chars(), commands: Vec::new(), documents: Vec::new() };
                scan.commands_until(None, depth + 1);
                self.commands.append(&mut scan.commands);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{program_of, simple_commands, text_of_shell};

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn commands_are_found_where_a_shell_runs_them() {
        for (text, commands) in [
            ("a b; c | d && e & f", "a b/c/d/e/f"),
            ("a 'b;c' \"d | e\" f\\;g", "a b;c d | e f;g"),
            ("a # b; c\nd#e f", "a/d#e f"),
            ("a > b 2>&1 < c &> d e >>f", "a e"),
            ("x=$(a b) c \"$(d \"e f\")\" `g`", "a b/d e f/g/x=$() c $() $()"),
            ("a ${x:-b; c} d", "a ${x:-b; c} d"),
            ("f() { a; }\n(b; c)", "f/{ a/}/b/c"),
            ("case $x in\na) b;; c|d) e;; esac", "case $x in/b/c/e/esac"),
            ("a <<E b\nc; d\nE\ne", "a b/e"),
            ("bash -s <<-'E'\n\tc; d\n\tE\ne", "bash -s/c/d/e"),
            ("a <<< b; c", "a/c"),
            ("a \\\n b", "a b"),
            ("a 'b", "a b"),
            ("$(", "$()"),
        ] {
            let found: Vec<String> = simple_commands(text).iter().map(|words| words.join(" ")).collect();
            assert_eq!(found.join("/"), commands, "{text}");
        }
        let deep = "$(".repeat(100_000);
        assert!(!simple_commands(&deep).is_empty());
    }

    #[test]
    fn program_comes_after_variables_and_programs_that_run_others() {
        for (text, program) in [
            ("a b", "a"),
            ("X=1 Y= a b", "a"),
            ("if time -p a b", "a"),
            ("env -i -- X=1 a", "a"),
            ("/usr/bin/env -u X a b", "a"),
            ("nice -n 5 timeout -k 1 60 a b", "a"),
            ("numactl -N 0 --membind=0 a", "a"),
            ("taskset -c 0-3 a", "a"),
            ("exec ./a.sh b", "./a.sh"),
            ("timeout 5", "timeout"),
        ] {
            let words = words(text);
            assert_eq!(program_of(&words).map(|at| words[at].as_str()), Some(program), "{text}");
        }
        assert_eq!(program_of(&words("command -v a")), None);
        assert_eq!(program_of(&words("X=1")), None);
        assert_eq!(program_of(&[]), None);
    }

    #[test]
    fn shell_runs_the_text_after_its_option() {
        assert_eq!(text_of_shell(&words("/bin/bash -l -ec a b")), Some((3, "a")));
        assert_eq!(text_of_shell(&words("sh a -c b")), None);
        assert_eq!(text_of_shell(&words("cc -c a")), None);
    }
}
