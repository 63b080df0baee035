//! The habit of GNU parallel: `cmd {1} {2} ::: a b c ::: 1 2 3`, translated to a command of
//! templates and a sweep.
//!
//! `{}` `{.}` `{/}` `{//}` `{/.}` `{#}` and their numbered forms are known. A command of one word
//! with blanks or shell characters in it is a shell line; of several words it is run without a shell.

use protocol::{
    job::{CommandLine, Problem},
    sweep::{Column, Sweep, Values},
    template::{Mode, Template},
};

use crate::input::sources::{SourceArg, SourceValues, Sources};

/// The words after `--`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What stands before the first list.
    pub command: Vec<String>,
    /// The lists of values.
    pub sources: Vec<SourceArg>,
}

/// A command as it was typed.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its words.
    pub words: Vec<String>,
    /// Whether they are to be one shell line, whatever they look like.
    pub is_shell: bool,
}

/// Takes the words after `--` apart at `:::`, `:::+`, `::::` and `::::+`.
///
/// # Errors
/// No command, a list without values.
pub fn split(words: &[String]) -> Result<Split, Problem> {
    let is_separator = |word: &String| matches!(word.as_str(), ":::" | ":::+" | "::::" | "::::+");
    let command_len = words.iter().position(is_separator).unwrap_or(words.len());
    let (command, mut rest) = words.split_at(command_len);
    if command.is_empty() {
        return Err(Problem::new(
            "",
            "no command before `:::`",
            "write it first, like `-- echo {} ::: a b c`",
        ));
    }
    let mut sources = Vec::new();
    while let Some((separator, after)) = rest.split_first() {
        let n_values = after.iter().position(is_separator).unwrap_or(after.len());
        let (values, next) = after.split_at(n_values);
        if values.is_empty() {
            return Err(Problem::new("", format!("no value after `{separator}`"), "write at least one"));
        }
        let is_linked = separator.ends_with('+');
        if separator.starts_with("::::") {
            for file in values {
                sources.push(SourceArg { is_linked, values: SourceValues::File(file.clone()) });
            }
        } else {
            sources.push(SourceArg { is_linked, values: SourceValues::Words(values.to_vec()) });
        }
        rest = next;
    }
    Ok(Split { command: command.to_vec(), sources })
}

/// The command in our templates, and the sweep of its values.
///
/// # Errors
/// A replacement string that has no counterpart.
pub fn translate(command: &Command, sources: Sources) -> Result<(CommandLine, Sweep), Problem> {
    let names = sources.names();
    let are_appended = sources.are_appended;
    let mut translator = Translator { names, sources };
    let is_shell_line = matches!(&command.words[..], [only] if only.contains(|c: char| c.is_whitespace() || "|&;<>$`*?".contains(c)));
    let command = if command.is_shell || is_shell_line {
        let mut line = translator.text(&command.words.join(" "))?;
        if are_appended && !translator.mentions(&line, Mode::Shell) {
            line = format!("{line} {}", translator.all(Form::Whole).join(" "));
        }
        CommandLine::Shell(line)
    } else {
        let mut args = Vec::new();
        for word in &command.words {
            translator.word(word, &mut args)?;
        }
        if are_appended && !args.iter().any(|arg| translator.mentions(arg, Mode::Plain)) {
            args.extend(translator.all(Form::Whole));
        }
        CommandLine::Args(args)
    };
    Ok((command, Sweep { dimensions: translator.sources.dimensions, sample: None }))
}

/// Which part of a value is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `{}`
    Whole,
    /// `{.}`: without its extension.
    Base,
    /// `{/}`: the file name.
    Name,
    /// `{//}`: the folder.
    Parent,
    /// `{/.}`: the file name without its extension.
    Stem,
}

/// What a brace group of GNU parallel stands for.
enum Meaning {
    /// A part of one source, or of all.
    Value(Option<usize>, Form),
    /// The number of the task, from 1.
    Number,
    /// Something that tasks do not have here.
    Unknown(&'static str),
}

struct Translator {
    names: Vec<String>,
    sources: Sources,
}

impl Translator {
    /// A word of a command: one argument, or one for each source when it is nothing but `{}`.
    fn word(&mut self, word: &str, args: &mut Vec<String>) -> Result<(), Problem> {
        if let Some((Meaning::Value(None, form), len)) = read_meaning(word)
            && len == word.len()
            && !self.names.is_empty()
        {
            args.extend(self.all(form));
            return Ok(());
        }
        args.push(self.text(word)?);
        Ok(())
    }

