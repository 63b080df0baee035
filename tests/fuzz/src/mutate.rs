//! Small changes of valid inputs, drawn from a seed: what the fast version tries instead of coverage.

/// A generator that is the same everywhere (splitmix64).
pub struct Luck(pub u64);

impl Luck {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `n`; 0 when that is 0.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap_or(0)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// Numbers at which things break.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551614",
    "1e308",
    "0.1",
];

/// The largest varint of 64 bits, and lengths that promise too much.
const LARGE: [&[u8]; 3] = [
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 3],
];

/// A seed with a few changes.
pub fn mutated(seeds: &[Vec<u8>], words: &[&str], luck: &mut Luck) -> Vec<u8> {
    let mut bytes = luck.pick(seeds).clone();
    for _ in 0..=luck.below(6) {
        change(&mut bytes, seeds, words, luck);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str], luck: &mut Luck) {
    let at = luck.below(bytes.len() + 1);
    let end = at + luck.below((bytes.len() - at).min(24) + 1);
    match luck.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << luck.below(8),
        1 if at < bytes.len() => bytes[at] = *luck.pick(&[0, 1, 0x7f, 0x80, 0xff, b'0', b'-', b'{', b'"']),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        4 if !words.is_empty() => {
            let word = luck.pick(words).bytes();
            bytes.splice(at..end, word);
        }
        5 => replace_number(bytes, at, luck),
        6 => {
            let large = LARGE[luck.below(LARGE.len())];
            bytes.splice(at..end.min(at + 1), large.iter().copied());
        }
        7 => {
            let other = luck.pick(seeds);
            let from = luck.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => bytes.truncate(at.max(bytes.len() / 2)),
    }
}

/// Puts a number in the place of the next one in a text.
fn replace_number(bytes: &mut Vec<u8>, from: usize, luck: &mut Luck) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes[from..].iter().position(is_digit).map(|n| from + n) else { return };
    let n_digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = luck.pick(&NUMBERS).bytes();
    bytes.splice(start..start + n_digits, number);
}
