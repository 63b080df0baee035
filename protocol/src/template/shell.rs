//! Quoting values for the place in a shell line where they stand.
//!
//! The tracker follows quotes, backslashes, comments, `$( … )`, backticks and here-documents in the literal text. Others
//! follow a line by the same tracker, as a [`ShellText`].

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// Not in a shell line, or asked for raw.
    None,
    /// Outside all quotes: the value becomes one word.
    Bare,
    /// Inside `'…'`.
    Single,
    /// Inside `"…"`.
    Double,
    /// In a here-document, whose text the shell expands.
    Expanded,
    /// In a here-document whose end is quoted (`<<'EOF'`): the text stays as it is.
    Verbatim,
}

/// Where in a shell line a value stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) quoting: Quoting,
    /// How many pairs of backticks are around it.
    pub(super) n_backticks: usize,
    /// The word that ends the here-document in which it stands.
    pub(super) end: Option<Box<str>>,
}

impl Place {
    /// No shell reads what stands there.
    pub(super) const PLAIN: Place = Place { quoting: Quoting::None, n_backticks: 0, end: None };

    /// Whether a line of a here-document may become its end by such a value.
    fn may_end(&self, value: &str) -> bool {
        self.end.as_ref().is_some_and(|end| end.contains(value) || value.contains('\n'))
    }

    /// Why the value cannot be written there.
    pub(super) fn refusal(&self, value: &str) -> Option<String> {
        let is_refused = self.quoting != Quoting::Expanded && self.may_end(value);
        let end = self.end.as_ref().filter(|_| is_refused)?;
        Some(format!(
            "in a here-document whose end `{end}` is quoted, or in `$(…)` in one, a value has no line break and is no part of \
             its end; pass it by `env`"
        ))
    }
}

/// One level of nesting: the line itself, a `$( … )`, a pair of backticks or a here-document.
#[derive(Clone, Debug)]
struct Level {
    quoting: Quoting,
    n_parentheses: usize,
    /// Within the parentheses of this number the shell calculates, and `<<` shifts.
    arithmetic: Option<usize>,
    /// `case … esac` that are open: a `)` in them ends a pattern.
    n_cases: usize,
    is_backticks: bool,
    here: Option<HereDocument>,
}

impl Level {
    fn new(quoting: Quoting) -> Level {
        Level { quoting, n_parentheses: 0, arithmetic: None, n_cases: 0, is_backticks: false, here: None }
    }
}

/// A here-document.
#[derive(Clone, Debug, Default)]
struct HereDocument {
    /// Whether tabs before its lines do not count (`<<-`).
    is_stripped: bool,
    /// Whether a part of the word that ends it is quoted.
    is_quoted: bool,
    end: String,
    /// What was read of its current line.
    line: String,
}

/// What was read of `<<`, blanks and a word.
#[derive(Clone, Debug, Default)]
struct Opening {
    here: HereDocument,
    quote: Option<char>,
    is_escaped: bool,
    has_begun: bool,
}

/// Follows the literal text of a shell line.
#[derive(Clone, Debug)]
pub(super) struct QuotingTracker {
    levels: Vec<Level>,
    is_escaped: bool,
    /// Whether a backslash was read in backticks, whose meaning the next character decides.
    is_escaped_in_backticks: bool,
    is_comment: bool,
    previous: char,
    /// The word that ends here, and whether it may be a command.
    word: String,
    is_command: bool,
    opening: Option<Opening>,
    /// Here-documents that begin with the next line.
    waiting: Vec<HereDocument>,
}

impl Default for QuotingTracker {
    fn default() -> QuotingTracker {
        QuotingTracker {
            levels: vec![Level::new(Quoting::Bare)],
            is_escaped: false,
            is_escaped_in_backticks: false,
            is_comment: false,
            previous: '\n',
            word: String::new(),
            is_command: true,
            opening: None,
            waiting: Vec::new(),
        }
    }
}

