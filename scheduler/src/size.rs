//! Sizes for people, in the same form everywhere.

use std::fmt;

/// A number of bytes, shown in the largest unit of 1024s with one decimal: `512 B`, `95.4 MiB`, `1.0 GiB`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut amount = self.0 as f64 / 1024.0;
        let mut units = UNITS.iter();
        let mut unit = units.next();
        // An amount that would be rounded to 1024.0 is 1.0 of the next unit.
        while amount >= 1023.95 && units.len() > 0 {
            amount /= 1024.0;
            unit = units.next();
        }
        write!(f, "{amount:.1} {}", unit.copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::Size;

    #[test]
    fn sizes_have_one_decimal_and_never_1024_of_a_unit() {
        let shown: Vec<String> =
            [0, 1023, 1024, 1536, (1 << 20) - 1, 5 << 30].into_iter().map(|n| Size(n).to_string()).collect();
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 GiB"]);
        assert_eq!(Size(100_000_000).to_string(), "95.4 MiB", "100MB");
        assert_eq!(Size(u64::MAX).to_string(), "16.0 EiB");
    }
}
