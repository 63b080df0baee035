//! Logs on standard error, for `serve` always and for others when PILOTFISH_LOG asks for them.

use tracing_subscriber::EnvFilter;

/// Logs what PILOTFISH_LOG says; without it what `default` says, which may be nothing.
pub fn start(default: Option<&str>) {
    let filter = match (EnvFilter::try_from_env("PILOTFISH_LOG"), default) {
        (Ok(filter), _) => filter,
        (Err(_), Some(default)) => EnvFilter::new(default),
        (Err(_), None) => return,
    };
    // A log whose disk is full must not end the manager: to complain of it would be a panic.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .log_internal_errors(false);
    // Nobody has set another one before.
    let _ = subscriber.try_init();
}
