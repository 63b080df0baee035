//! Which variables a shell line reads: those that the shell itself puts in. Text in single quotes, in comments and behind
//! backslashes is not the shell's, but for what another shell of the line gets as its own line.

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
    let levels = vec![Level::default()];
    let mut reader = Reader { line, depth, names: Vec::new(), levels, documents: Vec::new() };
    let mut at = 0;
    while let Some(character) = line[at..].chars().next() {
        at = reader.step(at, character);
    }
    reader.names
}

/// The line itself, or a `$( … )` or `` `…` `` in it.
#[derive(Default)]
struct Level {
    is_in_quotes: bool,
    is_in_backticks: bool,
    n_parentheses: usize,
    /// Where the present command begins, …
    command: usize,
    /// … and its present word.
    word: usize,
}

/// A here-document whose text follows.
struct Document<'l> {
    end: &'l str,
    is_quoted: bool,
    is_for_shell: bool,
}

struct Reader<'l> {
    line: &'l str,
    depth: usize,
    names: Vec<&'l str>,
    /// The innermost is the last; the first stays.
    levels: Vec<Level>,
    documents: Vec<Document<'l>>,
}

impl<'l> Reader<'l> {
    /// Reads what stands here; gives the place behind it.
    fn step(&mut self, at: usize, character: char) -> usize {
        let line = self.line;
        let rest = &line[at..];
        let next = at + character.len_utf8();
        let n_levels = self.levels.len();
        let Some(level) = self.levels.last_mut() else { return line.len() };
        match character {
            '\\' => return next + rest[1..].chars().next().map_or(0, char::len_utf8),
            '$' if rest.starts_with("$$") => return at + 2,
            '$' if rest.starts_with("$(") => {
                self.levels.push(Level { command: at + 2, word: at + 2, ..Level::default() });
                return at + 2;
            }
            '$' => self.names.extend(name_at(&rest[1..])),
            '`' if level.is_in_backticks && !level.is_in_quotes => drop(self.levels.pop()),
            '`' => self.levels.push(Level {
                is_in_backticks: true,
                command: next,
                word: next,
                ..Level::default()
            }),
            '"' => level.is_in_quotes = !level.is_in_quotes,
            _ if level.is_in_quotes => {}
            '\'' => return self.single_quotes(at),
            '#' if begins_word(&line[..at]) => return at + rest.find('\n').unwrap_or(rest.len()),
            '<' if rest.starts_with("<<<") => return at + 3,
            '<' if rest.starts_with("<<") => return self.document(at + 2),
            '\n' => {
                let behind = self.bodies(next);
                self.begin_command(behind);
                return behind;
            }
            ';' | '|' | '&' => self.begin_command(next),
            '(' => {
                level.n_parentheses += 1;
                self.begin_command(next);
            }
            ')' if level.n_parentheses > 0 => level.n_parentheses -= 1,
            ')' if n_levels > 1 && !level.is_in_backticks => drop(self.levels.pop()),
            blank if blank.is_whitespace() => level.word = next,
            _ => {}
        }
        next
    }

    fn begin_command(&mut self, at: usize) {
        if let Some(level) = self.levels.last_mut() {
            (level.command, level.word) = (at, at);
        }
    }

    /// The words of the present command before the present one.
    fn words_before(&self) -> impl DoubleEndedIterator<Item = &'l str> + use<'l> {
        let before = self.levels.last().map_or("", |level| &self.line[level.command..level.word]);
        before.split_whitespace()
    }

    fn single_quotes(&mut self, at: usize) -> usize {
        let line = self.line;
        let text = &line[at + 1..];
        let Some(len) = text.find('\'') else { return line.len() };
        let mut before = self.words_before().rev();
        let is_line = match before.next() {
            Some("eval" | "trap") => true,
            Some(last) => is_command_option(last) && before.any(is_shell),
            None => false,
        };
        if is_line {
            self.names.extend(variables_within(&text[..len], self.depth + 1));
        }
        at + len + 2
    }

    /// Reads the word that ends a here-document.
    fn document(&mut self, at: usize) -> usize {
        let line = self.line;
        let word = line[at..].trim_start_matches('-').trim_start_matches([' ', '\t']);
        let bare = word.trim_start_matches(['\'', '"', '\\']);
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let end = bare.find(|c| !is_part(c)).unwrap_or(bare.len());
        // A number is shifted.
        if !bare.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()) {
            return at;
        }
        let is_quoted = bare.len() < word.len();
        let is_for_shell = self.words_before().any(is_shell);
        self.documents.push(Document { end: &bare[..end], is_quoted, is_for_shell });
        let behind = bare[end..].trim_start_matches(['\'', '"']);
        line.len() - behind.len()
    }

    /// Reads the texts of here-documents from here on; gives the place behind them.
    fn bodies(&mut self, at: usize) -> usize {
        let line = self.line;
        let mut at = at;
        for document in std::mem::take(&mut self.documents) {
            let mut end = at;
            let last = line[at..].split_inclusive('\n').find(|row| {
                let is_last = row.trim_matches(['\t', '\r', '\n']) == document.end;
                end += if is_last { 0 } else { row.len() };
                is_last
            });
            // Nothing ends it: it is none.
            let Some(last) = last else { break };
            let text = &line[at..end];
            match (document.is_quoted, document.is_for_shell) {
                (false, _) => self.names.extend(variables_in_text(text)),
                (true, true) => self.names.extend(variables_within(text, self.depth + 1)),
                (true, false) => {}
            }
            at = end + last.len();
        }
        at
    }
}

/// The names in a text without quotes.
fn variables_in_text(text: &str) -> impl Iterator<Item = &str> {
    let is_one = |at: &usize| !text[..*at].ends_with(['\\', '$']);
    text.match_indices('$').map(|(at, _)| at).filter(is_one).filter_map(|at| name_at(&text[at + 1..]))
}

/// The name behind a `$`.
pub fn name_at(rest: &str) -> Option<&str> {
    let rest = rest.trim_start_matches('{');
    let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()))
}

fn begins_word(before: &str) -> bool {
    before.chars().next_back().is_none_or(|c| c.is_whitespace() || ";|&(`".contains(c))
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
