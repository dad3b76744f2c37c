//! A demand as a function of the number of requests: three mechanisms, none negative.

/// `base_s + wake_ups_s / n + cold_caches_s (√n - 1)` with n requests in the network.
///
/// n processes share a cache, and misses grow with the square root of the reduction of a process's share (the √2 rule:
/// A. Hartstein, V. Srinivasan, T. Puzak, P. Emma, "Cache miss behavior: is it √2?", 2006).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Curve {
    /// Work that does not depend on the load.
    pub base_s: f64,
    /// Processors that sleep and are woken up: the more requests, the more rarely.
    pub wake_ups_s: f64,
    /// Processes that find less of their data in the processor's caches, the more of them take turns.
    pub cold_caches_s: f64,
}

impl Curve {
    /// The value with `clients` requests.
    #[must_use]
    pub fn at(&self, clients: f64) -> f64 {
        self.base_s + self.wake_ups_s / clients + self.cold_caches_s * (clients.sqrt() - 1.0)
    }

    /// Least squares of relative errors with no negative part. Two points have two parts, one point has one.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Self {
        let mut best = (f64::INFINITY, Self::default());
        // Every subset of the parts: the best with non-negative values is the solution.
        for subset in 1..8_u32 {
            let parts: Vec<usize> = (0..3).filter(|part| subset & (1 << part) != 0).collect();
            if parts.len() > points.len() {
                continue;
            }
            let Some(values) = least_squares(points, &parts) else {
                continue;
            };
            if values.iter().any(|value| *value < 0.0) {
                continue;
            }
            let mut all = [0.0; 3];
            for (part, value) in parts.iter().zip(&values) {
                all[*part] = *value;
            }
            let curve = Self {
                base_s: all[0],
                wake_ups_s: all[1],
                cold_caches_s: all[2],
            };
            let error: f64 = points
                .iter()
                .map(|(n, value)| (curve.at(*n) / value - 1.0).powi(2))
                .sum();
            // Fewer parts that are as good come first and stay.
            if error < best.0 - 1e-12 {
                best = (error, curve);
            }
        }
        best.1
    }
}

fn basis(part: usize, clients: f64) -> f64 {
    match part {
        0 => 1.0,
        1 => 1.0 / clients,
        _ => clients.sqrt() - 1.0,
    }
}

/// Normal equations by Gaussian elimination; none when the points do not determine the parts.
fn least_squares(points: &[(f64, f64)], parts: &[usize]) -> Option<Vec<f64>> {
    let count = parts.len();
    let mut rows = vec![vec![0.0; count + 1]; count];
    for (clients, value) in points {
        let row: Vec<f64> = parts
            .iter()
            .map(|part| basis(*part, *clients) / value)
            .collect();
        for i in 0..count {
            for j in 0..count {
                rows[i][j] += row[i] * row[j];
            }
            rows[i][count] += row[i];
        }
    }
    let whole: Vec<f64> = (0..count).map(|at| rows[at][at]).collect();
    for column in 0..count {
        let scale = rows[column][column];
        // Two runs with the same number of clients do not tell two parts apart.
        if scale <= 1e-9 * whole[column] {
            return None;
        }
        for value in &mut rows[column] {
            *value /= scale;
        }
        let pivot = rows[column].clone();
        for (at, row) in rows.iter_mut().enumerate() {
            if at != column {
                let factor = row[column];
                for (value, base) in row.iter_mut().zip(&pivot) {
                    *value -= factor * base;
                }
            }
        }
    }
    let values: Vec<f64> = rows.iter().map(|row| row[count]).collect();
    values
        .iter()
        .all(|value| value.is_finite())
        .then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_points_are_met_when_all_parts_are_positive() {
        let made = Curve {
            base_s: 3e-4,
            wake_ups_s: 4e-4,
            cold_caches_s: 2e-5,
        };
        let points = [1.0, 8.0, 100.0].map(|n| (n, made.at(n)));
        let found = Curve::fit(&points);
        for n in [1.0, 3.0, 30.0, 200.0] {
            assert!((found.at(n) / made.at(n) - 1.0).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn no_part_is_negative_and_one_point_is_a_constant() {
        // Falls from 8 to 100, which neither wake-ups nor cold caches explain alone.
        let falling = Curve::fit(&[(1.0, 3e-4), (8.0, 5e-4), (100.0, 2e-4)]);
        assert!(falling.base_s >= 0.0 && falling.wake_ups_s >= 0.0 && falling.cold_caches_s >= 0.0);
        let one = Curve::fit(&[(8.0, 5e-4)]);
        assert!((one.at(1.0) - 5e-4).abs() < 1e-12 && (one.at(200.0) - 5e-4).abs() < 1e-12);
    }
}
