//! The output of a program, kept up to a limit: head and tail, with a line between them.
//!
//! Output goes through a pipe and not to a file, so that a program with endless output does not fill the
//! node's memory or disk.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    os::fd::{AsRawFd, OwnedFd, RawFd},
};

use protocol::text::kept;

use crate::sys::pipe::{pipe, set_nonblocking};

/// The most full buffers read from one pipe at a time, so that other pipes have their turn.
const N_READS_MAX: usize = 16;

/// The head and tail of a stream, up to a limit.
pub(crate) struct HeadTail {
    limit: usize,
    head: Vec<u8>,
    /// A ring buffer; once it is full, `next` is the position of its oldest byte.
    tail: Vec<u8>,
    next: usize,
    n_bytes: u64,
}

impl HeadTail {
    /// Returns an empty value that keeps at most `limit` bytes, not counting the line between.
    pub(crate) fn new(limit: usize) -> HeadTail {
        HeadTail { limit, head: Vec::new(), tail: Vec::new(), next: 0, n_bytes: 0 }
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.n_bytes = self.n_bytes.saturating_add(bytes.len() as u64);
        let head_max = kept::head_len(self.limit);
        let (for_head, rest) = bytes.split_at(bytes.len().min(head_max - self.head.len()));
        self.head.extend_from_slice(for_head);
        let tail_max = self.limit - head_max;
        let rest = &rest[rest.len().saturating_sub(tail_max)..];
        let (grow, wrap) = rest.split_at(rest.len().min(tail_max - self.tail.len()));
        self.tail.extend_from_slice(grow);
        let (first, second) = wrap.split_at(wrap.len().min(tail_max - self.next));
        self.tail[self.next..self.next + first.len()].copy_from_slice(first);
        self.tail[..second.len()].copy_from_slice(second);
        if !wrap.is_empty() {
            self.next = (self.next + wrap.len()) % tail_max;
        }
    }

    /// Returns the position of the first byte and at most `n_max` kept bytes from `from` on. The position is
    /// later than `from` if that byte is not kept any more.
    pub(crate) fn since(&self, from: u64, n_max: usize) -> (u64, Vec<u8>) {
        let head = self.head.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or_default();
        if !head.is_empty() {
            return (from, head[..head.len().min(n_max)].to_vec());
        }
        let first = self.n_bytes - self.tail.len() as u64;
        let at = from.clamp(first, self.n_bytes);
        let skipped = usize::try_from(at - first).unwrap_or(usize::MAX);
        let (late, early) = self.tail.split_at(self.next);
        let bytes = early.iter().chain(late).skip(skipped).take(n_max);
        (at, bytes.copied().collect())
    }

    /// Returns the kept bytes, and whether some were left out.
    pub(crate) fn finish(self) -> (Vec<u8>, bool) {
        let mut kept = self.head;
        let is_truncated = self.n_bytes > self.limit as u64;
        if is_truncated {
            let line = kept::left_out_line(self.n_bytes - self.limit as u64);
            kept.extend_from_slice(line.as_bytes());
        }
        kept.extend_from_slice(&self.tail[self.next..]);
        kept.extend_from_slice(&self.tail[..self.next]);
        (kept, is_truncated)
    }
}

/// Pipes for programs' output. A pipe that no process holds any more is used again: creating, polling and
/// closing a pair for each task would cost more than all other work for the task.
#[derive(Default)]
pub(super) struct Pipes {
    slots: Vec<Option<Open>>,
    spare: Vec<usize>,
}

/// One pipe of [`Pipes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PipeSlot(pub usize);

struct Open {
    read: File,
    write: OwnedFd,
    kept: HeadTail,
}

