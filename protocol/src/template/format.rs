//! Number formats: `{x:06}`, `{x:.3}`, `{x:8.2f}`, `{x:e}`.

use crate::sweep::Value;

/// Wider than any number; what is wider is a mistake.
const WIDTH_MAX: usize = 64;
/// More digits than a float has.
const PRECISION_MAX: usize = 32;
/// What `f` means without a precision, as in C and Python.
const PRECISION_DEFAULT: usize = 6;

pub(super) const FORMAT_HELP: &str =
    "write {name:06} (zeros to width 6), {name:.3} (3 decimals), {name:8.2f}, {name:e} or {name:d}";

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFormat {
    is_zero_padded: bool,
    width: usize,
    precision: Option<usize>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As the number is; with a precision as `Fixed`.
    Plain,
    Integer,
    Fixed,
    Exponent,
}

impl NumberFormat {
    /// Reads `[0][width][.precision][f|e|d]`, at least one of them.
    pub fn parse(text: &str) -> Option<NumberFormat> {
        let (body, kind) = match text.as_bytes().last()? {
            b'f' => (&text[..text.len() - 1], Kind::Fixed),
            b'e' => (&text[..text.len() - 1], Kind::Exponent),
            b'd' => (&text[..text.len() - 1], Kind::Integer),
            _ => (text, Kind::Plain),
        };
        let (width, precision) = match body.split_once('.') {
            Some((width, precision)) => (width, Some(parse_digits(precision, PRECISION_MAX)?)),
            None => (body, None),
        };
        if kind == Kind::Integer && precision.is_some() {
            return None;
        }
        let is_zero_padded = width.len() > 1 && width.starts_with('0');
        let width = if width.is_empty() { 0 } else { parse_digits(width, WIDTH_MAX)? };
        Some(NumberFormat { is_zero_padded, width, precision, kind })
    }

    /// Whether a value can be written so.
    pub fn takes(&self, value: Value<'_>) -> bool {
        match self.kind {
            Kind::Integer => value.integer().is_some(),
            Kind::Plain | Kind::Fixed | Kind::Exponent => value.number().is_some(),
        }
    }

    /// What `takes` demands, for messages.
    pub fn demand(&self) -> &'static str {
        match self.kind {
            Kind::Integer => "a whole number",
            Kind::Plain | Kind::Fixed | Kind::Exponent => "a number",
        }
    }

    /// The value as text; one that is not a number stays as it is.
    pub fn write(&self, value: Value<'_>) -> String {
        let digits = match (self.kind, self.precision) {
            (Kind::Integer, _) | (Kind::Plain, None) => match value.integer() {
                Some(number) => number.to_string(),
                None => value.to_string(),
            },
            (Kind::Plain | Kind::Fixed, precision) => match value.number() {
                Some(number) => format!("{number:.*}", precision.unwrap_or(PRECISION_DEFAULT)),
                None => return value.to_string(),
            },
            (Kind::Exponent, Some(precision)) => match value.number() {
                Some(number) => format!("{number:.precision$e}"),
                None => return value.to_string(),
            },
            (Kind::Exponent, None) => match value.number() {
                Some(number) => format!("{number:e}"),
                None => return value.to_string(),
            },
        };
        self.pad(&digits)
    }

    fn pad(&self, digits: &str) -> String {
        let n_missing = self.width.saturating_sub(digits.chars().count());
        if !self.is_zero_padded {
            return " ".repeat(n_missing) + digits;
        }
        // Zeros go between the sign and the digits.
        match digits.strip_prefix('-') {
            Some(unsigned) => format!("-{}{unsigned}", "0".repeat(n_missing)),
            None => "0".repeat(n_missing) + digits,
        }
    }
}

fn parse_digits(digits: &str, max: usize) -> Option<usize> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten().filter(|number| *number <= max)
}

#[cfg(test)]
mod tests {
    use super::NumberFormat;
    use crate::sweep::Value;

    fn written(format: &str, value: Value<'_>) -> String {
        NumberFormat::parse(format).map_or("refused".to_owned(), |format| format.write(value))
    }

    #[test]
    fn numbers_are_written_as_asked() {
        for (format, value, expected) in [
            ("06", Value::Integer(42), "000042"),
            ("06", Value::Integer(-42), "-00042"),
            ("6", Value::Integer(42), "    42"),
            (".3", Value::Float(0.12345), "0.123"),
            (".0f", Value::Float(25.0), "25"),
            ("8.2f", Value::Float(3.15159), "    3.15"),
            ("08.2f", Value::Float(-3.15159), "-0003.15"),
            ("f", Value::Integer(2), "2.000000"),
            ("e", Value::Float(1500.0), "1.5e3"),
            (".2e", Value::Text("0.000123"), "1.23e-4"),
            ("03", Value::Text("7"), "007"),
            ("03", Value::Text("007"), "007"),
            ("d", Value::Integer(5), "5"),
            ("0", Value::Integer(5), "5"),
            ("06", Value::Float(0.5), "0000.5"),
        ] {
            assert_eq!(written(format, value), expected, "{format} {value:?}");
        }
    }

    #[test]
    fn unknown_formats_are_refused() {
        for format in ["", "x", "6x", ".", "1.2.3", ".f", "65", "s", ".33", ".2d", "ee", "+3"] {
            assert_eq!(written(format, Value::Integer(1)), "refused", "{format}");
        }
    }
}
