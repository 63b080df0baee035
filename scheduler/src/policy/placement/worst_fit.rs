//! Worst fit: the platform where the most cores are left over, ties to the fastest. An inner policy of the
//! look-ahead only (paper 001, figure 12).

use super::floor::with_room;

pub(super) fn choose(free: &[u64], cores: u64) -> Option<usize> {
    let more = |best: usize, rank: usize| if free[rank] > free[best] { rank } else { best };
    with_room(free, cores).reduce(more)
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn most_is_left_over_and_of_equal_ones_the_fastest_is_taken() {
        for (free, cores, expected) in [
            (&[4, 9, 7][..], 3, Some(1)),
            (&[4, 7, 9], 3, Some(2)),
            (&[4, 9, 9], 3, Some(1)),
            (&[9, 4, 9], 9, Some(0)),
            (&[3, 2, 4], 4, Some(2)),
            (&[3, 2, 4], 5, None),
            (&[], 0, None),
        ] {
            assert_eq!(choose(free, cores), expected, "{cores} of {free:?}");
        }
    }
}
