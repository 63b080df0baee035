//! Which variables a shell line reads: those that the shell itself puts in. Text in single quotes, in comments and behind
//! backslashes is not the shell's, but for what another shell of the line gets as its own line. What is quoted is known by
//! the tracker that quotes values.

use protocol::template::{Reading, ShellText};

/// Shells whose `-c` has a line of the same kind.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// How deep lines within lines are looked into.
const DEPTH_MAX: usize = 8;

/// The names in `$NAME` and `${NAME}`, which is `${{NAME}}` in a template, in the order of the line.
pub fn variables(line: &str) -> Vec<&str> {
    variables_within(line, 0)
}

/// The lines that shells among these words run: what follows their `-c`.
pub fn lines_of_shells(words: &[String]) -> impl Iterator<Item = &str> {
    let is_line = |n: &usize| is_command_option(&words[*n]) && words[..*n].iter().any(|word| is_shell(word));
    (0..words.len().saturating_sub(1)).filter(is_line).map(|n| words[n + 1].as_str())
}

fn variables_within(line: &str, depth: usize) -> Vec<&str> {
    if depth > DEPTH_MAX {
        return Vec::new();
    }
    let mut reader = Reader {
        line,
        depth,
        text: ShellText::default(),
        names: Vec::new(),
        places: vec![Place::at(0)],
        quoted: None,
        documents: Vec::new(),
        body: 0,
        is_process: false,
    };
    // A line end ends the line, and a here-document in it.
    for (at, character) in line.char_indices().chain([(line.len(), '\n')]) {
        reader.step(at, character);
    }
    reader.names
}

/// Where the present command of a line begins, and where its present word does.
struct Place {
    command: usize,
    word: usize,
}

impl Place {
    fn at(at: usize) -> Place {
        Place { command: at, word: at }
    }
}

struct Reader<'l> {
    line: &'l str,
    depth: usize,
    text: ShellText,
    names: Vec<&'l str>,
    /// Of the line and of each that is open within it; the innermost is the last.
    places: Vec<Place>,
    /// Where the text in single quotes begins that is being read, if it is a line of its own.
    quoted: Option<usize>,
    /// Whether here-documents are for a shell: those that are open or begin with the next line, the first one last
    /// where they are open.
    documents: Vec<bool>,
    /// Where the present here-document begins.
    body: usize,
    /// The second `$` of `$$` is no beginning.
    is_process: bool,
}

impl<'l> Reader<'l> {
    fn step(&mut self, at: usize, character: char) {
        let (before, was_opening) = (self.text.reading(), self.text.is_opening());
        let (depth, n_documents) = (self.text.depth(), self.text.n_documents());
        self.names_at(at, character, before);
        self.text.read(character);
        let next = (at + character.len_utf8()).min(self.line.len());
        self.single_quotes(at, next, before);
        if self.text.is_opening() && !was_opening {
            self.documents.push(self.words_before().any(is_shell));
        } else if was_opening && !self.text.is_opening() && self.text.n_documents() == n_documents {
            // It was `<<<`.
            self.documents.pop();
        }
        self.levels(next, depth, before);
        let is_end = was_opening && !self.text.is_opening();
        if before == Reading::Bare || is_end || (character == '\n' && before == Reading::Nothing) {
            self.words(next, character);
        }
    }

    /// The name behind a `$`.
    fn names_at(&mut self, at: usize, character: char, reading: Reading) {
        let is_read = character == '$' && matches!(reading, Reading::Bare | Reading::Filled);
        let rest = self.line.get(at + 1..).unwrap_or_default();
        let was_process = std::mem::take(&mut self.is_process);
        match is_read && !was_process {
            true if rest.starts_with('$') => self.is_process = true,
            true => self.names.extend(name_at(rest)),
            false => {}
        }
    }

    /// Takes note of lines that begin or end within the line.
    fn levels(&mut self, next: usize, before: usize, reading: Reading) {
        let after = self.text.depth();
        if after > before {
            let are_documents = matches!(self.text.reading(), Reading::Filled | Reading::Verbatim);
            if are_documents {
                let n_before = self.documents.len().saturating_sub(after - before);
                self.documents[n_before..].reverse();
                self.body = next;
            }
            self.places.extend((before..after).map(|_| Place::at(next)));
        } else if after < before {
            self.places.truncate(after);
            let is_of_document = matches!(reading, Reading::Filled | Reading::Verbatim);
            if is_of_document {
                let is_for_shell = self.documents.pop().unwrap_or_default();
                if is_for_shell && reading == Reading::Verbatim {
                    self.names.extend(variables_within(&self.line[self.body..next], self.depth + 1));
                }
                self.body = next;
                self.begin_command(next);
            }
        }
    }

