//! Numbers that look random and come from a seed alone (SplitMix64).

/// Draws numbers.
pub struct Luck(u64);

impl Luck {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Luck {
        Luck(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// At least the first, below the second.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.number() % (to - from)
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.number() as usize % of.len()].clone()
    }
}
