//! Mean visits from routes.

/// Mean visits to each station from the routes: `v = start + v P`, by Gaussian elimination. `None` when a
/// request may stay for ever.
pub(super) fn visits(routes: &[Vec<(usize, f64)>]) -> Option<Vec<f64>> {
    let count = routes.len() - 1;
    // Rows of (I - P^T | start).
    let mut rows = vec![vec![0.0; count + 1]; count];
    for (station, row) in rows.iter_mut().enumerate() {
        row[station] = 1.0;
    }
    for (to, chance) in &routes[0] {
        rows[*to][count] += chance;
    }
    for (from, next) in routes[1..].iter().enumerate() {
        for (to, chance) in next {
            rows[*to][from] -= chance;
        }
    }
    for column in 0..count {
        let pivot = (column..count)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-12 {
            return None;
        }
        let (done, rest) = rows.split_at_mut(column + 1);
        let pivot = &done[column];
        for row in rest {
            let factor = row[column] / pivot[column];
            if factor != 0.0 {
                for (value, base) in row[column..].iter_mut().zip(&pivot[column..]) {
                    *value -= factor * base;
                }
            }
        }
    }
    let mut visits = vec![0.0; count];
    for column in (0..count).rev() {
        let known: f64 = (column + 1..count)
            .map(|other| rows[column][other] * visits[other])
            .sum();
        visits[column] = (rows[column][count] - known) / rows[column][column];
    }
    visits
        .iter()
        .all(|visits| visits.is_finite() && *visits >= -1e-9)
        .then(|| visits.iter().map(|visits| visits.max(0.0)).collect())
}
