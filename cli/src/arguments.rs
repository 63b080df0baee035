//! The command line as clap reads it, with its errors in our form.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::Path};

use clap::{
    CommandFactory, FromArgMatches, Parser,
    error::{ContextKind, ErrorKind},
};

use crate::{commands::Command, failure::Failure};

const EXAMPLES: &str = "\
Examples:
  pilotfish run job.yaml               run a sweep here, in ./.pilotfish
  pilotfish run -- echo {1} {2} ::: a b ::: 1 2
      # run a command with all combinations of values
  pilotfish tasks last --state failed  what failed, and why
  pilotfish export last --format csv -o all.csv
      # results as a table

  pilotfish serve &                               a manager that stays
  pilotfish submit job.yaml --wait                a job for it

Exit codes: 0 all is well, 1 tasks failed, 2 what was given cannot be used, 3 a
manager, a file or the machine did not do its part, 101 a bug in pilotfish, 124
`wait --timeout`, 130 interrupted.";

/// Numbers of which 0 is refused later.
const OF_AT_LEAST_1: [&str; 4] = ["for '--jobs <", "for '--cores <", "for '--nodes <", "for '--pilots-max <"];

/// Texts of Rust's parsers, each with the text that users see instead.
const RUST_WORDS: [(&str, &str); 4] = [
    ("number too large to fit in target type", "that is too large"),
    ("invalid float literal", "write a number"),
    ("cannot parse float from empty string", "write a number"),
    ("invalid IP address syntax", "write an IP address, like 127.0.0.1 or ::1"),
];

/// Runs parameter sweeps and other many-task work on one machine or many platforms.
#[derive(Parser)]
#[command(name = "pilotfish", version, after_help = EXAMPLES, max_term_width = 80)]
#[command(arg_required_else_help = true, subcommand_required = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The command as clap knows it: for completions too.
pub fn command() -> clap::Command {
    let mut command = Arguments::command();
    // Where jobs are named, `--name` is the job's; elsewhere it can mean the manager.
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |sub| {
            let has = |long: &str| sub.get_arguments().any(|argument| argument.get_long() == Some(long));
            if has("manager") && !has("name") {
                sub.mut_arg("manager", |argument| argument.visible_alias("name"))
            } else {
                sub
            }
        });
    }
    command
}

/// Reads this process's command line.
///
/// # Errors
/// The exit code, when help was asked for or something is wrong; it has been said.
pub fn read() -> Result<Command, u8> {
    let parsed = command()
        .try_get_matches_from(without_help_of_help(std::env::args_os().collect()))
        .and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches));
    match parsed {
        Ok(arguments) => Ok(arguments.command),
        Err(error) => Err(report(&error)),
    }
}

/// `help --help` is `help`, also of a command that has others below it.
fn without_help_of_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let of = arguments.get(1).and_then(|word| command().find_subcommand(word).cloned());
    let at = if of.is_some_and(|of| of.has_subcommands()) { 2 } else { 1 };
    if arguments.get(at).is_some_and(|word| word == "help") {
        arguments.retain(|word| word != "--help" && word != "-h");
    }
    arguments
}

fn report(error: &clap::Error) -> u8 {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        return match error.print() {
            _ if error.use_stderr() => 2,
            Ok(()) => 0,
            Err(error) => {
                let failure = Failure::from(error);
                crate::show::say_lines(&failure.to_string());
                failure.code()
            }
        };
    }
    let said = match error.kind() {
        ErrorKind::InvalidUtf8 => not_utf8(std::env::args_os().skip(1)),
        ErrorKind::UnknownArgument => {
            let unknown = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
            negative(&unknown, std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
        }
        _ => None,
    };
    crate::show::say(&said.unwrap_or_else(|| one_line(&error.render().to_string())));
    2
}