impl QuotingTracker {
    /// Where the text read so far ends.
    pub(super) fn here(&mut self) -> Place {
        // A value is part of a word, so a `#` behind it begins no comment.
        self.previous = 'x';
        (self.opening, self.is_command) = (None, false);
        self.word.push('x');
        let n_backticks = self.levels.iter().filter(|level| level.is_backticks).count();
        let here = self.levels.iter_mut().rev().find_map(|level| level.here.as_mut());
        let end = here.map(|here| {
            // Whatever the value is, it makes the line another one.
            here.line.push('\0');
            here.end.as_str().into()
        });
        let quoting = self.levels.last().map_or(Quoting::Bare, |level| level.quoting);
        Place { quoting, n_backticks, end }
    }

    /// Goes on over literal text.
    pub(super) fn read(&mut self, literal: &str) {
        literal.chars().for_each(|character| self.read_one(character));
    }

    /// In backticks a backslash before some characters goes before all else is read, and the first backtick without one
    /// ends them.
    fn read_one(&mut self, character: char) {
        let Some(innermost) = self.levels.iter().rposition(|level| level.is_backticks) else {
            return self.step(character);
        };
        if std::mem::take(&mut self.is_escaped_in_backticks) {
            let is_nested = self.levels.iter().filter(|level| level.is_backticks).count() > 1;
            if character == '`' && is_nested {
                return self.end_backticks(innermost);
            }
            let in_double =
                self.levels[..innermost].last().is_some_and(|level| level.quoting == Quoting::Double);
            let is_eaten = "$`\\".contains(character) || (in_double && character == '"');
            if !is_eaten {
                self.step('\\');
            }
            return self.step(character);
        }
        match character {
            '\\' => self.is_escaped_in_backticks = true,
            '`' => {
                let outermost = self.levels.iter().position(|level| level.is_backticks);
                self.end_backticks(outermost.unwrap_or(innermost));
            }
            _ => self.step(character),
        }
    }

    /// Goes back to the level around these backticks.
    fn end_backticks(&mut self, level: usize) {
        self.levels.truncate(level);
        (self.is_comment, self.is_escaped, self.opening) = (false, false, None);
        (self.previous, self.is_command) = ('`', false);
    }

    fn step(&mut self, character: char) {
        self.step_over(character);
        if character == '\n' {
            self.end_line();
        }
        self.previous = character;
    }

    fn step_over(&mut self, character: char) {
        if let Some(here) = self.levels.last_mut().and_then(|level| level.here.as_mut()) {
            here.line.push(character);
        }
        if self.is_comment {
            self.is_comment = character != '\n';
            return;
        }
        if self.open(character) || std::mem::take(&mut self.is_escaped) {
            return;
        }
        let previous = self.previous;
        self.follow_words(character);
        let n_levels = self.levels.len();
        let Some(level) = self.levels.last_mut() else { return };
        match (level.quoting, character) {
            (Quoting::Single, '\'') => level.quoting = Quoting::Bare,
            (Quoting::Single | Quoting::Verbatim | Quoting::None, _) => {}
            (_, '\\') => self.is_escaped = true,
            (Quoting::Double, '"') => level.quoting = Quoting::Bare,
            (_, '`') => self.enter(Level { is_backticks: true, ..Level::new(Quoting::Bare) }),
            (_, '(') if previous == '$' => self.enter(Level::new(Quoting::Bare)),
            (Quoting::Double | Quoting::Expanded, _) => {}
            (_, '\'') => level.quoting = Quoting::Single,
            (_, '"') => level.quoting = Quoting::Double,
            (_, '(') => {
                level.n_parentheses += 1;
                if previous == '(' && level.arithmetic.is_none() {
                    level.arithmetic = Some(level.n_parentheses);
                }
            }
            (_, ')') if level.n_parentheses > 0 => {
                level.n_parentheses -= 1;
                level.arithmetic = level.arithmetic.filter(|within| *within <= level.n_parentheses);
            }
            (_, ')') if level.n_cases > 0 => {}
            (_, ')') if n_levels > 1 && !level.is_backticks => {
                self.levels.pop();
            }
            (_, '<') if previous == '<' && level.arithmetic.is_none() => {
                self.opening = Some(Opening::default());
            }
            (_, '#') if previous.is_whitespace() || ";|&(".contains(previous) => self.is_comment = true,
            (_, _) => {}
        }
    }

