//! Whether standard input holds something that nobody reads: people who know other tools pipe values into a command.

use std::{
    io::{Seek, stdin},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::FileTypeExt,
    },
};

/// How long a pipe's writer may take to write something or to end, in milliseconds.
const WAIT_MS: i32 = 100;

/// Whether standard input is a file or a pipe with something in it. A pipe that stays silent and open, as those of
/// remote shells are, does not count.
pub fn is_left() -> bool {
    let input = stdin();
    let Ok(owned) = input.as_fd().try_clone_to_owned() else { return false };
    let mut file = std::fs::File::from(owned);
    let Ok(facts) = file.metadata() else { return false };
    if facts.is_file() {
        return file.stream_position().is_ok_and(|position| position < facts.len());
    }
    facts.file_type().is_fifo() && has_bytes(&file)
}

fn has_bytes(pipe: &impl AsRawFd) -> bool {
    let mut wanted = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives until the call returns.
    let n_ready = unsafe { libc::poll(&raw mut wanted, 1, WAIT_MS) };
    n_ready == 1 && wanted.revents & libc::POLLIN != 0
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::has_bytes;

    #[test]
    fn a_pipe_with_something_in_it_counts_and_one_that_has_ended_does_not() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"x").unwrap();
        assert!(has_bytes(&reader));
        drop(writer);
        assert!(has_bytes(&reader));
        let (reader, writer) = pipe().unwrap();
        drop(writer);
        assert!(!has_bytes(&reader));
    }
}
