//! Sets of indices as words of 64 bits. Consecutive full words are one piece, so a range costs at most three
//! pieces; indices in any order cost at most one piece for each 64 of the range that they cover.

use std::{collections::BTreeMap, ops::Range};

const BITS: u64 = u64::BITS as u64;
const FULL: u64 = u64::MAX;

/// Consecutive words with equal bits. More than one word only if they are full.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Piece {
    n_words: u64,
    bits: u64,
}

/// The words that have set bits.
///
/// No piece is empty, and full ones that touch are merged: equal sets have equal pieces.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// The pieces by their first word.
    pieces: BTreeMap<u64, Piece>,
}

/// Words and the bits of each of them: several words only if all their bits are set.
pub type Span = (Range<u64>, u64);

/// Returns the number of indices in a span.
pub fn n_indices((words, bits): &Span) -> u64 {
    (words.end - words.start) * u64::from(bits.count_ones())
}

/// Splits a range into spans: the word in which it begins, the full words, the word in which it ends.
pub fn spans_of(range: Range<u64>) -> impl Iterator<Item = Span> {
    let (first, last) = (range.start / BITS, range.end / BITS);
    let head = FULL << (range.start % BITS);
    let tail = !(FULL << (range.end % BITS));
    let spans = match () {
        () if range.is_empty() => [None, None, None],
        () if first == last => [Some((first..first + 1, head & tail)), None, None],
        () => {
            let filled = first + u64::from(head != FULL)..last;
            [
                (head != FULL).then_some((first..first + 1, head)),
                (!filled.is_empty()).then_some((filled, FULL)),
                (tail != 0).then_some((last..last + 1, tail)),
            ]
        }
    };
    spans.into_iter().flatten()
}

/// Returns the lowest `n` set bits.
pub fn lowest(bits: u64, n: u64) -> u64 {
    let above = (0..n).fold(bits, |rest, _| rest & rest.saturating_sub(1));
    bits & !above
}

impl Words {
    /// Returns the number of pieces, which is the cost of the set.
    pub fn n_pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the bits of one word.
    pub fn get(&self, word: u64) -> u64 {
        let before = self.pieces.range(..=word).next_back();
        before.map_or(0, |(first, piece)| if word - first < piece.n_words { piece.bits } else { 0 })
    }

