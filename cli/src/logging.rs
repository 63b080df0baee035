//! Logs on standard error, for `serve` always and for others when PILOTFISH_LOG asks for them.

use std::env::VarError;

use protocol::job::nearest;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::failure::Failure;

const VARIABLE: &str = "PILOTFISH_LOG";
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Logs what PILOTFISH_LOG says; without it what `default` says, which may be nothing.
///
/// # Errors
/// PILOTFISH_LOG says what cannot be understood.
pub fn start(default: Option<&str>) -> Result<(), Failure> {
    let filter = match (std::env::var(VARIABLE), default) {
        (Ok(text), _) => filter(&text)?,
        (Err(VarError::NotUnicode(text)), _) => return Err(refused(&text.to_string_lossy(), "")),
        (Err(VarError::NotPresent), Some(default)) => EnvFilter::new(default),
        (Err(VarError::NotPresent), None) => return Ok(()),
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

fn filter(text: &str) -> Result<EnvFilter, Failure> {
    for word in text.split(',').map(str::trim) {
        // To the filter a level that is mistyped is a module of that name, which logs nothing.
        if word.parse::<LevelFilter>().is_err()
            && let Some(near) = nearest(word, LEVELS)
        {
            return Err(refused(word, &format!("did you mean `{near}`? ")));
        }
    }
    EnvFilter::try_new(text).map_err(|_| refused(text, ""))
}

fn refused(found: &str, hint: &str) -> Failure {
    let line = format!("{VARIABLE}: found `{found}`; {hint}write {}, or MODULE=LEVEL,…", LEVELS.join(", "));
    Failure::bad_input(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_level_is_refused() {
        for good in ["", "debug", "WARN", "info,hyper=warn", "manager", "off"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for (bad, hint) in
            [("debgu", "`debug`?"), ("info, hyper=wrn", "MODULE=LEVEL"), ("inof,hyper=warn", "`info`?")]
        {
            let said = filter(bad).err().map(|failure| failure.to_string()).unwrap_or_default();
            assert!(said.contains("PILOTFISH_LOG: found `") && said.contains(hint), "{bad}: {said}");
        }
    }
}