    /// A text with its replacement strings translated; everything else stays as it is.
    fn text(&mut self, text: &str) -> Result<String, Problem> {
        let mut translated = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let kept_len =
                if rest.starts_with("{{") || rest.starts_with("${") { 2 } else { first.len_utf8() };
            let len = match read_meaning(rest) {
                None => {
                    translated.push_str(&rest[..kept_len]);
                    kept_len
                }
                Some((meaning, len)) => {
                    let translation = self.meaning(meaning, &rest[..len])?;
                    translated.push_str(&translation);
                    len
                }
            };
            rest = &rest[len..];
        }
        Ok(translated)
    }

    fn meaning(&mut self, meaning: Meaning, written: &str) -> Result<String, Problem> {
        match meaning {
            Meaning::Number => Ok("{number}".to_owned()),
            Meaning::Unknown(why) => Err(Problem::new("", format!("`{written}`"), why)),
            Meaning::Value(None, _) if self.names.is_empty() => Err(Problem::new(
                "",
                format!("`{written}` without values"),
                format!("give some, like `::: a b c`; for literal braces write {{{written}}}"),
            )),
            Meaning::Value(None, form) => Ok(self.all(form).join(" ")),
            Meaning::Value(Some(number), form) => match self.names.get(number.wrapping_sub(1)).cloned() {
                Some(name) => Ok(self.one(&name, form)),
                None => Err(Problem::new(
                    "",
                    format!("`{written}`"),
                    match self.names.len() {
                        1 => "there is 1 list of values".to_owned(),
                        n => format!("there are {n} lists of values, counted from 1"),
                    },
                )),
            },
        }
    }

    fn all(&mut self, form: Form) -> Vec<String> {
        let names = self.names.clone();
        names.iter().map(|name| self.one(name, form)).collect()
    }

    fn one(&mut self, name: &str, form: Form) -> String {
        match form {
            Form::Whole => format!("{{{name}}}"),
            Form::Name => format!("{{{name}.name}}"),
            Form::Parent => format!("{{{name}.parent}}"),
            Form::Stem => format!("{{{name}.stem}}"),
            Form::Base => self.base(name),
        }
    }

    /// Templates have no part for a path without its extension: such values get a parameter of their own.
    fn base(&mut self, name: &str) -> String {
        let base_name = format!("_{name}");
        let columns: Vec<&Column> = self.sources.dimensions.iter().flat_map(|d| &d.columns).collect();
        if columns.iter().any(|column| column.name == base_name) {
            return format!("{{{base_name}}}");
        }
        let values = columns.iter().find(|column| column.name == name).map(|column| column.values.clone());
        // Numbers have no extension.
        let Some(Values::Texts(texts)) = values else { return format!("{{{name}}}") };
        let bases: Vec<String> = texts.iter().map(|text| without_extension(text).to_owned()).collect();
        let column = Column { name: base_name.clone(), values: Values::Texts(bases.into()) };
        self.sources.put_beside(name, column);
        format!("{{{base_name}}}")
    }

    /// Whether the translated text has a placeholder, or something that looks like one.
    fn mentions(&self, text: &str, mode: Mode) -> bool {
        let names: Vec<&str> =
            self.sources.dimensions.iter().flat_map(|d| &d.columns).map(|c| c.name.as_str()).collect();
        match Template::parse(text, mode, &names) {
            Ok(template) => template.slots().next().is_some(),
            Err(_) => true,
        }
    }
}

fn without_extension(path: &str) -> &str {
    match path.rfind('.') {
        Some(dot) if !path[dot..].contains('/') && dot > 0 && !path[..dot].ends_with('/') => &path[..dot],
        _ => path,
    }
}

/// The replacement string that the text begins with, and its length.
fn read_meaning(text: &str) -> Option<(Meaning, usize)> {
    let inside = text.strip_prefix('{')?;
    let inside = &inside[..inside.find('}')?];
    let len = inside.len() + 2;
    match inside {
        "#" => return Some((Meaning::Number, len)),
        "%" => return Some((Meaning::Unknown("tasks have no slot number; use {#} or {index}"), len)),
        "##" => return Some((Meaning::Unknown("the number of tasks has no placeholder"), len)),
        _ => {}
    }
    let n_digits = inside.bytes().take_while(u8::is_ascii_digit).count();
    let (number, form) = inside.split_at(n_digits);
    let form = match form {
        "" => Form::Whole,
        "." => Form::Base,
        "/" => Form::Name,
        "//" => Form::Parent,
        "/." => Form::Stem,
        _ => return None,
    };
    let number = if number.is_empty() { None } else { Some(number.parse().ok()?) };
    Some((Meaning::Value(number, form), len))
}

#[cfg(test)]
mod tests;