/// What to say of a negative value, which clap takes for an unknown flag. `unknown`: the part of it that clap names (`-5` of
/// `-5MB`).
fn negative(unknown: &str, arguments: impl Iterator<Item = String>) -> Option<String> {
    let is_negative = |text: &str| {
        text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if !is_negative(unknown) {
        return None;
    }
    let arguments: Vec<String> = arguments.take_while(|argument| argument != "--").collect();
    let pairs = arguments.iter().zip(arguments.iter().skip(1));
    let (before, value) = pairs.into_iter().find(|(_, value)| value.starts_with(unknown))?;
    let is_flag = before.starts_with('-') && !is_negative(before) && !before.contains('=');
    let place = if is_flag { format!("{before}: ") } else { String::new() };
    Some(format!("{place}found `{value}`; write a value that is not below 0; see `--help`"))
}

/// What to say of the first argument that is not UTF-8.
fn not_utf8(arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let wrong = |(_, argument): &(usize, OsString)| argument.to_str().is_none();
    let (n, argument) = (1..).zip(arguments).find(wrong)?;
    let hint = match Path::new(&argument).exists() {
        true => "rename the file",
        false => "a value of other bytes can be put into a file whose name the task is given",
    };
    Some(format!("argument {n}, `{}`, is not UTF-8; {hint}", argument.as_bytes().escape_ascii()))
}

/// Clap's message of several paragraphs as one line: the mistake, then the first hint.
fn one_line(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        if line.is_empty() {
            continue;
        }
        if let Some(tip) = line.strip_prefix("tip: ") {
            // What follows `--` is a command here, no value.
            if !tip.starts_with("to pass ") {
                parts.push(tip.to_owned());
            }
        } else if let (Some(last), false) = (parts.last_mut(), line.starts_with("error: ")) {
            last.push(' ');
            last.push_str(line);
        } else {
            parts.push(line.trim_start_matches("error: ").to_owned());
        }
    }
    parts.truncate(2);
    parts.push("see `--help`".to_owned());
    let least = if OF_AT_LEAST_1.iter().any(|flag| text.contains(flag)) { 1 } else { 0 };
    let text = parts.join("; ");
    let wanted = format!("write a whole number, {least} or more");
    // `invalid value '-1' for '--cores <N>': -1 is not in 0..=4294967295; …`
    if let Some((head, tail)) = text.split_once(" is not in 0..=")
        && let (Some((head, _)), Some(tail)) = (head.rsplit_once(": "), tail.split_once("; "))
    {
        let (most, tail) = tail;
        return format!("{head}: write a whole number from {least} to {most}; {tail}");
    }
    let text = text
        .replace("invalid digit found in string", &wanted)
        .replace("cannot parse integer from empty string", &wanted);
    RUST_WORDS.iter().fold(text, |text, (rust, told)| text.replace(rust, told))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    use super::{command, not_utf8, one_line};
    use crate::show::table::width_of;

    fn said(words: &[&str]) -> String {
        let words = std::iter::once("pilotfish").chain(words.iter().copied());
        match command().try_get_matches_from(words) {
            Ok(_) => String::new(),
            Err(error) => one_line(&error.render().to_string()),
        }
    }

    #[test]
    fn the_definition_of_all_commands_holds_together() {
        command().debug_assert();
    }

    /// The help of a command and of all below it, each with its name.
    fn helps(command: &mut clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        let path = format!("{path} {}", command.get_name());
        all.push((format!("{path} -h"), command.render_help().to_string()));
        all.push((format!("{path} --help"), command.render_long_help().to_string()));
        for sub in command.get_subcommands_mut() {
            helps(sub, &path, all);
        }
    }

    #[test]
    fn help_of_every_command_fits_80_columns() {
        let mut command = command();
        command.build();
        let mut all = Vec::new();
        helps(&mut command, "", &mut all);
        assert!(all.len() > 100, "{} pages", all.len());
        for (path, help) in all {
            for line in help.lines() {
                assert!(width_of(line) <= 80, "{path}: {} columns: {line}", width_of(line));
            }
        }
    }

    #[test]
    fn mistakes_are_one_line_with_a_hint() {
        assert_eq!(
            said(&["jobz"]),
            "unrecognized subcommand 'jobz'; some similar subcommands exist: 'jobs', 'job'; see `--help`"
        );
        assert_eq!(
            said(&["run", "--core", "2", "job.yaml"]),
            "unexpected argument '--core' found; a similar argument exists: '--cores'; see `--help`"
        );
        assert_eq!(said(&["job"]), "the following required arguments were not provided: <JOB>; see `--help`");
    }

    #[test]
    fn help_of_help_is_help() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (given, taken) in [
            ("pilotfish help --help", "pilotfish help"),
            ("pilotfish help run -h", "pilotfish help run"),
            ("pilotfish platform help --help", "pilotfish platform help"),
            ("pilotfish run help --help", "pilotfish run help --help"),
            ("pilotfish run -- help -h", "pilotfish run -- help -h"),
        ] {
            assert_eq!(super::without_help_of_help(words(given)), words(taken));
        }
    }

    #[test]
    fn argument_that_is_not_utf8_is_named() {
        let arguments = |last: &[u8]| [OsString::from("run"), OsString::from_vec(last.to_vec())].into_iter();
        let said = not_utf8(arguments(b"caf\xe9")).unwrap();
        assert!(said.starts_with("argument 2, `caf\\xe9`, is not UTF-8;"), "{said}");
        assert_eq!(not_utf8(arguments("café".as_bytes())), None);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(OsString::from_vec(b"caf\xe9.yaml".to_vec()));
        std::fs::write(&file, "").unwrap();
        let said = not_utf8(arguments(file.as_os_str().as_encoded_bytes())).unwrap();
        assert!(said.ends_with("caf\\xe9.yaml`, is not UTF-8; rename the file"), "{said}");
    }

    #[test]
    fn priority_may_be_negative_and_its_message_says_so() {
        assert_eq!(said(&["submit", "--priority", "-5", "--", "true"]), "");
        let expected = "write a whole number from -2147483648 to 2147483647; see `--help`";
        for wrong in ["high", "1.5", "-2147483649"] {
            let said = said(&["submit", "--priority", wrong, "--", "true"]);
            assert_eq!(said, format!("invalid value '{wrong}' for '--priority <N>': {expected}"));
        }
    }

    #[test]
    fn what_must_not_be_0_is_told_so_at_once() {
        for (words, least) in [
            (&["run", "-j", "x", "--", "true"][..], 1),
            (&["serve", "--pilots-max", "x"], 1),
            (&["serve", "--port", "x"], 0),
        ] {
            let said = said(words);
            assert!(
                said.ends_with(&format!("write a whole number, {least} or more; see `--help`")),
                "{said}"
            );
        }
    }

    #[test]
    fn numbers_of_a_job_have_one_range_in_every_message() {
        for (flag, range, wrong) in [
            ("--cores", "1 to 65536", ["-1", "0", "1e1"]),
            ("--retries", "0 to 1000", ["-1", "1001", "x"]),
            ("--gpus", "0 to 1024", ["-1", "1025", "0.5"]),
        ] {
            for wrong in wrong {
                let said = said(&["submit", flag, wrong, "--", "true"]);
                let expected = format!(
                    "invalid value '{wrong}' for '{flag} <N>': write a whole number from {range}; see `--help`"
                );
                assert_eq!(said, expected);
            }
        }
    }

    #[test]
    fn no_value_is_refused_in_words_of_rust() {
        let number = "write a number; see `--help`";
        for (words, told) in [
            (
                &["serve", "--host", "localhost"][..],
                "write an IP address, like 127.0.0.1 or ::1; see `--help`",
            ),
            (&["import", "wfcommons", "f", "--emulate", "--speedup", "x"], number),
            (&["import", "wfcommons", "f", "--emulate", "--shrink", ""], number),
            (&["profiles", "edit", "a", "--cpu-share", "x"], number),
            (&["profile", "a", "--tasks", "0"], "write a whole number from 1 to 10000; see `--help`"),
            (&["profile", "a", "--tasks", "x"], "write a whole number from 1 to 10000; see `--help`"),
            (&["serve", "--port", ""], "write a whole number, 0 or more; see `--help`"),
            (
                &["platform", "limits", "a", "--pilots-max", "-1"],
                "write a whole number from 1 to 100000, or drain the platform; see `--help`",
            ),
            (
                &["platform", "limits", "a", "--queued-max", "-1"],
                "write a whole number, 1 or more, or `none`; see `--help`",
            ),
            (&["platform", "limits", "a", "--budget", "x"], "write a number or `none`; see `--help`"),
        ] {
            let said = said(words);
            assert!(said.ends_with(&format!(">': {told}")), "{said}");
        }
    }

    #[test]
    fn range_of_a_number_is_told_in_words() {
        for (flag, wrong, range) in [
            ("--cores", "-1", "1 to 65536"),
            ("--cores", "0", "1 to 65536"),
            ("--cores", "4000000", "1 to 65536"),
            ("--pilots-max", "-1", "1 to 4294967295"),
            ("--port", "70000", "0 to 65535"),
        ] {
            let said = said(&["serve", flag, wrong]);
            assert!(
                said.ends_with(&format!(">': write a whole number from {range}; see `--help`")),
                "{said}"
            );
        }
    }

    #[test]
    fn value_below_0_is_named_with_its_flag() {
        let said = |unknown: &str, words: &str| super::negative(unknown, words.split(' ').map(str::to_owned));
        let of_flag = "--memory: found `-5MB`; write a value that is not below 0; see `--help`";
        assert_eq!(said("-5", "submit --memory -5MB -- x -1").as_deref(), Some(of_flag));
        assert_eq!(
            said("-1", "job -1").as_deref(),
            Some("found `-1`; write a value that is not below 0; see `--help`")
        );
        let others =
            [said("--wiat", "submit --priority -1 --wiat"), said("-x", "jobs -x"), said("-1", "x -- -1")];
        assert_eq!(others, [None, None, None]);
    }

    #[test]
    fn managers_can_be_named_where_jobs_are_not() {
        assert_eq!(said(&["jobs", "--name", "x"]), "");
        assert_eq!(said(&["submit", "--name", "x", "--manager", "y", "--", "true"]), "");
    }
}
