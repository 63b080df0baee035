//! Logs on standard error, for `serve` always and for `run` when PILOTFISH_LOG asks for them.

use std::env::VarError;

use protocol::job::nearest;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::failure::Failure;

const VARIABLE: &str = "PILOTFISH_LOG";
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Logs what PILOTFISH_LOG says; without it, or where it is empty, what `default` says, which may be nothing.
///
/// # Errors
/// PILOTFISH_LOG says what cannot be understood.
pub fn start(default: Option<&str>) -> Result<(), Failure> {
    let asked = match std::env::var(VARIABLE) {
        Ok(text) => text,
        Err(VarError::NotPresent) => String::new(),
        Err(VarError::NotUnicode(text)) => return Err(refused(&text.to_string_lossy(), "")),
    };
    let filter = match (filter(&asked)?, default) {
        (Some(filter), _) => filter,
        (None, Some(default)) => EnvFilter::new(default),
        (None, None) => return Ok(()),
    };
    // A log whose disk is full must not end the manager: to complain of it would be a panic.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false);
    // Nobody has set another one before.
    let _ = subscriber.try_init();
    Ok(())
}

/// What is asked for, if anything is.
fn filter(text: &str) -> Result<Option<EnvFilter>, Failure> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    for word in &words {
        // To `EnvFilter` a level that is mistyped is a module of that name, which logs nothing.
        let is_level = word.parse::<LevelFilter>().is_ok();
        let is_of_module = word.contains('[') || word.contains('=') && !word.contains(char::is_whitespace);
        if !is_level && !is_of_module {
            let hint = nearest(word, LEVELS).map(|near| format!("did you mean `{near}`? "));
            return Err(refused(word, &hint.unwrap_or_default()));
        }
    }
    match words.is_empty() {
        true => Ok(None),
        false => EnvFilter::try_new(words.join(",")).map(Some).map_err(|_| refused(text, "")),
    }
}

fn refused(found: &str, hint: &str) -> Failure {
    let line = format!("{VARIABLE}: found `{found}`; {hint}write {}, or MODULE=LEVEL,…", LEVELS.join(", "));
    Failure::bad_input(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match filter(text) {
            Ok(Some(filter)) => filter.to_string(),
            Ok(None) => String::new(),
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn a_log_is_as_it_is_asked_for() {
        for (text, meant) in [
            ("", ""),
            (" ", ""),
            (" debug ", "debug"),
            ("WARN", "warn"),
            ("info, hyper=warn", "hyper=warn,info"),
            ("m=debug", "m=debug"),
            ("off", "off"),
        ] {
            assert_eq!(read(text), meant, "{text}");
        }
    }

    #[test]
    fn a_mistyped_level_is_refused() {
        for (text, said) in [
            ("debgu", "found `debgu`; did you mean `debug`?"),
            ("warning", "found `warning`; did you mean `warn`?"),
            ("inof,hyper=warn", "found `inof`; did you mean `info`?"),
            ("verbose", "found `verbose`; write error"),
            ("hyper=wrn", "found `hyper=wrn`; write error"),
            ("info hyper=warn", "found `info hyper=warn`; write error"),
            ("\u{a0}a=b=c", "found `\u{a0}a=b=c`; write error"),
        ] {
            assert!(read(text).contains(&format!("PILOTFISH_LOG: {said}")), "{text}: {}", read(text));
        }
    }
}
