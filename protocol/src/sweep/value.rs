//! One value of a parameter, and how it reads as text.

use std::fmt;

/// A value as it goes into a template: a text as written, or a number that was computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Written by the user, or a path, a line, a CSV field.
    Text(&'a str),
    /// From a range.
    Integer(i64),
    /// From a linspace.
    Float(f64),
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Integer(number) => write!(f, "{number}"),
            // Debug keeps the point ("1.0") and switches to 1e-7 where zeros would pile up.
            Value::Float(number) => write!(f, "{number:?}"),
        }
    }
}

impl Value<'_> {
    /// The value as a whole number, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Text(text) => text.trim().parse().ok(),
            Value::Integer(number) => Some(*number),
            Value::Float(_) => None,
        }
    }

    /// The value as a finite number, if it is one.
    pub fn number(&self) -> Option<f64> {
        let number = match self {
            Value::Text(text) => text.trim().parse().ok()?,
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
        };
        Some(number).filter(|number: &f64| number.is_finite())
    }
}

/// Point `position` of `n` from `from` to `to`: both ends exact, what lies between rounded to 15
/// significant digits, so that tenths read `0.3` and not `0.30000000000000004`.
pub(super) fn point(from: f64, to: f64, n: u64, position: u64) -> f64 {
    if position == 0 {
        return from;
    }
    if position.saturating_add(1) >= n {
        return to;
    }
    let n_steps = (n - 1) as f64;
    let share = position as f64 / n_steps;
    let raw = from * (1.0 - share) + to * share;
    // What cancels to less than the ends' own rounding error is zero.
    let scale = from.abs().max(to.abs());
    if raw.abs() < scale * 1e-15 {
        return 0.0;
    }
    format!("{raw:.14e}").parse().unwrap_or(raw)
}
