//! From what the manager says while tasks are followed to what is to be shown: each byte once, in order.
//!
//! A running attempt's output comes in pieces; when it has ended all that is kept of it comes once more, of
//! which only the rest is new. Pieces may be missing: the manager keeps them in memory only.

use std::collections::HashMap;

use protocol::{
    follow::{EndedOutput, Followed, Piece, StreamName},
    text::kept::{Parted, left_out_line, parted},
};
use scheduler::ids::PilotId;

/// What is to be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// Something that a task wrote.
    Bytes {
        /// The task.
        index: u64,
        /// Where.
        stream: StreamName,
        /// What.
        bytes: Vec<u8>,
    },
    /// Something about a task.
    Note {
        /// The task.
        index: u64,
        /// In words.
        what: String,
    },
    /// An attempt of a task has written all that it wrote.
    Ended {
        /// The task.
        index: u64,
    },
}

/// How far running attempts have been shown.
#[derive(Default)]
pub(super) struct Feed {
    seen: HashMap<u64, Seen>,
    /// How many bytes of a stream are kept, once the manager has said it.
    limit_bytes: Option<u64>,
}

struct Seen {
    attempt: u32,
    run: (PilotId, u64),
    shown: [u64; 2],
}

impl Feed {
    /// Whether attempts were shown whose end is not known.
    pub(super) fn is_any_open(&self) -> bool {
        !self.seen.is_empty()
    }

    /// What is new in an answer.
    pub(super) fn take(&mut self, followed: &mut Followed) -> Vec<Said> {
        let mut said = Vec::new();
        self.limit_bytes = followed.limit_bytes;
        let pieces = std::mem::take(&mut followed.pieces);
        // Those of an attempt that began after one that has ended here.
        let (later, now): (Vec<Piece>, Vec<Piece>) =
            pieces.into_iter().partition(|piece| self.comes_after(piece, &followed.ended));
        now.into_iter().for_each(|piece| self.piece(piece, &mut said));
        std::mem::take(&mut followed.ended).into_iter().for_each(|ended| self.ended(ended, &mut said));
        later.into_iter().for_each(|piece| self.piece(piece, &mut said));
        said
    }

    fn comes_after(&self, piece: &Piece, ended: &[EndedOutput]) -> bool {
        let is_known = self.seen.get(&piece.index).is_some_and(|seen| seen.run == (piece.pilot, piece.run));
        let is_before = |ended: &EndedOutput| {
            ended.index == piece.index && ended.failed_attempt.is_some_and(|attempt| attempt != piece.attempt)
        };
        !is_known && ended.iter().any(is_before)
    }

    fn piece(&mut self, piece: Piece, said: &mut Vec<Said>) {
        let Piece { index, attempt, pilot, run, stream, at, written } = piece;
        let run = (pilot, run);
        let seen = self.seen.entry(index).or_insert(Seen { attempt, run, shown: [0; 2] });
        if seen.run != run {
            said.push(Said::Note { index, what: lost(Some(pilot)) });
            *seen = Seen { attempt, run, shown: [0; 2] };
        }
        let shown = &mut seen.shown[stream as usize];
        let mut bytes = written.into_bytes();
        let end = at.saturating_add(bytes.len() as u64);
        if end <= *shown {
            return;
        }
        if at > *shown {
            let what = format!("{} bytes were not followed", at - *shown);
            said.push(Said::Note { index, what });
        }
        let known = usize::try_from(shown.saturating_sub(at)).unwrap_or(usize::MAX);
        bytes.drain(..known.min(bytes.len()));
        *shown = end;
        said.push(Said::Bytes { index, stream, bytes });
    }

    fn ended(&mut self, ended: EndedOutput, said: &mut Vec<Said>) {
        let EndedOutput { index, pilot, failed_attempt, stdout, stderr, .. } = ended;
        let is_it = |seen: &Seen| {
            let is_attempt = failed_attempt.is_none_or(|attempt| attempt == seen.attempt);
            is_attempt && pilot.is_none_or(|pilot| pilot == seen.run.0)
        };
        let shown = match self.seen.get(&index) {
            Some(seen) if is_it(seen) => self.seen.remove(&index).map_or([0; 2], |seen| seen.shown),
            // One that succeeded or was killed is the last: what was shown was of an attempt that is lost.
            Some(_) if failed_attempt.is_none() => {
                self.seen.remove(&index);
                said.push(Said::Note { index, what: lost(pilot) });
                [0; 2]
            }
            _ => [0; 2],
        };
        let streams = [(StreamName::Stdout, stdout, shown[0]), (StreamName::Stderr, stderr, shown[1])];
        for (stream, written, shown) in streams {
            let bytes = rest(&written.into_bytes(), shown, self.limit_bytes);
            if !bytes.is_empty() {
                said.push(Said::Bytes { index, stream, bytes });
            }
        }
        said.push(Said::Ended { index });
    }
}

/// What was shown is void.
fn lost(pilot: Option<PilotId>) -> String {
    let on = pilot.map_or_else(String::new, |pilot| format!(", on pilot {pilot}"));
    format!("begins again{on}: what came before is of an attempt that is lost")
}