    fn enter(&mut self, level: Level) {
        self.levels.push(level);
        (self.is_command, self.word) = (true, String::new());
    }

    /// Counts `case` and `esac` where a command may stand.
    fn follow_words(&mut self, character: char) {
        let Some(level) = self.levels.last_mut().filter(|level| level.quoting == Quoting::Bare) else {
            return self.word.clear();
        };
        if character.is_ascii_alphanumeric() || "_$'\"\\/.-".contains(character) {
            return self.word.push(character);
        }
        let word = std::mem::take(&mut self.word);
        match word.as_str() {
            "case" if self.is_command => level.n_cases += 1,
            "esac" if self.is_command => level.n_cases = level.n_cases.saturating_sub(1),
            _ => {}
        }
        let goes_before_command =
            ["do", "then", "else", "elif", "if", "while", "until"].contains(&word.as_str());
        self.is_command = match character {
            ';' | '|' | '&' | '\n' | '(' | ')' | '{' | '!' => true,
            _ if word.is_empty() => self.is_command,
            _ => goes_before_command && self.is_command,
        };
    }

    /// Whether the character belongs to the word behind `<<`.
    fn open(&mut self, character: char) -> bool {
        let Some(opening) = &mut self.opening else { return false };
        if std::mem::take(&mut opening.is_escaped) {
            opening.here.end.push(character);
            return true;
        }
        match (opening.quote, character) {
            (Some(quote), _) if quote == character => opening.quote = None,
            (Some(_), _) => opening.here.end.push(character),
            (None, '<') if !opening.has_begun => {
                // `<<<` is followed by a word of its own.
                self.opening = None;
                self.previous = ' ';
                return true;
            }
            (None, '-') if !opening.has_begun && !opening.here.is_stripped => {
                opening.here.is_stripped = true;
                return true;
            }
            (None, ' ' | '\t') if !opening.has_begun => return true,
            (None, '\\') => (opening.is_escaped, opening.here.is_quoted) = (true, true),
            (None, '\'' | '"') => {
                (opening.quote, opening.here.is_quoted) = (Some(character), true);
            }
            (None, ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')') => {
                let opening = self.opening.take().unwrap_or_default();
                if opening.has_begun {
                    self.waiting.push(opening.here);
                }
                return false;
            }
            (None, _) => opening.here.end.push(character),
        }
        opening.has_begun = true;
        true
    }

    /// A line has ended: that of a here-document may be its end, and others may begin.
    fn end_line(&mut self) {
        if let Some(here) = self.levels.last_mut().and_then(|level| level.here.as_mut()) {
            let line = std::mem::take(&mut here.line);
            let line = if here.is_stripped { line.trim_start_matches('\t') } else { &line };
            if line.strip_suffix('\n') == Some(&here.end) {
                self.levels.pop();
            }
            return;
        }
        if self.levels.last().is_some_and(|level| level.quoting == Quoting::Bare) {
            for here in std::mem::take(&mut self.waiting).into_iter().rev() {
                let quoting = if here.is_quoted { Quoting::Verbatim } else { Quoting::Expanded };
                self.levels.push(Level { here: Some(here), ..Level::new(quoting) });
            }
        }
    }
}

/// What a shell makes of the next character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Part of a command.
    Bare,
    /// Part of a text in which `$` has a meaning: in double quotes, or in a here-document.
    Filled,
    /// Part of a text in single quotes.
    Quoted,
    /// Part of a here-document that stays as it is.
    Verbatim,
    /// Nothing: it is in a comment, behind a backslash, or in the word that ends a here-document.
    Nothing,
}

/// A shell line that is read one character after the other.
#[derive(Clone, Debug, Default)]
pub struct ShellText(QuotingTracker);

impl ShellText {
    /// Goes on over a character.
    pub fn read(&mut self, character: char) {
        self.0.read_one(character);
    }

