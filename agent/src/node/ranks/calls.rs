//! Finds where scripts in Python, R, Perl and similar languages start programs: in the first string literal
//! of a call, a list or a variable.

use protocol::job::script::commands::simple_commands;

use crate::node::ranks::{Ranks, is_launcher, launched};

/// Calls whose strings are messages, or that only look for a program.
const SAYING: [&str; 26] = [
    "add_argument",
    "cat",
    "critical",
    "debug",
    "die",
    "error",
    "exit",
    "find_executable",
    "format",
    "info",
    "log",
    "message",
    "note",
    "open",
    "print",
    "println",
    "printf",
    "puts",
    "say",
    "startswith",
    "stop",
    "warn",
    "warning",
    "which",
    "write",
    "writeLines",
];
/// Names of arguments whose strings are messages.
const SAID_AS: [&str; 6] = ["description", "doc", "epilog", "help", "title", "usage"];
/// Functions that Perl calls without brackets.
const CALLED_WITHOUT: [&str; 4] = ["exec", "system", "qw", "qx"];

/// Returns the number of processes of the first launcher in the script; `None`: it starts none.
pub(super) fn of_script(text: &str) -> Option<Ranks> {
    let mut at = 0;
    while let Some((literal, after)) = next_literal(text, at) {
        at = after;
        if literal.quote == "`" || is_in_place(text.get(..literal.from).unwrap_or_default()) {
            let ranks = of_literal(text, &literal, after);
            if ranks.is_some() {
                return ranks;
            }
        }
    }
    None
}

struct Literal<'t> {
    /// Position of its first quote.
    from: usize,
    quote: &'static str,
    text: &'t str,
}

/// Returns the next string literal from `from` on, and its end. Skips comments. A quote without a second one
/// in its line begins no literal.
fn next_literal(text: &str, from: usize) -> Option<(Literal<'_>, usize)> {
    let mut at = from;
    loop {
        let rest = text.get(at..)?;
        let found = rest.find(['#', '"', '\'', '`'])?;
        let start = at + found;
        let rest = text.get(start..)?;
        if rest.starts_with('#') {
            at = start + rest.find('\n')?;
            continue;
        }
        let quotes = ["\"\"\"", "'''", "\"", "'", "`"];
        let quote = quotes.into_iter().find(|quote| rest.starts_with(quote))?;
        let inner = start + quote.len();
        let Some(end) = end_of(text.get(inner..)?, quote) else {
            at = inner;
            continue;
        };
        let literal = Literal { from: start, quote, text: text.get(inner..inner + end)? };
        return Some((literal, inner + end + quote.len()));
    }
}

/// Returns the end of a literal.
fn end_of(text: &str, quote: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' if quote.len() == 1 => return None,
            _ if text.get(at..).is_some_and(|rest| rest.starts_with(quote)) => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns whether a literal behind `before` is the first argument of a call, or begins a list or a
/// variable's value.
fn is_in_place(before: &str) -> bool {
    // Letters directly before a literal are its prefix.
    let prefix = |c: char| "fFrRbBuU".contains(c);
    let plain = before.trim_end_matches(prefix);
    let is_prefix = before.len() - plain.len() <= 2 && !plain.ends_with(|c: char| is_of_name(c));
    let before = if is_prefix { plain } else { before };
    let line = before.trim_end_matches([' ', '\t']);
    match line.chars().next_back() {
        // A literal on its own line belongs to the open list.
        Some('\n') => before.trim_end().ends_with(['(', '[']) && is_in_place(before.trim_end()),
        Some('(') => !is_saying(name_before(&line[..line.len() - 1])),
        Some('[') => {
            let outer = line[..line.len() - 1].trim_end();
            outer.ends_with(['(', '=', ',', ':', '[', '\n', '+'])
                && !is_saying(name_before(outer.trim_end_matches('(')))
        }
        Some('=') => {
            let outer = &line[..line.len() - 1];
            !outer.ends_with(['=', '!', '<', '>']) && !SAID_AS.contains(&name_before(outer))
        }
        // R's assignment, and entries of tables.
        Some('-') => line.ends_with("<-"),
        Some('>') => line.ends_with("=>"),
        Some(':') => true,
        Some(_) => CALLED_WITHOUT.contains(&name_before(line)),
        None => false,
    }
}

fn is_saying(name: &str) -> bool {
    SAYING.contains(&name) || ["Error", "Exception", "Exit"].iter().any(|end| name.ends_with(end))
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the name at the end of a text.
fn name_before(text: &str) -> &str {
    let text = text.trim_end();
    text.get(text.trim_end_matches(is_of_name).len()..).unwrap_or_default()
}

/// Returns the number of processes of a literal that is a command, or that begins a list with a command.
fn of_literal(text: &str, literal: &Literal<'_>, after: usize) -> Option<Ranks> {
    if literal.text.contains(char::is_whitespace) {
        return launched(&simple_commands(literal.text));
    }
    let rest = text.get(after..)?;
    // A single name may be a launcher whose options are elsewhere.
    let list = match rest.trim_start().starts_with(',') {
        true => rest.get(..end_of_list(rest))?,
        false => "",
    };
    let is_between = |c: char| c.is_whitespace() || ",()[]{}\"'`+;".contains(c);
    let words = list.split(is_between).filter(|word| !word.is_empty());
    let words: Vec<String> = std::iter::once(literal.text).chain(words).map(str::to_owned).collect();
    // A list of launchers' names is no command.
    let is_of_names = is_launcher(literal.text) && words.get(1).is_some_and(|word| is_launcher(word));
    if is_of_names { None } else { launched(&[words]) }
}

/// Returns the end of the list around a literal.
fn end_of_list(rest: &str) -> usize {
    let mut n_open = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' | '[' => n_open += 1,
            ')' | ']' if n_open == 0 => return at,
            ')' | ']' => n_open -= 1,
            ';' if n_open == 0 => return at,
            _ => {}
        }
    }
    rest.len()
}
