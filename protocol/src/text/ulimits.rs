//! The limits that the system sets to this process (`ulimit`), in words for whoever meets one.

use std::fs;

use crate::text::units::show_bytes;

/// What there is at most of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Bytes of a file that is written.
    FileSize,
    /// Bytes of the first thread's stack.
    Stack,
    /// Processes and threads of this user.
    Processes,
    /// Files of this process.
    OpenFiles,
    /// Bytes of memory addresses of this process.
    AddressSpace,
}

impl Limit {
    /// The limit that holds for this process; `None`: there is none, or it cannot be read.
    pub fn soft(self) -> Option<u64> {
        // Where there is no file left to open, nothing can be read.
        self.of(&fs::read_to_string("/proc/self/limits").ok()?)
    }

    /// The limit by a text as in `/proc/PID/limits`.
    fn of(self, text: &str) -> Option<u64> {
        let name = match self {
            Limit::FileSize => "Max file size",
            Limit::Stack => "Max stack size",
            Limit::Processes => "Max processes",
            Limit::OpenFiles => "Max open files",
            Limit::AddressSpace => "Max address space",
        };
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

/// What to do about an error that a limit of this process may have caused, by the error's words; `None`: it was none.
pub fn hint(error: &str) -> Option<String> {
    hint_by(error, &|limit: Limit| limit.soft())
}

fn hint_by(error: &str, soft: &dyn Fn(Limit) -> Option<u64>) -> Option<String> {
    let error = error.to_lowercase();
    let says = |words: &str| error.contains(words);
    if says("ulimit") {
        return None;
    }
    if says("file too large") {
        let bytes = show_bytes(soft(Limit::FileSize)?);
        return Some(format!("a file may have {bytes} here (ulimit -f): raise that limit"));
    }
    if says("too many open files") && !says("too many open files in system") {
        let n_files = soft(Limit::OpenFiles).map(|n| format!("{n} ")).unwrap_or_default();
        return Some(format!("this process may have {n_files}files open (ulimit -n): raise that limit"));
    }
    if says("resource temporarily unavailable") {
        return Some(match (soft(Limit::Processes), soft(Limit::AddressSpace)) {
            (n_processes, Some(bytes)) => format!(
                "this user may have {}processes and threads (ulimit -u), and this process {} of memory (ulimit -v): raise \
                 the limit that is met",
                n_processes.map(|n| format!("{n} ")).unwrap_or_default(),
                show_bytes(bytes)
            ),
            (Some(n), None) => {
                format!(
                    "this user may have {n} processes and threads (ulimit -u): raise that limit, or end some"
                )
            }
            (None, None) => "the system starts no more processes and threads for this user".to_owned(),
        });
    }
    if says("cannot allocate memory") {
        let bytes = show_bytes(soft(Limit::AddressSpace)?);
        return Some(format!("this process may have {bytes} of memory (ulimit -v): raise that limit"));
    }
    None
}

/// The words of an error, with what to do about the limit that it comes from, if it comes from one.
pub fn with_hint(error: impl ToString) -> String {
    let text = error.to_string();
    match hint(&text) {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

/// What a panic means that is no mistake of a programmer: libraries and Rust itself panic when a thread cannot be started.
pub fn of_panic(said: &str) -> Option<String> {
    let begins = ["OS can't spawn worker thread: ", "failed to spawn thread: "];
    let error = begins.iter().find_map(|begin| said.split_once(begin))?.1;
    // Some show an error as programmers see it.
    let error = if error.contains("WouldBlock") { "Resource temporarily unavailable" } else { error };
    let error = error.split(" (os error ").next().unwrap_or(error);
    Some(with_hint(format!("no thread can be started: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max file size             1048576              unlimited            bytes
Max stack size            8388608              unlimited            bytes
Max processes             12                   12                   processes
Max open files            20                   20                   files
Max address space         unlimited            unlimited            bytes
";

    fn of(error: &str) -> Option<String> {
        hint_by(error, &|limit| limit.of(LIMITS))
    }

    #[test]
    fn error_of_a_limit_says_which_one_it_is() {
        let said = |error: &str| of(error).unwrap();
        assert_eq!(
            said("write x: File too large (os error 27)"),
            "a file may have 1MiB here (ulimit -f): raise that limit"
        );
        assert_eq!(
            said("cannot open x: too many open files"),
            "this process may have 20 files open (ulimit -n): raise that limit"
        );
        assert_eq!(
            said("failed to start sh: Resource temporarily unavailable"),
            "this user may have 12 processes and threads (ulimit -u): raise that limit, or end some"
        );
        for other in
            ["No such file", "Too many open files in system", "x (ulimit -n)", "Cannot allocate memory"]
        {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn error_of_a_limit_that_is_not_known_is_told_without_a_number() {
        let of = |error: &str| hint_by(error, &|_| None);
        assert_eq!(of("File too large"), None, "there is no limit: it is the file system's");
        assert!(
            of("Too many open files").is_some_and(|said| said.contains("may have files open (ulimit -n)"))
        );
        assert!(
            of("Resource temporarily unavailable").is_some_and(|said| said.contains("no more processes"))
        );
    }

    #[test]
    fn limits_of_this_process_are_read() {
        assert!(Limit::OpenFiles.soft().is_some_and(|n| n > 2));
        assert_eq!((Limit::FileSize.of(LIMITS), Limit::AddressSpace.of(LIMITS)), (Some(1 << 20), None));
    }

    #[test]
    fn panic_over_a_thread_that_cannot_be_started_is_no_mistake() {
        for said in [
            "OS can't spawn worker thread: Resource temporarily unavailable (os error 11)",
            "failed to spawn thread: Os { code: 11, kind: WouldBlock, message: \"Resource temporarily unavailable\" }",
        ] {
            let words = of_panic(said).unwrap();
            assert!(
                words.starts_with("no thread can be started: Resource temporarily unavailable ("),
                "{words}"
            );
        }
        assert_eq!(of_panic("index out of bounds"), None);
    }
}
