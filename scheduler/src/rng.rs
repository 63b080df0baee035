//! Seeded random numbers. The same seed gives the same numbers on every machine and in every version.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and any number is a good seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Makes a generator with this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Makes a generator that depends on nothing but the seed and these numbers.
    pub fn of(seed: u64, numbers: &[u64]) -> Rng {
        numbers.iter().fold(Rng(seed), |mut luck, number| Rng(luck.draw() ^ *number))
    }

    /// Returns any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to `n` - 1; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.draw().checked_rem(n).unwrap_or(0)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true once in `n` calls on average; never if `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// Returns one of the choices.
    ///
    /// # Panics
    /// There is none.
    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn draws_depend_on_the_seed_alone() {
        let draws = |seed| {
            let mut luck = Rng::new(seed);
            [luck.draw(), luck.below(10), luck.between(3, 4)]
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert_ne!(Rng::of(1, &[2, 3]).draw(), Rng::of(1, &[3, 2]).draw());
    }

    #[test]
    fn nothing_happens_once_in_zero_draws() {
        let mut luck = Rng::new(5);
        assert!((0..1000).all(|_| !luck.one_in(0)));
        assert!((0..1000).any(|_| luck.one_in(3)));
    }
}