impl Pipes {
    /// Returns an empty pipe that keeps at most `limit` bytes, and whether it is new and must be polled.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(super) fn take(&mut self, limit: usize) -> io::Result<(PipeSlot, bool)> {
        if let Some(slot) = self.spare.pop() {
            if let Some(Some(open)) = self.slots.get_mut(slot) {
                open.kept = HeadTail::new(limit);
            }
            return Ok((PipeSlot(slot), false));
        }
        let (read, write) = pipe()?;
        set_nonblocking(read.as_raw_fd())?;
        let open = Some(Open { read: File::from(read), write, kept: HeadTail::new(limit) });
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[slot] = open;
        Ok((PipeSlot(slot), true))
    }

    /// Returns the end to poll and the end for the program.
    pub(super) fn ends(&self, slot: PipeSlot) -> Option<(RawFd, RawFd)> {
        let open = self.slots.get(slot.0)?.as_ref()?;
        Some((open.read.as_raw_fd(), open.write.as_raw_fd()))
    }

    /// Reads the available bytes, but at most [`N_READS_MAX`] buffers.
    pub(super) fn read(&mut self, slot: PipeSlot, buffer: &mut [u8]) {
        let Some(Some(open)) = self.slots.get_mut(slot.0) else { return };
        for _ in 0..N_READS_MAX {
            match open.read.read(buffer) {
                Ok(n) => {
                    open.kept.push(buffer.get(..n).unwrap_or_default());
                    if n < buffer.len() {
                        return;
                    }
                }
                // The pipe is empty: no other error is possible while we hold its write end.
                Err(_) => return,
            }
        }
    }

    /// Returns the kept bytes from `from` on: see [`HeadTail::since`].
    pub(super) fn since(&self, slot: PipeSlot, from: u64, n_max: usize) -> (u64, Vec<u8>) {
        let open = self.slots.get(slot.0).and_then(Option::as_ref);
        open.map_or((from, Vec::new()), |open| open.kept.since(from, n_max))
    }

    /// Takes the kept bytes, and whether some were left out; keeping starts again.
    pub(super) fn take_kept(&mut self, slot: PipeSlot) -> (Vec<u8>, bool) {
        let Some(Some(open)) = self.slots.get_mut(slot.0) else { return (Vec::new(), false) };
        let anew = HeadTail::new(open.kept.limit);
        mem::replace(&mut open.kept, anew).finish()
    }

    /// Reads the rest and returns the kept bytes, and whether some were left out.
    ///
    /// With `is_ours_alone` the pipe is kept for the next program; otherwise another process may still write
    /// to it.
    pub(super) fn finish(
        &mut self,
        slot: PipeSlot,
        buffer: &mut [u8],
        is_ours_alone: bool,
    ) -> (Vec<u8>, bool) {
        self.read(slot, buffer);
        let kept = self.take_kept(slot);
        if is_ours_alone {
            self.spare.push(slot.0);
        } else {
            self.slots[slot.0] = None;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::HeadTail;

    fn kept(limit: usize, writes: &[&str]) -> (String, bool) {
        let mut kept = HeadTail::new(limit);
        for bytes in writes {
            kept.push(bytes.as_bytes());
        }
        let (bytes, is_truncated) = kept.finish();
        (String::from_utf8(bytes).unwrap(), is_truncated)
    }

    #[test]
    fn output_within_the_limit_is_kept_whole() {
        assert_eq!(kept(10, &["abc", "defghij"]), ("abcdefghij".into(), false));
        assert_eq!(kept(0, &[]), (String::new(), false));
    }

    #[test]
    fn longer_output_keeps_head_and_tail_and_says_what_is_missing() {
        let expected = "abc\n[pilotfish: 4 bytes left out]\nhij".to_string();
        assert_eq!(kept(6, &["abcdefg", "hij"]), (expected, true));
        assert_eq!(kept(0, &["ab"]), ("\n[pilotfish: 2 bytes left out]\n".into(), true));
    }

    #[test]
    fn what_came_since_is_told_piece_by_piece_and_says_where_it_begins() {
        let mut kept = HeadTail::new(6);
        assert_eq!(kept.since(0, 9), (0, vec![]));
        kept.push(b"abcde");
        assert_eq!(kept.since(0, 9), (0, b"abc".to_vec()), "the head first");
        assert_eq!((kept.since(1, 1), kept.since(3, 9)), ((1, b"b".to_vec()), (3, b"de".to_vec())));
        assert_eq!(kept.since(5, 9), (5, vec![]));
        kept.push(b"fghij");
        assert_eq!(kept.since(3, 9), (7, b"hij".to_vec()), "what was left out is passed over");
        assert_eq!((kept.since(8, 1), kept.since(99, 9)), ((8, b"i".to_vec()), (10, vec![])));
    }

    proptest! {
        #[test]
        fn pieces_do_not_change_what_is_kept(limit in 0..20usize, pieces in prop::collection::vec("[a-z]{0,9}", 0..9)) {
            let whole = pieces.concat();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(kept(limit, &pieces), kept(limit, &[&whole]));
            if whole.len() > limit {
                let (bytes, _) = kept(limit, &pieces);
                prop_assert!(bytes.starts_with(&whole[..limit / 2]));
                prop_assert!(bytes.ends_with(&whole[whole.len() - (limit - limit / 2)..]));
            }
        }
    }
}
