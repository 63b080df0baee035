//! A seeded permutation of `0..domain` that is computed for one index at a time.
//!
//! An alternating Feistel network over the smallest power of two that holds the domain, with cycle
//! walking: while the result lies outside the domain, it is fed in again. The network is a
//! bijection of its power of two, so the walk is a bijection of the domain and ends; it takes
//! fewer than two steps on average. Only integer arithmetic on `u64`: the same everywhere. The
//! constants and the number of rounds are part of the job format and never change.

/// Enough for every bit to depend on every other also when the halves have one or two bits.
const ROUNDS: usize = 12;

/// A bijection of `0..domain`, fixed by a seed.
#[derive(Clone, Debug)]
pub struct Permutation {
    domain: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..domain` that belongs to `seed`.
    pub fn new(seed: u64, domain: u64) -> Permutation {
        // The bits of the largest index; at least two, so that both halves have one.
        let bits = (u64::BITS - domain.saturating_sub(1).leading_zeros()).max(2);
        let low_bits = bits.div_ceil(2);
        let mut keys = [0; ROUNDS];
        let mut state = seed;
        for key in &mut keys {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            *key = mix(state);
        }
        Permutation {
            domain,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys,
        }
    }

    /// Where `index` goes. Indices past the domain wrap; an empty domain gives 0.
    pub fn at(&self, index: u64) -> u64 {
        if self.domain <= 1 {
            return 0;
        }
        let mut position = self.network(index % self.domain);
        while position >= self.domain {
            position = self.network(position);
        }
        position
    }

    fn network(&self, position: u64) -> u64 {
        let mut low = position & self.low_mask;
        let mut high = position >> self.low_bits;
        for pair in self.keys.chunks_exact(2) {
            low ^= mix(high ^ pair[0]) & self.low_mask;
            high ^= mix(low ^ pair[1]) & self.high_mask;
        }
        high << self.low_bits | low
    }
}

/// The output function of splitmix64 (Steele, Lea, Flood 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::Permutation;

    #[test]
    fn sample_is_the_same_in_every_version() {
        let drawn: Vec<u64> = (0..8).map(|i| Permutation::new(7, 1_000_000).at(i)).collect();
        assert_eq!(drawn, [639532, 587025, 826521, 216205, 669421, 186640, 732347, 475743]);
    }

    #[test]
    fn every_index_is_drawn_about_equally_often() {
        let n_seeds = 4000;
        for domain in [2, 3, 10, 17] {
            let mut counts = vec![0_u64; domain as usize];
            for seed in 0..n_seeds {
                counts[Permutation::new(seed, domain).at(0) as usize] += 1;
            }
            let expected = n_seeds / domain;
            for count in &counts {
                assert!(count.abs_diff(expected) < expected / 4 + 20, "domain {domain}: {counts:?}");
            }
        }
    }

    #[test]
    fn largest_domains_are_computed() {
        for domain in [u64::MAX, 1 << 63, 1_000_000_000_000_000_000] {
            assert!(Permutation::new(1, domain).at(domain - 1) < domain);
        }
    }
}
