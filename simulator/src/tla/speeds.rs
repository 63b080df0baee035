//! The inequality of clusters: speeds drawn for a given heterogeneity SH, the variance of speed.

use scheduler::rng::Rng;

use crate::draw;

/// The least speed of a cluster. The paper gives no bound; chosen.
const SPEED_MIN: f64 = 0.1;
/// Number of draws before the heterogeneity counts as impossible.
const N_TRIES: u32 = 100_000;

/// Draws speeds of clusters with these numbers of cores. Their mean over cores is 1, so that the load is the
/// same as on equal clusters, and their mean squared difference from 1 is `heterogeneity`. All but two are
/// drawn from a normal distribution, the last two solve the two equations; all are drawn anew while these
/// have no real solution or a speed is not above 0.1. `None`: there are fewer than two clusters, or no such
/// speeds were found.
pub fn draw_speeds(cores: &[u64], heterogeneity: f64, luck: &mut Rng) -> Option<Vec<f64>> {
    if heterogeneity == 0.0 {
        return Some(vec![1.0; cores.len()]);
    }
    (0..N_TRIES).find_map(|_| try_speeds(cores, heterogeneity, luck))
}

fn try_speeds(cores: &[u64], heterogeneity: f64, luck: &mut Rng) -> Option<Vec<f64>> {
    let (drawn, [n, m]) = cores.split_last_chunk::<2>()?;
    let (n, m) = (*n as f64, *m as f64);
    let mut offs: Vec<f64> = drawn.iter().map(|_| heterogeneity.sqrt() * draw::normal(luck)).collect();
    let rest = -offs.iter().zip(drawn).map(|(off, cores)| off * *cores as f64).sum::<f64>();
    let square = cores.len() as f64 * heterogeneity - offs.iter().map(|off| off * off).sum::<f64>();
    // n x + m y = rest and x² + y² = square: the y of the first, put into the second.
    let (a, b, c) = (n * n + m * m, -2.0 * n * rest, rest * rest - m * m * square);
    let root = (b * b - 4.0 * a * c).sqrt();
    let x = (-b + root) / (2.0 * a);
    offs.extend([x, (rest - n * x) / m]);
    let speeds: Vec<f64> = offs.iter().map(|off| 1.0 + off).collect();
    // A root that is not real is NaN, which is greater than nothing.
    speeds.iter().all(|speed| *speed > SPEED_MIN).then_some(speeds)
}

#[cfg(test)]
mod tests {
    use scheduler::rng::Rng;

    #[test]
    fn speeds_have_mean_one_over_cores_and_the_variance_asked_for() {
        let mut luck = Rng::new(3);
        for cores in [vec![128; 5], vec![64, 32, 128, 16], vec![7; 2]] {
            for heterogeneity in [0.0, 0.1, 0.2] {
                let speeds = super::draw_speeds(&cores, heterogeneity, &mut luck).unwrap();
                let mean: f64 = speeds.iter().zip(&cores).map(|(s, n)| (s - 1.0) * *n as f64).sum();
                let variance = speeds.iter().map(|s| (s - 1.0).powi(2)).sum::<f64>() / cores.len() as f64;
                assert!(mean.abs() < 1e-9 && (variance - heterogeneity).abs() < 1e-12, "{speeds:?}");
                assert!(speeds.iter().all(|speed| *speed > 0.1));
            }
        }
        assert_eq!(super::draw_speeds(&[4, 4], 9.0, &mut luck), None);
        assert_eq!(super::draw_speeds(&[4], 0.1, &mut luck), None);
    }
}
