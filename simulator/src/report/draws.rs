//! The summary of several draws.

/// Mean and standard deviation of draws.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Draws {
    /// The mean of all draws; 0 without any.
    pub mean: f64,
    /// The standard deviation, with n - 1; 0 for one draw.
    pub sd: f64,
    /// Number of draws.
    pub n: usize,
}

impl Draws {
    /// Summarizes these values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Draws {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n.max(1) as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        Draws { mean, sd, n }
    }

    /// Formats the numbers with `n_digits` digits after the point; for one draw the mean alone.
    pub fn shown(&self, n_digits: usize) -> String {
        // Rounding may give -0, which becomes 0.
        let unit = 10_f64.powi(n_digits as i32);
        let mean = (self.mean * unit).round() / unit + 0.0;
        match self.n {
            0 | 1 => format!("{mean:.n_digits$}"),
            _ => format!("{mean:.n_digits$} ± {:.n_digits$}", self.sd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;

    #[test]
    fn draws_have_a_mean_and_a_deviation() {
        let draws = Draws::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((draws.mean, draws.n), (5.0, 8));
        assert!((draws.sd - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(draws.shown(2), "5.00 ± 2.14");
        assert_eq!(Draws::of([-0.04]).shown(1), "0.0");
        assert_eq!(Draws::of([]), Draws::default());
    }
}