/// What of a stream is new when its first `shown` bytes were shown. Of one that is longer than its limit the head and the
/// tail are kept, with a line between that says how much is missing.
fn rest(kept: &[u8], shown: u64, limit_bytes: Option<u64>) -> Vec<u8> {
    let from = |bytes: &[u8], n: u64| {
        let n = usize::try_from(n).unwrap_or(usize::MAX);
        bytes.get(n..).unwrap_or_default().to_vec()
    };
    let Some(Parted { head, n_left_out, tail }) = limit_bytes.and_then(|limit| parted(kept, limit)) else {
        return from(kept, shown);
    };
    let n_head = head.len() as u64;
    let n_before_tail = n_head.saturating_add(n_left_out);
    if shown >= n_before_tail {
        return from(tail, shown - n_before_tail);
    }
    let n_missing = n_before_tail - shown.max(n_head);
    [from(head, shown), left_out_line(n_missing).into_bytes(), tail.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use protocol::follow::Written;

    use super::*;

    fn piece(index: u64, (attempt, run): (u32, u64), at: u64, text: &str) -> Piece {
        let written = Written { text: text.into(), is_binary: false };
        Piece { index, attempt, pilot: PilotId(1), run, stream: StreamName::Stdout, at, written }
    }

    fn ended(index: u64, failed_attempt: Option<u32>, text: &str) -> EndedOutput {
        let stdout = Written { text: text.into(), is_binary: false };
        let pilot = Some(PilotId(1));
        EndedOutput {
            index,
            pilot,
            failed_attempt,
            is_final_failure: false,
            stdout,
            stderr: Written::default(),
        }
    }

    /// What is shown, as one text: `|` where an attempt ends, `(…)` for notes.
    fn shown(feed: &mut Feed, pieces: Vec<Piece>, ended: Vec<EndedOutput>) -> String {
        let said = feed.take(&mut Followed { pieces, ended, ..Followed::default() });
        let text = |said: Said| match said {
            Said::Bytes { bytes, .. } => String::from_utf8(bytes).unwrap(),
            Said::Note { what, .. } => format!("({what})"),
            Said::Ended { .. } => "|".to_owned(),
        };
        said.into_iter().map(text).collect()
    }

    #[test]
    fn each_byte_is_shown_once_whatever_comes_twice() {
        let mut feed = Feed::default();
        let run = (1, 5);
        assert_eq!(shown(&mut feed, vec![piece(3, run, 0, "ab"), piece(3, run, 1, "bc")], vec![]), "abc");
        assert_eq!(shown(&mut feed, vec![piece(3, run, 0, "abc")], vec![]), "");
        assert!(feed.is_any_open());
        assert_eq!(shown(&mut feed, vec![piece(3, run, 3, "d")], vec![ended(3, None, "abcdef")]), "def|");
        assert!(!feed.is_any_open());
        assert_eq!(shown(&mut feed, vec![], vec![ended(4, None, "whole")]), "whole|");
    }

    #[test]
    fn attempts_are_told_apart() {
        let mut feed = Feed::default();
        shown(&mut feed, vec![piece(3, (1, 5), 0, "ab")], vec![]);
        // The second attempt has begun when the end of the first is heard of.
        let both = shown(&mut feed, vec![piece(3, (2, 9), 0, "new")], vec![ended(3, Some(1), "abc")]);
        assert_eq!(both, "c|new");
        assert_eq!(shown(&mut feed, vec![], vec![ended(3, Some(2), "newer")]), "er|");
        // Nothing was seen of the first one.
        let both = shown(&mut feed, vec![piece(8, (2, 9), 0, "new")], vec![ended(8, Some(1), "abc")]);
        assert_eq!(both, "abc|new");
        // Its end comes with its pieces.
        let both = shown(&mut feed, vec![piece(9, (2, 9), 0, "ne")], vec![ended(9, Some(2), "new")]);
        assert_eq!(both, "new|");
    }

    #[test]
    fn what_is_missing_and_what_is_lost_is_said() {
        let mut feed = Feed::default();
        shown(&mut feed, vec![piece(3, (1, 5), 0, "ab")], vec![]);
        assert_eq!(shown(&mut feed, vec![piece(3, (1, 5), 9, "x")], vec![]), "(7 bytes were not followed)x");
        let again = shown(&mut feed, vec![piece(3, (2, 6), 0, "ab")], vec![]);
        assert!(again.starts_with("(begins again, on pilot 1") && again.ends_with(")ab"), "{again}");
    }

    #[test]
    fn the_end_of_an_attempt_of_which_nothing_was_shown_is_shown_whole() {
        let mut feed = Feed::default();
        shown(&mut feed, vec![piece(3, (1, 5), 0, "ab")], vec![]);
        let elsewhere = EndedOutput { pilot: Some(PilotId(2)), ..ended(3, None, "abc") };
        let all = shown(&mut feed, vec![], vec![elsewhere]);
        assert!(all.starts_with("(begins again, on pilot 2") && all.ends_with(")abc|"), "{all}");
        assert!(!feed.is_any_open());
    }

    #[test]
    fn the_rest_of_what_was_cut_is_found() {
        let kept = b"abc\n[pilotfish: 4 bytes left out]\nhij";
        let rest_of = |shown| String::from_utf8(rest(kept, shown, Some(6))).unwrap();
        assert_eq!(rest_of(0), "abc\n[pilotfish: 4 bytes left out]\nhij");
        assert_eq!(rest_of(2), "c\n[pilotfish: 4 bytes left out]\nhij");
        assert_eq!(rest_of(5), "\n[pilotfish: 2 bytes left out]\nhij");
        assert_eq!((rest_of(7), rest_of(8), rest_of(10)), ("hij".into(), "ij".into(), String::new()));
        assert_eq!(rest(kept, 5, Some(100)), &kept[5..], "the program wrote that line");
    }
}
