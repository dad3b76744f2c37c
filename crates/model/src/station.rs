//! A station's weights: what each number of closed requests at it contributes to the product form.

use crate::network::Servers;

/// Weights and open requests for 0, 1, … closed requests at a station.
///
/// With `n` closed requests that need work `D` each, the weight is `Π D / exp(-log_weight[n])`. Open
/// requests, which bring the work `rho` a second, are summed out:
/// `Σ_m C(n+m, m) rho^m / Π_{k≤n+m} α(k)` with `α` the speed (Lavenberg 1983, chapter 3; Bruell, Balbo and
/// Afshari 1984 for mixed networks).
pub(crate) struct Weights {
    /// Natural logarithm of the weight without the demands.
    pub(crate) log_weight: Vec<f64>,
    /// Mean number of open requests.
    pub(crate) open: Vec<f64>,
    /// Probability that neither closed nor open requests are there, given 0 closed requests.
    pub(crate) empty: f64,
}

/// From this share of the capacity on, tails are summed in closed form: term by term would take too long.
const NEARLY_FULL: f64 = 0.999_9;

pub(crate) fn weights(servers: &Servers, most: u32, rho: f64) -> Weights {
    let mut log_alone = 0.0;
    let mut weights = Weights {
        log_weight: Vec::new(),
        open: Vec::new(),
        empty: 1.0,
    };
    for closed in 0..=most {
        if closed > 0 {
            log_alone -= servers.speed(closed).ln();
        }
        let (sum, open) = open_sum(servers, closed, rho);
        weights.log_weight.push(log_alone + sum.ln());
        weights.open.push(open);
        if closed == 0 {
            weights.empty = 1.0 / sum;
        }
    }
    weights
}

/// `Σ_m C(n+m, m) rho^m / Π_{k=n+1}^{n+m} α(k)`, and the mean of `m` under these terms.
fn open_sum(servers: &Servers, closed: u32, rho: f64) -> (f64, f64) {
    if rho <= 0.0 {
        return (1.0, 0.0);
    }
    if *servers == Servers::Infinite {
        return (rho.exp(), rho);
    }
    let share = rho / servers.capacity();
    let first = f64::from(closed) + 1.0;
    let full = (
        (-first * (-share).ln_1p()).exp(),
        first * share / (1.0 - share),
    );
    let head = servers.full_from().saturating_sub(closed);
    if head == 0 {
        return full;
    }
    // The terms until the station is full, and beside them those of a station that is always full.
    let (mut term, mut always) = (1.0, 1.0);
    let (mut sum, mut weighted) = (0.0, 0.0);
    let (mut always_sum, mut always_weighted) = (0.0, 0.0);
    for open in 0..head {
        let count = f64::from(open);
        sum += term;
        weighted += count * term;
        always_sum += always;
        always_weighted += count * always;
        let choices = (first + count) / (count + 1.0);
        term *= choices * rho / servers.speed(closed + open + 1);
        always *= choices * share;
    }
    if share > NEARLY_FULL {
        let scale = term / always;
        sum += scale * (full.0 - always_sum);
        weighted += scale * (full.0 * full.1 - always_weighted);
    } else {
        let mut count = f64::from(head);
        // Terms rise while the ratio is above 1.
        while term > 1e-18 * sum || (first + count) / (count + 1.0) * share > 1.0 {
            sum += term;
            weighted += count * term;
            term *= (first + count) / (count + 1.0) * share;
            count += 1.0;
        }
    }
    (sum, weighted / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_server_with_open_requests_has_the_negative_binomial_sum() {
        let found = weights(&Servers::Count(1), 5, 0.6);
        for closed in 0..=5_u32 {
            let n = f64::from(closed) + 1.0;
            let at = closed as usize;
            assert!((found.log_weight[at] + n * 0.4_f64.ln()).abs() < 1e-13);
            assert!((found.open[at] - n * 1.5).abs() < 1e-12);
        }
    }

    #[test]
    fn both_ways_of_summing_the_tail_agree() {
        // Around the share where the method changes, the sums continue smoothly: compare with a sum
        // term by term of one million terms.
        let servers = Servers::Count(3);
        for share in [0.5, 0.999, 0.999_95] {
            let rho = 3.0 * share;
            let (sum, open) = open_sum(&servers, 1, rho);
            let (mut term, mut direct, mut weighted) = (1.0, 0.0, 0.0);
            for m in 0..1_000_000_u32 {
                direct += term;
                weighted += f64::from(m) * term;
                term *= f64::from(m + 2) / f64::from(m + 1) * rho / servers.speed(m + 2);
            }
            assert!((sum / direct - 1.0).abs() < 1e-9, "{share}: {sum} {direct}");
            assert!(
                (open / (weighted / direct) - 1.0).abs() < 1e-9,
                "{share}: {open}"
            );
        }
    }
}
