//! Busy cores over time, in a limited number of pieces, however long the run is.

use scheduler::time::{Span, Time};

/// The largest number of pieces: as many as a figure can show.
const N_PIECES_MAX: usize = 512;

/// Core time in pieces of equal width; the width doubles when the pieces are too few.
#[derive(Clone, Debug)]
pub struct Timeline {
    begin: Time,
    width: Span,
    /// Core-microseconds.
    pieces: Vec<u128>,
}

impl Timeline {
    pub(super) fn new(begin: Time) -> Timeline {
        Timeline { begin, width: Span::from_millis(1), pieces: Vec::new() }
    }

    /// Adds cores that were busy in a period.
    pub(super) fn add(&mut self, cores: u32, (from, to): (Time, Time)) {
        let (from, to) = (from.since(self.begin).0, to.since(self.begin).0);
        while to > self.width.0 * N_PIECES_MAX as u64 {
            self.double();
        }
        let width = self.width.0;
        let mut at = from;
        while at < to {
            let piece = at / width;
            let end = to.min((piece + 1) * width);
            if self.pieces.len() <= piece as usize {
                self.pieces.resize(piece as usize + 1, 0);
            }
            self.pieces[piece as usize] += u128::from(end - at) * u128::from(cores);
            at = end;
        }
    }

    fn double(&mut self) {
        self.width = self.width.times(2);
        self.pieces = self.pieces.chunks(2).map(|pair| pair.iter().sum()).collect();
    }

    /// Returns the mean busy cores in each piece: (its middle in seconds since the beginning, cores).
    pub fn points(&self) -> Vec<(f64, f64)> {
        let width = self.width.as_secs_f64();
        let point =
            |(n, piece): (usize, &u128)| ((n as f64 + 0.5) * width, *piece as f64 / self.width.0 as f64);
        self.pieces.iter().enumerate().map(point).collect()
    }

    /// Returns the sum in core-microseconds.
    pub fn total(&self) -> u128 {
        self.pieces.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use scheduler::time::Time;

    use super::{N_PIECES_MAX, Timeline};

    #[test]
    fn nothing_is_lost_when_pieces_grow() {
        let mut timeline = Timeline::new(Time(1_000));
        timeline.add(2, (Time(1_000), Time(4_500)));
        assert_eq!(timeline.points(), [(0.0005, 2.0), (0.0015, 2.0), (0.0025, 2.0), (0.0035, 1.0)]);
        timeline.add(1, (Time(3_000_000), Time(9_000_000)));
        assert_eq!(timeline.total(), 7_000 + 6_000_000);
        assert!(timeline.points().len() <= N_PIECES_MAX);
        assert!(timeline.points().iter().all(|(_, cores)| *cores <= 1.0));
    }
}