    /// Takes note of where commands and words begin.
    fn words(&mut self, next: usize, character: char) {
        match character {
            ';' | '|' | '&' | '(' | '\n' => self.begin_command(next),
            blank if blank.is_whitespace() => {
                if let Some(place) = self.places.last_mut() {
                    place.word = next;
                }
            }
            _ => {}
        }
    }

    fn begin_command(&mut self, at: usize) {
        if let Some(place) = self.places.last_mut() {
            *place = Place::at(at);
        }
    }

    /// The words of the present command before the present one.
    fn words_before(&self) -> impl DoubleEndedIterator<Item = &'l str> + use<'l> {
        let before = self.places.last().map_or("", |place| &self.line[place.command..place.word]);
        before.split_whitespace()
    }

    /// Looks into a text in single quotes that a shell gets as its own line.
    fn single_quotes(&mut self, at: usize, next: usize, before: Reading) {
        let after = self.text.reading();
        if before == Reading::Bare && after == Reading::Quoted {
            let mut words = self.words_before().rev();
            let is_line = match words.next() {
                Some("eval" | "trap") => true,
                Some(last) => is_command_option(last) && words.any(is_shell),
                None => false,
            };
            self.quoted = is_line.then_some(next);
        } else if before == Reading::Quoted
            && after != Reading::Quoted
            && let Some(begin) = self.quoted.take()
        {
            self.names.extend(variables_within(&self.line[begin..at], self.depth + 1));
        }
    }
}

/// The name behind a `$`.
pub fn name_at(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches('{');
    let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()))
}

/// `-c`, also with others: `-lc`.
fn is_command_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.ends_with('c') && letters.chars().all(|c| c.is_ascii_alphabetic())
}

fn is_shell(word: &str) -> bool {
    let name = word.trim_matches(['"', '\'']).rsplit('/').next().unwrap_or_default();
    SHELLS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn variables_that_the_shell_reads_are_found() {
        for (line, expected) in [
            ("ls $A ${B} ${{C}} \"$D ${E:-x}\" `ls $F` $(ls $G)", &["A", "B", "C", "D", "E", "F", "G"][..]),
            ("awk '{print $NF}' $A", &["A"]),
            ("echo \"it's $A\" 'not $B' \"$C\"", &["A", "C"]),
            ("echo \"$(awk '{print $NF}' $A)\" $B", &["A", "B"]),
            ("echo \"`awk '{print $NF}' $A`\" '$B'", &["A"]),
            ("ls # $A it's\nls $B", &["B"]),
            ("ls $A#$B; ls ${{#C}} a#$D", &["A", "B", "D"]),
            ("echo \\$A \\'$B\\' \"\\$C\" $$D $1 $?", &["B"]),
            ("sh -c 'ls $A'; env X=1 /bin/bash -lc 'ls $B'", &["A", "B"]),
            ("bash -c 'echo '\\''x'\\'' $A' '$B'", &["A"]),
            ("python3 -c 'print(\"$A\")'; xargs -n1 sh -c 'ls $B $1' < '$C'", &["B"]),
            ("eval 'ls $A'; trap 'rm $B' EXIT; bash x.sh '$C'; ls 'a' '$D'", &["A", "B"]),
            ("cat <<EOF\nit's $A\nEOF\nls $B '$C'", &["A", "B"]),
            ("cat <<'EOF' > x\nit's $A\nEOF\nls $B", &["B"]),
            ("bash <<'EOF'\nls $A '$B'\nEOF\nls $C", &["A", "C"]),
            ("cat <<-END; ls $A\n\t$B\n\tEND\nls '$C'", &["A", "B"]),
            ("echo $((1<<N)) $A\nls '$B' $C", &["A", "C"]),
            ("cat <<< '$A' $B", &["B"]),
            // As they are quoted when values are put in.
            ("echo \"$(case a in a) echo '$A';; esac)\" $B", &["B"]),
            ("echo `echo \\$A \\\\$B`", &["A"]),
            ("bash <<'E' <<F\nls $A\nE\n$B '$C'\nF\nls '$D' | sh -c 'ls $E'", &["A", "B", "C", "E"]),
            ("sh <<'E'\nls $A\nE", &["A"]),
            ("ls '$A", &[]),
            ("é '$A' $B \\é $C", &["B", "C"]),
            ("", &[]),
        ] {
            assert_eq!(variables(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_within_lines_are_looked_into_to_a_depth() {
        let mut line = "ls $A".to_owned();
        for n in 0..100_000 {
            line = format!("bash <<'E{n}'\n{line}\nE{n}");
            if line.len() > 1 << 16 {
                break;
            }
        }
        assert!(variables(&line).is_empty());
    }
}
