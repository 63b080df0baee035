//! How long a test waits for an event before it takes the wait for a hang.

use std::time::Duration;

/// The variable in which `tests/run` passes how many times slower this machine is than the reference machine.
const SLOWNESS: &str = "PILOTFISH_TESTS_SLOWNESS";

/// Gives the limit of a wait, from what only a hang exceeds on the reference machine while the whole suite runs.
///
/// `tests/run` measures the machine before the first test; without it, the machine counts as the reference.
pub fn hang_limit(on_reference: Duration) -> Duration {
    on_reference.mul_f64(slowness(std::env::var(SLOWNESS).ok().as_deref()))
}

/// Between 1 and 100; 1 where the value is missing or no number.
fn slowness(value: Option<&str>) -> f64 {
    let said = value.and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
    said.unwrap_or(1.0).clamp(1.0, 100.0)
}

#[cfg(test)]
mod tests {
    use super::slowness;

    #[test]
    fn slowness_is_a_bounded_factor() {
        assert_eq!(slowness(None), 1.0);
        assert_eq!(slowness(Some("3.5")), 3.5);
        assert_eq!(slowness(Some("0.2")), 1.0);
        assert_eq!(slowness(Some("1e9")), 100.0);
        assert_eq!(slowness(Some("NaN")), 1.0);
        assert_eq!(slowness(Some("fast")), 1.0);
    }
}
