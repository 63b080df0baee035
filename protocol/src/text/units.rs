//! Durations and byte sizes as people write them: `1h 30m`, `00:10:00`, `2GiB`.
//!
//! Integers throughout: milliseconds and bytes in a `u64`.

use thiserror::Error;

const SECOND_MS: u128 = 1_000;
const MINUTE_MS: u128 = 60 * SECOND_MS;
const HOUR_MS: u128 = 60 * MINUTE_MS;
const DAY_MS: u128 = 24 * HOUR_MS;

/// Units of time, longest first, as they are shown.
const DURATION_UNITS: [(&str, u128); 5] =
    [("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("ms", 1)];

/// Units of memory, largest first, as they are shown.
const BYTE_UNITS: [(&str, u128); 11] = [
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// A duration or size that cannot be read. The messages say what would be right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnitError {
    /// A number alone says nothing of its size.
    #[error("give it a unit, like {example}")]
    NoUnit {
        /// The number with the likely unit.
        example: String,
    },
    /// The same behind others that have one.
    #[error("give {number} a unit, like {example}")]
    NoLastUnit {
        /// The number.
        number: String,
        /// All of it with the likely unit.
        example: String,
    },
    /// Not a unit.
    #[error("`{unit}` is not a unit; the units are {known}")]
    UnknownUnit {
        /// What stands for one.
        unit: String,
        /// Those that are.
        known: &'static str,
    },
    /// No number where one is needed.
    #[error("write {example}")]
    Malformed {
        /// How it is written.
        example: &'static str,
    },
    /// More minutes than an hour has, or more seconds than a minute.
    #[error("minutes and seconds go up to 59; write {right}")]
    BeyondSixty {
        /// The same time as it is written.
        right: String,
    },
    /// More than a `u64` holds.
    #[error("that is too much")]
    TooLarge,
}

const DURATION_EXAMPLE: &str = "a duration like 10s, 1h 30m, 500ms or 00:10:00";
const BYTES_EXAMPLE: &str = "a size like 500MB or 2GiB";

/// Reads a duration into milliseconds: `10s`, `1h 30m`, `1.5h`, `500ms`, `HH:MM:SS`, `D-HH:MM:SS`.
///
/// # Errors
/// Anything else, and a number without a unit other than 0.
pub fn parse_duration_ms(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    if text.contains(':') {
        return parse_clock_ms(text);
    }
    let scale_of = |unit: &str| match unit {
        "ms" | "msec" | "millisecond" | "milliseconds" => Some(1),
        "s" | "sec" | "second" | "seconds" => Some(SECOND_MS),
        "m" | "min" | "minute" | "minutes" => Some(MINUTE_MS),
        "h" | "hr" | "hour" | "hours" => Some(HOUR_MS),
        "d" | "day" | "days" => Some(DAY_MS),
        _ => None,
    };
    let mut rest = text;
    let mut total: u128 = 0;
    // The next unit below that of the part before.
    let mut finer = None;
    loop {
        let (number, unit, next) =
            split_quantity(rest).ok_or(UnitError::Malformed { example: DURATION_EXAMPLE })?;
        if unit.is_empty() {
            if number.is_zero() && text == rest && next.is_empty() {
                return Ok(0);
            }
            let before = text[..text.len() - rest.len()].trim_end();
            let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            return Err(match finer {
                Some(unit) => UnitError::NoLastUnit { example: format!("{before} {number}{unit}"), number },
                None if before.is_empty() => UnitError::NoUnit { example: format!("{number}s or {number}m") },
                None => UnitError::Malformed { example: DURATION_EXAMPLE },
            });
        }
        let scale = scale_of(unit)
            .ok_or_else(|| UnitError::UnknownUnit { unit: unit.to_owned(), known: "ms, s, m, h and d" })?;
        total = total.saturating_add(number.times(scale).ok_or(UnitError::TooLarge)?);
        finer = DURATION_UNITS.iter().find(|(_, other)| *other < scale).map(|(unit, _)| *unit);
        if next.is_empty() {
            return u64::try_from(total).map_err(|_| UnitError::TooLarge);
        }
        rest = next;
    }
}

/// Reads a size into bytes: `2GiB`, `512 MB`, `1.5G`, `100B`. K, M, G, T, P and KiB, MiB, … count
/// in 1024s; kB, MB, GB, TB, PB in 1000s.
///
/// # Errors
/// Anything else, and a number without a unit other than 0.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let text = text.trim();
    let malformed = UnitError::Malformed { example: BYTES_EXAMPLE };
    let (number, unit, next) = split_quantity(text).ok_or(malformed.clone())?;
    if !next.is_empty() {
        return Err(malformed);
    }
    if unit.is_empty() {
        return if number.is_zero() {
            Ok(0)
        } else {
            Err(UnitError::NoUnit { example: format!("{text}MiB or {text}GiB") })
        };
    }
    let scale = match unit.to_ascii_lowercase().as_str() {
        "b" | "byte" | "bytes" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "p" | "pi" | "pib" => 1 << 50,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => {
            let known = "B, KiB, MiB, GiB, TiB (1024s) and kB, MB, GB, TB (1000s)";
            return Err(UnitError::UnknownUnit { unit: unit.to_owned(), known });
        }
    };
    let bytes = number.times(scale).ok_or(UnitError::TooLarge)?;
    u64::try_from(bytes).map_err(|_| UnitError::TooLarge)
}

/// A duration in milliseconds as `parse_duration_ms` reads it: `1h 30m`, exactly.
pub fn show_duration(duration_ms: u64) -> String {
    let mut rest = u128::from(duration_ms);
    let mut shown = Vec::new();
    for (unit, scale) in DURATION_UNITS {
        if rest >= scale {
            shown.push(format!("{}{unit}", rest / scale));
            rest %= scale;
        }
    }
    if shown.is_empty() { "0s".to_owned() } else { shown.join(" ") }
}

/// A size in bytes as `parse_bytes` reads it, in the largest unit that is exact: `1536MiB`, `100MB`.
pub fn show_bytes(bytes: u64) -> String {
    let wide = u128::from(bytes);
    let unit = BYTE_UNITS.iter().find(|(_, scale)| wide > 0 && wide.is_multiple_of(*scale));
    unit.map_or("0B".to_owned(), |(unit, scale)| format!("{}{unit}", wide / scale))
}

/// A decimal number: `digits / 10^n_decimals`.
struct Decimal {
    digits: u128,
    n_decimals: u32,
}

impl Decimal {
    fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// The number times a scale, rounded down; `None` when that is too much.
    fn times(&self, scale: u128) -> Option<u128> {
        Some(self.digits.checked_mul(scale)? / 10_u128.pow(self.n_decimals))
    }
}

/// The number and the unit that a text begins with, and the rest of it.
fn split_quantity(text: &str) -> Option<(Decimal, &str, &str)> {
    /// So many that their power of ten and the number fit a `u128` many times over.
    const N_DIGITS_MAX: usize = 20;
    let number_len = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(number_len);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || number.ends_with('.') || decimals.contains('.') || number.len() > N_DIGITS_MAX {
        return None;
    }
    let digits = format!("{whole}{decimals}").parse().ok()?;
    let rest = rest.trim_start();
    let unit_len = rest.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(rest.len());
    let (unit, next) = rest.split_at(unit_len);
    Some((Decimal { digits, n_decimals: decimals.len() as u32 }, unit, next.trim_start()))
}

/// `HH:MM:SS` or `D-HH:MM:SS`. `MM:SS` is refused: batch systems disagree on it.
fn parse_clock_ms(text: &str) -> Result<u64, UnitError> {
    let malformed = || UnitError::Malformed { example: DURATION_EXAMPLE };
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else { return Err(malformed()) };
    let field = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse::<u32>().ok()).flatten().map(u128::from);
        number.ok_or_else(malformed)
    };
    let (minutes, seconds) = (field(minutes)?, field(seconds)?);
    let total = field(days)? * DAY_MS + field(hours)? * HOUR_MS + minutes * MINUTE_MS + seconds * SECOND_MS;
    if minutes >= 60 || seconds >= 60 {
        return Err(UnitError::BeyondSixty { right: show_clock(total) });
    }
    u64::try_from(total).map_err(|_| UnitError::TooLarge)
}