    /// What the next character is.
    pub fn reading(&self) -> Reading {
        let tracker = &self.0;
        if tracker.is_comment || tracker.is_escaped || tracker.opening.is_some() {
            return Reading::Nothing;
        }
        match tracker.levels.last().map_or(Quoting::None, |level| level.quoting) {
            Quoting::Bare => Reading::Bare,
            Quoting::Double | Quoting::Expanded => Reading::Filled,
            Quoting::Single => Reading::Quoted,
            Quoting::Verbatim => Reading::Verbatim,
            Quoting::None => Reading::Nothing,
        }
    }

    /// How many lines are open: the line itself, and each `$( … )`, pair of backticks and here-document within it.
    pub fn depth(&self) -> usize {
        self.0.levels.len()
    }

    /// Whether the next character is in the word behind `<<`, or ends it.
    pub fn is_opening(&self) -> bool {
        self.0.opening.is_some()
    }

    /// How many here-documents are open, or begin with the next line.
    pub fn n_documents(&self) -> usize {
        self.0.waiting.len() + self.0.levels.iter().filter(|level| level.here.is_some()).count()
    }
}

/// Appends a value so that a shell reads exactly this value at this place.
pub(super) fn push_quoted(text: &mut String, value: &str, place: &Place) {
    let begin = text.len();
    push_once(text, value, place);
    for _ in 0..place.n_backticks {
        let quoted = text.split_off(begin);
        for character in quoted.chars() {
            if "\\`".contains(character) {
                text.push('\\');
            }
            text.push(character);
        }
    }
}

fn push_once(text: &mut String, value: &str, place: &Place) {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    match place.quoting {
        Quoting::None | Quoting::Verbatim => text.push_str(value),
        Quoting::Bare if !value.is_empty() && value.bytes().all(is_plain) => text.push_str(value),
        Quoting::Bare => {
            text.push('\'');
            push_single(text, value);
            text.push('\'');
        }
        Quoting::Single => push_single(text, value),
        Quoting::Double => push_escaped(text, value, "\\\"$`"),
        Quoting::Expanded if place.may_end(value) => {
            text.push_str(NOTHING);
            let lines: Vec<String> = value
                .split('\n')
                .map(|line| {
                    let mut escaped = String::new();
                    push_escaped(&mut escaped, line, "\\$`");
                    escaped
                })
                .collect();
            text.push_str(&lines.join(&format!("\n{NOTHING}")));
        }
        Quoting::Expanded => push_escaped(text, value, "\\$`"),
    }
}

/// What a shell expands to nothing: a line of a here-document with it is not its end.
const NOTHING: &str = "${0##*}";

fn push_escaped(text: &mut String, value: &str, special: &str) {
    for character in value.chars() {
        if special.contains(character) {
            text.push('\\');
        }
        text.push(character);
    }
}

