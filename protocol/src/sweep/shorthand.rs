//! Sweeps written on the command line: `--array 1-1000,2000-3000:2`.

use crate::problem::Problem;
use crate::sweep::{Dimension, IntegerRange, Values};

/// More runs than anyone types; each costs time at every task.
const N_RANGES_MAX: usize = 10_000;

/// A dimension named `name` from a list of numbers and ranges with inclusive ends, as batch systems
/// write arrays: `1-1000,2000-3000:2,7`. Held as ranges, whatever their length.
///
/// # Errors
/// A part that is not a number or a range, a step of 0, or ends in the wrong order.
pub fn parse_array(name: &str, text: &str) -> Result<Dimension, Problem> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > N_RANGES_MAX {
        let found = format!("{} ranges", parts.len());
        return Err(Problem::new("--array", found, format!("write at most {N_RANGES_MAX}")));
    }
    let ranges = parts.into_iter().map(parse_range).collect::<Result<_, _>>()?;
    Ok(Dimension::column(name, Values::Integers(ranges)))
}

fn parse_range(part: &str) -> Result<IntegerRange, Problem> {
    let refuse = |expected: &str| Problem::new("--array", format!("`{part}`"), expected);
    let malformed = || refuse("write numbers and ranges like 1-1000, 1-1000:2 or 7, with commas between");
    let (ends, step) = part.split_once(':').unwrap_or((part, "1"));
    let (from, to) = ends.split_once('-').unwrap_or((ends, ends));
    let number = |digits: &str| {
        // u32 digits only: no signs, which would be confused with the dash.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        if digits.is_empty() {
            return Err(malformed());
        }
        digits.parse::<i64>().map_err(|_| refuse("the numbers must be below 2^63"))
    };
    let (from, to, step) = (number(from)?, number(to)?, number(step)?);
    if step == 0 {
        return Err(refuse("the step must not be 0"));
    }
    IntegerRange::between(from, to, step).ok_or_else(|| refuse("the first number must not exceed the last"))
}

#[cfg(test)]
mod tests {
    use super::parse_array;
    use crate::sweep::Sweep;

    fn numbers(text: &str) -> String {
        match parse_array("i", text) {
            Ok(dimension) => {
                let sweep = Sweep { dimensions: vec![dimension], sample: None };
                let values: Vec<String> =
                    (0..sweep.n_tasks()).map(|index| sweep.values(index)[0].to_string()).collect();
                values.join(" ")
            }
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn array_is_read_as_batch_systems_write_it() {
        assert_eq!(numbers("1-4"), "1 2 3 4");
        assert_eq!(numbers("0-6:3, 10-13:2,7"), "0 3 6 10 12 7");
        assert_eq!(numbers("5"), "5");
    }

    #[test]
    fn array_of_a_billion_is_a_range() {
        let dimension = parse_array("i", "1-1000000000").unwrap();
        assert_eq!(dimension.len(), 1_000_000_000);
    }

    #[test]
    fn malformed_arrays_are_refused() {
        let how = "write numbers and ranges like 1-1000, 1-1000:2 or 7, with commas between";
        for text in ["", "a", "1-", "-3", "1--3", "1,,2", "1-3:x", "1.5"] {
            let part = if text == "1,,2" { "" } else { text };
            assert_eq!(numbers(text), format!("--array: found `{part}`; {how}"));
        }
        let large = "1-99999999999999999999";
        assert_eq!(numbers(large), format!("--array: found `{large}`; the numbers must be below 2^63"));
        assert_eq!(numbers("1-3:0"), "--array: found `1-3:0`; the step must not be 0");
        assert_eq!(numbers("3-1"), "--array: found `3-1`; the first number must not exceed the last");
    }
}
