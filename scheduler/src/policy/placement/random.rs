//! Random: any platform that has room. An inner policy of the look-ahead only (paper 001, figure 12).

use super::floor::with_room;
use crate::rng::Rng;

pub(super) fn choose(free: &[u64], cores: u64, luck: &mut Rng) -> Option<usize> {
    let n = with_room(free, cores).count() as u64;
    with_room(free, cores).nth(luck.below(n) as usize)
}

#[cfg(test)]
mod tests {
    use super::{Rng, choose};

    #[test]
    fn each_platform_that_has_room_is_as_likely_as_another() {
        let mut luck = Rng::new(1);
        let mut n_chosen = [0_u32; 5];
        for _ in 0..3000 {
            n_chosen[choose(&[4, 1, 9, 3, 2], 3, &mut luck).expect("three have room")] += 1;
        }
        assert_eq!((n_chosen[1], n_chosen[4]), (0, 0));
        for at in [0, 2, 3] {
            assert!(n_chosen[at].abs_diff(1000) < 150, "{n_chosen:?}");
        }
        assert_eq!(choose(&[4, 1, 9], 10, &mut luck), None);
        assert_eq!(choose(&[], 0, &mut luck), None);
    }
}