/// `HH:MM:SS`
fn show_clock(duration_ms: u128) -> String {
    let seconds = duration_ms / SECOND_MS;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{parse_bytes, parse_duration_ms, show_bytes, show_duration};

    #[test]
    fn more_minutes_than_an_hour_has_are_refused_with_what_is_right() {
        for (text, right) in [("00:90:00", "01:30:00"), ("1-00:00:75", "24:01:15"), ("99:60:00", "100:00:00")]
        {
            let error = parse_duration_ms(text).unwrap_err().to_string();
            assert_eq!(error, format!("minutes and seconds go up to 59; write {right}"), "{text}");
            assert!(parse_duration_ms(right).is_ok());
        }
        assert!(parse_duration_ms("00:9x:00").unwrap_err().to_string().contains("a duration like"));
    }

    #[test]
    fn a_number_without_a_unit_is_shown_with_the_likely_one() {
        for (text, told) in [
            ("30", "give it a unit, like 30s or 30m"),
            ("30 5m", "give it a unit, like 30s or 30m"),
            ("1h30", "give 30 a unit, like 1h 30m"),
            ("1 day 1h 30", "give 30 a unit, like 1 day 1h 30m"),
            ("2m 30 5s", "give 30 a unit, like 2m 30s"),
            ("1s 5", "give 5 a unit, like 1s 5ms"),
            ("1ms 5", "write a duration like 10s, 1h 30m, 500ms or 00:10:00"),
        ] {
            assert_eq!(parse_duration_ms(text).unwrap_err().to_string(), told, "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, ms) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("1h 30m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2 days", 172_800_000),
            ("00:10:00", 600_000),
            ("100:00:01", 360_001_000),
            ("1-00:00:00", 86_400_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("2G", 2 << 30),
            ("2 GB", 2_000_000_000),
            ("1.5K", 1536),
            ("3kB", 3_000),
            ("3KiB", 3_072),
            ("3MB", 3_000_000),
            ("3M", 3 << 20),
            ("3TB", 3_000_000_000_000),
            ("3Ti", 3 << 40),
            ("3PB", 3_000_000_000_000_000),
            ("3PiB", 3 << 50),
            ("100B", 100),
            ("0", 0),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn refusals_say_what_would_be_right() {
        let duration = |text| parse_duration_ms(text).unwrap_err().to_string();
        assert_eq!(duration("600"), "give it a unit, like 600s or 600m");
        assert_eq!(duration("10 parsecs"), "`parsecs` is not a unit; the units are ms, s, m, h and d");
        for text in ["", "soon", "-5s", "1h 30", "10:00", "1:60:00", "1:2:3:4", "1..5h", ".5h", "5.h", "é"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
        assert_eq!(duration("99999999999999999999d"), "that is too much");
        let bytes = |text| parse_bytes(text).unwrap_err().to_string();
        assert_eq!(bytes("2"), "give it a unit, like 2MiB or 2GiB");
        assert_eq!(
            bytes("2 Gigs"),
            "`Gigs` is not a unit; the units are B, KiB, MiB, GiB, TiB (1024s) and kB, MB, GB, TB (1000s)"
        );
        assert_eq!(bytes("-1G"), "write a size like 500MB or 2GiB");
        assert_eq!(bytes("99999999P"), "that is too much");
    }

    #[test]
    fn size_is_shown_in_the_largest_unit_that_is_exact() {
        let shown = [0, 1, 1024, 1000, 100_000_000, 1536 << 20, 2 << 30].map(show_bytes);
        assert_eq!(shown, ["0B", "1B", "1KiB", "1kB", "100MB", "1536MiB", "2GiB"]);
    }

    proptest! {
        #[test]
        fn duration_shown_is_read_back(ms in any::<u64>()) {
            prop_assert_eq!(parse_duration_ms(&show_duration(ms)), Ok(ms));
        }

        #[test]
        fn size_shown_is_read_back(bytes in any::<u64>(), shift in 0_u32..64) {
            let bytes = bytes >> shift << (shift / 2);
            prop_assert_eq!(parse_bytes(&show_bytes(bytes)), Ok(bytes));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}", digits in "[0-9.:dhms -]{0,30}") {
            let _ = (parse_duration_ms(&text), parse_bytes(&text)); // Only that it ends without a panic.
            let _ = (parse_duration_ms(&digits), parse_bytes(&digits));
        }
    }
}
