//! Servers and files that were given up for their silence; the next request for them waits a shorter time.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::lock;

/// How long a silence counts.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// The silent servers and files, each with its time. A silent server counts for all its files. A silent file
/// counts for itself only: other files of its server prove nothing about it.
#[derive(Debug, Default)]
pub(super) struct Silences(Mutex<HashMap<String, Instant>>);

impl Silences {
    /// Notes that this server was given up when this file was requested.
    pub(super) fn note(&self, server: &str, file: &str) {
        let now = Instant::now();
        let mut silences = lock(&self.0);
        silences.retain(|_, at| now.duration_since(*at) < KEPT_FOR);
        silences.extend([server, file].map(|name| (name.to_owned(), now)));
    }

    /// Returns whether the server or the file was given up recently.
    pub(super) fn is_any(&self, server: &str, file: &str) -> bool {
        let silences = lock(&self.0);
        [server, file].iter().any(|name| silences.get(*name).is_some_and(|at| at.elapsed() < KEPT_FOR))
    }

    /// Forgets the silence of a server or a file.
    pub(super) fn forget(&self, name: &str) {
        lock(&self.0).remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::Silences;

    #[test]
    fn what_else_comes_of_a_server_does_not_forgive_the_file_that_did_not() {
        let silences = Silences::default();
        let is_any = |file| silences.is_any("h", file);
        assert!(!is_any("http://h/a"));
        silences.note("h", "http://h/a");
        assert!(is_any("http://h/a") && is_any("http://h/b"), "the server is silent");
        silences.forget("h");
        silences.forget("http://h/b");
        assert!(is_any("http://h/a") && !is_any("http://h/b"));
        silences.forget("http://h/a");
        assert!(!is_any("http://h/a"));
    }
}