    /// Returns the spans of set bits, in ascending order.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.pieces.iter().map(|(first, piece)| (*first..first + piece.n_words, piece.bits))
    }

    /// Returns the spans of set bits in these words, in ascending order.
    pub fn spans_within(&self, words: Range<u64>) -> impl Iterator<Item = Span> + '_ {
        let before = self.pieces.range(..words.start).next_back();
        let reaching = before.filter(|(first, piece)| *first + piece.n_words > words.start);
        let pieces = reaching.into_iter().chain(self.pieces.range(words.clone()));
        pieces.map(move |(first, piece)| {
            let end = first + piece.n_words;
            ((*first).max(words.start)..end.min(words.end), piece.bits)
        })
    }

    /// Sets these words to these bits; a single word may have any bits, several have all or none.
    pub fn set(&mut self, words: Range<u64>, bits: u64) {
        if let (1, false, Some(piece)) =
            (words.end - words.start, bits == 0 || bits == FULL, self.pieces.get_mut(&words.start))
            && piece.bits != FULL
        {
            piece.bits = bits;
            return;
        }
        self.clear(words.clone());
        match bits {
            0 => {}
            FULL => self.fill(words),
            _ => _ = self.pieces.insert(words.start, Piece { n_words: 1, bits }),
        }
    }

    fn clear(&mut self, words: Range<u64>) {
        if let Some((first, piece)) = self.pieces.range_mut(..words.start).next_back() {
            let end = first + piece.n_words;
            if end > words.start {
                piece.n_words = words.start - first;
                self.keep_after(words.end, end);
            }
        }
        while let Some((first, piece)) = self.pieces.range(words.clone()).next() {
            let (first, end) = (*first, first + piece.n_words);
            self.pieces.remove(&first);
            self.keep_after(words.end, end);
        }
    }

    /// Restores the part of a full piece behind cleared words.
    fn keep_after(&mut self, first: u64, end: u64) {
        if end > first {
            self.pieces.insert(first, Piece { n_words: end - first, bits: FULL });
        }
    }

    /// Sets all bits of words that are clear.
    fn fill(&mut self, words: Range<u64>) {
        let after = self.pieces.get(&words.end).filter(|piece| piece.bits == FULL).copied();
        if after.is_some() {
            self.pieces.remove(&words.end);
        }
        let n_words = words.end - words.start + after.map_or(0, |piece| piece.n_words);
        let before = self.pieces.range_mut(..words.start).next_back();
        match before.filter(|(first, piece)| piece.bits == FULL && *first + piece.n_words == words.start) {
            Some((_, piece)) => piece.n_words += n_words,
            None => _ = self.pieces.insert(words.start, Piece { n_words, bits: FULL }),
        }
    }

    /// Returns the spans that are set in both, in ascending order. Walks over the pieces of the smaller.
    pub fn both<'a>(&'a self, other: &'a Words) -> impl Iterator<Item = Span> + 'a {
        let (few, many) = if self.n_pieces() <= other.n_pieces() { (self, other) } else { (other, self) };
        few.spans().flat_map(move |(words, bits)| {
            let there = many.spans_within(words);
            there.map(move |(words, more)| (words, bits & more)).filter(|(_, bits)| *bits != 0)
        })
    }

    /// Returns the spans that are set here and not in `other`, in ascending order.
    pub fn without<'a>(&'a self, other: &'a Words) -> impl Iterator<Item = Span> + 'a {
        self.spans().flat_map(move |(words, bits)| {
            let end = words.end;
            let mut next = words.start;
            // The end marker yields the rest after the last span of the other.
            let there = other.spans_within(words).chain(std::iter::once((end..end, 0)));
            there.flat_map(move |(words, taken)| {
                let untouched = (next..words.start, bits);
                next = words.end;
                [untouched, (words, bits & !taken)].into_iter().filter(|(w, b)| !w.is_empty() && *b != 0)
            })
        })
    }

    /// Returns the ranges of indices, in ascending order, as few as possible.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut parts = self.spans().flat_map(parts).peekable();
        std::iter::from_fn(move || {
            let mut range = parts.next()?;
            while let Some(next) = parts.next_if(|next| next.start == range.end) {
                range.end = next.end;
            }
            Some(range)
        })
    }
}

/// Collects ascending spans into words.
impl FromIterator<Span> for Words {
    fn from_iter<I: IntoIterator<Item = Span>>(spans: I) -> Words {
        let mut pieces: Vec<(u64, Piece)> = Vec::new();
        for (words, bits) in spans {
            let n_words = words.end - words.start;
            match pieces.last_mut() {
                Some((first, last))
                    if bits == FULL && last.bits == FULL && *first + last.n_words == words.start =>
                {
                    last.n_words += n_words;
                }
                _ => pieces.push((words.start, Piece { n_words, bits })),
            }
        }
        Words { pieces: pieces.into_iter().collect() }
    }
}

/// Returns the ranges of a span.
fn parts((words, bits): Span) -> impl Iterator<Item = Range<u64>> {
    let first = words.start * BITS;
    let filled = (bits == FULL).then(|| first..words.end * BITS);
    let mut left = if bits == FULL { 0 } else { bits };
    let single = std::iter::from_fn(move || {
        let skipped = left.trailing_zeros();
        if left == 0 {
            return None;
        }
        let n = (!(left >> skipped)).trailing_zeros();
        left &= !(((1 << n) - 1) << skipped);
        let start = first + u64::from(skipped);
        Some(start..start + u64::from(n))
    });
    filled.into_iter().chain(single)
}