/// Inside single quotes only the quote itself is special: it is closed, escaped and opened again.
fn push_single(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\'' => text.push_str("'\\''"),
            _ => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::sweep::Value;
    use crate::template::{Mode, Scope, Template};

    /// The shells that are here: `sh` is dash or bash in most places.
    fn shells() -> Vec<&'static str> {
        ["/bin/sh", "/bin/bash"].into_iter().filter(|shell| std::path::Path::new(shell).exists()).collect()
    }

    /// What shells print for a line with `{x}` put in.
    fn printed(line: &str, value: &str) -> String {
        let template = Template::parse(line, Mode::Shell, &["x"]).unwrap();
        let values = [Value::Text(value)];
        let rendered =
            template.render(&Scope { values: &values, index: 0, job_id: 1, job_name: "j", cores: 1 });
        let printed = shells().into_iter().map(|shell| {
            let output = Command::new(shell).arg("-c").arg(&rendered).output().unwrap();
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
        });
        let printed: Vec<String> = printed.collect();
        assert!(printed.iter().all(|text| *text == printed[0]), "{rendered}: {printed:?}");
        printed[0].clone()
    }

    const VALUES: [&str; 13] = [
        "plain",
        "two words",
        "it's",
        "a\"b",
        "$(echo no) `echo no` $HOME",
        "back\\slash",
        "\\`\\\\$HOME\\\"",
        "",
        "a\nb",
        "END",
        "a\nEND\necho no",
        "ND",
        "*;&|#<>~é",
    ];

    #[test]
    fn shell_reads_back_every_value_at_every_place() {
        let lines = [
            "printf %s {x}",
            "printf %s '{x}'",
            "printf %s \"{x}\"",
            "printf %s a\\ {x} | tail -c +3",
            "printf %s \"$(printf %s {x})\"",
            "printf %s \"$(printf %s \"{x}\")\"",
            "printf %s \"$( (printf %s '{x}') )\"",
            "# it's a \"comment\n printf %s {x}",
            "printf %s \"\\\"{x}\" | tail -c +2",
            "printf %s '\\'{x} | tail -c +2",
            "printf %s '\"'{x} | tail -c +2",
            "printf %s \"`printf %s {x}`\"",
            "printf %s \"`printf %s '{x}'`\"",
            "y=`printf %s {x}`; printf %s \"$y\"",
            "y=`printf %s \"{x}\"`; printf %s \"$y\"",
            "y=`echo \\`echo a b\\` \\$HOME > /dev/null; printf %s \"{x}\"`; printf %s \"$y\"",
            "y=`printf %s \\`printf %s '{x}'\\``; printf %s \"$y\" | tr -d ' \\n' | head -c 0; printf %s {x}",
            "echo `echo it` > /dev/null; printf %s {x}",
            "echo `# it's a comment` > /dev/null; printf %s {x}",
            "printf %s \"$(case a in a) printf %s {x};; esac)\"",
            "printf %s \"$(case a in (a) printf %s {x};; esac; echo case > /dev/null)\"{x} | head -c 0; printf %s {x}",
            "cat <<END | head -c -1\n{x}\nEND",
            "cat <<END | head -c -1 | tail -c +4\n' \"{x}\nEND",
            "cat <<-END | head -c -1\n\t{x}\n\tEND",
            "cat << END | head -c -1\n{x}\nEND\ntrue {x}",
            "cat <<A <<END > /dev/null\n{x}\nA\n{x}'\nEND\nprintf %s {x}",
            "cat > /dev/null <<'END'\n`'\"$(\nEND\nprintf %s {x}",
            "cat > /dev/null <<\\END; printf %s {x}\nit's\nEND",
            "if true; then cat <<END; fi | head -c -1\n{x}\nEND",
            "printf %s \"$(cat <<END\n{x}\nEND\n)\"",
            "echo $((1<<2)) > /dev/null\nprintf %s {x}",
            "echo $(( (3 << 1) + (1 << 2) )) > /dev/null\nprintf %s {x}",
            "echo '<<END' > /dev/null\nprintf %s {x}",
        ];
        for line in lines {
            for value in VALUES {
                assert_eq!(printed(line, value), value, "{line}");
            }
        }
    }

    #[test]
    fn a_value_in_a_here_document_whose_end_is_quoted_stays_as_it_is_or_is_refused() {
        for line in ["cat <<'END' | head -c -1\n{x}\nEND", "cat <<\"END\" | head -c -1\n{x}\nEND"] {
            let template = Template::parse(line, Mode::Shell, &["x"]).unwrap();
            let slot = template.slots().next().unwrap();
            for value in VALUES {
                match slot.refusal(value) {
                    None => assert_eq!(printed(line, value), value, "{line}"),
                    Some(why) => {
                        assert!("END".contains(value) || value.contains('\n'), "{value}: {why}");
                    }
                }
            }
            assert!(slot.refusal("END").is_some() && slot.refusal("a\nb").is_some());
        }
        let line = "cat <<END\n$(printf %s {x})\nEND";
        let template = Template::parse(line, Mode::Shell, &["x"]).unwrap();
        assert!(template.slots().next().unwrap().refusal("a\nEND\n").is_some());
        assert_eq!(printed(line, "it's $HOME"), "it's $HOME\n");
    }

    #[test]
    fn raw_values_are_read_by_the_shell() {
        assert_eq!(printed("printf %s {x:raw}", "$(echo yes)"), "yes");
    }
}
